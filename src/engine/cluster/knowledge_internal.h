/* SPDX-License-Identifier: ISC */
/* What the files of a cluster's knowledge share: knowledge.c (who said what),
 * knowledge_look.c (what changed here), knowledge_apply.c (what is put here),
 * knowledge_pools.c (ceilings that are divided), knowledge_wants.c (how much of one is used
 * and wanted here). */
#ifndef ENGINE_KNOWLEDGE_INTERNAL_H
#define ENGINE_KNOWLEDGE_INTERNAL_H

#include "base/clock.h"
#include "engine/hints/hints_internal.h"
#include "engine/cluster/knowledge.h"
#include "engine/destination/windows_internal.h"
#include "segment/destination/shared.h"

/* What stands in a destination's slot, as far as nodes tell each other. */
struct knowledge_stand {
	bool stopped, by_hand, held;
	int64_t until_ns;
	uint16_t ceiling;
	bool told;			/* the ceiling, by hand */
	int64_t resumed_ns;
};

/* A resume of something that nobody told us of is ours for so long. */
#define KNOWLEDGE_FRESH_NS	(10 * NS_PER_SECOND)

struct knowledge_entry {
	uint64_t hash;
	char name[SEGMENT_NAME_MAX + 1];	/* "": the place is free */
	uint32_t life;			/* rises with each use of the place */
	uint8_t count, size;
	/* One of each node that said something, in the order of their names: where two stamps
	 * are equal, all nodes see the same first. */
	struct knowledge_told *told;
	bool is_known;			/* `stand` is what stood there when it was looked at */
	bool applies;			/* it is to be put into the segment */
	bool unplaced;			/* it was not: the segment's table was full */
	bool dirty;			/* our record is to be written */
	bool listed;			/* and was found written, as all were heard */
	int64_t sent_ns;		/* it was written last */
	int64_t used_ns;
	struct knowledge_stand stand;
	struct knowledge in_force;	/* what was put there, or is there by ourselves */
	uint8_t ceiling_node;		/* whose; 0: ours, or nobody's */
	uint16_t here;			/* ceiling that stands in the segment, whoever said it */
	/* its ceiling, divided (knowledge_pools.c) */
	uint32_t most;			/* the limit of its settings, if that is for all; 0: none */
	uint64_t most_of;		/* generation that it was looked up in, */
	int64_t most_ns;		/* and when */
	uint32_t limit;			/* as it was divided */
	bool divided;
	bool canary_granted;
	bool asks, canary_asks;		/* the last call, or the one that is being made, wants some; */
	bool counts, canary_counts;	/* the server may count on that still */
	uint32_t others_short;		/* what other nodes want and do not have, */
	uint32_t spare;			/* and what nobody has */
	uint16_t granted, fair;		/* leased places: recorded for us; to be used anew */
	uint16_t peak;			/* the most in use of late, */
	int64_t peak_ns;		/* at that time */
	int64_t busy_ns;		/* somebody wanted a place, or had one, last */
	int64_t had_ns;			/* some were leased, last */
	int64_t refused_ns;		/* a queue run found none; 0: one took a place since */
	uint16_t told_share;		/* lanes may have been told of so many places, */
	int64_t told_until_ns;		/* and somebody may believe it until then */
};

struct knowledge_store {
	struct engine *engine;
	char node[SHARED_NODE_NAME_MAX + 1];
	unsigned own;			/* number of this node */
	unsigned stamp_node;		/* what its stamps end with */
	struct map places;		/* hash to index */
	struct knowledge_entry *entries;
	uint32_t count, size;		/* used from the begin on; places of free ones among them */
	uint32_t used, records;
	uint32_t hand;			/* where room is looked for */
	uint32_t next_dirty, next_renewed;
	uint32_t dirties, applies, unplaced;
	uint64_t last_stamp;
	bool begun;			/* what an earlier life left was looked at */
	bool heard;			/* all that the others know, once at least, */
	int64_t heard_ns;		/* since then */
	int64_t now_ns;
	int64_t pools_ns;		/* when ceilings were looked at last */
	uint32_t pools_from;		/* where a call begins, as one may not say all; */
	uint32_t pools_next;		/* and the one after it */
	const struct generation *generation;
	char pool_names[KNOWLEDGE_POOLS_MAX][SEGMENT_NAME_MAX + 3];
};

/* Is it a destination that nodes tell each other of?  Then *owner is its own. */
bool knowledge_is_shared(const struct generation *generation, const char *name, size_t length,
    struct window_owner *owner);

/* The entry of a name; `make`: made if need be.  NULL: there is none, or no room. */
struct knowledge_entry *knowledge_entry(struct knowledge_store *store, const char *name,
    bool make);
/* The record of a node; NULL: as above. */
struct knowledge_told *knowledge_record_of(struct knowledge_store *store,
    struct knowledge_entry *entry, unsigned node, bool make);
void knowledge_put(const struct knowledge_entry *entry, int64_t now_ns,
    struct knowledge *out);
/* Who said what has this stamp; NULL: nobody. */
const struct knowledge_told *knowledge_origin(const struct knowledge_entry *entry,
    uint64_t stamp);
void knowledge_set_dirty(struct knowledge_store *store, struct knowledge_entry *entry);
void knowledge_set_applies(struct knowledge_store *store, struct knowledge_entry *entry,
    bool applies);
void knowledge_set_unplaced(struct knowledge_store *store, struct knowledge_entry *entry,
    bool unplaced);

/* --- knowledge_look.c ------------------------------------------------------------------ */

struct knowledge_stand knowledge_stand_of(const struct destination_state *state,
    int64_t now_ns);
bool knowledge_same_stand(const struct knowledge_stand *a, const struct knowledge_stand *b);
void knowledge_look_at(struct knowledge_store *store, const struct destination_window *window);
void knowledge_look(struct knowledge_store *store, int64_t now_ns);
/* The same while nobody was heard yet: only that ceilings are divided. */
void knowledge_look_alone(struct knowledge_store *store, int64_t now_ns);

/* --- knowledge_apply.c ------------------------------------------------------------------ */

void knowledge_apply(struct knowledge_store *store, struct knowledge_entry *entry,
    int64_t now_ns);

/* --- knowledge_wants.c ------------------------------------------------------------------ */

struct knowledge_use {
	struct knowledge_store *store;
	struct knowledge_entry *entry;
	const struct generation *generation;
	struct destination_window found;
	bool known;
	uint32_t limit, fixed, alone;
	uint32_t leasable;	/* of all nodes together */
	uint32_t used;		/* places, for certain no more */
	uint32_t busy;		/* of them, as far as is known */
	bool certain;		/* false: lanes have not seen the share of now */
	int64_t now_ns;
};

/* May the server count on something that this node had, or wanted? */
static inline bool knowledge_is_counted(const struct knowledge_entry *entry) {
	return entry->granted > 0 || entry->counts || entry->canary_granted ||
	    entry->canary_counts;
}

/* Leased places that may be used. */
static inline uint32_t knowledge_leased_here(const struct knowledge_entry *entry) {
	return entry->granted < entry->fair ? entry->granted : entry->fair;
}

/* Is there a Postfix that is told lanes? */
bool knowledge_has_lanes(const struct generation *generation);
/* The limit that its settings give all nodes together; 0: none. */
uint32_t knowledge_configured(struct knowledge_store *store, const struct window_owner *owner);
/* The limit that holds for all nodes together; 0: none. */
uint32_t knowledge_limit(struct knowledge_store *store, struct knowledge_entry *entry,
    int64_t now_ns);
/* Of u->entry, by u->store, u->generation and u->now_ns. */
void knowledge_use_look(struct knowledge_use *u);
/* Does anybody wait for a place? */
bool knowledge_is_asked(const struct knowledge_use *u);
/* Places that it could use, static part and all. */
uint32_t knowledge_wanted(struct knowledge_use *u);
/* Nobody asked for anything, and there is nothing to give back. */
bool knowledge_is_quiet(const struct knowledge_store *store,
    const struct knowledge_entry *entry, uint32_t limit, int64_t now_ns);
/* So long a node is to have its turn of a canary that it asked for. */
#define KNOWLEDGE_CANARY_ASKED_NS	(5 * NS_PER_SECOND)

/* --- knowledge_pools.c ------------------------------------------------------------------ */

/* Its entry in the segment; `make`: made if need be.  NULL: there is none, or no room. */
struct shared_slot *knowledge_slot(struct knowledge_store *store,
    struct knowledge_entry *entry, bool make);
/* The ceiling of one that came, changed or went. */
void knowledge_divide(struct knowledge_store *store, struct knowledge_entry *entry,
    int64_t now_ns);
/* The same of all; now and then. */
void knowledge_pools_turn(struct knowledge_store *store, int64_t now_ns);
/* Those of an earlier life of the role. */
void knowledge_pools_begin(struct knowledge_store *store);

#endif
