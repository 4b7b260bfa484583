/* SPDX-License-Identifier: ISC */
/*
 * What people did by hand, as far as it is still in force or may have to be done again: for
 * each name the last suspend, hold, resume or forget, and what was set.  Bounded; one thread.
 */
#ifndef ENGINE_MANUAL_TABLE_H
#define ENGINE_MANUAL_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "journal/record.h"

/* More push out the oldest that was done with when it was done (resume, forget), else what
 * is over, else the oldest of all. */
#define MANUAL_ACTIONS_MAX	20000

struct manual_table;

/* NULL: no memory. */
struct manual_table *manual_table_open(void);
void manual_table_close(struct manual_table **table);

/* Adds an action (copied), which may take the place of others: a forget of all, a set is
 * put together with what was set before.  False: no memory. */
bool manual_table_add(struct manual_table *table, const struct journal_manual *action);

/* All of them, those done first at first; `each` says whether it stays. */
void manual_table_each(struct manual_table *table,
    bool (*each)(void *context, const struct journal_manual *action), void *context);

/* Drops what was done to that name up to then. */
void manual_table_drop_older(struct manual_table *table, unsigned what,
    const struct journal_text *name, int64_t when_ns);

bool manual_table_has(const struct manual_table *table, unsigned what, const char *name);
/* Holds, suspensions and ceilings that were pushed out, though they may be in force. */
uint64_t manual_table_pushed_out(const struct manual_table *table);

#endif
