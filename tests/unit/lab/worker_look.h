/* SPDX-License-Identifier: ISC */
/* What the allocator knows, what somebody else knows of a destination, and whether its lists,
 * counts and links agree. */
#ifndef TESTS_UNIT_WORKER_LOOK_H
#define TESTS_UNIT_WORKER_LOOK_H

#include "lab/worker.h"

/* A destination is broken, or works again: not to be tried before retry_ns; 0: forget its
 * retry time. */
static inline void worker_set_retry(struct workers *workers, uint32_t destination,
    int64_t retry_ns, int64_t now_ns) {
	struct worker_destination *d = &workers->destinations[destination];

	if (worker_is_stale(workers, d, now_ns))
		*d = (struct worker_destination){ .closed_ns = now_ns };
	d->retry_ns = retry_ns;
}

enum worker_record { WORKER_RECORD_NONE, WORKER_RECORD_OPEN, WORKER_RECORD_CLOSED,
	WORKER_RECORD_RETRY };
/* NONE: it counts as unused. */
static inline enum worker_record worker_see_destination(const struct workers *workers,
    uint32_t destination, int64_t now_ns) {
	const struct worker_destination *d = &workers->destinations[destination];

	if (worker_is_stale(workers, d, now_ns))
		return WORKER_RECORD_NONE;
	return d->connection_count > 0 ? WORKER_RECORD_OPEN :
	    d->retry_ns != 0 ? WORKER_RECORD_RETRY :
	    d->order != 0 ? WORKER_RECORD_CLOSED : WORKER_RECORD_NONE;
}

/* NULL: there is no such connection. */
static inline const struct worker_connection *worker_see_connection(
    const struct workers *workers, uint32_t number) {
	return number >= workers->sizes.workers ||
	    workers->connections[number].destination == NULL ? NULL :
	    &workers->connections[number];
}

static inline bool are_connections_sound(const struct workers *w) {
	uint32_t open = 0, idle = 0, aged = 0, past_age = 0, none = 0;
	const struct worker_connection *c;
	const struct worker_job *job;

	TAILQ_FOREACH(c, &w->no_connection, of_age)
		none += c->destination == NULL;
	TAILQ_FOREACH(c, &w->aged, of_age)
		aged += c->destination != NULL && !c->past_age;
	TAILQ_FOREACH(c, &w->idle, of_idle)
		idle += c->destination != NULL && c->job_count == 0;
	for (c = w->connections; c < w->connections + w->sizes.workers; c++) {
		uint32_t jobs = 0;

		if (c->destination == NULL)
			continue;
		TAILQ_FOREACH(job, &c->jobs, of_list)
			jobs += job->connection == c;
		if (jobs != c->job_count || (c->past_age && jobs == 0))
			return false;
		open++;
		past_age += c->past_age;
	}
	return open == w->open && none + open == w->sizes.workers && idle == w->idle_count &&
	    aged + past_age == open;
}

static inline bool are_destinations_sound(const struct workers *w) {
	uint32_t open = 0;

	for (uint32_t i = 0; i < w->sizes.destinations; i++) {
		const struct worker_destination *d = &w->destinations[i];
		const struct worker_connection *c;
		uint64_t order = UINT64_MAX;
		uint32_t count = 0;

		LIST_FOREACH(c, &d->connections, of_destination) {
			if (c->destination != d || c->order >= order)
				return false;
			order = c->order;
			count++;
		}
		if (count != d->connection_count)
			return false;
		open += count;
	}
	return open == w->open;
}

/* A message has as many workers as pairs, and a pair has a job. */
static inline bool are_pairs_sound(const struct workers *w) {
	uint32_t jobs = 0, placed = 0, workers = 0;

	for (uint32_t i = 0; i < w->pairs.size; i++)
		jobs += w->pairs.cells[i].hash != 0 ? w->pairs.cells[i].index : 0;
	for (uint32_t i = 0; i < w->sizes.messages; i++)
		workers += w->concurrency[i];
	for (uint32_t i = 0; i < w->sizes.workers; i++) {
		const struct worker_connection *c = &w->connections[i];
		const struct worker_job *job;

		if (c->destination == NULL)
			continue;
		placed += c->job_count;
		TAILQ_FOREACH(job, &c->jobs, of_list)
			if (map_find(&w->pairs, worker_pair_hash(w, job->message, c)) == NULL)
				return false;
	}
	return jobs == placed && workers == w->pairs.count;
}

static inline bool worker_is_sound(const struct workers *workers) {
	return are_connections_sound(workers) && are_destinations_sound(workers) &&
	    are_pairs_sound(workers);
}

#endif
