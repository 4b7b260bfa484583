/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The laws of windows in virtual time.
 * MODEL    The client starts deliveries while fewer than the window are under way, and
 *          a canary above it where the law wants one; it knows at once when one has
 *          ended (as the mail server does), while the law hears of it by a report,
 *          perhaps later; and it may go by what the window was for a while, or, until
 *          anything is known, by a window that nobody learned.  The server
 *          takes `limit' deliveries at once; above that it refuses, or, where it times
 *          out, keeps one and a half times as many waiting for their turn (as a listen
 *          queue does) and leaves the rest hanging, or, as a tarpit, takes longer.  With a cache, a connection whose
 *          delivery was taken keeps its place at the server for the next delivery.
 * ERRORS   No memory: the program ends.
 * THREADS  One.
 */
#include <stdlib.h>

#include "lab/simulate.h"
#include "lab/simulate_events.h"
#include "policy/window/level.h"

#define MS			INT64_C(1000000)
#define SECOND			(1000 * MS)
#define CONNECT_TIMEOUT_NS	(30 * SECOND)
#define TARPIT_NS		(30 * SECOND)
#define GREETING_TIMEOUT_NS	(300 * SECOND)
#define CANARY_GIVE_UP_NS	(600 * SECOND)
#define REUSE_NS		(300 * SECOND)	/* smtp_connection_reuse_time_limit */
#define LEVEL_ENTRIES		65536
#define OLD_WINDOWS		32
#define STATES_MAX		1000000u

/* What the window was, as long as it is obeyed still: the widest first, and the first to
 * end. */
struct old_window {
	uint32_t window;
	int64_t until_ns;
};

struct world {
	const struct simulation *simulation;
	struct simulation_result *result;
	struct window window;
	struct old_window old[OLD_WINDOWS];
	uint32_t old_count;
	uint32_t obeyed;	/* the window when somebody looked last */
	bool has_report;
	struct simulated_events events;
	struct level level;
	int64_t now_ns;
	uint32_t ceilings_set;	/* so far */
	uint64_t random;
	uint64_t waiting;	/* deliveries not started */
	uint64_t coming;	/* and those to come yet */
	uint64_t done;
	uint32_t in_flight;	/* attempts, as the client sees them */
	uint32_t canaries;	/* of them */
	uint32_t served;	/* that the server works on */
	uint32_t accepted;	/* served, or in the server's queue */
	double sum, squares;
	int64_t shown_ns;
	struct simulated_events queue;	/* at the server; at_ns: when they give up */
	struct simulated_events idle;	/* cached connections; at_ns: when they are closed */
};

/* Exponentially distributed, of mean 1, by comparisons alone (von Neumann). */
static double random_gap(struct world *world) {
	for (double whole = 0;; whole++) {
		double first = simulate_share(&world->random), least = first, next;
		bool odd = true;

		while ((next = simulate_share(&world->random)) < least) {
			least = next;
			odd = !odd;
		}
		if (odd)
			return whole + first;
	}
}

static uint32_t server_limit(const struct world *world) {
	const struct simulation *s = world->simulation;
	uint32_t limit = 0;

	for (uint32_t i = 0; i < s->limits.count && s->limits.list[i].at_ns <= world->now_ns; i++)
		limit = s->limits.list[i].count;
	return limit;
}

/* --- the server -------------------------------------------------------------------- */

static void server_serve(struct world *world, struct simulated_event *attempt) {
	const struct simulation *s = world->simulation;
	double share = 1 + s->jitter * (2 * simulate_share(&world->random) - 1);

	world->served++;
	attempt->served = true;
	attempt->at_ns = world->now_ns + (int64_t)((double)s->service_ns * share);
	if (s->mode == SERVER_TARPIT && attempt->level > server_limit(world))
		attempt->at_ns += TARPIT_NS;
	simulate_push(&world->events, attempt);
}

/* Those that waited for their turn at the server. */
static void serve_queue(struct world *world) {
	while (world->queue.count > 0 && world->served < server_limit(world)) {
		struct simulated_event next = simulate_pop(&world->queue);

		server_serve(world, &next);
	}
}

/* An idle connection goes on with this delivery. */
static void connection_reuse(struct world *world, struct simulated_event *attempt) {
	attempt->opened_ns = simulate_pop(&world->idle).opened_ns;
	attempt->level = world->accepted;
	attempt->accepted = true;
	world->served--;
	server_serve(world, attempt);
}

/* What has been idle for too long; what has waited for its turn for too long. */
static void close_late(struct world *world) {
	for (; simulate_is_due(&world->idle, world->now_ns); world->accepted--, world->served--)
		(void)simulate_pop(&world->idle);
	for (; simulate_is_due(&world->queue, world->now_ns); world->accepted--) {
		struct simulated_event attempt = simulate_pop(&world->queue);

		attempt.accepted = false;
		simulate_push(&world->events, &attempt);
	}
	serve_queue(world);
}

static bool is_bad_luck(struct world *world) {
	const struct simulation *s = world->simulation;
	bool noise = s->noise > 0 && simulate_share(&world->random) < s->noise;
	bool bad = s->bad_of > 0 && simulate_share(&world->random) * s->bad_of < 1;

	return noise || bad;
}

/* An attempt arrives; its end is an event from now on, or waits in the queue. */
static void attempt_arrive(struct world *world, struct simulated_event *attempt) {
	const struct simulation *s = world->simulation;
	uint32_t limit = server_limit(world), queue = limit / 2 + limit;
	bool bad = is_bad_luck(world);

	if (!bad && world->idle.count > 0) {
		connection_reuse(world, attempt);
		return;
	}
	attempt->opened_ns = world->now_ns;
	attempt->level = world->accepted + 1;
	attempt->accepted = !bad &&
	    (s->mode == SERVER_TARPIT || world->served < limit || (s->mode != SERVER_REFUSES && world->queue.count < queue));
	world->accepted += attempt->accepted;
	attempt->at_ns = world->now_ns + (attempt->accepted ? GREETING_TIMEOUT_NS :
	    bad || s->mode == SERVER_REFUSES ? s->refusal_ns :
	    s->mode == SERVER_CONNECT_TIMEOUT ? CONNECT_TIMEOUT_NS : GREETING_TIMEOUT_NS);
	if (!attempt->accepted)
		simulate_push(&world->events, attempt);
	else if (s->mode == SERVER_TARPIT || world->served < limit)
		server_serve(world, attempt);
	else
		simulate_push(&world->queue, attempt);
}

/* --- the client -------------------------------------------------------------------- */

static void show_until(struct world *world, int64_t until_ns) {
	const struct simulation *s = world->simulation;

	for (; s->every_ns > 0 && world->shown_ns < until_ns; world->shown_ns += s->every_ns) {
		struct simulated_state state = {
			.at_ns = world->shown_ns,
			.state = (enum window_state)world->window.state,
			.window = window_now(&world->window, &s->window, world->shown_ns),
			.ceiling = world->window.ceiling,
			.in_flight = world->in_flight,
			.done = world->done,
			.deferred = world->result->deferred,
		};

		memory_rows_add(&world->result->states, &state, sizeof(state), STATES_MAX);
	}
}

static void attempt_start(struct world *world, bool canary) {
	struct simulated_event attempt = {
		.kind = EVENT_END, .start_ns = world->now_ns, .canary = canary
	};

	world->waiting--;
	world->in_flight++;
	world->canaries += canary;
	world->result->canaries += canary;
	if (world->in_flight > world->result->most)
		world->result->most = world->in_flight;
	world->sum += world->in_flight;
	world->squares += (double)world->in_flight * world->in_flight;
	attempt_arrive(world, &attempt);
}

static void keep_window(struct world *world, uint32_t window) {
	while (world->old_count > 0 && world->old[world->old_count - 1].window <= window)
		world->old_count--;
	if (world->old_count == OLD_WINDOWS)
		world->old_count--;
	world->old[world->old_count++] = (struct old_window){ window,
		world->now_ns + world->simulation->obey_ns };
}

static void forget_windows(struct world *world) {
	uint32_t over = 0;

	while (over < world->old_count && world->old[over].until_ns <= world->now_ns)
		over++;
	for (uint32_t i = over; i < world->old_count; i++)
		world->old[i - over] = world->old[i];
	world->old_count -= over;
}

/* The window of the first deliveries is left as one that has fallen is. */
static void leave_first_window(struct world *world) {
	world->has_report = true;
	if (world->old_count > 0 && world->old[0].until_ns == INT64_MAX)
		world->old[0].until_ns = world->now_ns + world->simulation->obey_ns;
}

/* The window that the client goes by. */
static uint32_t obeyed_window(struct world *world) {
	uint32_t window = window_now(&world->window, &world->simulation->window,
	    world->now_ns);

	if (window < world->obeyed)
		keep_window(world, world->obeyed);
	world->obeyed = window;
	forget_windows(world);
	return world->old_count > 0 && world->old[0].window > window ?
	    world->old[0].window : window;
}

static bool is_full(struct world *world) {
	uint32_t window = obeyed_window(world);

	return window == 0 || world->in_flight - world->canaries >= window;
}

/* The same with no delivery that began by a wider window. */
static bool is_drained(struct world *world) {
	return obeyed_window(world) == world->obeyed;
}

static void start_all(struct world *world) {
	const struct window_settings *settings = &world->simulation->window;

	while (world->waiting > 0 && !is_full(world))
		attempt_start(world, false);
	if (world->waiting > 0 && world->canaries == 0 && is_drained(world) &&
	    window_canary_due(&world->window, settings, world->now_ns)) {
		window_canary_issued(&world->window, settings,
		    world->now_ns + CANARY_GIVE_UP_NS);
		attempt_start(world, true);
	}
}

/* When the law itself has something to do: INT64_MAX if nothing. */
static int64_t law_due_ns(const struct world *world) {
	const struct window *window = &world->window;
	const struct simulation *simulation = world->simulation;
	const struct window_settings *settings = &simulation->window;
	int64_t due_ns = INT64_MAX;

	if (window->state == WINDOW_DEAD || window->state == WINDOW_HELD)
		due_ns = window->until_ns;
	else if (world->waiting > 0 && world->canaries == 0 &&
	    window_canary_due(window, settings, INT64_MAX) &&
	    (window->canary_ns > world->now_ns || simulation->obey_ns == 0))
		due_ns = window->canary_ns;
	if (world->ceilings_set < simulation->ceilings.count &&
	    simulation->ceilings.list[world->ceilings_set].at_ns < due_ns)
		due_ns = simulation->ceilings.list[world->ceilings_set].at_ns;
	if (world->simulation->levels == LEVELS_LOG &&
	    level_due_ns(&world->level) < due_ns)
		due_ns = level_due_ns(&world->level);
	if (simulate_is_due(&world->idle, due_ns))
		due_ns = world->idle.heap[0].at_ns;
	if (simulate_is_due(&world->queue, due_ns))
		due_ns = world->queue.heap[0].at_ns;
	return due_ns > world->now_ns ? due_ns : world->now_ns;
}

/* --- the law ----------------------------------------------------------------------- */

static enum result_class class_of(bool accepted) {
	return accepted ? RESULT_OK : RESULT_SITE_FAILURE;
}

/* What took so long, in Postfix's two digits. */
static int64_t rounded_ns(int64_t duration_ns) {
	int64_t unit_ms = 2 * level_slack(duration_ns / MS) / MS;

	return (duration_ns / MS + unit_ms / 2) / unit_ms * unit_ms * MS;
}

static void read_log(struct world *world, const struct simulated_event *report) {
	int64_t duration_ns = rounded_ns(report->end_ns - report->start_ns);
	struct level_attempt attempt = {
		.start_ns = report->end_ns - duration_ns,
		.end_ns = report->end_ns,
		.slack_ns = level_slack(duration_ns / MS),
		.tag = report->canary,
		.accepted = report->accepted,
	};

	(void)level_add(&world->level, &attempt, world->now_ns);
}

static void report_levels(struct world *world) {
	const struct window_settings *settings = &world->simulation->window;
	struct level_verdict verdict;
	struct window_change change;

	while (level_next(&world->level, world->now_ns, &verdict)) {
		if (verdict.tag)
			continue;
		window_late_level(&world->window, settings, class_of(verdict.accepted),
		    level_heard(&verdict, world->window.ceiling), world->now_ns, &change);
		window_took(&world->window, settings, &verdict, world->now_ns, &change);
	}
}

/* Deliveries in flight, as whoever learns knows them: from a log those that took a place,
 * some time ago. */
static uint32_t count_running(const struct world *world) {
	const struct level *level = &world->level;

	if (world->simulation->levels == LEVELS_KNOWN)
		return world->in_flight;
	if (world->simulation->levels == LEVELS_NONE)
		return world->accepted;
	return level_in_flight(level, level_known_ns(level, world->now_ns));
}

static void result_report(struct world *world, const struct simulated_event *event) {
	const struct simulation *s = world->simulation;
	struct window_change change;
	struct window_result result = {
		.class = class_of(event->accepted),
		.level = s->levels == LEVELS_KNOWN ? event->level : 0,
		.in_flight = count_running(world),
		.start_ns = event->start_ns,
		.took_ns = event->end_ns - event->start_ns,
		.canary = event->canary,
	};

	if (!world->has_report)
		leave_first_window(world);
	window_result(&world->window, &s->window, &result, world->now_ns, &change);
	world->result->deaths += change.died;
	if (s->levels == LEVELS_LOG)
		read_log(world, event);
}

/* The place at the server is free again, unless the connection is kept. */
static void attempt_leave(struct world *world, struct simulated_event *event) {
	int64_t cache_ns = world->simulation->cache_ns;

	if (event->accepted && cache_ns > 0 && world->now_ns - event->opened_ns < REUSE_NS) {
		event->at_ns = world->now_ns + cache_ns;
		simulate_push(&world->idle, event);
		return;
	}
	world->served -= event->served;
	world->accepted -= event->accepted;
	serve_queue(world);
}

static void attempt_end(struct world *world, struct simulated_event *event) {
	const struct simulation *s = world->simulation;

	event->end_ns = world->now_ns;
	world->in_flight--;
	world->canaries -= event->canary;
	world->done++;
	world->result->deferred += !event->accepted;
	world->result->duration_ns = world->now_ns;
	attempt_leave(world, event);
	if (s->report_ns == 0 && s->report_every_ns == 0) {
		result_report(world, event);
		return;
	}
	event->kind = EVENT_REPORT;
	event->at_ns = world->now_ns + (int64_t)((double)s->report_ns * simulate_share(&world->random));
	if (s->report_every_ns > 0)
		event->at_ns += s->report_every_ns - event->at_ns % s->report_every_ns;
	simulate_push(&world->events, event);
}

/* The next one, while there are any. */
static void await_arrival(struct world *world) {
	double gap_ns = random_gap(world) * (double)SECOND / world->simulation->arrivals;
	struct simulated_event arrival = { .kind = EVENT_ARRIVAL,
		.at_ns = world->now_ns + (int64_t)gap_ns };

	if (world->coming > 0)
		simulate_push(&world->events, &arrival);
}

static void delivery_arrive(struct world *world) {
	world->coming--;
	world->waiting++;
	await_arrival(world);
}

static void set_due_ceilings(struct world *world) {
	const struct simulated_changes *ceilings = &world->simulation->ceilings;

	for (; world->ceilings_set < ceilings->count &&
	     ceilings->list[world->ceilings_set].at_ns <= world->now_ns; world->ceilings_set++)
		window_set_ceiling(&world->window, &world->simulation->window,
		    ceilings->list[world->ceilings_set].count, world->now_ns);
}

static void world_step(struct world *world) {
	const struct simulation *s = world->simulation;
	int64_t due_ns = law_due_ns(world);
	struct simulated_event event;
	struct window_change change;

	if (simulate_is_due(&world->events, due_ns)) {
		event = simulate_pop(&world->events);
		show_until(world, event.at_ns);
		world->now_ns = event.at_ns;
		if (event.kind == EVENT_END)
			attempt_end(world, &event);
		else if (event.kind == EVENT_ARRIVAL)
			delivery_arrive(world);
		else
			result_report(world, &event);
	} else {
		show_until(world, due_ns);
		world->now_ns = due_ns;
	}
	close_late(world);
	if (s->levels == LEVELS_LOG)
		report_levels(world);
	set_due_ceilings(world);
	window_turn(&world->window, &s->window, world->in_flight, world->now_ns, &change);
	start_all(world);
}

static double square_root(double x) {
	double root = x > 1 ? x : 1;

	for (int i = 0; i < 64; i++)
		root = (root + x / root) / 2;
	return x > 0 ? root : 0;
}

static void sum_up_result(struct world *world) {
	const struct simulation *s = world->simulation;
	double count = (double)s->deliveries, mean = world->sum / count;

	world->result->mean = mean;
	world->result->deviation = square_root(world->squares / count - mean * mean);
	world->result->window = window_now(&world->window, &s->window, world->now_ns);
	world->result->ceiling = world->window.ceiling;
	show_until(world, world->result->duration_ns + 1);
}

void simulate_window(const struct simulation *simulation,
    struct simulation_result *result) {
	struct world world = { .simulation = simulation, .result = result,
		.random = simulation->seed };
	struct level_entry *entries = memory_of(LEVEL_ENTRIES, sizeof(*entries));

	*result = (struct simulation_result){ .deferred = 0 };
	window_begin(&world.window, &simulation->window);
	level_begin(&world.level, entries, LEVEL_ENTRIES);
	set_due_ceilings(&world);
	if (simulation->first_window > 0)
		world.old[world.old_count++] = (struct old_window){ simulation->first_window,
			INT64_MAX };
	if (simulation->arrivals > 0) {
		world.coming = simulation->deliveries;
		await_arrival(&world);
	} else {
		world.waiting = simulation->deliveries;
	}
	start_all(&world);
	while (world.done < simulation->deliveries)
		world_step(&world);
	sum_up_result(&world);
	simulate_events_free(&world.events);
	simulate_events_free(&world.queue);
	simulate_events_free(&world.idle);
	free(entries);
}
