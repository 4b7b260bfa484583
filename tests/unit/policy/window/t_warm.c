/* SPDX-License-Identifier: ISC */
/* Warm-up: numbers worked out by hand, and properties. */
#include "tests/unit/test.h"
#include "policy/window/warm.h"
#include "tests/unit/random.h"

#define SECOND	INT64_C(1000000000)
#define HOUR	(3600 * SECOND)
#define DAY	WARM_DAY_NS

static struct warm_settings settings;
static struct warm warm;
static int64_t now;

static int begin(void **state) {
	(void)state;
	settings = (struct warm_settings){ .plan = { 50, 100, 200, 400 }, .steps = 4,
		.grow_used = 0.6, .grow_throttled = 0.02, .back_throttled = 0.08, .idle_ns = 30 * DAY };
	warm = (struct warm){ 0 };
	now = HOUR;
	return 0;
}

/* Sends so many, of which the first `throttled' are; true: all of them may go. */
static bool send(unsigned count, unsigned throttled) {
	for (unsigned i = 0; i < count; i++) {
		if (warm_take(&warm, &settings, now) > 0)
			return false;
		warm_result(&warm, &settings, i < throttled, now, now);
	}
	return true;
}

/* Sends so many in a day that begins now, and lets it pass. */
static void pass(unsigned count, unsigned throttled) {
	assert_true(send(count, throttled));
	now += DAY;
}

static struct warm_view look(void) {
	struct warm_view view;

	warm_look(&warm, &settings, now, &view);
	return view;
}

/* What the day is that begins with a message now. */
static void begins(uint32_t number, enum warm_verdict verdict) {
	assert_true(send(1, 0));
	assert_int_equal(look().number, number);
	assert_int_equal(look().verdict, verdict);
	assert_int_equal(look().ends_ns, now + DAY);
}

TEST_IN(begin, NULL, a_day_is_24_hours_of_its_own) {
	assert_int_equal(look().ends_ns, 0);
	assert_true(send(49, 0));
	now += 5 * HOUR;
	assert_true(send(1, 0));
	assert_int_equal(warm_take(&warm, &settings, now), 19 * HOUR);
	now += 19 * HOUR - 1;
	assert_int_equal(warm_take(&warm, &settings, now), 1);
	assert_int_equal(look().sent, 50);
	now++;
	assert_int_equal(warm_take(&warm, &settings, now), 0);
	assert_int_equal(look().number, 100);
	/* the next begins with a message, not with a clock */
	now += DAY + 7 * HOUR;
	begins(100, WARM_UNUSED);
}

TEST_IN(begin, NULL, a_number_is_repeated) {
	/* 29 of 50 are less than 60 % */
	pass(29, 0);
	begins(50, WARM_UNUSED);
	/* 30 are not, but one of 50 is 2 % */
	assert_true(send(48, 0) && send(1, 1));
	now += DAY;
	begins(50, WARM_THROTTLED);
	/* none was */
	pass(29, 0);
	begins(100, WARM_GREW);
}

TEST_IN(begin, NULL, after_the_plan_no_number_binds) {
	pass(50, 0);
	pass(100, 0);
	pass(200, 0);
	pass(400, 0);
	assert_true(send(100000, 0));
	assert_int_equal(look().step, 0);
	assert_int_equal(look().number, 0);
	/* a bad day takes it back to the last number, where that is more than it carries */
	now += DAY;
	assert_true(send(300, 100));
	now += DAY;
	begins(400, WARM_BACK);
}

/* 8 of 100 are 8 %: the day ends at the number before, 50, which went already. */
TEST_IN(begin, NULL, a_bad_day_ends_early) {
	pass(50, 0);
	assert_true(send(92, 0));
	assert_true(send(7, 7));
	assert_false(look().is_cut);
	warm_result(&warm, &settings, true, now, now);
	assert_true(look().is_cut);
	assert_int_equal(warm_take(&warm, &settings, now), DAY);
	/* 92 were accepted, more than 50: again */
	now += DAY;
	begins(100, WARM_THROTTLED);
	/* 50 are not more than 50: back */
	assert_true(send(49, 0));
	send(5, 5);
	now += DAY;
	begins(50, WARM_BACK);
	/* there is none before the first */
	assert_true(send(20, 20));
	now += DAY;
	begins(50, WARM_THROTTLED);
}

/* One of nine says nothing yet. */
TEST_IN(begin, NULL, few_results_say_nothing) {
	assert_true(send(9, 1));
	now += DAY;
	begins(50, WARM_UNUSED);
	assert_true(send(49, 0));
	now += DAY;
	begins(100, WARM_GREW);
	assert_true(send(8, 8));
	assert_false(look().is_cut);
	warm_result(&warm, &settings, true, now, now);
	assert_true(look().is_cut);
}

/* Whose connections nobody takes has no results: each day would look good. */
TEST_IN(begin, NULL, an_address_that_is_blocked_does_not_grow) {
	warm_count(&warm, &settings, 50, now);
	for (int i = 0; i < 11; i++)
		warm_result(&warm, &settings, false, now, now);
	assert_int_equal(warm_left(&warm, &settings, now + DAY), 50);
	/* a quarter was answered */
	warm_result(&warm, &settings, false, now, now);
	assert_int_equal(warm_left(&warm, &settings, now + DAY), 100);
	now += DAY;
	assert_true(send(1, 0));
	warm_count(&warm, &settings, 99, now);
	now += DAY;
	begins(100, WARM_UNUSED);
}

/* What was sent the day before says nothing of this one; late results count for a day until the
 * next begins. */
TEST_IN(begin, NULL, results_are_of_their_day) {
	int64_t first = now;

	assert_true(send(50, 0));
	now += 2 * DAY;
	for (int i = 0; i < 2; i++)
		warm_result(&warm, &settings, true, first, now);
	begins(50, WARM_THROTTLED);
	for (int i = 0; i < 40; i++)
		warm_result(&warm, &settings, true, first, now);
	assert_false(look().is_cut);
	assert_true(send(49, 0));
	now += DAY;
	begins(100, WARM_GREW);
	for (int i = 0; i < 40; i++)
		warm_result(&warm, &settings, true, 0, now);
	assert_true(look().is_cut);
}

TEST_IN(begin, NULL, silence_forgets_by_halves) {
	pass(50, 0);
	pass(100, 0);
	pass(200, 0);
	now += 30 * DAY - 1;
	begins(400, WARM_GREW);
	/* 30 days behind the end of the day */
	now += 31 * DAY;
	begins(200, WARM_IDLE);
	now += 61 * DAY;
	begins(50, WARM_IDLE);
	now += 1000 * DAY;
	begins(50, WARM_IDLE);
	settings.idle_ns = 0;
	assert_true(send(49, 0));
	now += 1000 * DAY;
	begins(100, WARM_GREW);
}

TEST_IN(begin, NULL, a_warm_source_forgets_too) {
	warm = (struct warm){ .day_ns = now, .sent = 1, .step = 4 };
	now += 31 * DAY;
	begins(200, WARM_IDLE);
}

/* A plan of two numbers is not passed by a source that had got to the third of another one. */
TEST_IN(begin, NULL, a_shorter_plan_does_not_free_a_source) {
	pass(50, 0);
	pass(100, 0);
	begins(200, WARM_GREW);
	settings.steps = 2;
	assert_int_equal(warm_left(&warm, &settings, now), 49);
	assert_int_equal(look().number, 50);
	/* one that passed its plan stays free with a longer one, until a day is bad */
	warm = (struct warm){ 0 };
	pass(50, 0);
	pass(100, 0);
	assert_true(send(500, 0));
	settings.steps = 4;
	assert_int_equal(warm_left(&warm, &settings, now), UINT32_MAX);
	settings.steps = 1;
	assert_int_equal(warm_left(&warm, &settings, now), UINT32_MAX);
}

TEST_IN(begin, NULL, a_clock_that_is_set_back) {
	now = 100 * DAY;
	assert_true(send(50, 0));
	now = DAY;
	assert_int_equal(warm_take(&warm, &settings, now), DAY);
	now += DAY - 1;
	assert_int_equal(warm_take(&warm, &settings, now), 1);
	now++;
	begins(100, WARM_GREW);
}

TEST_IN(begin, NULL, another_boot) {
	now = 5 * DAY;
	assert_true(send(50, 0));
	/* that was 7 hours ago, and the machine runs for 100 s */
	now = 100 * SECOND;
	warm_restore(&warm, &settings, 7 * HOUR, now);
	assert_int_equal(warm_take(&warm, &settings, now), 17 * HOUR);
	now += 17 * HOUR;
	begins(100, WARM_GREW);
	/* one that never sent */
	warm = (struct warm){ 0 };
	warm_restore(&warm, &settings, INT64_MAX, now);
	begins(50, WARM_NEW);
}

TEST_IN(begin, NULL, settings_that_nobody_can_give) {
	struct warm_settings other = settings;

	assert_true(warm_settings_are_sound(&settings));
	other.steps = 0;
	assert_false(warm_settings_are_sound(&other));
	other = settings; other.steps = WARM_STEPS_MAX + 1;
	assert_false(warm_settings_are_sound(&other));
	other = settings; other.plan[2] = 100;
	assert_false(warm_settings_are_sound(&other));
	other = settings; other.plan[0] = 0;
	assert_false(warm_settings_are_sound(&other));
	other = settings; other.plan[3] = UINT32_MAX;
	assert_false(warm_settings_are_sound(&other));
	other = settings; other.grow_throttled = 0.09;
	assert_false(warm_settings_are_sound(&other));
	other = settings; other.grow_throttled = 0;
	assert_false(warm_settings_are_sound(&other));
	other = settings; other.back_throttled = __builtin_nan("");
	assert_false(warm_settings_are_sound(&other));
	other = settings; other.grow_used = 1.1;
	assert_false(warm_settings_are_sound(&other));
	other = settings; other.idle_ns = HOUR;
	assert_false(warm_settings_are_sound(&other));
}

/* What may be released ahead, and what is counted afterwards. */
TEST_IN(begin, NULL, what_is_left) {
	assert_int_equal(warm_left(&warm, &settings, now), 50);
	warm_count(&warm, &settings, 0, now);
	assert_int_equal(look().ends_ns, 0);
	warm_count(&warm, &settings, 20, now);
	assert_int_equal(look().ends_ns, now + DAY);
	assert_int_equal(warm_left(&warm, &settings, now), 30);
	/* as though the next day began now: 20 of 50 are less than 60 % */
	assert_int_equal(warm_left(&warm, &settings, now + DAY), 50);
	warm_count(&warm, &settings, 10, now);
	for (int i = 0; i < 7; i++)
		warm_result(&warm, &settings, false, now, now);
	assert_int_equal(warm_left(&warm, &settings, now + DAY), 100);
	/* what went though it might not */
	warm_count(&warm, &settings, 25, now);
	assert_int_equal(look().sent, 55);
	assert_int_equal(warm_left(&warm, &settings, now), 0);
	assert_int_equal(warm_take(&warm, &settings, now), DAY);
	warm.step = 4;
	assert_int_equal(warm_left(&warm, &settings, now), UINT32_MAX);
	warm_count(&warm, &settings, UINT32_MAX, now);
	assert_int_equal(look().sent, UINT32_MAX);
}

/* --- properties ------------------------------------------------------------------------ */

static void some_settings(struct random *random) {
	begin(NULL);
	settings.steps = 1 + random_below(random, 10);
	for (uint32_t i = 0; i < settings.steps; i++)
		settings.plan[i] = (i > 0 ? settings.plan[i - 1] : 0) + 1 + random_below(random, 60);
	settings.grow_used = random_below(random, 101) / 100.0;
	settings.back_throttled = (1 + random_below(random, 100)) / 100.0;
	settings.grow_throttled = settings.back_throttled * (1 + random_below(random, 4)) / 4;
	settings.idle_ns = random_below(random, 2) * (1 + (int64_t)random_below(random, 60)) * DAY;
}

/* In no day more than the plan's number, and the number of day n is never above the n-th of the
 * plan: through reboots and clocks that are set back, whatever the results. */
TEST_IN(begin, NULL, never_one_above_the_plan) {
	struct random random = random_seeded("never_one_above");

	for (int round = 0; round < 300; round++) {
		int64_t real = 0, day_ns = -DAY;	/* a clock that nobody sets */
		uint32_t sent = 0, days = 0;

		some_settings(&random);
		for (int i = 0; i < 3000; i++) {
			int64_t step = (int64_t)random_below(&random, 40) * HOUR / 10, was = now;

			if (warm_take(&warm, &settings, now) == 0) {
				/* it thinks that a new day begins */
				if (warm.sent == 1) {
					assert_true(real - day_ns >= DAY);
					day_ns = real;
					days++;
					sent = 0;
				}
				sent++;
				assert_true(days > settings.steps || sent <= settings.plan[days - 1]);
				assert_int_equal(sent, warm.sent);
				step = step < 30 * HOUR / 10 ? 0 : step;
			}
			if (random_below(&random, 3) > 0)
				warm_result(&warm, &settings, random_below(&random, 20) == 0,
				    random_below(&random, 2) == 0 ? now : 0, now);
			now += step;
			real += step;
			switch (random_below(&random, 300)) {
			case 0:
				now = (int64_t)random_below(&random, 1000) * SECOND;
				warm_restore(&warm, &settings, was + step - warm.day_ns, now);
				break;
			case 1:
				now -= now > DAY ? random_below(&random, 20) * HOUR : 0;
				break;
			default:
				break;
			}
		}
	}
}

/* Any bytes: never more than the plan's numbers in a day while it is not passed, and it goes on. */
TEST_IN(begin, NULL, any_bytes) {
	struct random random = random_seeded("any_bytes");

	for (int round = 0; round < 20000; round++) {
		struct warm_view view;

		some_settings(&random);
		warm = (struct warm){ .day_ns = (int64_t)random_next(&random),
			.sent = (uint32_t)random_next(&random), .answered = (uint32_t)random_next(&random),
			.throttled = (uint32_t)random_next(&random), .step = (uint16_t)random_next(&random),
			.verdict = (uint8_t)random_next(&random),
			.steps = (uint8_t)random_next(&random) };
		if (random_below(&random, 2) == 0)
			warm.day_ns = random_below(&random, 100) * HOUR;
		for (int i = 0; i < 5; i++) {
			int64_t wait = warm_take(&warm, &settings, now);

			assert_true(wait >= 0 && wait <= DAY);
			warm_look(&warm, &settings, now, &view);
			assert_true(view.step <= settings.steps && view.verdict < WARM_VERDICT_COUNT);
			assert_true(wait > 0 || view.step == 0 || view.sent <= view.number);
			warm_result(&warm, &settings, random_below(&random, 2) == 0, 0, now);
			now += random_below(&random, 30) * HOUR;
		}
	}
}
