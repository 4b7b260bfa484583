/* SPDX-License-Identifier: ISC */
/*
 * The levels of attempts, rebuilt from a log that tells of an attempt only once it
 * has ended (DESIGN section 7: the level is the place that an attempt asks for, one
 * more than the deliveries, accepted and not ended, in flight when it started).
 *
 * Model: for one destination, attempts go in as they are read, in any order; out
 * come verdicts in the order of their starts, each once no delivery that began before
 * it is likely to be unread still: after a wait that follows the longest deliveries and
 * the latest reports of late (29 of 30).  Starts are rounded by the log
 * (slack_ns): an end that may be before or after a start was before it, as it made the
 * room; of two starts in doubt, an accepted attempt was the first (its level is what it
 * was at least) and a refused one the last (at most).
 *
 * Bounded: the memory is the caller's.  Where it is full, attempts are not taken, and
 * refusals that one of those may have caused are of unknown level (0) until it is over.
 *
 * Pure: no clock, no malloc.  All times are of one clock, whichever.  One thread.
 */
#ifndef POLICY_LEVEL_H
#define POLICY_LEVEL_H

#include <stdbool.h>
#include <stdint.h>

#include "policy/reply/delivery.h"

struct level_attempt {
	int64_t start_ns;	/* a log's: end less (c+d) of delays= */
	int64_t end_ns;
	int64_t slack_ns;	/* start may be so much earlier or later; level_slack() */
	uint64_t tag;		/* the caller's own, comes back with the verdict */
	bool accepted;		/* it took a place from start to end: class OK and whatever
				 * came after the handshake; refused attempts take none */
	bool kept;		/* its connection may be kept: the remote sees a place taken for
				 * LEVEL_KEPT_NS after its end */
};
/* Postfix's smtp_connection_cache_time_limit. */
#define LEVEL_KEPT_NS	INT64_C(2000000000)

/* 32 bytes; what is in it is level.c's. */
struct level_entry {
	int64_t start_ns;
	int64_t end_ns;
	uint64_t tag;
	uint32_t slack_us;
	uint16_t accepted;
	uint16_t kept;
};

struct level {
	struct level_entry *entries;	/* the caller's */
	uint32_t capacity;
	/* entries[gone, active): accepted, verdict told, and they may have been in flight at
	 * the next start; by end */
	uint32_t gone, active;
	uint32_t recent;		/* [recent, head): verdict told, but by start still */
	uint32_t head, end;		/* [head, end): wait for a verdict; by start */
	uint32_t lost;		/* attempts that were not taken, ever */
	int64_t swept_ns;	/* latest start of a verdict */
	int64_t coarse_ns;	/* latest start of one with much slack */
	int64_t kept_ns;	/* until then connections may have been kept */
	int64_t peak_span;	/* number of the current span of LEVEL_KEPT_NS */
	uint32_t peak[2];	/* most in flight at once in it, and in the one before */
	int64_t lost_ns;	/* end of the last accepted one that was not taken */
	int64_t longest_ns;	/* what most deliveries took at most, of late; 0: none yet */
	int64_t latest_ns;	/* how late most were read at most */
	uint32_t running;	/* as level_running told last, */
	int64_t running_ns;	/* and when that was */
};

struct level_verdict {
	uint64_t tag;
	int64_t start_ns;
	int64_t took_ns;
	uint32_t level;		/* 0: cannot be known */
	/* Of a refused one: the level, had all connections that were in use of late been kept;
	 * else the level. */
	uint32_t most;
	/* Of an accepted one: as many as may have been in flight just after it started, itself
	 * included: at least `level`. */
	uint32_t beside;
	bool accepted;
};

/* The level as a law with this ceiling is to hear it: one that may be above or below it, by
 * connections that were kept or not, is not known. */
static inline uint32_t level_heard(const struct level_verdict *verdict, uint32_t ceiling) {
	if (verdict->level <= ceiling && verdict->most > ceiling)
		return 0;
	return verdict->most;
}

/* The slack of a time that Postfix wrote with two significant digits and not more
 * than two decimals, in ms as read: half of its last digit. */
int64_t level_slack(int64_t delay_ms);

/* When Postfix put into the queue of its transport, or lane, what started at start_ns and had
 * waited there for so long: at the earliest, as a log rounds.  0: waited_ms is not told. */
int64_t level_given_ns(int64_t start_ns, int64_t slack_ns, int64_t waited_ms);

/* When a delivery that ended at end_ns began, as its line tells: false, it does not.  *slack_ns
 * grows by what the line rounds. */
bool level_began(const struct delivery *delivery, int64_t end_ns, int64_t *start_ns,
    int64_t *slack_ns);

/* Deliveries of which several lines may tell, one for each recipient: the latest ones. */
#define LEVEL_TOLD	8
struct level_told {
	struct {
		uint64_t queue;		/* hash of the queue id; 0: none */
		int64_t start_ns;
		uint8_t weight;		/* of what was told of it so far */
	} recent[LEVEL_TOLD];		/* a ring */
	uint8_t next;
};
/* Was this one told of already, with the same or more weight?  Notes it. */
bool level_was_told(struct level_told *told, uint64_t queue, int64_t start_ns, int64_t slack_ns,
    uint8_t weight);

/* `entries` stays the caller's and must outlive *level; capacity at least 1. */
void level_begin(struct level *level, struct level_entry *entries, uint32_t capacity);

/* Larger (or smaller, at least level_count) memory: entries are copied over; the old
 * memory is the caller's to free. */
void level_move(struct level *level, struct level_entry *entries, uint32_t capacity);

/* An attempt was read at now_ns.  False: no room, its level will not be told; take
 * verdicts by level_next first, or level_move to more.  An end before its start or
 * after now_ns is put right.  One that began long (a quarter of a delivery, at
 * most a second) before the last verdict's start gets a verdict of level 0, and counts
 * for those to come. */
bool level_add(struct level *level, const struct level_attempt *attempt, int64_t now_ns);

/* The next verdict that is due; false: none is.  Call until false, whenever something
 * was added, and at level_due_ns. */
bool level_next(struct level *level, int64_t now_ns, struct level_verdict *out);

/* When the next verdict will be due; INT64_MAX: nothing waits.  Something added later
 * may make it later or earlier. */
int64_t level_due_ns(const struct level *level);

/* Deliveries known to have been in flight at a time: complete for level->swept_ns, the
 * fewer the later.  Looks at every entry. */
uint32_t level_in_flight(const struct level *level, int64_t at_ns);

/* The same with connections that may have been kept: what the remote may have counted. */
uint32_t level_places(const struct level *level, int64_t at_ns);

/* Until when all deliveries are known: what was in flight then has ended by now, or is no usual
 * one. */
int64_t level_known_ns(const struct level *level, int64_t now_ns);
/* Those in flight then; looked at anew 20 times a second. */
uint32_t level_running(struct level *level, int64_t now_ns);

/* Entries in use. */
static inline uint32_t level_count(const struct level *level) {
	return level->active - level->gone + (level->end - level->recent);
}

#endif
