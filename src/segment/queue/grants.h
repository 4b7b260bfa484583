/* SPDX-License-Identifier: ISC */
/*
 * What may go out in the runs of a Sendmail that is driven by the queue role: for each
 * message of a run which recipients' domains were granted, and what became of it so far.
 * The role writes it before it has the run started; whoever answers Sendmail's questions
 * looks into it without a lock.  A message that has no grant is nobody's: it goes as it
 * would without a queue role.  All grants are in force only while the role that made them
 * lives and beats; with it they end, so that nothing can be stuck by them.
 *
 * A place for each message, found by a hash of its queue id.  The role alone makes and
 * removes grants; askers mark in them what they were asked.  Domains are hashes of 32
 * bits: one mistaken for another goes, or waits, once too often.
 *
 * A build without the managed queue has nobody who makes one: all messages are nobody's.
 */
#ifndef SEGMENT_GRANTS_H
#define SEGMENT_GRANTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "segment/file/layout.h"

struct segment;

/* Of a recipient's domain in any spelling (case, one dot at the end); never 0.  The same
 * in all processes, for one segment's life. */
uint32_t grants_domain(const struct segment *segment, const char *domain, size_t length);

/* --- the queue role: one process, one thread ---------------------------------------- */

/* The table is this role's from now on (its place among the roles), and empty. */
void grants_begin(struct segment *segment, unsigned role);

enum grant_mode {
	GRANT_ONLY = 1,		/* the domains of the list, and no other */
	GRANT_EXCEPT,		/* all but those of the list */
	GRANT_ONLY_AT_LAST,	/* as ONLY, but who asks by another name may go on to ask
				 * before its connect, by the recipient as written */
};
/* What becomes of a recipient that is known as delivered, and stands in the file still. */
enum grant_once { GRANT_ONCE_OFF, GRANT_ONCE_OBSERVE, GRANT_ONCE_ENFORCE };
struct grant {
	const char *queue_id;
	size_t queue_id_length;
	uint32_t run;
	enum grant_mode mode;
	const uint32_t *domains;	/* grants_domain; at most GRANT_DOMAINS */
	unsigned count;
	enum grant_once once;
	uint32_t made_s;		/* of the message: told_key */
};
struct grant_ref {
	uint32_t number;	/* 0: none */
	uint32_t serial;
};

/* False: there is no place for it (or that message has one): so it may be for a few where
 * more than GRANTS_WELL are in force. */
#define GRANTS_WELL	(GRANT_PLACES / 8 * 5)
bool grants_put(struct segment *segment, const struct grant *grant, struct grant_ref *ref);

/* The domain is not granted any more.  False: the list is full (GRANT_EXCEPT). */
bool grants_withdraw(struct segment *segment, const struct grant_ref *ref,
    uint32_t domain);

/* What has happened so far. */
struct grant_seen {
	int64_t progress_ns;	/* the last question; 0: none yet */
	uint32_t asked;		/* questions before a connect that were about what is granted */
	uint32_t connected;	/* connections (a host and message each) */
	uint32_t current;	/* domain that was asked about last, before a connect; or 0 */
	bool is_connected;	/* and there was a connection since */
	uint32_t deferred[GRANT_PUT_OFF]; /* granted, but put off: by a window or a class */
	unsigned deferred_count;
	bool lasting[GRANT_PUT_OFF];	/* of these: for long */
};
void grants_see(const struct segment *segment, const struct grant_ref *ref,
    struct grant_seen *out);

/* Ends it; *out (or NULL): the last that was seen. */
void grants_remove(struct segment *segment, const struct grant_ref *ref,
    struct grant_seen *out);

/* No grant is in force, whatever stands in a file that is adopted.  Supervisor only. */
#ifdef WITH_QUEUE
void grants_scrub(struct segment *segment);
#else
static inline void grants_scrub(struct segment *segment) {
	(void)segment;
}
#endif

/* --- whoever is asked: any thread, no lock --------------------------------------------- */

enum grant_answer {
	GRANT_NONE,		/* there is no grant in force for that message */
	GRANT_GO,		/* granted, as far as its turn goes */
	GRANT_WAIT,		/* not its turn: it is to stay queued, without a connection */
};
struct grant_asked {
	struct grant_ref ref;	/* GO, WAIT */
	uint32_t domain;
	uint32_t run;
	bool at_last;		/* WAIT: only before a connect it is final */
	uint32_t once, made_s;	/* of the grant */
};
#ifdef WITH_QUEUE
enum grant_answer grants_ask(const struct segment *segment, const char *queue_id,
    size_t queue_id_length, const char *domain, size_t length, int64_t now_ns,
    struct grant_asked *asked);
#else
static inline enum grant_answer grants_ask(const struct segment *segment, const char *queue_id,
    size_t queue_id_length, const char *domain, size_t length, int64_t now_ns,
    struct grant_asked *asked) {
	(void)segment, (void)queue_id, (void)queue_id_length;
	(void)domain, (void)length, (void)now_ns;
	*asked = (struct grant_asked){ .run = 0 };
	return GRANT_NONE;
}
#endif

enum grant_mark {
	GRANT_TURN,		/* asked about before anything is connected */
	GRANT_ASKED,		/* GO: just before the connect, and it may */
	GRANT_DEFERRED,		/* GO: but a window or a class put it off */
	GRANT_DEFERRED_LONG,	/* the same, and until somebody changes that: a class is held */
	GRANT_HELD,		/* GO: but this one recipient is held */
	GRANT_CONNECTED,	/* of the message, to the host that was asked about last */
};
#ifdef WITH_QUEUE
void grants_mark(struct segment *segment, const struct grant_asked *asked,
    enum grant_mark mark, int64_t now_ns);
#else
static inline void grants_mark(struct segment *segment, const struct grant_asked *asked,
    enum grant_mark mark, int64_t now_ns) {
	(void)segment, (void)asked, (void)mark, (void)now_ns;
}
#endif

#endif
