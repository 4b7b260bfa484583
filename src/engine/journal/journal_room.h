/* SPDX-License-Identifier: ISC */
/* A directory of the journal, to be read by somebody who does not write it. */
#ifndef ENGINE_JOURNAL_ROOM_H
#define ENGINE_JOURNAL_ROOM_H

#include "config/generation/generation.h"
#include "engine/engine.h"
#include "journal/reader.h"

enum journal_room_opened {
	JOURNAL_ROOM_OPENED,
	JOURNAL_ROOM_NONE,	/* there is no such directory */
	JOURNAL_ROOM_BUSY,	/* another process writes it, and did so for 1.5 s */
	JOURNAL_ROOM_FAULT,	/* *diag, for the third time in 2 s */
};

/* What could not be read of it. */
struct journal_bad {
	uint64_t places, bytes;	/* damaged, or senseless */
	uint64_t later;		/* records of a later version or an unknown type */
	uint64_t faults;	/* of `places`: what may be read when the disk is well again */
};
void journal_bad_note(struct journal_bad *bad, const struct journal_found *found);
/* Nothing could be. */
void journal_bad_no_memory(struct journal_bad *bad);

/* This state has all that stands there. */
void journal_room_is_known(struct engine *engine, enum journal_room room,
    const struct journal_files *files);
/* JOURNAL_IS_UNREAD: its disk failed, this state has not all of it; JOURNAL_IS_NONE: there is no
 * such directory. */
void journal_room_set(struct engine *engine, enum journal_room room, uint64_t journal);

/* Does this errno mean that there is no such directory?  The supervisor, who makes them, says
 * why there is none. */
bool journal_room_is_missing(int error);

/* Does it belong in such a directory? */
bool journal_room_is_name(const char *name);

/* Only with OPENED there is a reader, to be closed. */
enum journal_room_opened journal_room_open(const struct generation *generation,
    enum journal_room room, struct journal_reader **reader, struct diag *diag);

#endif
