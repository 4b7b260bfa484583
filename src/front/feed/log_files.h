/* SPDX-License-Identifier: ISC */
/*
 * Which files a log is just now: the one at its path, or the newest that match its
 * pattern (base/path_pattern.h), and those that were read before and have another
 * name by now.  Names are looked up by whoever may: root, before the feed has let
 * go of its rights, or the feed itself.
 */
#ifndef FRONT_LOG_FILES_H
#define FRONT_LOG_FILES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "segment/file/feed_position.h"

#define LOG_FILES_MAX	(2 * FEED_FILES_MAX)

struct log_file {
	char *path;		/* malloc */
	uint64_t order;		/* of a pattern's dates */
	uint64_t device, inode;
	int64_t changed_s;
	int fd;			/* -1: not opened */
	bool at_path;		/* of a plain log; a link is followed there alone */
};

struct log_files {
	const char *log;	/* the path or pattern */
	/* From the oldest to the newest; at the path of a plain log the last one. */
	struct log_file list[LOG_FILES_MAX];
	unsigned count;
	int error;		/* errno: nothing is at the path, or matches; why not */
	bool sure;		/* what was read before and is not in the list is gone */
	unsigned left_out;	/* were to be read, but there were too many: the oldest */
};

/* Fills *out with names.  Of a pattern's matches come the FEED_FILES_MAX newest;
 * `known`: files that were read before (the last one last), which come wherever they were
 * renamed to in their directory, as long as their name begins with the log's (or
 * matches); and where rotation renamed the last of them, the files that it renamed
 * since. */
void log_files_find(const char *log, const struct feed_position *known, unsigned count,
    struct log_files *out);

/* What root finds and opens for a feed that has yet to learn which files it read before: all
 * that may be the log's, the most recently written ones. */
#define LOG_CANDIDATES_MAX	64
struct log_candidates {
	const char *log;
	struct log_file list[LOG_CANDIDATES_MAX];
	unsigned count;
	int error;		/* as of log_files */
	bool sure;
};
void log_files_open_all(const char *log, struct log_candidates *out);

/* Those of the candidates that log_files_find would name, open; the others are closed. */
void log_files_choose(struct log_candidates *from, const struct feed_position *known,
    unsigned count, struct log_files *out);

/* Opens one of them, if it is a regular file: false with errno.  What it was is what was
 * opened, even if its name led to another file before. */
bool log_file_open(struct log_file *file);

/* Closes those that nobody took (fd is not -1), and frees the names. */
void log_files_free(struct log_files *files);

#endif
