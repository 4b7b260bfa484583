/* SPDX-License-Identifier: ISC */
/* Paces in virtual time: what is counted by hand, and the law of Postern beside those of others. */
#include "tests/unit/test.h"

#include "base/clock.h"
#include "lab/simulate_pace.h"

#define MINUTE	(60 * NS_PER_SECOND)
#define HOUR	(60 * MINUTE)
#define SEEDS	5

static struct pace_simulation simulation;

static int begin(void **state) {
	(void)state;
	simulate_pace_defaults(&simulation);
	simulation.rules.low = (struct rate_limit){ .period_ns = 2 * MINUTE, .count = 30, .burst = 1 };
	return 0;
}

static struct pace_simulation_result run(enum paced_law law) {
	struct pace_simulation_result result;

	simulate_pace(&simulation, law, &result);
	return result;
}

static double refused_percent(const struct pace_simulation_result *result) {
	return 100.0 * (double)result->refused / (double)result->attempts;
}

static double taken_percent(const struct pace_simulation_result *result) {
	return 100.0 * (double)result->delivered / result->possible;
}

/* One a minute, ten messages: the last goes nine minutes after the first, and takes a second. */
TEST_IN(begin, NULL, a_pace_below_the_limit) {
	struct pace_simulation_result result;

	simulation.messages = 10;
	simulation.after_ns = 0;
	simulation.jitter = 0;
	simulation.rules.pace.limit = (struct rate_limit){ .period_ns = MINUTE, .count = 1 };
	result = run(PACED_SLOW);
	assert_int_equal(result.attempts, 10);
	assert_int_equal(result.delivered, 10);
	assert_int_equal(result.duration_ns, 9 * MINUTE + NS_PER_SECOND);
	assert_true(result.possible == 10);
}

/* 30 at once, then all others are refused: they come back after 300 s, 30 of them are taken. */
TEST_IN(begin, NULL, a_site_takes_its_limit) {
	struct pace_simulation_result result;

	simulation.messages = 100;
	simulation.after_ns = 0;
	simulation.jitter = 0;
	simulation.concurrency = 1000;
	simulation.refusal_ns = NS_PER_SECOND;
	simulation.for_ns = 302 * NS_PER_SECOND;
	result = run(PACED_UNPACED);
	assert_int_equal(result.attempts, 100 + 70);
	assert_int_equal(result.delivered, 60);
	assert_int_equal(result.refused, 70 + 40);
}

/* "3" of the issue: at least 90 % of what the site takes, at most 2 % refused after five minutes;
 * and nobody has both. */
TEST_IN(begin, NULL, slow_beside_the_others) {
	for (uint32_t seed = 1; seed <= SEEDS; seed++) {
		struct pace_simulation_result slow;

		simulation.seed = seed;
		simulation.rules.pace.up_ns = MINUTE;
		slow = run(PACED_SLOW);
		assert_true(taken_percent(&slow) >= 90);
		assert_true(refused_percent(&slow) <= 2);
		for (unsigned law = PACED_SNAP_BACK; law < PACED_LAW_COUNT; law++) {
			struct pace_simulation_result other = run((enum paced_law)law);

			assert_true(taken_percent(&other) < 90 || refused_percent(&other) > 2);
		}
	}
}

/* The slow way up, a limit that changes, reports that are late, a fixed window, bursts. */
TEST_IN(begin, NULL, slow_is_seldom_refused) {
	static const struct {
		uint32_t limit, other, report_s, burst;
		int64_t per_ns;
		enum paced_window window;
		bool counts;
		double refused, taken;	/* per cent, at most and at least */
	} cases[] = {
		{ 30, 30, 0, 1, MINUTE, PACED_SLIDING, false, 0.2, 90 },
		{ 30, 30, 30, 1, MINUTE, PACED_SLIDING, true, 0.5, 65 },
		{ 30, 30, 0, 1, MINUTE, PACED_FIXED, false, 0.5, 90 },
		{ 30, 60, 0, 1, MINUTE, PACED_SLIDING, false, 0.2, 70 },
		{ 60, 20, 0, 5, MINUTE, PACED_SLIDING, false, 0.2, 80 },
		{ 20, 20, 0, 1, NS_PER_SECOND, PACED_SLIDING, false, 0.1, 80 },
		{ 600, 600, 0, 1, HOUR, PACED_FIXED, false, 1, 75 },
		{ 600, 600, 0, 5, HOUR, PACED_SLIDING, false, 1, 70 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (uint32_t seed = 1; seed <= SEEDS; seed++) {
			struct pace_simulation_result slow;

			begin(NULL);
			simulation.seed = seed;
			simulation.messages = 1000000;
			simulation.for_ns = 24 * HOUR;
			simulation.rules.pace.limit.burst = cases[i].burst;
			simulation.report_ns = cases[i].report_s * NS_PER_SECOND;
			simulation.site.limits[0].count = cases[i].limit;
			simulation.site.limits[1] = (struct timed_count){ 8 * HOUR, cases[i].other };
			simulation.site.limit_count = 2;
			simulation.site.per_ns = cases[i].per_ns;
			simulation.site.window = cases[i].window;
			simulation.site.counts_attempts = cases[i].counts;
			slow = run(PACED_SLOW);
			if (refused_percent(&slow) > cases[i].refused || taken_percent(&slow) < cases[i].taken)
				fail_msg("case %zu, seed %u: %.2f %% refused, %.1f %% taken", i,
				    (unsigned)seed, refused_percent(&slow), taken_percent(&slow));
		}
}

/* A site that takes a quarter, until there was no refusal for an hour: there, going back at once
 * never gets any further. */
TEST_IN(begin, NULL, a_site_that_punishes) {
	struct pace_simulation_result slow, other;

	simulation.messages = 30000;
	simulation.for_ns = 24 * HOUR;
	simulation.site.penalty = 0.25;
	slow = run(PACED_SLOW);
	for (unsigned law = PACED_SNAP_BACK; law < PACED_LAW_COUNT; law++) {
		other = run((enum paced_law)law);
		assert_true(slow.delivered > other.delivered);
		assert_true(20 * slow.refused < other.refused);
	}
	assert_true(refused_percent(&slow) < 0.5);
}
