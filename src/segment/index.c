/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Open addressing by cache lines.
 * ERRORS   Whoever dies in the middle leaves a torn index; the inheritor of the
 *          shard's mutex clears it and inserts every slot anew.
 */
#include "segment/index.h"

#include "base/failpoint.h"

/* Some tables are looked up without their mutex: single stores, no torn ones. */
#define GET(field)	__atomic_load_n(&(field), __ATOMIC_RELAXED)
#define PUT(field, value) __atomic_store_n(&(field), value, __ATOMIC_RELAXED)

#define SLOT_BITS	20
#define SLOT_MASK	((1u << SLOT_BITS) - 1)

static uint32_t tag_of(uint64_t hash) {
	return (uint32_t)(hash >> 52) << SLOT_BITS;
}

static uint32_t home_of(const struct index *index, uint64_t hash) {
	/* 32 middle bits spread over the lines; shards took the lowest ones */
	return (uint32_t)(((hash >> 16 & UINT32_MAX) * index->line_count) >> 32);
}

static uint32_t next_line(const struct index *index, uint32_t line) {
	return line + 1 == index->line_count ? 0 : line + 1;
}

void index_prefetch(const struct index *index, uint64_t hash) {
	__builtin_prefetch(&index->lines[home_of(index, hash)]);
}

/* All places at once: which of them fits is anybody's guess, a branch for each would
 * cost more. */
static uint32_t fitting(const struct index_line *line, uint32_t tag) {
	uint32_t bits = 0;

	for (unsigned i = 0; i < INDEX_PLACES; i++) {
		uint32_t place = GET(line->place[i]);

		/* an empty one has no slot, and may have the tag 0 */
		bits |= (uint32_t)((place & ~SLOT_MASK) == tag &&
		    (place & SLOT_MASK) != 0) << i;
	}
	return bits;
}

void index_walk_begin(const struct index *index, uint64_t hash,
    struct index_walk *walk) {
	walk->line = home_of(index, hash);
	walk->tag = tag_of(hash);
	walk->lines_left = index->line_count;
	walk->fitting = fitting(&index->lines[walk->line], walk->tag);
}

uint32_t index_walk_next(const struct index *index, struct index_walk *walk) {
	for (;;) {
		while (walk->fitting != 0) {
			unsigned at = (unsigned)__builtin_ctz(walk->fitting);
			uint32_t slot = SLOT_MASK &
			    GET(index->lines[walk->line].place[at]);

			walk->fitting &= walk->fitting - 1;
			/* without the mutex it may have been emptied by now */
			if (slot != 0)
				return slot - 1;
		}
		if (walk->lines_left <= 1 ||
		    GET(index->lines[walk->line].passed) == 0)
			break;
		walk->line = next_line(index, walk->line);
		walk->lines_left--;
		walk->fitting = fitting(&index->lines[walk->line], walk->tag);
	}
	walk->lines_left = 0;
	return SEGMENT_NO_SLOT;
}

bool index_insert(struct index *index, uint64_t hash, uint32_t slot) {
	uint32_t at = home_of(index, hash);

	for (uint32_t tries = 0; tries < index->line_count; tries++) {
		struct index_line *line = &index->lines[at];

		for (unsigned i = 0; i < INDEX_PLACES; i++) {
			if (GET(line->place[i]) == 0) {
				FAILPOINT();
				PUT(line->place[i], tag_of(hash) | (slot + 1));
				FAILPOINT();
				return true;
			}
		}
		PUT(line->passed, GET(line->passed) + 1);
		FAILPOINT();
		at = next_line(index, at);
	}
	return false;
}

/* Finds the place; the lines before it are those that the key passed. */
bool index_remove(struct index *index, uint64_t hash, uint32_t slot) {
	uint32_t wanted = tag_of(hash) | (slot + 1);
	uint32_t home = home_of(index, hash), at = home;

	for (uint32_t tries = 0; tries < index->line_count; tries++) {
		struct index_line *line = &index->lines[at];

		for (unsigned i = 0; i < INDEX_PLACES; i++) {
			if (GET(line->place[i]) != wanted)
				continue;
			PUT(line->place[i], 0);
			FAILPOINT();
			for (; home != at; home = next_line(index, home)) {
				PUT(index->lines[home].passed,
				    GET(index->lines[home].passed) - 1);
				FAILPOINT();
			}
			return true;
		}
		if (GET(line->passed) == 0)
			return false;
		at = next_line(index, at);
	}
	return false;
}

void index_clear(struct index *index) {
	for (uint32_t i = 0; i < index->line_count; i++) {
		for (unsigned p = 0; p < INDEX_PLACES; p++)
			PUT(index->lines[i].place[p], 0);
		PUT(index->lines[i].passed, 0);
	}
}
