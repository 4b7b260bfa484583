/* SPDX-License-Identifier: ISC */
/*
 * Mail that waits in the deferred queue of a Postfix for a destination that comes
 * back: which messages those are, and when each is to be tried again
 * (`postqueue -i ID`; DESIGN section 11).  Postfix itself would wait for up to
 * maximal_backoff_time.
 *
 * A message waits for a destination when it was deferred there as the site
 * failed, or was held.  When the destination *returns* (its suspension or hold
 * ended, or its window has doubled since), those that waited by then are handed
 * out: oldest first, each once for each return, never faster than
 * outbound.requeue_rate, and never more at once than the window admits.  What
 * was tried for another reason waits for Postfix's own schedule.
 *
 * In the feed process's own memory, bounded; what does not fit is read again from
 * the queue's list when there is room.  One thread, no I/O: the caller runs what
 * is asked for, and tells what became of it.  In observe mode nothing is asked.
 */
#ifndef ENGINE_REQUEUE_H
#define ENGINE_REQUEUE_H

#include "engine/engine.h"
#include "policy/delivery.h"
#include "policy/reply.h"

struct requeue;

#define REQUEUE_ID_MAX	31	/* bytes of a queue id; longer ones are none */

/* What is to be done now.  Each answers false when it cannot be asked for just now:
 * it is asked for again. */
struct requeue_calls {
	bool (*flush)(void *context, unsigned mta, const char *queue_id);
	bool (*list)(void *context, unsigned mta);
	void *context;
};

/* 0, or -1 with *diag: no memory. */
int requeue_open(struct requeue **requeue, struct engine *engine,
    const struct requeue_calls *calls, struct diag *diag);
void requeue_close(struct requeue **requeue);

/* One delivery result of a Postfix, after it was judged.  `destination`: the name
 * of the window that it counted for (an owner: "provider:google", too). */
struct requeue_result {
	unsigned mta;
	struct span queue_id;
	const char *destination;
	size_t destination_length;
	enum delivery_status status;
	enum result_class class;
	int64_t arrival_ns;	/* when the message arrived, on the clock of now_ns */
};
void requeue_note(struct requeue *requeue, const struct generation *generation,
    const struct requeue_result *result, int64_t now_ns);

/* The message has left the queue ("removed", "expired"). */
void requeue_removed(struct requeue *requeue, unsigned mta, struct span queue_id);

/* What became of a call: `postqueue -i` for the id failed (there is no such
 * message, or it could not be run); the list of a queue has been read to its end,
 * or could not be. */
void requeue_flush_failed(struct requeue *requeue, unsigned mta, const char *queue_id);
void requeue_listed(struct requeue *requeue, unsigned mta, bool whole, int64_t now_ns);

/* Looks at the windows that mail waits for and hands out what is due.  Returns
 * when to come again (INT64_MAX: when something new was noted). */
int64_t requeue_turn(struct requeue *requeue, const struct generation *generation,
    int64_t now_ns);

/* For status and tests. */
struct requeue_counts {
	uint64_t waiting;	/* messages x destinations */
	uint64_t out;		/* handed out, result not seen yet */
};
void requeue_count(const struct requeue *requeue, struct requeue_counts *out);

#endif
