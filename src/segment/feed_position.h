/* SPDX-License-Identifier: ISC */
/*
 * How far the log of each mail server was read, kept in the segment's header so
 * that the next feed process goes on there.  One process writes; whoever comes
 * after it reads.  A position that was torn by a death is unknown, and so is that
 * of a mail server that is configured newly in the place of another one.
 */
#ifndef SEGMENT_FEED_POSITION_H
#define SEGMENT_FEED_POSITION_H

#include <stdbool.h>
#include <stdint.h>

struct segment;

struct feed_position {
	uint64_t device;	/* st_dev and st_ino of the log file */
	uint64_t inode;
	uint64_t offset;	/* bytes that were read of it and dealt with */
};

/* mta: its number in the generation.  False: nothing is known. */
bool feed_position_get(const struct segment *segment, unsigned mta,
    struct feed_position *out);

/* One process, one thread; others may read meanwhile.  A number that no
 * mail server can have is ignored. */
void feed_position_set(struct segment *segment, unsigned mta,
    const struct feed_position *position);

#endif
