/* SPDX-License-Identifier: ISC */
/*
 * The queue role's end of its link to the supervisor (wire/queue/queue_order.h): asks for queue
 * files and for runs of sendmail, as many at a time as it likes.  Nothing here waits.
 * One thread.
 */
#ifndef FRONT_QUEUE_LINK_H
#define FRONT_QUEUE_LINK_H

#include <stdbool.h>

#include "wire/queue/queue_order.h"

/* Asks for a queue file, or a run.  False: not now, the link is full. */
bool queue_link_ask(int link_fd, const struct queue_order *order);

/* What the supervisor says next.  False: nothing.  *fd: that of an opened file, the
 * caller's, else -1.  *ended: it will say nothing more. */
bool queue_link_next(int link_fd, struct queue_tell *tell, int *fd,
    bool *ended);

#endif
