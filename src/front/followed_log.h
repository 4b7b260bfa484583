/* SPDX-License-Identifier: ISC */
/*
 * A log file that is followed line by line wherever it goes: renamed and made anew
 * (the old one is read to its end first, and stays open for a while, as its writer
 * may be slow to change), copied and cut (read from its start again), removed, or
 * not there yet.  Never blocks; one thread.
 */
#ifndef FRONT_FOLLOWED_LOG_H
#define FRONT_FOLLOWED_LOG_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define FOLLOWED_LINE_MAX	65536	/* longer lines are passed over */

/* One opened file. */
struct followed_file {
	int fd;			/* -1: none */
	dev_t device;
	ino_t inode;
	uint64_t offset;	/* in the file, of what the buffer begins with */
	bool skipping;		/* within a line that is not wanted */
};

struct followed_log {
	char path[PATH_MAX];
	struct followed_file file;	/* what was at the path last */
	struct followed_file before;	/* what was there before it */
	int64_t before_until_ns;
	bool before_waits;	/* there is more in it than was read */
	bool appeared;		/* there was none at first: all of it is new */
	int error;		/* why nothing is at the path: errno; 0: all is well */
	/* what happened; whoever counts sets them to 0 */
	unsigned long_lines;
	unsigned truncated;
	unsigned replaced;
};

/* Each whole line, without its newline. */
typedef void (*followed_line)(void *context, const char *line, size_t length);

/* Follows `path` (shorter than PATH_MAX).  `fd` is the file there, which somebody
 * opened already and is taken over, or -1.  `from` is how far it was read (NULL: from
 * its end on). */
struct followed_place {
	uint64_t device, inode, offset;
};
void followed_log_open(struct followed_log *log, const char *path, int fd,
    const struct followed_place *from);
/* After that: `fd` (taken over) may be the file that `from` is of, which is no longer
 * at the path: then its rest comes first. */
void followed_log_before(struct followed_log *log, int fd, const struct followed_place *from,
    int64_t now_ns);
void followed_log_close(struct followed_log *log);

/* Reads `buffer_size` bytes at most (twice FOLLOWED_LINE_MAX or more) and calls `each` for each
 * whole line.  True: there is more to read now. */
bool followed_log_read(struct followed_log *log, char *buffer, size_t buffer_size,
    followed_line each, void *context);

/* Looks where the path leads now, when there is nothing more to read.  True: it
 * leads to a file that is not ours to open (log->error tells why): somebody else has
 * to open it. */
bool followed_log_look(struct followed_log *log, int64_t now_ns);

/* How far it was read: of the file before, while there is more in that.  False:
 * there is no file. */
bool followed_log_place(const struct followed_log *log, struct followed_place *out);

#endif
