/* SPDX-License-Identifier: ISC */
/* A pace, and what it is asked and told by hand; for tests of its law. */
#ifndef TESTS_UNIT_PACE_BENCH_H
#define TESTS_UNIT_PACE_BENCH_H

#include "tests/unit/check.h"

#include "policy/window/pace.h"

#define MS	INT64_C(1000000)
#define SECOND	(1000 * MS)
#define MINUTE	(60 * SECOND)
#define HOUR	(60 * MINUTE)
#define PERIOD	(10 * MINUTE)
#define BEGIN	(1000 * SECOND)

/* By a half, floor 15/2m, a quarter in 10 minutes: intervals that are stored exactly. */
static inline struct pace_settings settings_of(uint32_t count, int64_t period_ns, uint32_t burst) {
	return (struct pace_settings){
		.limit = { .period_ns = period_ns, .count = count, .burst = burst },
		.by = 0.5, .floor = { .period_ns = 2 * MINUTE, .count = 15 }, .up = 0.25, .up_ns = PERIOD,
	};
}

static struct world {
	struct pace_settings settings;
	struct pace pace;
	int64_t now;
} w;		/* of the test that runs */

static inline void begin(uint32_t count, int64_t period_ns, uint32_t burst) {
	w = (struct world){ .settings = settings_of(count, period_ns, burst), .now = BEGIN };
}

static inline int64_t take(void) {
	int64_t wait = pace_wait_ns(&w.pace, &w.settings, w.now);
	int64_t taken = pace_take(&w.pace, &w.settings, w.now);

	assert_true(taken <= wait);	/* less, where it rises */
	return taken;
}

static inline int64_t interval(void) {
	struct pace_view view;

	pace_look(&w.pace, &w.settings, w.now, &view);
	return view.interval_ns;
}

#endif
