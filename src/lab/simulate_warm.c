/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Warm-up of a source address in virtual time.
 * MODEL    A receiver takes as many messages a day as it tolerates, and throttles the rest.  The
 *          day after it tolerates a share more than what it took, if that is more than before;
 *          and less by what was throttled.  Without messages, half is forgotten in 30 days.
 * ERRORS   None.
 * THREADS  One.
 */
#include "lab/simulate_warm.h"

#include "lab/simulate_events.h"

#define FORGOTTEN	0.977160	/* of a day without messages: 0.5 in 30 days */
#define LEAST		10		/* that any receiver takes */
#define FULL		0.98		/* of the last number */

struct world {
	const struct warm_simulation *simulation;
	enum warmed_by by;
	struct warm warm;
	uint64_t random;
	double tolerance;
	uint32_t calendar;	/* days with messages */
};

static uint32_t demand_of(const struct warm_simulation *s, uint32_t day) {
	bool paused = s->pause > 0 && day >= s->pause_after && day < s->pause_after + s->pause;

	return paused ? 0 : day % 7 < 5 ? s->demand : (uint32_t)(s->demand * s->weekend);
}

/* May one more go? */
static bool may_send(struct world *world, uint32_t sent, int64_t now_ns) {
	const struct warm_settings *settings = &world->simulation->warm;
	uint32_t step = world->calendar < settings->steps ? world->calendar : settings->steps - 1;

	if (world->by == WARMED_BY_RESULTS)
		return warm_take(&world->warm, settings, now_ns) == 0;
	return sent < settings->plan[step];
}

static void send_day(struct world *world, struct warmed_day *day) {
	const struct warm_simulation *s = world->simulation;
	uint32_t demand = demand_of(s, day->day), accepted = 0;
	struct warm_view view;

	for (uint32_t i = 0; i < demand; i++) {
		int64_t now_ns = day->day * WARM_DAY_NS + i * (WARM_DAY_NS / demand);

		if (!may_send(world, day->sent, now_ns))
			break;
		day->sent++;
		if (accepted < day->tolerance)
			accepted++;
		if (world->by == WARMED_BY_RESULTS)
			warm_result(&world->warm, &s->warm, accepted + day->throttled < day->sent, now_ns,
			    now_ns);
		day->throttled = day->sent - accepted;
	}
	world->calendar += day->sent > 0;
	warm_look(&world->warm, &s->warm, (day->day + 1) * WARM_DAY_NS - 1, &view);
	day->number = view.number;
	day->verdict = view.verdict;
}

/* What the receiver thinks the day after. */
static void receiver_learn(struct world *world, const struct warmed_day *day) {
	const struct warm_simulation *s = world->simulation;
	double accepted = day->sent - day->throttled;
	double taken = accepted < world->tolerance ? accepted : world->tolerance;

	if (day->sent == 0) {
		world->tolerance *= FORGOTTEN;
	} else {
		if (taken * (1 + s->growth) > world->tolerance)
			world->tolerance = taken * (1 + s->growth);
		world->tolerance *= 1 - s->harm * day->throttled / day->sent;
	}
	if (world->tolerance < LEAST)
		world->tolerance = LEAST;
}

void simulate_warm(const struct warm_simulation *simulation, enum warmed_by by,
    struct warm_simulation_result *result) {
	struct world world = { .simulation = simulation, .by = by, .random = simulation->seed,
		.tolerance = simulation->tolerance };
	double last = simulation->warm.plan[simulation->warm.steps - 1];

	*result = (struct warm_simulation_result){ .days = 0 };
	while (result->days < simulation->days && !result->reached) {
		double share = 1 + simulation->jitter * (2 * simulate_share(&world.random) - 1);
		struct warmed_day day = { .day = result->days++,
			.tolerance = (uint32_t)(world.tolerance * share) };

		send_day(&world, &day);
		receiver_learn(&world, &day);
		if (by == WARMED_BY_RESULTS)
			simulation->show(simulation->context, &day);
		result->sent += day.sent;
		result->throttled += day.throttled;
		result->reached = day.sent - day.throttled >= FULL * last;
	}
}
