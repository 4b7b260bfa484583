/* SPDX-License-Identifier: ISC */
/* From the supervisor to a role: fork, and everything that the child gives up
 * before its main begins. */
#ifndef ROLE_SPAWN_H
#define ROLE_SPAWN_H

#include "role/supervisor.h"

/* Forks `child` (its started_ns is set) and notes its pid.  In the new process
 * it does not return.  -1 with *diag: no process was made. */
int spawn_role(struct supervisor *supervisor, struct child *child,
    struct diag *diag);

/* The links that its role had are closed. */
void spawn_unlink(struct supervisor *supervisor, const struct child *child);

/* In a new process: signals do again what they do by default, but for SIGPIPE,
 * which is ignored; none is blocked. */
void spawn_reset_signals(void);

#endif
