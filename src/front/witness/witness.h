/* SPDX-License-Identifier: ISC */
/*
 * The witness at work: reads the kernel's table of connections when the engine
 * wants it read, and tells it what was announced.  Lives in the keeper's event
 * loop.
 */
#ifndef FRONT_WITNESS_H
#define FRONT_WITNESS_H

#include "base/diag.h"
#include "engine/engine.h"

struct event_base;
struct front_witness;

/* Takes over the netlink sockets `fds` (none: owners and leases decide alone).
 * The first look is taken before this returns; turns follow (front_witness_turn).
 * 0, or -1 with *diag. */
int front_witness_open(struct front_witness **front, struct event_base *base,
    struct engine *engine, const int *fds, unsigned count, struct diag *diag);
void front_witness_close(struct front_witness **front);

/* Has the table read where that is due.  `rests`: nothing has happened for a while.  Returns
 * when the next turn is to come at the latest, in ns from now. */
int64_t front_witness_turn(struct front_witness *front, bool rests);

/* Once a second: leases, and what is to be told in the log. */
void front_witness_second(struct front_witness *front, int64_t now_ns);

#endif
