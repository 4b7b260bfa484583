/* SPDX-License-Identifier: ISC */
/*
 * The files of a journal and what stands in them, read-only: for the log itself, for
 * recovery, and for whoever looks at a journal from outside, also while it is written.
 * No locks; nothing is created or written.  Nothing is allocated by what the files say
 * but some 150 bytes for each file; each byte is read a bounded number of times.  One thread.
 */
#ifndef JOURNAL_READER_H
#define JOURNAL_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "journal/frame.h"
#include "journal/record.h"
#include "journal/storage.h"

#define JOURNAL_SIZE_MAX	(UINT32_C(1) << 30)	/* of a file; no more is looked at */
#define JOURNAL_FILES_MAX	100000	/* more are not looked at (counted as foreign) */

struct journal_file {
	uint32_t number;
	uint32_t size;		/* when it was looked at; JOURNAL_SIZE_MAX at most */
	uint32_t end;		/* records count up to here, where known; else the size */
	bool end_known;		/* by the head of the file that follows it, or by the log */
	bool superseded;	/* written behind a torn spot: nothing in it counts */
	enum journal_head_state head_state;
	uint8_t version;	/* of its head */
	bool later;		/* records of a later version or an unknown type were met in it */
	uint32_t looked;	/* the log has looked through so many of its bytes for these */
	int error;		/* why its head could not be read: it is not known what stands there */
	/* The log's: */
	int handle;		/* to read and to write; -1: not open */
	bool data;		/* records were written that no sync covers */
	bool marks;		/* the same of marks */
	struct journal_head head;	/* zeros where there is none */
	uint64_t first;		/* sequence of the head */
	uint64_t synced;	/* last sequence that was synced when its head was written */
};

/* In the order of their numbers. */
struct journal_files {
	const struct journal_storage *storage;
	struct journal_file *files;
	uint32_t count;
	size_t room;
	bool tolerant;		/* set before: a head or slot that cannot be read is none, and no
				 * error */
	bool lazy;		/* set before, by the writer: heads are read when they are needed,
				 * but for those from the file on that the positions say was
				 * synced; these files are read from the disk, not from what
				 * memory has of them */
	bool loads;		/* within journal_files_load */
	bool slots_unread;	/* not all of them could be read */
	struct journal_place sure;	/* positions say that it was synced up to there */
	uint32_t unread;	/* so many of the first, of which nothing is known so far */
	struct {		/* what the heads read so far say of those before */
		bool known;
		uint32_t number, end;	/* the next one that counts, and how far */
	} before;
	int error;		/* why journal_files_need failed last */
	uint32_t foreign;	/* names in the directory that are none of a journal's */
	uint64_t synced;	/* the highest sequence that anything read so far proves synced */
	uint64_t bytes_read;	/* all of it, cursors too */
};

/* A slot of `positions`. */
enum journal_slot_state { JOURNAL_SLOT_GOOD, JOURNAL_SLOT_EMPTY, JOURNAL_SLOT_DAMAGED,
	JOURNAL_SLOT_LATER };
struct journal_slot {
	enum journal_slot_state state;
	uint64_t serial;		/* of those written */
	struct journal_positions positions;	/* record.h; GOOD alone */
};

/* --- from outside --------------------------------------------------------------- */

struct journal_reader {
	struct journal_files files;
	struct journal_slot slots[JOURNAL_SLOTS];
	int slot;		/* which one counts; -1: none */
	struct journal_storage *storage;	/* its own, or NULL */
};
/* Lists the directory and reads heads and positions.  0, or -errno with *diag.  The
 * storage stays the caller's, and must outlive it. */
int journal_reader_open(struct journal_reader **reader,
    const struct journal_storage *storage, struct diag *diag);
/* The same of the directory at that path, read-only. */
int journal_reader_open_path(struct journal_reader **reader, const char *path,
    struct diag *diag);
void journal_reader_close(struct journal_reader **reader);

/* Where what counts begins: positions.first_file's begin, or that of the first file there
 * is.  {0, 0}: there is none. */
struct journal_place journal_reader_begin(const struct journal_reader *reader);

/* --- walking -------------------------------------------------------------------- */

enum journal_found_kind {
	JOURNAL_FOUND_RECORD,	/* `frame`; also heads, types that are not known */
	JOURNAL_FOUND_LATER,	/* the same, but its version is a later one: pass it over */
	JOURNAL_FOUND_DAMAGE,	/* `length` bytes (to the file's end at most) hold nothing that
				 * can be read, and did when they were synced; it goes on
				 * behind them.  `why`. */
	JOURNAL_FOUND_TORN,	/* the same, but never was synced.  Where the log ends by it
				 * (ends is set) END follows; else a later file went on from
				 * there. */
	JOURNAL_FOUND_END,	/* of all files: nothing more for now.  May be asked again when
				 * the log has grown. */
	JOURNAL_FOUND_FAULT,	/* a file could not be read: `error` (ENOENT: deleted meanwhile);
				 * asked again, it tries the next file */
};
struct journal_found {
	enum journal_found_kind kind;
	struct journal_place place;
	uint32_t length;	/* with its header; of what cannot be read */
	struct journal_frame frame;	/* payload: until the next call */
	uint64_t expected;	/* DAMAGE, TORN: the sequence that was to come */
	uint64_t missing;	/* DAMAGE: how many sequences are missing, as far as known */
	bool ends;
	int error;
	const char *why;
};

struct journal_cursor;
/* NULL: no memory.  `files` must outlive it, and may change below it as the log writes
 * and deletes: it then stands at the begin of the next file.  Takes 330 kB. */
struct journal_cursor *journal_cursor_open(struct journal_files *files);
void journal_cursor_close(struct journal_cursor **cursor);
/* To where a record begins, or {number, 0}: the begin of that file, or of the next there
 * is. */
void journal_cursor_seek(struct journal_cursor *cursor, struct journal_place place);
/* Where the next will be looked for. */
struct journal_place journal_cursor_place(const struct journal_cursor *cursor);
enum journal_found_kind journal_cursor_next(struct journal_cursor *cursor,
    struct journal_found *found);

/* Shows all that is found from `begin` on ({0, 0}: of all) but the end, until `visit` says no.
 * False: no memory. */
bool journal_each(struct journal_files *files, struct journal_place begin,
    bool (*visit)(void *context, const struct journal_found *found), void *context);

/* --- for the log ---------------------------------------------------------------- */

/* Reads heads of the files from `number` on that were not read so far; 0 or -errno.  What is
 * in files->files[] stays where it is. */
int journal_files_need(struct journal_files *files, uint32_t number);
/* Fills *files (all zeros before) and the slots; 0 or -errno. */
int journal_files_load(struct journal_files *files, const struct journal_storage *storage,
    struct journal_slot slots[JOURNAL_SLOTS], int *slot);
void journal_files_free(struct journal_files *files);
/* The record where the cursor stands has that sequence, if it can be read. */
void journal_cursor_expect(struct journal_cursor *cursor, uint64_t sequence);
/* NULL: there is none of that number.  Its head may not have been read. */
struct journal_file *journal_files_find(const struct journal_files *files, uint32_t number);

#endif
