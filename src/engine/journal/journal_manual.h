/* SPDX-License-Identifier: ISC */
/*
 * keeper/ of the journal: what people did by hand (suspend, hold, resume, forget, set).  It
 * is synced at once, without being waited for.  A destination's window in feed/ has it too,
 * a second later: a restore does again what was done after that was written, and all of it
 * where nobody feeds.
 *
 * By the process that carries out control commands, in its one thread.
 */
#ifndef ENGINE_JOURNAL_MANUAL_H
#define ENGINE_JOURNAL_MANUAL_H

#include "engine/journal/journal_room.h"
#include "engine/journal/journal_status.h"
#include "engine/journal/manual_table.h"
#include "journal/reader.h"

struct journal_manual_log;

/* From now on what windows_by_hand does in this engine is written down.  0; -1 with *diag:
 * no memory.  Without journal.path *manual is NULL, which all take. */
int journal_manual_open(struct journal_manual_log **manual, struct engine *engine,
    const struct generation *generation, const struct journal_listener *listener,
    int64_t now_ns, struct diag *diag);
void journal_manual_close(struct journal_manual_log **manual);

/* Each second. */
void journal_manual_turn(struct journal_manual_log *manual, int64_t now_ns, int64_t wall_ns);

/* More often: does it if something waits for a sync (journal_sources.h). */
void journal_manual_hurry(struct journal_manual_log *manual, int64_t now_ns, int64_t wall_ns);

/* An action that was done just now, of until_ns by the clock of now_ns. */
void journal_manual_write_down(struct journal_manual_log *manual,
    struct journal_manual *action, int64_t now_ns);

/* Adds what stands in the files of a keeper/; *bad: what could not be read. */
void journal_manual_read_all(struct journal_files *files, struct journal_place begin,
    struct manual_table *table, struct journal_bad *bad);

#endif
