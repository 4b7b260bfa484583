/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The driven queue, to look at: what waits for what, what runs, what is next.
 * MODEL    Copies of what is known, as of the last look.  What would run next is the board's
 *          choice, then its order.
 * ERRORS   No memory to sort: in any order.
 * THREADS  One.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/queue/queue_internal.h"

static enum queue_wait wait_of(const struct queue *queue, const struct part *p) {
	const struct message *m = &queue->messages[p->message];

	if (m->reading || m->state == MESSAGE_AWAITED)
		return QUEUE_WAITS_READ;
	switch ((enum part_state)p->state) {
	case PART_RUNNING:
		return QUEUE_WAITS_RUNNING;
	case PART_RETRY:
		return QUEUE_WAITS_RETRY;
	case PART_LOCKED:
		return queue->mtas[m->mta].pause != QUEUE_NOT_PAUSED ? QUEUE_WAITS_PAUSED :
		    QUEUE_WAITS_LOCKED;
	case PART_SUSPENDED:
		return QUEUE_WAITS_SUSPENDED;
	case PART_DUE:
		break;
	}
	if (m->state == MESSAGE_RUNS)
		return QUEUE_WAITS_MESSAGE;
	if (queue->dests[p->dest].wait == QUEUE_WAITS_FOR_TURN &&
	    queue->mtas[m->mta].pause != QUEUE_NOT_PAUSED)
		return QUEUE_WAITS_PAUSED;
	return (enum queue_wait)queue->dests[p->dest].wait;
}

static void fill(const struct queue *queue, uint32_t part, struct queue_row *row) {
	const struct part *p = &queue->parts[part];
	const struct message *m = &queue->messages[p->message];
	const struct dest *d = &queue->dests[p->dest];

	*row = (struct queue_row){ .mta = m->mta, .directory = m->directory, .id = m->id,
		.sender = m->sender, .destination = d->owner.name, .domains = 1,
		.recipients = p->recipients, .unread = m->unread,
		.arrival_ns = m->arrival_ns, .tried_ns = m->tried_ns, .tries = m->tries,
		.wait = wait_of(queue, p) };
	if (row->wait == QUEUE_WAITS_RETRY || row->wait == QUEUE_WAITS_LOCKED)
		row->due_ns = p->due_ns;
	else if (row->wait == QUEUE_WAITS_PAUSED)
		row->due_ns = p->state == PART_LOCKED && p->due_ns > queue->mtas[m->mta].hold_ns ?
		    p->due_ns : queue->mtas[m->mta].hold_ns;
	else if (row->wait == QUEUE_WAITS_SUSPENDED)
		row->due_ns = d->until_ns;
	if (m->state == MESSAGE_RUNS)
		row->run = queue->runs[m->run].number;
}

/* One after another: a part that goes on with the row before, of the same message and for the
 * same dest, and waits for the same. */
static bool joins(const struct queue_row *row, const struct queue_row *next) {
	return row->id == next->id && row->destination == next->destination &&
	    row->wait == next->wait && row->due_ns == next->due_ns;
}

/* --- by destination ------------------------------------------------------------------ */

struct by_age {
	int64_t arrival_ns;
	uint32_t message, part;
};

static int compare_age(const void *a, const void *b) {
	const struct by_age *x = a, *y = b;

	if (x->arrival_ns != y->arrival_ns)
		return x->arrival_ns < y->arrival_ns ? -1 : 1;
	return (x->message > y->message) - (x->message < y->message);
}

/* The parts of a dest, oldest first; NULL: no memory. */
static struct by_age *sorted(const struct queue *queue, const struct dest *d) {
	struct by_age *list = malloc((d->part_count + 1) * sizeof(*list));
	size_t count = 0;

	if (list == NULL)
		return NULL;
	for (uint32_t at = d->first_part; at != NONE; at = queue->parts[at].next_of_dest) {
		uint32_t message = queue->parts[at].message;

		list[count++] = (struct by_age){ queue->messages[message].arrival_ns,
			message, at };
	}
	qsort(list, count, sizeof(*list), compare_age);
	return list;
}

static bool each_of(const struct queue *queue, const struct dest *d,
    bool (*each)(void *context, const struct queue_row *row), void *context) {
	struct by_age *list = sorted(queue, d);
	struct queue_row row, next;
	bool goes_on = true;

	for (uint32_t i = 0; list != NULL && i < d->part_count && goes_on; i++) {
		fill(queue, list[i].part, &next);
		if (i > 0 && joins(&row, &next)) {
			row.domains++;
			row.recipients += next.recipients;
		} else {
			goes_on = i == 0 || each(context, &row);
			row = next;
		}
	}
	if (list != NULL && d->part_count > 0 && goes_on)
		goes_on = each(context, &row);
	free(list);
	return goes_on;
}

struct by_name {
	const char *name;
	uint32_t dest;
};

static int compare_name(const void *a, const void *b) {
	return strcmp(((const struct by_name *)a)->name, ((const struct by_name *)b)->name);
}

static struct by_name *dests_by_name(const struct queue *queue, const char *destination,
    const struct queue_journal_list *journal, size_t *count) {
	struct by_name *list = malloc((queue->dest_count + 1) * sizeof(*list));

	*count = 0;
	for (uint32_t i = 0; list != NULL && i < queue->dest_end; i++) {
		const struct dest *d = &queue->dests[i];

		if (d->used && (d->part_count > 0 || queue_journal_list_has(journal, i)) &&
		    (destination == NULL || strcmp(destination, d->owner.name) == 0))
			list[(*count)++] = (struct by_name){ d->owner.name, i };
	}
	if (list != NULL)
		qsort(list, *count, sizeof(*list), compare_name);
	return list;
}

void queue_each(struct queue *queue, const char *destination, int64_t now_ns,
    bool (*each)(void *context, const struct queue_row *row), void *context) {
	struct by_name *list;
	size_t count;

	(void)now_ns;
	list = dests_by_name(queue, destination, NULL, &count);
	for (size_t i = 0; i < count; i++)
		if (!each_of(queue, &queue->dests[list[i].dest], each, context))
			break;
	free(list);
}

/* Of all that waits for a dest that is open: what goes first, or is nearest to it. */
static bool comes_before(enum queue_wait wait, int64_t due_ns,
    const struct queue_destination_row *row) {
	if (wait == QUEUE_WAITS_FOR_TURN || row->wait == QUEUE_WAITS_FOR_TURN)
		return wait == QUEUE_WAITS_FOR_TURN;
	if (wait == QUEUE_WAITS_RUNNING || row->wait == QUEUE_WAITS_RUNNING)
		return wait == QUEUE_WAITS_RUNNING;
	return due_ns < row->due_ns;
}

static void fill_destination(const struct queue *queue, const struct dest *d,
    struct queue_destination_row *row) {
	*row = (struct queue_destination_row){ .destination = d->owner.name,
		.messages = d->part_count, .recipients = d->recipients, .running = d->runs,
		.window = d->window, .wait = (enum queue_wait)d->wait,
		.doubtful = queue_is_doubtful(d), .proven = !queue_is_unknown(d),
		.oldest_ns = INT64_MAX, .due_ns = INT64_MAX };
	if (d->suspended)
		row->window = 0;
	for (uint32_t at = d->first_part; at != NONE; at = queue->parts[at].next_of_dest) {
		const struct part *p = &queue->parts[at];
		const struct message *m = &queue->messages[p->message];
		int64_t due_ns = p->state == PART_RETRY || p->state == PART_LOCKED ? p->due_ns :
		    p->state == PART_SUSPENDED ? d->until_ns : 0;
		enum queue_wait wait = wait_of(queue, p);

		if (d->wait == QUEUE_WAITS_FOR_TURN &&
		    (at == d->first_part || comes_before(wait, due_ns, row)))
			row->wait = wait;
		if (m->arrival_ns < row->oldest_ns)
			row->oldest_ns = m->arrival_ns;
		if (due_ns < row->due_ns)
			row->due_ns = due_ns;
	}
}

void queue_each_destination(struct queue *queue, const struct queue_journal_list *journal,
    int64_t now_ns, bool (*each)(void *context, const struct queue_destination_row *row),
    void *context) {
	const struct generation *pinned = queue_pin(queue, now_ns);
	struct queue_destination_row row;
	struct by_name *list;
	size_t count;

	list = dests_by_name(queue, NULL, journal, &count);
	for (size_t i = 0; i < count; i++) {
		/* mail of the journal alone: nobody has looked */
		if (!queue->dests[list[i].dest].seen)
			(void)queue_look(queue, list[i].dest, now_ns);
		fill_destination(queue, &queue->dests[list[i].dest], &row);
		if (queue_journal_list_has(journal, list[i].dest))
			queue_journal_list_add(journal, list[i].dest, &row);
		if (!each(context, &row))
			break;
	}
	free(list);
	queue_unpin(queue, pinned);
}

/* --- next ------------------------------------------------------------------------------ */

static bool tell_next(const struct queue *queue, uint32_t part, enum queue_why why,
    bool (*each)(void *context, const struct queue_next *next), void *context) {
	struct queue_next next = { .why = why };

	fill(queue, part, &next.row);
	return each(context, &next);
}

struct telling {
	uint32_t *most;
	bool (*each)(void *context, const struct queue_next *next);
	void *context;
};

/* What may go of the file by the mailer; `but`: a part that was told. */
static bool tell_parts(const struct queue *queue, uint32_t message, unsigned mailer,
    uint32_t but, enum queue_why why, const struct telling *telling) {
	uint32_t part = queue->messages[message].first_part;

	for (; part != NONE && *telling->most > 0; part = queue->parts[part].next_of_message) {
		const struct part *p = &queue->parts[part];
		const struct dest *d = &queue->dests[p->dest];

		if (!p->placed || d->wait != QUEUE_WAITS_FOR_TURN || d->mailer != mailer ||
		    part == but)
			continue;
		--*telling->most;
		if (!tell_next(queue, part, why, telling->each, telling->context))
			return false;
	}
	return true;
}

/* The part that the board has next, or NONE. */
static uint32_t first_part(struct queue *queue, uint32_t transport, int64_t now_ns,
    enum queue_why *why) {
	struct job_why peek;

	if (queue->settings.discipline == QUEUE_FIRST_COME ||
	    !job_peek(queue->board, transport, now_ns, &peek))
		return NONE;
	*why = peek.reason == JOB_REASON_PREEMPTS ? QUEUE_WHY_PREEMPTS : QUEUE_WHY_CURRENT;
	return queue_first_of_peer(queue,
	    (uint32_t)job_message_word(queue->board, peek.message),
	    (uint32_t)job_queue_word(queue->board, peek.queue));
}

/* All that may go of it, in the scheduler's order: the files of an envelope one after another,
 * the one that is first before all. */
static bool next_of(struct queue *queue, unsigned mta, unsigned mailer, int64_t now_ns,
    const struct telling *telling) {
	uint32_t transport = queue_mailer_of(queue, mta, mailer)->transport, at, message;
	enum queue_why why = QUEUE_WHY_CURRENT;
	uint32_t part = first_part(queue, transport, now_ns, &why);
	uint32_t first = part == NONE ? NONE : queue->parts[part].message;

	if (part != NONE && *telling->most > 0) {
		--*telling->most;
		if (!tell_next(queue, part, why, telling->each, telling->context))
			return false;
	}
	for (at = job_list_next(queue->board, transport, JOB_NONE);
	     at != JOB_NONE && *telling->most > 0;
	     at = job_list_next(queue->board, transport, at)) {
		uint32_t envelope = (uint32_t)job_message_word(queue->board, at);

		if (queue->settings.discipline == QUEUE_FIRST_COME &&
		    !queue_may_start(queue, envelope, mta, mailer))
			continue;
		for (message = queue->envelopes[envelope].first_message; message != NONE;
		     message = queue->messages[message].next_of_envelope)
			if (!tell_parts(queue, message, mailer, part, message == first ?
			    QUEUE_WHY_SAME_RUN : QUEUE_WHY_FIRST, telling))
				return false;
	}
	return true;
}

void queue_each_next(struct queue *queue, int64_t now_ns, uint32_t most,
    bool (*each)(void *context, const struct queue_next *next), void *context) {
	const struct telling telling = { &most, each, context };

	for (unsigned i = 0; i < GENERATION_MTAS_MAX * QUEUE_MAILERS; i++)
		if (queue->settings.mtas[i / QUEUE_MAILERS].driven &&
		    !next_of(queue, i / QUEUE_MAILERS, i % QUEUE_MAILERS, now_ns, &telling))
			return;
}

/* --- runs and sums ----------------------------------------------------------------------- */

void queue_each_run(struct queue *queue, int64_t now_ns,
    bool (*each)(void *context, const struct queue_run_row *row), void *context) {
	(void)now_ns;
	for (uint32_t i = 0; i < queue->run_size; i++) {
		const struct run *run = &queue->runs[i];
		struct queue_run_row row = { .run = run->number, .pid = run->pid,
			.mta = run->mta, .directory = run->directory, .messages = run->count,
			.recipients = run->recipients, .destination = "",
			.started_ns = run->started_ns, .progress_ns = run->progress_ns,
			.stalls = run->stalls, .adopted = run->adopted };

		if (run->number == 0)
			continue;
		if (run->current != NONE)
			row.destination = queue->dests[run->current].owner.name;
		else if (run->dest_count == 1)
			row.destination = queue->dests[run->dests[0]].owner.name;
		if (!each(context, &row))
			return;
	}
}
