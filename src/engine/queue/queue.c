/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The driven queue's life, its settings, and the passing of time.
 * MODEL    Every call takes the configuration in force; where that has changed, each domain's
 *          window is found anew.
 * ERRORS   No memory at the start is told; later mail is left to the next scan.
 * THREADS  One.
 */
#include <stdlib.h>

#include "engine/queue/queue_internal.h"

#define TICK_NS		NS_PER_SECOND
#define SWEEP_NS	(600 * NS_PER_SECOND)

const char *queue_wait_word(enum queue_wait wait) {
	static const char *const words[] = {
#define WAIT(symbol, word, text) word,
#include "defs/waits.def"
#undef WAIT
	};
	_Static_assert(sizeof(words) / sizeof(words[0]) == QUEUE_WAIT_COUNT, "all waits");

	return words[wait];
}

const char *queue_why_word(enum queue_why why) {
	static const char *const words[] = {
#define WHY(symbol, word, text) word,
#include "defs/whys.def"
#undef WHY
	};
	_Static_assert(sizeof(words) / sizeof(words[0]) == QUEUE_WHY_COUNT, "all whys");

	return words[why];
}

/* --- life ------------------------------------------------------------------------ */

/* One process is one place; how many there may be is not the board's business. */
struct job_settings queue_job_settings(const struct queue_settings *settings, unsigned mta,
    unsigned mailer) {
	struct job_settings out = settings->mtas[mta].transports[mailer];

	if (out.recipient_limit == 0)
		out = settings->schedule.job;
	out.process_limit = 0;
	if (settings->schedule.discipline == DISCIPLINE_FIRST_COME)
		out.delivery_slot_cost = 0;
	return out;
}

uint32_t queue_processes(const struct queue_settings *settings, unsigned mta, unsigned mailer) {
	return mailer == QUEUE_LOCAL ? settings->mtas[mta].local_processes :
	    settings->mtas[mta].processes;
}

int queue_open(struct queue **queue, struct engine *engine,
    const struct queue_settings *settings, const struct queue_directory *directories,
    unsigned directory_count, const struct queue_calls *calls, struct diag *diag) {
	struct queue *new = calloc(1, sizeof(*new));

	*queue = NULL;
	if (new == NULL)
		return diag_set(diag, 0, "no memory for a queue");
	new->engine = engine;
	new->settings = *settings;
	new->calls = *calls;
	new->directories = directories;
	new->directory_count = directory_count;
	if (!queue_store_open(new, diag)) {
		queue_store_close(new);
		free(new);
		return -1;
	}
	for (unsigned i = 0; i < GENERATION_MTAS_MAX; i++) {
		for (unsigned k = 0; k < QUEUE_MAILERS; k++) {
			struct queue_mailer *mailer = queue_mailer_of(new, i, k);
			struct job_settings job = queue_job_settings(settings, i, k);

			mailer->transport = job_transport_open(new->board, &job, i);
		}
	}
	atomic_store(&engine->segment->header->queue_paused, 0);
	told_begin(engine->segment);
	grants_begin(engine->segment,
	    (unsigned)(engine->role - engine->segment->header->roles));
	*queue = new;
	return 0;
}

void queue_close(struct queue **queue) {
	if (*queue == NULL)
		return;
	grants_scrub((*queue)->engine->segment);
	queue_journal_close(*queue);
	queue_told_close(*queue);
	queue_store_close(*queue);
	if ((*queue)->generation != NULL)
		engine_unpin((*queue)->engine, (*queue)->generation);
	free(*queue);
	*queue = NULL;
}

void queue_configure(struct queue *queue, const struct queue_settings *settings) {
	queue->settings = *settings;
	for (unsigned i = 0; i < GENERATION_MTAS_MAX * QUEUE_MAILERS; i++) {
		unsigned mta = i / QUEUE_MAILERS, mailer = i % QUEUE_MAILERS;
		struct job_settings job = queue_job_settings(settings, mta, mailer);

		job_transport_adjust(queue->board, queue_mailer_of(queue, mta,
		    mailer)->transport, &job);
	}
	for (uint32_t i = 0; i < queue->message_end; i++) {
		struct message *m = &queue->messages[i];

		if (m->state == MESSAGE_FREE || settings->mtas[m->mta].drive != 0)
			continue;
		queue_journal_finish(queue, m->directory, m->id);
		queue_forget_message(queue, m);
	}
}

/* --- configuration ------------------------------------------------------------------ */

void queue_begin(struct queue *queue, int64_t now_ns) {
	uint64_t before = queue->generation == NULL ? 0 : queue->generation->number;

	queue->now_ns = now_ns;
	if (queue->opened_ns == 0)
		queue->opened_ns = now_ns;
	queue->generation = engine_pin_newer(queue->engine, queue->generation);
	if (before != queue->generation->number && before != 0)
		queue_remap_all(queue);
}

/* --- time ------------------------------------------------------------------------------ */

static void take_due(struct queue *queue) {
	while (queue->timer_count > 0 && queue->timers[0]->due_ns <= queue->now_ns) {
		struct message *m = queue->timers[0];

		for (struct part *p = m->parts; p != NULL; p = p->next_of_message)
			if ((p->state == PART_RETRY || p->state == PART_LOCKED) &&
			    p->due_ns <= queue->now_ns)
				p->state = PART_DUE;
		queue_clear_timer(queue, m);
		queue_settle(queue, m);
	}
}

static void tell_room(struct queue *queue) {
	uint32_t most = queue->settings.schedule.pool.message_active_limit;
	/* not for each single one */
	bool in_memory = queue->message_count <= queue->message_most - queue->message_most / 8;

	if (queue->refused == 0 && (queue->forgotten == 0 || !in_memory))
		return;
	if (queue->placed > most - most / 8 && queue->placed > 0)
		return;
	queue->refused = 0;
	if (in_memory)
		queue->forgotten = 0;
	queue->calls.room(queue->calls.context);
}

static int64_t earlier(int64_t a, int64_t b) {
	return a < b ? a : b;
}

int64_t queue_turn(struct queue *queue, int64_t now_ns) {
	int64_t next_ns;

	queue_begin(queue, now_ns);
	if (now_ns >= queue->sweep_ns) {
		queue_sweep_dests(queue);
		queue->sweep_ns = now_ns + SWEEP_NS;
	}
	take_due(queue);
	queue_look_at_stalls(queue);
	queue_look_at_watched(queue);
	queue_settle_changed(queue);
	tell_room(queue);
	next_ns = queue_journal_turn(queue);
	next_ns = earlier(next_ns, queue_told_turn(queue));
	for (unsigned i = 0; i < GENERATION_MTAS_MAX; i++) {
		const struct queue_mta *mta = &queue->mtas[i];

		for (unsigned k = 0; k < QUEUE_MAILERS; k++)
			if (mta->mailers[k].running + mta->mailers[k].stalled > 0)
				next_ns = earlier(next_ns, now_ns + TICK_NS);
		if (mta->hold_ns > now_ns)
			next_ns = earlier(next_ns, mta->hold_ns);
	}
	if (!LIST_EMPTY(&queue->watched))
		next_ns = earlier(next_ns, queue->watch_ns);
	if (queue->timer_count > 0)
		next_ns = earlier(next_ns, queue->timers[0]->due_ns);
	return next_ns;
}
