/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What stands on the scheduler's board.
 * MODEL    A part that is due is placed: so many recipients more of its envelope for the
 *          queue of its dest.  A file leaves the board whole, when it runs, changes or has
 *          nothing left there; its envelope does with the last of its files, and comes back
 *          in its old place (queued_ns).
 * ERRORS   A board that is full takes it a little later.
 * THREADS  One.
 */
#include "engine/queue/queue_internal.h"

#define FULL_AGAIN_NS	NS_PER_SECOND

/* --- entries that are taken before their run ------------------------------------------ */

/* Whole entries of the part: so many can be taken, less one recipient of the last. */
static uint32_t entries_of(const struct queue *queue, const struct part *p, bool but_one) {
	uint32_t limit = queue_job_settings(&queue->settings, p->dest->mta,
	    p->dest->mailer).destination_recipient_limit;
	uint32_t recipients = p->recipients - but_one;

	return limit == 0 ? 0 : recipients / limit;
}

void queue_prime(struct queue *queue, struct message *m, struct dest *d) {
	unsigned mailer = d->mailer;
	struct primed *primed = &queue_mailer_of(queue, m->mta, mailer)->primed;
	bool but_one = true;

	primed->message = m;
	primed->dest = d;
	primed->count = 0;
	for (struct part *p = m->parts; p != NULL && primed->count < PRIMED_MOST;
	     p = p->next_of_message) {
		bool leaves_one = but_one && p->dest == d;
		uint32_t entries = entries_of(queue, p, leaves_one);
		struct job_taken *taken = &primed->taken[primed->count];

		if (!p->on_board || p->dest->mailer != mailer)
			continue;
		but_one = but_one && !leaves_one;
		if (entries == 0 || !job_take(queue->board, m->envelope->job,
		    p->dest->queue, entries, 0, taken))
			continue;
		if (taken->recipients > p->recipients) {
			/* an entry that was put back is smaller, never larger; the limit was another */
			job_put_back(queue->board, taken);
			continue;
		}
		p->primed = taken->recipients;
		primed->parts[primed->count++] = p;
	}
}

/* What was taken is given back, or counts as served. */
static void end_primed(struct queue *queue, struct primed *primed, bool served) {
	for (unsigned i = 0; i < primed->count; i++) {
		primed->parts[i]->primed = 0;
		if (served)
			(void)job_done(queue->board, &primed->taken[i]);
		else
			job_put_back(queue->board, &primed->taken[i]);
	}
	primed->count = 0;
	primed->message = NULL;
}

void queue_unprime(struct queue *queue, unsigned mta, unsigned mailer) {
	end_primed(queue, &queue_mailer_of(queue, mta, mailer)->primed, false);
}

/* --- off the board -------------------------------------------------------------------- */

void queue_unplace_part(struct queue *queue, struct part *p, bool taken) {
	uint32_t job = p->message->envelope->job;
	uint32_t board_queue = p->dest->queue, rest = p->recipients - p->primed;
	struct job_taken out;

	queue_set_on_board(queue, p, false);
	if (!taken)
		(void)job_withdraw_recipients(queue->board, job, board_queue, rest);
	else if (job_take_recipients(queue->board, job, board_queue, rest, 0, &out))
		(void)job_done(queue->board, &out);
}

/* The board is told how many recipients of the envelope are unread. */
static void tell_unread(struct queue *queue, struct message *m, uint32_t unread) {
	struct envelope *e = m->envelope;

	if (unread == m->unread_placed)
		return;
	e->unread += unread - m->unread_placed;
	m->unread_placed = unread;
	if (e->job == JOB_NONE || e->placed == 0)
		return;
	job_batch_begin(queue->board, e->job, e->unread, queue->now_ns);
	(void)job_batch_end(queue->board, e->job);
}

void queue_unplace(struct queue *queue, struct message *m) {
	struct envelope *e = m->envelope;

	if (e == NULL)
		return;
	for (unsigned i = 0; i < QUEUE_MAILERS; i++) {
		struct primed *primed = &queue_mailer_of(queue, m->mta, i)->primed;

		if (primed->message == m) {
			for (struct part *p = m->parts; p != NULL; p = p->next_of_message)
				if (p->on_board && p->dest->mailer == i)
					queue_unplace_part(queue, p, false);
			end_primed(queue, primed, true);
		}
	}
	for (struct part *p = m->parts; p != NULL; p = p->next_of_message)
		if (p->on_board)
			queue_unplace_part(queue, p, false);
	tell_unread(queue, m, 0);
	if (e->placed == 0 && e->job != JOB_NONE) {
		job_message_close(queue->board, e->job);
		e->job = JOB_NONE;
	}
}

/* --- on the board ---------------------------------------------------------------------- */

static bool open_job(struct queue *queue, struct message *m) {
	struct envelope *e = m->envelope;

	queue_set_queued(m, true, queue->now_ns);
	if (!queue_is_placed(m) && !queue_board_has_room(queue))
		return false;
	if (e->job == JOB_NONE)
		e->job = job_message_open(queue->board, (uintptr_t)e, e->queued_ns);
	return e->job != JOB_NONE;
}

/* True: something is on the board, or waits for a place there. */
static bool place_due(struct queue *queue, struct message *m) {
	struct envelope *e = m->envelope;
	bool begun = false, any = false;

	for (struct part *p = m->parts; p != NULL; p = p->next_of_message) {
		if (p->state != PART_DUE)
			continue;
		any = true;
		if (p->on_board)
			continue;
		if (!begun && open_job(queue, m)) {
			e->unread += m->unread - m->unread_placed;
			m->unread_placed = m->unread;
			job_batch_begin(queue->board, e->job, e->unread, queue->now_ns);
			begun = true;
		}
		if (begun && job_batch_add(queue->board, e->job, p->dest->queue, p->recipients)) {
			queue_set_on_board(queue, p, true);
		} else {
			p->state = PART_RETRY;
			p->due_ns = queue->now_ns + FULL_AGAIN_NS;
		}
	}
	if (begun)
		(void)job_batch_end(queue->board, e->job);
	return any;
}

/* Those whose dest is dead or held wait for its return. */
static void set_aside(struct queue *queue, struct message *m) {
	for (struct part *p = m->parts; p != NULL; p = p->next_of_message)
		if (p->state == PART_DUE && !p->on_board &&
		    queue_look_again(queue, p->dest) == QUEUE_WAITS_SUSPENDED)
			p->state = PART_SUSPENDED;
}

void queue_settle(struct queue *queue, struct message *m) {
	if (m->state != MESSAGE_WAITS)
		return;
	if (m->more_ns <= queue->now_ns)
		m->more_ns = 0;
	/* what is taken for it would be missed */
	for (unsigned i = 0; i < QUEUE_MAILERS; i++)
		if (queue_mailer_of(queue, m->mta, i)->primed.message == m)
			queue_unprime(queue, m->mta, i);
	set_aside(queue, m);
	if (!place_due(queue, m)) {
		queue_unplace(queue, m);
		queue_set_queued(m, false, queue->now_ns);
		if (m->unread > 0 && !m->more_asked && m->more_ns == 0) {
			m->more_asked = true;
			queue->calls.read(queue->calls.context, m->directory,
			    m->id, m->place);
		}
	}
	queue_set_timer(queue, m);
}
