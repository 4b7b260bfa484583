/* SPDX-License-Identifier: ISC */
/* A window, and what it is told by hand; for tests of laws. */
#ifndef TESTS_UNIT_WINDOW_BENCH_H
#define TESTS_UNIT_WINDOW_BENCH_H

#include "tests/unit/check.h"

#include "policy/window/window.h"

#define SECOND	INT64_C(1000000000)
#define NEAR	1e-6

struct bench {
	struct window_settings settings;
	struct window window;
	struct window_change change;
	int64_t now;
};

static struct bench b;		/* of the test that runs */

static inline void begin(struct bench *bench, enum window_law law, const char *feedback) {
	bench->settings = window_defaults;
	bench->settings.law = law;
	assert_true(window_feedback_parse(feedback, strlen(feedback),
	    &bench->settings.positive));
	bench->settings.negative = bench->settings.positive;
	bench->now = 1000 * SECOND;
	window_begin(&bench->window, &bench->settings);
}

static inline int begin_probe(void **state) {
	begin(&b, WINDOW_LAW_PROBE, "1");
	return 0;
}

static inline void tell(struct bench *bench, enum result_class class, uint32_t level,
    uint32_t in_flight, int64_t took) {
	struct window_result result = { .class = class, .level = level,
		.in_flight = in_flight, .start_ns = took > 0 ? bench->now - took : 0 };

	window_result(&bench->window, &bench->settings, &result, bench->now, &bench->change);
	assert_true(window_is_sound(&bench->window));
}

/* `count` results, with the window full. */
static inline void good(struct bench *bench, unsigned count) {
	while (count-- > 0)
		tell(bench, RESULT_OK, 0, bench->window.concurrency - 1u, 0);
}

static inline void bad(struct bench *bench, unsigned count) {
	while (count-- > 0)
		tell(bench, RESULT_SITE_FAILURE, 0, bench->window.concurrency - 1u, 0);
}

/* The same with nothing else in flight. */
static inline void nothing_but_bad(struct bench *bench, unsigned count) {
	while (count-- > 0)
		tell(bench, RESULT_SITE_FAILURE, 0, 0, 0);
}

static inline void stands(const struct bench *bench, uint32_t window, double success,
    double failure, double cohorts) {
	assert_int_equal(bench->window.concurrency, window);
	assert_true(bench->window.success > success - NEAR);
	assert_true(bench->window.success < success + NEAR);
	assert_true(bench->window.failure > failure - NEAR);
	assert_true(bench->window.failure < failure + NEAR);
	assert_true(bench->window.fail_cohorts > cohorts - NEAR);
	assert_true(bench->window.fail_cohorts < cohorts + NEAR);
}

static inline void send_canary(struct bench *bench, enum result_class class, uint32_t level) {
	struct window_result result = { .class = class, .level = level, .canary = true,
		.in_flight = bench->window.ceiling };

	assert_true(window_canary_due(&bench->window, &bench->settings, bench->now));
	window_canary_issued(&bench->window, &bench->settings, bench->now + 60 * SECOND);
	window_result(&bench->window, &bench->settings, &result, bench->now, &bench->change);
	assert_true(window_is_sound(&bench->window));
}

#endif
