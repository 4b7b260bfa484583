/* SPDX-License-Identifier: ISC */
/*
 * Is the role there that drives a Sendmail's queue?  Without it mail waits for Sendmail's
 * own slow queue runs, so that somebody is to be told.  The keeper looks; what it told
 * stands in the segment, so that its successor tells it no second time.
 */
#ifndef ENGINE_QUEUE_WATCH_H
#define ENGINE_QUEUE_WATCH_H

#include "engine/engine.h"

#define QUEUE_AWAY_NS	INT64_C(60000000000)
/* A role that did not live for so long was not there. */
#define QUEUE_SETTLED_NS	INT64_C(5000000000)

/* The keeper's.  All zero at its start. */
struct queue_watch {
	int64_t last_ns;	/* last sign of life, or when there was nothing to drive */
};

enum queue_watch_news { QUEUE_NO_NEWS, QUEUE_IS_AWAY, QUEUE_IS_BACK };

/* What is to be told now; *away_ns: for how long it has been away, or was.  No lock; the
 * keeper's thread, each second. */
enum queue_watch_news queue_watch_look(struct queue_watch *watch, struct engine *engine,
    const struct generation *generation, int64_t now_ns, int64_t *away_ns);

#endif
