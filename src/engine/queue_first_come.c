/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What is next of the driven queue where the discipline is first-come.
 * MODEL    The oldest message first, among those whose envelope may have a run more (the
 *          scheduler notes' allowed_new_worker; workers are processes).  Sendmail cuts a
 *          long envelope into files, of the same sender and second: these are one message of
 *          the notes, and a run that has any of them is one of its workers.  Bounces have
 *          no sender, and each stands for itself.  What follows in a run rides free.
 * THREADS  One.
 */
#include <string.h>

#include "engine/queue_internal.h"
#include "policy/worker.h"

#define NONE_YET	UINT32_MAX

static bool is_same_envelope(const struct message *a, const struct message *b)
{
	return a == b || (a->mta == b->mta && a->sender[0] != '\0' &&
	    a->arrival_ns / NS_PER_SECOND == b->arrival_ns / NS_PER_SECOND &&
	    strcmp(a->sender, b->sender) == 0);
}

/* Runs that have a file of the envelope. */
static uint32_t concurrency_of(const struct queue *queue, const struct message *m)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < queue->run_size; i++) {
		const struct run *run = &queue->runs[i];
		bool has = false;

		for (unsigned j = 0; run->number != 0 && j < run->count && !has; j++)
			has = run->messages[j] != NONE &&
			    is_same_envelope(m, &queue->messages[run->messages[j]]);
		count += has;
	}
	return count;
}

bool queue_may_start(const struct queue *queue, uint32_t message)
{
	const struct message *m = &queue->messages[message];
	const struct queue_settings *settings = &queue->settings;
	uint32_t processes = settings->mtas[m->mta].processes;
	uint32_t running = queue->mtas[m->mta].running;
	struct worker_settings worker = worker_defaults;

	worker.max_message_concurrency = settings->max_message_concurrency;
	worker.scale_max_concurrency = settings->scale_max_concurrency;
	return worker_allowed(&worker, false, concurrency_of(queue, m),
	    processes > running ? processes - running : 0);
}

/* A dest where something of the message may go now, or NONE. */
static uint32_t open_dest(struct queue *queue, uint32_t message, int64_t now_ns)
{
	uint32_t at, next;

	for (at = queue->messages[message].first_part; at != NONE; at = next) {
		uint32_t dest = queue->parts[at].dest;

		next = queue->parts[at].next_of_message;
		if (queue->parts[at].placed &&
		    queue_look_again(queue, dest, now_ns) == QUEUE_WAITS_FOR_TURN)
			return dest;
	}
	return NONE;
}

bool queue_first_come(struct queue *queue, unsigned mta, int64_t now_ns,
    struct job_taken *taken)
{
	uint32_t transport = queue->mtas[mta].transport, at, next, refused = NONE_YET;

	for (at = job_list_next(queue->board, transport, JOB_NONE); at != JOB_NONE; at = next) {
		uint32_t message = (uint32_t)job_message_word(queue->board, at), dest;

		next = job_list_next(queue->board, transport, at);
		/* files of one envelope stand together: one answer for all */
		if (refused != NONE_YET && is_same_envelope(&queue->messages[refused],
		    &queue->messages[message]))
			continue;
		dest = open_dest(queue, message, now_ns);
		if (dest == NONE)
			continue;
		if (!queue_may_start(queue, message)) {
			refused = message;
			continue;
		}
		if (job_take(queue->board, at, queue->dests[dest].queue, 1, 1, taken))
			return true;
	}
	return false;
}
