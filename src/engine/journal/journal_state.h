/* SPDX-License-Identifier: ISC */
/*
 * feed/ of the journal: what was learned of destinations, recipients that are held, and how
 * far the logs of the mail servers were read; all that the segment knows and no process of
 * ours could find out again.
 *
 * Each second at most it writes a *group*: the destinations that changed since they were
 * written last, whoever changed them, and the places in the logs as they were before the
 * first of them was looked at.  A restore (journal_restore.h) takes whole groups alone: so
 * each result counts once, as its line is either behind the place of its log or in the
 * window of its destination.
 *
 * By the process that feeds, in its one thread.  Never more than JOURNAL_STATE_RATE bytes a
 * second: what changes more often is written less often.  Of recipients that are held all are
 * written when one changes: a list of 1 MB each 16 s at most.
 */
#ifndef ENGINE_JOURNAL_STATE_H
#define ENGINE_JOURNAL_STATE_H

#include "engine/journal/journal_status.h"

#define JOURNAL_STATE_RATE	(UINT32_C(4) << 20)

struct journal_states;

/* 0; -1 with *diag: no memory.  Without journal.path *state is NULL, which all take. */
int journal_states_open(struct journal_states **state, struct engine *engine,
    const struct generation *generation, const struct journal_listener *listener,
    int64_t now_ns, struct diag *diag);
void journal_states_close(struct journal_states **state);

/* Writes what is known at the start, or as much as it can in a quarter of a second: whoever dies
 * within its first second has not lost what others had learned before. */
void journal_states_begin(struct journal_states *state);

/* Each second, and between any two results.  `wall_ns`: the time of day. */
void journal_states_turn(struct journal_states *state, int64_t now_ns, int64_t wall_ns);

#endif
