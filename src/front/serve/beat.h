/* SPDX-License-Identifier: ISC */
/*
 * The heartbeats of a role in its event loop: each second, less often while it has nothing to
 * do, and at once where a configuration was published meanwhile.
 */
#ifndef FRONT_BEAT_H
#define FRONT_BEAT_H

#include <event2/event_struct.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/diag.h"
#include "engine/engine.h"

struct beat_calls {
	/* Has the role anything to do but wait for connections?  NULL: it always has. */
	bool (*is_busy)(void *context);
	/* After each heartbeat: what is to be done about once a second. */
	void (*each)(void *context, int64_t now_ns);
	void *context;
};

struct beat {
	struct engine *engine;
	struct beat_calls calls;
	bool rests;
	struct event timer;
	struct event nudged;
};

/* The first one comes a second later.  `base` and `engine` outlive it.  0, or -1 with *diag. */
int beat_open(struct beat *beat, struct event_base *base, struct engine *engine,
    const struct beat_calls *calls, struct diag *diag);
/* Of one that was opened. */
void beat_close(struct beat *beat);

/* The role has something to do now. */
void beat_quicken(struct beat *beat);

#endif
