/* SPDX-License-Identifier: ISC */
/*
 * The feed: the logs of all mail servers of the configuration, read as they grow.
 * What stands in them goes to the engine, and nowhere else.  One event loop, one
 * thread.
 */
#ifndef FRONT_FEED_H
#define FRONT_FEED_H

#include <stdint.h>

#include "base/diag.h"
#include "engine/engine.h"

/* A log that was opened for us, and why not where fd is -1 (an errno). */
struct feed_opened {
	const char *path;
	int fd;			/* taken over */
	int error;
	int before_fd;		/* the file that was read last, where it is another; or -1 */
};

/* Reads until a log has to be opened by somebody with more rights: returns 0; or
 * -1 with *diag when it cannot go on. */
int feed_run(struct engine *engine, const struct feed_opened *opened, unsigned count,
    struct diag *diag);

#endif
