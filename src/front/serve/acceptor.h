/* SPDX-License-Identifier: ISC */
/*
 * The listening sockets of a front end, which several processes may share, and how
 * many connections it may have (policy.connections).  One event loop, one thread.
 */
#ifndef FRONT_ACCEPTOR_H
#define FRONT_ACCEPTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/diag.h"

struct acceptor;
struct engine;
struct event_base;

/* A connection, non-blocking, on listening socket number `listener` of the
 * generation; `fd` is the front end's from then on.  False: it has closed it. */
typedef bool acceptor_take(void *context, int fd, uint8_t listener);

/* Too many: closes one that can be spared, and calls acceptor_left.  False: there is
 * none. */
typedef bool acceptor_spare(void *context);

/* `name`, which outlives the acceptor as `base` and `engine` do, is the front end's
 * in the log.  0, or -1 with *diag. */
int acceptor_open(struct acceptor **acceptor, struct event_base *base,
    struct engine *engine, const char *name, acceptor_take *take,
    acceptor_spare *spare, void *context, struct diag *diag);

/* Serves a listening, non-blocking socket; the acceptor closes it. */
int acceptor_listen(struct acceptor *acceptor, int fd, uint8_t listener,
    struct diag *diag);

/* A connection that was taken has ended. */
void acceptor_left(struct acceptor *acceptor);

/* NULL is let pass. */
void acceptor_close(struct acceptor **acceptor);

#endif
