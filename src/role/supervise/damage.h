/* SPDX-License-Identifier: ISC */
/*
 * Whether roles die of what stands in the segment, so that it is to be built again; by their
 * deaths alone, as the supervisor does not look into it.  Pure: times are the caller's, of the
 * monotonic clock in ns.  One thread.
 */
#ifndef ROLE_DAMAGE_H
#define ROLE_DAMAGE_H

#include <stdbool.h>
#include <stdint.h>

/* Begins as zeros. */
struct damage {
	unsigned deaths;	/* within 20 s of the first of them */
	int64_t since_ns;	/* when that one was */
	uint64_t places;	/* of the roles that died, a bit each */
	int64_t from_ns;	/* no rebuild before */
	int64_t for_one_from_ns;	/* none where one role alone dies */
	int64_t for_one_apart_ns;	/* how long that was put off the last time; 0: never */
};

/* The role of `place` (below 64) died as one does of a spoiled segment. */
void damage_note(struct damage *damage, unsigned place, int64_t now_ns);

/* Six such deaths: is it to be built again now?  Rebuilds are at least 20 s apart; where one
 * role alone dies, each time twice as long as the last, up to an hour or so, as it may be a text
 * from outside that ends it, which is there again after each. */
bool damage_is_found(const struct damage *damage, int64_t now_ns);

/* The segment was built again. */
void damage_mended(struct damage *damage, int64_t now_ns);

/* It could not be: the next try is 5 s later. */
void damage_put_off(struct damage *damage, int64_t now_ns);

#endif
