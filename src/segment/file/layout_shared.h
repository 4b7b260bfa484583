/* SPDX-License-Identifier: ISC */
/* What lies in the segment of destinations that a cluster shares.  Part of
 * segment/file/layout.h; segment/destination/shared.h tells what the words mean. */
#ifndef SEGMENT_LAYOUT_SHARED_H
#define SEGMENT_LAYOUT_SHARED_H

#include <stdatomic.h>
#include <stdint.h>

#define SHARED_NODES_MAX	64
#define SHARED_NODE_NAME_MAX	31
#define SHARED_PLACES		8	/* of a bucket: a cache line of names */

struct shared_slot {
	_Atomic uint64_t share;		/* 16: places; 16: without a lease */
	_Atomic uint64_t serial;	/* rises with each change of it */
	_Atomic uint64_t lanes;		/* 16: used; 16: wanted; 32: serial that was read before */
	_Atomic uint64_t asked_ns;	/* more was wanted, the last time */
	_Atomic uint64_t canary_ns;	/* until then this node may send one */
	_Atomic uint64_t canary_asked_ns;
	_Atomic uint64_t origin;	/* 8: node of the hold; 8: of the ceiling; 16: that ceiling;
					 * 32: end of the hold, ds; nodes from 1, 0: ours */
	_Atomic uint64_t decision;	/* 60: its id at the node of the hold; 4: enum decided_by */
};
_Static_assert(sizeof(struct shared_slot) == 64, "a cache line");

/* In front of the buckets. */
struct shared_head {
	_Atomic uint64_t used;		/* slots; 0: nobody needs to look */
	_Atomic int64_t until_ns;	/* end of the lease that all shares stand on */
	uint64_t reserved[6];
	/* by number; its first word last */
	_Atomic uint64_t nodes[SHARED_NODES_MAX][(SHARED_NODE_NAME_MAX + 1) / 8];
};
_Static_assert(sizeof(struct shared_head) % 64 == 0, "whole cache lines");

#endif
