/* SPDX-License-Identifier: ISC */
/*
 * The allocator's memory, and its database of destinations (worker.h).
 *
 * Model: one block with arrays behind a header; records are found by buckets.  A record
 * with connections stays; one of a closed connection or of a retry goes once it is stale:
 * a hand passes over some at each turn, and whoever looks one up takes a stale one for
 * none.  Without a free record that of a closed connection goes, else one of a retry.
 */
#include "policy/schedule/worker_internal.h"

#define COUNT_MAX	(UINT32_C(1) << 28)

/* --- lists --------------------------------------------------------------------------- */

void worker_list_begin(struct worker_list *list) {
	*list = (struct worker_list){ NONE, NONE, 0 };
}

void worker_list_append(struct worker_list *list, struct worker_link *links, uint32_t item) {
	links[item] = (struct worker_link){ NONE, list->last };
	if (list->last != NONE)
		links[list->last].next = item;
	else
		list->first = item;
	list->last = item;
	list->count++;
}

void worker_list_prepend(struct worker_list *list, struct worker_link *links, uint32_t item) {
	links[item] = (struct worker_link){ list->first, NONE };
	if (list->first != NONE)
		links[list->first].previous = item;
	else
		list->last = item;
	list->first = item;
	list->count++;
}

void worker_list_remove(struct worker_list *list, struct worker_link *links, uint32_t item) {
	struct worker_link link = links[item];

	if (link.previous != NONE)
		links[link.previous].next = link.next;
	else
		list->first = link.next;
	if (link.next != NONE)
		links[link.next].previous = link.previous;
	else
		list->last = link.previous;
	list->count--;
}

/* --- memory -------------------------------------------------------------------------- */

static uint32_t buckets_for(uint32_t count) {
	uint32_t buckets = 1;

	while (buckets < count)
		buckets *= 2;
	return buckets;
}

static uint64_t take(uint64_t *end, uint64_t count, uint64_t size) {
	uint64_t at = *end;

	*end += (count * size + 7) / 8 * 8;
	return at;
}

/* Fills in the offsets; the bytes of all. */
static uint64_t lay_out(struct workers *w, const struct worker_sizes *sizes) {
	uint64_t end = (sizeof(struct workers) + 7) / 8 * 8;

	w->sizes = *sizes;
	w->pair_mask = buckets_for(sizes->jobs) - 1;
	w->destination_mask = buckets_for(sizes->destinations) - 1;
	w->connections = take(&end, sizes->workers, sizeof(struct worker_connection));
	w->connection_links = take(&end, sizes->workers, sizeof(struct worker_link));
	w->age_links = take(&end, sizes->workers, sizeof(struct worker_link));
	w->idle_links = take(&end, sizes->workers, sizeof(struct worker_link));
	w->jobs = take(&end, sizes->jobs, sizeof(struct worker_job));
	w->job_links = take(&end, sizes->jobs, sizeof(struct worker_link));
	w->pairs = take(&end, sizes->jobs, sizeof(struct worker_pair));
	w->pair_buckets = take(&end, (uint64_t)w->pair_mask + 1, sizeof(uint32_t));
	w->destinations = take(&end, sizes->destinations, sizeof(struct worker_destination));
	w->destination_buckets = take(&end, (uint64_t)w->destination_mask + 1,
	    sizeof(uint32_t));
	w->concurrency = take(&end, sizes->messages, sizeof(uint32_t));
	return end;
}

size_t worker_bytes(const struct worker_sizes *sizes) {
	struct workers header;
	uint64_t bytes;

	if (sizes->workers == 0 || sizes->jobs == 0 || sizes->messages == 0 ||
	    sizes->destinations <= sizes->workers || sizes->workers > COUNT_MAX ||
	    sizes->jobs > COUNT_MAX || sizes->messages > COUNT_MAX ||
	    sizes->destinations > COUNT_MAX)
		return 0;
	bytes = lay_out(&header, sizes);
	return bytes <= SIZE_MAX ? (size_t)bytes : 0;
}

struct workers *worker_begin(void *memory, const struct worker_sizes *sizes,
    const struct worker_settings *settings) {
	struct workers *w = memory;

	*w = (struct workers){ .settings = *settings };
	(void)lay_out(w, sizes);
	worker_list_begin(&w->no_connection);
	worker_list_begin(&w->aged);
	worker_list_begin(&w->idle);
	worker_list_begin(&w->no_job);
	worker_list_begin(&w->lost);
	for (uint32_t i = 0; i < sizes->workers; i++) {
		connections_of(w)[i].destination = NONE;
		worker_list_append(&w->no_connection, age_links_of(w), i);
	}
	for (uint32_t i = 0; i < sizes->jobs; i++) {
		jobs_of(w)[i].connection = NONE;
		worker_list_append(&w->no_job, job_links_of(w), i);
		pairs_of(w)[i] = (struct worker_pair){ .next = i + 1 };
	}
	pairs_of(w)[sizes->jobs - 1].next = NONE;
	for (uint32_t i = 0; i < sizes->destinations; i++)
		destinations_of(w)[i] = (struct worker_destination){ .next = i + 1 };
	destinations_of(w)[sizes->destinations - 1].next = NONE;
	for (uint32_t i = 0; i <= w->pair_mask; i++)
		pair_buckets_of(w)[i] = NONE;
	for (uint32_t i = 0; i <= w->destination_mask; i++)
		destination_buckets_of(w)[i] = NONE;
	for (uint32_t i = 0; i < sizes->messages; i++)
		concurrency_of(w)[i] = 0;
	return w;
}

void worker_set(struct workers *workers, const struct worker_settings *settings) {
	workers->settings = *settings;
}

static uint32_t mix(uint64_t key) {
	return (uint32_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 32);
}

/* --- destinations -------------------------------------------------------------------- */

static uint32_t *bucket_of(const struct workers *w, uint64_t key) {
	return &destination_buckets_of(w)[mix(key) & w->destination_mask];
}

static bool is_over(int64_t since_ns, int64_t keep_ns, int64_t now_ns) {
	int64_t end_ns;

	return !__builtin_add_overflow(since_ns, keep_ns, &end_ns) && now_ns >= end_ns;
}

static bool is_stale(const struct workers *w, const struct worker_destination *d,
    int64_t now_ns) {
	if (d->connections.count > 0)
		return false;
	if (d->retry_ns != 0)
		return is_over(d->retry_ns, w->settings.retry_keep_ns, now_ns);
	return is_over(d->closed_ns, w->settings.closed_keep_ns, now_ns);
}

static uint32_t look_up(const struct workers *w, uint64_t key) {
	uint32_t at = *bucket_of(w, key);

	while (at != NONE && destinations_of(w)[at].key != key)
		at = destinations_of(w)[at].next;
	return at;
}

uint32_t worker_find(const struct workers *workers, uint64_t key, int64_t now_ns) {
	uint32_t at = look_up(workers, key);

	return at != NONE && is_stale(workers, &destinations_of(workers)[at], now_ns) ?
	    NONE : at;
}

static void forget(struct workers *w, uint32_t at) {
	struct worker_destination *d = &destinations_of(w)[at];
	uint32_t *link = bucket_of(w, d->key);

	while (*link != at)
		link = &destinations_of(w)[*link].next;
	*link = d->next;
	*d = (struct worker_destination){ .next = w->free_destination };
	w->free_destination = at;
	w->records--;
}

void worker_collect(struct workers *workers, uint32_t count, int64_t now_ns) {
	for (; count > 0; count--) {
		struct worker_destination *d;

		if (workers->hand >= workers->sizes.destinations)
			workers->hand = 0;
		d = &destinations_of(workers)[workers->hand];
		if (d->used && is_stale(workers, d, now_ns)) {
			forget(workers, workers->hand);
			workers->collected++;
		}
		workers->hand++;
	}
}

/* There are more records than connections, so that one can go. */
static void evict(struct workers *w, int64_t now_ns) {
	uint32_t retry = NONE, closed = NONE;

	worker_collect(w, w->sizes.destinations, now_ns);
	if (w->free_destination != NONE)
		return;
	for (uint32_t i = 0; i < w->sizes.destinations; i++) {
		const struct worker_destination *all = destinations_of(w);

		if (all[i].connections.count > 0)
			continue;
		if (all[i].retry_ns == 0 && (closed == NONE || all[i].order < all[closed].order))
			closed = i;
		if (all[i].retry_ns != 0 &&
		    (retry == NONE || all[i].retry_ns < all[retry].retry_ns))
			retry = i;
	}
	forget(w, closed != NONE ? closed : retry);
	w->evicted++;
}

uint32_t worker_record(struct workers *workers, uint64_t key, int64_t now_ns) {
	uint32_t at = look_up(workers, key);
	struct worker_destination *d;
	uint32_t *bucket;

	if (at != NONE && is_stale(workers, &destinations_of(workers)[at], now_ns)) {
		forget(workers, at);
		workers->collected++;
		at = NONE;
	}
	if (at != NONE)
		return at;
	if (workers->free_destination == NONE)
		evict(workers, now_ns);
	at = workers->free_destination;
	d = &destinations_of(workers)[at];
	workers->free_destination = d->next;
	bucket = bucket_of(workers, key);
	*d = (struct worker_destination){ .key = key, .closed_ns = now_ns, .next = *bucket,
		.used = 1 };
	worker_list_begin(&d->connections);
	*bucket = at;
	workers->records++;
	return at;
}

/* --- the workers of a message -------------------------------------------------------- */

static uint32_t *pair_bucket(const struct workers *w, uint32_t message, uint32_t connection) {
	uint64_t key = (uint64_t)message << 32 | connection;

	return &pair_buckets_of(w)[mix(key ^ key >> 29) & w->pair_mask];
}

uint32_t worker_pair_add(struct workers *workers, uint32_t message, uint32_t connection) {
	struct worker_pair *pairs = pairs_of(workers);
	uint32_t *bucket = pair_bucket(workers, message, connection), at = *bucket;

	while (at != NONE &&
	    (pairs[at].message != message || pairs[at].connection != connection))
		at = pairs[at].next;
	if (at == NONE) {
		at = workers->free_pair;
		workers->free_pair = pairs[at].next;
		pairs[at] = (struct worker_pair){ message, connection, 0, *bucket };
		*bucket = at;
		concurrency_of(workers)[message]++;
	}
	pairs[at].jobs++;
	return at;
}

void worker_pair_remove(struct workers *workers, uint32_t pair) {
	struct worker_pair *pairs = pairs_of(workers);
	uint32_t *link = pair_bucket(workers, pairs[pair].message, pairs[pair].connection);

	if (--pairs[pair].jobs > 0)
		return;
	concurrency_of(workers)[pairs[pair].message]--;
	while (*link != pair)
		link = &pairs[*link].next;
	*link = pairs[pair].next;
	pairs[pair].next = workers->free_pair;
	workers->free_pair = pair;
}
