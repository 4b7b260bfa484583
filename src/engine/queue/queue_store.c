/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What the driven queue remembers: messages (files) and their parts.
 * MODEL    Messages stand in one array that is never moved, so that some can be looked at
 *          by chance; they are found by a map.  Parts are allocated one by one.
 * ERRORS   No memory: the caller leaves the mail to the next scan.
 * THREADS  One.
 */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "engine/queue/queue_internal.h"

#define QUEUES_MOST	(1u << 18)
#define LOOKS		32u
#define GOLDEN		UINT32_C(2654435769)	/* 2^32 / 1.618: all places, far apart */

static struct job_board *open_board(const struct queue_settings *settings) {
	uint32_t active = settings->schedule.pool.message_active_limit;
	struct job_capacity capacity = { .transports = GENERATION_MTAS_MAX * QUEUE_MAILERS,
		.queues = QUEUES_MOST, .messages = active, .jobs = active };
	const struct pool_settings *pool = &settings->schedule.pool;
	uint64_t peers = (uint64_t)settings->schedule.pool.message_recipient_minimum * active +
	    settings->schedule.pool.message_recipient_limit +
	    GENERATION_MTAS_MAX * QUEUE_MAILERS * ((uint64_t)settings->schedule.job.recipient_limit +
		settings->schedule.job.extra_recipient_limit);
	void *memory;

	capacity.peers = peers > UINT32_C(1) << 27 ? UINT32_C(1) << 27 : (uint32_t)peers;
	memory = calloc(1, job_board_bytes(&capacity));
	return memory == NULL ? NULL : job_board_begin(memory, &capacity, pool);
}

bool queue_store_open(struct queue *queue, struct diag *diag) {
	uint32_t active = queue->settings.schedule.pool.message_active_limit;

	LIST_INIT(&queue->domains);
	TAILQ_INIT(&queue->dests);
	TAILQ_INIT(&queue->runs);
	/* mail that waits for a time is remembered besides */
	queue->message_most = active < UINT32_MAX / 8 ? 4 * active : active;
	queue->messages = calloc(queue->message_most, sizeof(*queue->messages));
	queue->timers = calloc(queue->message_most, sizeof(struct message *));
	queue->board = open_board(&queue->settings);
	if (queue->messages == NULL || queue->timers == NULL || queue->board == NULL)
		return diag_set(diag, 0, "no memory for %u queued messages", active) == 0;
	return true;
}

void queue_store_close(struct queue *queue) {
	struct dest *d;

	for (uint32_t i = 0; i < queue->message_end; i++)
		if (queue->messages[i].state != MESSAGE_FREE)
			queue_forget_message(queue, &queue->messages[i]);
	while (!TAILQ_EMPTY(&queue->runs))
		queue_free_run(queue, TAILQ_FIRST(&queue->runs));
	while ((d = TAILQ_FIRST(&queue->dests)) != NULL) {
		TAILQ_REMOVE(&queue->dests, d, of_all);
		free(d);
	}
	map_free(&queue->message_map);
	map_free(&queue->envelope_map);
	map_free(&queue->domain_map);
	map_free(&queue->dest_map);
	free(queue->board);
	free(queue->messages);
	free(queue->timers);
}

uint64_t queue_hash_text(const struct queue *queue, const char *text, size_t length,
    unsigned salt) {
	return siphash13(&queue->engine->segment->header->key, text, length) + salt;
}

/* --- messages ------------------------------------------------------------------------ */

static uint64_t message_hash(const struct queue *queue, unsigned directory, const char *id) {
	return queue_hash_text(queue, id, strlen(id), directory);
}

struct message *queue_find_message(const struct queue *queue, unsigned directory, const char *id) {
	const struct map_cell *cell = map_find(&queue->message_map,
	    message_hash(queue, directory, id));

	for (; cell != NULL; cell = map_next(&queue->message_map, cell)) {
		struct message *m = cell->item;

		if (m->directory == directory && strcmp(m->id, id) == 0)
			return m;
	}
	return NULL;
}

/* It waits, and nothing of it may go yet. */
static bool may_be_forgotten(const struct message *m) {
	return m->state == MESSAGE_WAITS && !m->more_asked &&
	    !queue_is_placed(m) && m->parts != NULL;
}

/* The one that is missed less: of the dead or held dest that fills memory, so that nobody
 * else's mail makes room for that; else what waits longest for its time. */
static bool is_missed_less(const struct message *x, const struct message *y) {
	if (x->timer == 0 && y->timer == 0)
		return x->parts->dest->part_count > y->parts->dest->part_count;
	return x->timer == 0 || (y->timer != 0 && x->due_ns > y->due_ns);
}

/* Room for mail that may go: one of some that do not is forgotten, and loaded from the journal
 * or read again by a scan.  Those on the board and in runs are a part of message_most: a few
 * looks find others. */
bool queue_make_room(struct queue *queue) {
	struct message *out = NULL;

	if (queue->message_count < queue->message_most)
		return true;
	for (unsigned i = 0; i < LOOKS; i++) {
		struct message *m;

		queue->hand += GOLDEN;
		m = &queue->messages[(uint64_t)queue->hand * queue->message_end >> 32];
		if (may_be_forgotten(m) && (out == NULL || is_missed_less(m, out)))
			out = m;
	}
	if (out == NULL)
		return false;
	if (!queue_journal_evict(queue, out))
		queue->forgotten++;
	queue_forget_message(queue, out);
	return true;
}

struct message *queue_make_message(struct queue *queue, unsigned directory, const char *id) {
	struct message *m;

	if (strlen(id) > QUEUE_ID_MAX || directory >= queue->directory_count ||
	    !queue_make_room(queue))
		return NULL;
	m = SLIST_FIRST(&queue->free_messages);
	if (!map_add_item(&queue->message_map, message_hash(queue, directory, id),
	    m != NULL ? m : &queue->messages[queue->message_end]))
		return NULL;
	if (m != NULL)
		SLIST_REMOVE_HEAD(&queue->free_messages, free);
	else
		m = &queue->messages[queue->message_end++];
	*m = (struct message){ .state = MESSAGE_WAITS, .directory = (uint16_t)directory,
		.mta = (uint8_t)queue->directories[directory].mta };
	text_copy(m->id, sizeof(m->id), id, strlen(id));
	queue->message_count++;
	return m;
}

void queue_forget_message(struct queue *queue, struct message *m) {
	queue_unplace(queue, m);
	queue_clear_timer(queue, m);
	queue_drop_parts(queue, m);
	queue_leave_envelope(queue, m);
	if (m->run != NULL) {
		for (unsigned i = 0; i < m->run->count; i++)
			if (m->run->messages[i] == m)
				m->run->messages[i] = NULL;
		queue_end_grant(queue, m, NULL);
	}
	map_remove_item(&queue->message_map, message_hash(queue, m->directory, m->id), m);
	m->state = MESSAGE_FREE;
	SLIST_INSERT_HEAD(&queue->free_messages, m, free);
	queue->message_count--;
}

/* --- parts -------------------------------------------------------------------------------- */

void queue_link_part(struct part *p, struct dest *d) {
	p->dest = d;
	LIST_INSERT_HEAD(&d->parts, p, of_dest);
	d->part_count++;
	d->recipients += p->recipients;
}

void queue_unlink_part(struct part *p) {
	LIST_REMOVE(p, of_dest);
	p->dest->part_count--;
	p->dest->recipients -= p->recipients;
}

void queue_add_part(struct queue *queue, struct message *m, struct part *p) {
	p->message = m;
	p->next_of_message = m->parts;
	m->parts = p;
	m->part_count++;
	m->in_core += p->recipients;
	queue->in_core += p->recipients;
	queue->part_count++;
	queue_link_part(p, p->domain->dest);
}

struct part *queue_make_part(struct queue *queue, struct message *m, struct domain *domain,
    uint32_t recipients) {
	struct part *p = calloc(1, sizeof(*p));

	if (p == NULL)
		return NULL;
	p->domain = domain;
	p->recipients = recipients;
	queue_add_part(queue, m, p);
	return p;
}

void queue_drop_parts(struct queue *queue, struct message *m) {
	struct part *p;

	while ((p = m->parts) != NULL) {
		m->parts = p->next_of_message;
		queue_unlink_part(p);
		queue_unuse_domain(queue, p->domain);
		free(p);
		queue->part_count--;
	}
	queue->in_core -= m->in_core;
	m->in_core = 0;
	m->part_count = 0;
}
