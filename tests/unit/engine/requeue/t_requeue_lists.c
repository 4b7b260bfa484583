/* SPDX-License-Identifier: ISC */
/* Mail that waits for destinations: lists of queues, what fails, too much of it, and
 * whatever may happen. */
#include "tests/unit/test.h"
#include "tests/unit/random.h"
#include "tests/unit/engine/requeue/requeue_world.h"

TEST_IN(begin, end, a_flush_that_failed) {
	window_is("b.example", 0);
	failed("AAAAAA1", "b.example", 0);
	pass(S);
	refuses = true;
	window_is("b.example", 5);
	assert_int_equal(out_after(2 * S), 0);
	refuses = false;
	assert_int_equal(out_after(200 * MS), 1);
	requeue_flush_failed(requeue, 0, "AAAAAA1", now_ns);
	requeue_flush_failed(requeue, 0, "AAAAAA2", now_ns);
	counts_are(0, 1, 0);
	assert_int_equal(out_after(900 * MS), 1);
	assert_int_equal(out_after(200 * MS), 2);
	/* nothing is ever heard of it */
	pass(299 * S);
	counts_are(0, 0, 1);
	pass(3 * S);
	counts_are(0, 0, 0);
}

TEST_IN(begin, end, the_list) {
	refuses = true;
	pass(S);
	refuses = false;
	requeue_turn(requeue, &block.generation, now_ns);
	assert_int_equal(lists, 1);
	requeue_turn(requeue, &block.generation, now_ns);
	assert_int_equal(lists, 1);
	window_is("provider:a", 0);
	requeue_list_recipient(requeue, &block.generation, 0, span("AAAAAA1"),
	    span("u@a.example"), span("connect to mx[192.0.2.1]:25: Connection refused"),
	    now_ns - 5 * S, now_ns);
	listed("AAAAAA1", "v@a.example", "Postern: provider:a is suspended");
	listed("AAAAAA2", "u@d.example", "Postern: d.example is suspended");
	listed("AAAAAA3", "nobody", "connect to mx[192.0.2.1]:25: refused");
	listed("AAAAAA4", "u@a.example", "");
	listed("AAAAAA5", "u@a.example",
	    "host mx[192.0.2.1] said: 450 4.2.0 greylisted (in reply to RCPT TO command)");
	requeue_listed(requeue, 0, true, now_ns);
	/* d.example came back while nobody looked */
	counts_are(1, 1, 0);
	assert_int_equal(out_after(10 * S), 1);
	assert_string_equal(out[0], "AAAAAA2");
	/* nothing is heard of it: it may have been deleted */
	pass(10000 * S);
	assert_int_equal(lists, 2);
}

/* Neither is logged by Postfix: their places were taken for ever. */
TEST_IN(begin, end, deleted_or_put_on_hold) {
	requeue_turn(requeue, &block.generation, now_ns);
	requeue_listed(requeue, 0, true, now_ns);
	window_is("b.example", 0);
	for (unsigned i = 0; i < 40; i++) {
		char id[16];

		snprintf(id, sizeof(id), "AAAAA%02u", i);
		held(id, "b.example");
		now_ns += S;
	}
	window_is("b.example", 5);
	assert_int_equal(out_after(S), 5);
	pass(20 * S);
	/* so long ago takes no place, and the queue is read again */
	assert_int_equal(out_count, 10);
	assert_int_equal(lists, 2);
	counts_are(0, 30, 10);
	/* the last one is still there, and one comes that the list does not have yet */
	listed("AAAAA39", "u@b.example", "Postern: b.example is suspended");
	held("AAAAA98", "b.example");
	requeue_listed(requeue, 0, true, now_ns);
	assert_int_equal(out_after(20 * S), 12);
	sent("AAAAA39", "b.example");
	sent("AAAAA98", "b.example");
	pass(S);
	/* what was handed out when the list was asked for may have been on its way */
	counts_are(0, 0, 5);
}

/* Five tries in half a second were all it had. */
TEST_IN(begin, end, a_doubt_does_not_hurry_the_first_list) {
	requeue_turn(requeue, &block.generation, now_ns);
	assert_int_equal(lists, 1);
	window_is("b.example", 0);
	failed("AAAAAA1", "b.example", 0);
	pass(S);
	window_is("b.example", 5);
	pass(30 * S);		/* AAAAAA1 is out, nothing is heard of it */
	for (unsigned i = 0; i < 20; i++) {
		requeue_listed(requeue, 0, false, now_ns);
		pass(100 * MS);
	}
	assert_int_equal(lists, 1);
}

/* Slow deliveries: the queue is not read each minute for them. */
TEST_IN(begin, end, doubts_that_were_wrong) {
	requeue_turn(requeue, &block.generation, now_ns);
	requeue_listed(requeue, 0, true, now_ns);
	window_is("b.example", 0);
	failed("AAAAAA1", "b.example", 0);
	pass(S);
	window_is("b.example", 5);
	for (unsigned i = 0; i < 60; i++) {
		unsigned before = lists;

		pass(60 * S);
		if (i % 4 == 3) {
			window_is("b.example", 0);
			failed("AAAAAA1", "b.example", 0);
			pass(S);
			window_is("b.example", 5);
		}
		if (lists > before) {
			listed("AAAAAA1", "u@b.example", "connect to mx[192.0.2.1]:25: refused");
			requeue_listed(requeue, 0, true, now_ns);
		}
	}
	/* 1, 2, 4, 8, 16 and 32 minutes between them at least */
	assert_in_range(lists, 4, 8);
}

TEST_IN(begin, end, a_list_that_fails_is_asked_for_again) {
	for (unsigned i = 1; i < 10; i++) {
		requeue_turn(requeue, &block.generation, now_ns);
		assert_int_equal(lists, i < 5 ? i : 5);
		if (i <= 5)
			requeue_listed(requeue, 0, false, now_ns);
		now_ns += 300 * S;
	}
}

TEST_IN(begin, end, no_list_in_observe_mode) {
	block.generation.outbound_observe = 1;
	pass(10 * S);
	requeue_turn(requeue, &block.generation, now_ns);
	assert_int_equal(lists, 0);
}

TEST_IN(begin, end, another_server_of_that_number) {
	window_is("b.example", 0);
	failed("AAAAAA1", "b.example", 0);
	block.generation.number++;
	requeue_turn(requeue, &block.generation, now_ns);
	counts_are(1, 0, 0);
	block.generation.number++;
	block.generation.mtas[0].name += 4;
	requeue_turn(requeue, &block.generation, now_ns);
	counts_are(0, 0, 0);
	assert_int_equal(lists, 2);
}

TEST_IN(begin, end, what_is_no_queue_id) {
	window_is("b.example", 0);
	failed("", "b.example", 0);
	failed("AAAA;AA", "b.example", 0);
	failed("-f", "b.example", 0);
	/* the supervisor takes no such order, and whoever sends it loses the link */
	failed("ABCDE", "b.example", 0);
	failed("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "b.example", 0);
	failed("AAAAAA1", "", 0);
	counts_are(0, 0, 0);
}

/* More than can be remembered: the rest is found in the list. */
TEST_IN(begin, end, too_many) {
	uint32_t seen = 0;
	struct requeue_counts counts;

	block.generation.requeue_rate = (struct rate_limit){ .count = 100000000,
		.period_ns = S };
	requeue_turn(requeue, &block.generation, now_ns);
	requeue_listed(requeue, 0, true, now_ns);
	assert_int_equal(lists, 1);
	window_is("b.example", 0);
	for (unsigned i = 0; i < 200000; i++) {
		char id[16];

		snprintf(id, sizeof(id), "A%07u", i);
		failed(id, "b.example", 0);
	}
	counts = requeue_count();
	assert_int_equal(counts.waiting, 128 << 10);
	pass(400 * S);
	window_is("b.example", 100);
	pass(19 * S);
	assert_int_equal(lists, 1);
	while (seen < 100000) {
		for (; seen < 100000 && out_count > 0; seen++)
			sent(out[--out_count], "b.example");
		pass(100 * MS);
	}
	assert_true(lists >= 2);
}

/* Whatever happens: never more out than the window, each message once at a time, and
 * all goes when all is well at last. */
TEST_IN(begin, end, chance) {
	struct random random = random_seeded("chance");
	char name[4][16];
	struct { unsigned destination; bool queued, out; int64_t out_ns; } messages[200] =
	    { { 0 } };

	for (unsigned i = 0; i < 4; i++) {
		snprintf(name[i], sizeof(name[i]), "d%u.example", i);
		window_is(name[i], 0);
	}
	for (unsigned i = 0; i < 200; i++) {
		char id[16];

		messages[i].destination = random_below(&random, 4);
		messages[i].queued = true;
		snprintf(id, sizeof(id), "AAAA%03u", i);
		failed(id, name[messages[i].destination], i * S);
	}
	/* 20 at most are out at a time, and a step ends one in ten of them */
	for (unsigned step = 0; step < 30000; step++) {
		unsigned d = random_below(&random, 4), m = random_below(&random, 200);
		bool well = step > 15000;
		char id[16];

		snprintf(id, sizeof(id), "AAAA%03u", m);
		if (well && step % 1000 < 4)
			window_is(name[step % 4], step % 2000 < 1000 ? 0 : 5);
		else if (!well && random_below(&random, 40) == 0)
			window_is(name[d], random_below(&random, 2) * random_below(&random, 9));
		if (messages[m].out) {
			messages[m].out = false;
			if (well || random_below(&random, 10) == 0) {
				messages[m].queued = false;
				sent(id, name[messages[m].destination]);
				requeue_removed(requeue, 0, span(id));
			} else if (random_below(&random, 2) == 0) {
				failed(id, name[messages[m].destination], m * S);
			} else {
				held(id, name[messages[m].destination]);
			}
		}
		out_count = 0;
		pass((int64_t)random_below(&random, 200) * MS);
		for (unsigned i = 0; i < out_count; i++) {
			m = (unsigned)strtol(out[i] + 4, NULL, 10);
			assert_true(messages[m].queued && !messages[m].out);
			messages[m].out = true;
			messages[m].out_ns = now_ns;
		}
		for (unsigned i = 0; i < out_count; i++) {
			unsigned running = 0;

			d = messages[strtol(out[i] + 4, NULL, 10)].destination;
			for (m = 0; m < 200; m++)
				running += messages[m].out && messages[m].destination == d &&
				    now_ns - messages[m].out_ns < 19 * S;
			assert_true(running <= destinations[d].window);
		}
	}
	for (unsigned i = 0; i < 200; i++)
		assert_false(messages[i].queued);
	counts_are(0, 0, 0);
}

/* Held by its class at the start, or until a moment before it; a class that is full is left to
 * Postfix. */
TEST_IN(begin, end, what_a_class_held_is_handed_out) {
	pass(0);
	class_held = true;
	listed("AAAAAA1", "u@b.example", "Postern: class x is held (0123456789ab)");
	listed("AAAAAA2", "u@b.example", "Postern: class x holds 2 of 2 sessions");
	requeue_listed(requeue, 0, true, now_ns);
	assert_int_equal(out_after(100 * S), 0);
	class_held = false;
	listed("AAAAAA3", "u@d.example", "Postern: class x is held");
	assert_int_equal(out_after(S), 2);
	counts_are(1, 0, 2);
}
