/* SPDX-License-Identifier: ISC */
/* Mail that waits for a number of a source that is warmed up. */
#include "tests/unit/test.h"
#include "segment/file/delays.h"
#include "tests/unit/engine/requeue/requeue_world.h"

#define TEXT	"Postern: warm-up of ip2: the number of the day is used"

static int begin_sources(void **state) {
	int result = begin(state);

	sources_ready = 0;
	window_is("w.example", 100);
	return result;
}

static void hold(unsigned from, unsigned count) {
	char id[16], address[32];

	for (unsigned i = from; i < from + count; i++) {
		snprintf(id, sizeof(id), "AAAA%04u", i);
		snprintf(address, sizeof(address), "u%u@w.example", i);
		held_for(id, address, TEXT);
		now_ns += MS;
	}
}

TEST_IN(begin_sources, end, it_waits_until_there_is_a_number) {
	hold(0, 10);
	pass(3600 * S);
	assert_int_equal(out_count, 0);
	counts_are(10, 0, 0);
	/* the next day: so many go, the oldest first */
	sources_ready = 4;
	pass(2 * S);
	assert_int_equal(out_count, 4);
	assert_string_equal(out[0], "AAAA0000");
	assert_string_equal(out[3], "AAAA0003");
	for (unsigned i = 0; i < 4; i++)
		sent(out[i], "w.example");
	sources_ready = 0;
	pass(60 * S);
	assert_int_equal(out_count, 4);
	sources_ready = 100;
	pass(2 * S);
	assert_int_equal(out_count, 10);
}

static void oldest_s(int64_t of_pace, int64_t warm, int64_t window) {
	assert_int_equal(waiting_age_ns(&segment, WAITING_PACE, now_ns), of_pace * S);
	assert_int_equal(waiting_age_ns(&segment, WAITING_WARM, now_ns), warm * S);
	assert_int_equal(waiting_age_ns(&segment, WAITING_WINDOW, now_ns), window * S);
}

TEST_IN(begin_sources, end, the_age_of_the_oldest_is_told) {
	window_is("down.example", 0);
	pass(S);
	oldest_s(0, 0, 0);
	/* each is 60 s old */
	held_for("AAAA0001", "u1@w.example", TEXT);
	failed("AAAA0002", "down.example", 90 * S);
	failed("AAAA0003", "down.example", 300 * S);
	failed("AAAA0004", "up.example", 900 * S);	/* waits for Postfix's own schedule */
	pass(10 * S);
	oldest_s(0, 70, 310);
	find("down.example", 12)->observed = true;
	pass(10 * S);
	oldest_s(0, 80, 0);
	find("down.example", 12)->observed = false;
	(void)requeue_removed(requeue, 0, span("AAAA0003"));
	pass(10 * S);
	oldest_s(0, 90, 120);
	for (unsigned i = 1; i <= 4; i++)
		(void)requeue_removed(requeue, 0, span((const char *[]){ "", "AAAA0001", "AAAA0002",
		    "AAAA0003", "AAAA0004" }[i]));
	pass(2 * S);
	oldest_s(0, 0, 0);
}

TEST_IN(begin_sources, end, what_is_held_once_more_waits_again) {
	hold(0, 3);
	sources_ready = 1;
	pass(2 * S);
	assert_int_equal(out_count, 1);
	/* new mail was faster */
	sources_ready = 0;
	hold(0, 1);
	pass(600 * S);
	assert_int_equal(out_count, 1);
	counts_are(1, 2, 0);
}

TEST_IN(begin_sources, end, without_sources_it_goes_at_once) {
	hold(0, 3);
	sources_ready = UINT32_MAX;
	pass(2 * S);
	assert_int_equal(out_count, 3);
}
