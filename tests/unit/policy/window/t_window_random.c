/* SPDX-License-Identifier: ISC */
/*
 * The laws of windows by property: whatever happens in whatever order, the state stays
 * sound and within its bounds; document and postfix are, number by number, what their
 * sources say, written here once more as they stand there.
 */
#include "tests/unit/test.h"
#include "policy/window/level.h"
#include "policy/window/window.h"
#include "tests/unit/random.h"

#define SECOND	INT64_C(1000000000)
#define WORLDS	400
#define STEPS	1500

static struct window_feedback some_feedback(struct random *random) {
	struct window_feedback feedback = {
		.form = (enum window_feedback_form)random_below(random, 3),
		.amount = random_below(random, 9) / 8.0,
	};

	return feedback;
}

static struct window_settings some_settings(struct random *random) {
	struct window_settings settings = window_defaults;

	settings.law = (enum window_law)random_below(random, WINDOW_LAW_COUNT);
	settings.initial = 1 + random_below(random, 20);
	settings.limit = random_below(random, 4) == 0 ? 0 : 1 + random_below(random, 40);
	settings.positive = some_feedback(random);
	settings.negative = some_feedback(random);
	settings.failed_cohort_limit = random_below(random, 4);
	settings.suspend_ns = random_below(random, 300) * SECOND;
	settings.believe_refusals = random_below(random, 6);
	return settings;
}

/* --- as the sources have them ------------------------------------------------------- */

struct source {
	int concurrency;	/* 0: dead */
	double fail_cohorts;
	float success, failure;	/* as a window keeps them */
};

static double amount(const struct window_settings *p,
    const struct window_feedback *feedback, int n) {
	double root = n;

	if (feedback->form == FEEDBACK_PER_CONCURRENCY)
		return feedback->amount / n;
	if (feedback->form == FEEDBACK_FIXED)
		return feedback->amount;
	if (p->law == WINDOW_LAW_POSTFIX)
		return 1;	/* QMGR_FEEDBACK_IDX_SQRT_WIN is not defined */
	for (double next = (n + 1) / 2.0; next < root; next = (root + n / root) / 2)
		root = next;
	return feedback->amount / root;
}

/* The seed document, "Pseudocode for the Postfix 2.5 concurrency scheduler". */
static void document_success(struct source *s, const struct window_settings *p, int busy) {
	s->fail_cohorts = 0;
	if (s->concurrency >= busy + (int)p->initial)
		return;
	s->success = (float)(s->success + amount(p, &p->positive, s->concurrency));
	while (s->success >= 1) {
		s->concurrency += 1;
		s->failure = 0;
		s->success -= 1;
	}
	if (p->limit > 0 && s->concurrency > (int)p->limit)
		s->concurrency = (int)p->limit;
}

static void document_failure(struct source *s, const struct window_settings *p) {
	double f;

	s->fail_cohorts += 1.0 / s->concurrency;
	if (p->failed_cohort_limit > 0 && s->fail_cohorts > p->failed_cohort_limit) {
		s->concurrency = 0;
		return;
	}
	f = amount(p, &p->negative, s->concurrency);
	s->failure = (float)(s->failure - f);
	while (s->failure < 0) {
		s->concurrency -= 1;
		s->failure += 1;
		s->success = 0;
	}
	if (s->concurrency < 1)
		s->concurrency = 1;
}

/* qmgr_queue_unthrottle and qmgr_queue_throttle of Postfix 3.7, for a queue that lives. */
static void postfix_success(struct source *s, const struct window_settings *p, int busy) {
	double feedback;

	s->fail_cohorts = 0;
	if (p->limit != 0 && (int)p->limit <= s->concurrency)
		return;
	if (s->concurrency >= busy + (int)p->initial)
		return;
	feedback = amount(p, &p->positive, s->concurrency);
	s->success = (float)(s->success + feedback);
	while (s->success + feedback / 2 >= 1) {
		s->concurrency += 1;
		s->success -= 1;
		s->failure = 0;
	}
	if (p->limit > 0 && s->concurrency > (int)p->limit)
		s->concurrency = (int)p->limit;
}

static void postfix_failure(struct source *s, const struct window_settings *p) {
	double feedback;

	s->fail_cohorts += 1.0 / s->concurrency;
	if (p->failed_cohort_limit > 0 && s->fail_cohorts >= p->failed_cohort_limit) {
		s->concurrency = 0;
		return;
	}
	feedback = amount(p, &p->negative, s->concurrency);
	s->failure = (float)(s->failure - feedback);
	while (s->failure - feedback / 2 < 0) {
		s->concurrency -= 1;
		s->success = 0;
		s->failure += 1;
	}
	if (s->concurrency < 1)
		s->concurrency = 1;
}

TEST(as_the_sources) {
	struct random random = random_seeded("as_the_sources");

	for (int world = 0; world < WORLDS; world++) {
		struct window_settings p = some_settings(&random);
		struct window_change change;
		struct window window;
		struct source s = { .concurrency = (int)p.initial };

		if (p.law == WINDOW_LAW_PROBE)
			continue;
		window_begin(&window, &p);
		if (p.limit > 0 && s.concurrency > (int)p.limit)
			s.concurrency = (int)p.limit;
		for (int i = 0; i < STEPS && s.concurrency > 0; i++) {
			uint32_t others = random_below(&random, (uint32_t)s.concurrency);
			bool good = random_below(&random, 3) > 0;
			struct window_result result = { .in_flight = others,
				.class = good ? RESULT_OK : RESULT_SITE_FAILURE };
			bool document = p.law == WINDOW_LAW_DOCUMENT;

			window_result(&window, &p, &result, i, &change);
			if (good)
				(document ? document_success : postfix_success)(&s, &p,
				    (int)others + 1);
			else
				(document ? document_failure : postfix_failure)(&s, &p);
			assert_int_equal(change.died, s.concurrency == 0);
			assert_int_equal(window.state == WINDOW_DEAD, s.concurrency == 0);
			if (s.concurrency == 0)
				break;
			assert_int_equal(window.concurrency, s.concurrency);
			assert_true(window.success == s.success);
			assert_true(window.failure == s.failure);
			assert_true(window.fail_cohorts == s.fail_cohorts);
		}
	}
}

/* --- anything at all ------------------------------------------------------------------- */

static void do_something(struct random *random, struct window *window,
    const struct window_settings *settings, int64_t now, struct window_change *change) {
	struct window_result result = {
		.class = (enum result_class)random_below(random, RESULT_CLASS_COUNT),
		.level = random_below(random, 30),
		.in_flight = random_below(random, 30),
		.start_ns = random_below(random, 3) == 0 ? 0 :
		    now - random_below(random, 400) * SECOND / 10,
		.took_ns = (int64_t)random_below(random, 100) * SECOND,
		.given_ns = now - random_below(random, 600) * SECOND / 10,
		.answered = random_below(random, 2) == 0,
		.canary = random_below(random, 10) == 0,
	};

	switch (random_below(random, 40)) {
	case 0:
		window_suspend(window, (enum window_cause)random_below(random, WINDOW_CAUSE_COUNT),
		    now + random_below(random, 100) * SECOND);
		break;
	case 1:
		window_hold(window, (enum window_cause)random_below(random, WINDOW_CAUSE_COUNT),
		    now + random_below(random, 100) * SECOND);
		break;
	case 2:
		if (random_below(random, 2) == 0)
			window_resume(window, settings, random_below(random, 30));
		else
			window_set_concurrency(window, settings, random_below(random, 30));
		break;
	case 3:
		window_set_ceiling(window, settings, random_below(random, 30), now);
		break;
	case 4:
	case 5:
	case 6:
		window_turn(window, settings, random_below(random, 30), now, change);
		break;
	case 7:
		window_adjust(window, settings);
		break;
	case 8:
	case 9:
	case 10:
		window_late_level(window, settings, result.class, result.level, now, change);
		window_took(window, settings, &(const struct level_verdict){ .beside = result.level,
		    .start_ns = result.start_ns,
		    .took_ns = (int64_t)random_below(random, 100) * SECOND }, now, change);
		break;
	default:
		if (random_below(random, 2) > 0)
			result.class = random_below(random, 3) > 0 ? RESULT_OK :
			    RESULT_SITE_FAILURE;
		window_result(window, settings, &result, now, change);
	}
}

TEST(bounds_hold) {
	struct random random = random_seeded("bounds_hold");

	for (int world = 0; world < WORLDS; world++) {
		struct window_settings settings = some_settings(&random);
		struct window_change change;
		struct window window;
		int64_t now = random_below(&random, 1000000) * SECOND;

		window_begin(&window, &settings);
		for (int i = 0; i < STEPS; i++) {
			uint32_t limit, is;
			bool shut;

			now += random_below(&random, 50) * SECOND / 10;
			if (random_below(&random, 200) == 0)
				settings = some_settings(&random);
			if (window_canary_due(&window, &settings, now)) {
				assert_int_equal(settings.law, WINDOW_LAW_PROBE);
				assert_int_equal(window.state, WINDOW_LIMITED);
				assert_false(window.canary_out);
				assert_true(now >= window.canary_ns);
				assert_true(settings.limit == 0 ||
				    window.ceiling < settings.limit);
				if (random_below(&random, 2) == 0)
					window_canary_issued(&window, &settings,
					    now + random_below(&random, 60) * SECOND);
			}
			do_something(&random, &window, &settings, now, &change);
			assert_true(window_is_sound(&window));
			limit = settings.limit == 0 ? UINT16_MAX : settings.limit;
			is = window_now(&window, &settings, now);
			shut = window.state == WINDOW_DEAD || window.state == WINDOW_HELD;
			assert_int_equal(is == 0, shut && now < window.until_ns);
			assert_true(is <= limit);
			assert_true(window.ceiling == 0 || is <= window.ceiling);
			assert_int_equal(window.state == WINDOW_LIMITED,
			    !shut && window.ceiling != 0);
		}
	}
}
