/* SPDX-License-Identifier: ISC */
/*
 * The memory of requeue.c: messages that wait, by their queue id and by the
 * destination that they wait for.  A message that waits for two destinations stands
 * in it twice.  Bounded; one thread.
 */
#ifndef ENGINE_REQUEUE_STORE_H
#define ENGINE_REQUEUE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "engine/requeue/requeue.h"
#include "segment/file/layout.h"

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
	int64_t out_ns;		/* OUT: when it was handed out */
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
	bool left;		/* the queue manager suspended a lane, and nothing was taken since */
	uint32_t window;	/* when its mail was called up last */
	int64_t until_ns;	/* nothing is handed out before */
	int64_t pause_ns;	/* how long the last pause was; 0: none */
	uint32_t next_free;
	struct requeue_list places[REQUEUE_PLACES];
};

struct requeue_store {
	struct requeue_entry *entries;
	uint32_t entry_count, entry_size;	/* used, and room */
	uint32_t entry_end;			/* those behind it were never used */
	uint32_t free_entry;
	struct map by_id;
	struct requeue_destination *destinations;
	uint32_t destination_count, destination_size, destination_end;
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

#endif
