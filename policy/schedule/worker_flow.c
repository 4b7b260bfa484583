/* SPDX-License-Identifier: ISC */
/*
 * What becomes of jobs and connections once they are placed (worker.h).
 *
 * Model: a connection without jobs is in the idle list; past its age it leaves the list of
 * those that age, takes nothing more, and closes when it has no jobs.  Lost jobs wait in a
 * list of their own, in their order, until somebody takes them.
 */
#include "policy/schedule/worker_internal.h"

#define COLLECT_AT_ONCE	8

void worker_close(struct workers *workers, uint32_t connection, int64_t now_ns) {
	struct worker_connection *c = &connections_of(workers)[connection];
	struct worker_destination *d = &destinations_of(workers)[c->destination];

	if (!c->past_age)
		worker_list_remove(&workers->aged, age_links_of(workers), connection);
	worker_list_remove(&workers->idle, idle_links_of(workers), connection);
	worker_list_remove(&d->connections, connection_links_of(workers), connection);
	d->closed_ns = now_ns;
	c->destination = NONE;
	worker_list_append(&workers->no_connection, age_links_of(workers), connection);
	workers->open--;
}

/* Off its connection, which is idle if it was the last. */
static void take_job(struct workers *w, uint32_t job, int64_t now_ns) {
	uint32_t at = jobs_of(w)[job].connection;
	struct worker_connection *connection = &connections_of(w)[at];

	worker_list_remove(&connection->jobs, job_links_of(w), job);
	worker_pair_remove(w, jobs_of(w)[job].pair);
	jobs_of(w)[job].connection = NONE;
	w->placed--;
	if (connection->jobs.count == 0) {
		connection->idle_ns = now_ns;
		worker_list_append(&w->idle, idle_links_of(w), at);
	}
}

bool worker_done(struct workers *workers, uint32_t job, int64_t now_ns) {
	uint32_t at = jobs_of(workers)[job].connection;
	const struct worker_connection *connection = &connections_of(workers)[at];

	take_job(workers, job, now_ns);
	worker_list_append(&workers->no_job, job_links_of(workers), job);
	if (!connection->past_age || connection->jobs.count > 0)
		return false;
	worker_close(workers, at, now_ns);
	return true;
}

void worker_connected(struct workers *workers, uint32_t connection) {
	destinations_of(workers)[connections_of(workers)[connection].destination].retry_ns = 0;
}

void worker_lost(struct workers *workers, uint32_t connection, int64_t retry_ns,
    int64_t now_ns) {
	struct worker_connection *c = &connections_of(workers)[connection];
	bool first = true;

	if (retry_ns != 0)
		destinations_of(workers)[c->destination].retry_ns = retry_ns;
	while (c->jobs.count > 0) {
		uint32_t job = c->jobs.first;

		take_job(workers, job, now_ns);
		jobs_of(workers)[job].first = first;
		worker_list_append(&workers->lost, job_links_of(workers), job);
		first = false;
	}
	worker_close(workers, connection, now_ns);
}

bool worker_next_lost(struct workers *workers, struct worker_lost_job *out) {
	uint32_t at = workers->lost.first;
	const struct worker_job *job;

	if (at == NONE)
		return false;
	job = &jobs_of(workers)[at];
	*out = (struct worker_lost_job){ at, job->message, job->tag, job->first != 0 };
	worker_list_remove(&workers->lost, job_links_of(workers), at);
	worker_list_append(&workers->no_job, job_links_of(workers), at);
	return true;
}

/* --- ageing ----------------------------------------------------------------------------- */

static int64_t end_of(int64_t since_ns, int64_t age_ns) {
	int64_t end_ns;

	return age_ns <= 0 || __builtin_add_overflow(since_ns, age_ns, &end_ns) ?
	    INT64_MAX : end_ns;
}

static int64_t aged_ns(const struct workers *w) {
	return w->aged.first == NONE ? INT64_MAX :
	    end_of(connections_of(w)[w->aged.first].opened_ns, w->settings.active_age_ns);
}

static int64_t idled_ns(const struct workers *w) {
	return w->idle.first == NONE ? INT64_MAX :
	    end_of(connections_of(w)[w->idle.first].idle_ns, w->settings.idle_age_ns);
}

uint32_t worker_turn(struct workers *workers, int64_t now_ns) {
	uint32_t at;

	while (aged_ns(workers) <= now_ns) {
		at = workers->aged.first;
		if (connections_of(workers)[at].jobs.count == 0) {
			worker_close(workers, at, now_ns);
			return at;
		}
		worker_list_remove(&workers->aged, age_links_of(workers), at);
		connections_of(workers)[at].past_age = 1;
	}
	if (idled_ns(workers) <= now_ns) {
		at = workers->idle.first;
		worker_close(workers, at, now_ns);
		return at;
	}
	worker_collect(workers, COLLECT_AT_ONCE, now_ns);
	return NONE;
}

int64_t worker_due_ns(const struct workers *workers) {
	int64_t aged = aged_ns(workers), idled = idled_ns(workers);

	return aged < idled ? aged : idled;
}

void worker_set_retry(struct workers *workers, uint64_t destination, int64_t retry_ns,
    int64_t now_ns) {
	uint32_t at = worker_find(workers, destination, now_ns);

	if (at == NONE && retry_ns == 0)
		return;
	if (at == NONE)
		at = worker_record(workers, destination, now_ns);
	destinations_of(workers)[at].retry_ns = retry_ns;
}

/* --- to look at ------------------------------------------------------------------------- */

void worker_count(const struct workers *workers, struct worker_counts *out) {
	*out = (struct worker_counts){
		.workers = workers->sizes.workers,
		.active = workers->open - workers->idle.count,
		.idle = workers->idle.count,
		.free = workers->no_connection.count + workers->idle.count,
		.jobs = workers->placed,
		.records = workers->records,
		.collected = workers->collected,
		.evicted = workers->evicted,
	};
}

uint32_t worker_concurrency(const struct workers *workers, uint32_t message) {
	return concurrency_of(workers)[message];
}

bool worker_see_connection(const struct workers *workers, uint32_t connection,
    struct worker_connection_view *out) {
	const struct worker_connection *c;

	if (connection >= workers->sizes.workers ||
	    connections_of(workers)[connection].destination == NONE)
		return false;
	c = &connections_of(workers)[connection];
	*out = (struct worker_connection_view){
		.destination = destinations_of(workers)[c->destination].key,
		.jobs = c->jobs.count,
		.opened_ns = c->opened_ns,
		.past_age = c->past_age != 0,
	};
	return true;
}

enum worker_record worker_see_destination(const struct workers *workers,
    uint64_t destination, int64_t now_ns) {
	uint32_t at = worker_find(workers, destination, now_ns);
	const struct worker_destination *d;

	if (at == NONE)
		return WORKER_RECORD_NONE;
	d = &destinations_of(workers)[at];
	return d->connections.count > 0 ? WORKER_RECORD_OPEN :
	    d->retry_ns != 0 ? WORKER_RECORD_RETRY : WORKER_RECORD_CLOSED;
}
