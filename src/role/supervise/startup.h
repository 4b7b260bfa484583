/* SPDX-License-Identifier: ISC */
/* What the supervisor does once, before its loop. */
#ifndef ROLE_STARTUP_H
#define ROLE_STARTUP_H

#include "role/supervise/supervised.h"

/* Identity, state directory, lock, segment, sockets, first generation, signals:
 * 0, or the exit code, said on the log (and on the terminal that waits). */
int startup(struct supervisor *supervisor,
    const struct config_messages *messages);

#endif
