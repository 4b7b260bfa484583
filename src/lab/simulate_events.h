/* SPDX-License-Identifier: ISC */
/* What happens later in virtual time: a heap by time, and by order of coming where the
 * time is the same. */
#ifndef LAB_SIMULATE_EVENTS_H
#define LAB_SIMULATE_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum simulated_event_kind {
	EVENT_END,
	EVENT_REPORT,
	EVENT_CONNECT,
	EVENT_ARRIVAL,
	EVENT_RETURN,
};

struct simulated_event {
	int64_t at_ns;
	uint64_t order;		/* the heap's own */
	int64_t start_ns, end_ns;
	int64_t opened_ns;	/* its connection */
	uint32_t level;
	uint32_t what;		/* the caller's own */
	void *item;		/* and this */
	enum simulated_event_kind kind;
	bool accepted, served, canary;	/* served: it holds a place of the server */
};

struct simulated_events {
	struct simulated_event *heap;
	size_t count, size;
	uint64_t orders;
};

/* The next random bits of a seed (splitmix64); the same as 0 <= x < 1. */
uint64_t simulate_random(uint64_t *state);
double simulate_share(uint64_t *state);

void simulate_push(struct simulated_events *events, const struct simulated_event *event);
/* The next one, which must be there. */
struct simulated_event simulate_pop(struct simulated_events *events);
/* Has the time of the next one come? */
bool simulate_is_due(const struct simulated_events *events, int64_t now_ns);
void simulate_events_free(struct simulated_events *events);

#endif
