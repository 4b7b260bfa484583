/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What stands on the scheduler's board.
 * MODEL    A part that is due is placed: so many recipients more of its message for the
 *          queue of its dest.  A message leaves the board whole, when it runs, changes or
 *          has nothing left there, and comes back in its old place (queued_ns).
 * ERRORS   A board that is full takes it a little later.
 * THREADS  One.
 */
#include "engine/queue_internal.h"

#define FULL_AGAIN_NS	NS_PER_SECOND

void queue_prime(struct queue *queue, uint32_t message, uint32_t dest)
{
	const struct message *m = &queue->messages[message];
	struct primed *primed = &queue->mtas[m->mta].primed;

	primed->message = message;
	primed->dest = dest;
	primed->count = 0;
	for (uint32_t at = m->first_part; at != NONE && primed->count < PRIMED_MOST;
	     at = queue->parts[at].next_of_message) {
		const struct part *p = &queue->parts[at];
		uint32_t board_queue = queue->dests[p->dest].queue;
		struct job_part there = job_part(queue->board, m->job, board_queue);

		if (p->placed && there.waiting_entries > (p->dest == dest) &&
		    job_take(queue->board, m->job, board_queue,
			there.waiting_entries - (p->dest == dest), 0,
			&primed->taken[primed->count]))
			primed->count++;
	}
}

void queue_unprime(struct queue *queue, unsigned mta)
{
	struct primed *primed = &queue->mtas[mta].primed;

	for (unsigned i = 0; i < primed->count; i++)
		job_put_back(queue->board, &primed->taken[i]);
	primed->count = 0;
	primed->message = NONE;
}

void queue_unplace(struct queue *queue, uint32_t message)
{
	struct message *m = &queue->messages[message];
	struct primed *primed = &queue->mtas[m->mta].primed;

	for (unsigned i = 0; primed->message == message && i < primed->count; i++)
		(void)job_done(queue->board, &primed->taken[i]);
	if (primed->message == message)
		primed->message = NONE;
	for (uint32_t at = m->first_part; at != NONE; at = queue->parts[at].next_of_message)
		queue->parts[at].placed = false;
	if (m->job != JOB_NONE)
		job_message_close(queue->board, m->job);
	m->job = JOB_NONE;
}

static bool open_job(struct queue *queue, uint32_t message, int64_t now_ns)
{
	struct message *m = &queue->messages[message];

	if (m->queued_ns == 0)
		m->queued_ns = now_ns;
	if (m->job == JOB_NONE)
		m->job = job_message_open(queue->board, message, m->queued_ns);
	return m->job != JOB_NONE;
}

/* True: something is on the board, or waits for a place there. */
static bool place_due(struct queue *queue, uint32_t message, int64_t now_ns)
{
	struct message *m = &queue->messages[message];
	bool begun = false, any = false;

	for (uint32_t at = m->first_part; at != NONE; at = queue->parts[at].next_of_message) {
		struct part *p = &queue->parts[at];
		const struct dest *d = &queue->dests[p->dest];

		if (p->state != PART_DUE)
			continue;
		any = true;
		if (p->placed)
			continue;
		if (!begun && open_job(queue, message, now_ns)) {
			job_batch_begin(queue->board, m->job, m->unread, now_ns);
			begun = true;
		}
		p->placed = begun &&
		    job_batch_add(queue->board, m->job, d->queue, p->recipients);
		if (!p->placed) {
			p->state = PART_RETRY;
			p->due_ns = now_ns + FULL_AGAIN_NS;
		}
	}
	if (begun)
		(void)job_batch_end(queue->board, m->job);
	return any;
}

/* Those whose dest is dead or held wait for its return. */
static void set_aside(struct queue *queue, uint32_t message, int64_t now_ns)
{
	uint32_t next;

	for (uint32_t at = queue->messages[message].first_part; at != NONE; at = next) {
		struct part *p = &queue->parts[at];

		next = p->next_of_message;
		if (p->state != PART_DUE || p->placed)
			continue;
		if (queue_look_again(queue, p->dest, now_ns) == QUEUE_WAITS_SUSPENDED)
			queue->parts[at].state = PART_SUSPENDED;
	}
}

void queue_settle(struct queue *queue, uint32_t message, int64_t now_ns)
{
	struct message *m = &queue->messages[message];

	if (m->state != MESSAGE_WAITS || m->reading)
		return;
	if (m->more_ns <= now_ns)
		m->more_ns = 0;
	/* what is taken for it would be missed */
	if (queue->mtas[m->mta].primed.message == message)
		queue_unprime(queue, m->mta);
	set_aside(queue, message, now_ns);
	if (!place_due(queue, message, now_ns)) {
		queue_unplace(queue, message);
		m->queued_ns = 0;
		if (m->unread > 0 && !m->more_asked && m->more_ns == 0) {
			m->more_asked = true;
			queue->calls.read_more(queue->calls.context, m->mta, m->directory,
			    m->id, m->place);
		}
	}
	queue_set_timer(queue, message);
}
