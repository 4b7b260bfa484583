/* SPDX-License-Identifier: ISC */
/* What becomes of jobs, connections and destinations (policy/schedule/worker.h), with numbers by hand. */
#include "tests/unit/test.h"
#include "tests/unit/lab/worker_world.h"

static void must_lose(uint32_t message) {
	struct worker_job *lost = TAILQ_FIRST(&w.lost);

	assert_non_null(lost);
	assert_int_equal(lost->message, message);
	TAILQ_REMOVE(&w.lost, lost, of_list);
}

/* --- the end of a job ------------------------------------------------------------------ */

TEST_IN(world_open, world_close, concurrency_is_workers_not_jobs) {
	struct worker_place a, b, c;

	a = world_must(1, "a", WORKER_UNUSED, 'a');
	b = world_must(1, "a", WORKER_RECENT, 'a');
	assert_int_equal(w.workers->concurrency[1], 1);
	c = world_must(1, "c", WORKER_UNUSED, 'c');
	assert_int_equal(w.workers->concurrency[1], 2);
	world_done(&a);
	assert_int_equal(w.workers->concurrency[1], 2);
	world_done(&b);
	assert_int_equal(w.workers->concurrency[1], 1);
	world_done(&c);
	assert_int_equal(w.workers->concurrency[1], 0);
}

TEST_IN(world_open, world_close, jobs_end_in_any_order) {
	struct worker_place jobs[3];

	for (uint32_t i = 0; i < 3; i++)
		jobs[i] = world_place(1 + i, "a");
	world_done(&jobs[1]);
	assert_int_equal(world_jobs(0), 2);
	world_done(&jobs[0]);
	world_done(&jobs[2]);
	assert_int_equal(world_jobs(0), 0);
}

TEST_IN(world_open, world_close, an_idle_connection_is_a_free_worker) {
	struct worker_place place;

	world_reopen(3);
	place = world_place(1, "a");
	assert_int_equal(worker_idle_count(w.workers), 2);
	assert_int_equal(w.workers->open - w.workers->idle_count, 1);
	world_done(&place);
	assert_int_equal(worker_idle_count(w.workers), 3);
	assert_int_equal(w.workers->idle_count, 1);
	assert_int_equal(world_jobs(place.connection), 0);
}

/* --- a connection is lost -------------------------------------------------------------- */

TEST_IN(world_open, world_close, pending_jobs_of_a_closed_connection_are_rescheduled) {
	struct worker_place place;

	for (uint32_t message = 1; message <= 4; message++)
		place = world_place(message, "a");
	worker_connected(w.workers, place.connection);
	world_loses(&place, 0);
	assert_int_equal(w.workers->concurrency[3], 0);
	for (uint32_t message = 1; message <= 4; message++)
		must_lose(message);
	assert_true(TAILQ_EMPTY(&w.lost));
	/* closed, not broken: it is used again */
	world_must(2, "a|b", WORKER_CLOSED, 'a');
}

TEST_IN(world_open, world_close, a_connection_that_cannot_be_made_is_broken_until_its_time) {
	struct worker_place place;

	place = world_place(1, "a");
	world_loses(&place, w.now_ns + 60 * SECOND);
	must_lose(1);
	assert_int_equal(world_sees('a'),
	    WORKER_RECORD_RETRY);
	world_must(1, "a", WORKER_DEFER, 0);
	w.now_ns += 60 * SECOND;
	place = world_must(1, "a", WORKER_RETRY, 'a');
	/* it can be made: no retry any more */
	worker_connected(w.workers, place.connection);
	world_loses(&place, 0);
	world_must(1, "a", WORKER_CLOSED, 'a');
}

TEST_IN(world_open, world_close, retry_told_and_forgotten_by_somebody_else) {
	world_set_retry('a', 0);
	assert_int_equal(world_sees('a'), WORKER_RECORD_NONE);
	world_set_retry('a', INT64_MAX);
	world_must(1, "a", WORKER_DEFER, 0);
	/* no connection was ever made to it: unused */
	world_set_retry('a', 0);
	world_set_retry('b', INT64_MAX);
	world_must(1, "ab", WORKER_UNUSED, 'a');
}

/* --- ageing ---------------------------------------------------------------------------- */

TEST_IN(world_open, world_close, idle_connections_close_after_their_age) {
	struct worker_place a, b;

	a = world_place(1, "a");
	b = world_place(1, "b");
	world_done(&b);
	w.now_ns += 4 * SECOND;
	world_done(&a);
	w.now_ns += 6 * SECOND;
	assert_int_equal(worker_due_ns(w.workers), w.now_ns);
	assert_int_equal(worker_turn(w.workers, w.now_ns - 1), WORKER_NONE);
	assert_int_equal(worker_turn(w.workers, w.now_ns), b.connection);
	assert_int_equal(worker_turn(w.workers, w.now_ns), WORKER_NONE);
	assert_int_equal(worker_due_ns(w.workers), w.now_ns + 4 * SECOND);
	/* used again: idle anew */
	a = world_must(1, "a", WORKER_IDLE, 'a');
	assert_int_equal(worker_turn(w.workers, w.now_ns + 4 * SECOND), WORKER_NONE);
	w.now_ns += 4 * SECOND;
	world_done(&a);
	assert_int_equal(worker_due_ns(w.workers), w.now_ns + 10 * SECOND);
}

TEST_IN(world_open, world_close, active_connections_take_no_jobs_past_their_age_and_close) {
	struct worker_place one, two, other;

	one = world_place(1, "a");
	w.now_ns += 299 * SECOND;
	two = world_must(2, "a", WORKER_RECENT, 'a');
	assert_int_equal(worker_due_ns(w.workers), w.now_ns + SECOND);
	w.now_ns += SECOND;
	assert_int_equal(worker_turn(w.workers, w.now_ns), WORKER_NONE);
	assert_int_equal(worker_due_ns(w.workers), INT64_MAX);
	/* as if it were closed: load goes elsewhere, or to a new connection */
	world_must(3, "ab", WORKER_UNUSED, 'b');
	other = world_must(3, "a", WORKER_CLOSED, 'a');
	assert_int_not_equal(other.connection, one.connection);
	/* what it has is done first */
	assert_false(worker_done(w.workers, one.job, w.now_ns));
	assert_true(worker_done(w.workers, two.job, w.now_ns));
}

TEST_IN(world_open, world_close, a_connection_past_its_age_counts_for_the_limit) {
	w.settings->destination_limit = 1;
	world_place(1, "a");
	w.now_ns += 300 * SECOND;
	assert_int_equal(worker_turn(w.workers, w.now_ns), WORKER_NONE);
	/* it works, so that the secondary is not asked */
	assert_int_equal(world_must(2, "a|b", WORKER_WAIT, 0).list, 0);
}

TEST_IN(world_open, world_close, idle_and_too_old_closes_at_once) {
	struct worker_place place;

	place = world_place(1, "a");
	w.now_ns += 295 * SECOND;
	world_done(&place);
	assert_int_equal(worker_turn(w.workers, w.now_ns), WORKER_NONE);
	w.now_ns += 5 * SECOND;
	assert_int_equal(worker_turn(w.workers, w.now_ns), place.connection);
}

TEST_IN(world_open, world_close, without_ages_nothing_closes) {
	struct worker_place place;

	w.settings->active_age_ns = w.settings->idle_age_ns = 0;
	place = world_place(1, "a");
	assert_int_equal(worker_turn(w.workers, INT64_MAX / 2), WORKER_NONE);
	world_done(&place);
	assert_int_equal(worker_turn(w.workers, INT64_MAX / 2), WORKER_NONE);
	assert_int_equal(worker_due_ns(w.workers), INT64_MAX);
}

/* As the load goes down, the older connections become idle and close. */
TEST_IN(world_open, world_close, older_connections_become_idle_first) {
	struct worker_place jobs[3], place;

	w.settings->backlog = 1;
	for (uint32_t i = 0; i < 3; i++)
		jobs[i] = world_place(1, "a");
	for (uint32_t i = 0; i < 3; i++)
		world_done(&jobs[i]);
	/* one job at a time from now on: always the newest */
	for (uint32_t i = 0; i < 12; i++) {
		place = world_must(1, "a", WORKER_IDLE, 'a');
		assert_int_equal(place.connection, jobs[2].connection);
		w.now_ns += SECOND;
		world_done(&place);
	}
	assert_int_equal(worker_turn(w.workers, w.now_ns), jobs[0].connection);
	assert_int_equal(worker_turn(w.workers, w.now_ns), jobs[1].connection);
	assert_int_equal(worker_turn(w.workers, w.now_ns), WORKER_NONE);
}

/* --- records --------------------------------------------------------------------------- */

TEST_IN(world_open, world_close, stale_records_do_not_count) {
	struct worker_place place;

	place = world_place(1, "a");
	world_loses(&place, 0);
	world_set_retry('b', w.now_ns + 60 * SECOND);
	w.now_ns += 3600 * SECOND - 1;
	assert_int_equal(world_sees('a'),
	    WORKER_RECORD_CLOSED);
	w.now_ns += 1;
	assert_int_equal(world_sees('a'), WORKER_RECORD_NONE);
	assert_int_equal(world_sees('b'),
	    WORKER_RECORD_RETRY);
	/* which puts it on the list of the unused */
	world_must(2, "ab", WORKER_UNUSED, 'a');
	w.now_ns += 60 * SECOND;
	assert_int_equal(world_sees('b'), WORKER_RECORD_NONE);
}

/* "Since this is the last option, we will normally not retry a destination until its record
 * is garbage-collected, unless we are under load." */
TEST_IN(world_open, world_close, a_broken_destination_is_retried_when_its_record_is_collected) {
	struct worker_place place;

	place = world_place(1, "b");
	world_loses(&place, 0);
	world_set_retry('a', w.now_ns + 60 * SECOND);
	w.now_ns += 60 * SECOND;
	w.settings->backlog = 1;
	/* b was used, and has no connection: b.  Under load: a, before one more to b. */
	place = world_must(1, "ab", WORKER_CLOSED, 'b');
	world_must(1, "ab", WORKER_RETRY, 'a');
	world_reopen(20);
	world_set_retry('a', w.now_ns + 60 * SECOND);
	w.now_ns += 3600 * SECOND;
	place = world_place(1, "b");
	world_loses(&place, 0);
	place = world_must(1, "ab", WORKER_CLOSED, 'b');
	world_loses(&place, 0);
	w.now_ns += 60 * SECOND;
	world_must(1, "ab", WORKER_UNUSED, 'a');
}

/* The notes' simplification: without records of closed connections and of retries that are
 * over, all are unused at once. */
TEST_IN(world_open, world_close, nothing_is_kept_where_settings_say_so) {
	struct worker_place place;

	w.settings->closed_keep_ns = w.settings->retry_keep_ns = 0;
	place = world_place(1, "a");
	world_loses(&place, 0);
	place = world_must(1, "a", WORKER_UNUSED, 'a');
	world_loses(&place, w.now_ns + SECOND);
	world_must(1, "a", WORKER_DEFER, 0);
	w.now_ns += SECOND;
	world_must(1, "a", WORKER_UNUSED, 'a');
}

/* --- verification ---------------------------------------------------------------------- */

TEST_IN(world_open, world_close, verification_probes_are_a_message_with_settings_of_its_own) {
	struct worker_place first;

	/* 2 at most, or as many as are free */
	world_reopen(6);
	w.settings->backlog = 1;
	first = world_must(WORKER_VERIFICATION, "a", WORKER_UNUSED, 'a');
	world_must(WORKER_VERIFICATION, "b", WORKER_UNUSED, 'b');
	world_must(WORKER_VERIFICATION, "c", WORKER_UNUSED, 'c');
	/* 3 of 6: 3 are free, 3 < 3 is not so */
	world_must(WORKER_VERIFICATION, "d", WORKER_WAIT, 0);
	/* a message of mail may: 0 < 5 */
	world_must(1, "d", WORKER_UNUSED, 'd');
	world_done(&first);
	world_must(WORKER_VERIFICATION, "e", WORKER_UNUSED, 'e');
	/* and rides as any */
	world_must(WORKER_VERIFICATION, "d", WORKER_RIDE, 'd');
	assert_true(worker_allowed(&worker_defaults, true, 1, 0));
	assert_false(worker_allowed(&worker_defaults, true, 2, 2));
	assert_true(worker_allowed(&worker_defaults, true, 2, 3));
}
