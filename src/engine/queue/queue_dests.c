/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Domains of the driven queue, and the destinations that they belong to.
 * MODEL    Found by maps.  A domain lives while parts (or somebody who reads) use it, a
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

static uint64_t dest_hash(const struct queue *queue, unsigned mta, const char *name) {
	return queue_hash_text(queue, name, strlen(name), mta);
}

static struct dest *find_dest(const struct queue *queue, unsigned mta, unsigned mailer,
    const struct window_owner *owner) {
	const struct map_cell *cell = map_find(&queue->dest_map,
	    dest_hash(queue, mta, owner->name));

	for (; cell != NULL; cell = map_next(&queue->dest_map, cell)) {
		struct dest *d = cell->item;

		if (d->mta == mta && d->mailer == mailer && d->owner.kind == owner->kind &&
		    strcmp(d->owner.name, owner->name) == 0)
			return d;
	}
	return NULL;
}

static struct dest *make_dest(struct queue *queue, unsigned mta, unsigned mailer,
    const struct window_owner *owner) {
	struct dest *d = malloc(sizeof(*d));
	uint32_t transport = queue_mailer_of(queue, mta, mailer)->transport;

	if (d == NULL || !map_reserve(&queue->dest_map, queue->dest_map.count + 1)) {
		free(d);
		return NULL;
	}
	*d = (struct dest){ .owner = *owner, .mta = (uint8_t)mta, .mailer = (uint8_t)mailer,
		.class_index = CLASS_NO_RULE,
		.queue = job_queue_open(queue->board, transport, 0, (uintptr_t)d) };
	if (d->queue == JOB_NONE) {
		free(d);
		return NULL;
	}
	(void)map_add_item(&queue->dest_map, dest_hash(queue, mta, owner->name), d);
	TAILQ_INSERT_TAIL(&queue->dests, d, of_all);
	return d;
}

/* The one of that owner; made if need be.  NULL: no room. */
static struct dest *use_dest(struct queue *queue, unsigned mta, unsigned mailer,
    const struct window_owner *owner) {
	struct dest *d = find_dest(queue, mta, mailer, owner);

	if (d == NULL)
		d = make_dest(queue, mta, mailer, owner);
	if (d != NULL)
		d->domains++;
	return d;
}

void queue_leave_dest(struct queue *queue, struct dest *d) {
	if (d->domains > 0 || d->runs > 0 || d->stalls > 0 || d->changed || d->in_journal ||
	    d->slow_ns > queue->now_ns || !job_queue_close(queue->board, d->queue))
		return;
	queue_unwatch(d);
	map_remove_item(&queue->dest_map, dest_hash(queue, d->mta, d->owner.name), d);
	TAILQ_REMOVE(&queue->dests, d, of_all);
	free(d);
}

void queue_sweep_dests(struct queue *queue) {
	struct dest *next;

	for (struct dest *d = TAILQ_FIRST(&queue->dests); d != NULL; d = next) {
		next = TAILQ_NEXT(d, of_all);
		queue_leave_dest(queue, d);
	}
}

static void unuse_dest(struct queue *queue, struct dest *d) {
	d->domains--;
	queue_leave_dest(queue, d);
}

void queue_watch(struct queue *queue, struct dest *d) {
	if (d->watched)
		return;
	d->watched = true;
	LIST_INSERT_HEAD(&queue->watched, d, of_watched);
}

void queue_unwatch(struct dest *d) {
	if (!d->watched)
		return;
	d->watched = false;
	LIST_REMOVE(d, of_watched);
}

void queue_note_changed(struct queue *queue, struct dest *d) {
	if (d->changed)
		return;
	d->changed = true;
	SLIST_INSERT_HEAD(&queue->changed, d, of_changed);
}

/* --- domains --------------------------------------------------------------------------- */

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

static uint64_t domain_hash(const struct domain *d) {
	return (uint64_t)d->hash << 8 | d->mta;
}

static struct domain *find_domain(const struct queue *queue, unsigned mta, const char *name,
    uint32_t hash) {
	const struct map_cell *cell = map_find(&queue->domain_map, (uint64_t)hash << 8 | mta);

	for (; cell != NULL; cell = map_next(&queue->domain_map, cell)) {
		struct domain *d = cell->item;

		if (strcmp(d->name, name) == 0)
			return d;
	}
	return NULL;
}

static struct domain *make_domain(struct queue *queue, unsigned mta, const char *name,
    uint32_t hash) {
	struct domain *d = calloc(1, sizeof(*d) + strlen(name) + 1);
	struct window_owner owner;

	if (d == NULL || !map_reserve(&queue->domain_map, queue->domain_map.count + 1)) {
		free(d);
		return NULL;
	}
	owner_of(queue, mta, name, &owner);
	d->dest = use_dest(queue, mta, strcmp(name, QUEUE_LOCAL_DOMAIN) == 0 ? QUEUE_LOCAL :
	    QUEUE_REMOTE, &owner);
	if (d->dest == NULL) {
		free(d);
		return NULL;
	}
	memcpy(d->name, name, strlen(name));
	d->hash = hash;
	d->mta = (uint8_t)mta;
	(void)map_add_item(&queue->domain_map, domain_hash(d), d);
	LIST_INSERT_HEAD(&queue->domains, d, of_all);
	return d;
}

struct domain *queue_use_domain(struct queue *queue, unsigned mta, const char *name,
    size_t length) {
	char text[DOMAIN_MAX + 1];
	struct domain *d;
	uint32_t hash;

	length = length > 0 && name[length - 1] == '.' ? length - 1 : length;
	if (length > DOMAIN_MAX)
		length = DOMAIN_MAX;
	for (size_t i = 0; i < length; i++)
		text[i] = name[i] >= 'A' && name[i] <= 'Z' ? (char)(name[i] + 32) :
		    name[i] == '\0' ? '?' : name[i];
	text[length] = '\0';
	hash = grants_domain(queue->engine->segment, text, length);
	d = find_domain(queue, mta, text, hash);
	if (d == NULL)
		d = make_domain(queue, mta, text, hash);
	if (d != NULL)
		d->uses++;
	return d;
}

void queue_unuse_domain(struct queue *queue, struct domain *d) {
	if (--d->uses > 0)
		return;
	map_remove_item(&queue->domain_map, domain_hash(d), d);
	LIST_REMOVE(d, of_all);
	unuse_dest(queue, d->dest);
	free(d);
}

/* --- where it belongs now ---------------------------------------------------------- */

static void move_part(struct queue *queue, struct part *p, struct dest *to) {
	if (p->on_board)
		queue_unplace(queue, p->message);
	queue_unlink_part(p);
	queue_link_part(p, to);
	if (p->state == PART_SUSPENDED)
		p->state = PART_DUE;
	if (p->message->state == MESSAGE_WAITS)
		queue_settle(queue, p->message);
}

void queue_remap_domain(struct queue *queue, struct domain *domain) {
	struct dest *before = domain->dest, *after;
	struct window_owner owner;
	struct part *next;

	owner_of(queue, domain->mta, domain->name, &owner);
	if (owner.kind == before->owner.kind && strcmp(owner.name, before->owner.name) == 0)
		return;
	after = use_dest(queue, domain->mta, before->mailer, &owner);
	if (after == NULL)
		return;
	domain->dest = after;
	for (struct part *p = LIST_FIRST(&before->parts); p != NULL; p = next) {
		next = LIST_NEXT(p, of_dest);
		if (p->domain == domain)
			move_part(queue, p, after);
	}
	unuse_dest(queue, before);
}

void queue_remap_all(struct queue *queue) {
	struct domain *d;

	LIST_FOREACH(d, &queue->domains, of_all)
		queue_remap_domain(queue, d);
	queue_journal_remapped(queue);
}
