/* SPDX-License-Identifier: ISC */
/* A source that is warmed up by results, beside a calendar: at most half of the throttled messages
 * in at most 1.3 times the days. */
#include "tests/unit/test.h"

#include "lab/simulate_warm.h"

#define SEEDS	20

static struct warm_simulation simulation;
static uint32_t most[2];	/* sent in a day; days shown */

static void keep(void *context, const struct warmed_day *day) {
	(void)context;
	most[0] = day->sent > most[0] ? day->sent : most[0];
	most[1]++;
	assert_true(day->number == 0 || day->sent <= day->number);
}

static int begin(void **state) {
	(void)state;
	simulate_warm_defaults(&simulation);
	simulation.show = keep;
	most[0] = most[1] = 0;
	return 0;
}

/* A receiver that takes all: eight days of the plan, by both. */
TEST_IN(begin, NULL, a_receiver_that_takes_all) {
	struct warm_simulation_result results, calendar;

	simulation.tolerance = 1000000;
	simulation.weekend = 1;
	simulate_warm(&simulation, WARMED_BY_RESULTS, &results);
	simulate_warm(&simulation, WARMED_BY_CALENDAR, &calendar);
	assert_int_equal(results.days, 8);
	assert_int_equal(calendar.days, 8);
	assert_int_equal(results.sent, 50 + 100 + 200 + 400 + 800 + 1500 + 3000 + 6000);
	assert_int_equal(calendar.sent, results.sent);
	assert_int_equal(results.throttled, 0);
	assert_int_equal(most[0], 6000);
	assert_int_equal(most[1], 8);
}

TEST_IN(begin, NULL, a_receiver_that_never_trusts) {
	struct warm_simulation_result results;

	simulation.growth = 0;
	simulation.days = 100;
	simulate_warm(&simulation, WARMED_BY_RESULTS, &results);
	assert_false(results.reached);
	assert_int_equal(results.days, 100);
	assert_true(most[0] <= 100);
}

TEST_IN(begin, NULL, results_beside_a_calendar) {
	static const double growths[] = { 0.3, 0.5, 0.8, 1 }, harms[] = { 0.1, 0.3, 0.6 };

	for (unsigned i = 0; i < 12; i++) {
		uint64_t throttled[2] = { 0, 0 }, days[2] = { 0, 0 };

		simulation.growth = growths[i % 4];
		simulation.harm = harms[i / 4];
		for (simulation.seed = 1; simulation.seed <= SEEDS; simulation.seed++)
			for (unsigned by = 0; by < WARMED_BY_COUNT; by++) {
				struct warm_simulation_result result;

				simulate_warm(&simulation, (enum warmed_by)by, &result);
				assert_true(result.reached || by == WARMED_BY_CALENDAR);
				throttled[by] += result.throttled;
				days[by] += result.days;
			}
		if (2 * throttled[0] > throttled[1] || 10 * days[0] > 13 * days[1])
			fail_msg("growth %.1f, harm %.1f: %llu throttled in %llu days, calendar %llu in %llu",
			    simulation.growth, simulation.harm, (unsigned long long)throttled[0],
			    (unsigned long long)days[0], (unsigned long long)throttled[1],
			    (unsigned long long)days[1]);
	}
}

/* After a long pause the receiver has forgotten a part, and so has the source. */
TEST_IN(begin, NULL, a_pause) {
	struct warm_simulation_result with, without;

	simulation.tolerance = 1000000;
	simulation.weekend = 1;
	simulation.pause_after = 7;
	simulation.pause = 40;
	simulate_warm(&simulation, WARMED_BY_RESULTS, &with);
	/* 7 days, 40 of silence, 1500 instead of 3000, 3000, 6000 */
	assert_int_equal(with.days, 7 + 40 + 3);
	simulation.warm.idle_ns = 0;
	simulate_warm(&simulation, WARMED_BY_RESULTS, &without);
	assert_int_equal(without.days, 7 + 40 + 1);
}
