/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  When the parts of messages that failed are due again, or more is read of one.
 * MODEL    A heap of messages, by the first of their times.
 * THREADS  One.
 */
#include "engine/queue/queue_internal.h"

static bool is_before(const struct queue *queue, uint32_t a, uint32_t b) {
	return queue->messages[queue->timers[a]].due_ns <
	    queue->messages[queue->timers[b]].due_ns;
}

static void swap_timers(struct queue *queue, uint32_t a, uint32_t b) {
	uint32_t message = queue->timers[a];

	queue->timers[a] = queue->timers[b];
	queue->timers[b] = message;
	queue->messages[queue->timers[a]].timer = a + 1;
	queue->messages[queue->timers[b]].timer = b + 1;
}

static void sift(struct queue *queue, uint32_t at) {
	while (at > 0 && is_before(queue, at, (at - 1) / 2)) {
		swap_timers(queue, at, (at - 1) / 2);
		at = (at - 1) / 2;
	}
	for (;;) {
		uint32_t first = at;

		for (uint32_t child = 2 * at + 1; child <= 2 * at + 2; child++)
			if (child < queue->timer_count && is_before(queue, child, first))
				first = child;
		if (first == at)
			return;
		swap_timers(queue, at, first);
		at = first;
	}
}

void queue_clear_timer(struct queue *queue, uint32_t message) {
	uint32_t at = queue->messages[message].timer, last;

	if (at == 0)
		return;
	queue->messages[message].timer = 0;
	last = queue->timers[--queue->timer_count];
	if (last == message)
		return;
	queue->timers[at - 1] = last;
	queue->messages[last].timer = at;
	sift(queue, at - 1);
}

void queue_set_timer(struct queue *queue, uint32_t message) {
	struct message *m = &queue->messages[message];
	int64_t due_ns = m->more_ns > 0 ? m->more_ns : INT64_MAX;

	for (uint32_t at = m->first_part; at != NONE; at = queue->parts[at].next_of_message) {
		const struct part *p = &queue->parts[at];

		if ((p->state == PART_RETRY || p->state == PART_LOCKED) && p->due_ns < due_ns)
			due_ns = p->due_ns;
	}
	queue_clear_timer(queue, message);
	if (due_ns == INT64_MAX)
		return;
	m->due_ns = due_ns;
	queue->timers[queue->timer_count] = message;
	m->timer = ++queue->timer_count;
	sift(queue, m->timer - 1);
}
