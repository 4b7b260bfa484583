/* SPDX-License-Identifier: ISC */
/* The driven queue where runs get nothing done: sendmail cannot be run, does nothing, or
 * cannot write its files; and what the views say of that and of other waits. */
#include "tests/unit/test.h"
#include "segment/file/internal.h"
#include "tests/unit/engine/queue/queue_steps.h"
#include "tests/unit/engine/queue/queue_world_journal.h"

static bool is_paused(void) {
	return atomic_load(&world.site.segment->header->queue_paused) == 1 &&
	    queue_paused(world.queue, 0) != QUEUE_NOT_PAUSED;
}

/* Its mail does not seem to be locked by somebody, and it is not run all the time. */
TEST_IN(NULL, tear_down, a_sendmail_that_does_nothing_is_paused) {
	unsigned mail = 0;
	int64_t due_ns;

	begin_queue(4, 1, 10 * MS);
	world.does_nothing = true;
	for (int i = 0; i < 10; i++)
		mail = world_mail("d0.example");
	world_run(world.now_ns + 10 * S);
	assert_true(is_paused());
	assert_int_equal(queue_paused(world.queue, 0), QUEUE_PAUSE_FRUITLESS);
	assert_int_equal(world_wait(mail, &due_ns), QUEUE_WAITS_PAUSED);
	assert_true(due_ns > world.now_ns);
	world.runs = 0;
	world_run(world.now_ns + 120 * S);
	/* each half minute as many as there are processes */
	assert_in_range(world.runs, 4, 20);
	world.does_nothing = false;
	all_is_delivered(70 * S);
	assert_int_equal(queue_paused(world.queue, 0), QUEUE_NOT_PAUSED);
	assert_int_equal(atomic_load(&world.site.segment->header->queue_paused), 0);
}

TEST_IN(NULL, tear_down, a_sendmail_that_fails_at_once_is_paused_soon) {
	unsigned mail;

	begin_queue(4, 1, 10 * MS);
	world.does_nothing = true;
	world.ends = QUEUE_RUN_FAILED;
	mail = world_mail("d0.example");
	world_run(world.now_ns + 2 * S);
	assert_true(is_paused());
	assert_int_equal(world_wait(mail, NULL), QUEUE_WAITS_PAUSED);
	world.does_nothing = false;
	world.ends = QUEUE_RUN_OVER;
	all_is_delivered(5 * S);
	assert_false(is_paused());
}

/* No process: the same word, and it is tried later and later. */
TEST_IN(NULL, tear_down, a_sendmail_that_cannot_be_run_is_paused) {
	unsigned mail;
	int64_t due_ns;

	begin_queue(4, 1, 10 * MS);
	world.no_process = true;
	mail = world_mail("d0.example");
	world_run(world.now_ns + 2 * S);
	assert_true(is_paused());
	assert_int_equal(queue_paused(world.queue, 0), QUEUE_PAUSE_NOT_STARTED);
	assert_int_equal(world_wait(mail, &due_ns), QUEUE_WAITS_PAUSED);
	assert_in_range(due_ns - world.now_ns, 0, 2 * S);
	world.no_process = false;
	all_is_delivered(5 * S);
	assert_false(is_paused());
}

/* All but where it was when it was killed: nobody has failed there. */
TEST_IN(NULL, tear_down, what_a_killed_run_did_not_come_to_is_due_at_once) {
	unsigned mail;

	begin_queue(1, 6, 10 * MS);
	(void)world_mail("d0.example d1.example d2.example d3.example d4.example d5.example");
	all_is_delivered(2 * S);
	world.servers[2].mode = SERVER_HANGS;
	mail = world_mail("d0.example d1.example d2.example d3.example d4.example d5.example");
	world_run(world.now_ns + 2 * S);
	assert_int_equal(world_delivered(mail), 2);
	world_kill_runs();
	world_run(world.now_ns + 2 * S);
	assert_int_equal(world_delivered(mail), 5);
	assert_int_equal(world.servers[2].connections, 2);
	world.servers[2].mode = SERVER_TAKES;
	world_run(world.now_ns + 290 * S);
	assert_int_equal(world_delivered(mail), 5);
	all_is_delivered(400 * S);
}

/* What kills it may be the message. */
TEST_IN(NULL, tear_down, a_message_whose_runs_are_killed_each_time_is_tried_later_and_later) {
	unsigned mail;

	begin_queue(1, 2, 1 * S);
	mail = world_mail("-");
	world.ends = QUEUE_RUN_KILLED;
	world_run(world.now_ns + S);
	assert_true(world_is_gone(mail));
	world.runs = 0;
	mail = world_mail("d0.example*60 d1.example");
	for (unsigned i = 0; i < 600; i++) {
		world_run(world.now_ns + 100 * MS);
		world_kill_runs();
	}
	assert_in_range(world.runs, 2, 12);
	world.ends = QUEUE_RUN_OVER;
	all_is_delivered(1000 * S);
}

/* The queue's disk is full: what was delivered stands in the queue still. */
TEST_IN(NULL, tear_down, a_file_that_could_not_be_written_is_not_run_again_at_once) {
	unsigned mail, other;

	begin_queue(4, 2, 10 * MS);
	world.no_disk = true;
	world.ends = QUEUE_RUN_NOT_WRITTEN;
	mail = world_mail("d0.example*2");
	world_run(world.now_ns + 290 * S);
	assert_int_equal(world.runs, 1);
	assert_int_equal(world_wait(mail, NULL), QUEUE_WAITS_RETRY);
	assert_int_equal(queue_paused(world.queue, 0), QUEUE_PAUSE_NOT_WRITTEN);
	/* the same without the exit code: somebody has asked, so it was not locked */
	world.ends = QUEUE_RUN_OVER;
	other = world_mail("d1.example");
	world_run(world.now_ns + 5 * S);
	assert_int_equal(world_wait(other, NULL), QUEUE_WAITS_RETRY);
	assert_int_equal(world.runs, 2);
	world.no_disk = false;
	(void)world_mail("d1.example");
	world_run(world.now_ns + 4 * S);
	assert_int_equal(queue_paused(world.queue, 0), QUEUE_NOT_PAUSED);
}

static bool take_wait(void *context, const struct queue_destination_row *row) {
	*(enum queue_wait *)context = row->wait;
	return true;
}

static bool take_run(void *context, const struct queue_run_row *row) {
	*(int64_t *)context = row->progress_ns;
	return true;
}

TEST_IN(NULL, tear_down, a_destination_whose_mail_waits_for_its_retry_says_so) {
	enum queue_wait wait = QUEUE_WAIT_COUNT;

	begin_queue(4, 1, 10 * MS);
	world.servers[0].mode = SERVER_PUTS_OFF;
	(void)world_mail("d0.example");
	world_run(world.now_ns + 5 * S);
	world_each_destination(take_wait, &wait);
	assert_int_equal(wait, QUEUE_WAITS_RETRY);
}

TEST_IN(NULL, tear_down, a_run_that_was_not_heard_of_has_no_progress) {
	int64_t progress_ns = -1;

	begin_queue(4, 1, 10 * MS);
	(void)world_mail("d0.example");
	world_run(world.now_ns + MS);
	queue_each_run(world.queue, take_run, &progress_ns);
	assert_int_equal(progress_ns, 0);
}
