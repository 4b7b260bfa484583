/* SPDX-License-Identifier: ISC */
/*
 * Levels rebuilt from a log (level.h).
 *
 * Model: a sweep over starts.  entries[0, active) had their verdicts, were accepted and
 * may still have been in flight at the next start, in no order; entries[head, end) wait,
 * by start (of equal ones, the first that was read first).  What is between is free, and
 * is closed up when the end is reached.
 * Errors: none.  Threads: no state.
 */
#include "policy/level.h"

#define MS			INT64_C(1000000)
#define SECOND			(1000 * MS)
#define WAIT_LEAST_NS		(50 * MS)
#define WAIT_FIRST_NS		(10 * SECOND)	/* before any delivery has ended */
#define WAIT_MOST_NS		(120 * SECOND)
#define TIME_MOST		(INT64_MAX / 4)
#define NEVER_NS		(-TIME_MOST - 1)

int64_t level_slack(int64_t delay_ms)
{
	int64_t half_ms = 5;	/* two decimals */

	for (int64_t least = 1000; delay_ms >= least && half_ms < INT64_MAX / 100;
	     least *= 10) {
		half_ms *= 10;
		if (least > INT64_MAX / 10)
			break;
	}
	return half_ms > INT64_MAX / MS ? INT64_MAX : half_ms * MS;
}

void level_begin(struct level *level, struct level_entry *entries, uint32_t capacity)
{
	*level = (struct level){ .entries = entries, .capacity = capacity,
		.swept_ns = NEVER_NS, .lost_ns = NEVER_NS };
}

/* Where the next one would stand, with those that wait moved down to the active. */
static void close_up(struct level *level)
{
	uint32_t at = level->active;

	for (uint32_t i = level->head; i < level->end; i++)
		level->entries[at++] = level->entries[i];
	level->head = level->active;
	level->end = at;
}

void level_move(struct level *level, struct level_entry *entries, uint32_t capacity)
{
	close_up(level);
	for (uint32_t i = 0; i < level->end; i++)
		entries[i] = level->entries[i];
	level->entries = entries;
	level->capacity = capacity;
}

/* A wrong clock may tell anything; within this, sums of two stay within the type. */
static int64_t sane(int64_t time_ns)
{
	return time_ns > TIME_MOST ? TIME_MOST : time_ns < -TIME_MOST ? -TIME_MOST : time_ns;
}

/* At most a quarter up for each above, 1/128 down for each below: with the quarter that
 * the wait adds, 29 of 30 are below. */
static int64_t follow(int64_t quantile, int64_t seen)
{
	if (seen > WAIT_MOST_NS)
		seen = WAIT_MOST_NS;
	if (quantile == 0)
		return seen > 0 ? seen : 1;
	if (seen <= quantile)
		return quantile - quantile / 128;
	quantile += quantile / 4 + MS;
	return quantile < seen ? quantile : seen;
}

static int64_t wait_ns(const struct level *level)
{
	if (level->longest_ns == 0)
		return WAIT_FIRST_NS + level->latest_ns;
	return level->longest_ns + level->longest_ns / 4 + level->latest_ns +
	    WAIT_LEAST_NS;
}

/* For those that are read too late: how far behind the swept time all is kept. */
static int64_t keep_ns(const struct level *level)
{
	return level->longest_ns < 4 * SECOND ? level->longest_ns / 4 : SECOND;
}

/* --- in ----------------------------------------------------------------------- */

/* Forgets the active that ended long before the swept time. */
static void forget(struct level *level)
{
	int64_t before_ns = level->swept_ns - keep_ns(level);

	for (uint32_t i = 0; i < level->active;)
		if (level->entries[i].end_ns >= before_ns)
			i++;
		else
			level->entries[i] = level->entries[--level->active];
}

static bool make_room(struct level *level)
{
	if (level->end < level->capacity)
		return true;
	forget(level);
	close_up(level);
	return level->end < level->capacity;
}

bool level_add(struct level *level, const struct level_attempt *attempt, int64_t now_ns)
{
	int64_t read_ns = sane(now_ns);
	int64_t end_ns = sane(attempt->end_ns < read_ns ? attempt->end_ns : read_ns);
	int64_t start_ns = sane(attempt->start_ns < end_ns ? attempt->start_ns : end_ns);
	int64_t slack_us = attempt->slack_ns > 0 ? attempt->slack_ns / 1000 : 0;
	uint32_t at;

	level->latest_ns = follow(level->latest_ns, read_ns - end_ns);
	if (attempt->accepted)
		level->longest_ns = follow(level->longest_ns, end_ns - start_ns);
	if (!make_room(level)) {
		level->lost++;
		if (attempt->accepted && end_ns > level->lost_ns)
			level->lost_ns = end_ns;
		return false;
	}
	for (at = level->end; at > level->head &&
	     level->entries[at - 1].start_ns > start_ns; at--)
		level->entries[at] = level->entries[at - 1];
	level->entries[at] = (struct level_entry){
		.start_ns = start_ns,
		.end_ns = end_ns,
		.tag = attempt->tag,
		.slack_us = slack_us < UINT32_MAX ? (uint32_t)slack_us : UINT32_MAX,
		.accepted = attempt->accepted,
	};
	level->end++;
	return true;
}

/* --- out ---------------------------------------------------------------------- */

static int64_t slack_ns(const struct level_entry *entry)
{
	return (int64_t)entry->slack_us * 1000;
}

/* Was `other` in flight when `entry` started?  One that ended just about then made the
 * room for it; of one that began just about then, an accepted entry does not boast. */
static bool covers(const struct level_entry *other, const struct level_entry *entry)
{
	int64_t slack = slack_ns(entry), both = slack + slack_ns(other);

	return other->end_ns > entry->start_ns + slack &&
	    other->start_ns + (entry->accepted ? both : -both) <= entry->start_ns;
}

/* Counts, and forgets on the way. */
static uint32_t count_level(struct level *level, const struct level_entry *entry)
{
	int64_t swept_ns = entry->start_ns > level->swept_ns ? entry->start_ns : level->swept_ns;
	int64_t before_ns = swept_ns - keep_ns(level);
	uint32_t count = 1;

	for (uint32_t i = 0; i < level->active;) {
		const struct level_entry *other = &level->entries[i];

		if (other->end_ns >= before_ns) {
			count += covers(other, entry);
			i++;
		} else {
			level->entries[i] = level->entries[--level->active];
		}
	}
	if (entry->accepted)
		return count;
	/* Those behind it that may have started before it. */
	for (uint32_t i = level->head; i < level->end; i++) {
		const struct level_entry *other = &level->entries[i];

		if (other->start_ns - SECOND - slack_ns(entry) > entry->start_ns)
			break;
		if (other->accepted)
			count += covers(other, entry);
	}
	return count;
}

static uint32_t judge(struct level *level, const struct level_entry *entry)
{
	if (entry->start_ns < level->swept_ns - keep_ns(level))
		return 0;
	if (!entry->accepted && entry->start_ns <= level->lost_ns)
		return 0;
	return count_level(level, entry);
}

bool level_next(struct level *level, int64_t now_ns, struct level_verdict *out)
{
	struct level_entry entry;

	if (level->head == level->end || level_due_ns(level) > now_ns)
		return false;
	entry = level->entries[level->head++];
	*out = (struct level_verdict){ .tag = entry.tag, .start_ns = entry.start_ns,
		.level = judge(level, &entry), .accepted = entry.accepted };
	if (entry.start_ns > level->swept_ns)
		level->swept_ns = entry.start_ns;
	if (entry.accepted && entry.end_ns >= level->swept_ns - keep_ns(level))
		level->entries[level->active++] = entry;
	return true;
}

int64_t level_due_ns(const struct level *level)
{
	return level->head == level->end ? INT64_MAX :
	    level->entries[level->head].start_ns + wait_ns(level);
}

uint32_t level_in_flight(const struct level *level, int64_t at_ns)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < level->active; i++)
		count += level->entries[i].start_ns <= at_ns &&
		    level->entries[i].end_ns > at_ns;
	for (uint32_t i = level->head; i < level->end; i++)
		count += level->entries[i].accepted &&
		    level->entries[i].start_ns <= at_ns &&
		    level->entries[i].end_ns > at_ns;
	return count;
}
