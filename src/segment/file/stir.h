/* SPDX-License-Identifier: ISC */
/*
 * Whoever changes something that the keeper acts upon ends its rest.  While it does not rest,
 * that is the look at one word; a change that it is not told of costs the time until its next
 * heartbeat.  No lock is held meanwhile.  Any role can write the word: then the keeper rests a
 * second too long, or not at all.
 */
#ifndef SEGMENT_STIR_H
#define SEGMENT_STIR_H

#include "segment/file/layout.h"

#define STIR_RESTS	UINT32_C(1)

/* For segment_stir. */
void segment_stir_keeper(struct segment_header *header);

/* After a change, with all locks given back.  Not by an onlooker, which changes nothing. */
static inline void segment_stir(struct segment_header *header) {
	if (__builtin_expect(atomic_load_explicit(&header->stir, memory_order_relaxed) ==
		STIR_RESTS, 0))
		segment_stir_keeper(header);
}

/* The keeper's: from here on changes are told; waits for one.  One thread. */
void segment_await_stir(struct segment_header *header);

/* Does the word still say that it rests? */
static inline bool segment_is_at_rest(const struct segment_header *header) {
	return atomic_load(&header->stir) == STIR_RESTS;
}

#endif
