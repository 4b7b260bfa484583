/* SPDX-License-Identifier: ISC */
/*
 * Rates of session opens (rate.h).
 *
 * Model: an event takes `interval` of the line's time; the theoretical arrival
 * time (tat) is when the line will be free.  An event conforms while the line is
 * not taken for more than the other intervals of a burst.  Errors: a limit
 * without period or count limits nothing.  Threads: no state.
 */
#include "policy/limit/rate.h"

/* Clocks of two processes that took the same lock may differ by this much
 * (readings taken before waiting for it). */
#define CLOCK_SLACK_NS	INT64_C(1000000000)

/* Periods and bursts above this (about 36 years) are cut, so that no sum
 * overflows. */
#define PERIOD_MAX_NS	(INT64_C(1) << 60)

struct line {
	int64_t interval;	/* of one event; 0: no limit */
	int64_t burst;		/* how far ahead tat may be for an event to conform */
};

/* The interval is rounded so that both promises of the header stand: down, and
 * an event every period/count is never refused; where that would let more than
 * count more than a burst into a period (count events of less than count ns
 * each), up. */
static struct line line_of(const struct rate_limit *limit) {
	struct line line = { 0, 0 };
	int64_t period = limit->period_ns;
	int64_t count = limit->count;

	if (count == 0 || period <= 0)
		return line;
	if (period > PERIOD_MAX_NS)
		period = PERIOD_MAX_NS;
	line.interval = period / count;
	if (line.interval < count && period % count != 0)
		line.interval++;
	if (__builtin_mul_overflow(line.interval,
	    (int64_t)rate_burst(limit) - 1, &line.burst) ||
	    line.burst > PERIOD_MAX_NS)
		line.burst = PERIOD_MAX_NS;
	return line;
}

/* How far ahead of now the line is taken, 0 at least.  Further than this limit
 * could have taken it (the limit was changed, or the state is of another clock):
 * as if never seen, for a far tat would refuse for as long. */
static int64_t taken_ns(const struct line *line, int64_t tat_ns, int64_t now_ns) {
	int64_t ahead;

	if (tat_ns <= now_ns)
		return 0;
	if (__builtin_sub_overflow(tat_ns, now_ns, &ahead) ||
	    ahead > 2 * (line->burst + line->interval) + CLOCK_SLACK_NS)
		return 0;
	return ahead;
}

bool rate_allows(const struct rate_limit *limit, int64_t tat_ns, int64_t now_ns) {
	return rate_wait_ns(limit, tat_ns, now_ns) == 0;
}

int64_t rate_after(const struct rate_limit *limit, int64_t tat_ns, int64_t now_ns) {
	struct line line = line_of(limit);
	int64_t taken, after;

	if (line.interval == 0)
		return tat_ns;
	taken = taken_ns(&line, tat_ns, now_ns);
	if (taken > line.burst)
		return tat_ns;
	if (__builtin_add_overflow(now_ns, taken + line.interval, &after))
		return INT64_MAX;
	return after;
}

int64_t rate_wait_ns(const struct rate_limit *limit, int64_t tat_ns, int64_t now_ns) {
	struct line line = line_of(limit);
	int64_t taken;

	if (line.interval == 0)
		return 0;
	taken = taken_ns(&line, tat_ns, now_ns);
	return taken > line.burst ? taken - line.burst : 0;
}

uint32_t rate_count(const struct rate_limit *limit, int64_t tat_ns, int64_t now_ns) {
	struct line line = line_of(limit);
	int64_t taken, count;

	if (line.interval == 0)
		return 0;
	taken = taken_ns(&line, tat_ns, now_ns);
	count = taken / line.interval + (taken % line.interval != 0);
	return count > UINT32_MAX ? UINT32_MAX : (uint32_t)count;
}
