/* SPDX-License-Identifier: ISC */
/* What the files share that count for sources: whose state is whose. */
#ifndef ENGINE_DESTINATION_SOURCES_INTERNAL_H
#define ENGINE_DESTINATION_SOURCES_INTERNAL_H

#include "config/generation/generation.h"
#include "segment/hints/given.h"
#include "segment/hints/sources.h"

struct engine;

uint64_t engine_source_key(const struct generation *generation, uint32_t number,
    uint32_t provider);

/* Tells that a day ended, if one did between these two; no lock is held. */
struct source_day {
	struct warm before, now;
};
void engine_source_note_day(struct engine *engine, const struct generation *generation,
    uint32_t number, uint32_t provider, const struct source_day *day, int64_t now_ns);

#endif
