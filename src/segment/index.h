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

#include "segment/layout.h"

struct index {
	struct index_line *lines;
	uint32_t line_count;
};

/* A walk over the slots whose tag fits `hash`. */
struct index_walk {
	uint32_t line;
	uint32_t fitting;	/* places of it, as bits, that are left to look at */
	uint32_t tag;
	uint32_t lines_left;
};

void index_walk_begin(const struct index *index, uint64_t hash,
    struct index_walk *walk);
/* The next candidate slot, or SEGMENT_NO_SLOT: no more. */
uint32_t index_walk_next(const struct index *index, struct index_walk *walk);

/* Has the key's home line fetched. */
void index_prefetch(const struct index *index, uint64_t hash);

/* False: no place left anywhere (cannot be while there are free slots). */
bool index_insert(struct index *index, uint64_t hash, uint32_t slot);
/* False: it was not there. */
bool index_remove(struct index *index, uint64_t hash, uint32_t slot);
void index_clear(struct index *index);

#endif
