/* SPDX-License-Identifier: ISC */
#include "tests/sim/laws/site.h"

#include <stdlib.h>

#include "lab/memory.h"
#include "lab/simulate_events.h"

#define SERVICE_NS	(2 * LAW_SECOND)
#define REFUSAL_NS	(100 * LAW_MS)
#define HANG_NS		(30 * LAW_SECOND)
#define CHANGE_NS	(200 * LAW_SECOND)
#define RETRY_LEAST_NS	(300 * LAW_SECOND)
#define RETRY_MOST_NS	(4000 * LAW_SECOND)
#define BACKLOG		3000
#define STREAM_NS	(5400 * LAW_SECOND)
#define STREAM_LOAD	0.7
#define END_NS		(200000 * LAW_SECOND)
#define SERVERS		4	/* the last one is bad */
#define LARGE_SHARE	0.02
#define LARGE_TIMES	10
#define PERMANENT_SHARE	0.0811
#define TEMPORARY_SHARE	0.0482

const struct site sites[] = {
	{ .name = "refuses at 5", .limit = 5 },
	{ .name = "5, then 20", .limit = 5, .later_limit = 20 },
	{ .name = "20, then 3", .limit = 20, .later_limit = 3 },
	{ .name = "25 % noise", .limit = 5, .noise = 0.25 },
	{ .name = "1 bad server of 4", .limit = 10, .server_limit = 5 },
	{ .name = "queues above 5", .limit = 5, .mode = SITE_QUEUES },
	{ .name = "tarpit above 5", .limit = 5, .mode = SITE_TARPITS },
	{ .name = "hangs above 5", .limit = 5, .mode = SITE_HANGS },
	{ .name = "heard 10 s late", .limit = 5, .report_ns = 10 * LAW_SECOND },
	{ .name = "mixed traffic", .limit = 10, .mixed = true },
};
const unsigned site_count = sizeof(sites) / sizeof(sites[0]);

struct mail {
	int64_t arrived_ns;
	bool tried;
};

struct world {
	const struct site *site;
	const struct law *law;
	void *state;
	struct simulated_events events;
	struct simulated_events waiting;	/* mail to go, by arrival or return */
	struct simulated_events queue;	/* at the site */
	struct mail *mails;
	double *delays_s;
	uint32_t count, done;
	uint32_t untried;		/* of those that have arrived */
	uint32_t refused;		/* first attempts */
	uint32_t in_flight, canaries;
	uint32_t connected, served;	/* at the site */
	uint32_t at_server[SERVERS];
	double used, room;		/* seconds of places, while first attempts waited */
	int64_t now_ns, drained_ns;
	uint64_t random;
};

static uint32_t site_limit(const struct world *world) {
	const struct site *site = world->site;

	return site->later_limit != 0 && world->now_ns >= CHANGE_NS ? site->later_limit :
	    site->limit;
}

/* --- the site ------------------------------------------------------------------------- */

static double random_exponential(struct world *world) {
	double share = simulate_share(&world->random), sum = 0, term;

	/* -ln(1 - share), by halves: no libm, so that it is the same everywhere. */
	for (share = 1 - share; share < 0.5; share *= 2)
		sum += 0.69314718055994530942;
	term = 1 - share;
	for (double power = term, n = 1; n < 60; n++, power *= term)
		sum += power / n;
	return sum;
}

static void serve(struct world *world, struct simulated_event *attempt) {
	double share = 0.5 + 0.5 * random_exponential(world);

	if (world->site->mixed && simulate_share(&world->random) < LARGE_SHARE)
		share *= LARGE_TIMES;
	world->served++;
	attempt->served = true;
	attempt->at_ns = world->now_ns + (int64_t)(SERVICE_NS * share);
	if (world->site->mode == SITE_TARPITS && attempt->level > site_limit(world))
		attempt->at_ns += HANG_NS;
	simulate_push(&world->events, attempt);
}

/* Refused whatever the level: by chance, or by the server that it met (opened_ns has which). */
static bool is_bad_luck(struct world *world, struct simulated_event *attempt) {
	const struct site *site = world->site;
	uint32_t server;

	if (site->server_limit == 0)
		return site->noise > 0 && simulate_share(&world->random) < site->noise;
	server = (uint32_t)(simulate_share(&world->random) * SERVERS);
	attempt->opened_ns = server;
	return server == SERVERS - 1 || world->at_server[server] >= site->server_limit;
}

static bool is_full(const struct world *world) {
	return world->site->server_limit == 0 && world->connected >= site_limit(world);
}

static void arrive_at_site(struct world *world, struct simulated_event *attempt) {
	enum site_mode mode = world->site->mode;
	bool bad = is_bad_luck(world, attempt);

	attempt->level = world->connected + 1;
	if (bad || (is_full(world) && (mode == SITE_REFUSES || mode == SITE_HANGS))) {
		attempt->at_ns = world->now_ns + (bad || mode == SITE_REFUSES ? REFUSAL_NS : HANG_NS);
		simulate_push(&world->events, attempt);
		return;
	}
	attempt->accepted = true;
	world->connected++;
	world->at_server[attempt->opened_ns]++;
	if (mode == SITE_QUEUES && world->served >= site_limit(world))
		simulate_push(&world->queue, attempt);
	else
		serve(world, attempt);
}

static void leave_site(struct world *world, const struct simulated_event *attempt) {
	if (!attempt->accepted)
		return;
	world->connected--;
	world->served--;
	world->at_server[attempt->opened_ns]--;
	while (world->queue.count > 0 && world->served < site_limit(world)) {
		struct simulated_event next = simulate_pop(&world->queue);

		serve(world, &next);
	}
}

/* --- the client ----------------------------------------------------------------------- */

static uint32_t window_of(const struct world *world) {
	return world->law == NULL ? site_limit(world) :
	    world->law->window(world->state, world->now_ns);
}

static void start(struct world *world, bool canary) {
	struct simulated_event attempt = simulate_pop(&world->waiting);
	struct mail *mail = &world->mails[attempt.what];

	attempt.kind = EVENT_END;
	attempt.start_ns = world->now_ns;
	attempt.canary = canary;
	attempt.accepted = attempt.served = false;
	world->untried -= !mail->tried;
	world->in_flight++;
	world->canaries += canary;
	arrive_at_site(world, &attempt);
}

static void start_all(struct world *world) {
	while (world->waiting.count > 0 && world->in_flight - world->canaries < window_of(world))
		start(world, false);
	if (world->waiting.count > 0 && world->canaries == 0 && world->law != NULL &&
	    world->law->canary != NULL && world->law->canary(world->state, world->now_ns))
		start(world, true);
}

static enum result_class class_of(struct world *world, const struct simulated_event *attempt) {
	double share;

	if (!attempt->accepted)
		return RESULT_SITE_FAILURE;
	if (!world->site->mixed)
		return RESULT_OK;
	share = simulate_share(&world->random);
	return share < PERMANENT_SHARE ? RESULT_PERMANENT :
	    share < PERMANENT_SHARE + TEMPORARY_SHARE ? RESULT_RCPT_TEMPORARY : RESULT_OK;
}

static void hear(struct world *world, const struct simulated_event *attempt) {
	struct law_result result = {
		.start_ns = attempt->start_ns,
		.end_ns = attempt->end_ns,
		.level = attempt->level,
		.in_flight = world->in_flight,
		.class = class_of(world, attempt),
		.answered = attempt->accepted || world->site->mode != SITE_HANGS,
		.canary = attempt->canary,
	};

	if (world->law != NULL)
		world->law->hear(world->state, &result, world->now_ns);
}

/* It was taken, or waits for its next attempt. */
static void settle(struct world *world, const struct simulated_event *attempt) {
	struct mail *mail = &world->mails[attempt->what];
	struct simulated_event again = { .kind = EVENT_RETURN, .what = attempt->what };
	int64_t age_ns = world->now_ns - mail->arrived_ns;

	if (!mail->tried)
		world->refused += !attempt->accepted;
	mail->tried = true;
	if (attempt->accepted) {
		world->delays_s[world->done++] = (double)age_ns / 1e9;
		if (world->done == world->count - world->count / 100)
			world->drained_ns = world->now_ns;
		return;
	}
	again.at_ns = world->now_ns + (age_ns < RETRY_LEAST_NS ? RETRY_LEAST_NS :
	    age_ns > RETRY_MOST_NS ? RETRY_MOST_NS : age_ns);
	simulate_push(&world->events, &again);
}

static void end(struct world *world, struct simulated_event *attempt) {
	attempt->end_ns = world->now_ns;
	world->in_flight--;
	world->canaries -= attempt->canary;
	leave_site(world, attempt);
	settle(world, attempt);
	if (world->site->report_ns == 0) {
		hear(world, attempt);
		return;
	}
	attempt->kind = EVENT_REPORT;
	attempt->at_ns = world->now_ns +
	    (int64_t)((double)world->site->report_ns * simulate_share(&world->random));
	simulate_push(&world->events, attempt);
}

static void handle(struct world *world, struct simulated_event *event) {
	if (event->kind == EVENT_END) {
		end(world, event);
	} else if (event->kind == EVENT_REPORT) {
		hear(world, event);
	} else {
		world->untried += event->kind == EVENT_ARRIVAL;
		simulate_push(&world->waiting, event);
	}
}

/* --- a run ---------------------------------------------------------------------------- */

static void clock_set(struct world *world, int64_t at_ns) {
	if (world->untried > 0 && at_ns > world->now_ns) {
		double seconds = (double)(at_ns - world->now_ns) / 1e9;
		uint32_t limit = site_limit(world);

		world->room += limit * seconds;
		world->used += (world->served < limit ? world->served : limit) * seconds;
	}
	world->now_ns = at_ns;
}

/* False: nothing will ever happen. */
static bool step(struct world *world) {
	int64_t due_ns = world->law != NULL && world->law->due_ns != NULL && world->waiting.count > 0 ?
	    world->law->due_ns(world->state) : INT64_MAX;

	if (world->site->later_limit != 0 && world->now_ns < CHANGE_NS && due_ns > CHANGE_NS)
		due_ns = CHANGE_NS;
	if (due_ns <= world->now_ns)
		due_ns = world->now_ns + LAW_MS;
	if (world->events.count > 0 && world->events.heap[0].at_ns <= due_ns) {
		struct simulated_event event = simulate_pop(&world->events);

		clock_set(world, event.at_ns);
		handle(world, &event);
	} else if (due_ns == INT64_MAX) {
		return false;
	} else {
		clock_set(world, due_ns);
	}
	if (world->law != NULL && world->law->turn != NULL)
		world->law->turn(world->state, world->in_flight, world->now_ns);
	start_all(world);
	return true;
}

static uint32_t least_limit(const struct site *site) {
	return site->later_limit != 0 && site->later_limit < site->limit ? site->later_limit :
	    site->limit;
}

static void mails_arrive(struct world *world, bool is_stream) {
	double gap_ns = SERVICE_NS / STREAM_LOAD / least_limit(world->site);
	struct simulated_event event = { .kind = EVENT_ARRIVAL };

	world->count = is_stream ? (uint32_t)(STREAM_NS / gap_ns) : BACKLOG;
	world->mails = memory_of(world->count, sizeof(*world->mails));
	world->delays_s = memory_of(world->count, sizeof(*world->delays_s));
	for (uint32_t i = 0; i < world->count; i++) {
		event.what = i;
		world->mails[i].arrived_ns = event.at_ns;
		simulate_push(&world->events, &event);
		if (is_stream)
			event.at_ns += (int64_t)(gap_ns * random_exponential(world));
	}
}

static int compare_delays(const void *a, const void *b) {
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static bool run(struct world *world, bool is_stream, struct site_result *out) {
	bool ok = true;

	if (world->law != NULL) {
		world->state = memory_of(1, world->law->bytes);
		world->law->begin(world->state);
	}
	mails_arrive(world, is_stream);
	while (ok && world->done < world->count && world->now_ns < END_NS)
		ok = step(world);
	ok = ok && world->done == world->count;
	if (ok && is_stream) {
		qsort(world->delays_s, world->count, sizeof(double), compare_delays);
		out->delay_s = world->delays_s[world->count - world->count / 100];
	} else if (ok) {
		out->refused = (double)world->refused / world->count;
		out->drain_s = (double)world->drained_ns / 1e9;
		out->used = world->used / world->room;
	}
	simulate_events_free(&world->events);
	simulate_events_free(&world->waiting);
	simulate_events_free(&world->queue);
	free(world->mails);
	free(world->delays_s);
	free(world->state);
	return ok;
}

bool site_run(const struct site *site, const struct law *law, uint64_t seed,
    struct site_result *out) {
	struct world backlog = { .site = site, .law = law, .random = seed };
	struct world stream = { .site = site, .law = law, .random = seed };

	return run(&backlog, false, out) && run(&stream, true, out);
}
