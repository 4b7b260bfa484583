/* SPDX-License-Identifier: ISC */
/*
 * Drives the queues of Sendmail: reads queue files as they come, hands them to the engine
 * (engine/queue/queue.h), and has the supervisor run what that chooses.  One event loop, one
 * thread.
 */
#ifndef FRONT_QUEUE_DRIVE_H
#define FRONT_QUEUE_DRIVE_H

#include "base/diag.h"
#include "engine/engine.h"
#include "engine/queue/queue.h"

struct control_access;

struct queue_drive_setup {
	const struct queue_directory *directories; /* numbers are the supervisor's; their fds
						    * are taken over */
	unsigned directory_count;
	int notify_fd;		/* inotify, or -1; taken over */
	int link_fd;		/* to the supervisor; taken over */
	const int *control_fds;	/* listening sockets for posternctl; taken over */
	const struct control_access *const *control_access;	/* of each; NULL: of none */
	unsigned control_count;
};

/* Runs until directories have to be opened anew, or there is nothing to drive: returns 0;
 * or -1 with *diag when it cannot go on. */
int queue_drive_run(struct engine *engine, const struct queue_drive_setup *setup,
    struct diag *diag);

#endif
