/* SPDX-License-Identifier: ISC */
/* The log of a queue after its process died: what is read, what comes back, and what does
 * not.  Power loss at every write: tests/crash/journal_points. */
#include "tests/unit/test.h"
#include "tests/unit/journal/queue/messages_world.h"
#include "journal/queue/messages_internal.h"
#include "tests/crash/sync_log.h"

#define MINUTE	60.0

static void restart(void) {
	world_kill();
	world_open();
	world_turn();
}

static void record_positions(void) {
	world_pass(61);
}

/* "When we run out of queue, write replacement envelopes for all the working messages." */
TEST_IN(world_begin, world_end, test_what_was_working_comes_back_without_what_was_delivered) {
	put("q1", "a.example*3 b.example*2", 0, HELD);
	put("q2", "a.example", 0, HELD);
	put("q3", "a.example*2", 0, HELD);
	put("q4", "a.example", 0, HELD);
	start("q1");
	start("q2");
	start("q3");
	delivered("q1", "a.example", 1);
	delivered("q1", "b.example", 2);
	delivered("q1", "a.example", 1);
	delivered("q2", "a.example", 1);
	world_sync();
	restart();
	assert_int_equal(totals().recovered, 3);
	assert_int_equal(totals().messages, 3);
	/* first what was never taken, then the replacements, in the order of their starts */
	assert_string_equal(all_next(), "q4 a.example*1, q1 a.example*1, q3 a.example*2");
	world_sync();
	assert_string_equal(records(),
	    "[E:q1] [E:q2] [E:q3] E:q4 S:q1 S:q2 S:q3 D:q1 D:q1 D:q1 D:q2 R:q1 F:q2 R:q3");
	restart();
	assert_int_equal(totals().recovered, 0);
	assert_string_equal(next(), "q4 a.example*1");
	assert_string_equal(next(), "q1 a.example*1");
}

static char came_back[256];

static void on_recovered(void *context, const struct messages_envelope *e) {
	(void)snprintf(came_back, sizeof(came_back), "%s %u %.*s", e->id, e->pid,
	    (int)e->delivered_length, e->delivered);
}

static void told(const char *id, const char *to, const char *domain, uint32_t recipients) {
	const struct journal_delivery line = { .id = journal_text_of(id), .to = journal_text_of(to),
		.domain = journal_text_of(domain), .recipients = recipients, .pid = 77,
		.result = recipients == 0 ? JOURNAL_RESULT_WAITS : JOURNAL_RESULT_GONE };

	assert_int_not_equal(messages_delivered(world.m, messages_key("m", "/q", id), &line, world.wall_ns), 0);
}

/* What lines of the log have told stands in the queue file still: it comes back with them, as
 * often as the process dies, until the file was written anew. */
TEST_IN(world_begin, world_end, test_what_lines_told_comes_back_with_the_message) {
	world.recovered = on_recovered;
	put("q1", "a.example*3 b.example*1", 0, HELD);
	assert_int_not_equal(messages_start(world.m, messages_key("m", "/q", "q1"), 77, world.wall_ns), 0);
	told("q1", "x@a.example,y@a.example", "a.example", 2);
	told("q1", "z@b.example", "b.example", 1);
	world_sync();
	restart();
	assert_string_equal(came_back, "q1 77 x@a.example,y@a.example,z@b.example");
	assert_string_equal(next(), "q1 a.example*3 b.example*1");
	/* once more, by another process, before anything was written */
	assert_int_not_equal(messages_start(world.m, messages_key("m", "/q", "q1"), 78, world.wall_ns), 0);
	told("q1", "w@a.example", "a.example", 1);
	world_sync();
	restart();
	assert_string_equal(came_back, "q1 78 x@a.example,y@a.example,z@b.example,w@a.example");
	/* and lines of this run disagree */
	assert_string_equal(next(), "q1 a.example*3 b.example*1");
	start("q1");
	told("q1", "", "", 0);
	told("q1", "v@a.example", "a.example", 1);
	world_sync();
	restart();
	assert_string_equal(came_back, "q1 0 ");
	/* of one that is gone it says no more than that */
	finish("q1");
	told("q1", "u@a.example", "a.example", 1);
	world_sync();
	came_back[0] = '\0';
	restart();
	assert_string_equal(came_back, "");
	assert_string_equal(next(), "");
}

static unsigned recovered;

static void count_recovered(void *context, const struct messages_envelope *e) {
	recovered += e->pid == 77;
}

/* What is read of the log at once after a start speaks of what was in a run: of all of it. */
TEST_IN(world_begin, world_end, test_all_that_was_working_is_told_before_it_counts_as_replaced) {
	char id[16];
	bool was_between = false;

	world.recovered = count_recovered;
	for (unsigned i = 0; i < 300; i++) {
		(void)snprintf(id, sizeof(id), "q%u", i);
		put(id, "a.example", 0, HELD);
		assert_int_not_equal(messages_start(world.m, messages_key("m", "/q", id), 77, world.wall_ns), 0);
	}
	world_sync();
	world_kill();
	world_open();
	recovered = 0;
	for (unsigned i = 0; !messages_is_replaced(world.m); i++) {
		was_between = was_between || messages_is_recovered(world.m);
		(void)messages_turn(world.m, world.wall_ns, world.now_ns);
		assert_in_range(i, 0, 1000);
	}
	assert_true(was_between);
	assert_int_equal(recovered, 300);
}

/* "If we encounter a replacement envelope or finish record for a working message ... remove
 * it from the working list." */
TEST_IN(world_begin, world_end, test_what_was_replaced_or_finished_is_not_working) {
	put("q1", "a.example*3", 0, HELD);
	put("q2", "a.example", 0, HELD);
	start("q1");
	start("q2");
	delivered("q1", "a.example", 1);
	put("q1", "a.example*2", 5 * MINUTE, HELD);
	finish("q2");
	world_sync();
	restart();
	assert_int_equal(totals().recovered, 0);
	assert_string_equal(next(), "");
	world_pass(5 * MINUTE);
	assert_string_equal(all_next(), "q1 a.example*2");
}

/* "For each start record ... ensure that the envelope it refers to is marked as garbage." */
TEST_IN(world_begin, world_end, test_marks_that_were_lost_are_made_again) {
	put("q1", "a.example", 0, HELD);
	put("q2", "a.example*2", 0, HELD);
	put("q3", "a.example", 0, !HELD);
	start("q1");
	put("q2", "a.example*1", 0, !HELD);
	finish("q3");
	journal_log_flush(messages_log(world.m));	/* written, not synced: no marks */
	assert_string_equal(records(), "E:q1 E:q2 E:q3 S:q1 E:q2 F:q3");
	restart();
	world_sync();
	assert_string_equal(records(), "[E:q1] [E:q2] [E:q3] S:q1 E:q2 F:q3 R:q1");
	assert_string_equal(all_next(), "q2 a.example*1, q1 a.example*1");
}

/* A start that was lost: its envelope had not been marked. */
TEST_IN(world_begin, world_end, test_a_start_that_was_not_written_never_was) {
	put("q1", "a.example", 0, HELD);
	world_sync();
	start("q1");
	restart();
	assert_int_equal(totals().recovered, 0);
	assert_string_equal(next(), "q1 a.example*1");
}

/* "When the MTA is restarted it can immediately start receiving messages ... However
 * deliveries have to wait." */
TEST_IN(world_begin, world_end, test_mail_can_be_told_before_recovery_ends) {
	put("q1", "a.example*3", 0, HELD);
	put("q2", "a.example", 0, HELD);
	start("q1");
	world_sync();
	world_kill();
	world_open();
	assert_false(messages_is_recovered(world.m));
	assert_int_not_equal(put("q3", "a.example", 0, !HELD), 0);
	assert_int_not_equal(put("q1", "a.example*2", 0, !HELD), 0);
	assert_int_not_equal(finish("q2"), 0);
	assert_string_equal(next(), "");
	assert_int_equal(start("q3"), 0);
	world_turn();
	assert_true(messages_is_recovered(world.m));
	assert_int_equal(totals().recovered, 0);
	assert_string_equal(all_next(), "q3 a.example*1, q1 a.example*2");
	assert_int_not_equal(start("q3"), 0);
	record_positions();
	/* the first file is all garbage, and was deleted */
	assert_string_equal(records(), "[E:q3] E:q1 F:q2 S:q3");
	restart();
	assert_string_equal(all_next(), "q1 a.example*2, q3 a.example*1");
}

/* Recovery that is interrupted, and recovered, at each of its turns. */
TEST_IN(world_begin, world_end, test_recovery_may_be_interrupted_again_and_again) {
	char id[8];
	unsigned count = 0;

	for (unsigned i = 0; i < 200; i++) {
		snprintf(id, sizeof(id), "q%u", i);
		put(id, "a.example*3", 0, HELD);
		start(id);
		delivered(id, "a.example", 1 + i % 3);
	}
	world_sync();
	for (unsigned turns = 0; turns < 6; turns++) {
		world_kill();
		world_open();
		for (unsigned i = 0; i < turns; i++)
			messages_turn(world.m, world.wall_ns, world.now_ns);
	}
	restart();
	while (next()[0] != '\0') {
		unsigned i, left;

		assert_int_equal(sscanf(world.text, "q%u a.example*%u", &i, &left), 2);
		assert_int_equal(left, 3 - (1 + i % 3));
		count++;
	}
	assert_int_equal(count, 134);	/* every third is done: 2, 5, ..., 197 */
	assert_int_equal(totals().messages, 134);
}

/* "The part of the queue that we can't avoid scanning is the working suffix." */
static uint64_t read_by_recovery(unsigned queued) {
	char id[16];
	uint64_t bytes;

	for (unsigned i = 0; i < queued; i++) {
		snprintf(id, sizeof(id), "w%u", i);
		put(id, "a.example", SUSPENDED, !HELD);
	}
	record_positions();
	for (unsigned i = 0; i < 20; i++) {
		snprintf(id, sizeof(id), "q%u", i);
		put(id, "a.example", 0, HELD);
		start(id);
	}
	record_positions();
	delivered("q1", "a.example", 1);
	world_sync();
	world_kill();
	world_open();
	while (!messages_is_recovered(world.m))
		messages_turn(world.m, world.wall_ns, world.now_ns);
	bytes = bytes_read();
	world_turn();
	assert_int_equal(totals().recovered, 20);
	assert_true(messages_is_indexed(world.m));
	assert_int_equal(totals().messages, 19 + queued);
	return bytes;
}

TEST_IN(world_begin, world_end, test_recovery_reads_the_suffix_alone) {
	uint64_t small, large;

	small = read_by_recovery(100);
	world_end(state);
	world_begin(state);
	large = read_by_recovery(5000);
	/* about 100 bytes each: 500 kB are not read */
	assert_true(large < small + 40000);
}

/* "This procedure lags slightly behind ... if they are out of date the only harm will be a
 * little more garbage to scan." */
TEST_IN(world_begin, world_end, test_positions_are_recorded_after_the_sync_of_the_marks) {
	put("q1", "a.example", 0, HELD);
	start("q1");
	record_positions();
	assert_string_equal(records(), "[E:q1] S:q1");
	assert_int_equal(journal_log_positions_recorded(messages_log(world.m)), 2);
	finish("q1");
	put("q2", "a.example", 0, !HELD);
	world_sync();
	restart();	/* positions say that q1 is working: its finish stands behind */
	assert_int_equal(totals().recovered, 0);
	assert_string_equal(all_next(), "q2 a.example*1");
}

/* Runners go on where they were, but for what their owner had in memory. */
TEST_IN(world_begin, world_end, test_runners_go_on_where_they_were) {
	char id[16], line[32];

	put("first", "a.example", 0, HELD);
	for (unsigned i = 0; i < 1000; i++) {
		snprintf(id, sizeof(id), "q%u", i);
		put(id, "a.example", 5 * MINUTE, !HELD);
	}
	world_turn();
	assert_string_equal(next(), "");
	start("first");
	put("first", "a.example", 5 * MINUTE, !HELD);
	record_positions();
	world_pass(4 * MINUTE);
	for (unsigned i = 0; i < 1000; i++) {
		snprintf(line, sizeof(line), "q%u a.example*1", i);
		assert_string_equal(next(), line);
		snprintf(id, sizeof(id), "q%u", i);
		if (i != 500)
			finish(id);
	}
	record_positions();
	restart();
	/* where that stands, not where its file begins */
	assert_true(messages_runner_place(world.m, 1).offset > 1000);
	assert_string_equal(all_next(), "q500 a.example*1, first a.example*1");
}

/* Other intervals than before: an envelope's runner may have passed it as another one's. */
TEST_IN(world_begin, world_end, test_other_intervals_miss_nothing) {
	char id[16];

	for (unsigned i = 0; i < 100; i++) {
		snprintf(id, sizeof(id), "q%u", i);
		put(id, "a.example", i % 2 == 0 ? 5 * MINUTE : 12 * MINUTE, !HELD);
	}
	world_pass(6 * MINUTE);
	for (unsigned i = 0; i < 50; i++)
		assert_string_not_equal(next(), "");
	assert_string_equal(next(), "");
	record_positions();
	world.settings.intervals = 3;
	restart();
	world_pass(4 * MINUTE);
	for (unsigned i = 0; i < 100; i++)
		assert_string_not_equal(next(), "");
	assert_string_equal(next(), "");
}

/* --- the index ------------------------------------------------------------------------------ */

/* Until all is indexed the log may hold an older envelope than the one that is told. */
TEST_IN(world_begin, world_end, test_an_older_envelope_that_is_found_later_does_not_come_back) {
	put("q1", "a.example*5", 0, !HELD);
	put("q2", "a.example", 0, !HELD);
	put("q3", "a.example", 5 * MINUTE, !HELD);
	traffic(70000);
	record_positions();
	traffic(1000);
	record_positions();
	world_kill();
	world_open();
	assert_false(messages_knows(world.m, messages_key("m", "/q", "q1"), 1));
	put("q1", "a.example*2", 0, !HELD);
	assert_int_not_equal(finish("q2"), 0);
	put("q3", "a.example*3", 0, HELD);
	while (!messages_is_recovered(world.m))
		messages_turn(world.m, world.wall_ns, world.now_ns);
	assert_false(messages_is_indexed(world.m));
	start("q3");
	finish("q3");
	world_turn();
	assert_true(messages_is_indexed(world.m));
	assert_int_equal(totals().messages, 1);
	assert_true(messages_knows(world.m, messages_key("m", "/q", "q1"), 1));
	assert_string_equal(all_next(), "q1 a.example*2");
	world_pass(10 * MINUTE);
	assert_string_equal(next(), "");
}

/* The same, and the process dies before the index is whole: what was told must be read at
 * the next recovery, wherever positions are. */
TEST_IN(world_begin, world_end, test_the_same_after_another_death) {
	put("q1", "a.example*5", 0, !HELD);
	put("q2", "a.example", 0, !HELD);
	traffic(70000);
	record_positions();
	traffic(1000);
	record_positions();
	for (unsigned i = 0; i < 3; i++) {
		world_kill();
		world_open();
		while (!messages_is_recovered(world.m))
			messages_turn(world.m, world.wall_ns, world.now_ns);
		assert_false(messages_is_indexed(world.m));
		if (i == 0) {
			put("q1", "a.example*2", 0, HELD);
			finish("q2");
			world.now_ns += 100 * S;
		}
		/* positions are recorded, too */
		sync_log(messages_log(world.m), world.now_ns);
	}
	restart();
	assert_int_equal(totals().messages, 1);
	assert_string_equal(all_next(), "q1 a.example*2");
}

TEST_IN(world_begin, world_end, test_files_are_deleted_after_a_restart_too) {
	put("q1", "a.example", 0, !HELD);
	traffic(300000);
	record_positions();
	assert_in_range(files(), 5, 8);
	restart();
	assert_string_equal(next(), "q1 a.example*1");
	finish("q1");
	record_positions();
	record_positions();
	assert_in_range(files(), 1, 2);
	restart();
	assert_int_equal(totals().messages, 0);
	assert_string_equal(next(), "");
}

/* An older file that is removed underneath: what stood there is lost; the rest is recovered
 * as at a start, and what its owner puts then is newer. */
TEST_IN(world_begin, world_end, test_a_file_that_was_removed_underneath) {
	char name[128];

	put("q1", "a.example", 0, !HELD);
	traffic(70000);
	put("q2", "a.example", 0, !HELD);
	put("q3", "a.example*3", 0, HELD);
	put("q4", "a.example", 0, HELD);
	start("q3");
	delivered("q3", "a.example", 1);
	world_sync();
	snprintf(name, sizeof(name), "%s/0000000001.log", world.path);
	assert_int_equal(unlink(name), 0);
	world_pass(11);	/* older ones are looked for each 10 seconds */
	assert_int_equal(world.renewed, 1);
	assert_int_equal(totals().messages, 3);
	assert_int_equal(totals().held, 0);
	put("q2", "a.example*2", 0, !HELD);
	world_sync();
	for (unsigned i = 0; i < 3; i++) {
		restart();
		assert_int_equal(totals().messages, 3);
		assert_string_equal(all_next(),
		    "q4 a.example*1, q3 a.example*2, q2 a.example*2");
		record_positions();
	}
}

/* No positions at all: everything is read. */
TEST_IN(world_begin, world_end, test_without_positions_all_is_read) {
	char name[128];

	put("q1", "a.example", 0, !HELD);
	put("q2", "a.example*4", 0, HELD);
	traffic(70000);
	record_positions();
	start("q2");
	delivered("q2", "a.example", 3);
	world_sync();
	world_kill();
	snprintf(name, sizeof(name), "%s/positions", world.path);
	assert_int_equal(unlink(name), 0);
	world_open();
	world_turn();
	assert_int_equal(totals().messages, 2);
	assert_string_equal(all_next(), "q1 a.example*1, q2 a.example*1");
}

/* What cannot be told apart any more is done with as a sum, and takes nothing off others. */
TEST_IN(world_begin, world_end, test_more_domains_than_an_envelope_has_take_off_nobody_elses) {
	char domain[32];

	put("q1", "z.example*3 w.example*3 y.example*3000", 0, HELD);
	start("q1");
	delivered("q1", "z.example", 1);
	for (unsigned i = 0; i < MESSAGES_GROUPS_MAX - 2; i++) {
		snprintf(domain, sizeof(domain), "d%u.example", i);
		delivered("q1", domain, 1);
	}
	delivered("q1", "w.example", 1);
	for (unsigned i = 0; i < 5; i++) {
		snprintf(domain, sizeof(domain), "e%u.example", i);
		delivered("q1", domain, 1);
	}
	delivered("q1", "z.example", 1);
	world_sync();
	restart();
	assert_string_equal(next(), "q1 z.example*1 w.example*3 y.example*3000");
}
