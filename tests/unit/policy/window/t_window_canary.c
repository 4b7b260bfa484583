/* SPDX-License-Identifier: ISC */
/* The canaries of the law probe, with numbers worked out by hand. */
#include "tests/unit/test.h"
#include "tests/unit/random.h"
#include "tests/unit/policy/window/window_bench.h"

/* A limiter of 2, found, that takes any number by now. */
static void begin_climb(struct bench *bench) {
	begin(bench, WINDOW_LAW_PROBE, "1");
	bench->settings.limit = 0;
	tell(bench, RESULT_SITE_FAILURE, 3, 2, SECOND / 20);
	assert_int_equal(bench->window.ceiling, 2);
	assert_false(window_canary_due(&bench->window, &bench->settings,
	    bench->now + 10 * SECOND - SECOND / 20 - 1));
	bench->now += 10 * SECOND;
}

/* Once one is accepted the next goes at once; the ceiling rises by one, and by an eighth
 * from 16 on. */
TEST(canaries_climb) {
	static const uint16_t ceilings[] = { 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
		18, 20, 22, 24, 27, 30, 33, 37, 41, 46 };

	begin_climb(&b);
	for (size_t i = 0; i < sizeof(ceilings) / sizeof(ceilings[0]); i++) {
		send_canary(&b, RESULT_OK, b.window.ceiling + 1u);
		assert_true(b.change.window);
		assert_int_equal(b.window.ceiling, ceilings[i]);
		assert_int_equal(b.window.concurrency, ceilings[i]);
	}
	/* one that found the window not full proves nothing, and is tried again */
	send_canary(&b, RESULT_OK, 40);
	assert_int_equal(b.window.ceiling, 46);
	/* refused: the ceiling is this, and intervals begin anew */
	send_canary(&b, RESULT_SITE_FAILURE, 47);
	assert_int_equal(b.window.ceiling, 46);
	stands(&b, 46, 0, 0, 0);
	for (int64_t interval = 10 * SECOND; interval <= 40 * SECOND; interval *= 2) {
		assert_false(window_canary_due(&b.window, &b.settings, b.now + interval - 1));
		b.now += interval;
		send_canary(&b, RESULT_SITE_FAILURE, 47);
	}
	/* no higher than the limit */
	b.settings.limit = 49;
	b.now += 80 * SECOND;
	send_canary(&b, RESULT_OK, 47);
	send_canary(&b, RESULT_OK, 48);
	assert_int_equal(b.window.ceiling, 48);
	send_canary(&b, RESULT_OK, 49);
	assert_int_equal(b.window.ceiling, 49);
	assert_false(window_canary_due(&b.window, &b.settings, INT64_MAX));
}

/* The step was too wide: what was accepted is the ceiling at once, and those that were
 * tried beside it are explained. */
TEST(a_climb_that_goes_too_far) {
	begin_climb(&b);
	while (b.window.ceiling < 37)
		send_canary(&b, RESULT_OK, b.window.ceiling + 1u);
	/* 34 was accepted, 35 is too much */
	tell(&b, RESULT_SITE_FAILURE, 35, 36, SECOND / 20);
	assert_int_equal(b.window.ceiling, 34);
	for (int i = 0; i < 100; i++)
		tell(&b, RESULT_SITE_FAILURE, 35, 36, SECOND / 20);
	stands(&b, 34, 0, 0, 0);
	assert_false(window_canary_due(&b.window, &b.settings, b.now + 9 * SECOND));
	/* A log does not tell levels: back by the last step, which is 4. */
	begin_climb(&b);
	while (b.window.ceiling < 37)
		send_canary(&b, RESULT_OK, 0);
	tell(&b, RESULT_SITE_FAILURE, 0, 30, SECOND / 20);
	assert_int_equal(b.window.ceiling, 33);
	stands(&b, 33, 0, 0, 0);
	/* but not below what it did tell of */
	begin_climb(&b);
	while (b.window.ceiling < 37)
		send_canary(&b, RESULT_OK, 0);
	window_late_level(&b.window, &b.settings, RESULT_OK, 35, b.now, &b.change);
	tell(&b, RESULT_SITE_FAILURE, 0, 30, SECOND / 20);
	assert_int_equal(b.window.ceiling, 35);
	/* one canary is one step: 4, as 3 was one of luck */
	begin_climb(&b);
	send_canary(&b, RESULT_OK, 0);
	tell(&b, RESULT_SITE_FAILURE, 0, 1, SECOND / 20);
	assert_int_equal(b.window.ceiling, 2);
	stands(&b, 2, 0, 0, 0);
	/* then failures count as ever */
	tell(&b, RESULT_SITE_FAILURE, 0, 0, SECOND / 20);
	assert_true(b.window.fail_cohorts > 0);
	/* a refusal by chance does not make it forget that ceiling */
	for (int i = 0; i < 3; i++) {
		window_late_level(&b.window, &b.settings, RESULT_OK, 2, b.now, &b.change);
		window_late_level(&b.window, &b.settings, RESULT_SITE_FAILURE, 2, b.now,
		    &b.change);
	}
	assert_int_equal(b.window.ceiling, 2);
}

/* Nobody learned that they are refused for ten minutes, but 2000 went well since. */
TEST(canaries_that_cost_little) {
	begin_climb(&b);
	for (int64_t interval = 20 * SECOND; interval <= 600 * SECOND; interval *= 2) {
		send_canary(&b, RESULT_SITE_FAILURE, 3);
		b.now += interval;
	}
	b.now += 600 * SECOND;
	send_canary(&b, RESULT_SITE_FAILURE, 3);
	for (int i = 1; i < 2000; i++)
		tell(&b, RESULT_OK, 2, 1, SECOND);
	assert_false(window_canary_due(&b.window, &b.settings, b.now));
	tell(&b, RESULT_OK, 2, 1, SECOND);
	assert_true(window_canary_due(&b.window, &b.settings, b.now));
	/* who was told has no use for it */
	window_set_ceiling(&b.window, &b.settings, 2, b.now);
	for (int i = 0; i < 5000; i++)
		tell(&b, RESULT_OK, 2, 1, SECOND);
	assert_false(window_canary_due(&b.window, &b.settings, b.now));
	/* and climbs by one each interval */
	b.now += 600 * SECOND;
	send_canary(&b, RESULT_OK, 3);
	assert_int_equal(b.window.ceiling, 3);
	assert_false(window_canary_due(&b.window, &b.settings, b.now + 10 * SECOND - 1));
}

/* A limiter of 5, just found. */
static void begin_at_five(struct bench *bench) {
	begin(bench, WINDOW_LAW_PROBE, "1");
	tell(bench, RESULT_SITE_FAILURE, 6, 5, SECOND / 20);
	assert_int_equal(bench->window.ceiling, 5);
	bench->now += 10 * SECOND;
}

/* How many are accepted, at so many a second, until the next canary is due; the last one
 * was refused just now. */
static unsigned until_due(struct bench *bench, unsigned each_second) {
	int64_t since = bench->now;
	unsigned count = 0;

	for (; !window_canary_due(&bench->window, &bench->settings, bench->now); count++) {
		bench->now = since + (count + 1) * SECOND / each_second;
		tell(bench, RESULT_OK, bench->window.ceiling, 1, SECOND / 4);
	}
	return count;
}

/* With a ceiling of 5, the number accepted since, times the number a second, is to be 6400: 20 a
 * second for 16 s, 16 for 25 s, 5 for 256 s; 320 at least, so 25 for 12.8 s; but never before
 * 10 s.  At 2 a second that would be 3200 in 1600 s: after 600 s the canary goes anyhow. */
TEST(canaries_go_sooner_where_deliveries_are_quick) {
	static const unsigned wanted[][2] = { { 20, 320 }, { 25, 320 }, { 16, 400 },
		{ 40, 400 }, { 5, 1280 }, { 2, 1200 } };

	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		begin_at_five(&b);
		for (int64_t interval = 20 * SECOND; interval <= 600 * SECOND; interval *= 2) {
			send_canary(&b, RESULT_SITE_FAILURE, 6);
			b.now += interval;
		}
		b.now += 600 * SECOND;
		send_canary(&b, RESULT_SITE_FAILURE, 6);
		assert_int_equal(until_due(&b, wanted[i][0]), wanted[i][1]);
	}
}

/* Whatever the pace, for an hour: never twice within 10 s; at 18 and more a second within 20 s,
 * and no more than one of 300 is lost that way once the first few have gone. */
TEST(canaries_cost_few_and_come_soon) {
	struct random random = random_seeded("canaries_cost_few_and_come_soon");

	for (unsigned run = 0; run < 40; run++) {
		unsigned each_second = 1 + random_below(&random, 60), canaries = 0, all = 0;
		int64_t end;

		begin_at_five(&b);
		end = b.now + 3600 * SECOND;
		while (b.now < end) {
			int64_t since = b.now;
			unsigned count = until_due(&b, each_second);

			all += count;
			canaries++;
			if (canaries > 1) {
				assert_true(b.now - since >= 10 * SECOND);
				assert_true(each_second < 18 || b.now - since <= 20 * SECOND);
				assert_true(b.now - since <= 600 * SECOND + SECOND);
			}
			send_canary(&b, RESULT_SITE_FAILURE, 6);
		}
		assert_true(canaries <= 8 + all / 300);
	}
}
