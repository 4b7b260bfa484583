/* SPDX-License-Identifier: ISC */
/*
 * Which lanes carry mail of which domain, as the log's results tell: a ring in the
 * segment that the feed process writes and the keeper's thread for hints follows
 * (DESIGN section 11: a lane's width counts as used until its mail has drained).
 * Nothing is lost by its loss: who missed some takes every lane for used.
 *
 * Plain words under a number for each place: a reader knows what was overwritten while
 * it read, and what a dead writer left half done.
 */
#ifndef SEGMENT_LANE_USES_H
#define SEGMENT_LANE_USES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct segment;

#define LANE_USE_MS_MOST	UINT32_C(0x3fffff)	/* 70 minutes; longer times are cut */

/* One result of a delivery by the transport that lanes clone, or by a lane. */
struct lane_use {
	uint64_t domain;	/* lane_uses_hash of the recipient's domain */
	int64_t ended_ns;	/* when the delivery ended (base/clock.h) */
	uint32_t waited_ms;	/* for a place in the queue manager: b of delays=a/b/c/d */
	uint32_t took_ms;	/* connecting and sending: c + d */
	uint16_t width;		/* of the lane; 0: the transport itself */
	uint8_t mta;		/* number in the generation */
	bool tried;		/* somebody was connected to, or it was tried */
	bool failed;		/* before MAIL: for the queue manager a sign of a dead site */
	bool suspended;		/* not tried: the queue manager has suspended the lane, which is
				 * not known (width 0) */
};

/* The same in all processes, for one segment's life; any case, a dot at its end is
 * passed over.  0: no name that is ever remembered. */
uint64_t lane_uses_hash(const struct segment *segment, const char *domain, size_t length);

/* One process, one thread: the feed's.  About 20 ns. */
void lane_uses_note(struct segment *segment, const struct lane_use *use);

/* Follows the ring.  All zero at first: then it begins with what is there. */
struct lane_uses_cursor {
	uint64_t next;
	bool begun;
};

/* The next one; false: there is none.  *lost: some were overwritten before they were
 * read (set, never cleared). */
bool lane_uses_next(const struct segment *segment, struct lane_uses_cursor *cursor,
    struct lane_use *out, bool *lost);

#endif
