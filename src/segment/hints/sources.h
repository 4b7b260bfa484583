/* SPDX-License-Identifier: ISC */
/*
 * Where sources that are warmed up stand (DESIGN section 17): one state for each, or for each
 * provider that its mail goes to.  Who changes one holds its lock; the new state stands beside the
 * one before, and counts from one store on, so that nothing is to be repaired after a death.
 * Readers take no lock.
 */
#ifndef SEGMENT_SOURCES_H
#define SEGMENT_SOURCES_H

#include <stdbool.h>
#include <stdint.h>

#include "config/generation/generation.h"
#include "policy/window/warm.h"
#include "segment/file/layout.h"
#include "segment/hints/given.h"

struct segment;

struct source_state {
	struct warm warm;	/* messages that are known to have gone */
	uint32_t reserved;	/* numbers taken ahead: that many more may have gone by now */
	uint32_t given;		/* of these released, as last seen (segment/hints/given.h) */
	/* over its life: answers that were given, and what else is known to have gone; messages that
	 * logs tell */
	uint32_t asked, lines;
	uint64_t log, offset;	/* the line that was counted last */
};
_Static_assert(sizeof(struct source_state) == SOURCE_WORDS * 8, "whole words");

/* Of a source, and a provider ("": of other mail, or of all).  The same everywhere, never 0. */
uint64_t source_key(const char *source, const char *provider);

/* The row of a provider's mail: the 63 first ones of the configuration have one of their own. */
static inline uint32_t source_row(const struct generation *generation, uint32_t provider) {
	return provider < generation->provider_count && provider < GIVEN_ROWS - 1 ? provider + 1 : 0;
}

static inline uint32_t source_provider(uint32_t row) {
	return row == 0 ? GENERATION_NO_PROVIDER : row - 1;
}

/* How many rows a source has. */
static inline uint32_t source_rows(const struct generation *generation, uint32_t number) {
	if (!generation_source(generation, number)->is_per_provider)
		return 1;
	return generation->provider_count < GIVEN_ROWS - 1 ? generation->provider_count + 1 :
	    GIVEN_ROWS;
}

/* Of source `number` of a generation, and a provider there. */
uint64_t source_key_of(const struct generation *generation, uint32_t number, uint32_t provider);

/* A copy; zeros where there is none, or it changes all the time.  Its serial, or 0. */
uint64_t source_look(const struct segment *segment, uint64_t key, struct source_state *out);

/* One that is changed: `state` is a copy, which source_put stores. */
struct source_held {
	struct source_slot *slot;
	struct source_state state;
};
/* Finds or makes it.  False: the lock cannot be had, or there is no room: nothing is held. */
bool source_lock(struct segment *segment, uint64_t key, int64_t now_ns, struct source_held *held);
void source_put(struct source_held *held);
void source_unlock(struct source_held *held);

/* By one thread: the journal has this state. */
void source_note_kept(struct segment *segment, uint64_t key, const struct source_state *state);
/* So much of `state` would be counted after a reboot, as sent in its day: 0 if none. */
uint32_t source_kept(const struct segment *segment, uint64_t key, const struct source_state *state);

/* --- for segment/ only --------------------------------------------------------------- */

void sources_scrub(struct segment *segment);
void sources_carry(const struct segment *from, struct segment *to);

#endif
