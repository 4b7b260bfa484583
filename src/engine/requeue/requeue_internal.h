/* SPDX-License-Identifier: ISC */
/* What the files of mail that waits share: requeue.c (destinations, and what is handed out),
 * requeue_results.c (what is said of messages), requeue_resolved.c (what the queue manager
 * remembers). */
#ifndef ENGINE_REQUEUE_INTERNAL_H
#define ENGINE_REQUEUE_INTERNAL_H

#include "base/clock.h"
#include "engine/requeue/requeue.h"
#include "engine/requeue/requeue_store.h"
#include "engine/destination/windows.h"

/* Until the hints say that it is back. */
#define REQUEUE_SETTLE_NS	(400 * NS_PER_MS)
#define REQUEUE_NOT_LOOKED_AT	UINT32_MAX	/* the window of a destination */

#define REQUEUE_TAKEN		256U		/* between what is taken up and its result */

/* A message that the queue manager took up. */
struct requeue_taken {
	char id[REQUEUE_ID_MAX + 1];
	uint64_t sender;	/* hashed */
	int64_t asked_ns;	/* when it asked for the answer that held it */
	uint16_t address;	/* of the recipient that was held; 0: none was, so far */
	bool several;		/* more than one was */
};

struct requeue_mta {
	uint64_t identity;	/* name and directory: its number may become another's */
	int64_t tat_ns;		/* of the rate */
	int64_t list_ns;	/* when the list may be asked for */
	int64_t listing_ns;	/* when it was */
	int64_t doubt_ns;	/* when it may be asked for because of a doubt, and ... */
	int64_t doubt_pause_ns;	/* ... the pause to the next one */
	uint8_t tries;		/* of the first list */
	bool listing;		/* it was asked for */
	bool listed;
	bool overflowed;	/* something was not remembered since */
	bool doubtful;		/* what is out may be gone */
	uint8_t round;		/* counts lists */
	bool waits_for_another;	/* to be taken up: what is due is remembered */
	uint32_t taken_count;
	struct requeue_taken taken[REQUEUE_TAKEN];
};

struct requeue {
	struct engine *engine;
	struct requeue_calls calls;
	struct requeue_store store;
	uint64_t generation;		/* that the mtas are of */
	struct requeue_mta mtas[GENERATION_MTAS_MAX];
	uint32_t cursor;		/* destination that the next turn begins with */
};

/* Numbers mean what they mean in this generation. */
void requeue_take_up(struct requeue *requeue, const struct generation *generation);
/* Is it one whose mail is handed out? */
bool requeue_is_postfix(const struct generation *generation, unsigned mta);
/* How does it stand, and has it returned? */
void requeue_look(struct requeue *requeue, const struct generation *generation,
    uint32_t destination, int64_t now_ns, struct window_owner *owner,
    struct window_view *view);
/* The log said of the message why it waits. */
void requeue_resolved(struct requeue *requeue, struct requeue_entry *e,
    const struct requeue_result *result, int64_t now_ns);
/* Until then the queue manager would hold it by the answer that it had before; 0: it asks. */
int64_t requeue_remembered_until_ns(struct requeue *requeue, const struct requeue_entry *e,
    int64_t now_ns);
/* A pause, longer each time until something gets through; messages that were handed out
 * together make one. */
void requeue_pause(struct requeue_destination *d, int64_t now_ns);

#endif
