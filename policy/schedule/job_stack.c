/* SPDX-License-Identifier: ISC */
/*
 * The scheduler's list of jobs (job_board.h): FIFO by time, with jobs that preempt others in
 * front of those; who has preempted whom; who is a blocker.
 *
 * Model: the law is the document's, its fine print that of Postfix's qmgr.  A preempting job
 * pays with its parent's slots: what it is expected to use at once, what it has used in truth
 * when it leaves the stack, and only to the parent that it has preempted itself.
 */
#include "policy/schedule/job_internal.h"

static void list_remove(struct job_board *board, struct job_transport *transport,
    const struct job *job) {
	if (job->before == JOB_NONE)
		transport->first = job->behind;
	else
		job_at(board, job->before)->behind = job->behind;
	if (job->behind == JOB_NONE)
		transport->last = job->before;
	else
		job_at(board, job->behind)->before = job->before;
}

/* Between two neighbours, or an end and one. */
static void list_insert(struct job_board *board, struct job_transport *transport, uint32_t i,
    uint32_t before, uint32_t behind) {
	struct job *job = job_at(board, i);

	job->before = before;
	job->behind = behind;
	if (before == JOB_NONE)
		transport->first = i;
	else
		job_at(board, before)->behind = i;
	if (behind == JOB_NONE)
		transport->last = i;
	else
		job_at(board, behind)->before = i;
}

/* The last in the list that is nobody's child, and is not younger. */
static uint32_t place_by_time(const struct job_board *board,
    const struct job_transport *transport, uint32_t number, uint32_t queued) {
	uint32_t i = transport->last, below = board->slot_count;

	if (i == JOB_NONE)
		return JOB_NONE;
	do {
		i = job_slots_older(board, number, queued, below);
		if (i != JOB_NONE)
			below = job_at(board, i)->slot;
	} while (i != JOB_NONE && job_at(board, i)->parent != JOB_NONE);
	return i;
}

void job_link(struct job_board *board, uint32_t i) {
	struct job *job = job_at(board, i);
	struct job_transport *transport = job_transport_at(board, job->transport);
	uint32_t queued = job_message_at(board, job->message)->queued, unread, before;

	before = place_by_time(board, transport, job->transport, queued);
	list_insert(board, transport, i, before, before == JOB_NONE ? transport->first :
	    job_at(board, before)->behind);
	job->level = 0;
	job_slots_place(board, i);
	job->linked = ++board->linked;
	job_time_update(board, i);
	job->exception = job->slot < transport->passed;
	job->disorder = job->behind != JOB_NONE &&
	    job_slots_longer(board, job->transport, queued, job->slot);
	job_slots_refresh(board, i);
	if (transport->current == JOB_NONE ||
	    job_at(board, transport->current)->slot > job->slot)
		transport->current = i;
	unread = transport->next_unread;
	if (unread == JOB_NONE ||
	    job_message_at(board, job_at(board, unread)->message)->queued > queued) {
		transport->next_unread = i;
		if (unread != JOB_NONE)
			pool_move(board, unread);
	}
	if (transport->slots_unused > 0)
		pool_grant(board, i, transport->slots_unused);
}

/* The children get another parent, or none. */
static void leave_children(struct job_board *board, struct job *job, uint32_t parent) {
	while (job->children != JOB_NONE) {
		uint32_t i = job->children;
		struct job *child = job_at(board, i);

		job->children = child->younger;
		child->elder = child->younger = JOB_NONE;
		child->parent = parent;
		if (parent != JOB_NONE) {
			child->younger = job_at(board, parent)->children;
			if (child->younger != JOB_NONE)
				job_at(board, child->younger)->elder = i;
			job_at(board, parent)->children = i;
		}
	}
}

void job_unlink(struct job_board *board, uint32_t i) {
	struct job *job = job_at(board, i);
	struct job_transport *transport = job_transport_at(board, job->transport);

	leave_children(board, job, JOB_NONE);
	if (transport->current == i)
		transport->current = job->behind;
	if (transport->cache == i || transport->cache_current == i)
		job_forget_candidate(transport);
	list_remove(board, transport, job);
	job_slots_clear(board, i);
	job->disorder = job->exception = 0;
	job->level = -1;
	job_time_update(board, i);
	if (transport->first == JOB_NONE)
		transport->passed = 0;
}

void job_pop(struct job_board *board, uint32_t i) {
	struct job *job = job_at(board, i);
	struct job_transport *transport = job_transport_at(board, job->transport);
	uint32_t up = job->parent;

	if (up != JOB_NONE) {
		struct job *parent = job_at(board, up);

		if (job->level == parent->level + 1)
			parent->slots_available -= job->slots_used *
			    (int32_t)transport->settings.delivery_slot_cost;
		if (job->elder == JOB_NONE)
			parent->children = job->younger;
		else
			job_at(board, job->elder)->younger = job->younger;
		if (job->younger != JOB_NONE)
			job_at(board, job->younger)->elder = job->elder;
		job->elder = job->younger = job->parent = JOB_NONE;
	}
	leave_children(board, job, up);
	job->level = 0;
	if (up != JOB_NONE)
		job_slots_refresh(board, up);
	job_forget_candidate(transport);
}

void job_retire(struct job_board *board, uint32_t i) {
	if (job_at(board, i)->level > 0)
		job_pop(board, i);
	pool_move(board, i);
	job_unlink(board, i);
}

/* Moves a job in front of another: the queues' orders go along. */
static void move_before(struct job_board *board, uint32_t i, uint32_t behind) {
	struct job *job = job_at(board, i);
	struct job_transport *transport = job_transport_at(board, job->transport);
	uint32_t left = job->peer_count;

	for (uint32_t peer = job->peers; left > 0; left--) {
		if (job_peer_at(board, peer)->in != JOB_IN_NONE)
			job_order_remove(board, peer);
		peer = job_peer_at(board, peer)->behind;
	}
	job->disorder = job->exception = 0;
	list_remove(board, transport, job);
	job_slots_clear(board, i);
	list_insert(board, transport, i, job_at(board, behind)->before, behind);
	job_slots_place(board, i);
	left = job->peer_count;
	for (uint32_t peer = job->peers; left > 0; left--) {
		if (job_peer_at(board, peer)->waiting > 0) {
			job_order_insert(board, peer);
			job_heap_lower(board, job_peer_at(board, peer)->queue, job->slot);
		}
		peer = job_peer_at(board, peer)->behind;
	}
}

void job_push(struct job_board *board, uint32_t current_number, uint32_t i) {
	struct job *job = job_at(board, i), *current = job_at(board, current_number);
	struct job_transport *transport = job_transport_at(board, job->transport);
	bool passed = job_is_blocker(board, current) || current->slot < transport->passed;
	int32_t expected = (int32_t)(job_most(board, job) - job->selected);

	if (job->level > 0)
		job_pop(board, i);
	move_before(board, i, current_number);
	if (passed)
		job->exception = job->slot < transport->passed;
	else if (transport->passed > job->slot)
		transport->passed = job->slot;
	job->parent = current_number;
	job->younger = current->children;
	if (job->younger != JOB_NONE)
		job_at(board, job->younger)->elder = i;
	current->children = i;
	job->level = current->level + 1;
	transport->current = i;
	job_forget_candidate(transport);
	current->slots_available -= expected * (int32_t)transport->settings.delivery_slot_cost;
	job->slots_used = -expected;
	job_slots_refresh(board, current_number);
	job_slots_refresh(board, i);
	if (job_message_at(board, job->message)->more) {
		int32_t extra = (int32_t)transport->settings.extra_recipient_limit;

		extra = (extra + transport->slots_unused + 1) / 2;
		if (extra > 0)
			pool_grant(board, i, extra);
	}
}

/* --- blockers ------------------------------------------------------------------------ */

bool job_is_blocker(const struct job_board *board, const struct job *job) {
	return job->level >= 0 && !job->exception &&
	    job->slot < job_transport_at(board, job->transport)->passed;
}

static void end_exception(struct job_board *board, uint32_t transport, uint32_t slot) {
	uint32_t i = job_slots_who(board, transport, slot);

	job_at(board, i)->exception = 0;
	job_slots_refresh(board, i);
}

void job_pass(struct job_board *board, struct job_transport *transport, uint32_t number,
    uint32_t slot) {
	uint32_t at;

	while ((at = job_slots_flag(board, number, JOB_SLOT_EXCEPT, 0)) < slot)
		end_exception(board, number, at);
	if (transport->passed < slot)
		transport->passed = slot;
}

void job_unblock(struct job_board *board, uint32_t i) {
	struct job *job = job_at(board, i);
	struct job_transport *transport = job_transport_at(board, job->transport);
	uint32_t left = job->peer_count;

	for (uint32_t peer = job->peers; left > 0; left--) {
		if (job_peer_at(board, peer)->waiting > 0)
			job_queue_at(board, job_peer_at(board, peer)->queue)->tag = transport->epoch;
		peer = job_peer_at(board, peer)->behind;
	}
	job->exception = 1;
	job_slots_refresh(board, i);
	transport->current = transport->first;
}

/* Do blockers wait for the queue? */
static bool queue_blocks(const struct job_board *board, const struct job_queue *queue,
    uint32_t number) {
	const struct job_transport *transport = job_transport_at(board, queue->transport);

	if (queue->tag == transport->epoch)
		return true;
	if (queue->waiting == 0)
		return false;
	for (uint32_t i = job_order_first(board, number); i != JOB_NONE;
	    i = job_order_next(board, i)) {
		const struct job *job = job_at(board, job_peer_at(board, i)->job);

		if (job->slot >= transport->passed)
			return false;
		if (!job->exception)
			return true;
	}
	return false;
}

void job_queue_changed(struct job_board *board, uint32_t i) {
	struct job_queue *queue = job_queue_at(board, i);
	struct job_transport *transport = job_transport_at(board, queue->transport);
	uint32_t at;

	if (!job_queue_has_place(queue))
		return;
	job_heap_offer(board, i);
	if (!queue_blocks(board, queue, i))
		return;
	queue->tag = 0;
	if (queue->waiting == 0)
		return;
	/* The transport's tag changes: nobody is a blocker. */
	transport->epoch++;
	transport->passed = 0;
	while ((at = job_slots_flag(board, queue->transport, JOB_SLOT_EXCEPT, 0)) != JOB_NONE)
		end_exception(board, queue->transport, at);
	transport->current = transport->first;
	job_forget_candidate(transport);
}
