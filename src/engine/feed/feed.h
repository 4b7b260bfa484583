/* SPDX-License-Identifier: ISC */
/*
 * Delivery results on their way into the segment: what the log of a mail server tells,
 * or who tells us himself (DESIGN section 8).
 *
 * A result is judged first (engine/judge/judge.h): whose it is, which destination was tried,
 * what its reply means.  Then three things learn: by which relays and transports mail for
 * the recipient's domain goes, unless the relay is on a port that is none of the mail
 * server's remote ports; which lane carried it; and the window of the destination.
 */
#ifndef ENGINE_FEED_H
#define ENGINE_FEED_H

#include "engine/engine.h"
#include "engine/judge/judge.h"
#include "policy/reply/delivery.h"
#include "segment/queue/told.h"

/* Where a result was read, so that it counts once: a slot does not take what is at or
 * below the place in the same log that it took last. */
struct feed_origin {
	uint64_t log;		/* who the log is (device and inode, hashed); 0: no log, each
				 * result is a new one */
	uint64_t offset;	/* of the byte behind its line */
	int64_t ended_ns;	/* when the delivery ended, as far as its line tells (clock.h);
				 * 0: just now */
	int64_t slack_ns;	/* ended_ns may be off by so much: a line of whole seconds */
	unsigned expected;	/* its number in the last engine_feed_expect, from 1; 0: none */
};

/* One delivery result: has it judged (judge.h), notes its relay, and lets the window of
 * the destination that was tried learn (windows.h).  `mtas`: bit i is mail server i of
 * the generation, whose log it stood in.  One thread of the one process that feeds: levels
 * are kept in its memory. */
struct feed_outcome {
	/* What was made of it, until the next call; NULL: it is nobody's.  `destination`, `kind`
	 * and `provider` are those of the window that it counted for, after roll-up. */
	const struct judgement *judgement;
	bool learned;		/* a window, or by which relay mail goes */
	bool repeated;		/* it was learned before */
};
struct feed_outcome engine_feed_delivery(struct engine *engine, const struct generation *generation,
    unsigned mtas, const struct delivery *delivery, const struct feed_origin *origin,
    int64_t now_ns);

/* These results are to come, in this order: has what is known of their domains and relays
 * fetched, all at once.  Whoever has several lines at hand says so first; it changes nothing but
 * the time that they take. */
#define ENGINE_FEED_EXPECTED	32
void engine_feed_expect(struct engine *engine, const struct delivery *const *deliveries,
    unsigned count);

/* The Postfix of `mtas` (bits as above) whose log names a program so, or
 * GENERATION_MTAS_MAX.  Any thread. */
unsigned engine_feed_postfix(const struct generation *generation, unsigned mtas,
    struct span program);

/* A delivery began, told by a mail server that tells beginnings (the event socket): its
 * level is exact then.  Of `delivery` only queue_id, domain or recipient, and relay (as
 * far as they are known) are looked at. */
void engine_feed_start(struct engine *engine, const struct generation *generation,
    unsigned mtas, const struct delivery *delivery, int64_t now_ns);

/* Does the queue role want the lines of these Sendmails about deliveries? */
bool engine_feed_wants_told(const struct generation *generation, unsigned mtas);
struct feed_told_line {
	enum told_what what;
	uint32_t pid;
	bool goes_on;		/* its list, in the next line */
	int64_t written_s;	/* wall clock */
};
/* Such a line; of `delivery` queue_id, list and delay_ms count. */
void engine_feed_told(struct engine *engine, const struct delivery *delivery,
    const struct feed_told_line *line, const struct feed_origin *origin);
/* All logs were read to their ends, as they were at `ns` (segment/queue/told.h). */
void engine_feed_reached(struct engine *engine, int64_t ns);

/* Results that wait for others to end are judged when those did, or when they have
 * waited long enough: each second, and before the process ends. */
void engine_feed_turn(struct engine *engine, const struct generation *generation,
    int64_t now_ns);

/* Forgets what the feed remembers in this process; before engine_close. */
void engine_feed_close(struct engine *engine);

#endif
