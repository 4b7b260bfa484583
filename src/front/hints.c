/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Keeps the hints file alive.
 * MODEL    A turn each TURN_MS: that long after a class became full, at most, its
 *          mail is held (and the witness's time comes on top of it).
 * ERRORS   Logged once until it works again; nothing is held meanwhile.
 * THREADS  The loop's.
 */
#include "front/hints.h"

#include <event2/event.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/hints.h"

#define TURN_MS	50

struct front_hints {
	struct engine_hints *hints;
	struct event *timer;
	bool failed;
};

static void on_turn(evutil_socket_t fd, short what, void *argument) {
	struct front_hints *front = argument;
	char text[512];
	struct diag diag;
	bool failed;

	(void)fd;
	(void)what;
	failed = engine_hints_turn(front->hints, clock_now_ns(), &diag) != 0;
	if (failed && !front->failed)
		log_event(EVENT_SYSTEM, "from=hints text=\"%s\"",
		    log_sentence(text, sizeof(text), diag.text));
	front->failed = failed;
}

int front_hints_open(struct front_hints **front, struct event_base *base,
    struct engine *engine, struct diag *diag) {
	static const struct timeval turn = { .tv_usec = TURN_MS * 1000 };
	struct front_hints *new = calloc(1, sizeof(*new));

	if (new == NULL)
		return diag_set(diag, 0, "no memory for the hints");
	if (engine_hints_open(&new->hints, engine, diag) != 0) {
		free(new);
		return -1;
	}
	new->timer = event_new(base, -1, EV_PERSIST, on_turn, new);
	if (new->timer == NULL || event_add(new->timer, &turn) != 0) {
		front_hints_close(&new);
		return diag_set(diag, 0, "no memory for a timer");
	}
	on_turn(-1, 0, new);
	*front = new;
	return 0;
}

void front_hints_close(struct front_hints **front) {
	if (*front == NULL)
		return;
	if ((*front)->timer != NULL)
		event_free((*front)->timer);
	engine_hints_close(&(*front)->hints);
	free(*front);
	*front = NULL;
}
