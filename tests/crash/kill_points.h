/* SPDX-License-Identifier: ISC */
/* What the parts of kill_points share. */
#ifndef TESTS_KILL_POINTS_H
#define TESTS_KILL_POINTS_H

#include "tests/unit/site.h"

extern struct site site;

#define NAMES 600	/* of destinations, for 256 places */

static inline uint32_t draw(uint64_t *state) {
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return (uint32_t)(*state >> 32);
}

/* A change of a destination's state, of what is in flight and of who is held. */
void states_step(uint64_t *random);

/* What a reader sees: is all of it whole? */
bool states_are_whole(void);

/* After every shard was locked once: does all fit together?  Ends all flights. */
bool states_add_up(void);

/* Of the class that is shared with other nodes, SHARED_CLASS in the configuration. */
#define SHARED_CLASS 0
void shares_begin(void);
void shares_step(uint64_t *random);
bool shares_are_covered(void);

/* A line about deliveries; after a death, of all that came: is each whole? */
void told_step(uint64_t *random);
bool told_is_whole(void);

#endif
