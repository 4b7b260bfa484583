/* SPDX-License-Identifier: ISC */
/*
 * The supervisor's end of the queue role's link (wire/queue/queue_order.h): opens queue files
 * for it and starts sendmail for it.  The role is not trusted: the directory is a number
 * of our table, a name is that of a qf file in it, ids are letters and digits.
 */
#ifndef ROLE_QUEUE_LINK_H
#define ROLE_QUEUE_LINK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/diag.h"
#include "role/queue/queue_places.h"
#include "role/queue/queue_runs.h"

struct pollfd;
struct supervisor;

struct queue_link {
	int fd;			/* -1: the role is away */
	bool more;		/* there is perhaps one more order */
	int64_t run_tat_ns;	/* the rate of runs */
	int64_t waits_until_ns;	/* the order below came too soon; 0: none waits */
	struct queue_order waiting;
	int64_t looked_ns;	/* when the directories were last looked for */
	uint64_t looked_for;	/* and of which generation */
	int64_t stale_ns;	/* the role is to end since: there are others, or no link; 0: no */
	struct queue_places places;
	struct queue_runs runs;
};

/* Its memory is the row's: there is one supervisor in a process. */
void queue_link_init(struct supervisor *supervisor);

/* For a new role: opens the directories, and tells it of the runs that live.  Returns its
 * end, or -1 with *diag. */
int queue_link_open(struct supervisor *supervisor, struct diag *diag);
/* The directories that were opened for it. */
const struct queue_places *queue_link_places(void);
/* The role is gone. */
void queue_link_close(struct supervisor *supervisor);

/* What to wait for; nothing while an order waits for its time. */
void queue_link_poll(const struct supervisor *supervisor, struct pollfd *polled);

/* Does what was asked, a bounded part of it; never waits. */
void queue_link_turn(struct supervisor *supervisor, int64_t now_ns);

/* When queue_link_turn has something to do by itself, or INT64_MAX. */
int64_t queue_link_next_ns(const struct supervisor *supervisor);

/* Another configuration is active. */
void queue_link_reloaded(struct supervisor *supervisor);

#endif
