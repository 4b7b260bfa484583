/* SPDX-License-Identifier: ISC */
/*
 * A log that is followed wherever its files go: renamed and made anew (the old
 * file is read on, for as long as its writer may be slow to change), named by
 * date, copied and cut (read from its start again), removed, or not there yet.
 * Where each file was read to is handed to a keeper after each line that
 * mattered.  Never blocks; one thread.
 */
#ifndef FRONT_FOLLOWED_LOG_H
#define FRONT_FOLLOWED_LOG_H

#include <limits.h>

#include "front/feed/followed_file.h"
#include "front/feed/log_files.h"

struct followed_log {
	char log[PATH_MAX];	/* path or pattern */
	uint64_t id;		/* feed_log_id of it */
	bool plain;
	bool from_begin;	/* as it was begun */
	bool unseen;		/* it could not be looked at yet: nobody knows what is new */
	struct followed_file files[FEED_FILES_MAX];	/* the oldest first: to be read in
					 * this order (followed_file.h) */
	unsigned count;
	char *newest;		/* the last name that matched the pattern, or NULL */
	uint64_t newest_order;
	int64_t looked_ns;
	const struct feed_keeper *keeper;
	int error;		/* why nothing is at the path, or matches: errno; 0: all is well */
	struct followed_counts counts; /* what happened; whoever counts sets them to 0 */
};

/* How to begin. */
struct followed_start {
	/* How far the files were read, and where that is kept, in the order in which they
	 * came (feed_positions); none: the log was not followed before. */
	const struct feed_position *known;
	const uint32_t *records;
	unsigned known_count;
	/* What is there of a log that was not followed before is read (else passed over). */
	bool from_begin;
	/* The files, opened by somebody with more rights; those that are used are taken
	 * over.  NULL: they are looked for. */
	struct log_files *files;
};

/* Follows the path or pattern, which is shorter than PATH_MAX.  The keeper outlives
 * it. */
void followed_log_open(struct followed_log *log, const char *text,
    const struct followed_start *start, const struct feed_keeper *keeper,
    int64_t now_ns);
void followed_log_close(struct followed_log *log);

/* Looks for new files, when there is nothing more to read, and lets go of those that
 * have been read to their end.  True: there is a file that is not ours to open
 * (log->error tells why): somebody else has to. */
bool followed_log_look(struct followed_log *log, int64_t now_ns);

#endif
