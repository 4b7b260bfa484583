/* SPDX-License-Identifier: ISC */
/* The laws of windows, with numbers worked out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "policy/window.h"

#define SECOND	INT64_C(1000000000)
#define NEAR	1e-12

struct bench {
	struct window_settings settings;
	struct window window;
	struct window_change change;
	int64_t now;
};

static void begin(struct bench *bench, enum window_law law, const char *feedback)
{
	bench->settings = window_defaults;
	bench->settings.law = law;
	assert_true(window_feedback_parse(feedback, strlen(feedback),
	    &bench->settings.positive));
	bench->settings.negative = bench->settings.positive;
	bench->now = 1000 * SECOND;
	window_begin(&bench->window, &bench->settings);
}

static void tell(struct bench *bench, enum result_class class, uint32_t level,
    uint32_t in_flight, int64_t took)
{
	struct window_result result = { .class = class, .level = level,
		.in_flight = in_flight, .start_ns = took > 0 ? bench->now - took : 0 };

	window_result(&bench->window, &bench->settings, &result, bench->now, &bench->change);
	assert_true(window_is_sound(&bench->window));
}

/* `count` results, with the window full. */
static void good(struct bench *bench, unsigned count)
{
	while (count-- > 0)
		tell(bench, RESULT_OK, 0, bench->window.concurrency - 1u, 0);
}

static void bad(struct bench *bench, unsigned count)
{
	while (count-- > 0)
		tell(bench, RESULT_SITE_FAILURE, 0, bench->window.concurrency - 1u, 0);
}

static void stands(const struct bench *bench, uint32_t window, double success,
    double failure, double cohorts)
{
	assert_int_equal(bench->window.concurrency, window);
	assert_true(bench->window.success > success - NEAR);
	assert_true(bench->window.success < success + NEAR);
	assert_true(bench->window.failure > failure - NEAR);
	assert_true(bench->window.failure < failure + NEAR);
	assert_true(bench->window.fail_cohorts > cohorts - NEAR);
	assert_true(bench->window.fail_cohorts < cohorts + NEAR);
}

/* --- document and postfix ------------------------------------------------------ */

/* Five fifths make 6; one failure there takes 1/6 of -1 at once. */
static void document_per_concurrency(void **state)
{
	struct bench b;

	(void)state;
	begin(&b, WINDOW_LAW_DOCUMENT, "1/concurrency");
	stands(&b, 5, 0, 0, 0);
	good(&b, 4);
	stands(&b, 5, 0.8, 0, 0);
	assert_false(b.change.window);
	good(&b, 1);
	stands(&b, 6, 0, 0, 0);
	assert_true(b.change.window);
	bad(&b, 1);
	stands(&b, 5, 0, 5.0 / 6, 1.0 / 6);
	bad(&b, 4);
	stands(&b, 5, 0, 1.0 / 30, 1.0 / 6 + 4.0 / 5);
	good(&b, 2);
	stands(&b, 5, 0.4, 1.0 / 30, 0);
	bad(&b, 1);
	stands(&b, 4, 0, 5.0 / 6, 0.2);
}

static void the_laws_differ_at_feedback_1(void **state)
{
	struct bench d, p;

	(void)state;
	begin(&d, WINDOW_LAW_DOCUMENT, "1");
	begin(&p, WINDOW_LAW_POSTFIX, "1");
	good(&d, 1);
	good(&p, 1);
	stands(&d, 6, 0, 0, 0);
	stands(&p, 6, 0, 0, 0);
	/* The half step: the first failure after a raise counts twice. */
	bad(&d, 1);
	bad(&p, 1);
	stands(&d, 5, 0, 0, 1.0 / 6);
	stands(&p, 4, 0, 1, 1.0 / 6);
	bad(&d, 1);
	bad(&p, 1);
	stands(&d, 4, 0, 0, 1.0 / 6 + 1.0 / 5);
	stands(&p, 3, 0, 1, 1.0 / 6 + 1.0 / 4);
}

/* 5-10-20: +1 a good delivery doubles the window with each pseudo-cohort. */
static void overshoot(void **state)
{
	struct bench b;

	(void)state;
	for (int law = WINDOW_LAW_POSTFIX; law <= WINDOW_LAW_DOCUMENT; law++) {
		begin(&b, (enum window_law)law, "1");
		good(&b, 5);
		assert_int_equal(b.window.concurrency, 10);
		good(&b, 10);
		assert_int_equal(b.window.concurrency, 20);
		good(&b, 1);
		assert_int_equal(b.window.concurrency, 20);	/* the limit */
	}
}

static void sqrt_and_fractions(void **state)
{
	struct bench b;

	(void)state;
	begin(&b, WINDOW_LAW_DOCUMENT, "1/sqrt_concurrency");
	b.settings.initial = 4;
	window_begin(&b.window, &b.settings);
	good(&b, 1);
	stands(&b, 4, 0.5, 0, 0);
	good(&b, 1);
	stands(&b, 5, 0, 0, 0);
	bad(&b, 1);
	stands(&b, 4, 0, 1 - 0.4472135954999579, 0.2);
	begin(&b, WINDOW_LAW_POSTFIX, "1/sqrt_concurrency");	/* 1, there */
	good(&b, 1);
	stands(&b, 6, 0, 0, 0);
	begin(&b, WINDOW_LAW_POSTFIX, "1/4");
	good(&b, 3);
	stands(&b, 5, 0.75, 0, 0);
	good(&b, 1);
	stands(&b, 6, 0, 0, 0);
	bad(&b, 3);
	stands(&b, 5, 0, 0.25, 1.0 / 6 + 2.0 / 5);
	bad(&b, 1);	/* 0 - 1/8 is less than nothing */
	stands(&b, 4, 0, 1, 1.0 / 6 + 3.0 / 5);
}

/* Only while window < busy + initial, busy with the one that has just ended. */
static void positive_feedback_only_in_use(void **state)
{
	struct bench b;

	(void)state;
	for (int law = WINDOW_LAW_PROBE; law <= WINDOW_LAW_DOCUMENT; law++) {
		begin(&b, (enum window_law)law, "1");
		for (int i = 0; i < 5; i++)
			tell(&b, RESULT_OK, 1, 0, 0);
		assert_int_equal(b.window.concurrency, 6);
		for (int i = 0; i < 50; i++)
			tell(&b, RESULT_OK, 1, 0, 0);
		assert_int_equal(b.window.concurrency, 6);
		for (int i = 0; i < 6; i++)
			tell(&b, RESULT_OK, 2, 1, 0);
		assert_int_equal(b.window.concurrency, 7);
	}
}

/* At 5 with feedback 1/concurrency: five failures are 1/5 + 1/4 + 1/4 + 1/4 = 0.95
 * and then 1/4 more in the document's law, 1/3 more in Postfix's. */
static void dead_after_a_cohort(void **state)
{
	struct bench b;

	(void)state;
	begin(&b, WINDOW_LAW_DOCUMENT, "1/concurrency");
	bad(&b, 4);
	stands(&b, 4, 0, 0.05, 0.95);
	assert_int_equal(b.window.state, WINDOW_OPEN);
	bad(&b, 1);
	assert_true(b.change.died);
	assert_int_equal(b.window.state, WINDOW_DEAD);
	assert_int_equal(window_now(&b.window, &b.settings, b.now), 0);
	begin(&b, WINDOW_LAW_POSTFIX, "1/concurrency");
	bad(&b, 4);
	stands(&b, 3, 0, 1.05, 0.95);
	bad(&b, 1);
	assert_true(b.change.died);
	/* "More than" one cohort and "as many". */
	for (int law = WINDOW_LAW_POSTFIX; law <= WINDOW_LAW_DOCUMENT; law++) {
		begin(&b, (enum window_law)law, "0");
		bad(&b, 4);
		assert_int_equal(b.window.state, WINDOW_OPEN);
		bad(&b, 1);
		stands(&b, 5, 0, 0, 1);
		assert_int_equal(b.change.died, law == WINDOW_LAW_POSTFIX);
		bad(&b, 1);
		assert_int_equal(b.window.state, WINDOW_DEAD);
	}
	/* Never. */
	begin(&b, WINDOW_LAW_POSTFIX, "1");
	b.settings.failed_cohort_limit = 0;
	bad(&b, 1000);
	assert_int_equal(b.window.state, WINDOW_OPEN);
	assert_int_equal(b.window.concurrency, 1);
}

static void back_from_the_dead(void **state)
{
	struct bench b;

	(void)state;
	for (int law = WINDOW_LAW_PROBE; law <= WINDOW_LAW_DOCUMENT; law++) {
		begin(&b, (enum window_law)law, "0");
		bad(&b, 6);
		assert_int_equal(b.window.state, WINDOW_DEAD);
		assert_int_equal(b.window.until_ns, b.now + 300 * SECOND);
		/* More of the same changes nothing, nor does what is nobody's fault. */
		bad(&b, 3);
		tell(&b, RESULT_LOCAL, 0, 2, 0);
		tell(&b, RESULT_SUSPENDED, 0, 2, 0);
		assert_int_equal(b.window.until_ns, b.now + 300 * SECOND);
		/* What was under way and ends well: as many as are in flight. */
		tell(&b, RESULT_RCPT_TEMPORARY, 0, 2, 0);
		assert_true(b.change.revived);
		stands(&b, 3, 0, 0, 0);
		/* Or time: in flight, else initial. */
		bad(&b, 6);
		assert_int_equal(b.window.state, WINDOW_DEAD);
		b.now += 300 * SECOND - 1;
		window_turn(&b.window, &b.settings, 0, b.now, &b.change);
		assert_false(b.change.revived);
		b.now += 1;
		assert_int_equal(window_now(&b.window, &b.settings, b.now), 5);
		window_turn(&b.window, &b.settings, 2, b.now, &b.change);
		assert_true(b.change.revived);
		stands(&b, 2, 0, 0, 0);
		bad(&b, 6);
		b.now += 300 * SECOND;
		window_turn(&b.window, &b.settings, 0, b.now, &b.change);
		stands(&b, 5, 0, 0, 0);
	}
}

/* --- probe ------------------------------------------------------------------------ */

/* A limiter of 5: level 6 is refused, believed at once, and one canary goes after 10,
 * 20, 40 s ... */
static void probe_remembers(void **state)
{
	static const int intervals[] = { 10, 20, 40, 80, 160, 320, 600, 600 };
	struct bench b;
	struct window_result canary = { .class = RESULT_SITE_FAILURE, .level = 6,
		.in_flight = 5, .canary = true };

	(void)state;
	begin(&b, WINDOW_LAW_PROBE, "1");
	for (uint32_t level = 1; level <= 5; level++)
		tell(&b, RESULT_OK, level, 4, 2 * SECOND);
	assert_int_equal(b.window.concurrency, 6);
	assert_int_equal(b.window.state, WINDOW_OPEN);
	tell(&b, RESULT_SITE_FAILURE, 6, 5, SECOND / 20);
	assert_true(b.change.window);
	assert_int_equal(b.window.ceiling, 5);
	assert_int_equal(b.window.state, WINDOW_LIMITED);
	stands(&b, 5, 0, 0, 0);
	b.now -= SECOND / 20;	/* intervals count from the start of the refused one */
	for (size_t i = 0; i < sizeof(intervals) / sizeof(intervals[0]); i++) {
		b.now += intervals[i] * SECOND - 1;
		assert_false(window_canary_due(&b.window, &b.settings, b.now));
		b.now++;
		assert_true(window_canary_due(&b.window, &b.settings, b.now));
		window_canary_issued(&b.window, &b.settings, b.now + 600 * SECOND);
		assert_false(window_canary_due(&b.window, &b.settings, b.now));
		window_result(&b.window, &b.settings, &canary, b.now, &b.change);
		assert_int_equal(b.window.ceiling, 5);
	}
	good(&b, 20);
	assert_int_equal(b.window.concurrency, 5);
}

static void probe_goes_up_by_canaries(void **state)
{
	struct bench b;
	struct window_result canary = { .class = RESULT_OK, .in_flight = 5, .canary = true };

	(void)state;
	begin(&b, WINDOW_LAW_PROBE, "1");
	window_set_ceiling(&b.window, &b.settings, 5, b.now);
	assert_int_equal(b.window.state, WINDOW_LIMITED);
	/* Who was told asks late. */
	assert_false(window_canary_due(&b.window, &b.settings, b.now + 600 * SECOND - 1));
	b.now += 600 * SECOND;
	assert_true(window_canary_due(&b.window, &b.settings, b.now));
	window_canary_issued(&b.window, &b.settings, b.now + 60 * SECOND);
	/* Two that found room below the ceiling, and one above it. */
	canary.level = 5;
	window_result(&b.window, &b.settings, &canary, b.now, &b.change);
	assert_int_equal(b.window.ceiling, 5);
	assert_false(window_canary_due(&b.window, &b.settings, b.now + 10 * SECOND - 1));
	b.now += 10 * SECOND;
	assert_true(window_canary_due(&b.window, &b.settings, b.now));
	window_canary_issued(&b.window, &b.settings, b.now + 60 * SECOND);
	canary.level = 6;
	window_result(&b.window, &b.settings, &canary, b.now, &b.change);
	assert_int_equal(b.window.ceiling, 6);
	assert_int_equal(b.window.concurrency, 6);
	b.now += 10 * SECOND;
	window_canary_issued(&b.window, &b.settings, b.now + 60 * SECOND);
	canary.level = 0;	/* a log does not tell; that it was one is enough */
	window_result(&b.window, &b.settings, &canary, b.now, &b.change);
	assert_int_equal(b.window.ceiling, 7);
	/* A second answer to one question, or none. */
	window_result(&b.window, &b.settings, &canary, b.now, &b.change);
	assert_int_equal(b.window.ceiling, 7);
	b.now += 10 * SECOND;
	window_canary_issued(&b.window, &b.settings, b.now + 60 * SECOND);
	b.now += 60 * SECOND;
	window_turn(&b.window, &b.settings, 7, b.now, &b.change);
	assert_false(b.window.canary_out);
	assert_true(window_canary_due(&b.window, &b.settings, b.now + 10 * SECOND));
	/* Nowhere to go. */
	b.settings.limit = 7;
	assert_false(window_canary_due(&b.window, &b.settings, b.now + 10 * SECOND));
}

static void send_canary(struct bench *bench, enum result_class class, uint32_t level)
{
	struct window_result result = { .class = class, .level = level, .canary = true,
		.in_flight = bench->window.ceiling };

	assert_true(window_canary_due(&bench->window, &bench->settings, bench->now));
	window_canary_issued(&bench->window, &bench->settings, bench->now + 60 * SECOND);
	window_result(&bench->window, &bench->settings, &result, bench->now, &bench->change);
	assert_true(window_is_sound(&bench->window));
}

/* A limiter of 2, found, that takes any number by now. */
static void begin_climb(struct bench *bench)
{
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
static void canaries_climb(void **state)
{
	static const uint16_t ceilings[] = { 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
		18, 20, 22, 24, 27, 30, 33, 37, 41, 46 };
	struct bench b;

	(void)state;
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
static void a_climb_that_goes_too_far(void **state)
{
	struct bench b;

	(void)state;
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
}

/* Nobody learned that they are refused for ten minutes, but 2000 went well since. */
static void canaries_that_cost_little(void **state)
{
	struct bench b;

	(void)state;
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

/* Accepted at 8 a moment ago: three refusals at 8 and less are doubted, four in a row
 * are not, and then every one that follows is believed. */
static void probe_doubts(void **state)
{
	struct bench b;

	(void)state;
	begin(&b, WINDOW_LAW_PROBE, "1");
	b.settings.initial = 10;
	window_begin(&b.window, &b.settings);
	tell(&b, RESULT_OK, 8, 9, 2 * SECOND);
	tell(&b, RESULT_SITE_FAILURE, 8, 9, SECOND / 20);
	tell(&b, RESULT_SITE_FAILURE, 7, 9, SECOND / 20);
	tell(&b, RESULT_SITE_FAILURE, 7, 9, SECOND / 20);
	assert_int_equal(b.window.ceiling, 0);
	assert_int_equal(b.window.concurrency, 10);
	tell(&b, RESULT_SITE_FAILURE, 7, 9, SECOND / 20);
	assert_int_equal(b.window.ceiling, 6);
	assert_int_equal(b.window.concurrency, 6);
	/* Above the ceiling: old news. */
	tell(&b, RESULT_SITE_FAILURE, 9, 9, SECOND / 20);
	assert_int_equal(b.window.ceiling, 6);
	tell(&b, RESULT_SITE_FAILURE, 5, 9, SECOND / 20);
	assert_int_equal(b.window.ceiling, 4);
	/* After 600 s nobody remembers. */
	begin(&b, WINDOW_LAW_PROBE, "1");
	tell(&b, RESULT_OK, 4, 4, 2 * SECOND);
	b.now += 600 * SECOND;
	tell(&b, RESULT_SITE_FAILURE, 4, 4, SECOND / 20);
	assert_int_equal(b.window.ceiling, 3);
}

/* Between two refusals at level 8 one delivery ended: somebody was accepted there. */
static void probe_knows_chance(void **state)
{
	struct bench b;

	(void)state;
	begin(&b, WINDOW_LAW_PROBE, "1");
	b.settings.initial = 10;
	window_begin(&b.window, &b.settings);
	tell(&b, RESULT_OK, 8, 7, 2 * SECOND);
	for (int i = 0; i < 30; i++) {
		tell(&b, RESULT_SITE_FAILURE, 8, 7, SECOND / 20);
		b.now += SECOND / 10;
		tell(&b, RESULT_OK, 8, 7, 2 * SECOND);
		b.now += SECOND;
	}
	assert_int_equal(b.window.ceiling, 0);
	/* By now one refusal at a new level is not believed, either. */
	tell(&b, RESULT_SITE_FAILURE, 9, 8, SECOND / 20);
	assert_int_equal(b.window.ceiling, 0);
}

/* The first refusal is believed; then the burst that it was of is accepted. */
static void probe_corrects_itself(void **state)
{
	struct bench b;

	(void)state;
	begin(&b, WINDOW_LAW_PROBE, "1");
	tell(&b, RESULT_SITE_FAILURE, 2, 4, SECOND / 20);
	assert_int_equal(b.window.ceiling, 1);
	b.now += 2 * SECOND;
	tell(&b, RESULT_OK, 4, 3, 2 * SECOND + SECOND / 20);
	assert_int_equal(b.window.ceiling, 0);
	/* What began before it proves nothing. */
	begin(&b, WINDOW_LAW_PROBE, "1");
	tell(&b, RESULT_SITE_FAILURE, 3, 4, SECOND / 20);
	b.now += 2 * SECOND;
	tell(&b, RESULT_OK, 4, 3, 4 * SECOND);
	assert_int_equal(b.window.ceiling, 2);
}

/* Refused with nothing else in flight: a matter of cohorts, of five here as in
 * postfix, whatever the ceiling was; when it is back the ceiling is not believed. */
static void probe_dies_by_cohorts(void **state)
{
	struct bench b;

	(void)state;
	begin(&b, WINDOW_LAW_PROBE, "1");
	tell(&b, RESULT_SITE_FAILURE, 3, 2, SECOND / 20);
	assert_int_equal(b.window.concurrency, 2);
	for (int i = 0; i < 4; i++)
		tell(&b, RESULT_SITE_FAILURE, 1, 0, SECOND / 20);
	assert_int_not_equal(b.window.state, WINDOW_DEAD);
	assert_int_equal(b.window.concurrency, 2);
	tell(&b, RESULT_SITE_FAILURE, 1, 0, SECOND / 20);
	assert_true(b.change.died);
	assert_int_equal(b.window.ceiling, 0);
	begin(&b, WINDOW_LAW_PROBE, "1");
	window_set_ceiling(&b.window, &b.settings, 3, b.now);
	for (int i = 0; i < 5; i++)
		tell(&b, RESULT_SITE_FAILURE, 1, 0, SECOND / 20);
	assert_true(b.change.died);
	assert_int_equal(b.window.ceiling, 3);	/* somebody told it */
	b.now += 300 * SECOND;
	window_turn(&b.window, &b.settings, 0, b.now, &b.change);
	assert_int_equal(b.window.state, WINDOW_LIMITED);
	assert_int_equal(b.window.concurrency, 3);
}

/* A log tells the level later: until then the window goes down as 1/concurrency would,
 * then the ceiling is found, or what was taken is given back. */
static void levels_that_come_late(void **state)
{
	struct bench b;

	(void)state;
	begin(&b, WINDOW_LAW_PROBE, "1");
	good(&b, 5);
	assert_int_equal(b.window.concurrency, 6);
	bad(&b, 1);
	stands(&b, 5, 0, 5.0 / 6, 1.0 / 6);
	assert_int_equal(b.window.ceiling, 0);
	for (int i = 0; i < 5; i++)
		window_late_level(&b.window, &b.settings, RESULT_OK, 5, b.now, &b.change);
	window_late_level(&b.window, &b.settings, RESULT_SITE_FAILURE, 6, b.now, &b.change);
	assert_true(b.change.window);
	assert_int_equal(b.window.ceiling, 5);
	assert_int_equal(b.window.state, WINDOW_LIMITED);
	assert_int_equal(b.window.concurrency, 5);
	/* Chance, below what is accepted. */
	bad(&b, 3);
	assert_int_equal(b.window.concurrency, 5);
	good(&b, 1);
	bad(&b, 2);
	assert_int_equal(b.window.concurrency, 4);
	window_late_level(&b.window, &b.settings, RESULT_SITE_FAILURE, 5, b.now, &b.change);
	assert_int_equal(b.window.concurrency, 5);
	/* Never known. */
	window_late_level(&b.window, &b.settings, RESULT_SITE_FAILURE, 0, b.now, &b.change);
	window_late_level(&b.window, &b.settings, RESULT_OK, 0, b.now, &b.change);
	assert_false(b.change.window);
	/* The other laws have no use for it. */
	begin(&b, WINDOW_LAW_POSTFIX, "1");
	window_late_level(&b.window, &b.settings, RESULT_SITE_FAILURE, 3, b.now, &b.change);
	assert_false(b.change.window);
	assert_int_equal(b.window.ceiling, 0);
}

/* A limit fell from 12 to 7, and somebody told; lanes of 12 drain still, and are refused
 * what is too much: the window stays, and the site is not dead. */
static void what_drains_above_a_known_ceiling(void **state)
{
	struct bench b;

	(void)state;
	begin(&b, WINDOW_LAW_PROBE, "1");
	window_set_ceiling(&b.window, &b.settings, 7, b.now);
	window_resume(&b.window, &b.settings, 7);
	for (unsigned i = 0; i < 100; i++)
		tell(&b, RESULT_SITE_FAILURE, 0, 7, 0);
	stands(&b, 7, 0, 0, 0);
	/* with room below the ceiling each counts: 1/7 of a cohort */
	tell(&b, RESULT_SITE_FAILURE, 0, 6, 0);
	assert_int_equal(b.window.concurrency, 6);
	stands(&b, 6, 0, 1 - 1.0 / 7, 1.0 / 7);
	for (unsigned i = 0; i < 6; i++)
		tell(&b, RESULT_SITE_FAILURE, 0, 0, 0);
	assert_int_equal(b.window.state, WINDOW_DEAD);
}

static void who_listens_to_throttling(void **state)
{
	struct bench b;

	(void)state;
	begin(&b, WINDOW_LAW_PROBE, "1");
	tell(&b, RESULT_REMOTE_THROTTLE, 4, 3, SECOND);
	assert_int_equal(b.window.ceiling, 3);
	for (int law = WINDOW_LAW_POSTFIX; law <= WINDOW_LAW_DOCUMENT; law++) {
		begin(&b, (enum window_law)law, "1");
		tell(&b, RESULT_REMOTE_THROTTLE, 4, 4, SECOND);
		assert_int_equal(b.window.concurrency, 6);
		tell(&b, RESULT_RCPT_TEMPORARY, 4, 4, SECOND);
		tell(&b, RESULT_PERMANENT, 4, 4, SECOND);
		assert_int_equal(b.window.concurrency, 8);
		tell(&b, RESULT_LOCAL, 4, 4, SECOND);
		tell(&b, RESULT_SUSPENDED, 4, 4, SECOND);
		assert_int_equal(b.window.concurrency, 8);
	}
}

/* --- by rule and by hand ---------------------------------------------------------- */

static void by_rule_and_by_hand(void **state)
{
	struct bench b;

	(void)state;
	begin(&b, WINDOW_LAW_PROBE, "1");
	good(&b, 11);
	assert_int_equal(b.window.concurrency, 7);
	window_suspend(&b.window, b.now + 3600 * SECOND);
	assert_int_equal(window_now(&b.window, &b.settings, b.now), 0);
	good(&b, 1);	/* no good news overrule a rule */
	assert_int_equal(b.window.state, WINDOW_DEAD);
	window_suspend(&b.window, b.now + 60 * SECOND);	/* nor does a shorter one */
	assert_int_equal(b.window.until_ns, b.now + 3600 * SECOND);
	window_hold(&b.window, INT64_MAX);
	window_suspend(&b.window, b.now);
	assert_int_equal(b.window.state, WINDOW_HELD);
	window_turn(&b.window, &b.settings, 0, INT64_MAX - 1, &b.change);
	assert_int_equal(b.window.state, WINDOW_HELD);
	window_resume(&b.window, &b.settings, 0);
	assert_int_equal(b.window.state, WINDOW_OPEN);
	assert_int_equal(window_now(&b.window, &b.settings, b.now), 7);
	window_resume(&b.window, &b.settings, 30);
	assert_int_equal(window_now(&b.window, &b.settings, b.now), 20);
	window_hold(&b.window, b.now + 1);
	window_turn(&b.window, &b.settings, 0, b.now + 1, &b.change);
	assert_true(b.change.revived);
	stands(&b, 20, 0, 0, 0);
	window_set_ceiling(&b.window, &b.settings, 4, b.now);
	assert_int_equal(b.window.state, WINDOW_LIMITED);
	assert_int_equal(window_now(&b.window, &b.settings, b.now), 4);
	window_set_ceiling(&b.window, &b.settings, 0, b.now);
	assert_int_equal(b.window.state, WINDOW_OPEN);
	b.settings.limit = 3;
	b.settings.law = WINDOW_LAW_POSTFIX;
	assert_int_equal(window_now(&b.window, &b.settings, b.now), 3);
	window_adjust(&b.window, &b.settings);
	assert_int_equal(b.window.concurrency, 3);
	assert_int_equal(b.window.law, WINDOW_LAW_POSTFIX);
}

static void feedback_forms(void **state)
{
	static const char *const wrong[] = { "", " ", "x", "-1", "2", "1.5", "1/", "/2",
		"1/0", "3/2", "1/concurrenc", "1/concurrencyx", "1/sqrt", "1 2", "1e0", "1..0",
		".", "1/.", "0.1234567890123456", "nan", "1/4 x" };
	static const struct {
		const char *text;
		enum window_feedback_form form;
		double amount;
	} right[] = {
		{ "1", FEEDBACK_FIXED, 1 },
		{ "0", FEEDBACK_FIXED, 0 },
		{ " 0.5 ", FEEDBACK_FIXED, 0.5 },
		{ ".5", FEEDBACK_FIXED, 0.5 },
		{ "1/4", FEEDBACK_FIXED, 0.25 },
		{ "1 / 3", FEEDBACK_FIXED, 1.0 / 3 },
		{ "0.1/2.5", FEEDBACK_FIXED, 0.1 / 2.5 },
		{ "1/concurrency", FEEDBACK_PER_CONCURRENCY, 1 },
		{ "0.25 / sqrt_concurrency", FEEDBACK_PER_SQRT_CONCURRENCY, 0.25 },
	};
	struct window_feedback feedback;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_false(window_feedback_parse(wrong[i], strlen(wrong[i]), &feedback));
	for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
		assert_true(window_feedback_parse(right[i].text, strlen(right[i].text),
		    &feedback));
		assert_int_equal(feedback.form, right[i].form);
		assert_true(feedback.amount == right[i].amount);
	}
}

static void what_is_no_window(void **state)
{
	struct window zeros = { .concurrency = 0 };
	struct bench b;

	(void)state;
	assert_false(window_is_sound(&zeros));
	begin(&b, WINDOW_LAW_PROBE, "1");
	assert_true(window_is_sound(&b.window));
	b.window.state = WINDOW_LIMITED;	/* by what? */
	assert_false(window_is_sound(&b.window));
	b.window.ceiling = 3;
	assert_true(window_is_sound(&b.window));
	b.window.success = 1.0 / 0.0;
	assert_false(window_is_sound(&b.window));
	b.window.success = 0.0 / 0.0;
	assert_false(window_is_sound(&b.window));
	b.window.success = 0;
	b.window.law = WINDOW_LAW_COUNT;
	assert_false(window_is_sound(&b.window));
	assert_string_equal(window_law_word(WINDOW_LAW_PROBE), "probe");
	assert_string_equal(window_law_word(WINDOW_LAW_POSTFIX), "postfix");
	assert_string_equal(window_law_word(WINDOW_LAW_DOCUMENT), "document");
	assert_string_equal(window_state_word(WINDOW_LIMITED), "limited");
	assert_string_equal(window_state_word(WINDOW_HELD), "held");
}

/* Nothing would ever raise it. */
static void a_ceiling_that_probe_found_does_not_bind_other_laws(void **state)
{
	struct window_settings probe = window_defaults, postfix = window_defaults;
	struct window_result refused = { .class = RESULT_SITE_FAILURE, .level = 3,
		.in_flight = 2, .start_ns = 1 };
	struct window_result good = { .class = RESULT_OK, .in_flight = 50 };
	struct window_change change;
	struct window window;

	(void)state;
	postfix.law = WINDOW_LAW_POSTFIX;
	window_begin(&window, &probe);
	window_result(&window, &probe, &refused, 2, &change);
	assert_int_equal(window.ceiling, 2);
	window_adjust(&window, &postfix);
	assert_true(window_is_sound(&window));
	for (int i = 0; i < 100; i++)
		window_result(&window, &postfix, &good, 3 + i, &change);
	assert_int_equal(window_now(&window, &postfix, 1000), 20);
	/* one that was told does */
	window_set_ceiling(&window, &postfix, 4, 1000);
	window_adjust(&window, &probe);
	window_adjust(&window, &postfix);
	assert_int_equal(window_now(&window, &postfix, 1000), 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(document_per_concurrency),
		cmocka_unit_test(the_laws_differ_at_feedback_1),
		cmocka_unit_test(overshoot),
		cmocka_unit_test(sqrt_and_fractions),
		cmocka_unit_test(positive_feedback_only_in_use),
		cmocka_unit_test(dead_after_a_cohort),
		cmocka_unit_test(back_from_the_dead),
		cmocka_unit_test(probe_remembers),
		cmocka_unit_test(probe_goes_up_by_canaries),
		cmocka_unit_test(canaries_climb),
		cmocka_unit_test(a_climb_that_goes_too_far),
		cmocka_unit_test(canaries_that_cost_little),
		cmocka_unit_test(probe_doubts),
		cmocka_unit_test(probe_knows_chance),
		cmocka_unit_test(probe_corrects_itself),
		cmocka_unit_test(probe_dies_by_cohorts),
		cmocka_unit_test(levels_that_come_late),
		cmocka_unit_test(what_drains_above_a_known_ceiling),
		cmocka_unit_test(who_listens_to_throttling),
		cmocka_unit_test(by_rule_and_by_hand),
		cmocka_unit_test(feedback_forms),
		cmocka_unit_test(what_is_no_window),
		cmocka_unit_test(a_ceiling_that_probe_found_does_not_bind_other_laws),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
