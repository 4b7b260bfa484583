/* SPDX-License-Identifier: ISC */
/*
 * Rates of session opens: a token bucket, kept as the generic cell rate
 * algorithm (ITU-T I.371), whose whole state is one time: the theoretical arrival
 * time.  "60/1m" fills one token a second into a bucket of 60, or of `burst`: so
 * many may come at once after a quiet time, one a second for ever after; never
 * more than burst + 60 in any minute.
 *
 * An event each period/count is never refused (exactly so while count^2 <=
 * period_ns: "30000/1s", "240000/1m"; above, the rate is rounded down by less
 * than count/period_ns of itself).
 */
#ifndef POLICY_RATE_H
#define POLICY_RATE_H

#include <stdbool.h>
#include <stdint.h>

/* `count` events in `period_ns`; count 0 or period_ns <= 0 means no limit. */
struct rate_limit {
	int64_t period_ns;
	uint32_t count;
	uint32_t burst;		/* size of the bucket; 0: count */
};

/* How many events may come at once after a quiet time. */
static inline uint32_t rate_burst(const struct rate_limit *limit) {
	return limit->burst != 0 ? limit->burst : limit->count;
}

/* Would an event at now_ns be within the limit?  tat_ns 0: never seen.  A tat
 * that lies more than two bursts and a second ahead cannot come from this limit
 * (it was changed by a reload): it counts as never seen. */
bool rate_allows(const struct rate_limit *limit, int64_t tat_ns, int64_t now_ns);

/* The state after an event at now_ns that was let in.  One that rate_allows would
 * not allow (let in by observe) changes nothing: so what is observed is what
 * enforcement would do. */
int64_t rate_after(const struct rate_limit *limit, int64_t tat_ns, int64_t now_ns);

/* Nanoseconds until rate_allows will say yes; 0: now. */
int64_t rate_wait_ns(const struct rate_limit *limit, int64_t tat_ns, int64_t now_ns);

/* How many events of the past still weigh, as a number to show beside the burst:
 * an event is refused while this is >= rate_burst. */
uint32_t rate_count(const struct rate_limit *limit, int64_t tat_ns, int64_t now_ns);

#endif
