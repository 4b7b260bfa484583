/* SPDX-License-Identifier: ISC */
/*
 * A pipe from a role to the supervisor: heartbeats, and at the end the number of the system
 * call that the sandbox stopped it for.  Neither side ever waits.
 */
#ifndef BASE_LIFELINE_H
#define BASE_LIFELINE_H

#include <stdbool.h>

#include "base/diag.h"

/* What was read since the last time. */
struct lifeline_news {
	bool beat;
	int stopped_call;	/* -1: none */
};

/* fds[0] is the supervisor's, fds[1] the role's; both close-on-exec.  0, or -1 with *diag. */
int lifeline_open(int fds[2], struct diag *diag);

/* In the role; async-signal-safe.  A pipe that nobody reads loses them. */
void lifeline_beat(int fd);
void lifeline_stopped(int fd, int call);

/* In the supervisor: reads what there is, 64 times at most, whatever the role writes
 * meanwhile. */
struct lifeline_news lifeline_read(int fd);

#endif
