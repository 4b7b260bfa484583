/* SPDX-License-Identifier: ISC */
/*
 * The buckets of a table of what was learned.  A key may lie in either of two buckets of its
 * shard, which follow from its hash; a bucket has 32 places at most, and a cache line of tags,
 * 16 bits of each place's hash.  The slot follows from bucket and place, so that a search reads
 * two lines of tags, which a million entries keep in the processor's cache, and one slot.  An
 * entry never moves, and a tag changes in one piece: searches need no lock.
 */
#ifndef SEGMENT_TAGS_H
#define SEGMENT_TAGS_H

#include <stdint.h>

#include "base/tsan.h"
#include "segment/file/layout.h"

#define TAGS_CHOICES	2	/* buckets of a key */
#define TAG_FREE	0

static inline uint16_t tags_of_hash(uint64_t hash) {
	uint16_t tag = (uint16_t)(hash >> 48);

	return tag == TAG_FREE ? 1 : tag;
}

/* The key's first or second bucket of so many. */
static inline uint32_t tags_bucket(uint64_t hash, unsigned choice, uint32_t buckets) {
	/* 32 bits each: shards took the lowest ones; the second by Fibonacci hashing */
	uint64_t spread = choice == 0 ? hash >> 16 & UINT32_MAX :
	    hash * UINT64_C(0x9e3779b97f4a7c15) >> 32;

	return (uint32_t)(spread * buckets >> 32);
}

/* The key's own place in both: what lies there needs no tag to be fetched. */
static inline uint32_t tags_home(uint64_t hash, uint32_t places) {
	/* the bits between those of the shard and those of the bucket */
	return (uint32_t)((hash >> 6 & 0x3ff) * places >> 10);
}

/* The places of a line that have this tag, as bits: all at once, as which of them does is
 * anybody's guess, and a branch for each would cost more. */
#ifdef BASE_TSAN
static inline uint32_t tags_fitting(const struct tag_line *line, uint16_t tag) {
	uint32_t bits = 0;

	for (unsigned i = 0; i < TAG_PLACES; i++)
		bits |= (uint32_t)(__atomic_load_n(&line->tag[i], __ATOMIC_RELAXED) == tag) << i;
	return bits;
}
#else
static inline uint32_t tags_fitting(const struct tag_line *line, uint16_t tag) {
	typedef uint16_t eight __attribute__((vector_size(16)));
	typedef uint64_t two __attribute__((vector_size(16)));
	const eight low = { 1, 2, 4, 8, 16, 32, 64, 128 };
	eight tags[TAG_PLACES / 8], half[2];
	uint32_t bits = 0;

	__builtin_memcpy(tags, line, sizeof(tags));
	half[0] = ((eight)(tags[0] == tag) & low) | ((eight)(tags[1] == tag) & low << 8);
	half[1] = ((eight)(tags[2] == tag) & low) | ((eight)(tags[3] == tag) & low << 8);
	for (unsigned i = 0; i < 2; i++) {
		two words = (two)half[i];
		uint64_t found = words[0] | words[1];

		found |= found >> 32;
		found |= found >> 16;
		bits |= (uint32_t)(found & UINT16_MAX) << 16 * i;
	}
	return bits;
}
#endif

#endif
