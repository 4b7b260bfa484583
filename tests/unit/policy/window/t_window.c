/* SPDX-License-Identifier: ISC */
/* The laws of windows, with numbers worked out by hand. */
#include "tests/unit/test.h"
#include "tests/unit/policy/window/window_bench.h"

/* --- document and postfix ------------------------------------------------------ */

/* Five fifths make 6; one failure there takes 1/6 of -1 at once. */
TEST(document_per_concurrency) {
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

TEST(the_laws_differ_at_feedback_1) {
	struct bench d, p;

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
TEST(overshoot) {
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

TEST(sqrt_and_fractions) {
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

/* "You might just as well use zero per-delivery feedback and stay with the initial
 * concurrency." */
TEST(without_feedback_the_window_stays) {
	for (int law = WINDOW_LAW_POSTFIX; law <= WINDOW_LAW_DOCUMENT; law++) {
		begin(&b, (enum window_law)law, "0");
		good(&b, 500);
		stands(&b, 5, 0, 0, 0);
		bad(&b, 3);
		good(&b, 1);
		stands(&b, 5, 0, 0, 0);
	}
}

/* Only while window < busy + initial, busy with the one that has just ended. */
TEST(positive_feedback_only_in_use) {
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
TEST(dead_after_a_cohort) {
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

TEST(back_from_the_dead) {
	for (int law = WINDOW_LAW_PROBE; law <= WINDOW_LAW_DOCUMENT; law++) {
		begin(&b, (enum window_law)law, "0");
		nothing_but_bad(&b, 6);
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
		nothing_but_bad(&b, 6);
		assert_int_equal(b.window.state, WINDOW_DEAD);
		b.now += 300 * SECOND - 1;
		window_turn(&b.window, &b.settings, 0, b.now, &b.change);
		assert_false(b.change.revived);
		b.now += 1;
		assert_int_equal(window_now(&b.window, &b.settings, b.now), 5);
		window_turn(&b.window, &b.settings, 2, b.now, &b.change);
		assert_true(b.change.revived);
		stands(&b, 2, 0, 0, 0);
		nothing_but_bad(&b, 6);
		b.now += 300 * SECOND;
		window_turn(&b.window, &b.settings, 0, b.now, &b.change);
		stands(&b, 5, 0, 0, 0);
	}
}

TEST_IN(begin_probe, NULL, who_listens_to_throttling) {
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

/* `set NAME --window` is no new reason to be suspended. */
TEST(another_concurrency_keeps_the_cause) {
	begin(&b, WINDOW_LAW_POSTFIX, "1");
	for (unsigned i = 0; b.window.state != WINDOW_DEAD && i < 100; i++)
		tell(&b, RESULT_SITE_FAILURE, 1, 0, SECOND);
	assert_int_equal(b.window.cause, WINDOW_CAUSE_COHORTS);
	for (unsigned i = 0; i < 2; i++) {
		struct window was = b.window, dead;

		window_set_concurrency(&b.window, &b.settings, 3);
		assert_int_equal(b.window.state, WINDOW_DEAD);
		assert_int_equal(b.window.cause, WINDOW_CAUSE_COHORTS);
		assert_int_equal(b.window.until_ns, was.until_ns);
		assert_true(b.window.fail_cohorts >= was.fail_cohorts);
		dead = b.window;
		window_turn(&b.window, &b.settings, 0, was.until_ns, &b.change);
		assert_int_equal(window_now(&b.window, &b.settings, was.until_ns), 3);
		b.window = dead;
	}
	good(&b, 1);
	assert_int_equal(b.window.state, WINDOW_OPEN);
	window_hold(&b.window, WINDOW_CAUSE_NODE, INT64_MAX);
	window_set_concurrency(&b.window, &b.settings, 4);
	assert_int_equal(b.window.state, WINDOW_HELD);
	assert_int_equal(b.window.cause, WINDOW_CAUSE_NODE);
	good(&b, 1);
	assert_int_equal(b.window.state, WINDOW_HELD);
}

TEST_IN(begin_probe, NULL, by_rule_and_by_hand) {
	good(&b, 11);
	assert_int_equal(b.window.concurrency, 7);
	window_suspend(&b.window, WINDOW_CAUSE_RULE, b.now + 3600 * SECOND);
	assert_int_equal(window_now(&b.window, &b.settings, b.now), 0);
	good(&b, 1);	/* no good news overrule a rule */
	assert_int_equal(b.window.state, WINDOW_DEAD);
	window_suspend(&b.window, WINDOW_CAUSE_RULE, b.now + 60 * SECOND);	/* nor does a shorter one */
	assert_int_equal(b.window.until_ns, b.now + 3600 * SECOND);
	window_hold(&b.window, WINDOW_CAUSE_HAND, INT64_MAX);
	window_suspend(&b.window, WINDOW_CAUSE_RULE, b.now);
	assert_int_equal(b.window.state, WINDOW_HELD);
	window_turn(&b.window, &b.settings, 0, INT64_MAX - 1, &b.change);
	assert_int_equal(b.window.state, WINDOW_HELD);
	window_resume(&b.window, &b.settings, 0);
	assert_int_equal(b.window.state, WINDOW_OPEN);
	assert_int_equal(window_now(&b.window, &b.settings, b.now), 7);
	window_resume(&b.window, &b.settings, 30);
	assert_int_equal(window_now(&b.window, &b.settings, b.now), 20);
	window_hold(&b.window, WINDOW_CAUSE_HAND, b.now + 1);
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

TEST(feedback_forms) {
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

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_false(window_feedback_parse(wrong[i], strlen(wrong[i]), &feedback));
	for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
		assert_true(window_feedback_parse(right[i].text, strlen(right[i].text),
		    &feedback));
		assert_int_equal(feedback.form, right[i].form);
		assert_true(feedback.amount == right[i].amount);
	}
}

TEST(what_is_no_window) {
	struct window zeros = { .concurrency = 0 };

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
TEST(a_ceiling_that_probe_found_does_not_bind_other_laws) {
	struct window_settings probe = window_defaults, postfix = window_defaults;
	struct window_result refused = { .class = RESULT_SITE_FAILURE, .level = 3,
		.in_flight = 2, .start_ns = 1 };
	struct window_result good = { .class = RESULT_OK, .in_flight = 50 };
	struct window_change change;
	struct window window;

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
