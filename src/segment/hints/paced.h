/* SPDX-License-Identifier: ISC */
/*
 * Destinations whose mail waits for tokens of its pace (DESIGN section 16), and which messages
 * may go: the feed process takes the tokens, and the keeper's thread carries what it says to the
 * hints file.  Words of one writer each; any role can write others, which is no more than a
 * message too many or too few.
 */
#ifndef SEGMENT_PACED_H
#define SEGMENT_PACED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/siphash.h"
#include "segment/file/layout.h"

struct segment;

/* Without a sign of life for so long, nothing waits. */
#define PACED_BEAT_NS	(INT64_C(10) * 1000 * 1000 * 1000)

/* Owners are lane_uses_hash of the window's name.  The feed's: mail of it waits from now on; NULL:
 * no room. */
struct paced_slot *paced_begin(struct segment *segment, uint64_t owner, int64_t now_ns);
/* It still waits; now_ns 0: not any more. */
void paced_beat(struct paced_slot *slot, int64_t now_ns);
/* Lets one message go (a word of hints_pass_add); the number of its pass. */
int64_t paced_pass(struct segment *segment, struct paced_slot *slot, uint64_t word, int64_t now_ns);
/* Does the hints file have it? */
bool paced_is_written(const struct paced_slot *slot, int64_t pass);

/* Any process: the slot of an owner whose mail waits, or NULL. */
struct paced_slot *paced_find(const struct segment *segment, uint64_t owner, int64_t now_ns);
/* The keeper's: the next pass with a greater number than *after; false: there is none. */
bool paced_next(const struct paced_slot *slot, int64_t now_ns, int64_t *after, uint32_t *number,
    uint64_t *word);
/* All up to this one are in the file. */
void paced_written(struct paced_slot *slot, int64_t pass);

/* Of addresses in passes. */
struct siphash_key paced_key(const struct segment *segment);

#endif
