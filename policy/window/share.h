/* SPDX-License-Identifier: ISC */
/*
 * Limits that hold for several machines (nodes) together: what of them one node may use,
 * should hold and could want.
 *
 * THE LAW.  A class with the limits `inbound` and `sessions` for all nodes has two nested
 * pools: base = the smaller of them, extra = what the greater has more.  A node's part of a
 * pool is
 *	static	always its own, needs nobody: floor(pool * percent / 100 / nodes), at least
 *		1 where the pool has 2 a node or more
 *	leased	granted by the server for a time.  The server grants of each pool at most
 *		pool - nodes * static in all.
 * With n = open sessions of the class on this node, a and e its parts of base and extra: a
 * session of the direction with the smaller limit is admitted while n < a, one of the other
 * while n < a + e.  So of all nodes at most the greater limit is open, and of the one
 * direction at most the smaller.
 *
 * The law holds for as many machines as `nodes`, each with a name of its own.  One too many,
 * or a second one by a name, is not taken by the server (full, taken), which is loud, and has
 * its static part all the same, nothing else.  For that part needs nobody: a machine that
 * cannot ask would use it anyway, so that taking it away by an answer would hold no law; most
 * often such a machine stands where a dead one stood, whose part nobody uses; and without it
 * all its mail would wait for people.  So each machine too many adds at most percent / nodes
 * of the limit.
 *
 * The leased part is used until send + lease - drift - SHARE_SEEN_MS, by CLOCK_BOOTTIME of
 * this node at the time when the call was *sent*.  For the server it has ended when one
 * caller has itself seen lease - SHARE_SEEN_MS go by since the node's last call; both
 * clocks may differ in rate by `drift` in a lease (a tenth of it and 50 ms: chronyd lets the
 * clock run up to 8.3 % off while it corrects the time).  What the server has recorded is at
 * any moment at least what the node may use: more is used after it was recorded, less is
 * recorded after it is used no more.  src/front/cluster/lease.lua is the
 * server's half, tests/model/ the model of both.
 *
 * Pure: no clock, no malloc.  Times are CLOCK_BOOTTIME in ms.  One thread a class.
 */
#ifndef POLICY_SHARE_H
#define POLICY_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include "policy/limit/limit.h"

#define SHARE_NODES_MAX		64
#define SHARE_LEASE_LEAST_MS	2000
#define SHARE_LEASE_MOST_MS	600000
/* Those who wait ask at this interval: it passes before an end is seen, twice. */
#define SHARE_ASK_MS		250
#define SHARE_SEEN_MS		(2 * SHARE_ASK_MS)
#define SHARE_LOOK_MS		700	/* who may have to give back asks so often */
#define SHARE_TELL_MS		500
#define SHARE_NEWS_MS		1000
#define SHARE_TURN_MS		100	/* share_turn is called so often, or a little less */

/* Of two nested pools; of a destination's ceiling only the base. */
struct share_pools {
	uint32_t base;
	uint32_t extra;
};

/* The pools of a class.  LIMIT_NONE of one direction: no pool counts it, extra is 0. */
struct share_pools share_pools_of(uint32_t sessions, uint32_t inbound);

/* What each of `nodes` always has (nodes 1..SHARE_NODES_MAX, percent 0..100). */
struct share_pools share_static(struct share_pools whole, uint32_t nodes, uint32_t percent);

/* What the server may grant of each pool in all: whole - nodes * static. */
struct share_pools share_leasable(struct share_pools whole, uint32_t nodes,
    struct share_pools fixed);

/* *out = *limits with `sessions` and `inbound` cut down to what `own` (static + leased, as
 * far as the lease holds) allows: the smaller to base, the greater to base + extra.
 * LIMIT_NONE stays.  Whole pools change nothing. */
void share_limits(const struct limits *limits, struct share_pools own, struct limits *out);

/* The least that must stay leased when `to` would be enough: open sessions keep their
 * places (`open_small` of them are of the direction with the smaller limit and keep base;
 * the others keep extra first).  Never above `leased`, never below the smaller of leased
 * and `to`. */
struct share_pools share_least(struct share_pools fixed, struct share_pools leased,
    uint32_t open, uint32_t open_small, struct share_pools to);

/* --- times ------------------------------------------------------------------------------ */

static inline int64_t share_drift_ms(int64_t lease_ms) {
	return lease_ms / 10 + 50;
}

/* How long after the call was sent what it granted may be used. */
static inline int64_t share_use_ms(int64_t lease_ms) {
	return lease_ms - share_drift_ms(lease_ms) - SHARE_SEEN_MS;
}

/* How long an observer must have seen a node silent (lease.lua). */
static inline int64_t share_gone_ms(int64_t lease_ms) {
	return lease_ms - SHARE_SEEN_MS;
}

/* How long a new epoch grants nothing. */
static inline int64_t share_wait_ms(int64_t lease_ms) {
	return lease_ms + share_drift_ms(lease_ms);
}

/* --- what to ask for ---------------------------------------------------------------------- */

/* One class (or ceiling) as it stands now. */
struct share_seen {
	struct share_pools whole, fixed;
	struct share_pools leased;	/* recorded for us, 0 when the lease has ended */
	struct share_pools most;	/* fair: new sessions only below min(leased, most) */
	uint32_t open;			/* both directions */
	uint32_t open_small;		/* of the direction with the smaller limit */
	/* Sessions that were refused for want of a share (or would have been, observed), or would
	 * have come, ever; of the direction with the smaller limit, of the other. */
	uint64_t refused_small, refused_other;
	uint32_t nodes;
	uint32_t alive;			/* of them, who are to have an equal part of what is free;
					 * 0: nobody (they do not hear who lacks places) */
};

/* What is remembered from turn to turn; zeros are the start.  share_ask.c's own. */
#define SHARE_PEAKS	12
struct share_memory {
	uint32_t peaks[SHARE_PEAKS];	/* most open in each of the last turns */
	uint32_t peak_span[2];		/* in this span of 5 s and the one before */
	int64_t span_ms;		/* when this span began */
	uint64_t refused_small, refused_other;	/* as of the last call, or of long ago */
	uint64_t refused;			/* both, as of the last turn */
	uint32_t quiet;				/* turns since it grew */
	struct share_pools claim;		/* of the last call */
	uint32_t tension;		/* turns for which others lack places */
	uint32_t strained;		/* and for which no equal part is wanted after that */
	uint32_t settling;		/* turns for which what is open may not be known yet */
	/* The last answer was */
	bool short_self;		/* less than was needed */
	bool claimed;			/* less than was claimed */
	bool denied;			/* less than was wanted */
	uint32_t claims;		/* answers one after the other that were less */
	bool begun;
};

/* What a call is to say of one class. */
struct share_ask {
	struct share_pools keep;	/* lower the segment to this first (share_least), then
					 * tell what stays as `hold` */
	struct share_pools need;	/* leased parts without which somebody is refused */
	struct share_pools claim;	/* at least need: what others must make room for, told as
					 * what is needed */
	struct share_pools want;	/* at least claim: what is good to have, of free places */
};

/* Why a call is due, the more urgent the greater. */
enum share_due {
	SHARE_NOT_DUE,
	SHARE_DUE_RENEW,	/* a third of the lease has gone by */
	SHARE_DUE_LOOK,		/* it has more than an equal part, or spare places, and others
				 * lack some, or may: do they? */
	SHARE_DUE_RETURN,	/* others wait for what is spare here */
	SHARE_DUE_MORE,		/* it runs out */
};

/* Each turn of SHARE_TURN_MS, before the two below. */
void share_turn(struct share_memory *memory, const struct share_seen *seen, int64_t now_ms);

/* What the others say of themselves, besides answers: who lacks places tells it, at most each
 * SHARE_TELL_MS, and is believed for SHARE_NEWS_MS. */
enum share_news {
	SHARE_NEWS_NONE,	/* they cannot be heard: who has places to spare looks for itself */
	SHARE_NEWS_QUIET,
	SHARE_NEWS_SHORT,	/* somebody told so since the last call */
};

/* Is a call due for the sake of this class?  sent_ms: when the last call was sent, 0: none.
 * Never while one is out. */
enum share_due share_due(const struct share_memory *memory, const struct share_seen *seen,
    enum share_news news, int64_t sent_ms, int64_t lease_ms, int64_t now_ms);

struct share_ask share_asks(const struct share_memory *memory, const struct share_seen *seen);

/* A call that listed this class is sent. */
void share_sent(struct share_memory *memory, const struct share_seen *seen);

/* Its answer, of both pools: `others_short` is what others need and do not have, `free` what
 * nobody has.  Not for an answer that tells to wait. */
void share_answered(struct share_memory *memory, const struct share_seen *seen,
    const struct share_ask *asked, struct share_pools granted, uint32_t others_short,
    struct share_pools free);

#endif
