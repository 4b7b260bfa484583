/* SPDX-License-Identifier: ISC */
/* At what level a message went to a destination: a table without locks, in which an old
 * entry makes room for a new one.  For flights.c only.  Any thread. */
#ifndef SEGMENT_DESTINATION_FLIGHTS_INTERNAL_H
#define SEGMENT_DESTINATION_FLIGHTS_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "segment/destination/flights.h"
#include "segment/file/internal.h"

/* Never 0. */
uint64_t attempts_key(const struct segment *segment, uint64_t queue_hash,
    uint64_t destination_hash);
void attempts_put(struct segment *segment, uint64_t key,
    const struct flight_attempt *attempt, int64_t now_ns);
/* Its process went on: 60 s more. */
void attempts_end(struct segment *segment, uint64_t key, int64_t now_ns);
/* Fills all but queue_hash. */
bool attempts_find(const struct segment *segment, uint64_t key, int64_t now_ns,
    struct flight_attempt *out);

#endif
