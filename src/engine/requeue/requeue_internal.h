/* SPDX-License-Identifier: ISC */
/* What the files of mail that waits share: requeue.c (destinations, and what is handed out),
 * requeue_results.c (what is said of messages), requeue_resolved.c (what the queue manager
 * remembers). */
#ifndef ENGINE_REQUEUE_INTERNAL_H
#define ENGINE_REQUEUE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/map.h"
#include "engine/destination/windows.h"
#include "engine/requeue/requeue.h"
#include "segment/hints/paced.h"
#include "segment/file/layout.h"

/*
 * The memory of requeue.c: messages that wait, by their queue id and by the
 * destination that they wait for.  A message that waits for two destinations stands
 * in it twice.  Bounded; one thread.
 */

#define REQUEUE_ENTRIES_MAX	(128U << 10)	/* 8 MiB, and 0.5 MiB of places */
#define REQUEUE_DESTINATIONS_MAX (16U << 10)
#define REQUEUE_NONE		UINT32_MAX
_Static_assert(REQUEUE_NAME_MAX >= SEGMENT_NAME_MAX && REQUEUE_NAME_MAX >= RECIPIENT_MAX,
    "either has room");

/* Where an entry stands. */
enum requeue_place {
	REQUEUE_WAITING,	/* until the destination returns */
	REQUEUE_DUE,		/* to be handed out, oldest first */
	REQUEUE_OUT,		/* handed out, nothing was heard of it yet */
	REQUEUE_PLACES
};

struct requeue_entry {
	char id[REQUEUE_ID_MAX + 1];
	int64_t arrival_ns;	/* of the message */
	union {
		int64_t out_ns;		/* OUT: when it was handed out */
		uint64_t addresses;	/* else those that wait, as in a pass; 0: not known */
	};
	uint32_t next_free;
	uint32_t destination;
	uint32_t position;	/* in its place */
	uint16_t address;	/* sender and recipient, hashed; 0: not known */
	uint8_t mta : 5;
	uint8_t place : 3;	/* enum requeue_place */
	uint8_t round;		/* the list that it was in last, or that was read when it came */
};
_Static_assert(sizeof(struct requeue_entry) == 64, "one cache line");

struct requeue_list {
	uint32_t *entries;	/* DUE: a heap, the oldest first */
	uint32_t count, size;
};

struct requeue_destination {
	char name[REQUEUE_NAME_MAX + 1];
	bool used;
	bool down;		/* nothing may go there, when it was looked at last */
	bool observed;		/* observe mode holds nothing of it */
	bool was_paced;		/* its pace held mail; then, and while that waits: */
	bool is_paced;		/* only mail goes that tokens are taken for here */
	struct paced_slot *waits;	/* or NULL: no room */
	int64_t interval_ns;	/* of its pace */
	int64_t token_ns;	/* there is none before; 0: not known */
	int64_t again_ns;	/* what was refused is not tried before, ... */
	int64_t again_pause_ns;	/* ... for longer each time until something gets through */
	bool by_sources;	/* its mail waited for a number of a source that is warmed up; then, */
	uint32_t ready;		/* so many numbers there are, when it was looked at last */
	bool left;		/* the queue manager suspended a lane, and nothing was taken since */
	uint32_t window;	/* when its mail was called up last */
	int64_t until_ns;	/* nothing is handed out before */
	int64_t pause_ns;	/* how long the last pause was; 0: none */
	uint32_t next_free;
	struct requeue_list places[REQUEUE_PLACES];
};

struct requeue_store {
	struct requeue_entry *entries;
	uint32_t entry_count;
	uint32_t entry_end;			/* those behind it were never used */
	uint32_t free_entry;
	struct map by_id;
	struct requeue_destination *destinations;
	uint32_t destination_count, destination_end;
	uint32_t free_destination;
	struct map by_name;
	uint64_t salt;
};

/* False: no memory. */
bool requeue_store_open(struct requeue_store *store, uint64_t salt);
void requeue_store_close(struct requeue_store *store);

/* The destination's number, or REQUEUE_NONE. */
uint32_t requeue_find_destination(const struct requeue_store *store, const char *name,
    size_t length);
/* The same; makes it, or REQUEUE_NONE: no room. */
uint32_t requeue_make_destination(struct requeue_store *store, const char *name,
    size_t length);
/* Forgets one that nothing waits for; else does nothing. */
void requeue_drop_destination(struct requeue_store *store, uint32_t destination);

/* The entry's number, or REQUEUE_NONE. */
uint32_t requeue_find(const struct requeue_store *store, unsigned mta, const char *id,
    size_t length, uint32_t destination);
/* Of whatever destination: the first one, or the next behind `after`. */
uint32_t requeue_find_any(const struct requeue_store *store, unsigned mta, const char *id,
    size_t length, uint32_t after);
/* A new one, WAITING; REQUEUE_NONE: no room. */
uint32_t requeue_add(struct requeue_store *store, unsigned mta, const char *id,
    size_t length, uint32_t destination, int64_t arrival_ns);
void requeue_remove(struct requeue_store *store, uint32_t entry);

/* False: no memory, it stays where it is. */
bool requeue_move(struct requeue_store *store, uint32_t entry, enum requeue_place place);

bool requeue_is_older(const struct requeue_store *store, uint32_t a, uint32_t b);

static inline uint32_t requeue_held(const struct requeue_destination *d) {
	return d->places[REQUEUE_WAITING].count + d->places[REQUEUE_DUE].count +
	    d->places[REQUEUE_OUT].count;
}

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

/* A message with a pass. */
#define REQUEUE_GOING	64U
struct requeue_going {
	char id[REQUEUE_ID_MAX + 1];
	struct window_owner owner;
	uint32_t destination;
	unsigned mta;
	bool has_token;
	int64_t made_ns;
	int64_t pass;
	struct paced_slot *waits;
};

struct requeue {
	struct engine *engine;
	struct requeue_calls calls;
	struct requeue_store store;
	uint64_t generation;		/* that the mtas are of */
	struct requeue_mta mtas[GENERATION_MTAS_MAX];
	struct siphash_key pass_key;
	struct requeue_going going[REQUEUE_GOING];
	uint32_t going_count;
	int64_t oldest_again_ns;	/* when the oldest is looked for again */
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

/* --- requeue_oldest.c ---------------------------------------------------------------- */

/* Tells the metrics since when the oldest waits: with each turn. */
void requeue_note_oldest(struct requeue *requeue, int64_t now_ns);

/* --- requeue_paces.c ----------------------------------------------------------------- */

/* An address more of a message that waits. */
void requeue_pace_address(const struct requeue *requeue, struct requeue_entry *e,
    const char *address);
/* Does its mail wait for its pace? */
void requeue_pace_look(struct requeue *requeue, const struct generation *generation,
    struct requeue_destination *d, const struct window_owner *owner,
    const struct window_view *view, int64_t now_ns);
/* A message that was handed out got through. */
void requeue_pace_went(struct requeue_destination *d);
void requeue_pace_end(struct requeue_destination *d);
/* Takes a token for a message that is due, which is called up soon: 0; or when there is one. */
int64_t requeue_pace_send(struct requeue *requeue, const struct generation *generation,
    uint32_t entry, const struct window_owner *owner, int64_t now_ns);
/* How many of its messages are OUT and not called up yet. */
uint32_t requeue_pace_passes(const struct requeue *requeue, uint32_t destination);
/* Calls up those whose time has come; returns when to come again. */
int64_t requeue_pace_turn(struct requeue *requeue, const struct generation *generation,
    int64_t now_ns);
void requeue_pace_forget(struct requeue *requeue, unsigned mta);

#endif
