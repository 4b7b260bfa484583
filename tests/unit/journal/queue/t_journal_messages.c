/* SPDX-License-Identifier: ISC */
/* The log of a queue, sentence by sentence (contrib/documents.md): what is written,
 * marked, synced and deleted while it runs.  Restarts: t_journal_messages_restart.c. */
#include "tests/unit/test.h"
#include "tests/unit/journal/queue/messages_world.h"

#define MINUTE	60.0

/* "First write a start record ... Then the envelope is marked as garbage": but only once the
 * start is synced, as a mark that came to the disk alone would lose the message. */
TEST_IN(world_begin, world_end, test_the_envelope_is_garbage_after_the_sync_that_covers_its_start) {
	assert_int_not_equal(put("q1", "a.example*2", 0, !HELD), 0);
	world_sync();
	assert_string_equal(records(), "E:q1");
	assert_string_equal(next(), "q1 a.example*2");
	assert_int_not_equal(start("q1"), 0);
	world_turn();
	assert_string_equal(records(), "E:q1 S:q1");
	world_sync();
	assert_string_equal(records(), "[E:q1] S:q1");
}

/* "recording the results for each set of recipients as a delivery record, with an fsync for
 * each set": within sync_delay. */
TEST_IN(world_begin, world_end, test_a_delivery_is_acknowledged_within_the_delay) {
	uint64_t sequence;

	put("q1", "a.example*2", 0, HELD);
	start("q1");
	world_sync();
	sequence = delivered("q1", "a.example", 2);
	assert_int_not_equal(sequence, 0);
	world_turn();
	assert_true(journal_log_synced(messages_log(world.m)) < sequence);
	world_pass(0.099);
	assert_true(journal_log_synced(messages_log(world.m)) < sequence);
	world_pass(0.001);
	assert_true(journal_log_synced(messages_log(world.m)) >= sequence);
}

/* "Thus we can get less than one fsync per recipient per message": one for the sets of several
 * deliveries that come within sync_delay. */
TEST_IN(world_begin, world_end, test_deliveries_of_a_moment_share_a_sync) {
	uint64_t before, sequence = 0;
	char id[8];

	for (unsigned i = 0; i < 5; i++) {
		snprintf(id, sizeof(id), "q%u", i);
		put(id, "a.example*4", 0, HELD);
		start(id);
	}
	world_sync();
	before = counts().syncs;
	for (unsigned i = 0; i < 5; i++) {
		snprintf(id, sizeof(id), "q%u", i);
		sequence = delivered(id, "a.example", 4);
		world_pass(0.01);
	}
	world_pass(0.1);
	assert_true(journal_log_synced(messages_log(world.m)) >= sequence);
	assert_int_equal(counts().syncs, before + 1);	/* for 20 recipients */
}

/* "The envelope of a new message ... if we delay a little we can piggy-back it on a delivery
 * fsync." */
TEST_IN(world_begin, world_end, test_a_new_envelope_rides_on_the_sync_of_a_delivery) {
	uint64_t before, sequence;

	put("q1", "a.example", 0, HELD);
	start("q1");
	world_sync();
	before = counts().syncs;
	sequence = put("q2", "a.example", 0, !HELD);
	world_turn();
	delivered("q1", "a.example", 1);
	world_pass(0.1);
	assert_true(journal_log_synced(messages_log(world.m)) >= sequence);
	assert_int_equal(counts().syncs, before + 1);
	world_pass(2);
	assert_int_equal(counts().syncs, before + 1);
}

TEST_IN(world_begin, world_end, test_a_new_envelope_alone_is_synced_within_its_own_delay) {
	uint64_t sequence;

	world_sync();
	sequence = put("q1", "a.example", 0, !HELD);
	world_pass(0.9);
	assert_true(journal_log_synced(messages_log(world.m)) < sequence);
	world_pass(0.1);
	assert_true(journal_log_synced(messages_log(world.m)) >= sequence);
}

/* "No fsyncs are needed for writing garbage flags, start or finish records, or replacement
 * envelopes." */
TEST_IN(world_begin, world_end, test_starts_finishes_and_replacements_need_no_sync) {
	uint64_t before;

	put("q1", "a.example", 0, HELD);
	put("q2", "a.example", 0, HELD);
	world_sync();
	before = counts().syncs;
	start("q1");
	start("q2");
	world_pass(3);
	put("q1", "a.example", 300, HELD);
	finish("q2");
	world_pass(50);
	assert_int_equal(counts().syncs, before);
}

/* "When there's nothing left to do, either write an updated envelope record or a finish." */
TEST_IN(world_begin, world_end, test_work_ends_with_a_replacement_or_a_finish) {
	put("q1", "a.example b.example", 0, HELD);
	put("q2", "a.example", 0, HELD);
	start("q1");
	start("q2");
	delivered("q2", "a.example", 1);
	delivered("q1", "a.example", 1);
	put("q1", "b.example", 0, !HELD);
	finish("q2");
	world_sync();
	assert_string_equal(records(), "[E:q1] [E:q2] S:q1 S:q2 D:q2 D:q1 R:q1 F:q2");
	assert_int_equal(totals().messages, 1);
	assert_int_equal(totals().working, 0);
	assert_string_equal(all_next(), "q1 b.example*1");
}

TEST_IN(world_begin, world_end, test_what_is_not_known_is_refused) {
	assert_int_equal(start("q1"), 0);
	assert_int_equal(delivered("q1", "a.example", 1), 0);
	assert_int_equal(finish("q1"), 0);
	put("q1", "a.example", 0, HELD);
	assert_int_equal(delivered("q1", "a.example", 1), 0);
	start("q1");
	assert_int_equal(start("q1"), 0);
	assert_int_not_equal(finish("q1"), 0);
	assert_int_equal(finish("q1"), 0);
	world_sync();
	assert_string_equal(records(), "[E:q1] S:q1 F:q1");
}

/* A file that has changed while it waits: the old envelope is garbage. */
TEST_IN(world_begin, world_end, test_a_changed_file_has_one_envelope) {
	put("q1", "a.example*2", 0, !HELD);
	put("q1", "a.example*5", 0, !HELD);
	world_sync();
	assert_string_equal(records(), "[E:q1] E:q1");
	assert_string_equal(all_next(), "q1 a.example*5");
	finish("q1");
	world_sync();
	assert_string_equal(records(), "[E:q1] [E:q1] F:q1");
}

/* "A queue runner scans the queue until it encounters an envelope which is not marked as
 * garbage, is past its retry time, and is not already being worked on." */
TEST_IN(world_begin, world_end, test_runners_come_when_their_interval_has_passed) {
	put("q0", "a.example", 0, !HELD);
	put("q4", "a.example", 4 * MINUTE, !HELD);	/* the shortest runner brings it early */
	put("q5", "a.example", 5 * MINUTE, !HELD);
	put("q9", "a.example", 9 * MINUTE, !HELD);	/* 5 minutes: 10 are too many */
	put("q12", "a.example", 12 * MINUTE, !HELD);
	put("q70", "a.example", 70 * MINUTE, !HELD);
	world_turn();
	assert_string_equal(all_next(), "q0 a.example*1, q4 a.example*1");
	assert_true(next_in() == 5 * MINUTE);
	finish("q0");
	finish("q4");
	world_pass(5 * MINUTE - 1);
	assert_string_equal(next(), "");
	world_pass(1);
	assert_string_equal(all_next(), "q5 a.example*1, q9 a.example*1");
	assert_true(next_in() == 5 * MINUTE);
	finish("q5");
	finish("q9");
	world_pass(5 * MINUTE);
	assert_string_equal(next(), "q12 a.example*1");
	finish("q12");
	world_pass(20 * MINUTE);
	/* the longest one wrote it anew: 40 minutes are left, so it waits 30 more */
	assert_string_equal(next(), "");
	assert_int_equal(totals().written_anew, 1);
	world_pass(30 * MINUTE);
	assert_string_equal(next(), "");
	world_pass(10 * MINUTE);
	assert_string_equal(next(), "q70 a.example*1");
}

TEST_IN(world_begin, world_end, test_what_is_held_is_not_given_again_until_it_is_put_back) {
	put("q1", "a.example", 0, !HELD);
	put("q2", "a.example", 0, HELD);
	world_turn();
	assert_string_equal(all_next(), "q1 a.example*1");
	put("q1", "a.example", 0, !HELD);
	put("q2", "a.example", 5 * MINUTE, !HELD);
	world_turn();
	assert_string_equal(all_next(), "q1 a.example*1");
	world_pass(5 * MINUTE);
	assert_string_equal(next(), "q2 a.example*1");
}

/* "Postfix has a fairness strategy of adding messages to the active queue alternately from
 * the incoming and deferred queues." */
TEST_IN(world_begin, world_end, test_new_and_old_ones_come_by_turns) {
	char id[8];

	for (unsigned i = 0; i < 4; i++) {
		snprintf(id, sizeof(id), "old%u", i);
		put(id, "a.example", 5 * MINUTE, !HELD);
	}
	world_pass(5 * MINUTE);
	for (unsigned i = 0; i < 3; i++) {
		snprintf(id, sizeof(id), "new%u", i);
		put(id, "a.example", 0, !HELD);
	}
	world_turn();
	assert_string_equal(all_next(),
	    "new0 a.example*1, old0 a.example*1, new1 a.example*1, old1 a.example*1, "
	    "new2 a.example*1, old2 a.example*1, old3 a.example*1");
}

/* "When old files become entirely garbage they can be deleted." */
TEST_IN(world_begin, world_end, test_files_that_are_all_garbage_are_deleted) {
	traffic(300000);
	world_turn();
	assert_in_range(files(), 5, 8);
	world_pass(61);
	world_pass(61);
	assert_in_range(files(), 1, 2);
	assert_int_equal(counts().files_lost, 0);
}

/* "Envelopes just behind the queue runner are not true garbage until their replacement
 * envelope has been written." */
TEST_IN(world_begin, world_end, test_the_file_of_a_working_message_stays) {
	unsigned before;

	put("q1", "a.example", 0, HELD);
	traffic(200000);
	start("q1");	/* its envelope is garbage, not truly */
	traffic(100000);
	world_pass(61);
	before = files();
	assert_in_range(before, 5, 8);
	traffic(70000);
	world_pass(61);
	assert_in_range(files(), before + 1, before + 2);
	assert_int_equal(counts().files_deleted, 0);
	put("q1", "a.example", 5 * MINUTE, HELD);
	world_pass(61);
	traffic(1000);
	world_pass(61);
	assert_in_range(files(), 1, 2);
}

/* Whatever is held back for how long: the log covers the longest interval. */
TEST_IN(world_begin, world_end, test_the_longest_runner_writes_anew_what_still_waits) {
	world.settings.positions_ns = 5 * S;
	world_kill();
	world_open();
	world_turn();
	put("held", "a.example", SUSPENDED, !HELD);
	put("memory", "b.example", 0, HELD);
	traffic(200000);
	world_pass(29 * MINUTE);
	assert_int_equal(totals().written_anew, 0);
	assert_in_range(files(), 4, 6);
	world_pass(1 * MINUTE);
	assert_int_equal(totals().written_anew, 2);
	world_pass(10);
	traffic(100);
	world_pass(10);
	assert_in_range(files(), 1, 2);
	for (unsigned i = 0; i < 10; i++) {
		traffic(70000);
		world_pass(31 * MINUTE);
		assert_string_equal(next(), "");
	}
	assert_in_range(files(), 1, 4);
	assert_int_equal(totals().messages, 2);
	assert_int_equal(totals().held, 1);
}

/* Its owner has no room: what is due waits for its turn, as long as it takes. */
TEST_IN(world_begin, world_end, test_what_is_due_is_not_written_anew) {
	put("q1", "a.example", 0, !HELD);
	put("q2", "a.example", 5 * MINUTE, !HELD);
	world_pass(3 * 3600);
	assert_int_equal(totals().written_anew, 0);
	assert_string_equal(next(), "q1 a.example*1");
	assert_string_equal(next(), "q2 a.example*1");
}

TEST_IN(world_begin, world_end, test_a_clock_that_was_set_back_holds_up_nothing) {
	put("q1", "a.example", 5 * MINUTE, !HELD);
	world_turn();
	assert_string_equal(next(), "");
	world.wall_ns -= 7200 * S;
	assert_string_equal(next(), "q1 a.example*1");
}

/* What was to wait for an hour waits for an hour, not for a year. */
TEST_IN(world_begin, world_end, test_what_waits_is_no_later_for_a_clock_that_was_set_back) {
	struct messages_envelope e;
	int64_t next_ns;

	put("q1", "a.example", 60 * MINUTE, !HELD);
	world_turn();
	world.wall_ns -= 365 * 86400 * S;
	world_pass(59 * MINUTE);
	assert_string_equal(next(), "");
	world_pass(MINUTE);
	assert_int_equal(messages_next(world.m, world.wall_ns, &e, &next_ns), MESSAGES_ONE);
	assert_true(e.due_ns == WORLD_EPOCH + (3600 - INT64_C(365) * 86400) * S);
	assert_true(e.groups[0].due_ns == e.due_ns);
}

/* What waits in the log alone costs at most 32 bytes of memory, and never much less than its
 * entry of 24. */
TEST_IN(world_begin, world_end, test_a_message_that_waits_takes_32_bytes) {
	struct messages_totals few, many;
	char id[16];

	for (unsigned i = 0; i < 150000; i++) {
		snprintf(id, sizeof(id), "q%u", i);
		assert_int_not_equal(put(id, "a.example", 60 * MINUTE, !HELD), 0);
		if (i == 30000)
			messages_count(world.m, &few);
		if (i % 1000 == 0)
			world_turn();
	}
	messages_count(world.m, &many);
	assert_in_range(many.index_bytes - few.index_bytes, 24 * 120000, 32 * 120000);
}
