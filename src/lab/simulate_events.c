/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The heap of simulated events.
 * MODEL    A binary heap in an array that doubles.
 * ERRORS   No memory: the program ends.
 * THREADS  One.
 */
#include "lab/simulate_events.h"

#include <stdlib.h>

#include "lab/memory.h"

uint64_t simulate_random(uint64_t *state) {
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

double simulate_share(uint64_t *state) {
	return (double)(simulate_random(state) >> 11) * 0x1p-53;
}

static bool is_before(const struct simulated_event *a, const struct simulated_event *b) {
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

void simulate_push(struct simulated_events *events, const struct simulated_event *event) {
	struct simulated_event new = *event;
	size_t at = events->count;

	memory_grow(&events->heap, &events->size, at, sizeof(*events->heap));
	new.order = events->orders++;
	events->count++;
	for (; at > 0 && is_before(&new, &events->heap[(at - 1) / 2]); at = (at - 1) / 2)
		events->heap[at] = events->heap[(at - 1) / 2];
	events->heap[at] = new;
}

struct simulated_event simulate_pop(struct simulated_events *events) {
	struct simulated_event first = events->heap[0], last = events->heap[--events->count];
	size_t at = 0, child;

	while ((child = 2 * at + 1) < events->count) {
		if (child + 1 < events->count &&
		    is_before(&events->heap[child + 1], &events->heap[child]))
			child++;
		if (!is_before(&events->heap[child], &last))
			break;
		events->heap[at] = events->heap[child];
		at = child;
	}
	events->heap[at] = last;
	return first;
}

void simulate_events_free(struct simulated_events *events) {
	free(events->heap);
	*events = (struct simulated_events){ .heap = NULL };
}

bool simulate_is_due(const struct simulated_events *events, int64_t now_ns) {
	return events->count > 0 && events->heap[0].at_ns <= now_ns;
}
