/* SPDX-License-Identifier: ISC */
/* The keeper's turn of the hints file (engine/hints.h): a timer.  One event loop. */
#ifndef FRONT_HINTS_H
#define FRONT_HINTS_H

#include "base/diag.h"

struct engine;
struct event_base;
struct front_hints;

/* Begins at once and goes on until front_hints_close.  A file that cannot be written is
 * logged when it begins to be so.  -1 with *diag. */
int front_hints_open(struct front_hints **front, struct event_base *base,
    struct engine *engine, struct diag *diag);
void front_hints_close(struct front_hints **front);

#endif
