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
 * outbound.requeue_rate, and never more at once than the window admits.  What a held
 * recipient's messages wait for is that recipient; what a held class's wait for is the class of
 * "@domain".
 *
 * The queue manager keeps the answer about the address that it looked up last for
 * 30 s, and would hold the same mail by it again: such a message is handed out when
 * that time is over or another message was looked up (requeue_resolved.c).  One that was
 * held all the same, or was in a lane which Postfix suspended by itself, is handed out
 * again, with pauses that grow to 31 s.  What was deferred for
 * another reason waits for Postfix's own schedule.  What was handed out 20 s ago takes
 * no place any more; where nothing is heard of all that is out, the queue's list tells
 * what was deleted or put on hold meanwhile.
 *
 * In the feed process's own memory, bounded; what does not fit is read again from
 * the queue's list when there is room.  One thread, no I/O: the caller runs what
 * is asked for, and tells what became of it.  In observe mode nothing is asked.
 */
#ifndef ENGINE_REQUEUE_H
#define ENGINE_REQUEUE_H

#include "engine/engine.h"
#include "policy/reply/delivery.h"
#include "policy/reply/reply.h"

struct requeue;

/* Bytes of a queue id; shorter and longer ones are none (mta_queue_id_is_sound). */
#define REQUEUE_ID_LEAST	6
#define REQUEUE_ID_MAX	31

/* Bytes of what messages wait for: a destination, a recipient that is held, or "@domain" whose
 * class is. */
#define REQUEUE_NAME_MAX	152

struct requeue_calls {
	/* What is to be done now: `postqueue -i` for the id, `postqueue -j`.  False:
	 * it cannot be asked for just now, and is asked for again. */
	bool (*flush)(void *context, unsigned mta, const char *queue_id);
	bool (*list)(void *context, unsigned mta);
	/* A destination is back, and so many messages are to be handed out. */
	void (*returned)(void *context, const char *destination, uint32_t messages);
	void *context;
};

/* 0, or -1 with *diag: no memory. */
int requeue_open(struct requeue **requeue, struct engine *engine,
    const struct requeue_calls *calls, struct diag *diag);
void requeue_close(struct requeue **requeue);

/* One delivery result of a Postfix, after the engine has taken it into account. */
struct requeue_result {
	unsigned mta;
	struct span queue_id;
	struct span recipient;		/* as logged; or empty */
	const char *destination;	/* whose window it counted for: engine_feed_delivery */
	enum delivery_status status;
	enum result_class class;
	struct span words;		/* judgement.reply.words: who holds it */
	int64_t arrival_ns;		/* of the message, on the clock of now_ns */
	int64_t ended_ns;		/* of the delivery */
};
/* True: a turn may have something to do. */
bool requeue_note(struct requeue *requeue, const struct generation *generation,
    const struct requeue_result *result, int64_t now_ns);

/* The queue manager takes up a message, and looks up its recipients.  True: as requeue_note. */
bool requeue_active(struct requeue *requeue, const struct generation *generation, unsigned mta,
    struct span id, struct span sender);

/* The message has left the queue ("removed", "expired").  True: as requeue_note. */
bool requeue_removed(struct requeue *requeue, unsigned mta, struct span queue_id);

/* One recipient of a message in a queue's list; why it was deferred. */
void requeue_list_recipient(struct requeue *requeue, const struct generation *generation,
    unsigned mta, struct span queue_id, struct span recipient, struct span reason,
    int64_t arrival_ns, int64_t now_ns);
/* The list of that queue was read; `whole`: to its end. */
void requeue_listed(struct requeue *requeue, unsigned mta, bool whole, int64_t now_ns);

/* A flush was not run, or failed: it is asked for again, later. */
void requeue_flush_failed(struct requeue *requeue, unsigned mta, const char *queue_id,
    int64_t now_ns);

/* Looks at the windows that mail waits for and hands out what is due.  Returns
 * when to come again; INT64_MAX: when something new was noted. */
int64_t requeue_turn(struct requeue *requeue, const struct generation *generation,
    int64_t now_ns);

#endif
