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
	const struct message *m = p->message;

	if (m->state == MESSAGE_AWAITED)
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
	if (p->dest->wait == QUEUE_WAITS_FOR_TURN &&
	    queue->mtas[m->mta].pause != QUEUE_NOT_PAUSED)
		return QUEUE_WAITS_PAUSED;
	return (enum queue_wait)p->dest->wait;
}

static void fill_row(const struct queue *queue, const struct part *p, struct queue_row *row) {
	const struct message *m = p->message;
	const struct dest *d = p->dest;

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
		row->run = m->run->number;
}

bool queue_rows_end(struct queue_rows *rows) {
	return rows->row.domains == 0 || rows->each(rows->context, &rows->row);
}

bool queue_rows_add(struct queue_rows *rows, const struct queue_row *next) {
	struct queue_row *row = &rows->row;
	bool more;

	if (row->domains > 0 && row->id == next->id && row->destination == next->destination &&
	    row->wait == next->wait && row->due_ns == next->due_ns) {
		row->domains += next->domains;
		row->recipients += next->recipients;
		return true;
	}
	more = queue_rows_end(rows);
	*row = *next;
	return more;
}

/* --- by destination ------------------------------------------------------------------ */

static int compare_age(const void *a, const void *b) {
	const struct message *x = (*(const struct part *const *)a)->message;
	const struct message *y = (*(const struct part *const *)b)->message;

	if (x->arrival_ns != y->arrival_ns)
		return x->arrival_ns < y->arrival_ns ? -1 : 1;
	return (x > y) - (x < y);
}

/* The parts of a dest, oldest first; NULL: no memory. */
static const struct part **sorted_parts(const struct dest *d) {
	const struct part **list = malloc((d->part_count + 1) * sizeof(struct part *)), *p;
	size_t count = 0;

	if (list == NULL)
		return NULL;
	LIST_FOREACH(p, &d->parts, of_dest)
		list[count++] = p;
	qsort(list, count, sizeof(struct part *), compare_age);
	return list;
}

static bool each_of(const struct queue *queue, const struct dest *d,
    bool (*each)(void *context, const struct queue_row *row), void *context) {
	const struct part **list = sorted_parts(d);
	struct queue_rows rows = { .each = each, .context = context };
	struct queue_row next;
	bool goes_on = true;

	for (uint32_t i = 0; list != NULL && i < d->part_count && goes_on; i++) {
		fill_row(queue, list[i], &next);
		goes_on = queue_rows_add(&rows, &next);
	}
	goes_on = goes_on && queue_rows_end(&rows);
	free(list);
	return goes_on;
}

static int compare_name(const void *a, const void *b) {
	return strcmp((*(struct dest *const *)a)->owner.name,
	    (*(struct dest *const *)b)->owner.name);
}

static struct dest **dests_by_name(const struct queue *queue,
    const struct queue_journal_list *journal, size_t *count) {
	struct dest **list = malloc((queue->dest_map.count + 1) * sizeof(struct dest *)), *d;

	*count = 0;
	if (list == NULL)
		return NULL;
	TAILQ_FOREACH(d, &queue->dests, of_all)
		if (!LIST_EMPTY(&d->parts) || queue_journal_list_has(journal, d))
			list[(*count)++] = d;
	qsort(list, *count, sizeof(struct dest *), compare_name);
	return list;
}

void queue_each(struct queue *queue,
    bool (*each)(void *context, const struct queue_row *row), void *context) {
	struct dest **list;
	size_t count;

	list = dests_by_name(queue, NULL, &count);
	for (size_t i = 0; i < count; i++)
		if (!each_of(queue, list[i], each, context))
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
	const struct part *p;

	*row = (struct queue_destination_row){ .destination = d->owner.name,
		.messages = d->part_count, .recipients = d->recipients, .running = d->runs,
		.window = d->window, .wait = (enum queue_wait)d->wait,
		.doubtful = queue_is_doubtful(d), .proven = !queue_is_unknown(d),
		.oldest_ns = INT64_MAX, .due_ns = INT64_MAX };
	if (d->suspended)
		row->window = 0;
	LIST_FOREACH(p, &d->parts, of_dest) {
		const struct message *m = p->message;
		int64_t due_ns = p->state == PART_RETRY || p->state == PART_LOCKED ? p->due_ns :
		    p->state == PART_SUSPENDED ? d->until_ns : 0;
		enum queue_wait wait = wait_of(queue, p);

		if (d->wait == QUEUE_WAITS_FOR_TURN &&
		    (p == LIST_FIRST(&d->parts) || comes_before(wait, due_ns, row)))
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
	struct queue_destination_row row;
	struct dest **list;
	size_t count;

	queue_begin(queue, now_ns);
	list = dests_by_name(queue, journal, &count);
	for (size_t i = 0; i < count; i++) {
		/* mail of the journal alone: nobody has looked */
		if (!list[i]->seen)
			(void)queue_look(queue, list[i]);
		fill_destination(queue, list[i], &row);
		if (queue_journal_list_has(journal, list[i]))
			queue_journal_list_add(journal, list[i], &row);
		if (!each(context, &row))
			break;
	}
	free(list);
}

/* --- next ------------------------------------------------------------------------------ */

struct telling {
	uint32_t most;		/* that are told yet */
	bool (*each)(void *context, const struct queue_row *row);
	void *context;
};

/* False: no more is wanted. */
static bool tell_next(const struct queue *queue, const struct part *p, enum queue_why why,
    struct telling *telling) {
	struct queue_row row;

	telling->most--;
	fill_row(queue, p, &row);
	row.why = why;
	return telling->each(telling->context, &row) && telling->most > 0;
}

/* What may go of the file by the mailer; `but`: a part that was told. */
static bool tell_parts(const struct queue *queue, const struct message *m, unsigned mailer,
    const struct part *but, enum queue_why why, struct telling *telling) {
	for (const struct part *p = m->parts; p != NULL; p = p->next_of_message)
		if (p->on_board && p->dest->wait == QUEUE_WAITS_FOR_TURN &&
		    p->dest->mailer == mailer && p != but &&
		    !tell_next(queue, p, why, telling))
			return false;
	return true;
}

/* The part that the board has next, or NULL. */
static const struct part *first_part(struct queue *queue, uint32_t transport,
    enum queue_why *why) {
	struct job_would peek;

	if (queue->settings.schedule.discipline == DISCIPLINE_FIRST_COME ||
	    !job_peek(queue->board, transport, queue->now_ns, &peek))
		return NULL;
	*why = peek.preempts ? QUEUE_WHY_PREEMPTS : QUEUE_WHY_CURRENT;
	return queue_first_part(queue_job_envelope(queue, peek.message),
	    queue_job_dest(queue, peek.queue));
}

/* All that may go of it, in the scheduler's order: the files of an envelope one after another,
 * the one that is first before all. */
static bool next_of(struct queue *queue, unsigned mta, unsigned mailer,
    struct telling *telling) {
	uint32_t transport = queue_mailer_of(queue, mta, mailer)->transport;
	enum queue_why why = QUEUE_WHY_CURRENT;
	const struct part *first = first_part(queue, transport, &why);

	if (first != NULL && !tell_next(queue, first, why, telling))
		return false;
	for (uint32_t at = job_list_next(queue->board, transport, JOB_NONE); at != JOB_NONE;
	     at = job_list_next(queue->board, transport, at)) {
		const struct envelope *e = queue_job_envelope(queue, at);
		const struct message *m;

		if (queue->settings.schedule.discipline == DISCIPLINE_FIRST_COME &&
		    !queue_may_start(queue, e, mta, mailer))
			continue;
		TAILQ_FOREACH(m, &e->messages, of_envelope)
			if (!tell_parts(queue, m, mailer, first, first != NULL &&
			    m == first->message ? QUEUE_WHY_SAME_RUN : QUEUE_WHY_FIRST, telling))
				return false;
	}
	return true;
}

void queue_each_next(struct queue *queue, int64_t now_ns, uint32_t most,
    bool (*each)(void *context, const struct queue_row *row), void *context) {
	struct telling telling = { most, each, context };

	queue_begin(queue, now_ns);
	for (unsigned i = 0; i < GENERATION_MTAS_MAX * QUEUE_MAILERS && most > 0; i++)
		if (queue->settings.mtas[i / QUEUE_MAILERS].drive != 0 &&
		    !next_of(queue, i / QUEUE_MAILERS, i % QUEUE_MAILERS, &telling))
			return;
}

/* --- runs and sums ----------------------------------------------------------------------- */

void queue_each_run(struct queue *queue,
    bool (*each)(void *context, const struct queue_run_row *row), void *context) {
	const struct run *run;

	TAILQ_FOREACH(run, &queue->runs, of_all) {
		struct queue_run_row row = { .run = run->number, .pid = run->pid,
			.mta = run->mta, .directory = run->directory, .messages = run->count,
			.recipients = run->recipients, .destination = "",
			.started_ns = run->started_ns, .progress_ns = run->progress_ns,
			.stalls = run->stalls, .adopted = run->adopted };

		if (run->current != NULL)
			row.destination = run->current->owner.name;
		else if (run->dest_count == 1)
			row.destination = run->dests[0]->owner.name;
		if (!each(context, &row))
			return;
	}
}
