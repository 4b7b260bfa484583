/* SPDX-License-Identifier: ISC */
/* What becomes of jobs, connections and records (policy/schedule/worker.h), with numbers by hand. */
#include "tests/unit/test.h"
#include "tests/unit/lab/worker_world.h"

static void must_lose(struct world *w, uint32_t message, bool first) {
	struct worker_lost_job lost;

	assert_true(worker_next_lost(w->workers, &lost));
	assert_int_equal(lost.message, message);
	assert_int_equal(lost.tag, message);
	assert_int_equal(lost.first, first);
}

/* --- the end of a job ------------------------------------------------------------------ */

TEST(concurrency_is_workers_not_jobs) {
	struct worker_place a, b, c;
	struct world w;

	world_open(&w, 20);
	a = world_must(&w, 1, "a", WORKER_UNUSED, 'a');
	b = world_must(&w, 1, "a", WORKER_RECENT, 'a');
	assert_int_equal(worker_concurrency(w.workers, 1), 1);
	c = world_must(&w, 1, "c", WORKER_UNUSED, 'c');
	assert_int_equal(worker_concurrency(w.workers, 1), 2);
	world_done(&w, &a);
	assert_int_equal(worker_concurrency(w.workers, 1), 2);
	world_done(&w, &b);
	assert_int_equal(worker_concurrency(w.workers, 1), 1);
	world_done(&w, &c);
	assert_int_equal(worker_concurrency(w.workers, 1), 0);
	world_close(&w);
}

TEST(jobs_end_in_any_order) {
	struct worker_place jobs[3];
	struct world w;

	world_open(&w, 20);
	for (uint32_t i = 0; i < 3; i++)
		jobs[i] = world_place(&w, 1 + i, "a");
	world_done(&w, &jobs[1]);
	assert_int_equal(world_jobs(&w, 0), 2);
	world_done(&w, &jobs[0]);
	world_done(&w, &jobs[2]);
	assert_int_equal(world_jobs(&w, 0), 0);
	world_close(&w);
}

TEST(an_idle_connection_is_a_free_worker) {
	struct worker_place place;
	struct worker_counts counts;
	struct world w;

	world_open(&w, 3);
	place = world_place(&w, 1, "a");
	worker_count(w.workers, &counts);
	assert_int_equal(counts.free, 2);
	assert_int_equal(counts.active, 1);
	world_done(&w, &place);
	worker_count(w.workers, &counts);
	assert_int_equal(counts.free, 3);
	assert_int_equal(counts.idle, 1);
	assert_int_equal(counts.jobs, 0);
	world_close(&w);
}

TEST(as_many_jobs_as_there_is_room_for) {
	struct worker_sizes sizes = { 2, 3, 2, 3 };
	uint64_t key = 1;
	uint32_t list = 1;
	struct worker_request request = { 1, 0, &key, &list, 1 };
	struct worker_place place;
	struct workers *workers = worker_open(&sizes, &worker_defaults);

	for (int i = 0; i < 4; i++) {
		worker_place(workers, &request, 0, 0, &place);
		assert_int_equal(place.rule, i == 0 ? WORKER_UNUSED : i < 3 ? WORKER_RECENT :
		    WORKER_WAIT);
	}
	assert_true(worker_is_sound(workers));
	worker_free(workers);
}

/* --- a connection is lost -------------------------------------------------------------- */

TEST(pending_jobs_of_a_closed_connection_are_rescheduled) {
	struct worker_lost_job lost;
	struct worker_place place;
	struct world w;

	world_open(&w, 20);
	for (uint32_t message = 1; message <= 4; message++)
		place = world_place(&w, message, "a");
	worker_connected(w.workers, place.connection);
	worker_lost(w.workers, place.connection, 0, w.now_ns);
	assert_int_equal(worker_concurrency(w.workers, 3), 0);
	for (uint32_t message = 1; message <= 4; message++)
		must_lose(&w, message, message == 1);
	assert_false(worker_next_lost(w.workers, &lost));
	/* closed, not broken: it is used again */
	world_must(&w, 2, "a|b", WORKER_CLOSED, 'a');
	world_close(&w);
}

TEST(a_connection_that_cannot_be_made_is_broken_until_its_time) {
	struct worker_place place;
	struct world w;

	world_open(&w, 20);
	place = world_place(&w, 1, "a");
	worker_lost(w.workers, place.connection, w.now_ns + 60 * SECOND, w.now_ns);
	must_lose(&w, 1, true);
	assert_int_equal(worker_see_destination(w.workers, 'a', w.now_ns),
	    WORKER_RECORD_RETRY);
	world_must(&w, 1, "a", WORKER_DEFER, 0);
	w.now_ns += 60 * SECOND;
	place = world_must(&w, 1, "a", WORKER_RETRY, 'a');
	/* it can be made: no retry any more */
	worker_connected(w.workers, place.connection);
	worker_lost(w.workers, place.connection, 0, w.now_ns);
	world_must(&w, 1, "a", WORKER_CLOSED, 'a');
	world_close(&w);
}

TEST(retry_told_and_forgotten_by_somebody_else) {
	struct world w;

	world_open(&w, 20);
	worker_set_retry(w.workers, 'a', 0, w.now_ns);
	assert_int_equal(worker_see_destination(w.workers, 'a', w.now_ns), WORKER_RECORD_NONE);
	worker_set_retry(w.workers, 'a', INT64_MAX, w.now_ns);
	world_must(&w, 1, "a", WORKER_DEFER, 0);
	/* no connection was ever made to it: unused */
	worker_set_retry(w.workers, 'a', 0, w.now_ns);
	worker_set_retry(w.workers, 'b', INT64_MAX, w.now_ns);
	world_must(&w, 1, "ab", WORKER_UNUSED, 'a');
	world_close(&w);
}

/* --- ageing ---------------------------------------------------------------------------- */

TEST(idle_connections_close_after_their_age) {
	struct worker_place a, b;
	struct world w;

	world_open(&w, 20);
	a = world_place(&w, 1, "a");
	b = world_place(&w, 1, "b");
	world_done(&w, &b);
	w.now_ns += 4 * SECOND;
	world_done(&w, &a);
	w.now_ns += 6 * SECOND;
	assert_int_equal(worker_due_ns(w.workers), w.now_ns);
	assert_int_equal(worker_turn(w.workers, w.now_ns - 1), WORKER_NONE);
	assert_int_equal(worker_turn(w.workers, w.now_ns), b.connection);
	assert_int_equal(worker_turn(w.workers, w.now_ns), WORKER_NONE);
	assert_int_equal(worker_due_ns(w.workers), w.now_ns + 4 * SECOND);
	/* used again: idle anew */
	a = world_must(&w, 1, "a", WORKER_IDLE, 'a');
	assert_int_equal(worker_turn(w.workers, w.now_ns + 4 * SECOND), WORKER_NONE);
	w.now_ns += 4 * SECOND;
	world_done(&w, &a);
	assert_int_equal(worker_due_ns(w.workers), w.now_ns + 10 * SECOND);
	world_close(&w);
}

TEST(active_connections_take_no_jobs_past_their_age_and_close) {
	struct worker_place one, two, other;
	struct world w;

	world_open(&w, 20);
	one = world_place(&w, 1, "a");
	w.now_ns += 299 * SECOND;
	two = world_must(&w, 2, "a", WORKER_RECENT, 'a');
	assert_int_equal(worker_due_ns(w.workers), w.now_ns + SECOND);
	w.now_ns += SECOND;
	assert_int_equal(worker_turn(w.workers, w.now_ns), WORKER_NONE);
	assert_int_equal(worker_due_ns(w.workers), INT64_MAX);
	/* as if it were closed: load goes elsewhere, or to a new connection */
	world_must(&w, 3, "ab", WORKER_UNUSED, 'b');
	other = world_must(&w, 3, "a", WORKER_CLOSED, 'a');
	assert_int_not_equal(other.connection, one.connection);
	/* what it has is done first */
	assert_false(worker_done(w.workers, one.job, w.now_ns));
	assert_true(worker_done(w.workers, two.job, w.now_ns));
	world_close(&w);
}

TEST(a_connection_past_its_age_counts_for_the_limit) {
	struct world w;

	world_open(&w, 20);
	w.settings.destination_limit = 1;
	world_set(&w);
	world_place(&w, 1, "a");
	w.now_ns += 300 * SECOND;
	assert_int_equal(worker_turn(w.workers, w.now_ns), WORKER_NONE);
	/* it works, so that the secondary is not asked */
	assert_int_equal(world_must(&w, 2, "a|b", WORKER_WAIT, 0).list, 0);
	world_close(&w);
}

TEST(idle_and_too_old_closes_at_once) {
	struct worker_place place;
	struct world w;

	world_open(&w, 20);
	place = world_place(&w, 1, "a");
	w.now_ns += 295 * SECOND;
	world_done(&w, &place);
	assert_int_equal(worker_turn(w.workers, w.now_ns), WORKER_NONE);
	w.now_ns += 5 * SECOND;
	assert_int_equal(worker_turn(w.workers, w.now_ns), place.connection);
	world_close(&w);
}

TEST(without_ages_nothing_closes) {
	struct worker_place place;
	struct world w;

	world_open(&w, 20);
	w.settings.active_age_ns = w.settings.idle_age_ns = 0;
	world_set(&w);
	place = world_place(&w, 1, "a");
	assert_int_equal(worker_turn(w.workers, INT64_MAX / 2), WORKER_NONE);
	world_done(&w, &place);
	assert_int_equal(worker_turn(w.workers, INT64_MAX / 2), WORKER_NONE);
	assert_int_equal(worker_due_ns(w.workers), INT64_MAX);
	world_close(&w);
}

/* As the load goes down, the older connections become idle and close. */
TEST(older_connections_become_idle_first) {
	struct worker_place jobs[3], place;
	struct world w;

	world_open(&w, 20);
	w.settings.backlog = 1;
	world_set(&w);
	for (uint32_t i = 0; i < 3; i++)
		jobs[i] = world_place(&w, 1, "a");
	for (uint32_t i = 0; i < 3; i++)
		world_done(&w, &jobs[i]);
	/* one job at a time from now on: always the newest */
	for (uint32_t i = 0; i < 12; i++) {
		place = world_must(&w, 1, "a", WORKER_IDLE, 'a');
		assert_int_equal(place.connection, jobs[2].connection);
		w.now_ns += SECOND;
		world_done(&w, &place);
	}
	assert_int_equal(worker_turn(w.workers, w.now_ns), jobs[0].connection);
	assert_int_equal(worker_turn(w.workers, w.now_ns), jobs[1].connection);
	assert_int_equal(worker_turn(w.workers, w.now_ns), WORKER_NONE);
	world_close(&w);
}

/* --- records --------------------------------------------------------------------------- */

TEST(stale_records_are_collected) {
	struct worker_counts counts;
	struct worker_place place;
	struct world w;

	world_open(&w, 20);
	place = world_place(&w, 1, "a");
	worker_lost(w.workers, place.connection, 0, w.now_ns);
	worker_set_retry(w.workers, 'b', w.now_ns + 60 * SECOND, w.now_ns);
	w.now_ns += 3600 * SECOND - 1;
	assert_int_equal(worker_see_destination(w.workers, 'a', w.now_ns),
	    WORKER_RECORD_CLOSED);
	w.now_ns += 1;
	assert_int_equal(worker_see_destination(w.workers, 'a', w.now_ns), WORKER_RECORD_NONE);
	assert_int_equal(worker_see_destination(w.workers, 'b', w.now_ns),
	    WORKER_RECORD_RETRY);
	/* which puts it on the list of the unused */
	world_must(&w, 2, "ab", WORKER_UNUSED, 'a');
	w.now_ns += 60 * SECOND;
	assert_int_equal(worker_see_destination(w.workers, 'b', w.now_ns), WORKER_RECORD_NONE);
	/* 104 records, 8 a turn */
	for (int i = 0; i < 13; i++)
		assert_int_equal(worker_turn(w.workers, w.now_ns), WORKER_NONE);
	worker_count(w.workers, &counts);
	assert_int_equal(counts.records, 1);
	assert_int_equal(counts.collected, 2);
	assert_int_equal(counts.evicted, 0);
	world_close(&w);
}

/* "Since this is the last option, we will normally not retry a destination until its record
 * is garbage-collected, unless we are under load." */
TEST(a_broken_destination_is_retried_when_its_record_is_collected) {
	struct worker_place place;
	struct world w;

	world_open(&w, 20);
	place = world_place(&w, 1, "b");
	worker_lost(w.workers, place.connection, 0, w.now_ns);
	worker_set_retry(w.workers, 'a', w.now_ns + 60 * SECOND, w.now_ns);
	w.now_ns += 60 * SECOND;
	w.settings.backlog = 1;
	world_set(&w);
	/* b was used, and has no connection: b.  Under load: a, before one more to b. */
	place = world_must(&w, 1, "ab", WORKER_CLOSED, 'b');
	world_must(&w, 1, "ab", WORKER_RETRY, 'a');
	world_close(&w);

	world_open(&w, 20);
	worker_set_retry(w.workers, 'a', w.now_ns + 60 * SECOND, w.now_ns);
	w.now_ns += 3600 * SECOND;
	place = world_place(&w, 1, "b");
	worker_lost(w.workers, place.connection, 0, w.now_ns);
	place = world_must(&w, 1, "ab", WORKER_CLOSED, 'b');
	worker_lost(w.workers, place.connection, 0, w.now_ns);
	w.now_ns += 60 * SECOND;
	world_must(&w, 1, "ab", WORKER_UNUSED, 'a');
	world_close(&w);
}

/* The notes' simplification: without records of closed connections and of retries that are
 * over, all is a matter of the collector. */
TEST(nothing_is_kept_where_settings_say_so) {
	struct worker_place place;
	struct world w;

	world_open(&w, 20);
	w.settings.closed_keep_ns = w.settings.retry_keep_ns = 0;
	world_set(&w);
	place = world_place(&w, 1, "a");
	worker_lost(w.workers, place.connection, 0, w.now_ns);
	place = world_must(&w, 1, "a", WORKER_UNUSED, 'a');
	worker_lost(w.workers, place.connection, w.now_ns + SECOND, w.now_ns);
	world_must(&w, 1, "a", WORKER_DEFER, 0);
	w.now_ns += SECOND;
	world_must(&w, 1, "a", WORKER_UNUSED, 'a');
	world_close(&w);
}

TEST(where_records_run_out_closed_ones_go_before_retries) {
	struct worker_sizes sizes = { 2, 8, 2, 4 };
	struct worker_place place;
	struct worker_counts counts;
	struct world w = { .now_ns = SECOND };

	w.workers = worker_open(&sizes, &worker_defaults);
	for (const char *name = "abc"; *name != '\0'; name++) {
		place = world_must(&w, 1, (char[2]){ *name, '\0' }, WORKER_UNUSED, *name);
		worker_lost(w.workers, place.connection, 0, w.now_ns);
		while (worker_next_lost(w.workers, &(struct worker_lost_job){ 0 }))
			;
	}
	worker_set_retry(w.workers, 'd', 99 * SECOND, w.now_ns);
	/* a, the oldest, goes, then b and c; then the retry */
	for (const char *name = "efg"; *name != '\0'; name++)
		worker_set_retry(w.workers, (uint64_t)*name, 50 * SECOND + *name, w.now_ns);
	for (const char *name = "abc"; *name != '\0'; name++)
		assert_int_equal(worker_see_destination(w.workers, (uint64_t)*name, w.now_ns),
		    WORKER_RECORD_NONE);
	assert_int_equal(worker_see_destination(w.workers, 'd', w.now_ns),
	    WORKER_RECORD_RETRY);
	world_must(&w, 1, "x", WORKER_UNUSED, 'x');
	assert_int_equal(worker_see_destination(w.workers, 'e', w.now_ns), WORKER_RECORD_NONE);
	worker_count(w.workers, &counts);
	assert_int_equal(counts.evicted, 4);
	assert_int_equal(counts.records, 4);
	world_close(&w);
}

TEST(sizes_that_cannot_be) {
	static const struct worker_sizes bad[] = { { 2, 8, 2, 2 }, { 0, 8, 2, 3 }, { 1, 8, 0, 3 },
		{ UINT32_MAX - 1, 8, 1, UINT32_MAX } };
	struct workers *workers = worker_open(&(struct worker_sizes){ 2, 8, 2, 3 },
	    &worker_defaults);

	assert_non_null(workers);
	worker_free(workers);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_null(worker_open(&bad[i], &worker_defaults));
}

/* --- verification ---------------------------------------------------------------------- */

TEST(verification_probes_are_a_message_with_settings_of_its_own) {
	struct worker_place first;
	struct world w;

	/* 2 at most, or as many as are free */
	world_open(&w, 6);
	w.settings.backlog = 1;
	world_set(&w);
	first = world_must(&w, WORKER_VERIFICATION, "a", WORKER_UNUSED, 'a');
	world_must(&w, WORKER_VERIFICATION, "b", WORKER_UNUSED, 'b');
	world_must(&w, WORKER_VERIFICATION, "c", WORKER_UNUSED, 'c');
	/* 3 of 6: 3 are free, 3 < 3 is not so */
	world_must(&w, WORKER_VERIFICATION, "d", WORKER_WAIT, 0);
	/* a message of mail may: 0 < 5 */
	world_must(&w, 1, "d", WORKER_UNUSED, 'd');
	world_done(&w, &first);
	world_must(&w, WORKER_VERIFICATION, "e", WORKER_UNUSED, 'e');
	/* and rides as any */
	world_must(&w, WORKER_VERIFICATION, "d", WORKER_RIDE, 'd');
	world_close(&w);
	assert_true(worker_allowed(&worker_defaults, true, 1, 0));
	assert_false(worker_allowed(&worker_defaults, true, 2, 2));
	assert_true(worker_allowed(&worker_defaults, true, 2, 3));
}
