/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What is next of the driven queue where the discipline is first-come.
 * MODEL    The oldest message first, among those whose envelope may have a run more (the
 *          scheduler notes' allowed_new_worker; workers are processes).  An envelope is a
 *          message of the notes, and a run that has any of its files is one of its workers.
 *          What follows in a run rides free.
 * THREADS  One.
 */
#include "engine/queue/queue_internal.h"
#include "policy/schedule/worker.h"

/* Runs of the mailer that have a file of the envelope. */
static uint32_t concurrency_of(const struct queue *queue, uint32_t envelope, unsigned mailer) {
	uint32_t count = 0;

	for (uint32_t i = 0; i < queue->run_size; i++) {
		const struct run *run = &queue->runs[i];
		bool has = false;

		if (run->number == 0 || run->mailer != mailer)
			continue;
		for (unsigned j = 0; j < run->count && !has; j++)
			has = run->messages[j] != NONE &&
			    queue->messages[run->messages[j]].envelope == envelope;
		count += has;
	}
	return count;
}

bool queue_may_start(const struct queue *queue, uint32_t envelope, unsigned mta,
    unsigned mailer) {
	const struct queue_settings *settings = &queue->settings;
	uint32_t processes = settings->mtas[mta].processes[mailer];
	uint32_t running = queue->mtas[mta].mailers[mailer].running;
	struct worker_settings worker = worker_defaults;

	worker.max_message_concurrency = settings->max_message_concurrency;
	worker.scale_max_concurrency = settings->scale_max_concurrency;
	return worker_allowed(&worker, false, concurrency_of(queue, envelope, mailer),
	    processes > running ? processes - running : 0);
}

/* A dest of the mailer where something of the message may go now, or NONE. */
static uint32_t open_dest(struct queue *queue, uint32_t message, unsigned mailer, int64_t now_ns) {
	uint32_t at, next;

	for (at = queue->messages[message].first_part; at != NONE; at = next) {
		uint32_t dest = queue->parts[at].dest;

		next = queue->parts[at].next_of_message;
		if (queue->parts[at].placed && queue->dests[dest].mailer == mailer &&
		    queue_look_again(queue, dest, now_ns) == QUEUE_WAITS_FOR_TURN)
			return dest;
	}
	return NONE;
}

bool queue_first_come(struct queue *queue, unsigned mta, unsigned mailer, int64_t now_ns,
    uint32_t *message, uint32_t *dest) {
	uint32_t transport = queue_mailer_of(queue, mta, mailer)->transport, at, next;

	for (at = job_list_next(queue->board, transport, JOB_NONE); at != JOB_NONE; at = next) {
		uint32_t envelope = (uint32_t)job_message_word(queue->board, at);

		next = job_list_next(queue->board, transport, at);
		if (!queue_may_start(queue, envelope, mta, mailer))
			continue;
		for (*message = queue->envelopes[envelope].first_message; *message != NONE;
		     *message = queue->messages[*message].next_of_envelope) {
			if (queue->messages[*message].placed[mailer] == 0)
				continue;
			*dest = open_dest(queue, *message, mailer, now_ns);
			if (*dest != NONE)
				return true;
		}
	}
	return false;
}
