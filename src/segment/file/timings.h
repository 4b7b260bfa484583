/* SPDX-License-Identifier: ISC */
/*
 * How long questions took, as a histogram of each role and kind of question: from when the
 * bytes of a question were there to be read until its answer stood.  Written without a
 * lock, in the place of the role alone; the sums over all roles never fall, whoever dies,
 * but with the segment.
 */
#ifndef SEGMENT_TIMINGS_H
#define SEGMENT_TIMINGS_H

#include <stdint.h>

#include "segment/file/layout.h"

/* The longest time of each bucket but the last, which has no end: 1, 2, 5, 10 us ... 1 s. */
extern const int64_t timing_bounds_ns[TIMING_BUCKETS - 1];

/* The bucket of a time; below 0 is 0. */
unsigned timing_bucket(int64_t ns);

/* So many more, which took `ns` together: each counts as their mean.  Any thread. */
void timing_note(struct timing_record *record, int64_t ns, unsigned count);

/* "policy" ... */
const char *timing_word(enum timing_kind kind);

#endif
