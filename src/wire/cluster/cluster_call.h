/* SPDX-License-Identifier: ISC */
/*
 * Calls of the lease script (front/cluster/lease.lua) and its answers, sans I/O.
 *
 * A call is EVALSHA sha 3 PREFIX1:leases PREFIXschema PREFIX1:dn HEAD POOL...
 *	HEAD	"OPERATION SCHEMA NODE INSTANCE TOKEN SEQUENCE EPOCH EVENT HEARD SENT LEASE
 *		NODES NONCE OTHER", words without blanks, "-" where there is none
 *	POOL	"LIMIT VERSION STATIC HOLD NEED WANT OPEN NAME"; the name is the rest
 * OPERATION:
 *	hello	joins, and gets a token: calls with an older one do nothing from then on.  Once
 *		for each connection, before anything else
 *	share	renews the lease of the node, for all it holds, and settles each POOL; where
 *		OTHER is "tell" and less is granted than is needed, of what others have, those
 *		are told by the channel (dn): CLUSTER_NEWS_SHORT.  Where OTHER is "fresh" all that
 *		was granted to the node before is free: its state was made anew, or is older than
 *		any lease, so that it uses nothing and does not know what was recorded for it
 *	forget	takes the name OTHER, whose lease has ended, out of the cluster: its static part
 *		must be in use no more
 *	look	changes nothing: all nodes, and of each POOL who has what, or has other settings
 *		(the POOL's LIMIT and STATIC are those of the caller)
 * (None ends a lease early: a node that is stopped may be back at once, as in an upgrade, and
 * its sessions are open all the while.  Its lease ends by itself.)
 * An answer is a list: STATUS EPOCH EVENT, then what belongs to the status (cluster_answer).
 *
 * EPOCH is the life of the server's data: a server that was started again, or emptied, has
 * another, and grants nothing until all earlier grants have ended.  EVENT numbers the calls
 * of an epoch.  HEARD and SENT are CLOCK_BOOTTIME in ms: of the last answer (the one with
 * EVENT), and now.  From these the server learns how much time has gone by for certain,
 * without a clock of its own (lease.lua).
 *
 * Nothing in an answer is trusted.  No memory but the caller's; one thread.
 */
#ifndef WIRE_CLUSTER_CALL_H
#define WIRE_CLUSTER_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/cluster/redis_value.h"

#define CLUSTER_SCHEMA		1
#define CLUSTER_CHANNEL		"dn"		/* without prefix and schema */
#define CLUSTER_NEWS_SHORT	"short"		/* on it: somebody lacks places */
#define CLUSTER_TELL		"tell"
#define CLUSTER_FRESH		"fresh"
#define CLUSTER_NODE_MAX	31	/* bytes of a node's name: letters, digits, . _ - */
#define CLUSTER_NODES_MAX	64
#define CLUSTER_INSTANCE_MAX	32	/* letters and digits */
#define CLUSTER_EPOCH_MAX	16
#define CLUSTER_PREFIX_MAX	64
#define CLUSTER_POOL_NAME_MAX	300	/* with "b:", "e:" or "d:", any bytes */
#define CLUSTER_POOLS_MAX	1024	/* of one call */
#define CLUSTER_PLACES_MAX	1000000000	/* greatest limit, hold and want */

/* --- this node's end ---------------------------------------------------------------------- */

/* All zeros but node, instance, lease_ms and nodes: not joined.  Kept for the life of the
 * role: an answer of an earlier connection is as good an observation as any. */
struct cluster_link {
	char node[CLUSTER_NODE_MAX + 1];
	char instance[CLUSTER_INSTANCE_MAX + 1];
	int64_t lease_ms;
	uint32_t nodes;
	/* Of answers: cluster_answer_read writes them. */
	char epoch[CLUSTER_EPOCH_MAX + 1];
	uint64_t token;		/* 0: not joined, hello is due */
	uint64_t sequence;	/* of the last call */
	uint64_t event;
	int64_t heard_ms;
	uint64_t life;		/* of what is leased; 0: none */
};

/* Is it a name that a node may have? */
bool cluster_node_name_is_good(const char *name);

/* --- calls -------------------------------------------------------------------------------- */

struct cluster_pool {
	const char *name;	/* "b:CLASS", "e:CLASS", "d:DESTINATION", "c:DESTINATION" */
	size_t name_length;
	uint32_t limit;		/* for all nodes; of the greatest version the lowest counts */
	uint64_t version;
	uint32_t fixed;		/* static part of each node */
	uint32_t hold;		/* leased, and kept: not to be taken */
	uint32_t need;		/* leased, that others must make room for */
	uint32_t want;		/* leased, that is good to have, of free places; at least need */
	uint32_t open;		/* for look: what is in use, static part and overhang included */
};

enum cluster_operation { CLUSTER_HELLO, CLUSTER_SHARE, CLUSTER_FORGET, CLUSTER_LOOK };

/* What must be kept of a call until its answer comes: the answer is read with it. */
struct cluster_sent {
	enum cluster_operation operation;
	int64_t ms;		/* when it was sent */
	uint64_t token;
	char epoch[CLUSTER_EPOCH_MAX + 1];
	size_t pools;
};

/* Words of a call, in the caller's memory. */
struct cluster_call {
	struct cluster_sent sent;
	struct span *words;	/* the first: EVALSHA */
	size_t count, capacity;
	char *text;
	size_t length, size;
	bool full;
};
#define CLUSTER_CALL_WORDS(pools)	(7 + (pools))
#define CLUSTER_CALL_BYTES(pools)	(1024 + (size_t)(pools) * (CLUSTER_POOL_NAME_MAX + 80))

/* Begins a call at now_ms (CLOCK_BOOTTIME, read after the segment was lowered to what the
 * pools' hold says).  `nonce` is random: it names the epoch should this call begin one.
 * `other` for forget (a name) and share (CLUSTER_TELL, CLUSTER_FRESH), else NULL. */
void cluster_call_begin(struct cluster_call *call, struct cluster_link *link,
    enum cluster_operation operation, const char *sha, const char *prefix, uint64_t nonce,
    const char *other, int64_t now_ms);
/* False: no room, or no name that can be sent; the call is good without it. */
bool cluster_call_pool(struct cluster_call *call, const struct cluster_pool *pool);

/* --- answers ------------------------------------------------------------------------------ */

enum cluster_status {
	CLUSTER_OK,
	CLUSTER_AGAIN,		/* say hello again: another connection of this node, or another
				 * epoch, has taken over.  What is leased runs on until its end */
	CLUSTER_OLD,		/* a repeated or overtaken call: nothing was done */
	CLUSTER_TAKEN,		/* another instance has this name, for ms more */
	CLUSTER_FULL,		/* as many names as nodes are known */
	CLUSTER_LEASE,		/* another node has another lease (ms) */
	CLUSTER_ALIVE,		/* forget: its lease has not ended, for ms more */
	CLUSTER_NEWER,		/* the keys have a newer schema (number) */
	CLUSTER_FOREIGN,	/* our keys hold what is not ours (text) */
	CLUSTER_BAD,		/* the script did not understand the call (text), or forget: */
#define CLUSTER_NO_SUCH_NODE	"no such node"
	CLUSTER_REFUSED,	/* an error of the server: text begins with its code */
	CLUSTER_NONSENSE,	/* no answer of this script (text: what is wrong, static) */
	CLUSTER_STATUS_COUNT
};
/* "ok", "again", ... */
const char *cluster_status_word(enum cluster_status status);

/* What was settled of a pool. */
struct cluster_share {
	uint32_t granted;	/* leased to us; at most want */
	uint32_t fair;		/* new sessions only below this much leased */
	uint32_t others_short;	/* what others need and do not have */
	uint32_t limit;		/* that counts */
	uint32_t leasable;	/* of it, in all */
	uint32_t free;		/* of that, leased to nobody */
	bool differs;		/* another node has another limit, static part or number of nodes */
};

struct cluster_answer {
	enum cluster_status status;
	/* OK of hello and share. */
	bool reborn;		/* all that was leased before and is not in this answer is gone */
	uint32_t wait_ms;	/* a new epoch: nothing is granted (nor taken: what is leased
				 * runs on until its end).  0: grants hold */
	int64_t until_ms;	/* of what this answer grants, and of all that was leased before
				 * (not when reborn); 0: it grants nothing (no share, or wait_ms) */
	uint32_t nodes;		/* that counts */
	uint32_t alive;		/* nodes whose lease has not ended */
	uint32_t known;		/* nodes with a name here */
	size_t share_count;	/* as many as the call had pools, or 0 */
	/* Others. */
	uint32_t ms;		/* TAKEN, LEASE, ALIVE */
	uint64_t number;	/* NEWER: schema */
	char text[128];		/* printable ASCII: TAKEN: instance; LEASE: node; others: why */
};

/* Reads the answer to a call, heard at now_ms.  `shares` has room for sent->pools.  NULL or
 * no answer: CLUSTER_NONSENSE; whether the call was carried out is not known, and hello is
 * due on another connection. */
void cluster_answer_read(struct cluster_link *link, const struct cluster_sent *sent,
    const struct redis_value *value, int64_t now_ms,
    struct cluster_answer *answer, struct cluster_share *shares);

/* Answers of look: LISTs in the list behind EVENT. */
struct cluster_look_node {
	char name[CLUSTER_NODE_MAX + 1];
	bool alive;		/* its lease has not ended, as far as the server can know */
	uint64_t event;		/* of its last call */
	uint32_t nodes;		/* cluster.nodes of it */
};
struct cluster_look_share {
	uint32_t pool;		/* number, in the call */
	uint32_t node;		/* number, in the nodes of the answer */
	uint32_t granted, need, open;
	uint32_t limit, fixed;	/* that it has configured */
};
/* False: *answer tells why.  Counts are what was read, at most the capacities. */
bool cluster_look_read(struct cluster_link *link, const struct cluster_sent *sent,
    const struct redis_value *value, int64_t now_ms, struct cluster_answer *answer,
    struct cluster_look_node *nodes, size_t *node_count, size_t node_capacity,
    struct cluster_look_share *shares, size_t *share_count, size_t share_capacity);

#endif
