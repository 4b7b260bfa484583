/* SPDX-License-Identifier: ISC */
/*
 * The last reason of destinations: texts in a bounded arena beside each shard, of which
 * a destination holds one at most by a number (0: none).  One that is full takes a
 * place from some destination that is open (counted); its number then leads
 * nowhere, and says so.  For segment/ only.
 */
#ifndef SEGMENT_REASONS_H
#define SEGMENT_REASONS_H

#include "segment/destination/learned.h"

/* --- under the mutex of the destinations' shard -------------------------------- */

/* The number of a new text (NULL: that of `now`) and event (0: that of `now`) for the slot;
 * `now` stays what it is until reasons_free.  Returns `now` where the text is the same, 0 for
 * an empty text without an event. */
uint32_t reasons_put(const struct learned *table, uint32_t shard, uint32_t slot,
    uint32_t now, const char *text, uint64_t event);
void reasons_free(const struct learned *table, uint32_t shard, uint32_t slot,
    uint32_t number);
/* Gives back what no slot refers to. */
void reasons_repair(const struct learned *table, uint32_t shard);

/* The same after learned_scrub, for a file that anybody may have written. */
void reasons_scrub(const struct learned *table, uint32_t shard);

/* --- no lock -------------------------------------------------------------------- */

void reasons_get(const struct segment_header *header, uint32_t shard, uint32_t slot,
    uint32_t number, char out[SEGMENT_REASON_MAX + 1], uint64_t *event);

#endif
