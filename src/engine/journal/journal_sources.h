/* SPDX-License-Identifier: ISC */
/*
 * Sources that are warmed up (DESIGN section 17), in keeper/ of the journal: each second the states
 * that changed, with the numbers that were taken ahead.  Those are released when their record is
 * synced, and after a reboot count as sent.  Times are wall clock, with the clock of the boot
 * besides: a wall clock that went back makes no day end sooner.
 */
#ifndef ENGINE_JOURNAL_SOURCES_H
#define ENGINE_JOURNAL_SOURCES_H

#include "engine/journal/journal_keep.h"
#include "engine/journal/journal_room.h"

struct journal_sources;

/* Appends what changed, or all (true: there was something); notes in the segment what is synced by
 * now.  *sources: NULL at first; free it. */
bool journal_sources_write(struct journal_sources **sources, struct journal_keep *keep, bool all);

/* Do numbers that were taken ahead wait for their record to be synced? */
bool journal_sources_wait(struct engine *engine);

/* Takes what stands in the files into the engine's segment, which nobody uses yet. */
void journal_sources_restore(struct engine *engine, const struct generation *generation,
    struct journal_files *files, struct journal_place begin, int64_t now_ns, int64_t wall_ns,
    struct journal_bad *bad);

#endif
