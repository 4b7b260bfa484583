/* SPDX-License-Identifier: ISC */
/*
 * Levels rebuilt from a log (level.h).
 *
 * Model: a sweep over starts.  entries[head, end) wait, by start (of equal ones, the first
 * that was read first).  One whose verdict was told stays where it is, as long as its
 * start may be in doubt beside the next one's; then it is put among the active, by end,
 * where a search counts those that are in flight.  What is between is free, and is closed
 * up when the end is reached.  Verdicts that come out of order, or of starts in much doubt
 * (deliveries of more than 10 s), look at every entry.
 * Errors: none.  Threads: no state.
 */
#include "policy/window/level.h"

#include <string.h>

#define MS			INT64_C(1000000)
#define SECOND			(1000 * MS)
#define WAIT_LEAST_NS		(50 * MS)
#define WAIT_FIRST_NS		(10 * SECOND)	/* before any delivery has ended */
#define WAIT_MOST_NS		(120 * SECOND)
#define FINE_NS			(150 * MS)	/* most slack that is not much */
#define TIME_MOST		(INT64_MAX / 4)
#define NEVER_NS		(-TIME_MOST - 1)
#define RUNNING_NS		(50 * MS)

int64_t level_slack(int64_t delay_ms) {
	int64_t half_ms = 5;	/* two decimals */

	for (int64_t least = 1000; delay_ms >= least && half_ms < INT64_MAX / 100;
	     least *= 10) {
		half_ms *= 10;
		if (least > INT64_MAX / 10)
			break;
	}
	return half_ms > INT64_MAX / MS ? INT64_MAX : half_ms * MS;
}

void level_begin(struct level *level, struct level_entry *entries, uint32_t capacity) {
	*level = (struct level){ .entries = entries, .capacity = capacity,
		.swept_ns = NEVER_NS, .coarse_ns = NEVER_NS, .kept_ns = NEVER_NS,
		.lost_ns = NEVER_NS };
}

/* A wrong clock may tell anything; within this, sums of two stay within the type. */
static int64_t sane(int64_t time_ns) {
	return time_ns > TIME_MOST ? TIME_MOST : time_ns < -TIME_MOST ? -TIME_MOST : time_ns;
}

int64_t level_given_ns(int64_t start_ns, int64_t slack_ns, int64_t waited_ms) {
	if (waited_ms < 0 || waited_ms > TIME_MOST / MS)
		return 0;
	return sane(start_ns) - sane(slack_ns) - sane(level_slack(waited_ms)) - waited_ms * MS;
}

bool level_began(const struct delivery *delivery, int64_t end_ns, int64_t *start_ns,
    int64_t *slack_ns) {
	int64_t connecting_ms = delivery->delays_ms[2], took_ms = delivery->delays_ms[3];

	if (took_ms == DELIVERY_MS_UNKNOWN)
		return false;
	*slack_ns += delivery->source == DELIVERY_OF_SENDMAIL ? SECOND : level_slack(took_ms);
	if (connecting_ms > 0) {
		*slack_ns += level_slack(connecting_ms);
		took_ms += connecting_ms;
	}
	if (took_ms >= INT64_MAX / MS / 2)
		return false;
	*start_ns = end_ns - took_ms * MS;
	return true;
}

bool level_was_told(struct level_told *told, uint64_t queue, int64_t start_ns, int64_t slack_ns,
    uint8_t weight) {
	for (unsigned i = 0; i < LEVEL_TOLD && queue != 0; i++) {
		int64_t apart_ns = told->recent[i].start_ns - start_ns;

		if (told->recent[i].queue != queue ||
		    (apart_ns < 0 ? -apart_ns : apart_ns) > slack_ns)
			continue;
		if (told->recent[i].weight >= weight)
			return true;
		told->recent[i].weight = weight;
		return false;
	}
	told->recent[told->next].queue = queue;
	told->recent[told->next].start_ns = start_ns;
	told->recent[told->next].weight = weight;
	told->next = (uint8_t)((told->next + 1) % LEVEL_TOLD);
	return false;
}

/* At most a quarter up for each above, 1/128 down for each below: with the quarter that
 * the wait adds, 29 of 30 are below. */
static int64_t follow(int64_t quantile, int64_t seen) {
	if (seen > WAIT_MOST_NS)
		seen = WAIT_MOST_NS;
	if (quantile == 0)
		return seen > 0 ? seen : 1;
	if (seen <= quantile)
		return quantile - quantile / 128;
	quantile += quantile / 4 + MS;
	return quantile < seen ? quantile : seen;
}

static int64_t wait_ns(const struct level *level) {
	if (level->longest_ns == 0)
		return WAIT_FIRST_NS + level->latest_ns;
	return level->longest_ns + level->longest_ns / 4 + level->latest_ns +
	    WAIT_LEAST_NS;
}

/* For those that are read too late: how far behind the swept time all is kept. */
static int64_t keep_ns(const struct level *level) {
	return level->longest_ns < 4 * SECOND ? level->longest_ns / 4 : SECOND;
}

static int64_t slack_ns(const struct level_entry *entry) {
	return (int64_t)entry->slack_us * 1000;
}

/* --- the memory --------------------------------------------------------------- */

/* The first of entries[from, to), which are by end, that ended after a time. */
static uint32_t first_after(const struct level *level, uint32_t from, uint32_t to,
    int64_t time_ns) {
	while (from < to) {
		uint32_t middle = from + (to - from) / 2;

		if (level->entries[middle].end_ns > time_ns)
			to = middle;
		else
			from = middle + 1;
	}
	return from;
}

/* The first of those that wait which started after a time. */
static uint32_t first_started_after(const struct level *level, int64_t start_ns) {
	uint32_t from = level->head, to = level->end;

	if (from == to || level->entries[to - 1].start_ns <= start_ns)
		return to;
	while (from < to) {
		uint32_t middle = from + (to - from) / 2;

		if (level->entries[middle].start_ns > start_ns)
			to = middle;
		else
			from = middle + 1;
	}
	return from;
}

static void shift(struct level_entry *entries, uint32_t from, uint32_t to) {
	memmove(&entries[from + 1], &entries[from], (to - from) * sizeof(*entries));
}

/* Forgets the active that ended before a time. */
static void forget(struct level *level, int64_t before_ns) {
	while (level->gone < level->active &&
	    level->entries[level->gone].end_ns < before_ns)
		level->gone++;
	if (level->gone == level->active)
		level->gone = level->active = 0;
}

/* All that counts to other memory, or down to the begin of this. */
static void move_to(struct level *level, struct level_entry *entries) {
	int64_t before_ns = level->swept_ns - keep_ns(level);
	uint32_t count = level->active - level->gone, at = count;

	memmove(entries, &level->entries[level->gone], count * sizeof(*entries));
	for (uint32_t i = level->recent; i < level->head; i++)
		if (level->entries[i].accepted && level->entries[i].end_ns >= before_ns)
			entries[at++] = level->entries[i];
	level->recent = count;
	count = level->end - level->head;
	memmove(&entries[at], &level->entries[level->head], count * sizeof(*entries));
	level->gone = 0;
	level->active = level->recent;
	level->head = at;
	level->end = at + count;
	level->entries = entries;
}

void level_move(struct level *level, struct level_entry *entries, uint32_t capacity) {
	move_to(level, entries);
	level->capacity = capacity;
}

/* Time passes, though no verdict may be due for long: all that began before has one. */
static void sweep(struct level *level, int64_t now_ns) {
	int64_t swept_ns = now_ns - wait_ns(level);

	if (level->head < level->end && level->entries[level->head].start_ns < swept_ns)
		swept_ns = level->entries[level->head].start_ns;
	if (swept_ns > level->swept_ns)
		level->swept_ns = swept_ns;
}

static bool make_room(struct level *level, int64_t now_ns) {
	/* at first what no verdict needs; then what only those would that come late */
	for (int i = 0; i < 2 && level->end == level->capacity; i++) {
		if (i > 0)
			sweep(level, now_ns);
		forget(level, level->swept_ns - keep_ns(level));
		move_to(level, level->entries);
	}
	return level->end < level->capacity;
}

/* --- in ----------------------------------------------------------------------- */

bool level_add(struct level *level, const struct level_attempt *attempt, int64_t now_ns) {
	int64_t read_ns = sane(now_ns);
	int64_t end_ns = sane(attempt->end_ns < read_ns ? attempt->end_ns : read_ns);
	int64_t start_ns = sane(attempt->start_ns < end_ns ? attempt->start_ns : end_ns);
	int64_t slack_us = attempt->slack_ns > 0 ? attempt->slack_ns / 1000 : 0;
	uint32_t at;

	level->latest_ns = follow(level->latest_ns, read_ns - end_ns);
	if (attempt->accepted)
		level->longest_ns = follow(level->longest_ns, end_ns - start_ns);
	if (!make_room(level, read_ns)) {
		level->lost++;
		if (attempt->accepted && end_ns > level->lost_ns)
			level->lost_ns = end_ns;
		return false;
	}
	at = first_started_after(level, start_ns);
	shift(level->entries, at, level->end++);
	level->entries[at] = (struct level_entry){
		.start_ns = start_ns,
		.end_ns = end_ns,
		.tag = attempt->tag,
		.slack_us = slack_us < UINT32_MAX ? (uint32_t)slack_us : UINT32_MAX,
		.accepted = attempt->accepted,
		.kept = attempt->kept,
	};
	if (attempt->kept && attempt->accepted && end_ns + LEVEL_KEPT_NS > level->kept_ns)
		level->kept_ns = end_ns + LEVEL_KEPT_NS;
	if (slack_ns(&level->entries[at]) > FINE_NS && start_ns > level->coarse_ns)
		level->coarse_ns = start_ns;
	return true;
}

/* --- out ---------------------------------------------------------------------- */

/* Was `other` in flight when `entry` started?  One that ended just about then made the
 * room for it; of one that began just about then, an accepted entry does not boast. */
static bool covers(const struct level_entry *other, const struct level_entry *entry) {
	int64_t slack = slack_ns(entry), both = slack + slack_ns(other);

	return other->end_ns > entry->start_ns + slack &&
	    other->start_ns + (entry->accepted ? both : -both) <= entry->start_ns;
}

static uint32_t count_covering(const struct level *level, uint32_t from, uint32_t to,
    const struct level_entry *entry) {
	uint32_t count = 0;

	for (uint32_t i = from; i < to; i++)
		count += level->entries[i].accepted && covers(&level->entries[i], entry);
	return count;
}

/* --- connections that are kept ---------------------------------------------------- */

/* Moves on to the span of a time; false: it is of one before. */
static bool turn_peak(struct level *level, int64_t time_ns) {
	int64_t span = time_ns / LEVEL_KEPT_NS;

	if (span < level->peak_span)
		return false;
	if (span > level->peak_span) {
		level->peak[1] = span == level->peak_span + 1 ? level->peak[0] : 0;
		level->peak[0] = 0;
		level->peak_span = span;
	}
	return true;
}

/* Notes how many at most were in flight when the entry at level->head started. */
static void note_peak(struct level *level) {
	const struct level_entry *entry = &level->entries[level->head];
	int64_t at_ns = entry->start_ns + slack_ns(entry);
	uint32_t count = 1 + level->active - first_after(level, level->gone, level->active, at_ns);

	if (level->kept_ns == NEVER_NS || !entry->accepted || !turn_peak(level, entry->start_ns))
		return;
	for (uint32_t i = level->recent; i < level->head; i++)
		count += level->entries[i].accepted && level->entries[i].end_ns > at_ns;
	if (count > level->peak[0])
		level->peak[0] = count;
}

/* Who was refused may have been so by all connections that were in use of late. */
static uint32_t most_level(struct level *level, const struct level_entry *entry, uint32_t known) {
	uint32_t most;

	if (entry->accepted || known == 0 || entry->start_ns > level->kept_ns)
		return known;
	(void)turn_peak(level, entry->start_ns);
	most = 1 + (level->peak[0] > level->peak[1] ? level->peak[0] : level->peak[1]);
	return most > known ? most : known;
}

/* --- verdicts ----------------------------------------------------------------------- */

/* Those whose starts are in no doubt beside this one, and later ones, to the active. */
static void settle(struct level *level, int64_t start_ns, int64_t before_ns) {
	for (; level->recent < level->head; level->recent++) {
		struct level_entry entry = level->entries[level->recent];
		uint32_t at;

		if (entry.accepted && entry.start_ns + slack_ns(&entry) + FINE_NS > start_ns)
			break;
		if (!entry.accepted || entry.end_ns < before_ns)
			continue;
		at = first_after(level, level->gone, level->active, entry.end_ns);
		shift(level->entries, at, level->active++);
		level->entries[at] = entry;
	}
}

/* Those behind an accepted one at level->head that may have started with it. */
static uint32_t count_with(const struct level *level, int64_t at_ns) {
	uint32_t count = 0;

	for (uint32_t i = level->head + 1;
	     i < level->end && level->entries[i].start_ns <= at_ns; i++)
		count += level->entries[i].accepted && level->entries[i].end_ns > at_ns;
	return count;
}

/* Those behind a refused one at level->head that may have started before it. */
static uint32_t count_before(const struct level *level, int64_t doubt_ns) {
	const struct level_entry *entry = &level->entries[level->head];
	uint32_t count = 0;

	for (uint32_t i = level->head + 1; i < level->end; i++) {
		const struct level_entry *other = &level->entries[i];

		if (other->start_ns - doubt_ns - slack_ns(entry) > entry->start_ns)
			break;
		count += other->accepted && covers(other, entry);
	}
	return count;
}

/* The level of the entry at level->head; *beside as in a verdict.  Forgets on the way. */
static uint32_t count_level(struct level *level, uint32_t *beside) {
	const struct level_entry *entry = &level->entries[level->head];
	bool is_next = entry->start_ns >= level->swept_ns;
	int64_t swept_ns = is_next ? entry->start_ns : level->swept_ns;
	int64_t before_ns = swept_ns - keep_ns(level), slack = slack_ns(entry);
	int64_t doubt_ns = level->coarse_ns > entry->start_ns ? SECOND : FINE_NS;
	int64_t at_ns = entry->start_ns + slack;
	uint32_t count, active;

	forget(level, before_ns);
	settle(level, swept_ns, before_ns);
	active = level->active - first_after(level, level->gone, level->active, at_ns);
	count = is_next && slack <= FINE_NS ? active :
	    count_covering(level, level->gone, level->active, entry);
	for (uint32_t i = level->recent; i < level->head; i++) {
		bool runs = level->entries[i].accepted && level->entries[i].end_ns > at_ns;

		active += runs;
		count += runs && covers(&level->entries[i], entry);
	}
	if (!entry->accepted)
		return count + 1 + count_before(level, doubt_ns);
	*beside = active + 1 + count_with(level, at_ns);
	return count + 1;
}

static uint32_t judge(struct level *level, uint32_t *beside) {
	const struct level_entry *entry = &level->entries[level->head];

	if (entry->start_ns < level->swept_ns - keep_ns(level))
		return 0;
	if (!entry->accepted && entry->start_ns <= level->lost_ns)
		return 0;
	return count_level(level, beside);
}

bool level_next(struct level *level, int64_t now_ns, struct level_verdict *out) {
	const struct level_entry *entry;

	if (level->head == level->end || level_due_ns(level) > now_ns)
		return false;
	entry = &level->entries[level->head];
	*out = (struct level_verdict){ .tag = entry->tag, .start_ns = entry->start_ns,
		.took_ns = entry->end_ns - entry->start_ns, .accepted = entry->accepted };
	out->level = judge(level, &out->beside);
	note_peak(level);
	out->most = most_level(level, entry, out->level);
	if (entry->start_ns > level->swept_ns)
		level->swept_ns = entry->start_ns;
	level->head++;
	return true;
}

int64_t level_due_ns(const struct level *level) {
	return level->head == level->end ? INT64_MAX :
	    level->entries[level->head].start_ns + wait_ns(level);
}

uint32_t level_in_flight(const struct level *level, int64_t at_ns) {
	uint32_t count = 0;

	for (uint32_t i = first_after(level, level->gone, level->active, at_ns);
	     i < level->active; i++)
		count += level->entries[i].start_ns <= at_ns;
	for (uint32_t i = level->recent; i < level->end; i++)
		count += level->entries[i].accepted &&
		    level->entries[i].start_ns <= at_ns &&
		    level->entries[i].end_ns > at_ns;
	return count;
}

uint32_t level_places(const struct level *level, int64_t at_ns) {
	int64_t later = at_ns / LEVEL_KEPT_NS - level->peak_span;
	uint32_t count = level_in_flight(level, at_ns), peak = 0;

	if (at_ns > level->kept_ns || later > 1)
		return count;
	peak = level->peak[0];
	if (later < 1 && level->peak[1] > peak)
		peak = level->peak[1];
	return peak > count ? peak : count;
}

int64_t level_known_ns(const struct level *level, int64_t now_ns) {
	int64_t at_ns = now_ns - level->longest_ns - level->longest_ns / 4 - level->latest_ns;

	return at_ns > level->swept_ns ? at_ns : level->swept_ns;
}

uint32_t level_running(struct level *level, int64_t now_ns) {
	if (now_ns - level->running_ns < RUNNING_NS)
		return level->running;
	level->running = level_in_flight(level, level_known_ns(level, now_ns));
	level->running_ns = now_ns;
	return level->running;
}
