/* SPDX-License-Identifier: ISC */
/*
 * One file of a log, read line by line as it grows.  Other contents in the same
 * file (it was cut, even if it has grown beyond the old place since) are found by
 * the bytes before the place.  Never blocks; one thread.
 */
#ifndef FRONT_FOLLOWED_FILE_H
#define FRONT_FOLLOWED_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/feed/feed_files.h"

#define FOLLOWED_LINE_MAX	65536	/* longer lines are passed over */
#define FOLLOWED_TAIL_BYTES	256	/* before the place, that tell other contents */
#define FOLLOWED_HEAD_BYTES	1024	/* at the start, that tell a copy */
#define FOLLOWED_BUFFER_MIN	(2 * FOLLOWED_LINE_MAX + FOLLOWED_TAIL_BYTES)

struct followed_file {
	char *path;		/* where it was found; malloc */
	uint64_t order;		/* of its name, where the log has a pattern */
	int fd;
	uint32_t record;	/* where its position is kept */
	struct feed_position position;
	uint64_t origin;	/* feed_origin_id of it */
	char head[FOLLOWED_HEAD_BYTES];	/* what it begins with, as far as it was read */
	/* Where it was when it was cut the last time, and what it began with then. */
	struct feed_spot before_cut;
	char head_before[FOLLOWED_HEAD_BYTES];
	int64_t grew_ns;	/* when something was read last */
};

/* A whole line, without its newline, and without NULs before it.  It stands in the reader's
 * buffer until the next read. */
struct followed_line {
	const char *text;
	size_t length;
	const char *behind;	/* behind its newline */
	uint64_t offset;	/* in the file, of what is behind it */
};

#define FOLLOWED_LINES	16	/* so many are given at once */

struct followed_counts {
	unsigned long_lines;
	unsigned truncated;	/* files that were cut */
	unsigned replaced;	/* new files */
	unsigned lost;		/* files that are gone, or too many, before they were read on */
};

/* A buffer of a file at a time, and the lines in it:
 *
 *	while ((count = followed_file_lines(file, reader, now_ns, lines)) > 0)
 *		... followed_file_keep(file, reader, &lines[i]) ...
 */
struct followed_reader {
	char *buffer;
	size_t buffer_size;	/* FOLLOWED_BUFFER_MIN at least */
	const struct feed_keeper *keeper;
	struct followed_counts *counts;
	const char *start, *end; /* what was read: */
	const char *at;		/* lines before that were given; NULL: of all that was read */
	uint64_t offset;	/* of start in the file */
	bool more;		/* there may be more to read now */
};

/* The next few lines of a buffer, which the first call reads; 0: there are none, and position.spot
 * stands behind them all: the next call reads another. */
unsigned followed_file_lines(struct followed_file *file, struct followed_reader *reader,
    int64_t now_ns, struct followed_line lines[FOLLOWED_LINES]);

/* Something came of the line: it is not to be read again, whatever happens to us. */
void followed_file_keep(struct followed_file *file, const struct followed_reader *reader,
    const struct followed_line *line);

/* Sets the spot to the end of what is there.  False: it cannot be read. */
bool followed_file_to_end(struct followed_file *file);

/* Takes up what the file begins with, when it was opened. */
void followed_file_read_head(struct followed_file *file);

/* Does the file behind `fd` begin as the one did that spot and head are of, up to the
 * spot?  It is a copy then.  False where that is too little to tell. */
bool followed_file_continues(int fd, const struct feed_spot *spot, const char *head);

/* What `length` bytes (FOLLOWED_TAIL_BYTES at most) before a place come to. */
uint32_t followed_tail(const char *bytes, size_t length);

#endif
