/* SPDX-License-Identifier: ISC */
/*
 * Destinations that the nodes of a cluster share: which part of a ceiling is this node's,
 * whether it may try more (a canary), from which node a suspension or a ceiling came.
 * A small table beside that of destinations, by the hash of the name (state_key.hash).
 *
 * The cluster role alone makes, changes and removes entries: one process, one thread.
 * A share that is to bind those who ask is lowered inside a state_lock of the destination;
 * whoever takes a place reads it inside one.  All others read without locks; an entry that
 * changes hands meanwhile is told as none.
 */
#ifndef SEGMENT_SHARED_H
#define SEGMENT_SHARED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "segment/file/layout_shared.h"

struct segment;

#define SHARED_NO_SHARE	UINT16_MAX	/* it is not divided */

struct shared_seen {
	bool known;
	uint16_t share;		/* places of this node until until_ns, or SHARED_NO_SHARE */
	uint16_t alone;		/* from then on, until there is another lease */
	int64_t until_ns;	/* of this node's lease: the same for all */
	uint32_t serial;	/* rises with each change of the share */
	uint16_t lanes, wanted;	/* that lanes use, and could; as of lanes_serial */
	uint32_t lanes_serial;
	int64_t asked_ns;	/* a place more was wanted, the last time; 0: never */
	int64_t canary_ns;	/* until then this node may send one; 0: it may not */
	int64_t canary_asked_ns;
	uint8_t hold_node, ceiling_node;	/* whose it is: SHARED_OURS, or 1 + number */
	uint16_t ceiling;	/* as it came from there */
	int64_t hold_until_ns;	/* the same; of 0.1 s */
	uint64_t hold_id;	/* of the decision there (decisions.h); 0: not known */
	uint8_t hold_by;	/* enum decided_by; DECIDED_BY_OTHERS: only that it is theirs */
};
#define SHARED_OURS	0

/* How many deliveries may run at once by the share; UINT32_MAX: it is not divided. */
static inline uint32_t shared_most(const struct shared_seen *seen, int64_t now_ns) {
	if (!seen->known || seen->share == SHARED_NO_SHARE)
		return UINT32_MAX;
	return now_ns < seen->until_ns ? seen->share : seen->alone;
}
/* What others may have of a ceiling: by so much a level here is higher in the cluster. */
static inline uint32_t shared_others(const struct shared_seen *seen, uint32_t ceiling,
    int64_t now_ns) {
	uint32_t most = shared_most(seen, now_ns);

	return most < ceiling ? ceiling - most : 0;
}

/* --- anybody --------------------------------------------------------------------- */

/* Is there any entry at all? */
bool shared_is_used(const struct segment *segment);

/* False: there is no such entry. */
bool shared_find(const struct segment *segment, uint64_t hash, struct shared_seen *out);

/* The name of a node (1 ...), printable; "" where there is none. */
const char *shared_node_name(const struct segment *segment, unsigned node,
    char out[SHARED_NODE_NAME_MAX + 1]);

/* More is wanted than the share, or mail waits for a place. */
void shared_ask(const struct segment *segment, uint64_t hash, int64_t now_ns);
/* A canary would go now, if it were this node's turn. */
void shared_ask_canary(const struct segment *segment, uint64_t hash, int64_t now_ns);
/* So many places do lanes use, and could they use, of a share of this serial or a later
 * one.  By the process that makes hints. */
void shared_tell_lanes(const struct segment *segment, uint64_t hash, uint32_t used,
    uint32_t wanted, uint32_t serial);

/* --- the cluster role -------------------------------------------------------------- */

/* The entry, made if need be.  NULL: its bucket is full. */
struct shared_slot *shared_take(struct segment *segment, uint64_t hash);
void shared_drop(struct segment *segment, uint64_t hash);

/* SHARED_NO_SHARE: it is not divided (any more). */
void shared_set_share(struct shared_slot *slot, uint32_t share, uint32_t alone);
/* The lease of this node ends then: from then on `alone` counts of each. */
void shared_set_until(const struct segment *segment, int64_t until_ns);
/* Any process. */
int64_t shared_until(const struct segment *segment);
void shared_set_canary(struct shared_slot *slot, int64_t until_ns);
void shared_set_hold(struct shared_slot *slot, unsigned node, int64_t until_ns);
/* Which decision of that node it is, and by what: just behind the one before. */
void shared_set_decision(struct shared_slot *slot, uint64_t id, unsigned by);
void shared_set_ceiling(struct shared_slot *slot, unsigned node, uint32_t ceiling);

/* The number of a node (1 ...), noted if need be; 0: there are too many, or it is no
 * name. */
unsigned shared_node(struct segment *segment, const char *name, size_t length);
/* Makes room for names: forgets those that no entry refers to.  Numbers that anybody still has
 * are another's from then on, so only before any was asked for. */
void shared_forget_nodes(struct segment *segment);
/* The same of this node, which takes the place of another one if it has to. */
unsigned shared_node_own(struct segment *segment, const char *name, size_t length);

/* Calls `each` for all entries, with their hashes. */
void shared_each(const struct segment *segment,
    void (*each)(void *context, uint64_t hash, const struct shared_seen *), void *context);

/* --- for segment/ only --------------------------------------------------------------- */

/* Bytes that a table of so many buckets (a power of two) takes. */
uint64_t shared_bytes(uint32_t buckets);
/* After an adoption: only that nobody is misled by what makes no sense. */
void shared_scrub(struct segment *segment);

#endif
