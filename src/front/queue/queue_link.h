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

struct queue_link_end {
	int fd;			/* -1: there is none; poll it for reading */
};

/* Asks for a queue file, or a run.  False: not now, the link is full. */
bool queue_link_ask(struct queue_link_end *link, const struct queue_order *order);

/* What the supervisor says next.  False: nothing.  *fd: that of an opened file, the
 * caller's, else -1.  *ended: it will say nothing more. */
bool queue_link_next(struct queue_link_end *link, struct queue_tell *tell, int *fd,
    bool *ended);

void queue_link_end_close(struct queue_link_end *link);

#endif
