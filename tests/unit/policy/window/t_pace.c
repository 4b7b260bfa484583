/* SPDX-License-Identifier: ISC */
/* The law of paces: numbers worked out by hand, and properties under virtual time. */
#include <string.h>

#include "tests/unit/test.h"
#include "policy/window/pace.h"
#include "tests/unit/random.h"

#define MS	INT64_C(1000000)
#define SECOND	(1000 * MS)
#define MINUTE	(60 * SECOND)
#define HOUR	(60 * MINUTE)
#define PERIOD	(10 * MINUTE)
#define BEGIN	(1000 * SECOND)

/* By a half, floor 10/1m, a quarter in 10 minutes: intervals that are stored exactly. */
static struct pace_settings settings_of(uint32_t count, int64_t period_ns, uint32_t burst) {
	return (struct pace_settings){
		.limit = { .period_ns = period_ns, .count = count, .burst = burst },
		.by = 0.5, .floor = { .period_ns = MINUTE, .count = 10 }, .up = 0.25, .up_ns = PERIOD,
	};
}

static struct world {
	struct pace_settings settings;
	struct pace pace;
	int64_t now;
} w;

static void begin(uint32_t count, int64_t period_ns, uint32_t burst) {
	w = (struct world){ .settings = settings_of(count, period_ns, burst), .now = BEGIN };
}

static int64_t take(void) {
	int64_t wait = pace_wait_ns(&w.pace, &w.settings, w.now);
	int64_t taken = pace_take(&w.pace, &w.settings, w.now);

	assert_true(taken <= wait);	/* less, where it rises */
	return taken;
}

static int64_t interval(void) {
	struct pace_view view;

	pace_look(&w.pace, &w.settings, w.now, &view);
	return view.interval_ns;
}

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
	assert_int_equal(interval(), 6 * SECOND);
	accept();
	assert_false(refuse());
	accept();
	assert_int_equal(interval(), 6 * SECOND);
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

TEST(without_a_pace_it_begins_with_what_was_accepted) {
	begin(0, 0, 0);
	for (int i = 0; i < 30; i++)
		accept();
	assert_true(refuse());
	assert_int_equal(interval(), 4 * SECOND);	/* half of 30 a minute */
	/* the busier of two minutes */
	begin(0, 0, 0);
	for (int i = 0; i < 60; i++)
		accept();
	w.now += 70 * SECOND;
	for (int i = 0; i < 20; i++)
		accept();
	assert_true(refuse());
	assert_int_equal(interval(), 2 * SECOND);
	/* not of those before */
	begin(0, 0, 0);
	for (int i = 0; i < 60; i++)
		accept();
	w.now += 120 * SECOND;
	for (int i = 0; i < 20; i++)
		accept();
	assert_true(refuse());
	assert_int_equal(interval(), 6 * SECOND);
	/* nothing at all: the floor */
	begin(0, 0, 0);
	assert_false(refuse());
	accept();
	assert_int_equal(interval(), 6 * SECOND);
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

/* 2, 1.6, 1.28 is refused: 2.56; half of the way to the proven 1.6; there for two periods; half a
 * step above it. */
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
	wait_for(PERIOD + MINUTE);
	/* 2 / (1 / 2.56 + 1 / 1.6) = 1.96923, in 11 bits */
	assert_int_equal(interval(), 19696 * MS / 10);
	wait_for(PERIOD + MINUTE);
	assert_int_equal(interval(), 1600 * MS);
	wait_for(2 * PERIOD - MINUTE);
	assert_int_equal(interval(), 1600 * MS);
	wait_for(2 * MINUTE);
	/* 1.6 / 1.125 = 1.42222 */
	assert_int_equal(interval(), 14224 * MS / 10);
	/* that lasted two periods: a whole step again */
	wait_for(2 * PERIOD + MINUTE);
	assert_int_equal(interval(), 11380 * MS / 10);
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
	assert_false(refuse());
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

/* --- properties ------------------------------------------------------------------------ */

static struct pace_settings some_settings(struct random *random) {
	uint32_t count = 1 + random_below(random, 500), seconds = 1 + random_below(random, 3600);

	if (count > 1000 * seconds)
		count = 1000 * seconds;
	return (struct pace_settings){
		.limit = { .period_ns = seconds * SECOND, .count = count,
		    .burst = random_below(random, 2) == 0 ? 0 : random_below(random, 30) },
		.by = 0.05 + random_below(random, 90) / 100.0,
		.floor = { .period_ns = HOUR, .count = 1 + random_below(random, 100) },
		.up = 0.01 + random_below(random, 100) / 100.0,
		.up_ns = (1 + random_below(random, 3600)) * SECOND,
	};
}

/* Never above pace * t + burst, in any window that begins with a message: what is configured,
 * and what is in force, wherever it did not change.  Chances are told in any order. */
TEST(never_above_the_pace) {
	struct random random = random_seeded("never_above_the_pace");
	static int64_t at[3000];

	for (int round = 0; round < 200; round++) {
		struct pace_settings settings = some_settings(&random);
		struct pace pace = { { 0 } };
		int64_t now = BEGIN, burst = settings.limit.burst > 0 ? settings.limit.burst : 1;
		unsigned count = 0, same = 0;
		int64_t in_force = 0;

		while (count < sizeof(at) / sizeof(at[0])) {
			struct pace_view view;
			int64_t wait = pace_take(&pace, &settings, now);

			pace_look(&pace, &settings, now, &view);
			if (view.interval_ns != in_force)
				same = count;
			in_force = view.interval_ns;
			assert_true(in_force * settings.limit.count >= settings.limit.period_ns);
			if (wait == 0)
				at[count++] = now;
			for (unsigned i = count > 100 ? count - 100 : 0; wait == 0 && i < count; i++) {
				int64_t more = (int64_t)(count - i) - burst;

				assert_true(more * settings.limit.period_ns <=
				    (now - at[i]) * settings.limit.count);
				assert_true(i < same || more * in_force <= now - at[i]);
			}
			switch (random_below(&random, 20)) {
			case 0: case 1: case 2:
				pace_accepted(&pace, &settings, now - random_below(&random, 60) * SECOND, now);
				break;
			case 3:
				pace_refused(&pace, &settings, now - random_below(&random, 60) * SECOND, now);
				break;
			default:
				break;
			}
			now += wait > 0 && random_below(&random, 10) > 0 ? wait :
			    (int64_t)random_below(&random, 1000) * random_below(&random, 20000) * 1000;
		}
	}
}

struct flight {
	int64_t sent, heard;
	bool refused;
};

/* A site, whose answers are heard some time later. */
struct site {
	struct flight list[256];
	unsigned first, end;
};

static void site_send(struct site *site, int64_t now, int64_t late, bool refused) {
	assert_true(site->end - site->first < 256);
	site->list[site->end++ % 256] = (struct flight){ now, now + late, refused };
}

/* What is heard until now.  Returns how often that lowered the pace, once for each flight. */
static unsigned site_hear(struct site *site, struct world *world, int64_t *lowered_ns) {
	unsigned lowered = 0;

	while (site->first != site->end && site->list[site->first % 256].heard <= world->now) {
		struct flight *flight = &site->list[site->first++ % 256];

		if (!flight->refused) {
			pace_accepted(&world->pace, &world->settings, flight->sent, world->now);
		} else if (pace_refused(&world->pace, &world->settings, flight->sent, world->now)) {
			assert_true(flight->sent > *lowered_ns);
			*lowered_ns = world->now;
			lowered++;
		}
	}
	return lowered;
}

/* A site that says "slower" once, wants half for a time, and forgives: the way back to the whole
 * pace brings no second refusal.  So much is heard in between, and is of one flight. */
TEST(back_to_full_without_a_second_refusal) {
	struct random random = random_seeded("back_to_full");

	for (int round = 0; round < 100; round++) {
		struct site site = { .first = 0 };
		int64_t late = random_below(&random, 20000) * MS, since = 0, lowered_ns = 0;
		int64_t forgives = HOUR / 2 + random_below(&random, 1800) * SECOND;
		int64_t refuses = BEGIN + random_below(&random, 7200) * SECOND;
		unsigned lowered = 0;

		begin(60 + random_below(&random, 600), 10 * MINUTE, 1 + random_below(&random, 5));
		w.settings.up = 0.1;
		w.settings.floor.count = 1;
		while (w.now < BEGIN + 6 * HOUR) {
			int64_t wait = take();
			bool penal = w.now >= refuses && w.now < refuses + forgives;
			bool is_half = since > 0 && w.now - since >= late + SECOND;

			/* all that was under way is refused, then what comes faster than a tenth below
			 * the whole pace */
			if (wait == 0)
				site_send(&site, w.now, late, penal && !(is_half && interval() *
				    w.settings.limit.count * 100 >= w.settings.limit.period_ns * 111));
			w.now += wait > 0 ? wait < SECOND ? wait : SECOND : 0;
			lowered += site_hear(&site, &w, &lowered_ns);
			since = lowered_ns;
		}
		assert_int_equal(lowered, 1);
		assert_int_equal(interval(), (w.settings.limit.period_ns / w.settings.limit.count + 99999) /
		    100000 * 100000);
	}
}

/* Whatever the site says, the next try comes within 8 periods or floor's interval; so any backlog
 * is tried, and what a site takes at last drains. */
TEST(nothing_starves) {
	struct random random = random_seeded("nothing_starves");

	for (int round = 0; round < 100; round++) {
		struct site site = { .first = 0 };
		int64_t angry = BEGIN + random_below(&random, 48) * HOUR, lowered_ns = 0, longest, last;
		unsigned left = 300;

		w = (struct world){ .settings = some_settings(&random), .now = BEGIN };
		longest = 8 * w.settings.up_ns;
		if (longest < HOUR / w.settings.floor.count)
			longest = HOUR / w.settings.floor.count;
		if (longest < w.settings.limit.period_ns / w.settings.limit.count)
			longest = w.settings.limit.period_ns / w.settings.limit.count;
		longest += longest / 1000 + MS;
		if (random_below(&random, 3) == 0)
			w.settings.limit.count = 0;
		for (last = w.now; left > 0;) {
			bool refused = w.now < angry && random_below(&random, 8) > 0;
			int64_t wait = take();

			assert_true(wait <= longest);
			if (wait == 0) {
				assert_true(w.now - last <= longest);
				last = w.now;
				site_send(&site, w.now, 10 * MS, refused);
				left -= !refused;
				wait = 20 * MS;
			}
			w.now += wait;
			site_hear(&site, &w, &lowered_ns);
		}
	}
}

/* Any bytes, any order: waits stay short, and it goes on like one that is sound. */
TEST(any_bytes) {
	struct random random = random_seeded("any_bytes");

	for (int round = 0; round < 20000; round++) {
		struct pace_view view;

		w = (struct world){ .settings = some_settings(&random), .now = BEGIN };
		if (random_below(&random, 2) == 0)
			w.settings.limit.count = 0;
		w.pace = (struct pace){ { random_next(&random), random_next(&random) } };
		for (int i = 0; i < 10; i++) {
			int64_t wait = pace_take(&w.pace, &w.settings, w.now);

			pace_look(&w.pace, &w.settings, w.now, &view);
			assert_true(view.interval_ns >= 0 && view.interval_ns <= PACE_INTERVAL_MOST_NS);
			assert_true(wait >= 0 && wait <= view.interval_ns);
			if (random_below(&random, 2) == 0)
				pace_refused(&w.pace, &w.settings, w.now, w.now);
			else
				pace_accepted(&w.pace, &w.settings, w.now, w.now);
			w.now += random_below(&random, 100) * MINUTE;
		}
	}
}
