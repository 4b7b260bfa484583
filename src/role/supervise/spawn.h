/* SPDX-License-Identifier: ISC */
/* From the supervisor to a role: fork, everything that the child gives up, and exec. */
#ifndef ROLE_SPAWN_H
#define ROLE_SPAWN_H

#include "role/run/handover.h"
#include "role/supervise/supervised.h"

/* Forks `child` (its started_ns is set) and notes its pid.  In the new process
 * it does not return.  -1 with *diag: no process was made. */
int spawn_role(struct supervisor *supervisor, struct child *child,
    struct diag *diag);

/* A process that prepares the segment (prepare.h).  Its pid, or -1 with *diag. */
pid_t spawn_helper(struct supervisor *supervisor, bool damaged, bool without_text,
    int result_fd, struct diag *diag);

/* The links that its role had are closed. */
void spawn_unlink(struct supervisor *supervisor, struct child *child);

#endif
