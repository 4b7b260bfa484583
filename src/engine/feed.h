/* SPDX-License-Identifier: ISC */
/*
 * What the feed read in the log of a Postfix, on its way into the segment: which
 * mail server a delivery is of, whether by the transport that its lanes clone, and
 * whether anything is to be learned of it (DESIGN section 8); and how far each log
 * was read.
 *
 * A program is of the mail server whose syslog_name and "/" it begins with (the
 * longest, where several do).  Of those only smtp and lmtp clients teach.  It is
 * the cloned transport's when it is the clone-program of the site's file (without
 * one, SYSLOG_NAME/smtp), or a lane's: SYSLOG_NAME/laneN/smtp.  A delivery without
 * a relay, or by one on a port that is none of the mail server's remote ports (a
 * content filter), teaches nothing.
 */
#ifndef ENGINE_FEED_H
#define ENGINE_FEED_H

#include "engine/engine.h"
#include "judge/judge.h"
#include "policy/delivery.h"

struct feed_delivery {
	const char *program;		/* "postfix/lane1/smtp" */
	size_t program_length;
	const char *domain;		/* of the recipient */
	size_t domain_length;
	const char *relay_name;
	size_t relay_name_length;
	struct address relay;		/* or unknown */
	uint16_t relay_port;		/* 0: not known */
};

/* As engine_feed_delivery, but notes relays alone: goes when the feed reads with
 * wire/mail_log.h. */
bool engine_feed_note(struct engine *engine, const struct generation *generation,
    unsigned mtas, const struct feed_delivery *delivery, int64_t now_ns);

/* Where a result was read, so that it counts once: a slot does not take what is at or
 * below the place in the same log that it took last. */
struct feed_origin {
	uint64_t log;		/* who the log is (device and inode, hashed); 0: no log, each
				 * result is a new one */
	uint64_t offset;	/* of the byte behind its line */
	int64_t ended_ns;	/* when the delivery ended, as far as its line tells (clock.h);
				 * 0: just now */
};

/* One delivery result: has it judged (judge.h), notes its relay, and lets the window of
 * the destination that was tried learn (windows.h).  `mtas`: bit i is mail server i of
 * the generation, whose log it stood in.  False: nothing was learned.  One thread of
 * the one process that feeds: levels are kept in its memory. */
bool engine_feed_delivery(struct engine *engine, const struct generation *generation,
    unsigned mtas, const struct delivery *delivery, const struct feed_origin *origin,
    int64_t now_ns);

/* What the last engine_feed_delivery made of its result, until the next call; NULL: it
 * was nobody's.  `destination`, `kind` and `provider` are those of the window that it
 * counted for, after roll-up. */
const struct judgement *engine_feed_judged(const struct engine *engine);

/* A delivery began, told by a mail server that tells beginnings (the event socket): its
 * level is exact then.  Of `delivery` only queue_id, domain or recipient, and relay (as
 * far as they are known) are looked at. */
void engine_feed_start(struct engine *engine, const struct generation *generation,
    unsigned mtas, const struct delivery *delivery, int64_t now_ns);

/* Results that wait for others to end are judged when those did, or when they have
 * waited long enough: each second, and before the process ends. */
void engine_feed_turn(struct engine *engine, const struct generation *generation,
    int64_t now_ns);

/* How far the log of mail server `mta` was read: kept in the segment for the next
 * feed process.  One process writes. */
struct feed_place {
	uint64_t device;	/* st_dev and st_ino of the file */
	uint64_t inode;
	uint64_t offset;	/* of the first byte that was not dealt with */
};
bool engine_feed_place(const struct engine *engine, unsigned mta, struct feed_place *out);
void engine_feed_keep_place(struct engine *engine, unsigned mta,
    const struct feed_place *place);

#endif
