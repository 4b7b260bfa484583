/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Laws of paces in virtual time.
 * MODEL    Messages wait for a token and for one of `concurrency' connections; those that were
 *          refused come back after a time that doubles.  The site keeps the times of as many
 *          messages as its highest limit, or counts in windows of its clock.  The law hears of a
 *          result when its delivery has ended, or later.
 * ERRORS   No memory: the program ends.
 * THREADS  One.
 */
#include "lab/simulate_pace.h"

#include <stdlib.h>

#include "base/clock.h"
#include "lab/memory.h"
#include "lab/simulate_events.h"

#define HOUR_NS	(3600 * NS_PER_SECOND)

struct world {
	const struct pace_simulation *simulation;
	struct pace_simulation_result *result;
	struct paced paced;
	struct simulated_events events;
	struct simulated_events returned;	/* at_ns: when they may be tried again */
	uint64_t random;
	int64_t now_ns;
	uint64_t fresh;		/* wait, never tried */
	uint64_t arrived;
	uint32_t in_flight;
	/* the site */
	int64_t *counted;	/* a ring of the latest times that count */
	uint32_t room;
	uint64_t count;		/* ever, or in the window that runs */
	int64_t window;		/* its number */
	int64_t penal_ns;	/* until then the limit is lower */
	/* figures */
	uint64_t delivered, refused;	/* from the start */
	int64_t shown_ns;
};

/* --- the site --------------------------------------------------------------------------- */

static uint32_t site_limit(const struct paced_site *site, int64_t now_ns) {
	uint32_t limit = 0;

	for (uint32_t i = 0; i < site->limit_count && site->limits[i].at_ns <= now_ns; i++)
		limit = site->limits[i].count;
	return limit;
}

static bool site_is_full(struct world *world, uint32_t limit) {
	const struct paced_site *site = &world->simulation->site;

	if (site->window == PACED_FIXED) {
		if (world->now_ns / site->per_ns != world->window)
			world->count = 0;
		world->window = world->now_ns / site->per_ns;
		return world->count >= limit;
	}
	return world->count >= limit &&
	    world->counted[(world->count - limit) % world->room] > world->now_ns - site->per_ns;
}

static bool site_takes(struct world *world) {
	const struct paced_site *site = &world->simulation->site;
	uint32_t limit = site_limit(site, world->now_ns);
	bool full;

	if (world->now_ns < world->penal_ns)
		limit = (uint32_t)(limit * site->penalty);
	full = limit == 0 || site_is_full(world, limit);
	if (!full || site->counts_attempts)
		world->counted[world->count++ % world->room] = world->now_ns;
	if (full)
		world->penal_ns = world->now_ns + site->forgive_ns;
	return !full;
}

/* --- the sender ------------------------------------------------------------------------- */

static void attempt_start(struct world *world, uint32_t tries) {
	const struct pace_simulation *s = world->simulation;
	double share = 1 + s->jitter * (2 * simulate_share(&world->random) - 1);
	struct simulated_event attempt = {
		.kind = EVENT_END, .start_ns = world->now_ns, .what = tries + 1,
		.accepted = site_takes(world),
	};

	world->in_flight++;
	world->delivered += attempt.accepted;
	world->refused += !attempt.accepted;
	if (world->now_ns >= s->after_ns) {
		world->result->attempts++;
		world->result->delivered += attempt.accepted;
		world->result->refused += !attempt.accepted;
	}
	attempt.at_ns = world->now_ns + (int64_t)(share *
	    (double)(attempt.accepted ? s->service_ns : s->refusal_ns));
	simulate_push(&world->events, &attempt);
}

static bool is_waiting(const struct world *world) {
	return world->fresh > 0 || simulate_is_due(&world->returned, world->now_ns);
}

/* Starts what may start; returns when the next may, if nothing happens before. */
static int64_t send_all(struct world *world) {
	while (is_waiting(world) && world->in_flight < world->simulation->concurrency) {
		int64_t wait_ns = paced_take(&world->paced, world->now_ns);
		uint32_t tries = 0;

		if (wait_ns > 0)
			return world->now_ns + wait_ns;
		if (simulate_is_due(&world->returned, world->now_ns))
			tries = simulate_pop(&world->returned).what;
		else
			world->fresh--;
		attempt_start(world, tries);
	}
	return INT64_MAX;
}

static void message_return(struct world *world, const struct simulated_event *attempt) {
	const struct pace_simulation *s = world->simulation;
	struct simulated_event back = *attempt;
	int64_t retry_ns = s->retry_ns;

	for (uint32_t i = 1; i < attempt->what && retry_ns < s->retry_most_ns; i++)
		retry_ns *= 2;
	back.at_ns = world->now_ns + (retry_ns < s->retry_most_ns ? retry_ns : s->retry_most_ns);
	simulate_push(&world->returned, &back);
}

static void report(struct world *world, const struct simulated_event *attempt) {
	if (attempt->accepted)
		paced_accepted(&world->paced, attempt->start_ns, world->now_ns);
	else
		paced_refused(&world->paced, attempt->start_ns, world->now_ns);
}

static void happen(struct world *world, struct simulated_event event) {
	const struct pace_simulation *s = world->simulation;

	if (event.kind == EVENT_ARRIVAL) {
		world->fresh++;
		world->arrived++;
		event.at_ns = (int64_t)(world->arrived + 1) * (HOUR_NS / s->arrivals);
		simulate_push(&world->events, &event);
		return;
	}
	if (event.kind == EVENT_END) {
		world->in_flight--;
		if (!event.accepted)
			message_return(world, &event);
		event.kind = EVENT_REPORT;
		event.at_ns += (int64_t)((double)s->report_ns * simulate_share(&world->random));
		if (event.at_ns > world->now_ns) {
			simulate_push(&world->events, &event);
			return;
		}
	}
	report(world, &event);
}

/* --- figures ------------------------------------------------------------------------------ */

static void show_until(struct world *world, int64_t until_ns) {
	const struct pace_simulation *s = world->simulation;

	if (s->every_ns == 0 || world->paced.law != PACED_SLOW)
		return;
	for (; world->shown_ns < until_ns; world->shown_ns += s->every_ns) {
		struct pace_view view;

		pace_look(&world->paced.pace, &s->rules.pace, world->shown_ns, &view);
		s->show(s->context, &(struct paced_state){ .at_ns = world->shown_ns,
		    .interval_ns = view.interval_ns, .proven_ns = view.proven_ns,
		    .delivered = world->delivered, .refused = world->refused });
	}
}

/* What a site of these limits takes from `from_ns' on, whatever was done to it. */
static double site_possible(const struct paced_site *site, int64_t from_ns, int64_t to_ns) {
	double sum = 0;

	for (uint32_t i = 0; i < site->limit_count; i++) {
		int64_t begin_ns = site->limits[i].at_ns > from_ns ? site->limits[i].at_ns : from_ns;
		int64_t end_ns = i + 1 < site->limit_count && site->limits[i + 1].at_ns < to_ns ?
		    site->limits[i + 1].at_ns : to_ns;

		if (end_ns > begin_ns)
			sum += (double)(end_ns - begin_ns) / (double)site->per_ns * site->limits[i].count;
	}
	return sum;
}

static void world_begin(struct world *world) {
	const struct pace_simulation *s = world->simulation;

	for (uint32_t i = 0; i < s->site.limit_count; i++)
		if (s->site.limits[i].count > world->room)
			world->room = s->site.limits[i].count;
	world->room += world->room == 0;
	world->counted = memory_of(world->room, sizeof(*world->counted));
	world->random = s->seed;
	world->fresh = s->messages;
	if (s->arrivals > 0)
		simulate_push(&world->events, &(struct simulated_event){ .kind = EVENT_ARRIVAL,
		    .at_ns = HOUR_NS / s->arrivals });
}

/* The next time at which something is to be done. */
static int64_t next_time(const struct world *world, int64_t send_ns) {
	int64_t next_ns = send_ns;

	if (world->events.count > 0 && world->events.heap[0].at_ns < next_ns)
		next_ns = world->events.heap[0].at_ns;
	if (!is_waiting(world) && world->returned.count > 0 &&
	    world->returned.heap[0].at_ns < next_ns)
		next_ns = world->returned.heap[0].at_ns;
	return next_ns;
}

/* How many there were to deliver after after_ns. */
static void measure(struct world *world) {
	const struct pace_simulation *s = world->simulation;
	struct pace_simulation_result *result = world->result;
	double supply = (double)(s->messages + world->arrived) -
	    (double)(world->delivered - result->delivered);

	result->early_refused = world->refused - result->refused;
	result->possible = site_possible(&s->site, s->after_ns, world->now_ns);
	if (result->possible > supply)
		result->possible = supply;
}

void simulate_pace(const struct pace_simulation *simulation, enum paced_law law,
    struct pace_simulation_result *result) {
	struct world world = { .simulation = simulation, .result = result,
		.paced = { .rules = &simulation->rules, .law = law } };

	*result = (struct pace_simulation_result){ 0 };
	world_begin(&world);
	for (;;) {
		int64_t next_ns = next_time(&world, send_all(&world));

		if (next_ns > simulation->for_ns)
			break;
		show_until(&world, next_ns);
		world.now_ns = next_ns;
		while (simulate_is_due(&world.events, world.now_ns))
			happen(&world, simulate_pop(&world.events));
	}
	if (world.fresh + world.returned.count + world.in_flight > 0)
		world.now_ns = simulation->for_ns;
	show_until(&world, world.now_ns);
	result->duration_ns = world.now_ns;
	measure(&world);
	simulate_events_free(&world.events);
	simulate_events_free(&world.returned);
	free(world.counted);
}
