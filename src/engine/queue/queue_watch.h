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

/* What is to be told now: for how long it has been away; or, negative, was, and is back; 0:
 * nothing.  *last_ns: its last sign of life, or when there was nothing to drive; 0 at the keeper's
 * start.  No lock; the keeper's thread, each second. */
int64_t queue_watch_look(int64_t *last_ns, struct engine *engine, const struct generation *generation,
    int64_t now_ns);

#endif
