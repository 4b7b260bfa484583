/* SPDX-License-Identifier: ISC */
/*
 * Destinations of one message over places that are delivered side by side: each has one of
 * its own as long as there are any.  The first needs none, so that a message with one
 * destination stays where all of these are; further ones are put where the same destination
 * is put in other messages, too, unless that place is taken.
 */
#ifndef POLICY_SPREAD_H
#define POLICY_SPREAD_H

#include <stdint.h>

#define SPREAD_MOST	64u	/* destinations that are remembered; others share places */

/* Zeros: none yet. */
struct spread {
	uint32_t count;
	uint32_t places[SPREAD_MOST];
	uint64_t keys[SPREAD_MOST];
};

/* Of the destination with this hash: 0 for the first one, else 1 to `places` (0 where there are
 * none); the same again for the same. */
uint32_t spread_place(struct spread *spread, uint64_t key, uint32_t places);

#endif
