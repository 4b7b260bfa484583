/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The allocator of workers in virtual time.
 * MODEL    Jobs wait in a list of their message, and in one of their site.  After each
 *          event they are placed: of each message from the first on, until one has to wait
 *          for a worker; then those of sites that a connection was opened to since, which
 *          may ride on it.  A connection does one job after the other.  For routing there
 *          are no sites, and a job takes a worker for as long as it lasts.
 * ERRORS   No memory: the program ends.
 * THREADS  One.
 */
#include <stdlib.h>
#include <sys/queue.h>

#include "lab/simulate_events.h"
#include "lab/simulate_workers.h"

#define NONE		WORKER_NONE
#define ROWS_MAX	2000000u

struct job {
	struct worker_job own;	/* the allocator's; the first, so that it is found by that */
	uint32_t site;
	TAILQ_ENTRY(job) of_message, of_site;	/* while it waits */
};
TAILQ_HEAD(jobs, job);

struct message {
	struct jobs waiting;
	struct job *first;	/* of its jobs */
	uint32_t left;		/* not ended */
	uint32_t concurrency;
	bool here;
	int64_t changed_ns;	/* of concurrency */
	double area;		/* of it over the time */
};

struct world {
	const struct workers_simulation *s;
	struct workers_result *result;
	struct workers *workers;
	struct job *jobs;
	uint32_t job_count, site_count, left;
	struct message messages[WORKED_MESSAGES_MAX + 1];
	struct jobs *at_site;
	uint32_t *fresh, fresh_count;	/* sites with a new connection */
	bool *is_fresh;
	uint32_t routing_free;
	struct simulated_events events;
	uint64_t random;
	int64_t now_ns, shown_ns;
};

uint32_t simulated_hosts(const struct workers_simulation *s) {
	uint32_t hosts = 0;

	for (uint32_t i = 0; i < s->list_count; i++)
		hosts += s->lists[i];
	return hosts;
}

uint32_t simulated_site(const struct workers_simulation *s, uint32_t destination) {
	return destination / simulated_hosts(s) + 1;
}

uint32_t simulated_host(const struct workers_simulation *s, uint32_t destination) {
	return destination % simulated_hosts(s) + 1;
}

static bool is_broken(const struct world *w, uint32_t destination) {
	const struct workers_simulation *s = w->s;

	for (uint32_t i = 0; i < s->broken_count && w->now_ns < s->broken_until_ns; i++)
		if (s->broken[i].host == simulated_host(s, destination) &&
		    (s->broken[i].site == 0 ||
		    s->broken[i].site == simulated_site(s, destination)))
			return true;
	return false;
}

/* --- jobs that wait ------------------------------------------------------------------ */

static void wait_first(struct world *w, struct job *job) {
	TAILQ_INSERT_HEAD(&w->messages[job->own.message].waiting, job, of_message);
	TAILQ_INSERT_HEAD(&w->at_site[job->site], job, of_site);
}

static void wait_last(struct world *w, struct job *job) {
	TAILQ_INSERT_TAIL(&w->messages[job->own.message].waiting, job, of_message);
	TAILQ_INSERT_TAIL(&w->at_site[job->site], job, of_site);
}

static void wait_no_more(struct world *w, struct job *job) {
	TAILQ_REMOVE(&w->messages[job->own.message].waiting, job, of_message);
	TAILQ_REMOVE(&w->at_site[job->site], job, of_site);
}

/* --- what is shown -------------------------------------------------------------------- */

static uint32_t free_workers(const struct world *w) {
	return w->s->routing ? w->routing_free : worker_idle_count(w->workers);
}

static void row_keep(struct memory_rows *rows, const struct worked_row *row) {
	memory_rows_add(rows, row, sizeof(*row), ROWS_MAX);
}

static void show_until(struct world *w, int64_t until_ns) {
	const struct workers_simulation *s = w->s;

	for (; s->every_ns > 0 && w->shown_ns < until_ns; w->shown_ns += s->every_ns)
		for (uint32_t m = 0; m < s->message_count; m++)
			if (s->messages[m].count > 0 && s->messages[m].at_ns <= w->shown_ns)
				row_keep(&w->result->states, &(struct worked_row){ w->shown_ns, m,
					w->messages[m].concurrency, free_workers(w),
					{ .rule = WORKER_WAIT } });
}

/* The workers of a message have changed, or not. */
static void message_recount(struct world *w, uint32_t message) {
	struct message *m = &w->messages[message];
	struct worked_result *result = &w->result->messages[message];
	uint32_t busy = w->s->workers - free_workers(w);

	m->area += (double)m->concurrency * (double)(w->now_ns - m->changed_ns);
	m->changed_ns = w->now_ns;
	if (!w->s->routing)
		m->concurrency = w->workers->concurrency[message];
	if (m->concurrency > result->most)
		result->most = m->concurrency;
	if (busy > w->result->most)
		w->result->most = busy;
}

static void job_note_end(struct world *w, const struct job *job, bool deferred) {
	uint32_t message = job->own.message;
	struct worked_result *result = &w->result->messages[message];

	result->done += !deferred;
	result->deferred += deferred;
	result->last_ns = w->now_ns;
	w->messages[message].left--;
	w->left--;
	message_recount(w, message);
}

/* --- connections ----------------------------------------------------------------------- */

static void event_push(struct world *w, enum simulated_event_kind kind, uint32_t what,
    int64_t after_ns) {
	struct simulated_event event = { .at_ns = w->now_ns + after_ns, .kind = kind,
		.what = what };

	simulate_push(&w->events, &event);
}

static int64_t service_ns(struct world *w) {
	double chance = simulate_share(&w->random);

	return (int64_t)((double)w->s->service_ns * (1 + w->s->jitter * (2 * chance - 1)));
}

/* What waits for the site may ride from now on. */
static void site_refresh(struct world *w, uint32_t destination) {
	uint32_t site = simulated_site(w->s, destination) - 1;

	if (!w->is_fresh[site])
		w->fresh[w->fresh_count++] = site;
	w->is_fresh[site] = true;
}

/* The jobs of a connection that is no more wait again, before the others. */
static void connection_lost(struct world *w, uint32_t connection, int64_t retry_ns) {
	struct worker_jobs lost = TAILQ_HEAD_INITIALIZER(lost);
	struct worker_job *last;

	worker_lost(w->workers, connection, retry_ns, w->now_ns, &lost);
	while ((last = TAILQ_LAST(&lost, worker_jobs)) != NULL) {
		TAILQ_REMOVE(&lost, last, of_list);
		w->result->rescheduled++;
		wait_first(w, (struct job *)last);
		message_recount(w, last->message);
	}
}

static void connection_connected(struct world *w, uint32_t connection) {
	const struct worker_destination *d = w->workers->connections[connection].destination;

	if (is_broken(w, (uint32_t)(d - w->workers->destinations))) {
		w->result->failed++;
		connection_lost(w, connection, w->now_ns + w->s->retry_ns);
		return;
	}
	w->result->connections++;
	worker_connected(w->workers, connection);
	event_push(w, EVENT_END, connection, service_ns(w));
}

static void job_ended(struct world *w, uint32_t connection) {
	struct worker_connection *c = &w->workers->connections[connection];
	struct job *job = (struct job *)TAILQ_FIRST(&c->jobs);

	if (worker_done(w->workers, &job->own, w->now_ns)) {
		w->result->aged++;
	} else if (w->s->close_after > 0 && c->done >= w->s->close_after) {
		w->result->closed_by_remote++;
		connection_lost(w, connection, 0);
	} else if (!TAILQ_EMPTY(&c->jobs)) {
		event_push(w, EVENT_END, connection, service_ns(w));
	}
	job_note_end(w, job, false);
}

/* --- placing --------------------------------------------------------------------------- */

/* False: it waits. */
static bool job_place(struct world *w, struct job *job) {
	uint32_t message = job->own.message;
	struct worked_result *result = &w->result->messages[message];
	uint32_t hosts[WORKED_HOSTS_MAX], count = simulated_hosts(w->s);
	const struct worker_request request = { hosts, w->s->lists, w->s->list_count };
	const struct worker_connection *c;
	struct worker_place place;

	for (uint32_t i = 0; i < count; i++)
		hosts[i] = job->site * count + i;
	worker_place(w->workers, &job->own, &request, w->now_ns, simulate_random(&w->random),
	    &place);
	w->result->by_rule[place.rule]++;
	if (w->s->with_trace)
		row_keep(&w->result->decisions, &(struct worked_row){ w->now_ns, message,
			(uint32_t)(job - w->messages[message].first) + 1, 0, place });
	if (place.rule == WORKER_WAIT)
		return false;
	wait_no_more(w, job);
	if (place.rule == WORKER_DEFER) {
		job_note_end(w, job, true);
		return true;
	}
	w->result->closed_for_new += place.closed != NONE;
	if (place.opened)
		event_push(w, EVENT_CONNECT, place.connection, w->s->connect_ns);
	if (place.opened || place.rule == WORKER_IDLE)
		site_refresh(w, place.destination);
	c = &w->workers->connections[place.connection];
	/* there is none before it */
	if (c->job_count == 1 && c->made)
		event_push(w, EVENT_END, place.connection, service_ns(w));
	if (result->first_ns < 0)
		result->first_ns = w->now_ns;
	message_recount(w, message);
	return true;
}

/* May a job of it be placed that is not given a ride? */
static bool may_start(const struct world *w, uint32_t message) {
	uint32_t free = free_workers(w);

	return free > 0 && worker_allowed(&w->s->settings, message == WORKER_VERIFICATION,
	    w->messages[message].concurrency, free);
}

static void place_message(struct world *w, uint32_t message, bool all) {
	struct job *job = TAILQ_FIRST(&w->messages[message].waiting), *next;

	for (; job != NULL; job = next) {
		next = TAILQ_NEXT(job, of_message);
		if (!all && !may_start(w, message))
			return;
		(void)job_place(w, job);
	}
}

static void place_rides(struct world *w) {
	while (w->fresh_count > 0) {
		uint32_t site = w->fresh[--w->fresh_count];
		struct job *job = TAILQ_FIRST(&w->at_site[site]), *next;

		w->is_fresh[site] = false;
		for (; job != NULL; job = next) {
			next = TAILQ_NEXT(job, of_site);
			(void)job_place(w, job);
		}
	}
}

static void route_all(struct world *w) {
	uint32_t waiting[WORKED_MESSAGES_MAX + 1], concurrency[WORKED_MESSAGES_MAX + 1];

	for (;;) {
		uint32_t count = 0, chosen;
		struct job *job;

		for (uint32_t m = 0; m < w->s->message_count; m++) {
			concurrency[m] = w->messages[m].concurrency;
			if (!TAILQ_EMPTY(&w->messages[m].waiting))
				waiting[count++] = m;
		}
		chosen = worker_next_router_job(&w->s->settings, waiting, count, concurrency,
		    w->routing_free);
		if (chosen == NONE)
			return;
		job = TAILQ_FIRST(&w->messages[waiting[chosen]].waiting);
		wait_no_more(w, job);
		w->routing_free--;
		message_recount(w, waiting[chosen]);
		w->messages[waiting[chosen]].concurrency++;
		message_recount(w, waiting[chosen]);
		if (w->result->messages[waiting[chosen]].first_ns < 0)
			w->result->messages[waiting[chosen]].first_ns = w->now_ns;
		event_push(w, EVENT_END, (uint32_t)(job - w->jobs), service_ns(w));
	}
}

static void place_all(struct world *w) {
	if (w->s->routing) {
		route_all(w);
		return;
	}
	for (uint32_t m = 0; m < w->s->message_count; m++)
		place_message(w, m, false);
	place_rides(w);
}

static void message_arrive(struct world *w, uint32_t message) {
	struct message *m = &w->messages[message];

	m->here = true;
	m->changed_ns = w->now_ns;
	for (uint32_t i = 0; i < w->s->messages[message].count; i++)
		wait_last(w, m->first + i);
	if (!w->s->routing)
		place_message(w, message, true);
}

/* --- the whole --------------------------------------------------------------------------- */

/* When the next message comes: INT64_MAX if none. */
static uint32_t next_message(const struct world *w, int64_t *at_ns) {
	uint32_t next = NONE;

	*at_ns = INT64_MAX;
	for (uint32_t m = 0; m < w->s->message_count; m++)
		if (!w->messages[m].here && w->s->messages[m].at_ns < *at_ns) {
			*at_ns = w->s->messages[m].at_ns;
			next = m;
		}
	return next;
}

static void pass_time(struct world *w, int64_t to_ns) {
	show_until(w, to_ns);
	w->now_ns = to_ns;
}

static void connections_age(struct world *w) {
	while (worker_turn(w->workers, w->now_ns) != NONE)
		w->result->aged++;
}

static void routing_ended(struct world *w, const struct job *job) {
	uint32_t message = job->own.message;

	message_recount(w, message);
	w->messages[message].concurrency--;
	w->routing_free++;
	job_note_end(w, job, false);
}

/* False: nothing is to come any more. */
static bool world_step(struct world *w) {
	int64_t arrival_ns, aged_ns = w->s->routing ? INT64_MAX : worker_due_ns(w->workers);
	int64_t event_ns = w->events.count > 0 ? w->events.heap[0].at_ns : INT64_MAX;
	uint32_t message = next_message(w, &arrival_ns);
	struct simulated_event event;

	if (arrival_ns == INT64_MAX && event_ns == INT64_MAX && aged_ns == INT64_MAX)
		return false;
	if (arrival_ns <= event_ns && arrival_ns <= aged_ns) {
		pass_time(w, arrival_ns);
		message_arrive(w, message);
	} else if (aged_ns <= event_ns) {
		pass_time(w, aged_ns);
		connections_age(w);
	} else {
		event = simulate_pop(&w->events);
		pass_time(w, event.at_ns);
		if (w->s->routing)
			routing_ended(w, &w->jobs[event.what]);
		else if (event.kind == EVENT_END)
			job_ended(w, event.what);
		else
			connection_connected(w, event.what);
	}
	place_all(w);
	return true;
}

static void world_begin(struct world *w) {
	const struct workers_simulation *s = w->s;
	struct worker_sizes sizes = { .workers = s->workers, .messages = s->message_count };

	for (uint32_t m = 0; m < s->message_count; m++)
		w->job_count += s->messages[m].count;
	w->site_count = s->sites == 0 ? w->job_count : s->sites;
	w->left = w->job_count;
	w->jobs = memory_of(w->job_count, sizeof(*w->jobs));
	w->at_site = memory_of(w->site_count, sizeof(*w->at_site));
	w->fresh = memory_of(w->site_count, sizeof(*w->fresh));
	w->is_fresh = memory_of(w->site_count, sizeof(*w->is_fresh));
	sizes.destinations = w->site_count * simulated_hosts(s);
	w->workers = worker_open(&sizes, &s->settings);
}

static void lay_out_jobs(struct world *w) {
	const struct workers_simulation *s = w->s;
	uint32_t job = 0;

	for (uint32_t i = 0; i < w->site_count; i++)
		TAILQ_INIT(&w->at_site[i]);
	for (uint32_t m = 0; m < s->message_count; m++) {
		struct message *message = &w->messages[m];

		*message = (struct message){ .first = &w->jobs[job],
			.left = s->messages[m].count, .here = s->messages[m].count == 0 };
		TAILQ_INIT(&message->waiting);
		w->result->messages[m] = (struct worked_result){ .first_ns = -1,
			.jobs = s->messages[m].count, .last_ns = -1 };
		for (uint32_t i = 0; i < s->messages[m].count; i++, job++)
			w->jobs[job] = (struct job){ .own.message = m,
				.site = s->sites == 0 ? job : i % s->sites };
	}
	w->routing_free = s->workers;
}

static void sum_up_messages(struct world *w) {
	w->result->duration_ns = 0;
	for (uint32_t m = 0; m < w->s->message_count; m++) {
		struct worked_result *result = &w->result->messages[m];
		int64_t there_ns = result->last_ns - w->s->messages[m].at_ns;

		result->mean = there_ns > 0 ? w->messages[m].area / (double)there_ns : 0;
		if (result->last_ns > w->result->duration_ns)
			w->result->duration_ns = result->last_ns;
	}
	show_until(w, w->result->duration_ns + 1);
}

void simulate_workers(const struct workers_simulation *simulation,
    struct workers_result *result) {
	struct world *w = memory_of(1, sizeof(*w));

	*result = (struct workers_result){ .duration_ns = 0 };
	w->s = simulation;
	w->result = result;
	w->random = simulation->seed;
	world_begin(w);
	lay_out_jobs(w);
	while (w->left > 0 && world_step(w))
		;
	sum_up_messages(w);
	simulate_events_free(&w->events);
	free(w->jobs);
	free(w->at_site);
	free(w->fresh);
	free(w->is_fresh);
	worker_free(w->workers);
	free(w);
}
