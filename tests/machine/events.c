/* SPDX-License-Identifier: ISC */
#include "tests/machine/events.h"

#include <event2/event.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/diag.h"

struct event {
	struct event *next;
	struct event_base *base;
	evutil_socket_t fd;
	event_callback_fn call;
	void *argument;
	int64_t due_ns;		/* 0: not */
	bool persists;
	int64_t period_ns;
};

struct event_base {
	struct event *events;
};

struct event_base *events_new(void) {
	struct event_base *base = calloc(1, sizeof(*base));

	MUST(base != NULL);
	return base;
}

struct event *event_new(struct event_base *base, evutil_socket_t fd, short what,
    event_callback_fn call, void *argument) {
	struct event *event = calloc(1, sizeof(*event));

	MUST(event != NULL);
	*event = (struct event){ .next = base->events, .base = base, .fd = fd, .call = call,
		.argument = argument, .persists = (what & EV_PERSIST) != 0 };
	base->events = event;
	return event;
}

int event_add(struct event *event, const struct timeval *after) {
	int64_t after_ns;

	if (after == NULL)
		return 0;
	after_ns = after->tv_sec * NS_PER_SECOND + after->tv_usec * 1000;
	event->due_ns = clock_now_ns() + after_ns;
	event->period_ns = event->persists ? after_ns : 0;
	return 0;
}

/* Those of a process that ended are forgotten with it. */
void event_free(struct event *event) {
	event->due_ns = 0;
	event->fd = -1;
}

int64_t events_next_ns(const struct event_base *base) {
	int64_t next_ns = INT64_MAX;

	for (const struct event *e = base->events; e != NULL; e = e->next)
		if (e->due_ns != 0 && e->due_ns < next_ns)
			next_ns = e->due_ns;
	return next_ns;
}

void events_fire_timers(struct event_base *base) {
	for (struct event *e = base->events; e != NULL; e = e->next) {
		if (e->due_ns == 0 || e->due_ns > clock_now_ns())
			continue;
		e->due_ns = e->period_ns == 0 ? 0 : clock_now_ns() + e->period_ns;
		e->call(-1, EV_TIMEOUT, e->argument);
	}
}

void events_fire_readable(struct event_base *base, int fd) {
	for (struct event *e = base->events; e != NULL; e = e->next)
		if (e->fd == fd)
			e->call(fd, EV_READ, e->argument);
}
