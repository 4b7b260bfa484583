/* SPDX-License-Identifier: ISC */
/*
 * One directory of a journal, for its one writer (frame.h: the bytes): records are
 * appended, synced in groups, marked as garbage, and read again; files that nobody needs
 * any more are deleted.
 *
 *	journal_log_open	locks the directory, reads heads and `positions`, finds where the
 *				log ended (reading from the place that `positions` or a head
 *				says was synced), and begins a new file behind it; what was
 *				read is synced with the first group, and where that fails
 *				read again from the disk
 *	journal_log_append	into memory; ...flush writes it, ...turn syncs what is due
 *	journal_log_mark	the mark is written once what allows it is synced, as else a
 *				crash could leave the mark without its reason
 *
 * "Synced" is always a prefix: whatever has a sequence up to journal_log_synced() is on the
 * disk, with all that was appended before it, and the names of its files.
 *
 * Where the disk fails (full, read-only, EIO, the files or the directory removed, locked by
 * another) the log is *failed*: appends are dropped and counted, `changed` tells once.  It
 * tries again by itself, after 1 s and then up to 30 s, by beginning a new file; when that
 * is on the disk `changed` tells, and `renew` asks the owner to append all that it knows
 * anew, as what was not synced before is lost (journal_log_holds).  Files can still be read
 * meanwhile.
 *
 * One thread, and one of its own for syncs where options.threaded.  `now_ns` is any clock
 * that does not go back (base/clock.h); wall clock only stands in heads.  No call but
 * close waits for a sync; where options.threaded is false turn does.
 */
#ifndef JOURNAL_LOG_H
#define JOURNAL_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "journal/frame.h"
#include "journal/reader.h"
#include "journal/record.h"
#include "journal/storage.h"

struct journal_log;

enum journal_state {
	JOURNAL_GOOD,
	JOURNAL_FAILED,
};

/* What it says to its owner, out of any function below but close (`changed` also out of
 * open, before *log is set); only append, flush, mark, sync_by, positions and what asks may
 * be called from inside `renew`, nothing from inside `changed`.  Each may be NULL. */
struct journal_log_calls {
	/* `error`: an errno (0: GOOD again); `what` was tried: "write", "sync", "create", ... */
	void (*changed)(void *context, enum journal_state state, int error, const char *what);
	/* The log is GOOD again, in a new file: all that the owner knows is to be appended, at
	 * least what journal_log_holds says is lost.  Also without a change of state: where
	 * older files were removed. */
	void (*renew)(void *context);
	void *context;
};

struct journal_log_options {
	enum journal_kind kind;
	uint32_t file_size;	/* another file is begun when one is that long; 4 kB to 1 GB */
	bool threaded;		/* syncs in a thread of its own */
	uint64_t random;	/* salts and the journal's number come of it; 0: getrandom */
	int64_t (*wall_ns)(void);	/* NULL: the real one */
	struct journal_log_calls calls;
};
#define JOURNAL_FILE_SIZE	(UINT32_C(16) << 20)

/* `storage` is copied; its context stays the caller's, and must outlive the log.  0; -1
 * with *diag: no memory.  All else is told by `journal_log_state`: the log is then FAILED
 * and is tried again in journal_log_turn; where the directory can be read, what stands in
 * it can be read at once (journal_log_is_read).  Waits up to 1.5 s for a lock that is taken
 * (threaded alone): a process that was killed keeps it until its last sync has ended. */
int journal_log_open(struct journal_log **log, const struct journal_storage *storage,
    const struct journal_log_options *options, int64_t now_ns, struct diag *diag);
/* Crash-only: writes nothing that is still in memory, waits for the thread alone. */
void journal_log_close(struct journal_log **log);

enum journal_state journal_log_state(const struct journal_log *log);
/* The errno and what was tried, while FAILED; *what may be NULL. */
int journal_log_error(const struct journal_log *log, const char **what);
/* The directory was read when it was opened, or when it could be later (false: FAILED since
 * then, and nothing is known of what stands there; what was there counts as lost). */
bool journal_log_is_read(const struct journal_log *log);

/* What stood there then: the journal's number (0: none can be read) and the last file that
 * holds more than its head (0: none). */
void journal_log_found_there(const struct journal_log *log, uint64_t *journal,
    uint32_t *last_file);

/* --- writing ---------------------------------------------------------------------- */

/* Its sequence, and in *place (or NULL) where it will stand.  0: FAILED, it was dropped
 * (counted).  `length` up to JOURNAL_PAYLOAD_MAX (else dropped, counted).  In memory until
 * flush; a full buffer is written at once. */
uint64_t journal_log_append(struct journal_log *log, uint8_t type, const void *payload,
    size_t length, struct journal_place *place);

/* All that was appended up to now is to be synced by `when_ns`: the earliest counts. */
void journal_log_sync_by(struct journal_log *log, int64_t when_ns);

/* Writes what was appended, without syncing it.  What journal_log_turn does besides. */
void journal_log_flush(struct journal_log *log);

/* Say it at the end of each turn of the owner's loop: writes; begins a sync that is due;
 * takes the result of one that has ended; applies marks; records positions; deletes; looks
 * each second whether the current file and the lock are still there, each 10 s the others;
 * tries again where it is FAILED.  Returns when to say it next at the latest (INT64_MAX: not before something is appended). */
int64_t journal_log_turn(struct journal_log *log, int64_t now_ns);
/* Readable when a sync has ended: then say journal_log_turn.  -1: not threaded. */
int journal_log_event_fd(const struct journal_log *log);

/* Sequences up to this are acknowledged; the last one appended. */
uint64_t journal_log_synced(const struct journal_log *log);
uint64_t journal_log_last(const struct journal_log *log);

/* Marks the record at `place` as garbage once sequence `allowed_by` is synced (0: at once).
 * Marks may be lost in a crash, until positions were recorded that were asked for after
 * them.  False: it was dropped (no memory, FAILED, no such place). */
bool journal_log_mark(struct journal_log *log, struct journal_place place,
    uint64_t allowed_by);

/* What stands there will be read or marked soon: reads from a disk can go side by side. */
void journal_log_expect(struct journal_log *log, struct journal_place place);

/* Does what was appended at that place count (or will, once it is synced)?  False: it was
 * lost with a fault, or its file was deleted or removed. */
bool journal_log_holds(const struct journal_log *log, struct journal_place place);

/* --- positions and deletion --------------------------------------------------------- */

/* Has them recorded: after all that was appended so far is synced, marks that were asked
 * for so far are written and all files with unsynced marks are synced.  After that files
 * below positions->first_file (0: none) are deleted, in order; not those in which anything is
 * of a later version or an unknown type, nor those of journal_log_keep.  Of *positions the
 * log sets serial, journal, syncs, synced place and sequence, kept, and when_ns; the owner
 * the rest.  Copied.  Those asked for meanwhile follow;
 * of several that wait the last alone.  Returns its number (1, 2, ...), 0: FAILED. */
uint64_t journal_log_positions(struct journal_log *log,
    const struct journal_positions *positions);
/* The number of those recorded and synced last; 0: none yet. */
uint64_t journal_log_positions_recorded(const struct journal_log *log);
/* Some that were asked for are not recorded yet.  False also after a fault, which drops
 * them: they are to be asked for again. */
bool journal_log_positions_pending(const struct journal_log *log);
/* As they were found at the start; NULL: there were none. */
const struct journal_positions *journal_log_found(const struct journal_log *log);

/* Nothing that was there when the directory was read is deleted, ever: nobody has read it.
 * feed/ and keeper/ do so by themselves where positions, which may say so, can never be read. */
void journal_log_keep(struct journal_log *log);

/* A new file is begun with the next append (checkpoints). Its number: *place of that. */
void journal_log_switch(struct journal_log *log);

/* --- reading ---------------------------------------------------------------------- */

/* For journal_cursor_open; the last one's end grows as it is written (flush first to see
 * what was appended).  Valid until journal_log_close. */
struct journal_files *journal_log_files(struct journal_log *log);
/* Where all that was there at the start ended, and so what the log wrote begins: the head
 * of the first file of its own (number, 0). */
struct journal_place journal_log_begin(const struct journal_log *log);

/* Since it was opened. */
struct journal_log_counts {
	uint64_t appended, appended_bytes, dropped;
	uint64_t writes, syncs;	/* calls; syncs of log files */
	uint64_t directory_syncs, position_syncs;
	uint64_t marks;
	uint64_t files_begun, files_deleted, files_lost;
	uint64_t faults, renewals;
	/* found at the start, behind the synced place; damages: heads, and files at either end
	 * that are missing, too */
	uint64_t torn_bytes, damages, damage_bytes;
	uint64_t later_files;	/* in which anything is of a later version, as far as looked at */
	uint64_t disk_bytes;	/* of all files now */
};
void journal_log_count(const struct journal_log *log, struct journal_log_counts *out);

#endif
