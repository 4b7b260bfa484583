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
	uint32_t limit = queue_job_settings(&queue->settings, queue->dests[p->dest].mta,
	    queue->dests[p->dest].mailer).destination_recipient_limit;
	uint32_t recipients = p->recipients - but_one;

	return limit == 0 ? 0 : recipients / limit;
}

void queue_prime(struct queue *queue, uint32_t message, uint32_t dest) {
	const struct message *m = &queue->messages[message];
	unsigned mailer = queue->dests[dest].mailer;
	struct primed *primed = &queue_mailer_of(queue, m->mta, mailer)->primed;
	bool but_one = true;

	primed->message = message;
	primed->dest = dest;
	primed->count = 0;
	for (uint32_t at = m->first_part; at != NONE && primed->count < PRIMED_MOST;
	     at = queue->parts[at].next_of_message) {
		struct part *p = &queue->parts[at];
		bool leaves_one = but_one && p->dest == dest;
		uint32_t entries = entries_of(queue, p, leaves_one);
		struct job_taken *taken = &primed->taken[primed->count];

		if (!p->placed || queue->dests[p->dest].mailer != mailer)
			continue;
		but_one = but_one && !leaves_one;
		if (entries == 0 || !job_take(queue->board, queue->envelopes[m->envelope].job,
		    queue->dests[p->dest].queue, entries, 0, taken))
			continue;
		if (taken->recipients > p->recipients) {
			/* an entry that was put back is smaller, never larger; the limit was another */
			job_put_back(queue->board, taken);
			continue;
		}
		p->primed = taken->recipients;
		primed->parts[primed->count++] = at;
	}
}

/* What was taken is given back, or counts as served. */
static void end_primed(struct queue *queue, struct primed *primed, bool served) {
	for (unsigned i = 0; i < primed->count; i++) {
		queue->parts[primed->parts[i]].primed = 0;
		if (served)
			(void)job_done(queue->board, &primed->taken[i]);
		else
			job_put_back(queue->board, &primed->taken[i]);
	}
	primed->count = 0;
	primed->message = NONE;
}

void queue_unprime(struct queue *queue, unsigned mta, unsigned mailer) {
	end_primed(queue, &queue_mailer_of(queue, mta, mailer)->primed, false);
}

/* --- off the board -------------------------------------------------------------------- */

void queue_unplace_part(struct queue *queue, uint32_t part, bool taken) {
	const struct part *p = &queue->parts[part];
	uint32_t job = queue->envelopes[queue->messages[p->message].envelope].job;
	uint32_t board_queue = queue->dests[p->dest].queue, rest = p->recipients - p->primed;
	struct job_taken out;

	queue_leave_peer(queue, part);
	if (!taken)
		(void)job_withdraw_recipients(queue->board, job, board_queue, rest);
	else if (job_take_recipients(queue->board, job, board_queue, rest, 0, &out))
		(void)job_done(queue->board, &out);
}

/* The board is told how many recipients of the envelope are unread. */
static void tell_unread(struct queue *queue, struct message *m, uint32_t unread, int64_t now_ns) {
	struct envelope *e = &queue->envelopes[m->envelope];

	if (unread == m->unread_placed)
		return;
	e->unread += unread - m->unread_placed;
	m->unread_placed = unread;
	if (e->job == JOB_NONE || e->placed == 0)
		return;
	job_batch_begin(queue->board, e->job, e->unread, now_ns);
	(void)job_batch_end(queue->board, e->job);
}

void queue_unplace(struct queue *queue, uint32_t message) {
	struct message *m = &queue->messages[message];
	struct envelope *e;

	if (m->envelope == NONE)
		return;
	for (unsigned i = 0; i < QUEUE_MAILERS; i++) {
		struct primed *primed = &queue_mailer_of(queue, m->mta, i)->primed;

		if (primed->message == message) {
			for (uint32_t at = m->first_part; at != NONE;
			     at = queue->parts[at].next_of_message)
				if (queue->parts[at].placed &&
				    queue->dests[queue->parts[at].dest].mailer == i)
					queue_unplace_part(queue, at, false);
			end_primed(queue, primed, true);
		}
	}
	for (uint32_t at = m->first_part; at != NONE; at = queue->parts[at].next_of_message)
		if (queue->parts[at].placed)
			queue_unplace_part(queue, at, false);
	tell_unread(queue, m, 0, queue->now_ns);
	e = &queue->envelopes[m->envelope];
	if (e->placed == 0 && e->job != JOB_NONE) {
		job_message_close(queue->board, e->job);
		e->job = JOB_NONE;
	}
}

/* --- on the board ---------------------------------------------------------------------- */

static bool open_job(struct queue *queue, uint32_t message, int64_t now_ns) {
	struct message *m = &queue->messages[message];
	struct envelope *e = &queue->envelopes[m->envelope];

	queue_set_queued(queue, message, true, now_ns);
	if (!queue_is_placed(m) && !queue_board_has_room(queue))
		return false;
	if (e->job == JOB_NONE)
		e->job = job_message_open(queue->board, m->envelope, e->queued_ns);
	return e->job != JOB_NONE;
}

static bool place_part(struct queue *queue, uint32_t part, uint32_t job) {
	const struct part *p = &queue->parts[part];

	if (!queue_enter_peer(queue, part))
		return false;
	if (job_batch_add(queue->board, job, queue->dests[p->dest].queue, p->recipients))
		return true;
	queue_leave_peer(queue, part);
	return false;
}

/* True: something is on the board, or waits for a place there. */
static bool place_due(struct queue *queue, uint32_t message, int64_t now_ns) {
	struct message *m = &queue->messages[message];
	struct envelope *e = &queue->envelopes[m->envelope];
	bool begun = false, any = false;

	for (uint32_t at = m->first_part; at != NONE; at = queue->parts[at].next_of_message) {
		struct part *p = &queue->parts[at];

		if (p->state != PART_DUE)
			continue;
		any = true;
		if (p->placed)
			continue;
		if (!begun && open_job(queue, message, now_ns)) {
			e->unread += m->unread - m->unread_placed;
			m->unread_placed = m->unread;
			job_batch_begin(queue->board, e->job, e->unread, now_ns);
			begun = true;
		}
		if (!begun || !place_part(queue, at, e->job)) {
			p->state = PART_RETRY;
			p->due_ns = now_ns + FULL_AGAIN_NS;
		}
	}
	if (begun)
		(void)job_batch_end(queue->board, e->job);
	return any;
}

/* Those whose dest is dead or held wait for its return. */
static void set_aside(struct queue *queue, uint32_t message, int64_t now_ns) {
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

void queue_settle(struct queue *queue, uint32_t message, int64_t now_ns) {
	struct message *m = &queue->messages[message];

	if (m->state != MESSAGE_WAITS || m->reading || m->envelope == NONE)
		return;
	if (m->more_ns <= now_ns)
		m->more_ns = 0;
	/* what is taken for it would be missed */
	for (unsigned i = 0; i < QUEUE_MAILERS; i++)
		if (queue_mailer_of(queue, m->mta, i)->primed.message == message)
			queue_unprime(queue, m->mta, i);
	set_aside(queue, message, now_ns);
	if (!place_due(queue, message, now_ns)) {
		queue_unplace(queue, message);
		queue_set_queued(queue, message, false, now_ns);
		if (m->unread > 0 && !m->more_asked && m->more_ns == 0) {
			m->more_asked = true;
			queue->calls.read_more(queue->calls.context, m->mta, m->directory,
			    m->id, m->place);
		}
	}
	queue_set_timer(queue, message);
}
