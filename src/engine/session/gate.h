/* SPDX-License-Identifier: ISC */
/*
 * The gate: shut while every class has as many sessions as its inbound limit
 * (DESIGN section 5, "refuse before looking at the host").  The keeper looks at
 * it, tells who carries it further, and leaves the state in the segment.
 */
#ifndef ENGINE_GATE_H
#define ENGINE_GATE_H

#include "engine/engine.h"

/* At most one change in this time. */
#define GATE_CHANGE_NS	INT64_C(1000000000)
/* While it is shut it is said again this often: who hears it no more opens. */
#define GATE_RENEW_NS	INT64_C(2000000000)

/* The keeper's.  All zero at its start. */
struct gate_watch {
	bool told;		/* since the start of this process */
	int64_t told_ns;	/* last time */
};

enum gate_news {
	GATE_NO_NEWS,
	GATE_STILL_SHUT,	/* to be said again */
	GATE_SHUTS,
	GATE_OPENS,
};

/* Looks at the counts, and says what is to be told now.  No lock; one thread of
 * one process (the keeper's), a few times a second.  A change that comes too soon
 * after the last one waits. */
enum gate_news gate_watch_look(struct gate_watch *watch, struct engine *engine,
    const struct generation *generation, int64_t now_ns);

#endif
