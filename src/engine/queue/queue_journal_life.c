/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The life of the driven queue's journal, and its share of the queue's turns.
 * MODEL    Each turn does a bounded piece: recovery and all that the journal does by itself,
 *          then what was taken, then memory is filled.  A journal that begins anew after a
 *          fault is told all that is in memory, in pieces, and the directories are looked
 *          through for the rest.
 * ERRORS   Without a journal the queue works on.
 * THREADS  One.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/queue/queue_journal_internal.h"

#define RENEWED_A_TURN	256
#define LOOK_SHARE	10	/* a look takes that part of the time at most */
#define LOOK_STEP_NS	NS_PER_MS	/* between two steps */
#define LOOK_ANYWAY_NS	(3600 * NS_PER_SECOND)

/* --- open and close -------------------------------------------------------------------- */

static void note_renewed(void *context) {
	struct queue_journal *j = context;

	j->renewing = 0;
}

/* What failed is tried after retry .. retry_most: a runner for each doubling between; where
 * these are too many, for each tripling, or so. */
static void choose_intervals(struct queue_journal *j) {
	int64_t least_ns = INT64_MAX, most_ns = 0, longest_ns;

	for (unsigned i = 0; i < GENERATION_MTAS_MAX; i++) {
		const struct generation_mta *mta = &j->queue->settings.mtas[i];

		if (mta->drive == 0)
			continue;
		if (mta->retry_ns < least_ns)
			least_ns = mta->retry_ns;
		if (mta->retry_most_ns > most_ns)
			most_ns = mta->retry_most_ns;
	}
	if (least_ns < NS_PER_SECOND)
		least_ns = NS_PER_SECOND;
	if (most_ns < least_ns)
		most_ns = least_ns;
	for (int64_t factor = 2;; factor++) {
		j->intervals = 1;
		for (longest_ns = least_ns; longest_ns < most_ns &&
		     j->intervals < MESSAGES_INTERVALS_MAX - 1; longest_ns *= factor)
			j->intervals_ns[j->intervals++] = longest_ns;
		if (longest_ns >= most_ns)
			break;
	}
	j->intervals_ns[j->intervals++] = most_ns;
}

static int open_messages(struct queue_journal *j, const struct queue_journal_setup *setup,
    int64_t now_ns, struct diag *diag) {
	const struct messages_calls calls = { .renewed = note_renewed,
		.recovered = queue_journal_recovered, .context = j };
	struct messages_settings settings = messages_defaults;

	const struct journal_storage *storage = setup->storage;

	if (storage == NULL)
		storage = j->storage = journal_storage_posix(setup->path, false, diag);
	if (storage == NULL)
		return -1;
	choose_intervals(j);
	memcpy(settings.intervals_ns, j->intervals_ns, sizeof(settings.intervals_ns));
	settings.intervals = j->intervals;
	settings.sync_delay_ns = setup->sync_delay_ns;
	settings.envelope_delay_ns = setup->envelope_delay_ns;
	settings.log.file_size = (uint32_t)setup->file_size;
	settings.log.threaded = setup->threaded;
	return messages_open(&j->messages, storage, &settings, &calls, now_ns + j->wall_ns,
	    now_ns, diag);
}

int queue_journal_open(struct queue *queue, const struct queue_journal_setup *setup,
    int64_t now_ns, int64_t wall_ns, struct diag *diag) {
	struct queue_journal *j = calloc(1, sizeof(*j));

	if (j == NULL)
		return diag_set(diag, 0, "no memory for the queue's journal");
	j->queue = queue;
	j->wall_ns = wall_ns - now_ns;
	j->renewing = NONE;
	queue->journal = j;
	queue->now_ns = now_ns;
	if (open_messages(j, setup, now_ns, diag) != 0) {
		queue_journal_close(queue);
		return -1;
	}
	return 0;
}

void queue_journal_close(struct queue *queue) {
	struct queue_journal *j = queue->journal;

	if (j == NULL)
		return;
	queue->journal = NULL;
	messages_walk_close(&j->walk);
	if (j->messages != NULL)
		messages_close(&j->messages);
	if (j->storage != NULL)
		journal_storage_close(&j->storage);
	free(j);
}

void queue_journal_wall(struct queue *queue, int64_t now_ns, int64_t wall_ns) {
	if (queue->journal != NULL)
		queue->journal->wall_ns = wall_ns - now_ns;
}

int queue_journal_fd(const struct queue *queue) {
	return queue->journal == NULL ? -1 :
	    journal_log_event_fd(messages_log(queue->journal->messages));
}

/* --- turns ------------------------------------------------------------------------------ */

static void renew_messages(struct queue_journal *j) {
	struct queue *queue = j->queue;

	if (j->renewing == NONE)
		return;
	for (unsigned i = 0; i < RENEWED_A_TURN && j->renewing < queue->message_end; i++) {
		const struct message *m = &queue->messages[j->renewing];

		if (m->state != MESSAGE_FREE) {
			(void)queue_journal_put(j, m, true);
			if (m->state == MESSAGE_RUNS)
				queue_journal_start(queue, m);
		}
		j->renewing++;
	}
	if (j->renewing < queue->message_end)
		return;
	j->renewing = NONE;
	/* all others are to be read again */
	queue->calls.room(queue->calls.context);
}

/* All of their mail was seen since they came back. */
static void forget_returns(struct queue_journal *j) {
	struct queue *queue = j->queue;

	for (struct dest *d = TAILQ_FIRST(&queue->dests), *next; d != NULL; d = next) {
		next = TAILQ_NEXT(d, of_all);
		if (!d->in_journal || d->suspended || d->back_ns > j->look_began_ns)
			continue;
		d->in_journal = false;
		queue_leave_dest(queue, d);
	}
}

/* Once after the start, to learn which dests mail waits for; when one came back; and now and
 * then, as mail that nobody calls waits for ever.  Returns when to come again. */
static int64_t look_at_waiting(struct queue_journal *j) {
	int64_t now_ns = j->queue->now_ns;

	if (j->walk != NULL && queue_journal_look_on(j))
		return now_ns + LOOK_STEP_NS;
	if (j->walk != NULL) {
		messages_walk_close(&j->walk);
		j->look_again_ns = now_ns + (now_ns - j->look_began_ns) * LOOK_SHARE;
		forget_returns(j);
	}
	if (!messages_is_indexed(j->messages) ||
	    (j->looked && !j->recall && now_ns < j->look_anyway_ns))
		return INT64_MAX;
	if (now_ns < j->look_again_ns)
		return j->look_again_ns;
	j->walk = messages_walk_open(j->messages);
	if (j->walk == NULL)
		return INT64_MAX;
	j->returned = j->looked && j->recall;
	j->looked = true;
	j->recall = false;
	j->look_began_ns = now_ns;
	j->look_anyway_ns = now_ns + LOOK_ANYWAY_NS;
	return now_ns;
}

void queue_journal_remapped(struct queue *queue) {
	if (queue->journal != NULL)
		queue->journal->recall = true;
}

uint64_t queue_journal_waiting(const struct queue *queue) {
	struct messages_totals totals;

	if (queue->journal == NULL)
		return 0;
	messages_count(queue->journal->messages, &totals);
	return totals.waiting;
}

void queue_journal_suspended(struct queue *queue, struct dest *d) {
	if (queue_journal_waiting(queue) > 0)
		d->in_journal = true;
}

void queue_journal_recall(struct queue *queue, struct dest *d) {
	if (queue->journal != NULL && d->in_journal)
		queue->journal->recall = true;
}

int64_t queue_journal_turn(struct queue *queue) {
	struct queue_journal *j = queue->journal;
	int64_t next_ns, load_ns, look_ns;
	bool was_recovered, was_indexed;

	if (j == NULL)
		return INT64_MAX;
	was_recovered = messages_is_recovered(j->messages);
	was_indexed = messages_is_indexed(j->messages);
	renew_messages(j);
	queue_journal_sweep(j);
	look_ns = look_at_waiting(j);
	load_ns = queue_journal_load(j);
	next_ns = messages_turn(j->messages, queue_journal_now(j), queue->now_ns);
	if (j->renewing != NONE ||
	    was_recovered != messages_is_recovered(j->messages) ||
	    was_indexed != messages_is_indexed(j->messages))
		return queue->now_ns;
	if (look_ns < load_ns)
		load_ns = look_ns;
	return load_ns < next_ns ? load_ns : next_ns;
}

void queue_journal_tell(struct queue *queue, const struct journal_listener *listener,
    int64_t now_ns) {
	struct queue_journal *j = queue->journal;
	struct messages_totals totals;

	if (j == NULL) {
		journal_status_none(queue->engine, JOURNAL_ROOM_QUEUE);
		return;
	}
	j->told.behind = j->renewing != NONE;
	messages_count(j->messages, &totals);
	journal_status_messages(queue->engine, totals.messages, totals.waiting);
	journal_status_tell(queue->engine, JOURNAL_ROOM_QUEUE, &j->told,
	    messages_log(j->messages), listener, now_ns);
}
