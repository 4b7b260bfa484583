/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Domains of the driven queue, and the destinations that they belong to.
 * MODEL    Found by hashes.  A domain lives while parts (or somebody who reads) use it, a
 *          destination while domains name it or live runs may go there.
 * ERRORS   No memory: the caller leaves the mail to the next scan.
 * THREADS  One.
 */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "engine/queue/queue_internal.h"

#define DOMAIN_MAX	255
#define LOCAL_NAME	"local"

/* --- destinations -------------------------------------------------------------------- */

static uint32_t *next_dest(struct queue *queue, uint32_t dest) {
	return &queue->dests[dest].next_of_hash;
}

static uint32_t dest_bucket(const struct queue *queue, unsigned mta, const char *name) {
	return queue_hash_text(queue, name, strlen(name), mta);
}

/* The one of that owner; made if need be.  NONE: no room. */
static uint32_t use_dest(struct queue *queue, unsigned mta, unsigned mailer,
    const struct window_owner *owner) {
	uint32_t bucket = dest_bucket(queue, mta, owner->name);
	uint32_t at = queue->dest_hash[bucket], board_queue;
	struct dest *d;

	while (at != NONE && (queue->dests[at].mta != mta ||
	    queue->dests[at].mailer != mailer ||
	    queue->dests[at].owner.kind != owner->kind ||
	    strcmp(queue->dests[at].owner.name, owner->name) != 0))
		at = queue->dests[at].next_of_hash;
	if (at != NONE) {
		queue->dests[at].domains++;
		return at;
	}
	at = queue->dest_free;
	if (at == NONE && queue->dest_end == queue->dest_size &&
	    !queue_grow((void **)&queue->dests, &queue->dest_size, sizeof(*d)))
		return NONE;
	if (at == NONE)
		at = queue->dest_end;
	board_queue = job_queue_open(queue->board,
	    queue_mailer_of(queue, mta, mailer)->transport, 0, at);
	if (board_queue == JOB_NONE)
		return NONE;
	if (at == queue->dest_end)
		queue->dest_end++;
	else
		queue->dest_free = queue->dests[at].next_of_hash;
	d = &queue->dests[at];
	*d = (struct dest){ .owner = *owner, .used = true, .mta = (uint8_t)mta,
		.mailer = (uint8_t)mailer, .queue = board_queue, .first_part = NONE, .domains = 1,
		.class_index = CLASS_NO_RULE, .next_of_hash = queue->dest_hash[bucket] };
	queue->dest_hash[bucket] = at;
	queue->dest_count++;
	return at;
}

void queue_leave_dest(struct queue *queue, uint32_t dest) {
	struct dest *d = &queue->dests[dest];

	if (d->domains > 0 || d->runs > 0 || d->stalls > 0 || d->changed || d->in_journal ||
	    d->slow_ns > queue->now_ns || !job_queue_close(queue->board, d->queue))
		return;
	queue_unwatch(queue, dest);
	queue_unlink_hash(&queue->dest_hash[dest_bucket(queue, d->mta, d->owner.name)], dest,
	    next_dest, queue);
	d->used = false;
	d->next_of_hash = queue->dest_free;
	queue->dest_free = dest;
	queue->dest_count--;
}

void queue_sweep_dests(struct queue *queue) {
	for (uint32_t i = 0; i < queue->dest_end; i++)
		if (queue->dests[i].used)
			queue_leave_dest(queue, i);
}

static void unuse_dest(struct queue *queue, uint32_t dest) {
	queue->dests[dest].domains--;
	queue_leave_dest(queue, dest);
}

void queue_watch(struct queue *queue, uint32_t dest) {
	if (queue->dests[dest].watch != 0)
		return;
	if (queue->watched_count == queue->watched_size &&
	    !queue_grow((void **)&queue->watched, &queue->watched_size, sizeof(uint32_t)))
		return;
	queue->watched[queue->watched_count++] = dest;
	queue->dests[dest].watch = queue->watched_count;
}

void queue_note_changed(struct queue *queue, uint32_t dest) {
	if (queue->dests[dest].changed ||
	    (queue->changed_count == queue->changed_size &&
		!queue_grow((void **)&queue->changed, &queue->changed_size, sizeof(uint32_t))))
		return;
	queue->changed[queue->changed_count++] = dest;
	queue->dests[dest].changed = true;
}

void queue_unwatch(struct queue *queue, uint32_t dest) {
	uint32_t at = queue->dests[dest].watch, last;

	if (at == 0)
		return;
	last = queue->watched[--queue->watched_count];
	queue->watched[at - 1] = last;
	queue->dests[last].watch = at;
	queue->dests[dest].watch = 0;
}

/* --- domains --------------------------------------------------------------------------- */

static uint32_t *next_domain(struct queue *queue, uint32_t domain) {
	return &queue->domains[domain].next_of_hash;
}

/* Whose window its mail runs by; nobody's: it stands for itself. */
static void owner_of(struct queue *queue, unsigned mta, const char *name,
    struct window_owner *out) {
	if (name[0] == '\0' || strcmp(name, QUEUE_LOCAL_DOMAIN) == 0) {
		*out = (struct window_owner){ .kind = DESTINATION_NONE };
		text_copy(out->name, sizeof(out->name), LOCAL_NAME, strlen(LOCAL_NAME));
		return;
	}
	windows_owner_of_host(queue->engine, queue->generation, name, strlen(name), mta, out);
	if (out->kind == DESTINATION_NONE)
		text_copy(out->name, sizeof(out->name), name, strlen(name));
}

static uint32_t make_domain(struct queue *queue, unsigned mta, const char *name,
    uint32_t bucket, uint32_t hash) {
	struct window_owner owner;
	struct domain *d;
	char *copy = strdup(name);
	uint32_t at, dest;

	if (copy == NULL)
		return NONE;
	owner_of(queue, mta, name, &owner);
	dest = use_dest(queue, mta, strcmp(name, QUEUE_LOCAL_DOMAIN) == 0 ? QUEUE_LOCAL :
	    QUEUE_REMOTE, &owner);
	at = queue->domain_free;
	if (dest != NONE && at == NONE && queue->domain_end == queue->domain_size &&
	    !queue_grow((void **)&queue->domains, &queue->domain_size, sizeof(*d))) {
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

uint32_t queue_use_domain(struct queue *queue, unsigned mta, const char *name, size_t length) {
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

void queue_unuse_domain(struct queue *queue, uint32_t domain) {
	struct domain *d = &queue->domains[domain];

	if (--d->uses > 0)
		return;
	queue_unlink_hash(&queue->domain_hash[(d->hash + d->mta) & queue->hash_mask], domain,
	    next_domain, queue);
	unuse_dest(queue, d->dest);
	free(d->name);
	d->name = NULL;
	d->next_of_hash = queue->domain_free;
	queue->domain_free = domain;
	queue->domain_count--;
}

/* --- where it belongs now ---------------------------------------------------------- */

void queue_remap_domain(struct queue *queue, uint32_t domain, int64_t now_ns) {
	struct domain *d = &queue->domains[domain];
	uint32_t before = d->dest, after, next;
	struct window_owner owner;

	owner_of(queue, d->mta, d->name, &owner);
	if (owner.kind == queue->dests[before].owner.kind &&
	    strcmp(owner.name, queue->dests[before].owner.name) == 0)
		return;
	after = use_dest(queue, d->mta, queue->dests[before].mailer, &owner);
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
		queue_unlink_part(queue, at);
		queue_link_part(queue, at, after);
		if (p->state == PART_SUSPENDED)
			p->state = PART_DUE;
		if (queue->messages[message].state == MESSAGE_WAITS)
			queue_settle(queue, message, now_ns);
	}
	unuse_dest(queue, before);
}

void queue_remap_all(struct queue *queue, int64_t now_ns) {
	for (uint32_t i = 0; i < queue->domain_end; i++)
		if (queue->domains[i].name != NULL)
			queue_remap_domain(queue, i, now_ns);
	queue_journal_remapped(queue);
}
