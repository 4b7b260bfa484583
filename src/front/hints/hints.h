/* SPDX-License-Identifier: ISC */
/* The keeper's turns of the hints file (engine/hints/hints.h): a thread. */
#ifndef FRONT_HINTS_H
#define FRONT_HINTS_H

#include <sys/types.h>

#include "base/diag.h"

struct engine;
struct front_hints;
struct rest;

/* `mta_fd`: role_context.mta_fd, taken over; -1: no mail server is ever reloaded.  `group`:
 * as of engine_hints_open.  `rest` outlives it: it is stirred by whatever changes.  -1 with
 * *diag.  Lasts as long as the process. */
int front_hints_open(struct front_hints **front, struct engine *engine, int mta_fd,
    gid_t group, struct rest *rest, struct diag *diag);

/* Begins at once, and never returns: for pthread_create, with the front_hints. */
void *front_hints_run(void *front);

#endif
