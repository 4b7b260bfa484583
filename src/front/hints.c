/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Keeps the hints file alive.
 * MODEL    A turn each TURN_MS: that long after a class became full, at most, its
 *          mail is held (and the witness's time comes on top of it).
 * ERRORS   Logged once until it works again; nothing is held meanwhile.
 * THREADS  One of its own: to make the table of a million destinations takes a
 *          second, and a disk may take any time.
 */
#include "front/hints.h"

#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/hints.h"

#define TURN_MS	50

struct front_hints {
	struct engine_hints *hints;
};

int front_hints_open(struct front_hints **front, struct engine *engine,
    struct diag *diag) {
	struct front_hints *new = calloc(1, sizeof(*new));

	if (new == NULL)
		return diag_set(diag, 0, "no memory for the hints");
	if (engine_hints_open(&new->hints, engine, diag) != 0) {
		free(new);
		return -1;
	}
	*front = new;
	return 0;
}

void *front_hints_run(void *argument) {
	static const struct timespec turn = { .tv_nsec = TURN_MS * NS_PER_MS };
	struct front_hints *front = argument;

	for (;;) {
		char text[512];
		struct diag diag;

		if (engine_hints_turn(front->hints, clock_now_ns(), &diag) != 0)
			log_event(EVENT_SYSTEM, "from=hints text=\"%s\"",
			    log_sentence(text, sizeof(text), diag.text));
		(void)nanosleep(&turn, NULL);
	}
	return NULL;
}
