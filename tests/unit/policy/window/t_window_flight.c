/* SPDX-License-Identifier: ISC */
/* Refusals of one flight, for the law probe: by hand, and by property in virtual time. */
#include "tests/unit/test.h"
#include "tests/unit/random.h"
#include "tests/unit/policy/window/window_bench.h"

#define MS	(SECOND / 1000)
#define RUNS	400

/* A no, or silence, of which no level is known; the log knows of nothing in flight. */
static void blind(struct bench *bench, bool answered, int64_t given, int64_t start) {
	struct window_result result = { .class = RESULT_SITE_FAILURE, .answered = answered,
		.given_ns = given, .start_ns = start };

	window_result(&bench->window, &bench->settings, &result, bench->now, &bench->change);
	assert_true(window_is_sound(&bench->window));
}

/* Mail for a site never seen goes by a lane of 5, all 60 at once.  Three are accepted, and take
 * half a second; whatever gets the other two places is refused in 5 ms.  Of 11 refusals each
 * takes one from the window until it is 1, and all together count as one of a cohort of 5.  Then
 * the three are heard of: 1/1, 1/2 and 1/2 make the window 3, and the levels that the log tells
 * late are 1, 2, 3 of these, and 4 of the refused. */
TEST_IN(begin_probe, NULL, sixty_at_once_to_a_site_that_takes_three_do_not_suspend_it) {
	static const uint32_t windows[] = { 4, 3, 2, 1, 1, 1, 1, 1, 1, 1, 1 };
	int64_t given;

	given = b.now;
	b.now += 50 * MS;
	for (size_t i = 0; i < sizeof(windows) / sizeof(windows[0]); i++) {
		blind(&b, true, given, b.now - 5 * MS);
		assert_false(b.change.died);
		stands(&b, windows[i], 0, 0, 0.2);
		b.now += 10 * MS;
	}
	b.now = given + SECOND / 2;
	for (int i = 0; i < 3; i++)
		tell(&b, RESULT_OK, 0, 0, SECOND / 2);
	stands(&b, 3, 0, 0, 0);
	for (uint32_t level = 1; level <= 3; level++)
		window_late_level(&b.window, &b.settings, RESULT_OK, level, b.now, &b.change);
	for (int i = 0; i < 11; i++)
		window_late_level(&b.window, &b.settings, RESULT_SITE_FAILURE, 4, b.now, &b.change);
	assert_int_equal(b.window.state, WINDOW_LIMITED);
	assert_int_equal(b.window.ceiling, 3);
	assert_int_equal(b.window.concurrency, 3);
}

/* What was given up to 0.4 s after the first no was heard is of its flight, if it starts within
 * 1 s of that; else it is the first of another. */
TEST(a_flight_has_an_end) {
	static const int64_t given[] = { -1, 0, SECOND, 400 * MS, 400 * MS + 1, 0, 0 };
	static const int64_t started[] = { 0, 0, SECOND, 400 * MS, 400 * MS + 1, SECOND, SECOND + 1 };
	static const double counted[] = { 0, 0, 0.2, 0, 0.2, 0, 0.2 };

	for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++) {
		int64_t first;

		begin(&b, WINDOW_LAW_PROBE, "1");
		first = b.now;
		blind(&b, true, first - MS, first - MS);
		b.now += 2 * SECOND;
		blind(&b, true, first + given[i], first + started[i]);
		stands(&b, 3, 0, 0, 0.2 + counted[i]);
		/* of the new one, or of none */
		blind(&b, true, b.now, b.now);
		stands(&b, 2, 0, 0, 0.4);
	}
}

/* Five flights, each of three, with nothing accepted: as many as are a cohort. */
TEST_IN(begin_probe, NULL, a_site_that_says_no_to_all_is_dead_after_five_flights) {
	for (int i = 1; i <= 5; i++) {
		b.now += SECOND;
		for (int j = 0; j < 3; j++) {
			assert_int_not_equal(b.window.state, WINDOW_DEAD);
			blind(&b, true, b.now, b.now);
			if (i == 5)
				break;
			assert_true(b.window.fail_cohorts < 0.2 * i + NEAR);
		}
	}
	assert_true(b.change.died);
	assert_int_equal(b.window.state, WINDOW_DEAD);
	assert_true(b.window.until_ns == b.now + 300 * SECOND);
	/* when it is back, what was before is over */
	b.now += 300 * SECOND;
	window_turn(&b.window, &b.settings, 0, b.now, &b.change);
	assert_int_equal(b.window.state, WINDOW_OPEN);
	assert_true(b.window.flight_ns == 0);
	blind(&b, true, b.now - 400 * SECOND, b.now);
	stands(&b, 4, 0, 0, 0.2);
}

/* Nobody answers, or it is not known when it started: five are five, as ever. */
TEST(a_dead_site_is_suspended_as_before) {
	for (int known = 0; known < 2; known++) {
		begin(&b, WINDOW_LAW_PROBE, "1");
		for (int i = 1; i <= 5; i++) {
			assert_int_not_equal(b.window.state, WINDOW_DEAD);
			blind(&b, known == 0, known ? b.now : 0, known ? b.now : 0);
		}
		assert_true(b.change.died);
	}
}

/* One that was accepted lately may have its place still: 1/32 each, flight or not. */
TEST_IN(begin_probe, NULL, what_is_refused_beside_others_counts_little) {
	struct window_result result = { .class = RESULT_SITE_FAILURE, .answered = true,
		.in_flight = 1 };

	result.start_ns = b.now;
	for (int i = 1; i <= 10; i++) {
		window_result(&b.window, &b.settings, &result, b.now, &b.change);
		assert_true(b.window.fail_cohorts < i / 160.0 + NEAR);
		assert_true(b.window.fail_cohorts > i / 160.0 - NEAR);
	}
	/* the other laws know of no flights: 1/5, then 1/3 */
	begin(&b, WINDOW_LAW_POSTFIX, "1");
	blind(&b, true, b.now, b.now);
	assert_int_equal(b.window.concurrency, 3);
	blind(&b, true, b.now, b.now);
	assert_true(b.window.fail_cohorts > 8.0 / 15 - NEAR);
}

/* --- in virtual time ------------------------------------------------------------ */

#define PLACES_MOST	20
#define MAIL_MOST	100

struct attempt {
	int64_t given, start, heard;
	bool accepted;
};

struct burst {
	uint32_t limit, places, mail;
	int64_t service, refusal, lag, spread;
};

static int64_t some_ms(struct random *random, uint32_t least, uint32_t most) {
	return (least + random_below(random, most - least + 1)) * MS;
}

/* Each message starts when it has come and one of the mail server's places is free; that of a
 * refused one is free again soon.  In the order of starts; returns how many were refused. */
static unsigned fly(struct random *random, const struct burst *burst, int64_t now,
    struct attempt out[MAIL_MOST]) {
	int64_t place[PLACES_MOST] = { 0 }, server[PLACES_MOST] = { 0 };
	unsigned refused = 0;

	for (uint32_t i = 0; i < burst->mail; i++) {
		struct attempt *one = &out[i];
		uint32_t at = 0, there = 0;
		int64_t end;

		one->given = now + burst->spread * i / burst->mail;
		for (uint32_t k = 1; k < burst->places; k++)
			at = place[k] < place[at] ? k : at;
		one->start = place[at] > one->given ? place[at] : one->given;
		for (uint32_t k = 0; k < burst->limit && server[there] > one->start; k++)
			there = k;
		one->accepted = server[there] <= one->start;
		end = one->start + (one->accepted ? burst->service : burst->refusal);
		if (one->accepted)
			server[there] = end;
		refused += !one->accepted;
		place[at] = end;
		one->heard = end + (burst->lag > 0 ? some_ms(random, 0, (uint32_t)(burst->lag / MS)) : 0);
	}
	return refused;
}

static void hear_all(struct bench *bench, struct attempt all[], uint32_t count) {
	for (uint32_t heard = 0; heard < count; heard++) {
		struct attempt *next = NULL;

		for (uint32_t i = 0; i < count; i++)
			if (all[i].heard != 0 && (next == NULL || all[i].heard < next->heard))
				next = &all[i];
		bench->now = next->heard;
		if (next->accepted)
			tell(bench, RESULT_OK, 0, 0, bench->now - next->start);
		else
			blind(bench, true, next->given, next->start);
		assert_false(bench->change.died);
		assert_true(bench->window.fail_cohorts < 2.0 / bench->settings.initial + NEAR);
		next->heard = 0;
	}
}

/* A burst in a queue that no window reaches any more, to a site that takes some at once, of
 * which the log knows nothing before they have ended: it is never suspended, and no more than
 * two flights in a row are refused.  Before, `initial` refusals were enough. */
TEST(bursts_never_suspend_a_site_that_lives) {
	struct random random = random_seeded("bursts_never_suspend_a_site_that_lives");
	unsigned deadly = 0;

	for (unsigned run = 0; run < RUNS; run++) {
		struct attempt all[MAIL_MOST];
		struct burst burst = { .limit = 1 + random_below(&random, 8),
			.mail = 20 + random_below(&random, MAIL_MOST - 19),
			.service = some_ms(&random, 20, 700), .refusal = some_ms(&random, 1, 40),
			.lag = some_ms(&random, 0, 100), .spread = some_ms(&random, 0, 300) };

		begin(&b, WINDOW_LAW_PROBE, "1");
		b.settings.initial = 3 + random_below(&random, 8);
		window_begin(&b.window, &b.settings);
		burst.places = b.settings.initial + random_below(&random, 10);
		deadly += fly(&random, &burst, b.now, all) >= b.settings.initial;
		hear_all(&b, all, burst.mail);
	}
	assert_true(deadly > RUNS / 4);
}

/* A site that says no to all, message after message, for as long as it takes: dead at the first
 * of the initial-th flight; each flight lasts 0.4 s or little more where mail keeps coming, and
 * 1 s at most where all was given at once. */
TEST(a_site_that_says_no_to_all_is_dead_soon) {
	struct random random = random_seeded("a_site_that_says_no_to_all_is_dead_soon");

	for (unsigned run = 0; run < RUNS; run++) {
		/* so many parts of 1 are 1 with this arithmetic */
		static const uint32_t initials[] = { 2, 3, 4, 5, 8 };
		bool at_once = random_below(&random, 2) == 0;
		int64_t gap = some_ms(&random, 1, 300), first, since;

		begin(&b, WINDOW_LAW_PROBE, "1");
		b.settings.initial = initials[random_below(&random, 5)];
		window_begin(&b.window, &b.settings);
		since = first = b.now;
		while (b.window.state != WINDOW_DEAD) {
			b.now += gap;
			blind(&b, true, at_once ? since : b.now - MS, b.now - MS);
			first = first == since ? b.now : first;
			assert_true(b.now - first < 20 * SECOND);
		}
		assert_true(b.now - first >= (b.settings.initial - 1) * (at_once ? SECOND : 400 * MS));
		assert_true(b.now - first <= (b.settings.initial - 1) *
		    ((at_once ? SECOND : 400 * MS) + gap + 2 * MS));
	}
}
