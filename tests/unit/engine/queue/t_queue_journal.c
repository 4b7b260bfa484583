/* SPDX-License-Identifier: ISC */
/* The driven queue with a journal: what is there again after a restart, what has no room in
 * memory, what changed meanwhile, and a disk that fails. */
#include <sys/stat.h>

#define TEST_OWN_MAIN
#include "tests/unit/test.h"
#include "engine/queue/queue_journal_internal.h"
#include "journal/reader.h"
#include "tests/unit/engine/queue/queue_steps.h"
#include "tests/unit/engine/queue/queue_world_journal.h"

#define YEAR	(365 * 86400 * S)

/* Memory for so many messages, and for 4 times as many that wait. */
static void small(uint32_t active) {
	world.settings.schedule.pool.message_active_limit = active;
	world_restart_role(true);
	world_run(world.now_ns + 100 * MS);
}

static void mails(unsigned count, unsigned over) {
	char name[32];

	for (unsigned i = 0; i < count; i++) {
		(void)snprintf(name, sizeof(name), "d%u.example", i % over);
		(void)world_mail(name);
	}
}

/* And nothing is left of it in the journal. */
static void all_is_gone(int64_t within_ns) {
	all_is_delivered(within_ns);
	world_run(world.now_ns + 5 * S);
	world_check();
	assert_int_equal(world_journal().messages, 0);
	assert_int_equal(world_journal().more, 0);
}

/* So many servers; memory for so many messages (0: as it is). */
static void begin(unsigned count, int64_t takes_ns, uint32_t active) {
	begin_queue(4, count, takes_ns);
	if (active > 0)
		small(active);
}

/* So many mails are read, and nothing is delivered. */
static void read_in(unsigned count, unsigned over) {
	world.no_process = true;
	mails(count, over);
	world_run(world.now_ns + 3 * S);
}

/* The next life has seen all there is to see. */
static void next_life(void) {
	world_restart_role(true);
	world_run(world.now_ns + 3 * S);
}

TEST_IN(NULL, tear_down, a_restart_reads_no_file) {
	begin(4, 50 * MS, 0);
	read_in(200, 4);
	assert_int_equal(world.reads, 200);
	assert_int_equal(world_journal().messages, 200);
	next_life();
	assert_int_equal(world.reads, 200);
	assert_int_equal(world_journal().messages, 200);
	world.no_process = false;
	all_is_gone(60 * S);
}

TEST_IN(NULL, tear_down, runs_begin_before_the_directories_are_looked_through) {
	begin(4, 50 * MS, 0);
	read_in(100, 4);
	world.no_process = false;
	world.no_scan = true;
	world_restart_role(true);
	all_is_gone(60 * S);
}

TEST_IN(NULL, tear_down, what_has_no_room_in_memory_is_in_the_journal) {
	begin(4, 50 * MS, 8);
	read_in(300, 4);
	assert_int_equal(world.reads, 300);
	assert_in_range(world.queue->message_count, 8, 32);
	assert_int_equal(world.queue->refused + world.queue->forgotten, 0);
	assert_int_equal(world_journal().messages, 300);
	assert_int_equal(world_journal().more, 300 - world.queue->message_count);
	world.no_process = false;
	all_is_gone(120 * S);
	/* but for those that follow in a run: read when they came; gone after it */
	assert_int_equal(world.reads, 300);
}

TEST_IN(NULL, tear_down, a_restart_with_more_than_memory_holds) {
	begin(4, 50 * MS, 8);
	mails(300, 4);
	world_run(world.now_ns + 2 * S);
	assert_int_not_equal(world_files_left(), 0);
	for (unsigned i = 0; i < 5; i++) {
		world_restart_role(true);
		world_run(world.now_ns + 500 * MS);
	}
	all_is_gone(120 * S);
}

TEST_IN(NULL, tear_down, what_changed_meanwhile_is_read_again) {
	begin(4, 50 * MS, 0);
	read_in(20, 4);
	assert_int_equal(world.reads, 20);
	world_touch(3);
	world_touch(7);
	next_life();
	assert_int_equal(world.reads, 22);
	world.no_process = false;
	all_is_gone(400 * S);
}

TEST_IN(NULL, tear_down, what_is_gone_meanwhile_is_forgotten) {
	begin(4, 50 * MS, 2);
	by_hand(MANUAL_HOLD, "d0.example");
	mails(20, 1);
	world_run(world.now_ns + 3 * S);
	for (unsigned i = 0; i < 10; i++)
		world_vanish(i);
	world_restart_role(true);
	world_run(world.now_ns + 10 * S);
	assert_int_equal(world_journal().messages, 10);
	/* and while it lives: a scan finds it */
	for (unsigned i = 10; i < 15; i++)
		world_vanish(i);
	world_scan();
	world_run(world.now_ns + 10 * S);
	assert_int_equal(world_journal().messages, 5);
}

TEST_IN(NULL, tear_down, a_run_of_a_file_that_is_gone_is_harmless) {
	begin(4, 50 * MS, 0);
	read_in(20, 4);
	for (unsigned i = 0; i < 10; i++)
		world_vanish(i);
	world.no_process = false;
	world.no_scan = true;
	world_restart_role(true);
	assert_true(world_drain(60 * S));
	world_run(world.now_ns + 5 * S);
	assert_int_equal(world_journal().messages, 0);
}

TEST_IN(NULL, tear_down, mail_in_the_journal_goes_when_its_destination_is_back) {
	begin(2, 10 * MS, 4);
	by_hand(MANUAL_HOLD, "d0.example");
	mails(100, 1);
	world_run(world.now_ns + 3 * S);
	assert_in_range(world_journal().more, 84, 100);
	/* others are not held up by it */
	(void)world_mail("d1.example");
	world_run(world.now_ns + 5 * S);
	assert_int_equal(world_files_left(), 100);
	by_hand(MANUAL_RESUME, "d0.example");
	all_is_gone(60 * S);
}

TEST_IN(NULL, tear_down, mail_in_the_journal_goes_when_its_destination_is_back_after_a_restart) {
	begin(2, 10 * MS, 4);
	by_hand(MANUAL_HOLD, "d0.example");
	mails(100, 1);
	world_run(world.now_ns + 3 * S);
	next_life();
	assert_in_range(world_journal().more, 84, 100);
	by_hand(MANUAL_RESUME, "d0.example");
	all_is_gone(60 * S);
}

/* The least time is 300 s. */
TEST_IN(NULL, tear_down, what_failed_keeps_its_time_over_a_restart) {
	unsigned mail;
	int64_t due_ns, then_ns;

	begin(1, 10 * MS, 0);
	world_find_server("d0.example")->mode = SERVER_PUTS_OFF;
	mail = world_mail("d0.example");
	world_run(world.now_ns + 5 * S);
	assert_int_equal(world_wait(mail, &due_ns), QUEUE_WAITS_RETRY);
	world_restart_role(true);
	world_run(world.now_ns + 100 * S);
	assert_int_equal(world_find_server("d0.example")->connections, 1);
	world_find_server("d0.example")->mode = SERVER_TAKES;
	then_ns = due_ns;
	world_run(then_ns - S);
	assert_int_equal(world_find_server("d0.example")->connections, 1);
	all_is_gone(10 * S);
	assert_true(world_delivered_ns(mail) - then_ns < 2 * S);
}

TEST_IN(NULL, tear_down, many_that_failed_keep_their_times_in_the_journal) {
	begin(1, 10 * MS, 4);
	world_find_server("d0.example")->mode = SERVER_PUTS_OFF;
	mails(60, 1);
	world_run(world.now_ns + 250 * S);
	assert_in_range(world_find_server("d0.example")->connections, 1, 60);
	world_find_server("d0.example")->mode = SERVER_TAKES;
	/* all were tried: 300 s after that, or an interval later */
	all_is_gone(1200 * S);
}

/* --- retries -------------------------------------------------------------------------- */

#define MESSAGES	200u
#define RETRIES		700u

/* All are put off, and tried again after 3 to 6 s. */
static void begin_retries(unsigned count, unsigned over) {
	begin(over, 10 * MS, 0);
	world.settings.mtas[0].retry_ns = 3 * S;
	world.settings.mtas[0].retry_most_ns = 6 * S;
	world_restart_role(true);
	for (unsigned i = 0; i < over; i++)
		world.servers[i].mode = SERVER_PUTS_OFF;
	mails(count, over);
}

static unsigned all_tries(unsigned count) {
	unsigned sum = 0;

	for (unsigned i = 0; i < count; i++)
		sum += world_tries(i);
	return sum;
}

static void must_be_due_soon(void) {
	const struct queue *queue = world.queue;
	int64_t most_ns = world.now_ns + queue->journal->intervals_ns[1];

	for (uint32_t i = 0; i < queue->timer_count; i++)
		assert_true(queue->timers[i]->due_ns <= most_ns);
}

/* Where the runner is, as it was recorded last; 0: nowhere. */
static uint64_t runner(const char *name) {
	struct journal_reader *reader;
	uint64_t place = 0;
	struct diag diag;

	assert_int_equal(journal_reader_open_path(&reader, world_journal_path(), &diag), 0);
	for (uint32_t i = 0; reader->slot >= 0 &&
	     i < reader->slots[reader->slot].positions.positions_count; i++) {
		const struct journal_position *one =
		    &reader->slots[reader->slot].positions.positions[i];

		if (strcmp(one->name, name) == 0)
			place = journal_place_pack(one->place);
	}
	journal_reader_close(&reader);
	return place;
}

TEST_IN(NULL, tear_down, retries_are_brought_by_runners) {
	uint64_t of_3s = 0, of_6s = 0;
	uint32_t least = UINT32_MAX;

	begin_retries(MESSAGES, 4);
	while (all_tries(MESSAGES) < MESSAGES + RETRIES) {
		world_run(world.now_ns + 100 * MS);
		must_be_due_soon();
		of_3s = of_3s == 0 ? runner("runner-3s") : of_3s;
		of_6s = of_6s == 0 ? runner("runner-6s") : of_6s;
		if (all_tries(MESSAGES) >= MESSAGES && world.queue->message_count < least)
			least = world.queue->message_count;
	}
	/* between two tries of all there was nothing in memory */
	assert_int_equal(least, 0);
	world_run(world.now_ns + 6 * S);
	assert_in_range(of_3s, 1, runner("runner-3s") - 1);
	assert_in_range(of_6s, 1, runner("runner-6s") - 1);
	for (unsigned i = 0; i < MESSAGES; i++)
		assert_in_range(world_tries(i), (MESSAGES + RETRIES) / MESSAGES - 1, 8);
	for (unsigned i = 0; i < 4; i++)
		world.servers[i].mode = SERVER_TAKES;
	all_is_gone(12 * S);
}

/* Each at its time, none before another that was due before. */
TEST_IN(NULL, tear_down, what_comes_back_does_so_in_its_order) {
	int64_t due_ns[6], last_ns = 0;
	unsigned mail[6];

	begin_retries(0, 1);
	for (unsigned i = 0; i < 6; i++) {
		mail[i] = world_mail("d0.example");
		world_run(world.now_ns + 400 * MS);
		assert_int_equal(world_wait(mail[i], &due_ns[i]), QUEUE_WAITS_RETRY);
	}
	assert_int_equal(world.queue->message_count, 0);
	world.servers[0].mode = SERVER_TAKES;
	world_run(due_ns[0] - MS);
	assert_int_equal(world_files_left(), 6);
	all_is_gone(10 * S);
	for (unsigned i = 0; i < 6; i++) {
		assert_in_range(world_delivered_ns(mail[i]), due_ns[i], due_ns[i] + S);
		assert_true(world_delivered_ns(mail[i]) > last_ns);
		last_ns = world_delivered_ns(mail[i]);
	}
}

/* Of a time between two intervals the rest is waited for, in the journal as well. */
TEST_IN(NULL, tear_down, a_time_between_two_intervals_is_kept) {
	unsigned mail;
	int64_t due_ns;

	begin(1, 10 * MS, 0);
	world.servers[0].mode = SERVER_PUTS_OFF;
	mail = world_mail("d0.example");
	/* tried at 0, 300 and 600 s: then after 600, and then after 1200 s */
	world_run(world.now_ns + 1250 * S);
	assert_int_equal(world_tries(mail), 4);
	assert_int_equal(world_wait(mail, &due_ns), QUEUE_WAITS_RETRY);
	/* a reload with other times: between the intervals, which stay */
	world.settings.mtas[0].retry_ns = world.settings.mtas[0].retry_most_ns = 1000 * S;
	queue_configure(world.queue, &world.settings);
	world_run(due_ns + 2 * S);
	assert_int_equal(world_tries(mail), 5);
	assert_int_equal(world_wait(mail, &due_ns), QUEUE_WAITS_RETRY);
	assert_in_range(due_ns - world.now_ns, 990 * S, 1000 * S);
	world_run(due_ns - 310 * S);
	assert_int_equal(world.queue->message_count, 0);
	assert_int_equal(world_tries(mail), 5);
	world.servers[0].mode = SERVER_TAKES;
	all_is_gone(400 * S);
	assert_in_range(world_delivered_ns(mail), due_ns, due_ns + S);
}

/* A try of somebody else counts, also of what is not in memory. */
TEST_IN(NULL, tear_down, what_somebody_else_has_tried_waits_again) {
	unsigned mail, connections;
	int64_t due_ns;

	begin(1, 10 * MS, 0);
	world.servers[0].mode = SERVER_PUTS_OFF;
	mail = world_mail("d0.example");
	world_run(world.now_ns + 200 * S);
	connections = world.servers[0].connections;
	assert_int_equal(world.queue->message_count, 0);
	world_touch(mail);
	world_scan();
	world_run(world.now_ns + 10 * S);
	assert_int_equal(world.servers[0].connections, connections);
	assert_int_equal(world_wait(mail, &due_ns), QUEUE_WAITS_RETRY);
	assert_in_range(due_ns - world.now_ns, 280 * S, 300 * S);
	world.servers[0].mode = SERVER_TAKES;
	all_is_gone(301 * S);
}

TEST_IN(NULL, tear_down, retries_are_not_missed_by_roles_that_are_killed) {
	unsigned tries[50];

	begin_retries(50, 4);
	for (unsigned i = 0; i < 60; i++) {
		world_run(world.now_ns + (130 + 70 * (i % 7)) * MS);
		world_restart_role(i % 2 == 0);
	}
	world_restart_role(true);
	for (unsigned i = 0; i < 50; i++)
		tries[i] = world_tries(i);
	world_run(world.now_ns + 12 * S);
	for (unsigned i = 0; i < 50; i++)
		assert_true(world_tries(i) > tries[i]);
	for (unsigned i = 0; i < 4; i++)
		world.servers[i].mode = SERVER_TAKES;
	all_is_gone(12 * S);
}

/* What was written while there was no journal, and what is held, leaves memory, too. */
TEST_IN(NULL, tear_down, what_came_to_wait_otherwise_leaves_memory) {
	world_disk_error = EIO;
	begin_retries(50, 4);
	world_run(world.now_ns + S);
	assert_int_equal(world.queue->message_count, 50);
	world_disk_error = 0;
	world_run(world.now_ns + 60 * S);
	for (unsigned i = 0; i < 4; i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "d%u.example", i);
		by_hand(MANUAL_HOLD, name);
	}
	world_run(world.now_ns + 20 * S);
	assert_int_equal(world.queue->message_count, 0);
	assert_int_equal(world_journal().more, 50);
	for (unsigned i = 0; i < 4; i++) {
		char name[16];

		world.servers[i].mode = SERVER_TAKES;
		(void)snprintf(name, sizeof(name), "d%u.example", i);
		by_hand(MANUAL_RESUME, name);
	}
	all_is_gone(5 * S);
}

static void clock_set(int64_t by_ns) {
	begin(2, 10 * MS, 0);
	world_find_server("d0.example")->mode = SERVER_PUTS_OFF;
	mails(20, 2);
	world_run(world.now_ns + 20 * S);
	world_find_server("d0.example")->mode = SERVER_TAKES;
	world_wall_ns = by_ns;
	world_restart_role(true);
	all_is_gone(1801 * S);
}

TEST_IN(NULL, tear_down, a_clock_that_was_set_back_holds_nothing_up) {
	clock_set(-YEAR);
}

TEST_IN(NULL, tear_down, a_clock_that_was_set_forward_holds_nothing_up) {
	clock_set(YEAR);
}

TEST_IN(NULL, tear_down, roles_that_are_killed_deliver_once) {
	begin(4, 200 * MS, 0);
	mails(100, 4);
	for (unsigned i = 0; i < 40; i++) {
		world_run(world.now_ns + 70 * MS);
		world_restart_role(i % 2 == 0);
	}
	world_restart_role(true);
	all_is_gone(60 * S);
}

TEST_IN(NULL, tear_down, a_big_message_after_a_restart) {
	begin(3, MS, 0);
	world.no_process = true;
	(void)world_mail("d0.example*30000 d1.example*3 d2.example*20000");
	world_run(world.now_ns + 3 * S);
	next_life();
	world.no_process = false;
	all_is_gone(600 * S);
}

/* There was no memory to read it after a run of the role before: the journal holds it, and
 * nobody has it. */
TEST_IN(NULL, tear_down, what_nobody_has_is_found_by_a_scan) {
	begin(1, 10 * MS, 0);
	world.hang_timeout_s = 20;
	world.servers[0].mode = SERVER_HANGS;
	(void)world_mail("d0.example");
	world_run(world.now_ns + 2 * S);
	assert_int_equal(world.processes, 1);
	world_restart_role(true);
	world.no_disk = world.loses_reads = true;
	world_run(world.now_ns + 60 * S);
	assert_int_equal(world.processes, 0);
	assert_int_equal(world.queue->message_count, 0);
	world.no_disk = world.loses_reads = false;
	world.servers[0].mode = SERVER_TAKES;
	world_run(world.now_ns + 1800 * S);
	assert_int_equal(world_files_left(), 1);
	world_scan();
	all_is_gone(60 * S);
}

/* As without a journal: what finds no room is refused, and read when there is. */
TEST_IN(NULL, tear_down, on_a_disk_that_fails_mail_flows) {
	world_disk_error = EIO;
	world_disk_is_gone = true;
	begin(4, 50 * MS, 8);
	mails(300, 4);
	world_run(world.now_ns + 3 * S);
	assert_true(world_journal().is_degraded);
	world_restart_role(true);
	all_is_gone(120 * S);
	assert_true(world_journal().is_degraded);
}

/* And what is in the journal alone is read from the queue when nothing can be read there. */
TEST_IN(NULL, tear_down, a_disk_that_is_full_for_a_while) {
	begin(4, 300 * MS, 8);
	mails(300, 4);
	world_run(world.now_ns + 3 * S);
	world_disk_error = ENOSPC;
	mails(50, 4);
	world_run(world.now_ns + 5 * S);
	assert_true(world_journal().is_degraded);
	assert_in_range(world_files_left(), 50, 350);
	world_disk_error = 0;
	world_run(world.now_ns + 40 * S);
	assert_false(world_journal().is_degraded);
	all_is_gone(600 * S);
}

TEST_IN(NULL, tear_down, after_a_fault_all_is_written_anew) {
	begin(4, 50 * MS, 8);
	read_in(100, 4);
	world_disk_error = EROFS;
	mails(20, 4);
	world_run(world.now_ns + 10 * S);
	world_disk_error = 0;
	world_run(world.now_ns + 60 * S);
	assert_int_equal(world_journal().messages, 120);
	world.reads = 0;
	world_restart_role(true);
	world_run(world.now_ns + 10 * S);
	assert_int_equal(world.reads, 0);
	assert_int_equal(world_journal().messages, 120);
	world.no_process = false;
	all_is_gone(120 * S);
}

TEST_IN(NULL, tear_down, files_that_are_removed_underneath) {
	begin(4, 50 * MS, 8);
	read_in(100, 4);
	world_journal_empty();
	world_run(world.now_ns + 60 * S);
	assert_int_equal(world_journal().messages, 100);
	world.reads = 0;
	world_restart_role(true);
	world_run(world.now_ns + 10 * S);
	assert_int_equal(world.reads, 0);
	world.no_process = false;
	all_is_gone(120 * S);
}

int main(void) {
	world_has_journal = true;
	return test_run();
}
