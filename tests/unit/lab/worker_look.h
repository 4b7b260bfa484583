/* SPDX-License-Identifier: ISC */
/* What the allocator knows, what somebody else knows of a destination, and whether its lists,
 * counts and links agree. */
#ifndef TESTS_UNIT_WORKER_LOOK_H
#define TESTS_UNIT_WORKER_LOOK_H

#include "lab/worker_internal.h"

/* A destination is broken, or works again: not to be tried before retry_ns; 0: forget its
 * retry time. */
static inline void worker_set_retry(struct workers *workers, uint64_t destination,
    int64_t retry_ns, int64_t now_ns) {
	if (retry_ns != 0 || worker_find(workers, destination, now_ns) != NULL)
		worker_record(workers, destination, now_ns)->retry_ns = retry_ns;
}

enum worker_record { WORKER_RECORD_NONE, WORKER_RECORD_OPEN, WORKER_RECORD_CLOSED,
	WORKER_RECORD_RETRY };
/* NONE: it counts as unused. */
static inline enum worker_record worker_see_destination(const struct workers *workers,
    uint64_t destination, int64_t now_ns) {
	const struct worker_destination *d = worker_find(workers, destination, now_ns);

	return d == NULL ? WORKER_RECORD_NONE : d->connection_count > 0 ? WORKER_RECORD_OPEN :
	    d->retry_ns != 0 ? WORKER_RECORD_RETRY : WORKER_RECORD_CLOSED;
}

/* NULL: there is no such connection. */
static inline const struct worker_connection *worker_see_connection(
    const struct workers *workers, uint32_t number) {
	return number >= workers->sizes.workers ||
	    workers->connections[number].destination == NULL ? NULL :
	    &workers->connections[number];
}

static inline bool are_connections_sound(const struct workers *w) {
	uint32_t open = 0, idle = 0, aged = 0, past_age = 0, none = 0, placed = 0;
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
		placed += jobs;
	}
	TAILQ_FOREACH(job, &w->no_job, of_list)
		placed++;
	TAILQ_FOREACH(job, &w->lost, of_list)
		placed++;
	return open == w->open && none + open == w->sizes.workers && idle == w->idle_count &&
	    aged + past_age == open && placed == w->sizes.jobs;
}

static inline bool are_destinations_sound(const struct workers *w) {
	uint32_t used = 0, open = 0;

	for (uint32_t i = 0; i < w->sizes.destinations; i++) {
		const struct worker_destination *d = &w->destinations[i];
		const struct worker_connection *c;
		uint64_t order = UINT64_MAX;
		uint32_t count = 0;

		used += d->used;
		LIST_FOREACH(c, &d->connections, of_destination) {
			if (c->destination != d || c->order >= order)
				return false;
			order = c->order;
			count++;
		}
		if (count != d->connection_count || (count > 0 && !d->used))
			return false;
		open += count;
	}
	return used == w->by_key.count && open == w->open;
}

/* A message has as many workers as pairs, and a pair has a job. */
static inline bool are_pairs_sound(const struct workers *w) {
	uint32_t jobs = 0, workers = 0;

	for (uint32_t i = 0; i < w->pairs.size; i++)
		jobs += w->pairs.cells[i].hash != 0 ? w->pairs.cells[i].index : 0;
	for (uint32_t i = 0; i < w->sizes.messages; i++)
		workers += w->concurrency[i];
	for (uint32_t i = 0; i < w->sizes.jobs; i++) {
		const struct worker_job *job = &w->jobs[i];

		if (job->connection != NULL && map_find(&w->pairs, worker_pair_hash(w,
		    job->message, job->connection)) == NULL)
			return false;
	}
	return jobs == w->placed && workers == w->pairs.count;
}

static inline bool worker_is_sound(const struct workers *workers) {
	return are_connections_sound(workers) && are_destinations_sound(workers) &&
	    are_pairs_sound(workers);
}

#endif
