/* SPDX-License-Identifier: ISC */
/*
 * Looking at the scheduler (job.h).
 *
 * Model: nothing is changed; whoever walks goes on from where it was, by message and queue,
 * so a walk survives changes as long as that one is still there.
 */
#include "policy/schedule/job_internal.h"

bool job_view(const struct job_board *board, uint32_t number, uint32_t transport,
    struct job_view *out) {
	const struct job_message *message = job_message_at(board, number);
	uint32_t i = job_find(board, number, transport), left, peer;
	const struct job *job;

	if (i == JOB_NONE)
		return false;
	job = job_at(board, i);
	*out = (struct job_view){ .message = number, .transport = transport,
		.word = message->word, .queued_ns = message->queued_s * 1000000000,
		.least_entries = job->read, .most_entries = job->read + message->unread,
		.unread = message->unread, .slots = job->slots_available,
		.level = job->level > 0 ? (uint32_t)job->level : 0,
		.parent = job->parent == JOB_NONE ? JOB_NONE :
		    job_at(board, job->parent)->message,
		.listed = job->level >= 0,
		.current = job_transport_at(board, transport)->current == i,
		.blocker = job_is_blocker(board, job),
		.in_core = (uint32_t)job->in_core, .recipient_slots = job->slots,
		.reading = message->reading };
	left = job->peer_count;
	for (peer = job->peers; left > 0; left--) {
		const struct job_peer *part = job_peer_at(board, peer);

		out->waiting_entries += part->waiting;
		out->waiting_recipients += part->recipients;
		out->running_entries += part->running;
		peer = part->behind;
	}
	return true;
}

uint32_t job_list_next(const struct job_board *board, uint32_t transport, uint32_t message) {
	uint32_t i = message == JOB_NONE ? JOB_NONE : job_find(board, message, transport);

	if (message == JOB_NONE)
		i = job_transport_at(board, transport)->first;
	else if (i != JOB_NONE)
		i = job_at(board, i)->level < 0 ? JOB_NONE : job_at(board, i)->behind;
	return i == JOB_NONE ? JOB_NONE : job_at(board, i)->message;
}

static uint32_t part_of(const struct job_board *board, uint32_t message, uint32_t queue) {
	uint32_t i = job_find(board, message, job_queue_at(board, queue)->transport);

	return i == JOB_NONE ? JOB_NONE : job_peer_find(board, i, queue);
}

uint32_t job_waiting_next(const struct job_board *board, uint32_t queue, uint32_t message) {
	uint32_t i;

	if (message == JOB_NONE) {
		i = job_queue_at(board, queue)->waiting == 0 ? JOB_NONE :
		    job_order_first(board, queue);
	} else {
		i = part_of(board, message, queue);
		i = i == JOB_NONE || job_peer_at(board, i)->waiting == 0 ? JOB_NONE :
		    job_order_next(board, i);
	}
	return i == JOB_NONE ? JOB_NONE : job_at(board, job_peer_at(board, i)->job)->message;
}

void job_queue_view(const struct job_board *board, uint32_t number, struct job_queue_view *out) {
	const struct job_queue *queue = job_queue_at(board, number);

	*out = (struct job_queue_view){ .transport = queue->transport, .word = queue->word,
		.window = queue->window, .busy = queue->busy,
		.waiting_jobs = queue->waiting_jobs, .waiting_entries = queue->waiting,
		.waiting_recipients = queue->recipients, .running_entries = queue->running,
		.running_recipients = queue->running_recipients };
}

uint64_t job_message_word(const struct job_board *board, uint32_t message) {
	return job_message_at(board, message)->word;
}

uint64_t job_queue_word(const struct job_board *board, uint32_t queue) {
	return job_queue_at(board, queue)->word;
}
