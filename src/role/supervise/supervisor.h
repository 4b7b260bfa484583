/* SPDX-License-Identifier: ISC */
/*
 * The supervisor: the one process that stays root.  It opens the sockets, executes the
 * roles, starts again what dies, kills what hangs, and compiles new configurations.  It maps
 * no segment: what it needs of it, the keeper does and reports.  One thread, one loop, no
 * trust in roles.
 */
#ifndef ROLE_SUPERVISOR_H
#define ROLE_SUPERVISOR_H

#include <poll.h>

#include "config/read/report.h"
#include "role/supervise/supervised.h"

/* Polls.  Where that takes longer than it may we were stopped, or the machine was suspended,
 * and nobody was silent then.  Work of ours does not count: a role could make it long to go
 * unnoticed. */
void supervisor_wait(struct supervisor *supervisor, struct pollfd *polled, nfds_t count,
    int wait_ms);

/* Runs the daemon with a first generation (generation_memory_map), which it takes over,
 * until it is told to stop.  `ready_fd` is background_begin's, or -1 in the
 * foreground.  Returns the exit code. */
int supervisor_run(const char *config_file, struct generation *generation,
    const struct config_messages *messages, int ready_fd);

#endif
