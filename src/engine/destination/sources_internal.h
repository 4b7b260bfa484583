/* SPDX-License-Identifier: ISC */
/* What the files share that count for sources: days that ended. */
#ifndef ENGINE_DESTINATION_SOURCES_INTERNAL_H
#define ENGINE_DESTINATION_SOURCES_INTERNAL_H

#include "config/generation/generation.h"
#include "segment/hints/sources.h"

struct engine;

/* Tells that a day ended, if one did between these two; no lock is held. */
struct source_day {
	struct warm before, now;
};
void engine_source_note_day(struct engine *engine, const struct generation *generation,
    uint32_t number, uint32_t provider, const struct source_day *day, int64_t now_ns);

#endif
