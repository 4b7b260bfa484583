/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Histograms of times.
 * MODEL    Between two powers of 2 there is at most one bound: the highest bit of a
 *          time leaves two buckets to choose from.
 * THREADS  Any: additions are atomic, as the threads of a milter share a role's place.
 */
#include "segment/file/timings.h"

#define US	INT64_C(1000)
#define MS	INT64_C(1000000)

const int64_t timing_bounds_ns[TIMING_BUCKETS - 1] = {
	1 * US, 2 * US, 5 * US, 10 * US, 20 * US, 50 * US, 100 * US, 200 * US, 500 * US,
	1 * MS, 2 * MS, 5 * MS, 10 * MS, 20 * MS, 50 * MS, 100 * MS, 200 * MS, 500 * MS,
	1000 * MS,
};

#define LEAST_BITS	10	/* of 1 us */
#define MOST_BITS	30	/* of 1 s */

/* The first bucket that a time of so many bits may fall into. */
static const uint8_t first_bucket[MOST_BITS - LEAST_BITS + 1] = {
	0,	/* 512 ns ... */
	1,	/* 1.02 us */
	2,	/* 2.05 us */
	2,	/* 4.1 us */
	3,	/* 8.2 us */
	4,	/* 16.4 us */
	5,	/* 32.8 us */
	6,	/* 65.5 us */
	7,	/* 131 us */
	8,	/* 262 us */
	9,	/* 524 us */
	10,	/* 1.05 ms */
	11,	/* 2.1 ms */
	11,	/* 4.2 ms */
	12,	/* 8.4 ms */
	13,	/* 16.8 ms */
	14,	/* 33.6 ms */
	15,	/* 67.1 ms */
	16,	/* 134 ms */
	17,	/* 268 ms */
	18,	/* 537 ms */
};

unsigned timing_bucket(int64_t ns) {
	unsigned bits, bucket;

	if (ns <= timing_bounds_ns[0])
		return 0;
	bits = 64 - (unsigned)__builtin_clzll((unsigned long long)ns);
	if (bits > MOST_BITS)
		return TIMING_BUCKETS - 1;
	bucket = first_bucket[bits - LEAST_BITS];
	return bucket + (ns > timing_bounds_ns[bucket]);
}

void timing_note(struct timing_record *record, int64_t ns, unsigned count) {
	atomic_fetch_add_explicit(&record->buckets[timing_bucket(ns / count)], count,
	    memory_order_relaxed);
	atomic_fetch_add_explicit(&record->sum_ns, ns > 0 ? (uint64_t)ns : 0,
	    memory_order_relaxed);
}

const char *timing_word(enum timing_kind kind) {
	static const char *const words[] = {
#define TIMING(symbol, name, text) name,
#include "defs/timings.def"
#undef TIMING
	};

	return words[kind];
}
