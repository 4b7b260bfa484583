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

void simulate_ring_push(struct simulated_ring *ring, const struct simulated_event *event) {
	if (ring->count == ring->size) {
		size_t size = ring->size > 0 ? 2 * ring->size : 16;
		struct simulated_event *list = memory_of(size, sizeof(*list));

		for (size_t i = 0; i < ring->count; i++)
			list[i] = ring->list[(ring->head + i) % ring->size];
		free(ring->list);
		*ring = (struct simulated_ring){ .list = list, .count = ring->count,
			.size = size };
	}
	ring->list[(ring->head + ring->count++) % ring->size] = *event;
}

struct simulated_event simulate_ring_pop(struct simulated_ring *ring) {
	struct simulated_event event = ring->list[ring->head];

	ring->head = (ring->head + 1) % ring->size;
	ring->count--;
	return event;
}

bool simulate_ring_is_due(const struct simulated_ring *ring, int64_t now_ns) {
	return ring->count > 0 && ring->list[ring->head].at_ns <= now_ns;
}
