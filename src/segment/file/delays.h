/* SPDX-License-Identifier: ISC */
/*
 * How long mail took, for metrics: from a message's arrival to its delivery, by provider; and
 * since when the oldest waits that Postern keeps.  Written by the process that feeds, without a
 * lock; whoever reads takes what is there.
 */
#ifndef SEGMENT_DELAYS_H
#define SEGMENT_DELAYS_H

#include <stdbool.h>

#include "config/generation/generation.h"
#include "segment/file/layout.h"

struct segment;

/* The longest delay of each bucket but the last, which has no end: 1 s ... 1 week. */
extern const int64_t delay_bounds_s[DELAY_BUCKETS - 1];

/* Where a provider's mail is counted: 0 for that of no provider, of those that have no row of
 * their own (the first 63 have one), and of one whose name is DELAY_OTHER. */
#define DELAY_OTHER	"other"
uint32_t delay_row(const struct generation *generation, uint32_t provider);

/* Rows are of this generation from now on: one whose provider is another begins at zero. */
void delays_take_up(struct segment *segment, const struct generation *generation);

/* One more; ms of 0 or more. */
void delay_note(struct segment *segment, uint32_t row, int64_t ms);

struct delays {
	uint64_t buckets[DELAY_BUCKETS];
	uint64_t count;			/* of all of them */
	uint64_t sum_ms;
};
/* Of a row, which is to be of this provider (row 0: DELAY_OTHER).  False: it is of another, or
 * nobody's yet; *out is zero then. */
bool delays_read(const struct segment *segment, uint32_t row, const char *provider,
    struct delays *out);

/* --- what waits ------------------------------------------------------------------------ */

/* "pace", "warm-up", "window" */
const char *waiting_word(enum waiting_kind kind);

/* When the oldest arrived, on the clock of the boot and maybe before it; 0: nothing waits. */
void waiting_note(struct segment *segment, enum waiting_kind kind, int64_t arrival_ns);
/* Its age; 0: nothing waits. */
int64_t waiting_age_ns(const struct segment *segment, enum waiting_kind kind, int64_t now_ns);

#endif
