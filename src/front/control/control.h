/* SPDX-License-Identifier: ISC */
/*
 * The control server (wire/link/control_frame.h): posternctl's questions to the
 * daemon.  Those that only the supervisor can answer are passed on to it.  Lives
 * in the keeper's event loop.
 */
#ifndef FRONT_CONTROL_H
#define FRONT_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/diag.h"
#include "engine/engine.h"

struct control;
struct control_access;
struct event_base;

/* `supervisor_fd`: a non-blocking stream to the supervisor, or -1; the server
 * closes it.  0, or -1 with *diag. */
int control_open(struct control **control, struct event_base *base,
    struct engine *engine, int supervisor_fd, struct diag *diag);
void control_close(struct control **control);

/* Serves a listening, non-blocking socket; the server closes it.  `access` stays; NULL: as
 * if nothing were configured. */
int control_listen(struct control *control, int fd, const struct control_access *access,
    struct diag *diag);

/* Tells the supervisor that the gate is shut or open.  Where that cannot be said
 * now it is not: the caller says it again while the gate is shut. */
void control_tell_gate(struct control *control, bool shut);

/* Once a second: connections that are idle, and answers that do not come. */
void control_second(struct control *control, int64_t now_ns);

#endif
