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
#include "policy/schedule/concurrency.h"

static bool has_file_of(const struct run *run, const struct envelope *envelope) {
	for (unsigned i = 0; i < run->count; i++)
		if (run->messages[i] != NULL && run->messages[i]->envelope == envelope)
			return true;
	return false;
}

/* Runs of the mailer that have a file of the envelope. */
static uint32_t concurrency_of(const struct queue *queue, const struct envelope *envelope,
    unsigned mailer) {
	const struct run *run;
	uint32_t count = 0;

	TAILQ_FOREACH(run, &queue->runs, of_all)
		count += run->mailer == mailer && has_file_of(run, envelope);
	return count;
}

bool queue_may_start(const struct queue *queue, const struct envelope *e, unsigned mta,
    unsigned mailer) {
	const struct queue_settings *settings = &queue->settings;
	uint32_t processes = queue_processes(settings, mta, mailer);
	uint32_t running = queue->mtas[mta].mailers[mailer].running;

	return concurrency_allows(settings->schedule.max_message_concurrency,
	    settings->schedule.scale_max_concurrency, concurrency_of(queue, e, mailer),
	    processes > running ? processes - running : 0);
}

/* A dest of the mailer where something of the message may go now, or NULL. */
static struct dest *open_dest(struct queue *queue, struct message *m, unsigned mailer) {
	for (const struct part *p = m->parts; p != NULL; p = p->next_of_message)
		if (p->on_board && p->dest->mailer == mailer &&
		    queue_look_again(queue, p->dest) == QUEUE_WAITS_FOR_TURN)
			return p->dest;
	return NULL;
}

bool queue_first_come(struct queue *queue, unsigned mta, unsigned mailer,
    struct message **message, struct dest **dest) {
	uint32_t transport = queue_mailer_of(queue, mta, mailer)->transport, at, next;

	for (at = job_list_next(queue->board, transport, JOB_NONE); at != JOB_NONE; at = next) {
		struct envelope *e = queue_job_envelope(queue, at);

		next = job_list_next(queue->board, transport, at);
		if (!queue_may_start(queue, e, mta, mailer))
			continue;
		TAILQ_FOREACH(*message, &e->messages, of_envelope) {
			if ((*message)->placed[mailer] == 0)
				continue;
			*dest = open_dest(queue, *message, mailer);
			if (*dest != NULL)
				return true;
		}
	}
	return false;
}
