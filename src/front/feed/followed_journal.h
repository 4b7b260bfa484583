/* SPDX-License-Identifier: ISC */
/*
 * systemd's journal as a log that is followed: through rotation, vacuuming, flushes from memory
 * to disk, new journals of a restarted journald, and reboots.  A place is a sequence number and
 * the ID that it belongs to; in files of another ID it is a time.  Never blocks for long; one
 * thread.
 */
#ifndef FRONT_FOLLOWED_JOURNAL_H
#define FRONT_FOLLOWED_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/sd_log.h"
#include "front/feed/followed_file.h"
#include "front/serve/sd_library.h"

struct followed_journal_counts {
	unsigned lost;		/* times that entries were deleted before they were read */
	uint64_t suppressed;	/* messages that journald took from no one: rate limits */
	unsigned long_lines;
};

#define JOURNAL_UNITS_MAX	8
struct followed_journal_unit {
	char name[256];
	bool of_mail;		/* results of deliveries came of it */
	uint64_t suppressed;	/* not counted yet */
};

struct followed_journal {
	char log[PATH_MAX];	/* as configured */
	uint64_t id;		/* feed_log_id of it */
	struct sd_log name;
	const struct sd_calls *calls;
	struct sd_journal *journal;	/* NULL: not open */
	const struct feed_keeper *keeper;
	uint32_t record;
	struct feed_position position;
	uint64_t origin;	/* feed_origin_id of it */
	uint64_t read_us;	/* time of the entry that was read last; 0: none yet */
	bool resuming;		/* what was dealt with before may come again */
	int64_t tried_ns;	/* when it was opened last */
	int error;		/* why it cannot be read: errno; 0: all is well */
	struct followed_journal_unit units[JOURNAL_UNITS_MAX];
	char suppressed_unit[256];	/* of the last of counts.suppressed */
	struct followed_journal_counts counts;	/* what happened; whoever counts sets them to 0 */
};

/* One entry as a log line. */
struct followed_journal_line {
	const char *text;
	size_t length;
	uint32_t uid;		/* that the kernel said the writer has; UINT32_MAX: not known */
};

struct followed_journal_reader {
	char *buffer;
	size_t buffer_size;
	/* True: something came of it, so that the place is to be kept at once; it is
	 * journal->position. */
	bool (*each)(void *context, const struct followed_journal *journal,
	    const struct followed_journal_line *line);
	void *context;
};

/* How to begin. */
struct followed_journal_start {
	/* feed_positions of the log; none: it was not followed before. */
	const struct feed_position *known;
	const uint32_t *records;
	unsigned known_count;
	bool from_begin;	/* what is there of one that was not followed before is read */
	int64_t wall_us;	/* now */
};

/* Follows the journal of that text (sd_log_parse accepts it).  `calls` and keeper outlive it. */
void followed_journal_open(struct followed_journal *journal, const char *text,
    const struct followed_journal_start *start, const struct sd_calls *calls,
    const struct feed_keeper *keeper, int64_t now_ns);
void followed_journal_close(struct followed_journal *journal);

/* Reads `most` entries at most.  True: there are more to read now. */
bool followed_journal_read(struct followed_journal *journal, const struct followed_journal_reader *reader,
    unsigned most, int64_t wall_us);

/* Each second: opens one that could not be, or whose files are gone.  True: it is another one
 * since (its descriptor, too). */
bool followed_journal_look(struct followed_journal *journal, int64_t now_ns);

/* Becomes readable when entries may have come; -1: none.  followed_journal_changed takes that
 * up. */
int followed_journal_fd(struct followed_journal *journal);
void followed_journal_changed(struct followed_journal *journal);

#endif
