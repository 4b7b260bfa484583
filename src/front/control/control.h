/* SPDX-License-Identifier: ISC */
/*
 * The control server (wire/link/control_frame.h): posternctl's questions to the
 * daemon.  Reloads are asked of the supervisor.  Lives in the keeper's event loop.
 */
#ifndef FRONT_CONTROL_H
#define FRONT_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"
#include "config/read/report.h"
#include "engine/engine.h"

struct control;
struct control_access;
struct event_base;

/* Asks the supervisor for a reload, whose outcome names the number.  False: not now. */
typedef bool control_reload_fn(void *context, uint64_t number);

/* 0, or -1 with *diag. */
int control_open(struct control **control, struct event_base *base,
    struct engine *engine, control_reload_fn *reload, void *context, struct diag *diag);
void control_close(struct control **control);

/* Serves a listening, non-blocking socket; the server closes it.  `access` stays; NULL: as
 * if nothing were configured. */
int control_listen(struct control *control, int fd, const struct control_access *access,
    struct diag *diag);

/* What came of a reload. */
struct control_reloaded {
	uint64_t number;	/* by which it was asked for */
	int exit_code;
	const char *error;	/* where that is not 0 */
	uint64_t generation;	/* in force now */
	const struct config_messages *messages;
	const char (*needs_restart)[SETTING_NAME_MAX];
	size_t needs_count;
};
void control_reloaded(struct control *control, const struct control_reloaded *reloaded);

/* Once a second: connections that are idle, and answers that do not come. */
void control_second(struct control *control, int64_t now_ns);

#endif
