/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What becomes of jobs and connections once they are placed (worker.h), and what is
 *          known of destinations.
 * MODEL    A connection without jobs is in the idle list; past its age it leaves the list of
 *          those that age, takes nothing more, and closes when it has no jobs.  What is known of
 *          a destination without connections counts until it is stale.
 * ERRORS   No memory: the program ends.
 * THREADS  One.
 */
#include <stdlib.h>

#include "lab/memory.h"
#include "lab/worker.h"

/* --- life ------------------------------------------------------------------------------- */

struct workers *worker_open(const struct worker_sizes *sizes,
    const struct worker_settings *settings) {
	struct workers *w = memory_of(1, sizeof(*w));

	w->settings = *settings;
	w->sizes = *sizes;
	w->connections = memory_of(sizes->workers, sizeof(*w->connections));
	w->destinations = memory_of(sizes->destinations, sizeof(*w->destinations));
	w->concurrency = memory_of(sizes->messages, sizeof(*w->concurrency));
	TAILQ_INIT(&w->no_connection);
	TAILQ_INIT(&w->aged);
	TAILQ_INIT(&w->idle);
	for (uint32_t i = 0; i < sizes->workers; i++)
		TAILQ_INSERT_TAIL(&w->no_connection, &w->connections[i], of_age);
	return w;
}

void worker_free(struct workers *workers) {
	free(workers->connections);
	free(workers->destinations);
	free(workers->concurrency);
	map_free(&workers->pairs);
	free(workers);
}

static bool is_over(int64_t since_ns, int64_t keep_ns, int64_t now_ns) {
	int64_t end_ns;

	return !__builtin_add_overflow(since_ns, keep_ns, &end_ns) && now_ns >= end_ns;
}

bool worker_is_stale(const struct workers *workers, const struct worker_destination *d,
    int64_t now_ns) {
	if (d->connection_count > 0)
		return false;
	if (d->retry_ns != 0)
		return is_over(d->retry_ns, workers->settings.retry_keep_ns, now_ns);
	return is_over(d->closed_ns, workers->settings.closed_keep_ns, now_ns);
}

/* --- the workers of a message ------------------------------------------------------------ */

void worker_pair_add(struct workers *workers, uint32_t message,
    const struct worker_connection *connection) {
	struct map_cell *cell = memory_is_there(map_set(&workers->pairs,
	    worker_pair_hash(workers, message, connection)));

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
	if (--c->job_count > 0)
		return;
	c->idle_ns = now_ns;
	TAILQ_INSERT_TAIL(&w->idle, c, of_idle);
	w->idle_count++;
}

bool worker_done(struct workers *workers, struct worker_job *job, int64_t now_ns) {
	struct worker_connection *c = job->connection;

	take_job(workers, job, now_ns);
	c->done++;
	if (!c->past_age || c->job_count > 0)
		return false;
	worker_close(workers, c, now_ns);
	return true;
}

void worker_connected(struct workers *workers, uint32_t connection) {
	workers->connections[connection].destination->retry_ns = 0;
	workers->connections[connection].made = true;
}

void worker_lost(struct workers *workers, uint32_t connection, int64_t retry_ns,
    int64_t now_ns, struct worker_jobs *lost) {
	struct worker_connection *c = &workers->connections[connection];
	struct worker_job *job;

	if (retry_ns != 0)
		c->destination->retry_ns = retry_ns;
	while ((job = TAILQ_FIRST(&c->jobs)) != NULL) {
		take_job(workers, job, now_ns);
		TAILQ_INSERT_TAIL(lost, job, of_list);
	}
	worker_close(workers, c, now_ns);
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
	return WORKER_NONE;
}

int64_t worker_due_ns(const struct workers *workers) {
	int64_t aged = aged_ns(workers), idled = idled_ns(workers);

	return aged < idled ? aged : idled;
}
