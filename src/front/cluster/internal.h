/* SPDX-License-Identifier: ISC */
/* What the files of the cluster role share. */
#ifndef FRONT_CLUSTER_INTERNAL_H
#define FRONT_CLUSTER_INTERNAL_H

#include <sys/types.h>

#include "config/generation/generation.h"
#include "engine/engine.h"
#include "engine/cluster/knowledge.h"
#include "engine/cluster/shares_turn.h"
#include "front/cluster/cluster.h"
#include "front/cluster/knowledge.h"
#include "front/cluster/server.h"
#include "segment/file/layout.h"
#include "wire/cluster/cluster_call.h"

#define ROUNDS		256	/* the last calls, for their median */
#define PARTED_MAX	128	/* of a call; others come with the next one */
#define POOLS_MAX	(2 * SHARES_CLASSES_MAX + KNOWLEDGE_POOLS_MAX + 2 * PARTED_MAX)
#define POOL_NAME_BYTES	(SEGMENT_NAME_MAX + 3)	/* "d:NAME" */
#define RUNS_MAX	32	/* scripts of the knowledge that wait */

/* The call that is out. */
struct call {
	bool out;
	struct cluster_sent sent;
	const struct generation *generation;	/* pinned, while it is out */
	int64_t sent_ns;
	unsigned members[SHARES_CLASSES_MAX];	/* of turns.members, in the order of pools */
	unsigned member_count;
	struct share_parted parted[PARTED_MAX];	/* its last pools: nothing is kept */
	unsigned parted_count;
	size_t knowledge_count;
	struct knowledge_pool knowledge[KNOWLEDGE_POOLS_MAX];	/* without their names */
	char other[CLUSTER_NODE_MAX + 1];	/* forget */
};

struct cluster {
	struct engine *engine;
	const struct cluster_setup *setup;
	struct event_base *base;
	struct event *tick;
	struct server *server;
	struct knowledge_front *knowledge;
	const struct generation *started;	/* pinned: what the role began with */
	const char *prefix;
	char channel[CLUSTER_PREFIX_MAX + 16];
	struct cluster_link link;
	bool greets;			/* hello is due */
	bool belongs;			/* it was accepted, by this connection, */
	bool answered;			/* and a share was answered since then */
	bool hears;
	bool knowledge_joined;
	struct shares_turns turns;
	struct call call;
	unsigned agains;		/* in a row: another connection of this node took over */
	int64_t shared_ns;		/* when the last share was sent; 0: none since hello */
	int64_t looked_ns;
	bool looked;			/* since a class of other settings was noticed */
	int64_t greeted_ns;
	int64_t began_ns;
	uint64_t ordered;		/* number of the last order that was seen, */
	uid_t ordered_by;		/* and who gave it */
	unsigned runs;			/* of the knowledge, that wait */
	/* what is told */
	struct cluster_told told;
	int64_t told_ns;
	int64_t beat_ns;
	bool news;			/* it is to be told at once */
	int64_t complained_ns;		/* of the error that is told of in the log */
	uint32_t complained_of;
	int64_t alone_ns;
	int64_t refused_ns;		/* the password is refused since then; 0: it is not */
	bool password_was_taken;	/* once */
	int64_t file_looked_ns;		/* whether its file is another one */
	uint64_t reload_seen;		/* generation for which that was looked at */
	uint64_t commands;
	uint32_t rounds_us[ROUNDS];
	unsigned round_count;		/* ever */
	char differed[192];		/* what was logged of settings that differ */
	bool was_full;			/* it was logged that the table is */
	bool placed;			/* all that others say was tried here once */
	bool ended;			/* root has to read something */
	struct cluster_look_node look_nodes[CLUSTER_NODES_MAX];
	struct cluster_look_share look_shares[2 * CLUSTER_TOLD_CELLS];
	struct span words[CLUSTER_CALL_WORDS(POOLS_MAX)];
	char text[CLUSTER_CALL_BYTES(POOLS_MAX)];
	struct cluster_share shares[POOLS_MAX];
};

/* calls.c: one at a time, while none is out. */

/* Looks at the classes and takes their turn. */
void cluster_members_turn(struct cluster *cluster, const struct generation *generation,
    int64_t now_ns);
/* Sends what is due, if anything is. */
void cluster_call_turn(struct cluster *cluster, const struct generation *generation,
    int64_t now_ns);

/* look.c: the other nodes. */

void cluster_look(struct cluster *cluster, const struct generation *generation,
    int64_t now_ns);
void cluster_looked(struct cluster *cluster, const struct redis_value *value, int64_t now_ns);
/* What was asked for by hand. */
void cluster_take_order(struct cluster *cluster);
/* What came of the order (`ordered`, of the node `name`): for the log, and for who asked. */
void cluster_end_order(struct cluster *cluster, const char *name, enum cluster_outcome outcome);
void cluster_forgot(struct cluster *cluster, const struct cluster_answer *answer);

/* calls.c, for look.c. */

/* Begins a call of no pools, in the cluster's memory. */
struct cluster_call cluster_call_new(struct cluster *cluster, enum cluster_operation operation);
/* Two pools: those of a class, of which `held` is kept. */
void cluster_call_member(struct cluster *cluster, struct cluster_call *words, unsigned member,
    struct share_pools held);
void cluster_call_send(struct cluster *cluster, const struct cluster_call *words,
    const struct generation *generation);
/* It does not take us: the connection ends, and is tried again later. */
void cluster_refused(struct cluster *cluster, const struct cluster_answer *answer);

/* cluster.c */

/* We do not belong to the others any more, until the next hello. */
void cluster_apart(struct cluster *cluster);

/* state.c: what is told of it. */

/* Something went wrong: counts it, and logs it where it is new, or a minute old. */
void cluster_failed(struct cluster *cluster, enum cluster_error error, const char *text,
    int64_t now_ns);
/* A share was answered: all is well. */
void cluster_worked(struct cluster *cluster);
void cluster_round(struct cluster *cluster, int64_t took_ns);
/* What state it is in, by what it has and when; writes it into the segment when it is new, or
 * a second old. */
void cluster_tell(struct cluster *cluster, int64_t now_ns);

#endif
