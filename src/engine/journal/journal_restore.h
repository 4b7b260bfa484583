/* SPDX-License-Identifier: ISC */
/*
 * What was learned and done by hand, out of the journal, into a segment that was newly
 * built (segment_is_unlearned): before anybody answers by it.
 *
 *	destinations	the last one of a whole group of feed/ (journal_state.h)
 *	by hand		from keeper/, where it was done later than the destination was written
 *	logs		as far as the last whole group says
 *	recipients held	the last list in a whole group, then by hand
 *
 * Times are wall clock there: of another boot too.  Whatever cannot be read is passed over
 * and counted; nothing in the files is trusted.  Read-only; one thread.
 *
 * Where the disk of a room fails meanwhile, nothing of the room is deleted before it was read:
 * what holds by hand in keeper/ is put in force by its writer when it can read it; feed/ stays.
 */
#ifndef ENGINE_JOURNAL_RESTORE_H
#define ENGINE_JOURNAL_RESTORE_H

#include "engine/journal/journal_status.h"
#include "engine/journal/manual_table.h"

/* Tells the listener what there was, if anything.  False: not all of it could be read (told
 * too): another process writes it, its disk fails, or feed/ took more than 20 s. */
bool engine_journal_restore(struct engine *engine, const struct generation *generation,
    const struct journal_listener *listener, int64_t now_ns, int64_t wall_ns);

/* Does again what is `wanted` of the table, as that does, and tells the listener if there was
 * anything. */
void engine_journal_do_again(struct engine *engine, const struct generation *generation,
    struct manual_table *table, bool (*wanted)(void *context, const struct journal_manual *action),
    void *context, const struct journal_listener *listener, int64_t now_ns, int64_t wall_ns);

#endif
