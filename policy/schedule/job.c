/* SPDX-License-Identifier: ISC */
/*
 * Messages' recipients come in, and are done (job.h).
 *
 * Model: recipients of one message for one queue are batched in entries: all are full but
 * the last, and perhaps a first one that was put back.  Everything that makes a job able to
 * go on forgets the candidate that was found, as qmgr does.
 */
#include "policy/schedule/job_internal.h"

/* --- batches --------------------------------------------------------------------- */

/* Are recipients of it unread? */
static void set_more(struct job_board *board, uint32_t number, bool more) {
	struct job_message *message = job_message_at(board, number);

	message->more = more;
	for (uint32_t i = message->jobs; i != JOB_NONE; i = job_at(board, i)->sibling_job)
		job_time_update(board, i);
}

void job_batch_begin(struct job_board *board, uint32_t number, uint32_t unread, int64_t now_ns) {
	struct job_message *message = job_message_at(board, number);

	pool_unpromise(board, number);
	message->reading = 0;
	set_more(board, number, unread > 0);
	message->unread = unread == JOB_UNREAD_MAYBE ? 0 : unread;
	message->refill_s = job_seconds(now_ns);
	pool_changed(board, number);
}

/* A job of the message in the transport, in the list and no blocker. */
static uint32_t obtain_job(struct job_board *board, uint32_t message, uint32_t number) {
	uint32_t i = job_find(board, message, number);

	if (i == JOB_NONE)
		i = job_create(board, message, number);
	if (i == JOB_NONE)
		return JOB_NONE;
	if (job_at(board, i)->level < 0)
		job_link(board, i);
	job_forget_candidate(job_transport_at(board, number));
	if (job_is_blocker(board, job_at(board, i)))
		job_unblock(board, i);
	return i;
}

/* Entries wait at a peer that had none, or had some. */
static void waiting_added(struct job_board *board, uint32_t i, bool none_before) {
	const struct job_peer *peer = job_peer_at(board, i);

	if (none_before)
		job_order_insert(board, i);
	if (job_queue_at(board, peer->queue)->heap_at > 0)
		job_heap_lower(board, peer->queue, job_at(board, peer->job)->slot);
	else
		job_heap_offer(board, peer->queue);
}

/* How many entries are new; fills the last one first. */
static uint32_t fill_peer(struct job_peer *peer, uint32_t recipients, uint32_t limit) {
	uint32_t room = peer->waiting == 0 ? 0 : limit == 0 ? recipients :
	    peer->last < limit ? limit - peer->last : 0, added;

	peer->recipients += recipients;
	if (recipients <= room) {
		peer->last += recipients;
		return 0;
	}
	recipients -= room;
	added = limit == 0 ? 1 : (recipients - 1) / limit + 1;
	peer->last = recipients - (added - 1) * limit;
	peer->waiting += added;
	return added;
}

bool job_batch_add(struct job_board *board, uint32_t number, uint32_t queue_number,
    uint32_t recipients) {
	struct job_queue *queue = job_queue_at(board, queue_number);
	struct job_message *message = job_message_at(board, number);
	uint32_t i = job_find(board, number, queue->transport), peer = JOB_NONE, added;
	struct job *job;
	bool none;

	if (i != JOB_NONE)
		peer = job_peer_find(board, i, queue_number);
	if (peer == JOB_NONE && board->peers.used == board->peers.capacity)
		return false;
	if (recipients == 0)
		return true;
	i = obtain_job(board, number, queue->transport);
	if (i == JOB_NONE)
		return false;
	if (peer == JOB_NONE)
		peer = job_peer_create(board, i, queue_number);
	job = job_at(board, i);
	none = job_peer_at(board, peer)->waiting == 0;
	added = fill_peer(job_peer_at(board, peer), recipients, job_transport_at(board,
	    queue->transport)->settings.destination_recipient_limit);
	queue->waiting += added;
	queue->recipients += recipients;
	job->read += added;
	message->entries += added;
	pool_count(board, i, (int32_t)recipients);
	waiting_added(board, peer, none);
	job_slots_refresh(board, i);
	return true;
}

bool job_batch_end(struct job_board *board, uint32_t number) {
	const struct job_message *message = job_message_at(board, number);

	for (uint32_t i = message->jobs; i != JOB_NONE; i = job_at(board, i)->sibling_job) {
		const struct job *job = job_at(board, i);

		if (job_waits(job) && !job_is_blocker(board, job))
			job_forget_candidate(job_transport_at(board, job->transport));
	}
	for (uint32_t i = message->jobs; !message->more && i != JOB_NONE;
	    i = job_at(board, i)->sibling_job)
		pool_move(board, i);
	pool_changed(board, number);
	return message->entries > 0 || message->more;
}

/* --- taken out, done, put back -------------------------------------------------------- */

/* So many of those that wait; the peer perhaps goes with them. */
static void withdraw_peer(struct job_board *board, uint32_t i, uint32_t recipients) {
	struct job_peer *peer = job_peer_at(board, i);
	struct job *job = job_at(board, peer->job);
	struct job_queue *queue = job_queue_at(board, peer->queue);
	struct job_message *message = job_message_at(board, job->message);
	uint32_t number = peer->queue, entries;

	if (peer->waiting == 0)
		return;
	entries = job_peer_less(board, i, recipients);
	if (peer->waiting == 0) {
		if (job_is_blocker(board, job))
			queue->tag = job_transport_at(board, job->transport)->epoch;
		job_order_remove(board, i);
	}
	job->selected += entries;
	queue->waiting -= entries;
	queue->recipients -= recipients;
	message->entries -= entries;
	pool_count(board, peer->job, -(int32_t)recipients);
	job_slots_refresh(board, peer->job);
	pool_done(board, job->message, peer->job);
	job_queue_changed(board, number);
	if (peer->waiting == 0 && peer->running == 0)
		job_peer_destroy(board, i);
}

uint32_t job_withdraw_recipients(struct job_board *board, uint32_t number, uint32_t queue,
    uint32_t recipients) {
	uint32_t i = job_find(board, number, job_queue_at(board, queue)->transport);
	uint32_t peer = i == JOB_NONE ? JOB_NONE : job_peer_find(board, i, queue);
	uint32_t waiting = peer == JOB_NONE ? 0 : job_peer_at(board, peer)->recipients;

	recipients = recipients < waiting ? recipients : waiting;
	if (recipients == 0)
		return 0;
	withdraw_peer(board, peer, recipients);
	if (job_message_at(board, number)->more)
		pool_changed(board, number);
	return recipients;
}

uint32_t job_withdraw(struct job_board *board, uint32_t number, uint32_t queue) {
	struct job_message *message = job_message_at(board, number);
	int32_t before = message->in_core;

	for (uint32_t i = message->jobs; i != JOB_NONE; i = job_at(board, i)->sibling_job) {
		uint32_t left = job_at(board, i)->peer_count, peer = job_at(board, i)->peers;

		if (queue != JOB_NONE) {
			if (job_queue_at(board, queue)->transport != job_at(board, i)->transport)
				continue;
			peer = job_peer_find(board, i, queue);
			left = peer != JOB_NONE;
		}
		for (; left > 0; left--) {
			uint32_t behind = job_peer_at(board, peer)->behind;

			withdraw_peer(board, peer, job_peer_at(board, peer)->recipients);
			peer = behind;
		}
	}
	if (message->more)
		pool_changed(board, number);
	return (uint32_t)(before - message->in_core);
}

void job_message_close(struct job_board *board, uint32_t number) {
	struct job_message *message = job_message_at(board, number);

	message->closed = 1;
	set_more(board, number, false);
	message->unread = 0;
	(void)job_withdraw(board, number, JOB_NONE);
	if (message->entries == 0)
		job_message_destroy(board, number);
	else
		pool_changed(board, number);
}

/* No longer running; in_core and entries of the message are not touched. */
static void stop_running(struct job_board *board, const struct job_taken *taken) {
	struct job_peer *peer = job_peer_at(board, taken->peer);
	struct job_queue *queue = job_queue_at(board, peer->queue);
	struct job_transport *transport = job_transport_at(board, queue->transport);

	peer->running -= taken->entries;
	peer->running_recipients -= taken->recipients;
	queue->running -= taken->entries;
	queue->running_recipients -= taken->recipients;
	queue->busy -= taken->places;
	transport->busy -= taken->places;
}

enum job_left job_done(struct job_board *board, const struct job_taken *taken) {
	struct job_peer *peer = job_peer_at(board, taken->peer);
	uint32_t i = peer->job, queue = peer->queue, number = job_at(board, i)->message;
	struct job_message *message = job_message_at(board, number);

	stop_running(board, taken);
	pool_count(board, i, -(int32_t)taken->recipients);
	message->entries -= taken->entries;
	pool_done(board, number, i);
	job_queue_changed(board, queue);
	if (peer->waiting == 0 && peer->running == 0)
		job_peer_destroy(board, taken->peer);
	if (message->entries == 0) {
		if (message->closed) {
			job_message_destroy(board, number);
			return JOB_LEFT_CLOSED;
		}
		if (message->reading)
			return JOB_LEFT_SOME;
		message->reading = message->more;
		if (message->more)
			(void)pool_promise(board, number, pool_room_slots(message));
	}
	if (message->more)
		pool_changed(board, number);
	return message->entries > 0 ? JOB_LEFT_SOME : message->more ? JOB_LEFT_UNREAD :
	    JOB_LEFT_NONE;
}

/* Entries are the first again; of two first ones that are not full it makes one where
 * that is enough, or a full one and the rest.  How many entries there are less. */
static uint32_t give_back(struct job_peer *peer, const struct job_taken *taken, uint32_t limit) {
	uint32_t full = limit == 0 ? 0 : limit * (taken->entries - 1), part, before = peer->waiting;

	full = full < taken->recipients ? full : taken->recipients - 1;
	part = taken->recipients - full;
	peer->waiting += taken->entries;
	peer->recipients += taken->recipients;
	if (before == 0) {
		peer->last = part;
		return 0;
	}
	if (part >= limit && limit > 0)
		return 0;
	peer->first += part;
	if (peer->first == part)
		return 0;
	if (limit > 0 && peer->first > limit) {
		peer->first -= limit;
		return 0;
	}
	peer->waiting--;
	return 1;
}

void job_put_back(struct job_board *board, const struct job_taken *taken) {
	struct job_peer *peer = job_peer_at(board, taken->peer);
	struct job_queue *queue = job_queue_at(board, peer->queue);
	struct job *job = job_at(board, peer->job);
	uint32_t less;
	bool none = peer->waiting == 0;

	if (job_message_at(board, job->message)->closed) {
		(void)job_done(board, taken);
		return;
	}
	(void)obtain_job(board, job->message, job->transport);
	stop_running(board, taken);
	less = give_back(peer, taken, job_transport_at(board, job->transport)->settings.
	    destination_recipient_limit);
	queue->waiting += taken->entries - less;
	queue->recipients += taken->recipients;
	job->read -= less;
	job_message_at(board, job->message)->entries -= less;
	job->selected -= taken->entries;
	job->slots_available -= (int32_t)taken->entries;
	job->slots_used -= (int32_t)taken->entries;
	waiting_added(board, taken->peer, none);
	job_slots_refresh(board, peer->job);
	job_queue_changed(board, peer->queue);
}

void job_queue_window(struct job_board *board, uint32_t queue, uint32_t window) {
	job_queue_at(board, queue)->window = window;
	job_queue_changed(board, queue);
}
