/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  When the parts of messages that failed are due again, or more is read of one.
 * MODEL    A heap of messages, by the first of their times.
 * THREADS  One.
 */
#include "engine/queue/queue_internal.h"

static void put_timer(struct queue *queue, uint32_t at, struct message *m) {
	queue->timers[at] = m;
	m->timer = at + 1;
}

static void sift_timer(struct queue *queue, uint32_t at) {
	struct message *m = queue->timers[at];

	for (; at > 0 && m->due_ns < queue->timers[(at - 1) / 2]->due_ns; at = (at - 1) / 2)
		put_timer(queue, at, queue->timers[(at - 1) / 2]);
	for (uint32_t child = 2 * at + 1; child < queue->timer_count; child = 2 * at + 1) {
		if (child + 1 < queue->timer_count &&
		    queue->timers[child + 1]->due_ns < queue->timers[child]->due_ns)
			child++;
		if (m->due_ns <= queue->timers[child]->due_ns)
			break;
		put_timer(queue, at, queue->timers[child]);
		at = child;
	}
	put_timer(queue, at, m);
}

void queue_clear_timer(struct queue *queue, struct message *m) {
	uint32_t at = m->timer;
	struct message *last;

	if (at == 0)
		return;
	m->timer = 0;
	last = queue->timers[--queue->timer_count];
	if (last == m)
		return;
	put_timer(queue, at - 1, last);
	sift_timer(queue, at - 1);
}

void queue_set_timer(struct queue *queue, struct message *m) {
	int64_t due_ns = m->more_ns > 0 ? m->more_ns : INT64_MAX;

	for (const struct part *p = m->parts; p != NULL; p = p->next_of_message)
		if ((p->state == PART_RETRY || p->state == PART_LOCKED) && p->due_ns < due_ns)
			due_ns = p->due_ns;
	queue_clear_timer(queue, m);
	if (due_ns == INT64_MAX)
		return;
	m->due_ns = due_ns;
	put_timer(queue, queue->timer_count, m);
	sift_timer(queue, queue->timer_count++);
}
