/* SPDX-License-Identifier: ISC */
/* Mail that waits for a number of a source that is warmed up. */
#include "tests/unit/test.h"
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
