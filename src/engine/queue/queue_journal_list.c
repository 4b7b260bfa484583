/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Lists what waits in the queue's journal and not in memory.
 * MODEL    The journal is walked in pieces.  A row is a message's part for a destination; or
 *          all are summed by destination, each of which is used until the list is closed.
 * ERRORS   What there is no memory for is left out, and told.
 * THREADS  One.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/queue/queue_journal_internal.h"

#define DESTS_MOST	100000u	/* that are summed */

struct sum {
	const struct dest *dest;
	struct domain *domain;	/* of it, that is used */
	uint32_t messages, recipients;
	int64_t oldest_ns, due_ns;
};

struct queue_journal_list {
	struct queue_journal *j;
	struct messages_walk *walk;
	uint64_t generation;
	struct map sums;	/* by dest */
	bool sums_up, cut;
	struct queue_rows rows;
	bool enough;		/* no more are wanted */
};

struct queue_journal_list *queue_journal_list_open(struct queue *queue, bool sums_up) {
	struct queue_journal *j = queue->journal;
	struct queue_journal_list *list;

	if (queue_journal_waiting(queue) == 0)
		return NULL;
	list = calloc(1, sizeof(*list));
	if (list == NULL)
		return NULL;
	list->j = j;
	list->sums_up = sums_up;
	list->generation = queue->generation == NULL ? 0 : queue->generation->number;
	list->walk = messages_walk_open(j->messages);
	if (list->walk == NULL)
		queue_journal_list_close(&list);
	return list;
}

void queue_journal_list_close(struct queue_journal_list **list) {
	struct queue_journal_list *l = *list;

	if (l == NULL)
		return;
	for (uint32_t i = 0; i < l->sums.size; i++) {
		struct sum *sum = l->sums.cells[i].item;

		if (l->sums.cells[i].hash == 0)
			continue;
		queue_unuse_domain(l->j->queue, sum->domain);
		free(sum);
	}
	map_free(&l->sums);
	messages_walk_close(&l->walk);
	free(l);
	*list = NULL;
}

bool queue_journal_list_is_cut(const struct queue_journal_list *list) {
	return list->cut;
}

/* --- sums ------------------------------------------------------------------------------ */

static uint64_t sum_hash(const struct dest *dest) {
	return (uint64_t)(uintptr_t)dest * UINT64_C(0x9e3779b97f4a7c15) >> 16;
}

static struct sum *find_sum(const struct queue_journal_list *l, const struct dest *dest) {
	const struct map_cell *cell = map_find(&l->sums, sum_hash(dest));

	while (cell != NULL && ((const struct sum *)cell->item)->dest != dest)
		cell = map_next(&l->sums, cell);
	return cell == NULL ? NULL : cell->item;
}

/* Takes over the use of the domain.  NULL: no memory, or there are too many. */
static struct sum *make_sum(struct queue_journal_list *l, struct domain *domain) {
	struct sum *sum = l->sums.count < DESTS_MOST ? malloc(sizeof(*sum)) : NULL;

	if (sum == NULL || !map_add_item(&l->sums, sum_hash(domain->dest), sum)) {
		free(sum);
		return NULL;
	}
	*sum = (struct sum){ .dest = domain->dest, .domain = domain, .oldest_ns = INT64_MAX,
		.due_ns = INT64_MAX };
	return sum;
}

/* Takes over the use of the domain. */
static void add_up(struct queue_journal_list *l, struct domain *domain, uint32_t recipients,
    int64_t arrival_ns, int64_t due_ns) {
	struct sum *known = find_sum(l, domain->dest);
	struct sum *sum = known != NULL ? known : make_sum(l, domain);

	l->cut = l->cut || sum == NULL;
	if (known != NULL || sum == NULL)
		queue_unuse_domain(l->j->queue, domain);
	if (sum == NULL)
		return;
	sum->messages++;
	sum->recipients += recipients;
	sum->oldest_ns = arrival_ns < sum->oldest_ns ? arrival_ns : sum->oldest_ns;
	sum->due_ns = due_ns < sum->due_ns ? due_ns : sum->due_ns;
}

bool queue_journal_list_has(const struct queue_journal_list *l, const struct dest *dest) {
	return l != NULL && find_sum(l, dest) != NULL;
}

void queue_journal_list_add(const struct queue_journal_list *l, const struct dest *d,
    struct queue_destination_row *row) {
	const struct sum *sum = find_sum(l, d);
	int64_t due_ns = sum->due_ns == INT64_MAX && d->suspended ? d->until_ns : sum->due_ns;

	if (d->wait == QUEUE_WAITS_FOR_TURN && row->messages == 0)
		row->wait = due_ns == 0 ? QUEUE_WAITS_FOR_TURN : QUEUE_WAITS_RETRY;
	row->messages += sum->messages;
	row->recipients += sum->recipients;
	row->oldest_ns = sum->oldest_ns < row->oldest_ns ? sum->oldest_ns : row->oldest_ns;
	row->due_ns = due_ns < row->due_ns ? due_ns : row->due_ns;
}

/* --- rows ------------------------------------------------------------------------------ */

/* Times of the queue; 0: it waits for room alone. */
static int64_t list_due_ns(const struct queue_journal_list *l, int64_t wall_ns) {
	int64_t ns = wall_ns - l->j->wall_ns;

	return wall_ns == INT64_MAX ? INT64_MAX : ns <= l->j->queue->now_ns ? 0 : ns;
}

static void set_wait(struct queue_row *row, const struct dest *d, int64_t due_ns) {
	row->wait = due_ns == 0 ? QUEUE_WAITS_FOR_TURN : due_ns == INT64_MAX ?
	    QUEUE_WAITS_SUSPENDED : QUEUE_WAITS_RETRY;
	row->due_ns = due_ns == INT64_MAX && d != NULL && d->suspended ? d->until_ns : due_ns;
}

/* The dest of a row is used until the row is told. */
static void list_groups(struct queue_journal_list *l, const struct queue_row *row,
    const struct messages_envelope *envelope) {
	struct queue *queue = l->j->queue;
	struct domain *last = NULL;

	for (unsigned i = 0; i < envelope->group_count && !l->enough; i++) {
		const struct messages_group *group = &envelope->groups[i];
		struct domain *domain = queue_use_domain(queue, row->mta, group->domain,
		    group->length);
		int64_t due_ns = list_due_ns(l, group->due_ns);
		struct queue_row next = *row;

		if (domain == NULL) {
			l->cut = true;
			continue;
		}
		if (l->sums_up) {
			add_up(l, domain, group->recipients, row->arrival_ns, due_ns);
			continue;
		}
		next.destination = domain->dest->owner.name;
		next.domains = 1;
		next.recipients = group->recipients;
		set_wait(&next, domain->dest, due_ns);
		l->enough = !queue_rows_add(&l->rows, &next);
		if (last != NULL)
			queue_unuse_domain(queue, last);
		last = domain;
	}
	l->enough = l->enough || !queue_rows_end(&l->rows);
	l->rows.row.domains = 0;
	if (last != NULL)
		queue_unuse_domain(queue, last);
}

static void list_envelope(struct queue_journal_list *l, const struct messages_envelope *envelope) {
	uint32_t directory = queue_journal_directory(l->j, envelope->mta,
	    envelope->directory);
	struct queue_row row = { .id = envelope->id, .destination = "",
		.sender = envelope->sender == NULL ? "" : envelope->sender,
		.unread = envelope->recipients, .tries = envelope->tries };

	if (directory == NONE)
		return;
	row.mta = l->j->queue->directories[directory].mta;
	row.directory = directory;
	row.arrival_ns = envelope->arrival_ns - l->j->wall_ns;
	row.tried_ns = envelope->tried_ns == 0 ? 0 : envelope->tried_ns - l->j->wall_ns;
	for (unsigned i = 0; i < envelope->group_count; i++)
		row.unread -= envelope->groups[i].recipients < row.unread ?
		    envelope->groups[i].recipients : row.unread;
	if (envelope->group_count > 0) {
		list_groups(l, &row, envelope);
	} else if (!l->sums_up) {
		/* its file tells where it goes */
		row.domains = 1;
		set_wait(&row, NULL, list_due_ns(l, envelope->due_ns));
		l->enough = !l->rows.each(l->rows.context, &row);
	}
}

bool queue_journal_list_step(struct queue_journal_list *l, int64_t now_ns,
    bool (*each)(void *context, const struct queue_row *row), void *context) {
	struct queue *queue = l->j->queue;
	enum messages_answer answer = MESSAGES_NONE;
	struct messages_envelope envelope;

	queue_begin(queue, now_ns);
	l->rows = (struct queue_rows){ .each = each, .context = context };
	/* else mail may be of other destinations by now */
	l->enough = l->enough || l->generation != queue->generation->number;
	l->cut = l->cut || l->generation != queue->generation->number;
	while (!l->enough &&
	    (answer = messages_walk_next(l->j->messages, l->walk, &envelope)) == MESSAGES_ONE)
		list_envelope(l, &envelope);
	return answer == MESSAGES_MORE;
}
