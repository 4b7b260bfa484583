/* SPDX-License-Identifier: ISC */
/*
 * Source addresses that are warmed up (DESIGN section 17): where each stands, for whoever shows it,
 * reads results, or gives mail to them.  The law is policy/window/warm.h, the state lies in
 * segment/hints/sources.h.
 */
#ifndef ENGINE_DESTINATION_SOURCES_H
#define ENGINE_DESTINATION_SOURCES_H

#include "engine/engine.h"

/* Where a plan is for each provider, the mail of a provider counts by itself, and all other mail
 * (domains of no provider, domains that were never seen) counts together. */
#define SOURCE_OTHERS	GENERATION_NO_PROVIDER

struct source_view {
	struct warm_view warm;	/* by the law, of what is known to have been sent */
	uint32_t left;		/* so many more may go now; UINT32_MAX: no number binds */
	int64_t next_ns;	/* left 0: when the next day can begin; else 0 */
};
/* Of source `number` of the generation.  One that never sent is at the first step.  Any thread, no
 * lock; about a microsecond. */
void engine_source_look(const struct engine *engine, const struct generation *generation,
    uint32_t number, uint32_t provider, int64_t now_ns, struct source_view *out);

/* Which of them mail of the provider goes by now: the first one that has a number left; source_count:
 * none has. */
uint32_t engine_source_choose(const struct engine *engine, const struct generation *generation,
    uint32_t provider, int64_t now_ns);
/* Where none has: does the mail wait, as the last one says? */
bool engine_sources_make_wait(const struct generation *generation);
/* So much mail of the provider need not wait just now: postern-lookup has numbers for it. */
uint32_t engine_sources_ready(const struct engine *engine, const struct generation *generation,
    uint32_t provider);

/* Counts what the log tells: a message that source `number` was tried for.  (See the file.) */
struct source_result {
	bool counts;		/* it was accepted or throttled: a share */
	bool throttled;
	int64_t sent_ns;	/* 0: not known */
	uint64_t log, offset;	/* the place of its line, by which it counts once; 0: a new one */
};
void engine_source_result(struct engine *engine, const struct generation *generation,
    uint32_t number, uint32_t provider, const struct source_result *result, int64_t now_ns);

#endif
