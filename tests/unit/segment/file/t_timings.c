/* SPDX-License-Identifier: ISC */
/* Histograms of times: the bucket of each time, and what one costs. */
#include "tests/unit/test.h"

#include <pthread.h>

#include "base/clock.h"
#include "segment/file/timings.h"

/* The first bound that is not below. */
static unsigned by_hand(int64_t ns) {
	unsigned i = 0;

	while (i < TIMING_BUCKETS - 1 && ns > timing_bounds_ns[i])
		i++;
	return i;
}

TEST(buckets_are_those_of_the_bounds) {
	assert_int_equal(timing_bounds_ns[0], 1000);
	assert_int_equal(timing_bounds_ns[TIMING_BUCKETS - 2], NS_PER_SECOND);
	assert_int_equal(timing_bucket(-5), 0);
	assert_int_equal(timing_bucket(INT64_MAX), TIMING_BUCKETS - 1);
	for (unsigned bits = 0; bits < 63; bits++)
		for (int64_t around = -2; around <= 2; around++) {
			int64_t ns = (INT64_C(1) << bits) + around;

			assert_int_equal(timing_bucket(ns), by_hand(ns));
		}
	for (unsigned i = 0; i < TIMING_BUCKETS - 1; i++)
		for (int64_t around = -1; around <= 1; around++)
			assert_int_equal(timing_bucket(timing_bounds_ns[i] + around),
			    by_hand(timing_bounds_ns[i] + around));
	for (int64_t ns = 1; ns < 3 * NS_PER_SECOND; ns += 1 + ns / 97)
		assert_int_equal(timing_bucket(ns), by_hand(ns));
}

#define EACH 100000

static void *note_many(void *record) {
	for (int64_t i = 0; i < EACH; i++)
		timing_note(record, 1500, 1);
	return NULL;
}

/* The threads of a milter share a role's place. */
TEST(none_is_lost_between_threads) {
	struct timing_record record = { .sum_ns = 0 };
	pthread_t threads[4];

	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, note_many, &record), 0);
	for (unsigned i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(atomic_load(&record.buckets[1]), 4 * EACH);
	assert_int_equal(atomic_load(&record.sum_ns), 4 * EACH * 1500);
	timing_note(&record, -1, 1);
	assert_int_equal(atomic_load(&record.buckets[0]), 1);
	assert_int_equal(atomic_load(&record.sum_ns), 4 * EACH * 1500);
}

TEST(several_count_as_their_mean) {
	struct timing_record record = { .sum_ns = 0 };

	timing_note(&record, 16 * 1500 + 7, 16);
	assert_int_equal(atomic_load(&record.buckets[1]), 16);
	assert_int_equal(atomic_load(&record.sum_ns), 16 * 1500 + 7);
}

