/* SPDX-License-Identifier: ISC */
/*
 * accounts/ of the journal: the counters of logins and what holds them.  Each second the logins
 * that changed are written, each with all of its counters: the last record of a login counts.
 * A crash of the machine loses one second of counts at most.
 *
 * Times are wall clock there, of which a step counts nothing as long as the machine runs: the
 * records have the clock of the boot besides.  Over a reboot the wall clock is all there is;
 * what it says lies ahead was just now.
 *
 * By the keeper, in its one thread; never more than JOURNAL_STATE_RATE bytes a second.
 */
#ifndef ENGINE_JOURNAL_ACCOUNTS_H
#define ENGINE_JOURNAL_ACCOUNTS_H

#include "base/login.h"
#include "engine/journal/journal_room.h"
#include "engine/journal/journal_status.h"

struct journal_accounts;

/* 0; -1 with *diag: no memory.  Without journal.path, or without accounts in the state,
 * *accounts is NULL, which all take. */
int journal_accounts_open(struct journal_accounts **accounts, struct engine *engine,
    const struct generation *generation, const struct journal_listener *listener,
    int64_t now_ns, struct diag *diag);

/* Each second. */
void journal_accounts_turn(struct journal_accounts *accounts, int64_t now_ns, int64_t wall_ns);

/* Takes all that stands in the files into the engine's segment, which nobody uses yet; returns
 * how many logins.  *bad: what could not be read.  It ends at deadline_ns by the clock. */
uint64_t journal_accounts_restore(struct engine *engine, struct journal_files *files,
    struct journal_place begin, int64_t now_ns, int64_t wall_ns, int64_t deadline_ns,
    struct journal_bad *bad);

#endif
