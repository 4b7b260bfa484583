/* SPDX-License-Identifier: ISC */
/* Steps over the bytes of a journal's files.  For journal/ only. */
#ifndef JOURNAL_WALK_H
#define JOURNAL_WALK_H

#include "journal/reader.h"

enum walk_step { WALK_FRAME, WALK_BAD, WALK_FILE_END, WALK_FAULT };

struct walker {
	struct journal_files *files;
	uint32_t number;	/* of the file; 0: before the first */
	uint32_t offset;	/* of the next frame */
	uint64_t expected;	/* its sequence; 0: not known */
	int handle;		/* of `number`; -1: not open */
	uint32_t chunk;		/* to read at once */
	uint64_t budget;	/* bytes to sum up in searches of this file; UINT64_MAX: not set */
	uint32_t from, length;	/* what of the file is in the buffer */
	/* of the last step */
	struct journal_frame frame;
	uint32_t at, bad_length;
	uint64_t missing;	/* sequences that a bad spot held */
	int error;
	uint8_t *buffer;
};

/* Before the first file; false: no memory. */
bool journal_walk_begin(struct walker *walker, struct journal_files *files);
void journal_walk_finish(struct walker *walker);
/* To that place; nothing is known of what is to come there. */
void journal_walk_enter(struct walker *walker, uint32_t number, uint32_t offset);
/* Closes the file. */
void journal_walk_leave(struct walker *walker);
/* One step within `file`, in which the walker stands. */
enum walk_step journal_walk_step(struct walker *walker, const struct journal_file *file);
/* Is the frame one that only a later version can read? */
static inline bool journal_walk_is_later(const struct walker *walker) {
	return walker->frame.version > JOURNAL_VERSION ||
	    journal_type_word(walker->frame.type) == NULL;
}
/* How far the file counts, and is there. */
uint32_t journal_walk_limit(const struct journal_file *file);
/* The first file that counts with that number or a higher one; NULL: there is none. */
struct journal_file *journal_walk_file(struct journal_files *files, uint32_t number);

#endif
