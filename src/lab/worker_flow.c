/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What becomes of jobs and connections once they are placed (worker.h), and what is
 *          known of destinations.
 * MODEL    A connection without jobs is in the idle list; past its age it leaves the list of
 *          those that age, takes nothing more, and closes when it has no jobs.  Lost jobs wait
 *          in a list of their own, in their order, until somebody takes them.
 *          A record with connections stays; one of a closed connection or of a retry goes once
 *          it is stale: a hand passes over some at each turn, and whoever looks one up takes a
 *          stale one for none.  Without a free record that of a closed connection goes, else
 *          one of a retry.
 * ERRORS   All memory is taken at the start.
 * THREADS  One.
 */
#include <stdlib.h>

#include "lab/worker_internal.h"

#define COUNT_MAX	(UINT32_C(1) << 28)
#define COLLECT_AT_ONCE	8

/* --- life ------------------------------------------------------------------------------- */

static bool are_possible(const struct worker_sizes *sizes) {
	return sizes->workers > 0 && sizes->jobs > 0 && sizes->messages > 0 &&
	    sizes->destinations > sizes->workers && sizes->workers <= COUNT_MAX &&
	    sizes->jobs <= COUNT_MAX && sizes->messages <= COUNT_MAX &&
	    sizes->destinations <= COUNT_MAX;
}

static bool allocate(struct workers *w) {
	const struct worker_sizes *sizes = &w->sizes;

	w->connections = calloc(sizes->workers, sizeof(*w->connections));
	w->jobs = calloc(sizes->jobs, sizeof(*w->jobs));
	w->destinations = calloc(sizes->destinations, sizeof(*w->destinations));
	w->concurrency = calloc(sizes->messages, sizeof(*w->concurrency));
	return w->connections != NULL && w->jobs != NULL && w->destinations != NULL &&
	    w->concurrency != NULL && map_reserve(&w->by_key, sizes->destinations) &&
	    map_reserve(&w->pairs, sizes->jobs);
}

struct workers *worker_open(const struct worker_sizes *sizes,
    const struct worker_settings *settings) {
	struct workers *w = are_possible(sizes) ? calloc(1, sizeof(*w)) : NULL;

	if (w == NULL)
		return NULL;
	w->settings = *settings;
	w->sizes = *sizes;
	if (!allocate(w)) {
		worker_free(w);
		return NULL;
	}
	TAILQ_INIT(&w->no_connection);
	TAILQ_INIT(&w->aged);
	TAILQ_INIT(&w->idle);
	TAILQ_INIT(&w->no_job);
	TAILQ_INIT(&w->lost);
	for (uint32_t i = 0; i < sizes->workers; i++)
		TAILQ_INSERT_TAIL(&w->no_connection, &w->connections[i], of_age);
	for (uint32_t i = 0; i < sizes->jobs; i++)
		TAILQ_INSERT_TAIL(&w->no_job, &w->jobs[i], of_list);
	for (uint32_t i = sizes->destinations; i-- > 0;)
		SLIST_INSERT_HEAD(&w->free_destinations, &w->destinations[i], of_free);
	return w;
}

void worker_free(struct workers *workers) {
	if (workers == NULL)
		return;
	free(workers->connections);
	free(workers->jobs);
	free(workers->destinations);
	free(workers->concurrency);
	map_free(&workers->by_key);
	map_free(&workers->pairs);
	free(workers);
}

/* --- destinations ------------------------------------------------------------------------ */

static bool is_over(int64_t since_ns, int64_t keep_ns, int64_t now_ns) {
	int64_t end_ns;

	return !__builtin_add_overflow(since_ns, keep_ns, &end_ns) && now_ns >= end_ns;
}

static bool is_stale(const struct workers *w, const struct worker_destination *d,
    int64_t now_ns) {
	if (d->connection_count > 0)
		return false;
	if (d->retry_ns != 0)
		return is_over(d->retry_ns, w->settings.retry_keep_ns, now_ns);
	return is_over(d->closed_ns, w->settings.closed_keep_ns, now_ns);
}

static struct worker_destination *look_up(const struct workers *w, uint64_t key) {
	const struct map_cell *cell = map_find(&w->by_key, worker_hash(key));

	while (cell != NULL && ((const struct worker_destination *)cell->item)->key != key)
		cell = map_next(&w->by_key, cell);
	return cell == NULL ? NULL : cell->item;
}

struct worker_destination *worker_find(const struct workers *workers, uint64_t key,
    int64_t now_ns) {
	struct worker_destination *d = look_up(workers, key);

	return d != NULL && is_stale(workers, d, now_ns) ? NULL : d;
}

static void forget(struct workers *w, struct worker_destination *d) {
	map_remove(&w->by_key, map_find_item(&w->by_key, worker_hash(d->key), d));
	*d = (struct worker_destination){ .used = false };
	SLIST_INSERT_HEAD(&w->free_destinations, d, of_free);
}

/* Looks at so many records, and frees those that are stale. */
static void collect(struct workers *w, uint32_t count, int64_t now_ns) {
	for (; count > 0; count--) {
		struct worker_destination *d = &w->destinations[w->hand++ %
		    w->sizes.destinations];

		if (d->used && is_stale(w, d, now_ns)) {
			forget(w, d);
			w->collected++;
		}
	}
	w->hand %= w->sizes.destinations;
}

/* There are more records than connections, so that one can go. */
static void evict(struct workers *w, int64_t now_ns) {
	struct worker_destination *retry = NULL, *closed = NULL;

	collect(w, w->sizes.destinations, now_ns);
	if (!SLIST_EMPTY(&w->free_destinations))
		return;
	for (uint32_t i = 0; i < w->sizes.destinations; i++) {
		struct worker_destination *d = &w->destinations[i];

		if (d->connection_count > 0)
			continue;
		if (d->retry_ns == 0 && (closed == NULL || d->order < closed->order))
			closed = d;
		if (d->retry_ns != 0 && (retry == NULL || d->retry_ns < retry->retry_ns))
			retry = d;
	}
	forget(w, closed != NULL ? closed : retry);
	w->evicted++;
}

struct worker_destination *worker_record(struct workers *workers, uint64_t key,
    int64_t now_ns) {
	struct worker_destination *d = look_up(workers, key);

	if (d != NULL && is_stale(workers, d, now_ns)) {
		forget(workers, d);
		workers->collected++;
		d = NULL;
	}
	if (d != NULL)
		return d;
	if (SLIST_EMPTY(&workers->free_destinations))
		evict(workers, now_ns);
	d = SLIST_FIRST(&workers->free_destinations);
	SLIST_REMOVE_HEAD(&workers->free_destinations, of_free);
	*d = (struct worker_destination){ .key = key, .closed_ns = now_ns, .used = true };
	map_add(&workers->by_key, worker_hash(key))->item = d;
	return d;
}

/* --- the workers of a message ------------------------------------------------------------ */

void worker_pair_add(struct workers *workers, uint32_t message,
    const struct worker_connection *connection) {
	struct map_cell *cell = map_set(&workers->pairs,
	    worker_pair_hash(workers, message, connection));

	if (cell->index++ == 0)
		workers->concurrency[message]++;
}

static void remove_pair(struct workers *w, uint32_t message,
    const struct worker_connection *connection) {
	struct map_cell *cell = map_find(&w->pairs, worker_pair_hash(w, message, connection));

	if (--cell->index > 0)
		return;
	map_remove(&w->pairs, cell);
	w->concurrency[message]--;
}

/* --- ends -------------------------------------------------------------------------------- */

void worker_close(struct workers *workers, struct worker_connection *c, int64_t now_ns) {
	if (!c->past_age)
		TAILQ_REMOVE(&workers->aged, c, of_age);
	TAILQ_REMOVE(&workers->idle, c, of_idle);
	workers->idle_count--;
	LIST_REMOVE(c, of_destination);
	c->destination->connection_count--;
	c->destination->closed_ns = now_ns;
	c->destination = NULL;
	TAILQ_INSERT_TAIL(&workers->no_connection, c, of_age);
	workers->open--;
}

/* Off its connection, which is idle if it was the last. */
static void take_job(struct workers *w, struct worker_job *job, int64_t now_ns) {
	struct worker_connection *c = job->connection;

	TAILQ_REMOVE(&c->jobs, job, of_list);
	remove_pair(w, job->message, c);
	job->connection = NULL;
	w->placed--;
	if (--c->job_count > 0)
		return;
	c->idle_ns = now_ns;
	TAILQ_INSERT_TAIL(&w->idle, c, of_idle);
	w->idle_count++;
}

bool worker_done(struct workers *workers, uint32_t number, int64_t now_ns) {
	struct worker_job *job = &workers->jobs[number];
	struct worker_connection *c = job->connection;

	take_job(workers, job, now_ns);
	TAILQ_INSERT_TAIL(&workers->no_job, job, of_list);
	if (!c->past_age || c->job_count > 0)
		return false;
	worker_close(workers, c, now_ns);
	return true;
}

void worker_connected(struct workers *workers, uint32_t connection) {
	workers->connections[connection].destination->retry_ns = 0;
}

void worker_lost(struct workers *workers, uint32_t connection, int64_t retry_ns,
    int64_t now_ns) {
	struct worker_connection *c = &workers->connections[connection];
	struct worker_job *job;
	bool first = true;

	if (retry_ns != 0)
		c->destination->retry_ns = retry_ns;
	while ((job = TAILQ_FIRST(&c->jobs)) != NULL) {
		take_job(workers, job, now_ns);
		job->first = first;
		TAILQ_INSERT_TAIL(&workers->lost, job, of_list);
		first = false;
	}
	worker_close(workers, c, now_ns);
}

bool worker_next_lost(struct workers *workers, struct worker_lost_job *out) {
	struct worker_job *job = TAILQ_FIRST(&workers->lost);

	if (job == NULL)
		return false;
	*out = (struct worker_lost_job){ (uint32_t)(job - workers->jobs), job->message, job->tag,
		job->first };
	TAILQ_REMOVE(&workers->lost, job, of_list);
	TAILQ_INSERT_TAIL(&workers->no_job, job, of_list);
	return true;
}

/* --- ageing ----------------------------------------------------------------------------- */

static int64_t end_of(int64_t since_ns, int64_t age_ns) {
	int64_t end_ns;

	return age_ns <= 0 || __builtin_add_overflow(since_ns, age_ns, &end_ns) ?
	    INT64_MAX : end_ns;
}

static int64_t aged_ns(const struct workers *w) {
	const struct worker_connection *first = TAILQ_FIRST(&w->aged);

	return first == NULL ? INT64_MAX : end_of(first->opened_ns, w->settings.active_age_ns);
}

static int64_t idled_ns(const struct workers *w) {
	const struct worker_connection *first = TAILQ_FIRST(&w->idle);

	return first == NULL ? INT64_MAX : end_of(first->idle_ns, w->settings.idle_age_ns);
}

static uint32_t close_aged(struct workers *w, struct worker_connection *c, int64_t now_ns) {
	worker_close(w, c, now_ns);
	return (uint32_t)(c - w->connections);
}

uint32_t worker_turn(struct workers *workers, int64_t now_ns) {
	while (aged_ns(workers) <= now_ns) {
		struct worker_connection *c = TAILQ_FIRST(&workers->aged);

		if (c->job_count == 0)
			return close_aged(workers, c, now_ns);
		TAILQ_REMOVE(&workers->aged, c, of_age);
		c->past_age = true;
	}
	if (idled_ns(workers) <= now_ns)
		return close_aged(workers, TAILQ_FIRST(&workers->idle), now_ns);
	collect(workers, COLLECT_AT_ONCE, now_ns);
	return NONE;
}

int64_t worker_due_ns(const struct workers *workers) {
	int64_t aged = aged_ns(workers), idled = idled_ns(workers);

	return aged < idled ? aged : idled;
}

/* --- to look at ------------------------------------------------------------------------- */

void worker_count(const struct workers *workers, struct worker_counts *out) {
	*out = (struct worker_counts){
		.workers = workers->sizes.workers,
		.active = workers->open - workers->idle_count,
		.idle = workers->idle_count,
		.free = workers->sizes.workers - workers->open + workers->idle_count,
		.jobs = workers->placed,
		.records = workers->by_key.count,
		.collected = workers->collected,
		.evicted = workers->evicted,
	};
}

uint32_t worker_concurrency(const struct workers *workers, uint32_t message) {
	return workers->concurrency[message];
}
