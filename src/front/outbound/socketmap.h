/* SPDX-License-Identifier: ISC */
/*
 * The socketmap front end: connections of Sendmail's delivering processes
 * (conf/sendmail-outbound.mc), in the event loop of somebody else.  A connection
 * stands for the process that opened it: its end frees what the process was
 * admitted to.  One thread, any number for each process.
 */
#ifndef FRONT_SOCKETMAP_H
#define FRONT_SOCKETMAP_H

#include <stdint.h>

#include "base/diag.h"
#include "engine/engine.h"

struct event_base;
struct socketmap_front;

/* A request that is not finished, or a reply that is not read, after so long
 * costs the connection.  One that only waits may do so for as long as its
 * process lives. */
#define SOCKETMAP_PATIENCE_NS	(INT64_C(10) * 1000 * 1000 * 1000)

/* 0, or -1 with *diag.  `engine` and `base` outlive the front end. */
int socketmap_front_open(struct socketmap_front **front, struct engine *engine,
    struct event_base *base, struct diag *diag);

/* Serves a listening, non-blocking unix socket, number `listener` of the
 * generation; the front end closes it. */
int socketmap_front_listen(struct socketmap_front *front, int fd, uint8_t listener,
    struct diag *diag);

/* Connections end as if their processes had. */
void socketmap_front_close(struct socketmap_front **front);

#endif
