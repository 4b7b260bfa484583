/* SPDX-License-Identifier: ISC */
/*
 * MODEL: a timer that is armed anew each time, and the supervisor's nudges.
 * THREADS: the loop's.
 */
#include "front/serve/beat.h"

#include <event2/event.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/nudge.h"

static void beat_arm(struct beat *beat) {
	static const struct timeval second = { .tv_sec = 1 },
	    rest = { .tv_sec = ENGINE_REST_NS / NS_PER_SECOND };

	(void)event_add(&beat->timer, beat->rests ? &rest : &second);
}

static void on_timer(evutil_socket_t fd, short what, void *argument) {
	struct beat *beat = argument;
	int64_t now_ns = clock_now_ns();

	(void)fd, (void)what;
	engine_heartbeat(beat->engine, now_ns);
	beat->calls.each(beat->calls.context, now_ns);
	log_flush();
	beat->rests = beat->calls.is_busy != NULL &&
	    !beat->calls.is_busy(beat->calls.context) && engine_is_at_rest(beat->engine);
	beat_arm(beat);
}

static void on_nudge(evutil_socket_t fd, short what, void *argument) {
	struct beat *beat = argument;

	(void)what;
	if (!nudge_take(fd))
		(void)event_del(&beat->nudged);
	engine_heartbeat(beat->engine, clock_now_ns());
}

int beat_open(struct beat *beat, struct event_base *base, struct engine *engine,
    const struct beat_calls *calls, struct diag *diag) {
	int fd = engine_nudge_fd(engine);

	*beat = (struct beat){ .engine = engine, .calls = *calls };
	if (event_assign(&beat->timer, base, -1, 0, on_timer, beat) != 0 ||
	    event_assign(&beat->nudged, base, fd, EV_READ | EV_PERSIST, on_nudge, beat) != 0 ||
	    (fd >= 0 && event_add(&beat->nudged, NULL) != 0))
		return diag_set(diag, 0, "cannot create a timer");
	beat_arm(beat);
	return 0;
}

void beat_close(struct beat *beat) {
	(void)event_del(&beat->timer);
	(void)event_del(&beat->nudged);
}

void beat_quicken(struct beat *beat) {
	if (!beat->rests)
		return;
	/* a gap that follows begins with it: not while there was nobody */
	engine_heartbeat(beat->engine, clock_now_ns());
	beat->rests = false;
	beat_arm(beat);
}
