/* SPDX-License-Identifier: ISC */
/*
 * The control server of the queue role (wire/link/control_frame.h): posternctl's queue and
 * next, out of what the queue has in memory (engine/queue/queue.h) and in its journal.  Lives in the role's event
 * loop; one thread.
 *
 *	queue	request: view (parts, destinations, runs; none: parts), pattern (of
 *		destinations that match it alone; parts, destinations)
 *		rows of parts, in no order; one that moved meanwhile may come twice, and the
 *		later one counts: destination id mta sender recipients unread age tried
 *		(seconds ago, may be missing) tries wait (a word of waits.def) until
 *		(seconds left, may be missing) run (0: none) since_ms (to sort by: age when the
 *		list began)
 *		of destinations: destination messages recipients running window wait
 *		doubtful proven (0, 1) age (of its oldest message) until
 *		of runs: run pid mta messages recipients destination age progress (seconds
 *		ago, may be missing) stalls adopted (0, 1)
 *	next	request: most
 *		rows: as of parts, and why (a word of whys.def)
 *	both	the end has error where there was no room for all rows, or while the queue is
 *		read for the first time, and exit 0; for queue also more, with an error that
 *		tells it: messages of the journal, which cannot be read now
 */
#ifndef FRONT_QUEUE_CONTROL_H
#define FRONT_QUEUE_CONTROL_H

#include <stdint.h>

#include "base/diag.h"
#include "engine/engine.h"

struct event_base;
struct queue;
struct control_access;
struct queue_control;

/* 0, or -1 with *diag. */
int queue_control_open(struct queue_control **control, struct event_base *base,
    struct engine *engine, struct queue *queue, struct diag *diag);
void queue_control_close(struct queue_control **control);

/* Serves a listening, non-blocking socket; the server closes it. */
int queue_control_listen(struct queue_control *control, int fd,
    const struct control_access *access, struct diag *diag);

/* Is the queue being read for the first time?  As queue_control_open leaves it: no. */
void queue_control_reading(struct queue_control *control, bool is_reading);

/* Once a second: connections that are idle. */
void queue_control_second(struct queue_control *control, int64_t now_ns);

#endif
