/* SPDX-License-Identifier: ISC */
/* Mail that waits for the pace of its destination. */
#include "tests/unit/test.h"
#include "tests/unit/engine/requeue/requeue_world.h"
#include "segment/hints/hints.h"
#include "segment/hints/lane_uses.h"

#define TEXT	"Postern: pace of p.example is 60/1m"

/* What the keeper does 60 ms later. */
static int64_t carried;
static uint64_t last_word;

static struct paced_slot *slot(void) {
	return paced_find(&segment, lane_uses_hash(&segment, "p.example", 9), now_ns);
}

static void carry(void) {
	struct paced_slot *waits = slot();
	uint32_t number;

	if (waits == NULL)
		return;
	while (paced_next(waits, now_ns, &carried, &number, &last_word))
		paced_written(waits, carried);
}

/* As pass, with a keeper. */
static void go_on(int64_t ns) {
	int64_t end_ns = now_ns + ns;

	while (now_ns < end_ns) {
		pass(20 * MS);
		if (now_ns / MS % 60 == 0)
			carry();
	}
}

static int begin_paced(void **state) {
	int result = begin(state);

	carried = 0;
	pace_settings.limit = (struct rate_limit){ .period_ns = 60 * S, .count = 60, .burst = 1 };
	window_is("p.example", 5);
	return result;
}

static void hold(unsigned from, unsigned count) {
	char id[16], address[32];

	for (unsigned i = from; i < from + count; i++) {
		snprintf(id, sizeof(id), "AAAA%04u", i);
		snprintf(address, sizeof(address), "u%u@p.example", i);
		held_for(id, address, TEXT);
	}
}

TEST_IN(begin_paced, end, one_message_for_each_token_and_not_before_its_pass) {
	hold(0, 20);
	pass(100 * MS);
	assert_non_null(slot());
	/* the bucket of the reader was empty */
	go_on(800 * MS);
	assert_int_equal(out_count, 0);
	for (unsigned i = 1; i <= 20; i++) {
		go_on(S);
		assert_int_equal(out_count, i);
		sent(out[i - 1], "p.example");
	}
	go_on(S);
	assert_null(slot());
	counts_are(0, 0, 0);
}

TEST_IN(begin_paced, end, without_the_keeper_it_goes_two_seconds_later) {
	hold(0, 1);
	pass(2500 * MS);
	assert_int_equal(out_count, 0);
	pass(1000 * MS);
	assert_int_equal(out_count, 1);
}

TEST_IN(begin_paced, end, a_fast_pace_is_kept) {
	pace_settings.limit = (struct rate_limit){ .period_ns = S, .count = 20, .burst = 1 };
	window_is("p.example", 100);
	hold(0, 300);
	for (unsigned i = 0, read = 0; i < 500; i++) {
		go_on(20 * MS);
		while (read < out_count)
			sent(out[read++], "p.example");
	}
	assert_in_range(out_count, 190, 201);
}

/* A message is made ready while the one before is delivered. */
TEST_IN(begin_paced, end, a_narrow_window_keeps_up) {
	pace_settings.limit = (struct rate_limit){ .period_ns = S, .count = 10, .burst = 1 };
	window_is("p.example", 1);
	hold(0, 300);
	for (unsigned i = 0, read = 0; i < 500; i++) {
		go_on(20 * MS);
		/* a turn later */
		while (i % 2 == 0 && read < out_count)
			sent(out[read++], "p.example");
	}
	assert_in_range(out_count, 90, 101);
}

TEST_IN(begin_paced, end, the_addresses_of_a_message_are_in_its_pass) {
	uint64_t word = 0;

	held_for("AAAA0001", "One@p.example", TEXT);
	held_for("AAAA0001", "two@p.example", TEXT);
	held_for("AAAA0001", "two@p.example", TEXT);
	go_on(1500 * MS);
	word = hints_pass_add(&requeue->pass_key, word, "one@p.example", 13);
	word = hints_pass_add(&requeue->pass_key, word, "two@p.example", 13);
	assert_int_equal(last_word, word);
	assert_int_equal(out_count, 1);
}

TEST_IN(begin_paced, end, a_message_of_unknown_addresses_has_a_pass_for_one) {
	window_is("p.example", 0);
	failed("AAAA0001", "p.example", 0);
	go_on(S);
	assert_null(slot());
	window_is("p.example", 5);
	go_on(2 * S);
	assert_int_equal(last_word, HINTS_PASS_ANY);
	assert_int_equal(out_count, 1);
}

/* The site says "slower": the pace takes care of how often it is tried. */
TEST_IN(begin_paced, end, what_was_refused_is_tried_again_behind_the_rest) {
	for (unsigned i = 0; i < 3; i++) {
		char id[16];

		snprintf(id, sizeof(id), "BBBB%04u", i);
		note(id, "p.example", DELIVERY_DEFERRED, RESULT_REMOTE_THROTTLE, "450 slower",
		    90 * S);
	}
	hold(0, 3);
	go_on(300 * MS);
	for (unsigned i = 1; i <= 3; i++) {
		go_on(S);
		assert_int_equal(out_count, i);
		assert_memory_equal(out[i - 1], "AAAA", 4);
		sent(out[i - 1], "p.example");
	}
	for (unsigned i = 4; i <= 6; i++) {
		/* after one in vain there is a pause */
		go_on(i < 6 ? S : 2 * S);
		assert_int_equal(out_count, i);
		assert_memory_equal(out[i - 1], "BBBB", 4);
		if (i != 5)
			sent(out[i - 1], "p.example");
		else
			note(out[i - 1], "p.example", DELIVERY_DEFERRED, RESULT_REMOTE_THROTTLE,
			    "450 slower", 90 * S);
	}
	/* one is left; longer each time */
	go_on(2 * S);
	assert_int_equal(out_count, 7);
	for (unsigned i = 0; i < 20; i++) {
		note(out[out_count - 1], "p.example", DELIVERY_DEFERRED, RESULT_REMOTE_THROTTLE,
		    "450 slower", 90 * S);
		go_on(60 * S);
	}
	assert_in_range(out_count, 10, 16);
}

TEST_IN(begin_paced, end, where_the_pace_ends_all_goes_by_the_window) {
	hold(0, 20);
	go_on(2500 * MS);
	assert_int_equal(out_count, 2);
	memset(&pace, 0, sizeof(pace));
	pace_settings.limit.count = 0;
	go_on(500 * MS);
	assert_int_equal(out_count, 5);
	assert_null(slot());
}

TEST_IN(begin_paced, end, a_flush_that_failed_is_tried_again_with_another_token) {
	hold(0, 2);
	go_on(1500 * MS);
	assert_int_equal(out_count, 1);
	requeue_flush_failed(requeue, 0, out[0], now_ns);
	go_on(3 * S);
	assert_true(out_count >= 2);
	assert_in_range(out_count, 2, 4);
}
