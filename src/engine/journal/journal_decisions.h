/* SPDX-License-Identifier: ISC */
/*
 * decisions/ of the journal: what was decided (segment/decision/decisions.h), so that an id that
 * stands in a log is found when the ring has gone round, after a loss of the segment, and in
 * another boot.  All that was logged is kept, and all that was said of destinations but
 * single failures; of the rest so many a second, as a flood must not be one of the disk.
 * Bounded by
 * journal.decisions_size: the oldest file goes.
 *
 * By the keeper, in its one thread.
 */
#ifndef ENGINE_JOURNAL_DECISIONS_H
#define ENGINE_JOURNAL_DECISIONS_H

#include "engine/journal/journal_status.h"

struct journal_decisions;

/* Of those that no line was logged of, in a second; DECISIONS_BURST at once. */
#define DECISIONS_RATE		200
#define DECISIONS_BURST		1000

/* 0; -1 with *diag: no memory.  Without journal.path *decisions is NULL, which all take. */
int journal_decisions_open(struct journal_decisions **decisions, struct engine *engine,
    const struct generation *generation, const struct journal_listener *listener,
    int64_t now_ns, struct diag *diag);

/* Follows the rings, some times a second; writes, and deletes what is too much. */
void journal_decisions_turn(struct journal_decisions *decisions, int64_t now_ns,
    int64_t wall_ns);

#endif
