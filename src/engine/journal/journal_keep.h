/* SPDX-License-Identifier: ISC */
/* What feed/ and keeper/ of the journal share: the directory, its log, how it fares, and
 * checkpoints.  One thread. */
#ifndef ENGINE_JOURNAL_KEEP_H
#define ENGINE_JOURNAL_KEEP_H

#include "engine/journal/journal_status.h"
#include "journal/log.h"

struct journal_keep {
	struct engine *engine;
	enum journal_room room;
	struct journal_listener listener;
	struct journal_storage *storage;
	struct journal_log *log;
	struct journal_told told;
	int64_t told_ns;
	int64_t now_ns, wall_ns;	/* of this turn */
	int64_t shift_ns;	/* of the wall clock against ours; 0: no turn yet */
	bool renew;		/* all that is known is to be written anew */
	uint64_t whole;		/* when this sequence is synced it was; 0: it was not written yet */
	bool failed;		/* a record was dropped since it was set to false */
	uint64_t checkpoint;	/* the number of the last one */
	uint32_t first_file;	/* that it began in; 0: none was begun */
	uint32_t records;	/* appended since it began */
	uint64_t bytes;		/* appended */
	uint64_t checkpoint_began, checkpoint_bytes;	/* bytes then; of the last whole one */
	uint32_t known_begin;	/* of the log, when its origin was looked at */
	uint32_t known_file;	/* what the segment was told */
	bool is_foreign;	/* what was there when it was opened is not this state's */
	bool was_unread;	/* its disk failed when this state was restored */
	uint64_t recorded;	/* positions, when its origin was looked at */
};

/* `owner`: the address of a pointer to a struct of `size` bytes that begins with a struct
 * journal_keep.  It is made, zeroed; or NULL: there is no journal, as journal.path says.  Where
 * the directory cannot be used now it is tried again.  0; -1 with *diag: no memory. */
int journal_keep_open(void *owner, size_t size, struct engine *engine,
    const struct generation *generation, enum journal_room room,
    const struct journal_listener *listener, int64_t now_ns, struct diag *diag);
/* The same address; NULL is left there. */
void journal_keep_close(void *owner);

/* A turn begins.  True: the wall clock was set since the last one. */
bool journal_keep_begin(struct journal_keep *keep, int64_t now_ns, int64_t wall_ns);

/* A time of the clock of now_ns as time of day; 0 is none, and what is further away than 73
 * years is for ever. */
int64_t journal_keep_wall_ns(const struct journal_keep *keep, int64_t time_ns);

/* Can all be written anew, and is to be? */
bool journal_keep_can_renew(const struct journal_keep *keep);

/* Each second, and after something that is to be on the disk soon was appended.  False:
 * nothing can be written now. */
bool journal_keep_turn(struct journal_keep *keep);

/* Was what stands there, when it was read, neither written by processes of this state nor
 * restored into it?  Then it stays, and is told. */
bool journal_keep_is_foreign(struct journal_keep *keep);

/* Appends a record of that type. */
void journal_keep_append(struct journal_keep *keep, enum journal_type type,
    const void *record);

/* All that is appended between the two is all that is known: when it is synced, older files
 * go.  Without an end it is as if it had not been begun. */
void journal_keep_checkpoint(struct journal_keep *keep);
void journal_keep_checkpoint_end(struct journal_keep *keep);
/* Is another one due, as this one has grown by so many bytes and more than three like it? */
bool journal_keep_has_grown(const struct journal_keep *keep, uint64_t bytes);

#endif
