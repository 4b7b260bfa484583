/* SPDX-License-Identifier: ISC */
/*
 * What the keeper notes for people: each second how fast each class refuses now
 * (class_record.refusing), each minute a slot of the history (segment/history.h), and each
 * change of state as it comes.  Nobody who decides does anything for it.
 * One thread.
 */
#ifndef ENGINE_HISTORY_H
#define ENGINE_HISTORY_H

#include "engine/engine.h"

struct engine_history;

/* NULL: no memory.  `segment` outlives it. */
struct engine_history *engine_history_new(struct segment *segment);
void engine_history_free(struct engine_history **history);

/* Opens the file where generation->history_bytes wants one, notes what came since the last call,
 * and the minutes that ended.  0, or an errno with *what, once for each error: the minute is a
 * gap then. */
int engine_history_turn(struct engine_history *history, const struct generation *generation,
    int64_t now_ns, int64_t wall_ns, const char **what);

#endif
