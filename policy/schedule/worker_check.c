/* SPDX-License-Identifier: ISC */
/*
 * What the allocator promises of itself (worker_is_sound): for tests alone.
 *
 * Model: every connection is in the lists that its state asks for, every job in one, and
 * the counts are those of a recount.  Walks everything.
 */
#include "policy/schedule/worker_internal.h"

/* Forwards and backwards the same items, as many as counted and below `size'. */
static bool is_list_sound(const struct worker_list *list, const struct worker_link *links,
    uint32_t size) {
	uint32_t count = 0, previous = NONE;

	for (uint32_t at = list->first; at != NONE; at = links[at].next) {
		if (at >= size || links[at].previous != previous || ++count > list->count)
			return false;
		previous = at;
	}
	return count == list->count && list->last == previous;
}

static bool are_lists_sound(const struct workers *w) {
	uint32_t workers = w->sizes.workers, jobs = w->sizes.jobs;

	return is_list_sound(&w->no_connection, age_links_of(w), workers) &&
	    is_list_sound(&w->aged, age_links_of(w), workers) &&
	    is_list_sound(&w->idle, idle_links_of(w), workers) &&
	    is_list_sound(&w->no_job, job_links_of(w), jobs) &&
	    is_list_sound(&w->lost, job_links_of(w), jobs) &&
	    w->no_connection.count + w->open == workers &&
	    w->no_job.count + w->lost.count + w->placed == jobs;
}

static bool are_connections_sound(const struct workers *w) {
	uint32_t open = 0, idle = 0, past_age = 0, placed = 0;

	for (uint32_t i = 0; i < w->sizes.workers; i++) {
		const struct worker_connection *c = &connections_of(w)[i];

		if (c->destination == NONE)
			continue;
		if (c->destination >= w->sizes.destinations ||
		    !is_list_sound(&c->jobs, job_links_of(w), w->sizes.jobs))
			return false;
		for (uint32_t j = c->jobs.first; j != NONE; j = job_links_of(w)[j].next)
			if (jobs_of(w)[j].connection != i)
				return false;
		open++;
		idle += c->jobs.count == 0;
		past_age += c->past_age != 0;
		placed += c->jobs.count;
		if (c->past_age && c->jobs.count == 0)
			return false;
	}
	return open == w->open && idle == w->idle.count && placed == w->placed &&
	    w->aged.count + past_age == open;
}

static bool are_destinations_sound(const struct workers *w) {
	uint32_t used = 0, open = 0;

	for (uint32_t i = 0; i < w->sizes.destinations; i++) {
		const struct worker_destination *d = &destinations_of(w)[i];
		uint64_t order = UINT64_MAX;

		if (!d->used)
			continue;
		used++;
		open += d->connections.count;
		if (!is_list_sound(&d->connections, connection_links_of(w), w->sizes.workers))
			return false;
		for (uint32_t c = d->connections.first; c != NONE;
		     c = connection_links_of(w)[c].next) {
			if (connections_of(w)[c].destination != i ||
			    connections_of(w)[c].order >= order)
				return false;
			order = connections_of(w)[c].order;
		}
	}
	return used == w->records && open == w->open;
}

/* A message has as many workers as pairs. */
static bool is_message_sound(const struct workers *w, uint32_t message) {
	uint32_t pairs = 0;

	for (uint32_t i = 0; i < w->sizes.jobs; i++)
		pairs += pairs_of(w)[i].jobs > 0 && pairs_of(w)[i].message == message;
	return pairs == concurrency_of(w)[message];
}

static bool are_pairs_sound(const struct workers *w) {
	uint32_t jobs = 0, distinct = 0, workers = 0;

	for (uint32_t i = 0; i < w->sizes.jobs; i++) {
		jobs += pairs_of(w)[i].jobs;
		distinct += pairs_of(w)[i].jobs > 0;
	}
	for (uint32_t i = 0; i < w->sizes.messages; i++) {
		if (concurrency_of(w)[i] > 0 && !is_message_sound(w, i))
			return false;
		workers += concurrency_of(w)[i];
	}
	for (uint32_t i = 0; i < w->sizes.jobs; i++) {
		const struct worker_job *job = &jobs_of(w)[i];

		if (job->connection != NONE && (job->pair >= w->sizes.jobs ||
		    pairs_of(w)[job->pair].message != job->message ||
		    pairs_of(w)[job->pair].connection != job->connection))
			return false;
	}
	return jobs == w->placed && distinct == workers;
}

bool worker_is_sound(const struct workers *workers) {
	return are_lists_sound(workers) && are_connections_sound(workers) &&
	    are_destinations_sound(workers) && are_pairs_sound(workers);
}
