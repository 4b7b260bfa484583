/* SPDX-License-Identifier: ISC */
/*
 * How far each log file was read, kept in the segment's header so that the next
 * feed process goes on there.  A log is what a mail server's `log` names (a
 * path, or a pattern of paths), or a socket that lines come by; at any time it
 * may be several files: the one that is written now, and those that a writer may
 * not have let go of.
 *
 * A place within a file changes by one store after each line that was dealt
 * with: whoever dies has dealt with one line more, at most.  What was torn by a
 * death is unknown; that can only be a file of which nothing was read yet.  One
 * process writes; whoever comes after it reads.
 */
#ifndef SEGMENT_FEED_POSITION_H
#define SEGMENT_FEED_POSITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct segment;

#define FEED_FILES_MAX		8	/* of one log */
#define FEED_OFFSET_MAX		((UINT64_C(1) << 43) - 1)
#define FEED_TAIL_BITS		20
#define FEED_NO_RECORD		UINT32_MAX

struct feed_spot {
	/* Bytes that were dealt with, FEED_OFFSET_MAX at most; of systemd's journal the sequence
	 * number of the entry that was dealt with last. */
	uint64_t offset;
	/* Of the bytes before it, so that other contents are told from these;
	 * FEED_TAIL_BITS. */
	uint32_t tail;
	bool skipping;		/* within a line that is not wanted */
	/* Of systemd's journal: all that was written until then was dealt with (us since 1970);
	 * else 0. */
	uint64_t time_us;
};

struct feed_position {
	uint64_t log;		/* feed_log_id; never 0 */
	/* st_dev and st_ino; both 0: there was no file yet.  Of systemd's journal the two halves
	 * of the ID that its sequence numbers belong to. */
	uint64_t device;
	uint64_t inode;
	uint32_t epoch;		/* rises each time that the file was cut */
	uint32_t rank;		/* the file that came last has the highest of its log */
	struct feed_spot spot;
};

/* The log of that text: the same in each process and segment. */
uint64_t feed_log_id(const char *text);

/* What the destinations' slots know a file by (struct feed_origin): another one
 * after it was cut.  Never 0. */
uint64_t feed_origin_id(const struct feed_position *position);

/* The files of a log, in the order in which they came; returns how many.
 * records[i] names out[i] below. */
unsigned feed_positions(const struct segment *segment, uint64_t log,
    struct feed_position out[FEED_FILES_MAX], uint32_t records[FEED_FILES_MAX]);

/* Begins a record; its rank is the next of its log.  The oldest file of a log
 * that has FEED_FILES_MAX is forgotten for it.  FEED_NO_RECORD: there is no room. */
uint32_t feed_position_begin(struct segment *segment,
    const struct feed_position *position);
void feed_position_move(struct segment *segment, uint32_t record,
    const struct feed_spot *spot);
/* The file was cut: it is read from its start, and is another one from now on. */
void feed_position_cut(struct segment *segment, uint32_t record);
void feed_position_forget(struct segment *segment, uint32_t record);

/* A result counts that no slot of a destination remembers.  False: the line that ends there
 * counted last, it is read again after a death. */
bool feed_position_counts(struct segment *segment, uint64_t origin, uint64_t offset);

/* Lines of this file are dealt with from now on.  A slot knows no more than the place of its
 * last line: whoever comes after a death reads first what was read last, before another line
 * takes that place. */
void feed_position_reading(struct segment *segment, uint64_t origin);
/* 0: none. */
uint64_t feed_position_read_last(const struct segment *segment);

/* Forgets the files of all other logs. */
void feed_positions_keep(struct segment *segment, const uint64_t logs[],
    unsigned count);

/* All of all logs, SEGMENT_LOG_FILES at most; returns how many. */
unsigned feed_positions_all(const struct segment *segment, struct feed_position out[]);
/* Adds one as it is, of another segment.  False: there is no room, or it has no log. */
bool feed_position_add(struct segment *segment, const struct feed_position *position);

#endif
