/* SPDX-License-Identifier: ISC */
#include "tests/fuzz/own_beat.h"

#include "base/clock.h"
#include "front/serve/beat.h"

static struct beat *last;

int beat_open(struct beat *beat, struct event_base *base, struct engine *engine,
    const struct beat_calls *calls, struct diag *diag) {
	(void)base, (void)diag;
	beat->engine = engine;
	beat->calls = *calls;
	last = beat;
	return 0;
}

void beat_close(struct beat *beat) {
	if (last == beat)
		last = NULL;
}

void beat_quicken(struct beat *beat) {
	beat->rests = false;
}

void own_beat(void) {
	int64_t now_ns = clock_now_ns();

	if (last == NULL)
		return;
	engine_heartbeat(last->engine, now_ns);
	if (last->calls.each != NULL)
		last->calls.each(last->calls.context, now_ns);
}
