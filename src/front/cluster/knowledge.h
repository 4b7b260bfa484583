/* SPDX-License-Identifier: ISC */
/*
 * What the nodes of a cluster tell each other of destinations, by way of Redis: writes what
 * this node finds out (engine/cluster/knowledge.h), and reads what the others do.
 *
 * Keys (the prefix and "1:" before each; all have a time to live):
 *	d:NAME		hash: node to "MS RECORD", by Redis's clock (wire/cluster/knowledge_text.h)
 *	di		sorted set: names by the number of their last change
 *	dv		that number
 *	dn		channel: "NUMBER NODE NAME RECORD" of each change
 * What is read there is believed by nobody: names, numbers and texts go through parsers, and
 * what is none is counted and passed over.
 *
 * One thread: the cluster role's.  No function here waits.
 */
#ifndef FRONT_CLUSTER_KNOWLEDGE_H
#define FRONT_CLUSTER_KNOWLEDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "front/cluster/script.h"
#include "segment/file/layout.h"
#include "wire/cluster/cluster_call.h"
#include "wire/cluster/redis_value.h"

struct engine;
struct generation;
struct diag;
struct knowledge_front;
struct knowledge_store;

#define KNOWLEDGE_CHANNEL	CLUSTER_CHANNEL	/* it is passed as a key, too */
#define KNOWLEDGE_KEYS_MAX	32	/* of one call */
#define KNOWLEDGE_WORDS_MAX	32

struct knowledge_calls {
	/* One script is to be run; keys are told without prefix and schema.  All words are
	 * copied.  False: not now, it is asked for again.  The answer comes by
	 * knowledge_front_answer, once for each tag, or knowledge_front_lost comes before. */
	bool (*run)(void *context, enum cluster_script script,
	    const struct span *keys, size_t key_count,
	    const struct span *words, size_t word_count, uint64_t tag);
	/* An answer was an error, or made no sense; what was asked comes again.  `text` may
	 * hold what the server said. */
	void (*failed)(void *context, enum cluster_error error, const char *text);
	void *context;
	const char *prefix;	/* of keys, for people; stays */
};

/* 0, or -1 with *diag: no memory.  `calls` is copied; `node`: this node's name. */
int knowledge_front_open(struct knowledge_front **front, struct engine *engine,
    const char *node, const struct knowledge_calls *calls, struct diag *diag);
void knowledge_front_close(struct knowledge_front **front);

/* This node belongs to the cluster now (its hello was accepted), and hears the channel.  All
 * is compared: what the others know, and what they do not know of us. */
void knowledge_front_joined(struct knowledge_front *front, int64_t now_ns);
/* No more.  Answers that are out never come. */
void knowledge_front_lost(struct knowledge_front *front);

/* A message of the channel. */
void knowledge_front_heard(struct knowledge_front *front, const struct generation *generation,
    const char *text, size_t length, int64_t now_ns);

/* The answer to a call; valid while this runs. */
void knowledge_front_answer(struct knowledge_front *front, const struct generation *generation,
    uint64_t tag, const struct redis_value *answer, int64_t now_ns);

/* Every 50 to 100 ms, joined or not. */
void knowledge_front_turn(struct knowledge_front *front, const struct generation *generation,
    int64_t now_ns);

/* For what of it concerns shares: engine/cluster/knowledge.h, knowledge_pools and what follows. */
struct knowledge_store *knowledge_front_store(struct knowledge_front *front);

/* --- for status ------------------------------------------------------------------------ */

struct knowledge_counts {
	uint32_t destinations;	/* of which something of a node is known */
	uint32_t divided;	/* whose ceiling is */
	uint32_t waiting;	/* records of ours that are not written yet */
	uint32_t unplaced;	/* of which nothing is done here: the table is full */
	uint32_t untried;	/* of which nothing is done here yet */
	int64_t synced_ns;	/* when all was compared last; 0: never */
};
void knowledge_front_count(const struct knowledge_front *front, struct knowledge_counts *out);

#endif
