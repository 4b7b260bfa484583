/* SPDX-License-Identifier: ISC */
/*
 * Quotas: so many recipients, messages or KiB in a time, "500/1d": never more than 500 in
 * any 24 hours, wherever these begin.
 *
 * The law: time is cut into twelfths of the period.  What was counted in the twelfth that runs
 * and in the 12 before it counts whole.  So an event counts for the period at least and for
 * 13/12 of it at most: the error is to the safe side, and never more than 1/12 of the period.
 *
 * A counter is told from others by what it counts and by its period, not by a limit: limits
 * change by a reload, counts stay.  Times are of one monotonic clock.  Pure; the caller holds
 * whatever makes the counters stand still.
 */
#ifndef POLICY_LIMIT_QUOTA_H
#define POLICY_LIMIT_QUOTA_H

#include <stdbool.h>
#include <stdint.h>

#define QUOTA_PARTS		12
#define QUOTA_BUCKETS		(QUOTA_PARTS + 1)
#define QUOTA_PERIOD_LEAST_S	60
#define QUOTA_PERIOD_MOST_S	(31 * 86400)	/* below 1 << 28; its milliseconds fit 32 bits */
#define QUOTA_MOST		(UINT32_C(1) << 30)	/* of a limit: sums do not overflow */

enum quota_kind { QUOTA_RECIPIENTS, QUOTA_MESSAGES, QUOTA_KIB, QUOTA_KINDS };

/* Never more than `most` of a kind in any period; period_s is between the bounds above. */
struct quota_limit {
	uint32_t period_s;
	uint32_t most;
	uint32_t kind;		/* enum quota_kind */
};

/* A cache line. */
struct quota_counter {
	uint32_t key;		/* quota_key of its limits; 0: free */
	uint32_t part;		/* number of the newest twelfth, since the clock began */
	uint32_t buckets[QUOTA_BUCKETS];	/* of twelfth n at n % QUOTA_BUCKETS */
	uint32_t phase_ms;	/* twelfths begin so much earlier than the clock says: below one */
};
_Static_assert(sizeof(struct quota_counter) == 64, "a cache line");

static inline uint32_t quota_key(const struct quota_limit *limit) {
	return (limit->kind + 1) << 28 | limit->period_s;
}

/* --- one counter ------------------------------------------------------------- */

/* What counts at now_ns; 0 of a free one. */
uint64_t quota_used(const struct quota_counter *counter, int64_t now_ns);

/* Nanoseconds until `amount` more are within `most`; 0: now; INT64_MAX: never, as amount is
 * above most. */
int64_t quota_wait_ns(const struct quota_counter *counter, uint32_t most, uint32_t amount,
    int64_t now_ns);

void quota_add(struct quota_counter *counter, uint32_t amount, int64_t now_ns);

/* Takes off what was added at or after since_ns, from the oldest twelfth that it can have
 * been added to: so that no other event stops to count too early.  Nothing where since_ns is so
 * long ago that some of it may not count any more. */
void quota_take_off(struct quota_counter *counter, uint32_t amount, int64_t since_ns,
    int64_t now_ns);

/* When its newest twelfth ends: what the numbers of twelfths say, for another clock. */
int64_t quota_end_ns(const struct quota_counter *counter);

/* Makes a counter of these buckets, the newest first, whose newest twelfth ends at end_ns: what
 * was counted by another clock goes on to count for as long as it would have.  An end further
 * ahead than a twelfth is none of ours: then it ends a twelfth from now. */
void quota_restore(struct quota_counter *counter, uint32_t key,
    const uint32_t buckets[QUOTA_BUCKETS], int64_t end_ns, int64_t now_ns);

/* --- all counters of one account ----------------------------------------------- */

/* Amounts of each kind. */
struct quota_amounts {
	uint32_t of[QUOTA_KINDS];
};

/* Gives each limit a counter, where it has none: a free one, or one that no limit names any
 * more.  False: there are too few. */
bool quota_prepare(struct quota_counter counters[], unsigned counter_count,
    const struct quota_limit limits[], unsigned limit_count);

/* The limit's, or NULL. */
struct quota_counter *quota_find(struct quota_counter counters[], unsigned counter_count,
    const struct quota_limit *limit);

/* Which limit is in the way longest, and how it fares. */
struct quota_refusal {
	unsigned limit;		/* its number */
	uint64_t used;
	int64_t wait_ns;	/* INT64_MAX: such an amount is never within it */
};

/* Are all limits kept with so much more?  An amount of 0 is asked about nothing.  Limits
 * without a counter limit nothing.  Changes nothing: whoever is told yes adds what it wants
 * counted, all of it, by quota_charge. */
bool quota_allows(struct quota_counter counters[], unsigned counter_count,
    const struct quota_limit limits[], unsigned limit_count,
    const struct quota_amounts *amounts, int64_t now_ns, struct quota_refusal *refusal);

/* Does none of them count anything? */
bool quota_is_idle(const struct quota_counter counters[], unsigned counter_count, int64_t now_ns);

/* Tells which counters these are, never 0: another value when a limit is added or taken away. */
uint32_t quota_set_mark(const struct quota_counter counters[], unsigned counter_count);

/* To every counter of a kind that has an amount. */
void quota_charge(struct quota_counter counters[], unsigned counter_count,
    const struct quota_amounts *amounts, int64_t now_ns);
void quota_give_back(struct quota_counter counters[], unsigned counter_count,
    const struct quota_amounts *amounts, int64_t since_ns, int64_t now_ns);

/* Nanoseconds until no counter is above half of a limit that it has; 0: none is now. */
int64_t quota_half_ns(struct quota_counter counters[], unsigned counter_count,
    const struct quota_limit limits[], unsigned limit_count, int64_t now_ns);

#endif
