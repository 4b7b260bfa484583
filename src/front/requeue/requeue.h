/* SPDX-License-Identifier: ISC */
/*
 * Mail that waits for destinations to come back (engine/requeue/requeue.h) in the feed's
 * event loop: what is due is asked of the supervisor, and the lists of the queues
 * are read.  One thread: the loop's.
 */
#ifndef FRONT_REQUEUE_H
#define FRONT_REQUEUE_H

#include "base/diag.h"
#include "engine/engine.h"
#include "engine/requeue/requeue.h"

struct event_base;
struct front_requeue;

/* `mta_fd`: role_context.mta_fd, taken over; -1: nothing is ever asked.  0, or -1 with
 * *diag.  Works by itself from then on, in the loop of `base`, which it ends when the
 * supervisor has ended the link (front_requeue_is_cut_off). */
int front_requeue_open(struct front_requeue **front, struct event_base *base,
    struct engine *engine, int mta_fd, struct diag *diag);
bool front_requeue_is_cut_off(const struct front_requeue *front);
void front_requeue_close(struct front_requeue **front);

/* Each delivery result of a Postfix that was judged, after engine_feed_delivery. */
void front_requeue_result(struct front_requeue *front, const struct generation *generation,
    const struct requeue_result *result, int64_t now_ns);

/* Each message of mail server `mta` that its queue manager takes up (LOG_LINE_ACTIVE). */
void front_requeue_active(struct front_requeue *front, const struct generation *generation,
    unsigned mta, struct span queue_id, struct span sender);

/* Each message of mail server `mta` that left the queue (LOG_LINE_REMOVED). */
void front_requeue_removed(struct front_requeue *front, unsigned mta, struct span queue_id);

#endif
