/* SPDX-License-Identifier: ISC */
/* Mail that waits for destinations: what is handed out, in which order, how fast, and what
 * is forgotten. */
#include "tests/unit/test.h"
#include "tests/unit/engine/requeue/requeue_world.h"

TEST_IN(begin, end, oldest_first_and_no_more_than_the_window) {
	window_is("b.example", 0);
	failed("AAAAAA3", "b.example", 30 * S);
	failed("AAAAAA5", "b.example", 50 * S);
	failed("AAAAAA1", "b.example", 10 * S);
	failed("AAAAAA4", "b.example", 40 * S);
	failed("AAAAAA2", "b.example", 20 * S);
	failed("CCCCCC1", "c.example", 90 * S);		/* is not down */
	assert_int_equal(out_after(60 * S), 0);
	window_is("b.example", 2);
	pass(S);
	assert_int_equal(returns, 1);
	assert_int_equal(out_count, 2);
	assert_string_equal(out[0], "AAAAAA5");
	assert_string_equal(out[1], "AAAAAA4");
	assert_int_equal(out_after(18 * S), 2);
	sent("AAAAAA5", "b.example");
	assert_int_equal(out_after(200 * MS), 3);
	assert_string_equal(out[2], "AAAAAA3");
	sent("AAAAAA4", "b.example");
	sent("AAAAAA3", "b.example");
	pass(200 * MS);
	assert_string_equal(out[4], "AAAAAA1");
	sent("AAAAAA1", "b.example");
	sent("AAAAAA2", "b.example");
	assert_int_equal(out_after(100 * S), 5);
	assert_int_equal(requeued, 5);
	counts_are(1, 0, 0);
}

TEST_IN(begin, end, a_moment_for_the_hints) {
	window_is("b.example", 0);
	failed("AAAAAA1", "b.example", 0);
	pass(S);
	window_is("b.example", 1);
	assert_int_equal(out_after(300 * MS), 0);
	assert_int_equal(out_after(300 * MS), 1);
}

/* What fails again waits for the next return. */
TEST_IN(begin, end, once_for_each_return) {
	window_is("b.example", 0);
	failed("AAAAAA1", "b.example", 0);
	pass(S);
	for (unsigned i = 1; i <= 3; i++) {
		window_is("b.example", 1);
		assert_int_equal(out_after(2 * S), i);
		failed("AAAAAA1", "b.example", 0);
		assert_int_equal(out_after(1000 * S), i);
		counts_are(1, 0, 0);
		window_is("b.example", 0);
		pass(S);
	}
}

TEST_IN(begin, end, other_reasons_wait_for_postfix) {
	window_is("b.example", 0);
	note("AAAAAA1", "b.example", DELIVERY_DEFERRED, RESULT_RCPT_TEMPORARY,
	    "450 4.2.0 greylisted", 0);
	note("AAAAAA2", "b.example", DELIVERY_DEFERRED, RESULT_LOCAL, "disk full", 0);
	note("AAAAAA3", "b.example", DELIVERY_BOUNCED, RESULT_PERMANENT, "550 no", 0);
	counts_are(0, 0, 0);
	failed("AAAAAA4", "b.example", 0);
	window_is("b.example", 5);
	assert_int_equal(out_after(S), 1);
	note("AAAAAA4", "b.example", DELIVERY_DEFERRED, RESULT_RCPT_TEMPORARY,
	    "450 4.2.0 greylisted", 0);
	counts_are(0, 0, 0);
}

/* Several that were held together make one pause. */
TEST_IN(begin, end, held_together) {
	window_is("b.example", 0);
	held("AAAAAA1", "b.example");
	held("AAAAAA2", "b.example");
	held("AAAAAA3", "b.example");
	pass(S);
	window_is("b.example", 3);
	assert_int_equal(out_after(S), 3);
	held("AAAAAA1", "b.example");
	held("AAAAAA2", "b.example");
	held("AAAAAA3", "b.example");
	assert_int_equal(out_after(S), 6);
}

/* An answer of before its return: again, with pauses that grow to 31 s. */
TEST_IN(begin, end, held_by_an_old_answer) {
	static const int64_t pauses[] = { 1, 2, 4, 8, 16, 31, 31 };

	window_is("b.example", 0);
	held("AAAAAA1", "b.example");
	pass(S);
	window_is("b.example", 5);
	assert_int_equal(out_after(S), 1);
	for (unsigned i = 0; i < 7; i++) {
		held("AAAAAA1", "b.example");
		assert_int_equal(out_after(pauses[i] * S - 1), i + 1);
		assert_int_equal(out_after(1), i + 2);
	}
	sent("AAAAAA1", "b.example");
	/* new mail that was held too late */
	held("AAAAAA2", "b.example");
	assert_int_equal(out_after(S), 9);
	/* what a class holds is left to Postfix */
	note("AAAAAA4", "b.example", DELIVERY_DEFERRED, RESULT_SUSPENDED,
	    "Postern: class x holds 2 of 2 sessions", 0);
	assert_int_equal(out_after(100 * S), 9);
}

#define SUSPENDED "Postern: b.example is suspended for 5 s"

/* The queue manager remembers the answer about the address of before for 30 s: a message that
 * it held was handed out six times, and deferred five times. */
TEST_IN(begin, end, one_message_is_not_deferred_again_after_resume) {
	window_is("b.example", 0);
	(void)taken_up("AAAAAA1", "s@x.example");
	held_for("AAAAAA1", "u@b.example", SUSPENDED);
	pass(2 * S);
	window_is("b.example", 5);
	assert_int_equal(out_after(28 * S - 1), 0);
	assert_int_equal(out_after(1), 1);
	(void)taken_up("AAAAAA1", "s@x.example");
	sent("AAAAAA1", "b.example");
	/* held for long: at once */
	window_is("b.example", 0);
	(void)taken_up("AAAAAA2", "s@x.example");
	held_for("AAAAAA2", "u@b.example", SUSPENDED);
	pass(30 * S);
	window_is("b.example", 5);
	assert_int_equal(out_after(S), 2);
}

/* Any other mail has it forget. */
TEST_IN(begin, end, other_mail_that_is_taken_up_lets_it_go) {
	window_is("b.example", 0);
	(void)taken_up("AAAAAA1", "s@x.example");
	held_for("AAAAAA1", "u@b.example", SUSPENDED);
	window_is("b.example", 5);
	assert_int_equal(out_after(5 * S), 0);
	assert_true(taken_up("BBBBBB1", "s@x.example"));
	assert_false(taken_up("BBBBBB2", "s@x.example"));
	assert_int_equal(out_after(S), 1);
}

/* Of the same sender to the same recipient all are remembered by one answer, which is not
 * renewed; one of another sender is not, and has that answer forgotten. */
TEST_IN(begin, end, the_same_address_is_one_answer) {
	window_is("b.example", 0);
	(void)taken_up("AAAAAA1", "s@x.example");
	held_for("AAAAAA1", "u@b.example", SUSPENDED);
	pass(20 * S);
	(void)taken_up("AAAAAA2", "s@x.example");
	held_for("AAAAAA2", "u@b.example", SUSPENDED);
	window_is("b.example", 5);
	assert_int_equal(out_after(10 * S - 1), 0);
	assert_int_equal(out_after(1), 2);
	window_is("b.example", 0);
	(void)taken_up("AAAAAA3", "t@x.example");
	(void)taken_up("AAAAAA4", "s@x.example");
	held_for("AAAAAA3", "u@b.example", SUSPENDED);
	held_for("AAAAAA4", "u@b.example", SUSPENDED);
	pass(S);
	window_is("b.example", 5);
	assert_int_equal(out_after(S), 3);
	assert_string_equal(out[2], "AAAAAA3");
	(void)taken_up("AAAAAA3", "t@x.example");
	assert_int_equal(out_after(S), 4);
}

/* Each of several recipients is asked about once more. */
TEST_IN(begin, end, of_several_recipients_none_is_remembered) {
	window_is("b.example", 0);
	(void)taken_up("AAAAAA1", "s@x.example");
	held_for("AAAAAA1", "u@b.example", SUSPENDED);
	held_for("AAAAAA1", "v@b.example", SUSPENDED);
	window_is("b.example", 5);
	assert_int_equal(out_after(S), 1);
}

TEST_IN(begin, end, a_resumed_recipient_s_mail_is_handed_out) {
	static const char words[] = "Postern: recipient held: he asked for it";

	held_recipient = "u@b.example";
	held_for("AAAAAA1", "U@b.example", words);
	held_for("AAAAAA2", "v@b.example", SUSPENDED);
	assert_int_equal(out_after(S), 1);
	assert_string_equal(out[0], "AAAAAA2");
	pass(100 * S);
	counts_are(1, 0, 1);
	/* its destination is down meanwhile */
	window_is("b.example", 0);
	held_recipient = NULL;
	assert_int_equal(out_after(10 * S), 1);
	window_is("b.example", 5);
	assert_int_equal(out_after(S), 2);
	assert_string_equal(out[1], "AAAAAA1");
	/* a result of that recipient ends it, whatever else the message waits for */
	note_for("AAAAAA1", "u@b.example", DELIVERY_SENT, RESULT_OK, "250 ok");
	(void)requeue_removed(requeue, 0, span("AAAAAA2"));
	counts_are(0, 0, 0);
}

TEST_IN(begin, end, a_resumed_class_s_mail_is_handed_out) {
	static const char words[] = "Postern: class x is held until 2026-11-23T10:00:00Z: holds";

	class_held = true;
	held_for("AAAAAA1", "U@b.example", words);
	held_for("AAAAAA2", "v@b.example", words);
	assert_int_equal(out_after(100 * S), 0);
	counts_are(2, 0, 0);
	/* other results of that destination say nothing of the class */
	note_for("BBBBBB1", "w@b.example", DELIVERY_SENT, RESULT_OK, "250 ok");
	counts_are(2, 0, 0);
	/* its destination is down meanwhile */
	window_is("b.example", 0);
	class_held = false;
	assert_int_equal(out_after(10 * S), 0);
	window_is("b.example", 5);
	assert_int_equal(out_after(S), 2);
	assert_int_equal(returns, 1);
	/* held by an answer of before: again */
	held_for("AAAAAA1", "u@b.example", words);
	assert_int_equal(out_after(2 * S), 3);
	note_for("AAAAAA1", "u@b.example", DELIVERY_SENT, RESULT_OK, "250 ok");
	note_for("AAAAAA2", "v@b.example", DELIVERY_DEFERRED, RESULT_RCPT_TEMPORARY, "450 no");
	counts_are(0, 0, 0);
}

#ifdef WITH_CLUSTER
/* Places that a cluster divides are asked for while there is mail for them. */
TEST_IN(begin, end, what_waits_is_told) {
	window_is("b.example", 0);
	for (unsigned i = 0; i < 3; i++) {
		static const char *const ids[] = { "AAAAAA1", "AAAAAA2", "AAAAAA3" };

		held(ids[i], "b.example");
	}
	pass(S);
	assert_int_equal(wanted, 3);
	window_is("b.example", 2);
	pass(S);
	wanted = 0;
	pass(S);
	assert_int_equal(wanted, 3);		/* one is due, two are out */
	sent(out[0], "b.example");
	sent(out[1], "b.example");
	pass(S);
	sent(out[2], "b.example");
	failed("AAAAAA4", "b.example", 0);	/* it waits for the site, not for a place */
	pass(S);
	wanted = 0;
	pass(100 * S);
	assert_int_equal(wanted, 0);
}
#endif

/* The window is open, but the queue manager gave up a lane after a few refusals, and
 * deferred all that waited there: it goes by other lanes, no more than the window. */
TEST_IN(begin, end, a_lane_that_postfix_suspended) {
	static const char *const ids[] = { "AAAAAA1", "AAAAAA2", "AAAAAA3" };

	window_is("b.example", 2);
	for (unsigned i = 0; i < 3; i++)
		note(ids[i], "b.example", DELIVERY_DEFERRED, RESULT_SUSPENDED,
		    "421 too many connections", 0);
	assert_int_equal(out_after(S), 2);
	sent("AAAAAA1", "b.example");
	assert_int_equal(out_after(S), 3);
	/* suspended still: again after a pause; not at all while the destination is */
	note("AAAAAA2", "b.example", DELIVERY_DEFERRED, RESULT_SUSPENDED,
	    "421 too many connections", 0);
	window_is("b.example", 0);
	assert_int_equal(out_after(100 * S), 3);
}

/* So it did, as the site took no more than it has: connections that took mail may be kept for
 * 2 s, each in a place. */
TEST_IN(begin, end, what_a_full_lane_keeps) {
	window_is("b.example", 2);
	note("AAAAAA1", "b.example", DELIVERY_DEFERRED, RESULT_SUSPENDED,
	    "421 too many connections", 0);
	pass(100 * MS);
	sent("BBBBBB1", "b.example");
	pass(200 * MS);
	/* that does not begin again with each */
	sent("BBBBBB2", "b.example");
	assert_int_equal(out_after(2100 * MS), 0);
	assert_int_equal(out_after(200 * MS), 1);
}

/* Where one at a time is tried, and refused: after 1 s, 2 s, 4 s. */
TEST_IN(begin, end, one_by_one_in_vain) {
	static const char *const ids[] = { "AAAAAA1", "AAAAAA2", "AAAAAA3", "AAAAAA4" };

	window_is("b.example", 1);
	for (unsigned i = 0; i < 4; i++)
		note(ids[i], "b.example", DELIVERY_DEFERRED, RESULT_SUSPENDED,
		    "421 too many connections", 0);
	pass(500 * MS);
	for (unsigned i = 1; i <= 3; i++) {
		assert_int_equal(out_count, i);
		failed(out[i - 1], "b.example", 0);
		assert_int_equal(out_after((1 << (i - 1)) * S - 100 * MS), i);
		pass(200 * MS);
	}
	assert_int_equal(out_count, 4);
}

TEST_IN(begin, end, a_window_that_doubles) {
	window_is("b.example", 2);
	failed("AAAAAA1", "b.example", 0);
	pass(10 * S);
	window_is("b.example", 3);
	assert_int_equal(out_after(10 * S), 0);
	window_is("b.example", 4);
	assert_int_equal(out_after(2 * S), 1);
	failed("AAAAAA1", "b.example", 0);
	window_is("b.example", 7);
	assert_int_equal(out_after(10 * S), 1);
	window_is("b.example", 3);
	pass(10 * S);
	window_is("b.example", 6);
	assert_int_equal(out_after(10 * S), 2);
}

TEST_IN(begin, end, no_faster_than_the_rate) {
	block.generation.requeue_rate = (struct rate_limit){ .count = 10, .period_ns = S };
	window_is("b.example", 0);
	for (unsigned i = 0; i < 100; i++) {
		char id[16];

		snprintf(id, sizeof(id), "AAAA%03u", i);
		failed(id, "b.example", (100 - i) * S);
	}
	window_is("b.example", 1000);
	assert_int_equal(out_after(450 * MS), 10);
	pass(2 * S);
	assert_in_range(out_count, 29, 31);
	assert_int_equal(out_after(20 * S), 100);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(strtol(out[i] + 4, NULL, 10), i);
}

TEST_IN(begin, end, observed_ones_are_left_alone) {
	window_is("b.example", 0);
	failed("AAAAAA1", "b.example", 0);
	find("b.example", 9)->observed = true;
	pass(S);
	window_is("b.example", 5);
	assert_int_equal(out_after(100 * S), 0);
	find("b.example", 9)->observed = false;
	assert_int_equal(out_after(2 * S), 1);
}

TEST_IN(begin, end, what_has_left_is_forgotten) {
	window_is("b.example", 0);
	window_is("c.example", 0);
	failed("AAAAAA1", "b.example", 0);
	failed("AAAAAA1", "c.example", 0);
	failed("AAAAAA2", "b.example", 0);
	requeue_removed(requeue, 0, span("AAAAAA1"));
	counts_are(1, 0, 0);
	requeue_removed(requeue, 1, span("AAAAAA2"));	/* another server's */
	counts_are(1, 0, 0);
	requeue_removed(requeue, 0, span("AAAAAA2"));
	counts_are(0, 0, 0);
	window_is("b.example", 5);
	assert_int_equal(out_after(100 * S), 0);
}

/* One of two recipients: the line of the other may stand before or behind it. */
TEST_IN(begin, end, several_recipients) {
	window_is("b.example", 0);
	failed("AAAAAA1", "b.example", 0);
	window_is("b.example", 1);
	pass(S);
	sent("AAAAAA1", "b.example");
	failed("AAAAAA1", "b.example", 0);
	counts_are(1, 0, 0);
	sent("AAAAAA1", "b.example");
	counts_are(1, 0, 0);
}
