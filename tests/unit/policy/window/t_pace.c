/* SPDX-License-Identifier: ISC */
/* The law of paces: numbers worked out by hand. */
#include "tests/unit/test.h"
#include "tests/unit/policy/window/pace_bench.h"

static bool refuse(void) {
	bool lowered = pace_refused(&w.pace, &w.settings, w.now, w.now);

	w.now += SECOND;
	return lowered;
}

static void accept(void) {
	pace_accepted(&w.pace, &w.settings, w.now, w.now);
}

/* Mail waits for so long, one of it is accepted each minute. */
static void wait_for(int64_t duration) {
	for (int64_t end = w.now + duration; w.now < end; w.now += MINUTE) {
		accept();
		while (take() == 0)
			;
	}
}

/* --- tokens by hand ----------------------------------------------------------------------- */

/* 200/1h is one in 18 s. */
TEST(a_burst_and_one_each_18_seconds) {
	begin(200, HOUR, 5);
	for (int i = 0; i < 5; i++)
		assert_int_equal(take(), 0);
	assert_int_equal(take(), 18 * SECOND);
	w.now += 17 * SECOND;
	assert_int_equal(take(), SECOND);
	w.now += SECOND - 1;
	assert_true(take() > 0);
	w.now += 1;
	assert_int_equal(take(), 0);
	assert_int_equal(take(), 18 * SECOND);
	w.now += HOUR;
	for (int i = 0; i < 5; i++)
		assert_int_equal(take(), 0);
	assert_int_equal(take(), 18 * SECOND);
}

TEST(until_when_tokens_are_taken) {
	struct pace_settings settings = pace_defaults;
	struct pace pace = { { 0, 0 } };
	int64_t now_ns = INT64_C(1000) * 1000000000, second_ns = 1000000000;

	settings.limit = (struct rate_limit){ .period_ns = 60 * second_ns, .count = 30, .burst = 4 };
	assert_int_equal(pace_taken_ns(&pace, &settings, now_ns), 0);
	for (int64_t i = 1; i <= 3; i++) {
		assert_int_equal(pace_take(&pace, &settings, now_ns), 0);
		assert_int_equal(pace_taken_ns(&pace, &settings, now_ns), now_ns + 2 * i * second_ns);
	}
	assert_int_equal(pace_taken_ns(&pace, &settings, now_ns + 60 * second_ns),
	    now_ns + 6 * second_ns);
	/* without a pace */
	settings.limit.count = 0;
	assert_int_equal(pace_taken_ns(&pace, &settings, now_ns), 0);
}

TEST(without_a_burst_one_by_one) {
	begin(600, MINUTE, 0);
	assert_int_equal(take(), 0);
	assert_int_equal(take(), 100 * MS);
	w.now += 100 * MS;
	assert_int_equal(take(), 0);
	/* a token taken within a tick counts from the end of it */
	w.now += 100 * MS + 1;
	assert_int_equal(take(), 0);
	assert_int_equal(take(), 100 * MS + 100000 - 1);
}

TEST(no_pace_limits_nothing) {
	begin(0, 0, 0);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(take(), 0);
	assert_int_equal(interval(), 0);
}

/* --- slower by hand ----------------------------------------------------------------------- */

TEST(a_flight_lowers_it_once) {
	begin(60, MINUTE, 3);
	accept();
	w.now += SECOND;
	assert_true(pace_refused(&w.pace, &w.settings, w.now - MS, w.now));
	assert_int_equal(interval(), 2 * SECOND);
	assert_int_equal(take(), 2 * SECOND);	/* the bucket is empty */
	/* what was sent before says nothing any more, whatever it was */
	w.now += 500 * MS;
	for (int i = 0; i < 10; i++) {
		assert_false(pace_refused(&w.pace, &w.settings, BEGIN + SECOND - i * MS, w.now));
		pace_accepted(&w.pace, &w.settings, BEGIN + SECOND - i * MS, w.now);
		assert_false(pace_refused(&w.pace, &w.settings, 0, w.now));
	}
	assert_int_equal(interval(), 2 * SECOND);
	/* what was sent since does */
	accept();
	assert_true(refuse());
	assert_int_equal(interval(), 4 * SECOND);
	/* the floor, and not below */
	accept();
	assert_true(refuse());
	assert_int_equal(interval(), 8 * SECOND);
	accept();
	assert_false(refuse());
	accept();
	assert_int_equal(interval(), 8 * SECOND);
}

TEST(an_unknown_time_is_of_now_after_a_minute) {
	begin(60, MINUTE, 1);
	assert_false(pace_refused(&w.pace, &w.settings, 0, w.now));
	assert_true(refuse());
	pace_accepted(&w.pace, &w.settings, 0, w.now + 59 * SECOND);
	assert_false(pace_refused(&w.pace, &w.settings, 0, w.now + 59 * SECOND));
	assert_int_equal(interval(), 2 * SECOND);
	pace_accepted(&w.pace, &w.settings, 0, w.now + 60 * SECOND);
	assert_true(pace_refused(&w.pace, &w.settings, 0, w.now + 60 * SECOND));
	w.now += 60 * SECOND;
	assert_int_equal(interval(), 4 * SECOND);
}

/* 2 s, and 4, 8, 16 ... while nothing is accepted; 8 periods of 10 s at the longest. */
TEST(what_is_refused_without_end_is_undone) {
	int64_t expected[] = { 4, 8, 16, 32, 64, 80, 80 };
	struct pace_view view;

	begin(60, MINUTE, 1);
	w.settings.up_ns = 10 * SECOND;
	accept();
	w.now += HOUR;
	assert_true(refuse());
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		assert_false(refuse());
		assert_int_equal(interval(), expected[i] * SECOND);
	}
	pace_look(&w.pace, &w.settings, w.now, &view);
	assert_true(view.is_refused);
	accept();
	assert_int_equal(interval(), 2 * SECOND);
	/* that was at a lower pace: a refusal at this one lowers it */
	w.now += SECOND;
	assert_true(refuse());
	assert_int_equal(interval(), 4 * SECOND);
}

/* It accepted for 10.1 s, stored as 10.24, and refused for 2 + 4 + 8 + 16 s and half of 0.9. */
TEST(what_a_site_takes_is_seen_by_its_silence) {
	struct pace_view view;

	begin(60, MINUTE, 1);
	accept();
	w.now += 10 * SECOND;
	assert_true(refuse());
	for (int i = 0; i < 4; i++)
		assert_false(refuse());
	accept();
	/* (1 + 30.45 / 10.24) * 1.05 = 4.1723: that is what it takes, as nothing is proven */
	assert_int_equal(interval(), 41728 * MS / 10);
	pace_look(&w.pace, &w.settings, w.now, &view);
	assert_int_equal(view.proven_ns, 41728 * MS / 10);
	/* never below the floor */
	begin(60, MINUTE, 1);
	assert_true(refuse());
	assert_false(refuse());
	w.now += HOUR;
	accept();
	assert_int_equal(interval(), 8 * SECOND);
}

TEST(without_a_pace_it_begins_with_what_was_accepted) {
	/* 30 in 15 seconds: two a second, half of it */
	begin(0, 0, 0);
	for (int i = 0; i < 30; i++) {
		accept();
		w.now += 500 * MS;
	}
	assert_true(refuse());
	assert_int_equal(interval(), SECOND);
	/* 20 in 5 seconds; what was before does not count */
	begin(0, 0, 0);
	for (int i = 0; i < 60; i++)
		accept();
	w.now += 2 * MINUTE;
	for (int i = 0; i < 20; i++)
		accept();
	w.now += 5 * SECOND;
	assert_true(refuse());
	assert_int_equal(interval(), 500 * MS);
	/* nothing: ten a second */
	begin(0, 0, 0);
	assert_true(refuse());
	assert_int_equal(interval(), 200 * MS);
	/* not below the floor */
	begin(0, 0, 0);
	accept();
	w.now += 9 * SECOND;
	assert_false(refuse());
	accept();
	assert_int_equal(interval(), 8 * SECOND);
}

/* --- up by hand ------------------------------------------------------------------------ */

TEST(it_rises_while_mail_waits_and_is_accepted) {
	begin(60, MINUTE, 1);
	assert_true(refuse());
	/* nothing is accepted */
	w.now += PERIOD;
	assert_int_equal(take(), 0);
	assert_true(take() > 0);
	assert_int_equal(interval(), 2 * SECOND);
	/* nothing waits */
	accept();
	w.now += PERIOD;
	assert_int_equal(take(), 0);
	assert_int_equal(interval(), 2 * SECOND);
	/* both */
	assert_true(take() > 0);
	assert_int_equal(interval(), 1600 * MS);
	/* not before the next period */
	accept();
	w.now += PERIOD - SECOND;
	while (take() == 0)
		;
	assert_int_equal(interval(), 1600 * MS);
	wait_for(MINUTE);
	wait_for(MINUTE);
	assert_int_equal(interval(), 1280 * MS);
	/* 1.024, and then it is whole */
	wait_for(PERIOD + MINUTE);
	assert_int_equal(interval(), 1024 * MS);
	wait_for(PERIOD + MINUTE);
	assert_int_equal(interval(), SECOND);
}

/* 2, 1.6, 1.28 is refused: 2.56; soon half of the way to the proven 1.6; there for two periods;
 * half a step above it. */
TEST(the_proven_pace_is_remembered) {
	struct pace_view view;

	begin(120, MINUTE, 1);
	w.settings.limit = (struct rate_limit){ .period_ns = SECOND, .count = 1 };
	assert_true(refuse());
	w.settings.limit = (struct rate_limit){ .period_ns = SECOND, .count = 2 };
	wait_for(PERIOD + MINUTE);
	wait_for(PERIOD + MINUTE);
	assert_int_equal(interval(), 1280 * MS);
	assert_true(refuse());
	assert_int_equal(interval(), 2560 * MS);
	pace_look(&w.pace, &w.settings, w.now, &view);
	assert_int_equal(view.proven_ns, 1600 * MS);
	assert_true(view.is_learned);
	wait_for(3 * MINUTE);
	/* 2 / (1 / 2.56 + 1 / 1.6) = 1.96923, in 9 bits */
	assert_int_equal(interval(), 19712 * MS / 10);
	wait_for(2 * MINUTE);
	assert_int_equal(interval(), 1600 * MS);
	wait_for(2 * PERIOD - MINUTE);
	assert_int_equal(interval(), 1600 * MS);
	wait_for(2 * MINUTE);
	/* 1.6 / 1.125 = 1.42222 */
	assert_int_equal(interval(), 14224 * MS / 10);
	/* that lasted two periods: a whole step again */
	wait_for(2 * PERIOD + MINUTE);
	assert_int_equal(interval(), 11392 * MS / 10);
}

/* Where less is refused, too, the site punishes: the ways back take whole periods. */
TEST(who_is_refused_below_the_proven_pace_returns_slowly) {
	begin(120, MINUTE, 1);
	w.settings.limit = (struct rate_limit){ .period_ns = SECOND, .count = 1 };
	assert_true(refuse());
	w.settings.limit = (struct rate_limit){ .period_ns = SECOND, .count = 2 };
	wait_for(PERIOD + MINUTE);
	wait_for(PERIOD + MINUTE);
	assert_true(refuse());
	accept();
	assert_true(refuse());
	assert_int_equal(interval(), 5120 * MS);
	wait_for(PERIOD - MINUTE);
	assert_int_equal(interval(), 5120 * MS);
	wait_for(2 * MINUTE);
	assert_true(interval() < 2560 * MS);
}

/* Some of what was accepted is heard of when the first was refused already. */
TEST(what_was_under_way_counts_for_the_rate) {
	int64_t few;

	begin(0, 0, 0);
	for (int i = 0; i < 5; i++)
		accept();
	w.now += 2 * SECOND;
	assert_true(refuse());
	few = interval();
	for (int i = 0; i < 5; i++)
		pace_accepted(&w.pace, &w.settings, BEGIN + SECOND, w.now);
	assert_true(interval() < few * 11 / 20);
}

TEST(a_site_that_takes_all_of_it_is_forgiven) {
	struct pace_view view;

	begin(60, MINUTE, 1);
	assert_true(refuse());
	for (int i = 0; i < 4; i++)
		wait_for(PERIOD + MINUTE);
	assert_int_equal(interval(), SECOND);
	pace_look(&w.pace, &w.settings, w.now, &view);
	assert_true(view.proven_ns > 0);
	assert_false(view.is_learned);
	wait_for(PERIOD + MINUTE);
	pace_look(&w.pace, &w.settings, w.now, &view);
	assert_int_equal(view.proven_ns, 0);
}

/* --- what is stored, and settings --------------------------------------------------------- */

TEST(a_clock_that_steps_back) {
	begin(60, MINUTE, 3);
	w.now = 10 * HOUR;
	while (take() == 0)
		;
	w.now = HOUR;
	assert_int_equal(take(), SECOND);
	w.now += SECOND;
	assert_int_equal(take(), 0);
	assert_true(refuse());
	w.now = MINUTE;
	assert_int_equal(take(), 2 * SECOND);
	accept();
	assert_true(refuse());
	assert_int_equal(interval(), 4 * SECOND);
}

TEST(other_settings) {
	begin(0, 0, 0);
	accept();
	/* a pace from now on */
	w.settings = settings_of(60, MINUTE, 1);
	assert_int_equal(take(), 0);
	assert_int_equal(take(), SECOND);
	/* what was learned stays, and ends where the configured one is lower */
	assert_true(refuse());
	w.settings.limit.count = 120;
	assert_int_equal(interval(), 2 * SECOND);
	w.settings.limit.count = 0;
	assert_int_equal(interval(), 2 * SECOND);
	w.settings.limit.count = 20;
	assert_int_equal(interval(), 3 * SECOND);
	take();
	w.settings.limit.count = 0;
	assert_int_equal(interval(), 0);
}

TEST(another_boot) {
	struct pace_view view;

	begin(60, MINUTE, 5);
	assert_true(refuse());
	accept();
	w.now = 100 * SECOND;
	pace_restore(&w.pace, &w.settings, 70 * SECOND, w.now);
	assert_int_equal(take(), 2 * SECOND);
	pace_look(&w.pace, &w.settings, w.now, &view);
	assert_int_equal(view.raise_ns, 30 * SECOND + PERIOD);
	/* of before this clock began */
	pace_restore(&w.pace, &w.settings, HOUR, w.now);
	pace_look(&w.pace, &w.settings, w.now, &view);
	assert_int_equal(view.raise_ns, 100 * SECOND + PERIOD);
	/* what was counted is not kept */
	begin(0, 0, 0);
	for (int i = 0; i < 1000; i++)
		accept();
	pace_restore(&w.pace, &w.settings, SECOND, w.now);
	assert_true(refuse());
	assert_int_equal(interval(), 200 * MS);
}

TEST(what_is_known_without_settings) {
	struct pace was;

	begin(60, MINUTE, 5);
	w.now = 100 * SECOND;
	assert_int_equal(pace_changed_ns(&w.pace), 0);
	assert_false(pace_is_learned(&w.pace));
	was = w.pace;
	take();
	assert_true(pace_differs(&was, &w.pace));
	assert_int_equal(pace_changed_ns(&w.pace), 100 * SECOND);
	was = w.pace;
	take();
	accept();
	assert_false(pace_differs(&was, &w.pace));
	assert_false(pace_is_learned(&w.pace));
	w.now += 50 * MS;
	assert_true(refuse());
	assert_true(pace_differs(&was, &w.pace));
	assert_true(pace_is_learned(&w.pace));
	/* in tenths, rounded up */
	assert_int_equal(pace_changed_ns(&w.pace), 100 * SECOND + 100 * MS);
	/* for the moment only, and back */
	was = w.pace;
	w.now += SECOND;
	assert_false(refuse());
	assert_true(pace_differs(&was, &w.pace));
	/* a meter counts */
	begin(0, 0, 0);
	was = w.pace;
	accept();
	assert_false(pace_differs(&was, &w.pace));
	assert_int_equal(pace_changed_ns(&w.pace), 0);
}

TEST(settings_that_nobody_can_give) {
	struct pace_settings sound = settings_of(60, MINUTE, 1), other;

	assert_true(pace_settings_are_sound(&pace_defaults));
	assert_true(pace_settings_are_sound(&sound));
	other = sound; other.by = 1;
	assert_false(pace_settings_are_sound(&other));
	other = sound; other.up = 0;
	assert_false(pace_settings_are_sound(&other));
	other = sound; other.up_ns = 0;
	assert_false(pace_settings_are_sound(&other));
	other = sound; other.floor.count = 0;
	assert_false(pace_settings_are_sound(&other));
	other = sound; other.limit.count = 60001;
	assert_false(pace_settings_are_sound(&other));
	other = sound; other.limit.burst = 1001;
	assert_false(pace_settings_are_sound(&other));
	other = sound; other.limit = (struct rate_limit){ .period_ns = 25 * HOUR, .count = 1 };
	assert_false(pace_settings_are_sound(&other));
	other = sound; other.by = __builtin_nan("");
	assert_false(pace_settings_are_sound(&other));
}
