/* SPDX-License-Identifier: ISC */
/*
 * The hash index of a shard: lines of 15 places, one cache line each.  A place
 * holds 12 bits of the hash and a slot number, so that a miss costs one line
 * and a hit one line and one slot.  `passed` counts the keys that found the line
 * full, so that a search knows when to stop.  Guarded by the shard's mutex.
 */
#ifndef SEGMENT_INDEX_H
#define SEGMENT_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#include "segment/file/layout.h"

struct index {
	struct index_line *lines;
	uint32_t line_count;
	uint32_t slots;		/* that it can name: any role can write other numbers */
};

/* A walk over the slots whose tag fits `hash`. */
struct index_walk {
	uint32_t line;
	uint32_t fitting;	/* places of it, as bits, that are left to look at */
	uint32_t tag;
	uint32_t lines_left;
};

#define INDEX_SLOT_BITS	20
#define INDEX_SLOT_MASK	((1u << INDEX_SLOT_BITS) - 1)

static inline uint32_t index_tag(uint64_t hash) {
	return (uint32_t)(hash >> 52) << INDEX_SLOT_BITS;
}

static inline uint32_t index_home(const struct index *index, uint64_t hash) {
	/* 32 middle bits spread over the lines; shards took the lowest ones */
	return (uint32_t)(((hash >> 16 & UINT32_MAX) * index->line_count) >> 32);
}

static inline uint32_t index_next_line(const struct index *index, uint32_t line) {
	return line + 1 == index->line_count ? 0 : line + 1;
}

/* Has the key's home line fetched. */
static inline void index_prefetch(const struct index *index, uint64_t hash) {
	__builtin_prefetch(&index->lines[index_home(index, hash)]);
}

/* Which places have `value` in the bits of `mask`, as bits: all at once, as which of them does
 * is anybody's guess, and a branch for each would cost more. */
static inline uint32_t index_places(const struct index_line *line, uint32_t mask,
    uint32_t value) {
	typedef uint32_t four __attribute__((vector_size(16)));
	four bit = { 1, 2, 4, 8 }, found = { 0 };

	for (unsigned i = 0; i < sizeof(*line) / sizeof(four); i++, bit <<= 4) {
		four place;

		__builtin_memcpy(&place, (const char *)line + i * sizeof(place),
		    sizeof(place));
		found |= (four)((place & mask) == value) & bit;
	}
	return (found[0] | found[1] | found[2] | found[3]) &
	    ((1u << INDEX_PLACES) - 1);
}

/* An empty place has no slot, and may have the tag 0. */
static inline uint32_t index_fitting(const struct index_line *line, uint32_t tag) {
	return index_places(line, ~INDEX_SLOT_MASK, tag) &
	    ~(tag == 0 ? index_places(line, INDEX_SLOT_MASK, 0) : 0);
}

static inline void index_walk_begin(const struct index *index, uint64_t hash,
    struct index_walk *walk) {
	walk->line = index_home(index, hash);
	walk->tag = index_tag(hash);
	walk->lines_left = index->line_count;
	walk->fitting = index_fitting(&index->lines[walk->line], walk->tag);
}

/* The next candidate slot, or SEGMENT_NO_SLOT: no more. */
static inline uint32_t index_walk_next(const struct index *index,
    struct index_walk *walk) {
	for (;;) {
		const struct index_line *line = &index->lines[walk->line];

		while (walk->fitting != 0) {
			unsigned at = (unsigned)__builtin_ctz(walk->fitting);
			/* once: any role can write another number meanwhile */
			uint32_t slot = INDEX_SLOT_MASK &
			    __atomic_load_n(&line->place[at], __ATOMIC_RELAXED);

			walk->fitting &= walk->fitting - 1;
			if (slot != 0 && slot <= index->slots)
				return slot - 1;
		}
		if (walk->lines_left <= 1 || line->passed == 0)
			break;
		walk->line = index_next_line(index, walk->line);
		walk->lines_left--;
		walk->fitting = index_fitting(&index->lines[walk->line], walk->tag);
	}
	walk->lines_left = 0;
	return SEGMENT_NO_SLOT;
}

/* False: no place left anywhere (cannot be while there are free slots). */
bool index_insert(struct index *index, uint64_t hash, uint32_t slot);
/* False: it was not there. */
bool index_remove(struct index *index, uint64_t hash, uint32_t slot);
void index_clear(struct index *index);

#endif
