/* SPDX-License-Identifier: ISC */
/*
 * This node's shares of limits that hold for all nodes of a cluster (scope = "cluster" of a
 * class; law: policy/window/share.h).
 *
 * A node may use the part that is fixed (the configuration's, for good) and what is leased
 * until share_until_ns (CLOCK_BOOTTIME), which is read under the class's lock at each
 * decision; the clock is read then, too, not before.  Only the role `cluster` raises what
 * is leased, after the server has written it down; it lowers it here first and tells the
 * server then.  Whatever dies in between, the server's record is never less than what the
 * node may use.
 *
 * Nothing leased outlives the segment, the class's being shared, or the node's identity
 * (cluster.node, .redis, .prefix, .nodes, .lease, .fraction): then it is leased anew.
 */
#ifndef ENGINE_SHARES_H
#define ENGINE_SHARES_H

#include "engine/engine.h"
#include "policy/window/share.h"

enum share_state {
	SHARE_LEASED,		/* `leased` counts until until_ns */
	SHARE_ENDED,		/* only `fixed` does */
	SHARE_ALONE,		/* the whole limit does (cluster.when_unreachable = "alone"): be loud */
};

/* What a decision says of it. */
static inline enum lease share_lease(enum share_state state) {
	return state == SHARE_LEASED ? LEASE_HELD : LEASE_ENDED;
}

/* A class that is shared, as it is now. */
struct share_class {
	uint32_t class_index;		/* in the generation */
	const char *name;		/* of the generation */
	enum share_state state;
	struct share_pools whole;	/* the limits of all nodes together */
	struct share_pools fixed;
	struct share_pools leased;	/* 0, 0 unless SHARE_LEASED */
	struct share_pools most;	/* of those, up to which something new is let in */
	int64_t until_ns;		/* 0: nothing was leased yet */
	uint32_t open;			/* of the class, both directions */
	uint32_t open_small;		/* of the direction with the smaller limit */
	uint32_t overhang;		/* of `open`, above fixed + leased (0 when ALONE) */
	/* Decisions that the share, not the limit, spoke against (observed ones too), and other
	 * signs of demand, since the record was made: of the direction with the smaller limit,
	 * and of the other. */
	uint64_t refused_small, refused_other;
};

/* Calls `each` for every shared class of the generation, in its order; returns how many
 * there are.  No lock: what it says may be some instants old.  Any thread. */
unsigned shares_each(const struct engine *engine, const struct generation *generation,
    int64_t now_ns, void (*each)(void *context, const struct share_class *), void *context);

/* Lowers what is leased to `to`, but not below what is open (policy/window/share.h: share_least), and
 * never raises it; *held: what the node keeps, which is what may be told to the server:
 * 0, 0 where the lease has ended.  False: the class's lock was not to be had in time, or its
 * record is another's by now: nothing was changed, *held is 0, 0 and means nothing; tell the
 * server nothing of it.  The role `cluster`, one thread; no lock may be held. */
bool shares_lower(struct engine *engine, const struct generation *generation,
    uint32_t class_index, struct share_pools to, int64_t now_ns, struct share_pools *held);

/* What the server wrote down for this node: leased until until_ns (the CLOCK_BOOTTIME when the
 * request was sent, plus share_use_ms of the lease); nothing new is let in above `most` of it
 * (what is fair; share_pools of UINT32_MAX: all of it).  False: as shares_lower, or the class has
 * left the scope meanwhile; the server's record is more than what the node uses then, which is
 * safe.  Errors beyond that: none; more than the whole limit is cut.  The role `cluster`, one
 * thread; no lock may be held. */
bool shares_grant(struct engine *engine, const struct generation *generation,
    uint32_t class_index, struct share_pools leased, struct share_pools most,
    int64_t until_ns, int64_t now_ns);

/* What the server said beside it: `whole` counts of the limits of all nodes, for those who look.
 * As shares_grant. */
void shares_told(struct engine *engine, const struct generation *generation,
    uint32_t class_index, struct share_pools whole, int64_t now_ns);

/* A class that left the scope, of which the server was not told yet: by a reload or a restart,
 * maybe in an earlier life of the role. */
struct share_parted {
	char name[SEGMENT_NAME_MAX + 1];
	uint16_t record;
	uint64_t number;	/* when */
};
bool shares_any_parted(const struct engine *engine);
/* At most `most` of them; returns how many. */
unsigned shares_parted(struct engine *engine, int64_t now_ns, struct share_parted *out,
    unsigned most);
/* What was leased to it is given back.  If it came back and left once more meanwhile it is to
 * be given back again. */
void shares_gave_back(struct engine *engine, const struct share_parted *parted);

/* Others are there, but do not take this node: it does not go on alone (SHARE_ALONE) before
 * another lease has gone by without a word of them.  The role `cluster`. */
void shares_not_alone(struct engine *engine, const struct generation *generation,
    int64_t now_ns);

/* Does anything count that was leased, of classes or destinations?  If not, nothing will before
 * the role has raised it. */
bool shares_are_leased(const struct engine *engine, int64_t now_ns);

/* Who leases: a random word, made with the segment and carried to one that is made of it anew
 * on the same boot; to be told to the server as the node's instance. */
#define SHARES_INSTANCE_MAX	17
const char *shares_instance(const struct engine *engine, char out[SHARES_INSTANCE_MAX]);

#ifdef WITH_CLUSTER
/* One of them; false: the class is not shared. */
bool shares_look(const struct engine *engine, const struct generation *generation,
    uint32_t class_index, int64_t now_ns, struct share_class *out);
#else
static inline bool shares_look(const struct engine *engine, const struct generation *generation,
    uint32_t class_index, int64_t now_ns, struct share_class *out) {
	(void)engine, (void)generation, (void)class_index, (void)now_ns, (void)out;
	return false;
}
#endif

#endif
