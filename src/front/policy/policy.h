/* SPDX-License-Identifier: ISC */
/*
 * The policy front end: connections of the Postfix policy protocol on listening
 * sockets that several processes may share.  One event loop, one thread, one for
 * each process.
 */
#ifndef FRONT_POLICY_H
#define FRONT_POLICY_H

#include <stdint.h>

#include "base/diag.h"
#include "engine/engine.h"

struct event_base;
struct policy_front;

/* A request that is not finished, or a reply that is not read, after so long
 * costs the connection. */
#define POLICY_PATIENCE_NS	(INT64_C(10) * 1000 * 1000 * 1000)

/* 0, or -1 with *diag.  `engine` outlives the front end. */
int policy_front_open(struct policy_front **front, struct engine *engine,
    struct diag *diag);

/* Serves a listening, non-blocking socket, number `listener` of the generation;
 * the front end closes it. */
int policy_front_listen(struct policy_front *front, int fd, uint8_t listener,
    struct diag *diag);

/* The loop that everything runs in. */
struct event_base *policy_front_base(struct policy_front *front);

/* Runs for good; returns only when the loop fails. */
void policy_front_run(struct policy_front *front);

/* Connections end as if their clients had closed them. */
void policy_front_close(struct policy_front **front);

#endif
