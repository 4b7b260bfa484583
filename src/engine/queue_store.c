/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What the driven queue remembers: messages, their parts, domains, destinations.
 * MODEL    Arrays that grow, with lists of free places; messages, domains and destinations
 *          are found by hashes.  A domain lives while parts (or somebody who reads) use
 *          it, a destination while domains name it.
 * ERRORS   No memory: the caller leaves the mail to the next scan.
 * THREADS  One.
 */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "engine/queue_internal.h"

#define FIRST_SIZE	64u
#define DOMAIN_MAX	255
#define HASH_LEAST	1024u
#define HASH_MOST	(1u << 20)
#define QUEUES_MOST	(1u << 18)

/* --- arrays ------------------------------------------------------------------------ */

static bool grow(void **array, uint32_t *size, size_t each)
{
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

static uint32_t *hash_table(uint32_t size)
{
	uint32_t *table = malloc(size * sizeof(*table));

	if (table != NULL)
		memset(table, 0xff, size * sizeof(*table));
	return table;
}

bool queue_store_open(struct queue *queue, struct diag *diag)
{
	uint32_t active = queue->settings.message_active_limit, size = HASH_LEAST;
	struct job_capacity capacity = { .transports = GENERATION_MTAS_MAX,
		.queues = QUEUES_MOST, .messages = active, .jobs = active };
	struct pool_settings pool = pool_defaults;
	uint64_t peers = (uint64_t)queue->settings.message_recipient_minimum * active +
	    queue->settings.message_recipient_limit +
	    GENERATION_MTAS_MAX * ((uint64_t)queue->settings.recipient_limit +
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
	queue->message_hash = hash_table(size);
	queue->domain_hash = hash_table(size);
	queue->dest_hash = hash_table(size);
	queue->timers = calloc(queue->message_most, sizeof(*queue->timers));
	memory = calloc(1, job_board_bytes(&capacity));
	if (queue->message_hash == NULL || queue->domain_hash == NULL ||
	    queue->dest_hash == NULL || queue->timers == NULL || memory == NULL) {
		free(memory);
		return diag_set(diag, 0, "no memory for %u queued messages", active) == 0;
	}
	queue->board = job_board_begin(memory, &capacity, &pool);
	return true;
}

void queue_store_close(struct queue *queue)
{
	for (uint32_t i = 0; i < queue->domain_end; i++)
		free(queue->domains[i].name);
	for (uint32_t i = 0; i < queue->run_size; i++)
		free(queue->runs[i].ids);
	free(queue->runs);
	free(queue->board);
	free(queue->messages);
	free(queue->message_hash);
	free(queue->parts);
	free(queue->domains);
	free(queue->domain_hash);
	free(queue->dests);
	free(queue->dest_hash);
	free(queue->timers);
	free(queue->watched);
	free(queue->changed);
}

static uint32_t hash_text(const struct queue *queue, const char *text, size_t length,
    unsigned salt)
{
	return (uint32_t)(siphash13(&queue->engine->segment->header->key, text, length) +
	    salt * UINT32_C(2654435761)) & queue->hash_mask;
}

static void unlink_hash(uint32_t *from, uint32_t what, uint32_t *(*next)(struct queue *,
    uint32_t), struct queue *queue)
{
	while (*from != what)
		from = next(queue, *from);
	*from = *next(queue, what);
}

/* --- messages ------------------------------------------------------------------------ */

static uint32_t *next_message(struct queue *queue, uint32_t message)
{
	return &queue->messages[message].next_of_hash;
}

static uint32_t message_bucket(const struct queue *queue, unsigned mta, const char *id)
{
	return hash_text(queue, id, strlen(id), mta);
}

uint32_t queue_find_message(const struct queue *queue, unsigned mta, unsigned directory,
    const char *id)
{
	uint32_t at = queue->message_hash[message_bucket(queue, mta, id)];

	while (at != NONE && (queue->messages[at].mta != mta ||
	    queue->messages[at].directory != directory ||
	    strcmp(queue->messages[at].id, id) != 0))
		at = queue->messages[at].next_of_hash;
	return at;
}

/* Room for mail that may go: what waits longest for its time is forgotten, and read again
 * by a scan. */
static bool make_room(struct queue *queue)
{
	while (queue->timer_count > 0) {
		uint32_t last = queue->timers[queue->timer_count - 1];
		const struct message *m = &queue->messages[last];

		if (m->state != MESSAGE_WAITS || m->reading || m->job != JOB_NONE)
			return false;
		queue->refused++;
		queue_forget_message(queue, last);
		return true;
	}
	return false;
}

uint32_t queue_make_message(struct queue *queue, unsigned mta, unsigned directory,
    const char *id)
{
	uint32_t bucket = message_bucket(queue, mta, id), at, serial = 0;
	struct message *m;

	if (strlen(id) > QUEUE_ID_MAX || directory >= QUEUE_DIRECTORIES_MAX ||
	    (queue->message_count >= queue->message_most && !make_room(queue)))
		return NONE;
	at = queue->message_free;
	if (at != NONE) {
		queue->message_free = queue->messages[at].next_of_hash;
		serial = queue->messages[at].serial + 1;
	} else {
		if (queue->message_end == queue->message_size &&
		    !grow((void **)&queue->messages, &queue->message_size, sizeof(*m)))
			return NONE;
		at = queue->message_end++;
	}
	m = &queue->messages[at];
	*m = (struct message){ .state = MESSAGE_WAITS, .mta = (uint8_t)mta,
		.directory = (uint16_t)directory, .serial = serial, .job = JOB_NONE,
		.run = NONE, .first_part = NONE, .next_of_hash = queue->message_hash[bucket] };
	text_copy(m->id, sizeof(m->id), id, strlen(id));
	queue->message_hash[bucket] = at;
	queue->message_count++;
	return at;
}

void queue_forget_message(struct queue *queue, uint32_t message)
{
	struct message *m = &queue->messages[message];

	queue_unplace(queue, message);
	queue_clear_timer(queue, message);
	queue_drop_parts(queue, message);
	if (m->run != NONE) {
		struct run *run = &queue->runs[m->run];

		for (unsigned i = 0; i < run->count; i++)
			if (run->messages[i] == message)
				run->messages[i] = NONE;
		grants_remove(queue->engine->segment, &m->grant, NULL);
	}
	unlink_hash(&queue->message_hash[message_bucket(queue, m->mta, m->id)], message,
	    next_message, queue);
	m->state = MESSAGE_FREE;
	m->next_of_hash = queue->message_free;
	queue->message_free = message;
	queue->message_count--;
}

/* --- destinations -------------------------------------------------------------------- */

static uint32_t *next_dest(struct queue *queue, uint32_t dest)
{
	return &queue->dests[dest].next_of_hash;
}

static uint32_t dest_bucket(const struct queue *queue, unsigned mta, const char *name)
{
	return hash_text(queue, name, strlen(name), mta);
}

/* The one of that owner; made if need be.  NONE: no room. */
static uint32_t use_dest(struct queue *queue, unsigned mta, const struct window_owner *owner)
{
	uint32_t bucket = dest_bucket(queue, mta, owner->name);
	uint32_t at = queue->dest_hash[bucket], board_queue;
	struct dest *d;

	while (at != NONE && (queue->dests[at].mta != mta ||
	    queue->dests[at].owner.kind != owner->kind ||
	    strcmp(queue->dests[at].owner.name, owner->name) != 0))
		at = queue->dests[at].next_of_hash;
	if (at != NONE) {
		queue->dests[at].domains++;
		return at;
	}
	at = queue->dest_free;
	if (at == NONE && queue->dest_end == queue->dest_size &&
	    !grow((void **)&queue->dests, &queue->dest_size, sizeof(*d)))
		return NONE;
	if (at == NONE)
		at = queue->dest_end;
	board_queue = job_queue_open(queue->board, queue->mtas[mta].transport, 0, at);
	if (board_queue == JOB_NONE)
		return NONE;
	if (at == queue->dest_end)
		queue->dest_end++;
	else
		queue->dest_free = queue->dests[at].next_of_hash;
	d = &queue->dests[at];
	*d = (struct dest){ .owner = *owner, .used = true, .mta = (uint8_t)mta,
		.queue = board_queue, .first_part = NONE, .domains = 1,
		.class_index = CLASS_NO_RULE, .next_of_hash = queue->dest_hash[bucket] };
	queue->dest_hash[bucket] = at;
	queue->dest_count++;
	return at;
}

void queue_leave_dest(struct queue *queue, uint32_t dest)
{
	struct dest *d = &queue->dests[dest];

	if (d->domains > 0 || d->runs > 0 || d->changed ||
	    !job_queue_close(queue->board, d->queue))
		return;
	queue_unwatch(queue, dest);
	unlink_hash(&queue->dest_hash[dest_bucket(queue, d->mta, d->owner.name)], dest,
	    next_dest, queue);
	d->used = false;
	d->next_of_hash = queue->dest_free;
	queue->dest_free = dest;
	queue->dest_count--;
}

static void unuse_dest(struct queue *queue, uint32_t dest)
{
	queue->dests[dest].domains--;
	queue_leave_dest(queue, dest);
}

void queue_watch(struct queue *queue, uint32_t dest)
{
	if (queue->dests[dest].watch != 0)
		return;
	if (queue->watched_count == queue->watched_size &&
	    !grow((void **)&queue->watched, &queue->watched_size, sizeof(uint32_t)))
		return;
	queue->watched[queue->watched_count++] = dest;
	queue->dests[dest].watch = queue->watched_count;
}

void queue_note_changed(struct queue *queue, uint32_t dest)
{
	if (queue->dests[dest].changed ||
	    (queue->changed_count == queue->changed_size &&
		!grow((void **)&queue->changed, &queue->changed_size, sizeof(uint32_t))))
		return;
	queue->changed[queue->changed_count++] = dest;
	queue->dests[dest].changed = true;
}

void queue_unwatch(struct queue *queue, uint32_t dest)
{
	uint32_t at = queue->dests[dest].watch, last;

	if (at == 0)
		return;
	last = queue->watched[--queue->watched_count];
	queue->watched[at - 1] = last;
	queue->dests[last].watch = at;
	queue->dests[dest].watch = 0;
}

/* --- domains --------------------------------------------------------------------------- */

static uint32_t *next_domain(struct queue *queue, uint32_t domain)
{
	return &queue->domains[domain].next_of_hash;
}

/* Whose window its mail runs by; nobody's: it stands for itself. */
static void owner_of(struct queue *queue, unsigned mta, const char *name,
    struct window_owner *out)
{
	if (name[0] == '\0') {
		*out = (struct window_owner){ .kind = DESTINATION_NONE };
		text_copy(out->name, sizeof(out->name), "local", 5);
		return;
	}
	windows_owner_of_host(queue->engine, queue->generation, name, strlen(name), mta, out);
	if (out->kind == DESTINATION_NONE)
		text_copy(out->name, sizeof(out->name), name, strlen(name));
}

static uint32_t make_domain(struct queue *queue, unsigned mta, const char *name,
    uint32_t bucket, uint32_t hash)
{
	struct window_owner owner;
	struct domain *d;
	char *copy = strdup(name);
	uint32_t at, dest;

	if (copy == NULL)
		return NONE;
	owner_of(queue, mta, name, &owner);
	dest = use_dest(queue, mta, &owner);
	at = queue->domain_free;
	if (dest != NONE && at == NONE && queue->domain_end == queue->domain_size &&
	    !grow((void **)&queue->domains, &queue->domain_size, sizeof(*d))) {
		unuse_dest(queue, dest);
		dest = NONE;
	}
	if (dest == NONE) {
		free(copy);
		return NONE;
	}
	if (at != NONE)
		queue->domain_free = queue->domains[at].next_of_hash;
	else
		at = queue->domain_end++;
	queue->domains[at] = (struct domain){ .name = copy, .hash = hash, .dest = dest,
		.uses = 1, .mta = (uint8_t)mta, .part = NONE,
		.next_of_hash = queue->domain_hash[bucket] };
	queue->domain_hash[bucket] = at;
	queue->domain_count++;
	return at;
}

uint32_t queue_use_domain(struct queue *queue, unsigned mta, const char *name, size_t length)
{
	char text[DOMAIN_MAX + 1];
	uint32_t hash, bucket, at;

	length = length > 0 && name[length - 1] == '.' ? length - 1 : length;
	if (length > DOMAIN_MAX)
		length = DOMAIN_MAX;
	for (size_t i = 0; i < length; i++)
		text[i] = name[i] >= 'A' && name[i] <= 'Z' ? (char)(name[i] + 32) :
		    name[i] == '\0' ? '?' : name[i];
	text[length] = '\0';
	hash = grants_domain(queue->engine->segment, text, length);
	bucket = (hash + mta) & queue->hash_mask;
	for (at = queue->domain_hash[bucket]; at != NONE;
	     at = queue->domains[at].next_of_hash) {
		struct domain *d = &queue->domains[at];

		if (d->hash == hash && d->mta == mta && strcmp(d->name, text) == 0) {
			d->uses++;
			return at;
		}
	}
	return make_domain(queue, mta, text, bucket, hash);
}

void queue_unuse_domain(struct queue *queue, uint32_t domain)
{
	struct domain *d = &queue->domains[domain];

	if (--d->uses > 0)
		return;
	unlink_hash(&queue->domain_hash[(d->hash + d->mta) & queue->hash_mask], domain,
	    next_domain, queue);
	unuse_dest(queue, d->dest);
	free(d->name);
	d->name = NULL;
	d->next_of_hash = queue->domain_free;
	queue->domain_free = domain;
	queue->domain_count--;
}

/* --- parts -------------------------------------------------------------------------------- */

static void link_to_dest(struct queue *queue, uint32_t part, uint32_t dest)
{
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

static void unlink_from_dest(struct queue *queue, uint32_t part)
{
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
    uint32_t recipients)
{
	struct message *m = &queue->messages[message];
	uint32_t at = queue->part_free;

	if (at != NONE)
		queue->part_free = queue->parts[at].next_of_message;
	else if (queue->part_end < queue->part_size ||
	    grow((void **)&queue->parts, &queue->part_size, sizeof(struct part)))
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
	link_to_dest(queue, at, queue->domains[domain].dest);
	return at;
}

void queue_drop_parts(struct queue *queue, uint32_t message)
{
	struct message *m = &queue->messages[message];

	while (m->first_part != NONE) {
		uint32_t at = m->first_part;
		struct part *p = &queue->parts[at];

		m->first_part = p->next_of_message;
		unlink_from_dest(queue, at);
		queue_unuse_domain(queue, p->domain);
		p->next_of_message = queue->part_free;
		queue->part_free = at;
		queue->part_count--;
	}
	queue->in_core -= m->in_core;
	m->in_core = 0;
	m->part_count = 0;
}

void queue_remap_domain(struct queue *queue, uint32_t domain, int64_t now_ns)
{
	struct domain *d = &queue->domains[domain];
	uint32_t before = d->dest, after, next;
	struct window_owner owner;

	owner_of(queue, d->mta, d->name, &owner);
	if (owner.kind == queue->dests[before].owner.kind &&
	    strcmp(owner.name, queue->dests[before].owner.name) == 0)
		return;
	after = use_dest(queue, d->mta, &owner);
	if (after == NONE)
		return;
	d->dest = after;
	for (uint32_t at = queue->dests[before].first_part; at != NONE; at = next) {
		struct part *p = &queue->parts[at];
		uint32_t message = p->message;

		next = p->next_of_dest;
		if (p->domain != domain)
			continue;
		if (p->placed)
			queue_unplace(queue, message);
		unlink_from_dest(queue, at);
		link_to_dest(queue, at, after);
		if (p->state == PART_SUSPENDED)
			p->state = PART_DUE;
		if (queue->messages[message].state == MESSAGE_WAITS)
			queue_settle(queue, message, now_ns);
	}
	unuse_dest(queue, before);
}

void queue_remap_all(struct queue *queue, int64_t now_ns)
{
	for (uint32_t i = 0; i < queue->domain_end; i++)
		if (queue->domains[i].name != NULL)
			queue_remap_domain(queue, i, now_ns);
}

/* --- times ---------------------------------------------------------------------------------- */

static bool is_before(const struct queue *queue, uint32_t a, uint32_t b)
{
	return queue->messages[queue->timers[a]].due_ns <
	    queue->messages[queue->timers[b]].due_ns;
}

static void swap_timers(struct queue *queue, uint32_t a, uint32_t b)
{
	uint32_t message = queue->timers[a];

	queue->timers[a] = queue->timers[b];
	queue->timers[b] = message;
	queue->messages[queue->timers[a]].timer = a + 1;
	queue->messages[queue->timers[b]].timer = b + 1;
}

static void sift(struct queue *queue, uint32_t at)
{
	while (at > 0 && is_before(queue, at, (at - 1) / 2)) {
		swap_timers(queue, at, (at - 1) / 2);
		at = (at - 1) / 2;
	}
	for (;;) {
		uint32_t first = at;

		for (uint32_t child = 2 * at + 1; child <= 2 * at + 2; child++)
			if (child < queue->timer_count && is_before(queue, child, first))
				first = child;
		if (first == at)
			return;
		swap_timers(queue, at, first);
		at = first;
	}
}

void queue_clear_timer(struct queue *queue, uint32_t message)
{
	uint32_t at = queue->messages[message].timer, last;

	if (at == 0)
		return;
	queue->messages[message].timer = 0;
	last = queue->timers[--queue->timer_count];
	if (last == message)
		return;
	queue->timers[at - 1] = last;
	queue->messages[last].timer = at;
	sift(queue, at - 1);
}

void queue_set_timer(struct queue *queue, uint32_t message)
{
	struct message *m = &queue->messages[message];
	int64_t due_ns = INT64_MAX;

	for (uint32_t at = m->first_part; at != NONE; at = queue->parts[at].next_of_message) {
		const struct part *p = &queue->parts[at];

		if ((p->state == PART_RETRY || p->state == PART_LOCKED) && p->due_ns < due_ns)
			due_ns = p->due_ns;
	}
	queue_clear_timer(queue, message);
	if (due_ns == INT64_MAX)
		return;
	m->due_ns = due_ns;
	queue->timers[queue->timer_count] = message;
	m->timer = ++queue->timer_count;
	sift(queue, m->timer - 1);
}
