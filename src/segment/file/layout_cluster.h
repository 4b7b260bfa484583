/* SPDX-License-Identifier: ISC */
/*
 * What the cluster role tells of itself and of the other nodes, for whoever reads the
 * segment.  One writer (cluster_told.h); shares themselves are in the classes' records.
 */
#ifndef SEGMENT_LAYOUT_CLUSTER_H
#define SEGMENT_LAYOUT_CLUSTER_H

#include <stdatomic.h>
#include <stdint.h>

enum cluster_error {
#define CLUSTER_ERROR(symbol, word, kind, text) CLUSTER_ERROR_##symbol,
#include "defs/cluster_errors.def"
#undef CLUSTER_ERROR
	CLUSTER_ERRORS
};

enum cluster_state {
	CLUSTER_STATE_OFF,		/* there is no cluster block */
	CLUSTER_STATE_CONNECTING,	/* to Redis; what was leased still holds */
	CLUSTER_STATE_REFUSED,		/* Redis or the other nodes do not take us: `error` says why */
	CLUSTER_STATE_WAITING,		/* joined; nothing is granted until a new epoch is old enough */
	CLUSTER_STATE_JOINED,
	CLUSTER_STATE_WITHOUT,		/* no word for so long that nothing is leased any more */
	CLUSTER_STATE_COUNT
};

/* What became of an order (posternctl cluster forget). */
enum cluster_outcome {
	CLUSTER_OUTCOME_DONE,
	CLUSTER_OUTCOME_ALIVE,		/* its lease has not ended */
	CLUSTER_OUTCOME_UNKNOWN,	/* there is no such node */
	CLUSTER_OUTCOME_ITSELF,		/* it is this one */
	CLUSTER_OUTCOME_FAILED,		/* this one has not joined, or no more */
	CLUSTER_OUTCOME_UNSURE,		/* it was done or not: the answer is lost */
	CLUSTER_OUTCOMES
};

#define CLUSTER_TOLD_NODES	64
#define CLUSTER_TOLD_NAME	32	/* of a node, with its NUL */
#define CLUSTER_TOLD_CELLS	1024	/* leases of a node in a class that are told of */

/* Times are of clock_now_ns; 0: never. */
struct cluster_told_node {
	char name[CLUSTER_TOLD_NAME];
	int64_t word_ns;		/* when a call of it was noticed last, by our looks */
	uint64_t event;			/* number of its last call */
	uint32_t alive;			/* 1: its lease has not ended */
	uint32_t itself;		/* 1: this machine */
};

/* What is leased to a node of a class: base and extra as in policy/window/share.h. */
struct cluster_told_cell {
	uint16_t class_record;		/* number of its record */
	uint16_t node;			/* of nodes[] */
	uint32_t leased_base;
	uint32_t leased_extra;
	uint32_t want_base;
	uint32_t want_extra;
	uint32_t open;			/* sessions, as it said */
	uint32_t limit_base;		/* as it has configured them */
	uint32_t limit_extra;
};

struct cluster_told {
	uint32_t state;			/* enum cluster_state */
	uint32_t error;			/* enum cluster_error + 1 of the last failure; 0: none */
	int64_t since_ns;		/* it is in this state */
	int64_t told_ns;		/* when this was written, each second */
	int64_t renewed_ns;		/* the last answer that granted or renewed */
	int64_t until_ns;		/* what is leased ends then */
	int64_t error_ns;		/* of the last failure */
	int64_t next_ns;		/* when it is tried again, while there is no connection */
	int64_t wait_until_ns;		/* WAITING: until then */
	char why[192];			/* what the last failure said, for people; printable */
	char server[96];		/* its address, as configured */
	char epoch[32];
	char differs[88];		/* a class of which other nodes have other limits, or "" */
	char differs_why[192];		/* which node, and what of it; "": not known yet */
	uint64_t commands;		/* of the role's life, sent to Redis */
	uint64_t rounds;		/* answered calls of the segment's life */
	uint64_t round_median_us;	/* of the last calls; 0: none yet */
	uint64_t round_p99_us;
	uint64_t errors[CLUSTER_ERRORS];	/* of the segment's life */
	uint64_t order_number;		/* of the last order that was dealt with */
	uint64_t order_outcome;		/* enum cluster_outcome */
	uint64_t hears;			/* 1: news of destinations come in */
	uint64_t destinations;		/* of which something of a node is known */
	uint64_t divided;		/* those whose ceiling is */
	uint64_t unwritten;		/* records of ours that Redis does not have yet */
	uint64_t unplaced;		/* destinations that others told of, and the table is full */
	int64_t compared_ns;		/* when all was compared with Redis last */
	uint64_t lost;			/* 1: WAITING, as the server has lost what it had */
	uint64_t alone;			/* 1: a class goes by its whole limit (cluster.when_unreachable) */
	uint32_t nodes_known;		/* with a name in the cluster, as the server says */
	uint32_t nodes_alive;		/* whose lease has not ended */
	uint32_t node_count;
	uint32_t cell_count;
	struct cluster_told_node nodes[CLUSTER_TOLD_NODES];
	struct cluster_told_cell cells[CLUSTER_TOLD_CELLS];
};
_Static_assert(sizeof(struct cluster_told) % 8 == 0, "whole words");
#define CLUSTER_TOLD_WORDS	(sizeof(struct cluster_told) / 8)

struct cluster_record {
	_Atomic uint64_t seq;		/* odd while it changes */
	_Atomic uint64_t words[CLUSTER_TOLD_WORDS];
};

/* What the role is asked to do by hand: take a node out of the cluster. */
#define CLUSTER_ORDER_WORDS	(CLUSTER_TOLD_NAME / 8)
struct cluster_order {
	_Atomic uint64_t number;	/* of the last order; odd while it changes */
	_Atomic uint64_t name[CLUSTER_ORDER_WORDS];
	_Atomic uint64_t uid;		/* who asked for it */
};

#endif
