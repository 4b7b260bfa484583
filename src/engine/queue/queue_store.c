/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What the driven queue remembers: messages (files) and their parts.
 * MODEL    Arrays that grow, with lists of free places; messages are found by a hash.
 * ERRORS   No memory: the caller leaves the mail to the next scan.
 * THREADS  One.
 */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "engine/queue/queue_internal.h"

#define FIRST_SIZE	64u
#define HASH_LEAST	1024u
#define HASH_MOST	(1u << 20)
#define QUEUES_MOST	(1u << 18)
#define LOOKS		32u
#define GOLDEN		UINT32_C(2654435769)	/* 2^32 / 1.618: all places, far apart */

/* --- arrays ------------------------------------------------------------------------ */

bool queue_grow(void **array, uint32_t *size, size_t each) {
	uint32_t wanted = *size == 0 ? FIRST_SIZE : 2 * *size;
	void *more;

	if (wanted >= UINT32_MAX / 2)
		return false;
	more = reallocarray(*array, wanted, each);
	if (more == NULL)
		return false;
	*array = more;
	*size = wanted;
	return true;
}

static uint32_t *hash_table(uint32_t size) {
	uint32_t *table = malloc(size * sizeof(*table));

	if (table != NULL)
		memset(table, 0xff, size * sizeof(*table));
	return table;
}

bool queue_store_open(struct queue *queue, struct diag *diag) {
	uint32_t active = queue->settings.message_active_limit, size = HASH_LEAST;
	struct job_capacity capacity = { .transports = GENERATION_MTAS_MAX * QUEUE_MAILERS,
		.queues = QUEUES_MOST, .messages = active, .jobs = active };
	struct pool_settings pool = pool_defaults;
	uint64_t peers = (uint64_t)queue->settings.message_recipient_minimum * active +
	    queue->settings.message_recipient_limit +
	    GENERATION_MTAS_MAX * QUEUE_MAILERS * ((uint64_t)queue->settings.recipient_limit +
		queue->settings.extra_recipient_limit);
	void *memory;

	capacity.peers = peers > UINT32_C(1) << 27 ? UINT32_C(1) << 27 : (uint32_t)peers;
	pool.message_recipient_limit = queue->settings.message_recipient_limit;
	pool.message_recipient_minimum = queue->settings.message_recipient_minimum;
	pool.message_active_limit = active;
	while (size < active && size < HASH_MOST)
		size *= 2;
	queue->hash_mask = size - 1;
	/* mail that waits for a time is remembered besides */
	queue->message_most = active < UINT32_MAX / 8 ? 4 * active : active;
	queue->message_free = queue->part_free = queue->domain_free = queue->dest_free = NONE;
	queue->envelope_free = queue->peer_free = NONE;
	queue->envelope_hash = hash_table(size);
	queue->peer_hash = hash_table(size);
	queue->message_hash = hash_table(size);
	queue->domain_hash = hash_table(size);
	queue->dest_hash = hash_table(size);
	queue->timers = calloc(queue->message_most, sizeof(*queue->timers));
	memory = calloc(1, job_board_bytes(&capacity));
	if (queue->message_hash == NULL || queue->domain_hash == NULL ||
	    queue->envelope_hash == NULL || queue->peer_hash == NULL ||
	    queue->dest_hash == NULL || queue->timers == NULL || memory == NULL) {
		free(memory);
		return diag_set(diag, 0, "no memory for %u queued messages", active) == 0;
	}
	queue->board = job_board_begin(memory, &capacity, &pool);
	return true;
}

void queue_store_close(struct queue *queue) {
	for (uint32_t i = 0; i < queue->domain_end; i++)
		free(queue->domains[i].name);
	for (uint32_t i = 0; i < queue->run_size; i++)
		free(queue->runs[i].ids);
	free(queue->runs);
	free(queue->board);
	free(queue->messages);
	free(queue->message_hash);
	free(queue->envelopes);
	free(queue->envelope_hash);
	free(queue->peers);
	free(queue->peer_hash);
	free(queue->parts);
	free(queue->domains);
	free(queue->domain_hash);
	free(queue->dests);
	free(queue->dest_hash);
	free(queue->timers);
	free(queue->watched);
	free(queue->changed);
}

uint32_t queue_hash_text(const struct queue *queue, const char *text, size_t length,
    unsigned salt) {
	return (uint32_t)(siphash13(&queue->engine->segment->header->key, text, length) +
	    salt * UINT32_C(2654435761)) & queue->hash_mask;
}

void queue_unlink_hash(uint32_t *from, uint32_t what, uint32_t *(*next)(struct queue *,
    uint32_t), struct queue *queue) {
	while (*from != what)
		from = next(queue, *from);
	*from = *next(queue, what);
}

/* --- messages ------------------------------------------------------------------------ */

static uint32_t *next_message(struct queue *queue, uint32_t message) {
	return &queue->messages[message].next_of_hash;
}

static uint32_t message_bucket(const struct queue *queue, unsigned mta, const char *id) {
	return queue_hash_text(queue, id, strlen(id), mta);
}

uint32_t queue_find_message(const struct queue *queue, unsigned mta, unsigned directory,
    const char *id) {
	uint32_t at = queue->message_hash[message_bucket(queue, mta, id)];

	while (at != NONE && (queue->messages[at].mta != mta ||
	    queue->messages[at].directory != directory ||
	    strcmp(queue->messages[at].id, id) != 0))
		at = queue->messages[at].next_of_hash;
	return at;
}

/* It waits, and nothing of it may go yet. */
static bool may_be_forgotten(const struct message *m) {
	return m->state == MESSAGE_WAITS && !m->reading && !m->more_asked &&
	    !queue_is_placed(m) && m->first_part != NONE;
}

/* The one that is missed less: of the dead or held dest that fills memory, so that nobody
 * else's mail makes room for that; else what waits longest for its time. */
static bool is_missed_less(const struct queue *queue, uint32_t a, uint32_t b) {
	const struct message *x = &queue->messages[a], *y = &queue->messages[b];

	if (x->timer == 0 && y->timer == 0)
		return queue->dests[queue->parts[x->first_part].dest].part_count >
		    queue->dests[queue->parts[y->first_part].dest].part_count;
	return x->timer == 0 || (y->timer != 0 && x->due_ns > y->due_ns);
}

/* Room for mail that may go: one of some that do not is forgotten, and loaded from the journal
 * or read again by a scan.  Those on the board and in runs are a part of message_most: a few
 * looks find others. */
bool queue_make_room(struct queue *queue) {
	uint32_t out = NONE;

	if (queue->message_count < queue->message_most)
		return true;
	for (unsigned i = 0; i < LOOKS; i++) {
		uint32_t at;

		queue->hand += GOLDEN;
		at = (uint32_t)((uint64_t)queue->hand * queue->message_end >> 32);
		if (may_be_forgotten(&queue->messages[at]) &&
		    (out == NONE || is_missed_less(queue, at, out)))
			out = at;
	}
	if (out == NONE)
		return false;
	if (!queue_journal_evict(queue, out))
		queue->forgotten++;
	queue_forget_message(queue, out);
	return true;
}

uint32_t queue_make_message(struct queue *queue, unsigned mta, unsigned directory,
    const char *id) {
	uint32_t bucket = message_bucket(queue, mta, id), at, serial = 0;
	struct message *m;

	if (strlen(id) > QUEUE_ID_MAX || directory >= QUEUE_DIRECTORIES_MAX ||
	    !queue_make_room(queue))
		return NONE;
	at = queue->message_free;
	if (at != NONE) {
		queue->message_free = queue->messages[at].next_of_hash;
		serial = queue->messages[at].serial + 1;
	} else {
		if (queue->message_end == queue->message_size &&
		    !queue_grow((void **)&queue->messages, &queue->message_size, sizeof(*m)))
			return NONE;
		at = queue->message_end++;
	}
	m = &queue->messages[at];
	*m = (struct message){ .state = MESSAGE_WAITS, .mta = (uint8_t)mta,
		.directory = (uint16_t)directory, .serial = serial, .envelope = NONE,
		.run = NONE, .first_part = NONE, .next_of_hash = queue->message_hash[bucket] };
	text_copy(m->id, sizeof(m->id), id, strlen(id));
	queue->message_hash[bucket] = at;
	queue->message_count++;
	return at;
}

void queue_forget_message(struct queue *queue, uint32_t message) {
	struct message *m = &queue->messages[message];

	queue_unplace(queue, message);
	queue_clear_timer(queue, message);
	queue_drop_parts(queue, message);
	queue_leave_envelope(queue, message);
	if (m->run != NONE) {
		struct run *run = &queue->runs[m->run];

		for (unsigned i = 0; i < run->count; i++)
			if (run->messages[i] == message)
				run->messages[i] = NONE;
		queue_end_grant(queue, message, NULL);
	}
	queue_unlink_hash(&queue->message_hash[message_bucket(queue, m->mta, m->id)], message,
	    next_message, queue);
	m->state = MESSAGE_FREE;
	m->next_of_hash = queue->message_free;
	queue->message_free = message;
	queue->message_count--;
}

/* --- parts -------------------------------------------------------------------------------- */

void queue_link_part(struct queue *queue, uint32_t part, uint32_t dest) {
	struct part *p = &queue->parts[part];
	struct dest *d = &queue->dests[dest];

	p->dest = dest;
	p->prev_of_dest = NONE;
	p->next_of_dest = d->first_part;
	if (d->first_part != NONE)
		queue->parts[d->first_part].prev_of_dest = part;
	d->first_part = part;
	d->part_count++;
	d->recipients += p->recipients;
}

void queue_unlink_part(struct queue *queue, uint32_t part) {
	struct part *p = &queue->parts[part];
	struct dest *d = &queue->dests[p->dest];

	if (p->prev_of_dest != NONE)
		queue->parts[p->prev_of_dest].next_of_dest = p->next_of_dest;
	else
		d->first_part = p->next_of_dest;
	if (p->next_of_dest != NONE)
		queue->parts[p->next_of_dest].prev_of_dest = p->prev_of_dest;
	d->part_count--;
	d->recipients -= p->recipients;
}

uint32_t queue_make_part(struct queue *queue, uint32_t message, uint32_t domain,
    uint32_t recipients) {
	struct message *m = &queue->messages[message];
	uint32_t at = queue->part_free;

	if (at != NONE)
		queue->part_free = queue->parts[at].next_of_message;
	else if (queue->part_end < queue->part_size ||
	    queue_grow((void **)&queue->parts, &queue->part_size, sizeof(struct part)))
		at = queue->part_end++;
	else
		return NONE;
	queue->parts[at] = (struct part){ .message = message, .domain = domain,
		.recipients = recipients, .next_of_message = m->first_part };
	m->first_part = at;
	m->part_count++;
	m->in_core += recipients;
	queue->in_core += recipients;
	queue->part_count++;
	queue_link_part(queue, at, queue->domains[domain].dest);
	return at;
}

void queue_drop_parts(struct queue *queue, uint32_t message) {
	struct message *m = &queue->messages[message];

	while (m->first_part != NONE) {
		uint32_t at = m->first_part;
		struct part *p = &queue->parts[at];

		m->first_part = p->next_of_message;
		queue_unlink_part(queue, at);
		queue_unuse_domain(queue, p->domain);
		p->next_of_message = queue->part_free;
		queue->part_free = at;
		queue->part_count--;
	}
	queue->in_core -= m->in_core;
	m->in_core = 0;
	m->part_count = 0;
}
