/* SPDX-License-Identifier: ISC */
/* What lies in the segment of decisions: two rings.  Part of segment/file/layout.h. */
#ifndef SEGMENT_LAYOUT_DECISIONS_H
#define SEGMENT_LAYOUT_DECISIONS_H

#include <stdatomic.h>
#include <stdint.h>

enum decided_ring { DECIDED_OF_SESSIONS, DECIDED_OF_DESTINATIONS };
#define DECIDED_RINGS		2	/* the lowest bit of an id */

#define DECIDED_TEXT_BYTES	376
#define DECIDED_WORDS		62	/* of struct decided; the first is the id */

/* A place of a ring.  The id is stored last, and taken away first; `check` is of all
 * other words that are used. */
struct decided_slot {
	_Atomic uint64_t words[DECIDED_WORDS];
	_Atomic uint64_t check;
	_Atomic uint64_t marks;		/* the id, once it was logged */
};
_Static_assert(sizeof(struct decided_slot) == 512, "eight cache lines");

/* Begun with the seconds of the day on which the segment was made. */
#define DECIDED_BEGIN_SHIFT	19
#define DECIDED_BEGIN_WITHIN	(UINT32_C(1) << 18)	/* and a number below it, by chance */
struct decided_next {
	_Atomic uint64_t number;
	_Atomic uint64_t kept;	/* up to this one they are on the disk; 0: not known */
	uint64_t pad[6];
};

#endif
