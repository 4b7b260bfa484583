/* SPDX-License-Identifier: ISC */
/*
 * What the nodes of a cluster know of destinations, as far as it matters here: what each
 * said last (policy/window/knowledge.h puts it together), what of it stands in the segment, and
 * what of this node's own the others have still to be told.
 *
 * What stands in a destination's slot is either ours or what was put there for another
 * node; which, is known by comparing it with what was put there.  So nothing that came from
 * another node is ever told as our own.
 *
 * Bounded: KNOWLEDGE_DESTINATIONS destinations, KNOWLEDGE_RECORDS records; what does not fit
 * is left to each node (counted).  What a node may not tell of another's: classes, recipients,
 * relays on a loopback address, providers that are not configured here.
 *
 * One thread: the cluster role's.
 */
#ifndef ENGINE_KNOWLEDGE_H
#define ENGINE_KNOWLEDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"
#include "engine/engine.h"
#include "policy/window/knowledge.h"

#define KNOWLEDGE_DESTINATIONS	10000
#define KNOWLEDGE_RECORDS	40000

struct knowledge_store;

/* Is it a destination that nodes tell each other of?  Any thread. */
#ifdef WITH_CLUSTER
bool knowledge_tells_of(const struct generation *generation, const char *name, size_t length);
#else
static inline bool knowledge_tells_of(const struct generation *generation, const char *name,
    size_t length) {
	(void)generation, (void)name, (void)length;
	return false;
}
#endif

/* 0, or -1 with *diag: no memory.  `node`: this node's name. */
int knowledge_open(struct knowledge_store **store, struct engine *engine, const char *node,
    struct diag *diag);
void knowledge_close(struct knowledge_store **store);

/* --- from others ------------------------------------------------------------------- */

enum knowledge_heard {
	KNOWLEDGE_TAKEN,	/* new, or as it was known */
	KNOWLEDGE_BAD_NAME,	/* no destination that a node may tell of */
	KNOWLEDGE_BAD_NODE,
	KNOWLEDGE_BAD_STAMP,	/* too far ahead of all that was heard */
	KNOWLEDGE_NO_ROOM,
};
/* A record, with its times on our clock.  One of this very node is what an earlier life of
 * the role wrote; parts of it that are newer than what we know become ours again.  It is put
 * into the segment by knowledge_turn. */
enum knowledge_heard knowledge_hear(struct knowledge_store *store,
    const struct generation *generation, const char *node, size_t node_length,
    const char *name, size_t name_length, const struct knowledge_told *told, int64_t now_ns);

/* All that others know was heard (again): `all`: from the beginning, so that records of ours
 * that were not among it are to be written again.  What had no place in the segment is tried
 * once more.  Before the first time nothing in the segment is taken for our own. */
void knowledge_begin_hearing(struct knowledge_store *store);
void knowledge_heard_all(struct knowledge_store *store, bool all, int64_t now_ns);

/* --- here ---------------------------------------------------------------------------- */

/* Looks at what changed in the segment, and changes there what the others say. */
void knowledge_turn(struct knowledge_store *store, const struct generation *generation,
    int64_t now_ns);

/* The next record of ours that is to be written; false: none is, for now.  It counts as
 * written until knowledge_again.  `name` is valid until anything else is called. */
struct knowledge_own {
	const char *name;
	const struct knowledge_told *told;
	int64_t live_ms;	/* how long others must be able to find it */
	uint32_t entry;		/* for knowledge_again */
	uint32_t life;
};
bool knowledge_next(struct knowledge_store *store, int64_t now_ns, struct knowledge_own *out);
/* It was not written. */
void knowledge_again(struct knowledge_store *store, uint32_t entry, uint32_t life,
    int64_t now_ns);

struct knowledge_numbers {
	uint32_t destinations, records, waiting, divided;
	uint32_t unplaced;	/* known, but the segment's table was full */
	uint32_t untried;	/* known, and not put there yet */
};
void knowledge_count(const struct knowledge_store *store, struct knowledge_numbers *out);

/* --- ceilings that are divided --------------------------------------------------------- */

/* One pool that something is to be asked of, or given back to. */
struct knowledge_pool {
	const char *name;	/* "d:NAME": places; "c:NAME": who may send a canary */
	uint32_t limit;
	uint64_t version;
	uint32_t fixed;		/* static part of each node */
	uint32_t hold, want;	/* leased parts */
	uint32_t entry, life;
	bool canary;
};
#define KNOWLEDGE_POOLS_MAX	256
/* What a call is to say, at most `most`: the segment uses no more than `hold` of each from
 * now on.  `due`: a call is worth sending now for them alone.  Names are valid until anything
 * else is called. */
size_t knowledge_pools(struct knowledge_store *store, const struct generation *generation,
    int64_t now_ns, struct knowledge_pool *out, size_t most, bool *due);
/* All of it was sent. */
void knowledge_asked(struct knowledge_store *store);
/* What was answered; the lease ends at until_ns.  `spare`: places that are leased to nobody. */
void knowledge_granted(struct knowledge_store *store, const struct generation *generation,
    uint32_t entry, uint32_t life, bool canary, uint32_t granted, uint32_t fair,
    uint32_t others_short, uint32_t spare, int64_t until_ns, int64_t now_ns);
/* All that is leased, whether the call said anything of it or not, is until then. */
void knowledge_leased(struct knowledge_store *store, int64_t until_ns);
/* All that was granted earlier is gone but for what this answer says. */
void knowledge_reborn(struct knowledge_store *store, const struct generation *generation,
    int64_t now_ns);

#endif
