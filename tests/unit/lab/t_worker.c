/* SPDX-License-Identifier: ISC */
/* The rules of choice, each by itself, with numbers by hand (policy/schedule/worker.h;
 * contrib/documents.md). */
#include "tests/unit/test.h"
#include "tests/unit/lab/worker_world.h"

/* --- allowed_new_worker, next_router_job ---------------------------------------------- */

TEST(allowed_below_the_maximum_whatever_is_free) {
	struct worker_settings settings = worker_defaults;	/* 5, 10 */

	assert_true(worker_allowed(&settings, false, 0, 0));
	assert_true(worker_allowed(&settings, false, 4, 0));
	assert_false(worker_allowed(&settings, false, 5, 0));
}

TEST(allowed_above_the_maximum_by_free_workers) {
	struct worker_settings settings = worker_defaults;

	assert_true(worker_allowed(&settings, false, 9, 1));
	assert_false(worker_allowed(&settings, false, 10, 1));
	assert_true(worker_allowed(&settings, false, 19, 2));
	assert_false(worker_allowed(&settings, false, 20, 2));
	settings.scale_max_concurrency = 1;
	assert_true(worker_allowed(&settings, false, 6, 7));
	assert_false(worker_allowed(&settings, false, 7, 7));
	/* no overflow: 2^31 free, scale 10 */
	settings.scale_max_concurrency = 10;
	assert_true(worker_allowed(&settings, false, UINT32_C(1) << 31, UINT32_C(1) << 31));
}

TEST(router_takes_the_first_job_that_is_allowed) {
	struct worker_settings settings = worker_defaults;
	uint32_t jobs[] = { 1, 1, 2, 3 }, concurrency[] = { 0, 50, 20, 0 };

	/* 6 free: message 1 has 50 < 60 */
	assert_int_equal(worker_next_router_job(&settings, jobs, 4, concurrency, 6), 0);
	/* 5 free: 50 are too many, 20 < 50 */
	assert_int_equal(worker_next_router_job(&settings, jobs, 4, concurrency, 5), 2);
	/* 2 free: 20 are too many, none at all is fine */
	assert_int_equal(worker_next_router_job(&settings, jobs, 4, concurrency, 2), 3);
	concurrency[3] = 20;
	assert_int_equal(worker_next_router_job(&settings, jobs, 4, concurrency, 2),
	    WORKER_NONE);
}

TEST(router_without_a_free_worker_takes_none) {
	struct worker_settings settings = worker_defaults;
	uint32_t jobs[] = { 1 }, concurrency[] = { 0, 0 };

	assert_int_equal(worker_next_router_job(&settings, jobs, 1, concurrency, 0),
	    WORKER_NONE);
	assert_int_equal(worker_next_router_job(&settings, jobs, 0, concurrency, 9),
	    WORKER_NONE);
}

/* --- active connections ---------------------------------------------------------------- */

TEST_IN(world_open, world_close, most_recent_active_below_the_backlog) {
	struct worker_place a, b, c;

	w.settings->backlog = 1;
	a = world_must(1, "a", WORKER_UNUSED, 'a');
	b = world_must(1, "b", WORKER_UNUSED, 'b');
	c = world_must(1, "c", WORKER_UNUSED, 'c');
	w.settings->backlog = 2;
	/* newest first, whatever the order of the list; each has one job, two are the backlog */
	assert_int_equal(world_must(1, "abc", WORKER_RECENT, 'c').connection, c.connection);
	assert_int_equal(world_must(1, "bca", WORKER_RECENT, 'b').connection, b.connection);
	assert_int_equal(world_must(1, "cab", WORKER_RECENT, 'a').connection, a.connection);
	/* 2, 2, 2 are full */
	assert_true(world_place(1, "abc").rule != WORKER_RECENT);
}

TEST_IN(world_open, world_close, two_connections_to_one_destination_are_sorted_by_time_too) {
	struct worker_place old, new;

	w.settings->backlog = 1;
	old = world_must(1, "a", WORKER_UNUSED, 'a');
	new = world_must(2, "a", WORKER_ONE_MORE, 'a');
	assert_int_not_equal(old.connection, new.connection);
	w.settings->backlog = 3;
	for (int i = 0; i < 2; i++)
		assert_int_equal(world_must(3, "a", WORKER_RECENT, 'a').connection,
		    new.connection);
	assert_int_equal(world_must(3, "a", WORKER_RECENT, 'a').connection, old.connection);
}

TEST_IN(world_open, world_close, below_the_backlog_it_is_not_asked_whether_it_is_allowed) {
	world_reopen(10);
	w.settings->max_message_concurrency = 0;
	w.settings->scale_max_concurrency = 1;
	world_must(1, "a", WORKER_UNUSED, 'a');
	w.settings->scale_max_concurrency = 0;
	for (int i = 0; i < 9; i++)
		world_must(2, "a", WORKER_RECENT, 'a');
}

/* --- not allowed a new worker ---------------------------------------------------------- */

/* Connections to a, b, c in this order with so many jobs each of message 1, and message 2
 * allowed nothing. */
static void three_connections(const uint32_t jobs[3], struct worker_place places[3]) {
	world_reopen(20);
	w.settings->backlog = 1;
	for (uint32_t i = 0; i < 3; i++) {
		char name[2] = { (char)('a' + i), '\0' };

		places[i] = world_must(1, name, WORKER_UNUSED, name[0]);
		w.settings->backlog = 1000;
		for (uint32_t j = 1; j < jobs[i]; j++)
			world_must(1, name, WORKER_RECENT, name[0]);
		w.settings->backlog = 1;
	}
	w.settings->max_message_concurrency = 0;
	w.settings->scale_max_concurrency = 0;
}

TEST_IN(world_open, world_close, free_ride_on_the_first_that_has_fewer_jobs_than_the_newest) {
	struct worker_place places[3];

	/* newest c has 3; b has 3: no; a has 2: yes */
	three_connections((const uint32_t[3]){ 2, 3, 3 }, places);
	assert_int_equal(world_must(2, "abc", WORKER_RIDE, 'a').connection,
	    places[0].connection);
	/* b 2 and a 1 both have fewer than 3: the first of the list is the more recent, b */
	three_connections((const uint32_t[3]){ 1, 2, 3 }, places);
	world_must(2, "abc", WORKER_RIDE, 'b');
	/* b has 3 now: a, twice; then all have 3 */
	world_must(2, "abc", WORKER_RIDE, 'a');
	world_must(2, "abc", WORKER_RIDE, 'a');
	world_must(2, "abc", WORKER_RIDE, 'c');
	/* c has 4: b, a, and c again */
	world_must(2, "abc", WORKER_RIDE, 'b');
	world_must(2, "abc", WORKER_RIDE, 'a');
	world_must(2, "abc", WORKER_RIDE, 'c');
}

TEST_IN(world_open, world_close, free_ride_on_the_newest_where_all_have_as_many) {
	struct worker_place places[3];

	three_connections((const uint32_t[3]){ 2, 2, 2 }, places);
	world_must(2, "abc", WORKER_RIDE, 'c');
	/* none has fewer, though not all have the same */
	three_connections((const uint32_t[3]){ 4, 3, 2 }, places);
	world_must(2, "abc", WORKER_RIDE, 'c');
}

TEST_IN(world_open, world_close, free_ride_goes_above_the_maximum) {
	struct worker_place places[3];

	three_connections((const uint32_t[3]){ 1, 1, 1 }, places);
	w.settings->max_message_concurrency = 1;
	world_must(2, "a", WORKER_ONE_MORE, 'a');
	assert_int_equal(w.workers->concurrency[2], 1);
	world_must(2, "b", WORKER_RIDE, 'b');
	world_must(2, "c", WORKER_RIDE, 'c');
	assert_int_equal(w.workers->concurrency[2], 3);
}

TEST_IN(world_open, world_close, not_allowed_and_nothing_active_waits) {
	struct worker_place places[3], first;

	three_connections((const uint32_t[3]){ 1, 1, 1 }, places);
	world_must(2, "xyz", WORKER_WAIT, 0);
	/* an idle connection is a worker as well */
	world_done(&places[0]);
	first = world_must(2, "a", WORKER_WAIT, 0);
	assert_null(first.job);
	assert_int_equal(first.list, 0);
	w.settings->max_message_concurrency = 1;
	world_must(2, "a", WORKER_IDLE, 'a');
}

/* --- a new worker ---------------------------------------------------------------------- */

TEST_IN(world_open, world_close, most_recent_idle_connection) {
	struct worker_place a, b, c;

	a = world_must(1, "a", WORKER_UNUSED, 'a');
	b = world_must(1, "b", WORKER_UNUSED, 'b');
	c = world_must(1, "c", WORKER_UNUSED, 'c');
	/* by when it was made, not by when it became idle */
	world_done(&b);
	world_done(&a);
	assert_int_equal(world_must(2, "abx", WORKER_IDLE, 'b').connection, b.connection);
	assert_int_equal(world_must(2, "axy", WORKER_IDLE, 'a').connection, a.connection);
	world_done(&c);
	/* what is active and below the backlog goes first */
	world_must(2, "acx", WORKER_RECENT, 'a');
}

TEST_IN(world_open, world_close, backlogged_goes_idle_before_unused) {
	struct worker_place b;

	b = world_must(1, "b", WORKER_UNUSED, 'b');
	for (int i = 0; i < 10; i++)
		world_must(1, "a", i == 0 ? WORKER_UNUSED : WORKER_RECENT, 'a');
	world_done(&b);
	world_must(1, "axb", WORKER_IDLE, 'b');
}

TEST_IN(world_open, world_close, no_worker_free_rides_on_an_active_connection) {
	world_reopen(2);
	w.settings->backlog = 1;
	world_must(1, "a", WORKER_UNUSED, 'a');
	world_must(2, "b", WORKER_UNUSED, 'b');
	world_must(3, "ax", WORKER_CROWDED, 'a');
	/* a has two, b has one: newest is b, none has fewer */
	world_must(3, "abx", WORKER_CROWDED, 'b');
	world_must(3, "xy", WORKER_WAIT, 0);
}

TEST_IN(world_open, world_close, an_idle_connection_is_closed_for_a_new_one) {
	struct worker_place a, b, c;

	world_reopen(2);
	a = world_must(1, "a", WORKER_UNUSED, 'a');
	b = world_must(2, "b", WORKER_UNUSED, 'b');
	assert_int_equal(a.closed, WORKER_NONE);
	world_done(&b);
	w.now_ns += SECOND;
	world_done(&a);
	/* b has been idle longer */
	c = world_must(3, "c", WORKER_UNUSED, 'c');
	assert_true(c.opened);
	assert_int_equal(c.closed, b.connection);
	assert_int_equal(world_sees('b'),
	    WORKER_RECORD_CLOSED);
	assert_int_equal(world_sees('a'), WORKER_RECORD_OPEN);
}

TEST_IN(world_open, world_close, unused_at_random_before_closed) {
	struct worker_place a;

	for (uint64_t random = 0; random < 6; random++) {
		world_reopen(20);
		a = world_must(1, "a", WORKER_UNUSED, 'a');
		world_loses(&a, 0);
		w.random = random;
		assert_true(world_must(1, "axyz", WORKER_UNUSED, "xyz"[random % 3]).opened);
	}
}

TEST_IN(world_open, world_close, oldest_closed_in_turn) {
	static const char order[] = "bcabca";
	struct worker_place place;

	/* made in the order b, c, a; closed in the order a, b, c */
	for (int i = 0; i < 3; i++)
		world_must(1, (char[2]){ order[i], '\0' }, WORKER_UNUSED, order[i]);
	for (uint32_t i = 0; i < 3; i++)
		worker_lost(w.workers, (i + 2) % 3, 0, w.now_ns, &w.lost);
	/* round-robin from then on */
	for (int i = 0; i < 6; i++) {
		place = world_must(1, "abc", WORKER_CLOSED, order[i]);
		world_loses(&place, 0);
	}
}

TEST_IN(world_open, world_close, retry_at_random_after_its_time) {
	struct worker_place place;

	for (const char *name = "abc"; *name != '\0'; name++)
		world_set_retry(*name, w.now_ns + 60 * SECOND);
	w.now_ns += 60 * SECOND;
	world_set_retry('b', w.now_ns + 1);
	for (w.random = 0; w.random < 4; w.random++) {
		place = world_must(1, "abc", WORKER_RETRY, "ac"[w.random % 2]);
		world_loses(&place, w.now_ns);
	}
	/* closed ones go before */
	place = world_must(1, "d", WORKER_UNUSED, 'd');
	world_loses(&place, 0);
	world_must(1, "abcd", WORKER_CLOSED, 'd');
}

TEST_IN(world_open, world_close, one_more_to_one_of_those_with_the_fewest_connections) {
	w.settings->backlog = 1;
	world_must(1, "a", WORKER_UNUSED, 'a');
	world_must(1, "a", WORKER_ONE_MORE, 'a');
	world_must(1, "b", WORKER_UNUSED, 'b');
	world_must(1, "c", WORKER_UNUSED, 'c');
	/* a has 2, b and c have 1 each */
	w.random = 1;
	assert_true(world_must(1, "abc", WORKER_ONE_MORE, 'c').opened);
	world_must(1, "abc", WORKER_ONE_MORE, 'b');
	/* 2 each */
	w.random = 3;
	world_must(1, "abc", WORKER_ONE_MORE, 'a');
}

TEST_IN(world_open, world_close, at_the_destinations_limit_rides_on_an_active_connection) {
	struct worker_place place;

	w.settings->backlog = 1;
	w.settings->destination_limit = 2;
	world_must(1, "a", WORKER_UNUSED, 'a');
	world_must(1, "a", WORKER_ONE_MORE, 'a');
	place = world_must(1, "a", WORKER_FULL, 'a');
	assert_false(place.opened);
	assert_int_equal(place.connection, 1);
	assert_int_equal(world_must(1, "a", WORKER_FULL, 'a').connection, 0);
	/* another destination of the list is not at its limit */
	world_must(1, "b", WORKER_UNUSED, 'b');
	world_must(1, "ab", WORKER_ONE_MORE, 'b');
}

/* --- fallback -------------------------------------------------------------------------- */

TEST_IN(world_open, world_close, secondary_and_tertiary_only_where_none_works) {
	struct worker_place place;

	world_set_retry('a', w.now_ns + 60 * SECOND);
	place = world_must(1, "ab|c|d", WORKER_UNUSED, 'b');
	assert_int_equal(place.list, 0);
	world_loses(&place, w.now_ns + 90 * SECOND);
	place = world_must(1, "ab|c|d", WORKER_UNUSED, 'c');
	assert_int_equal(place.list, 1);
	world_loses(&place, w.now_ns + 30 * SECOND);
	place = world_must(1, "ab|c|d", WORKER_UNUSED, 'd');
	assert_int_equal(place.list, 2);
	world_loses(&place, w.now_ns + 40 * SECOND);
	world_must(1, "ab|c|d", WORKER_DEFER, 0);
	/* the primaries again, once their time has come */
	w.now_ns += 60 * SECOND;
	place = world_must(1, "ab|c|d", WORKER_RETRY, 'a');
	assert_int_equal(place.list, 0);
}

TEST_IN(world_open, world_close, waits_for_primaries_that_work_rather_than_go_to_the_secondary) {
	world_reopen(2);
	world_must(1, "x", WORKER_UNUSED, 'x');
	world_must(2, "c", WORKER_UNUSED, 'c');
	/* no worker free, nothing active to a: c is not asked, though it is active */
	assert_int_equal(world_must(3, "a|c", WORKER_WAIT, 0).list, 0);
	world_set_retry('a', w.now_ns + SECOND);
	assert_int_equal(world_must(3, "a|c", WORKER_RECENT, 'c').list, 1);
}

TEST_IN(world_open, world_close, a_list_may_be_empty) {
	world_reopen(2);
	assert_int_equal(world_must(1, "|a", WORKER_UNUSED, 'a').list, 1);
	world_must(1, "|", WORKER_DEFER, 0);
}

TEST_IN(world_open, world_close, a_destination_that_refuses_more_is_used_by_what_is_open) {
	struct worker_place place;

	w.settings->backlog = 1;
	world_must(1, "a", WORKER_UNUSED, 'a');
	worker_connected(w.workers, 0);
	place = world_must(1, "a", WORKER_ONE_MORE, 'a');
	world_loses(&place, w.now_ns + 60 * SECOND);
	/* not one more, and not the secondary */
	assert_int_equal(world_must(1, "a|b", WORKER_FULL, 'a').connection, 0);
	w.now_ns += 60 * SECOND;
	world_must(1, "a|b", WORKER_ONE_MORE, 'a');
}
