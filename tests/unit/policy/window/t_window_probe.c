/* SPDX-License-Identifier: ISC */
/* The law probe, with numbers worked out by hand. */
#include "tests/unit/test.h"
#include "tests/unit/policy/window/window_bench.h"

/* A limiter of 5: level 6 is refused, believed at once, and one canary goes after 10,
 * 20, 40 s ... */
TEST_IN(begin_probe, NULL, probe_remembers) {
	static const int intervals[] = { 10, 20, 40, 80, 160, 320, 600, 600 };
	struct window_result canary = { .class = RESULT_SITE_FAILURE, .level = 6,
		.in_flight = 5, .canary = true };

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

TEST_IN(begin_probe, NULL, probe_goes_up_by_canaries) {
	struct window_result canary = { .class = RESULT_OK, .in_flight = 5, .canary = true };

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

/* What ran at once while no ceiling was known. */
TEST_IN(begin_probe, NULL, a_window_is_proven_by_what_was_accepted) {
	assert_int_equal(window_proven(&b.window, &b.settings), 5);
	tell(&b, RESULT_OK, 3, 5, SECOND);
	assert_int_equal(window_proven(&b.window, &b.settings), 5);
	tell(&b, RESULT_OK, 7, 6, SECOND);
	assert_int_equal(window_proven(&b.window, &b.settings), 7);
	/* believe_ns, twice, later it is forgotten */
	b.now += 900 * SECOND;
	tell(&b, RESULT_OK, 2, 5, SECOND);
	assert_int_equal(window_proven(&b.window, &b.settings), 5);
	/* a ceiling says how much is too much */
	tell(&b, RESULT_SITE_FAILURE, 6, 5, SECOND / 20);
	assert_int_equal(b.window.ceiling, 5);
	assert_int_equal(window_proven(&b.window, &b.settings), 0);
	begin(&b, WINDOW_LAW_POSTFIX, "1");
	assert_int_equal(window_proven(&b.window, &b.settings), 0);
}

/* Accepted at 8 a moment ago: three refusals at 8 and less are doubted, each takes one from
 * the window; four in a row are not, and then every one that follows is believed. */
TEST_IN(begin_probe, NULL, probe_doubts) {
	b.settings.initial = 10;
	window_begin(&b.window, &b.settings);
	tell(&b, RESULT_OK, 8, 9, 2 * SECOND);
	tell(&b, RESULT_SITE_FAILURE, 8, 9, SECOND / 20);
	tell(&b, RESULT_SITE_FAILURE, 7, 9, SECOND / 20);
	tell(&b, RESULT_SITE_FAILURE, 7, 9, SECOND / 20);
	stands(&b, 7, 0.1, 0, 3.0 / 32 / 10);
	assert_int_equal(b.window.ceiling, 0);
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
TEST_IN(begin_probe, NULL, probe_knows_chance) {
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
/* A quarter is refused by chance: 9 in a row are believed (4^8 is less than 131072).  Each one
 * above the initial window takes twice what an accepted delivery adds. */
TEST_IN(begin_probe, NULL, a_bad_server_of_four_keeps_the_window_lower) {
	b.window.concurrency = 8;
	b.window.noise = 16384;
	tell(&b, RESULT_OK, 8, 7, 2 * SECOND);
	stands(&b, 8, 0.125, 0, 0);
	b.now += 60 * SECOND;
	b.window.noise = 16384;
	for (int i = 0; i < 4; i++)
		tell(&b, RESULT_SITE_FAILURE, 8, 7, SECOND / 20);
	stands(&b, 8, -0.875, 0, 4 / 32.0 / 8);
	tell(&b, RESULT_SITE_FAILURE, 5, 4, SECOND / 20);
	stands(&b, 8, -0.875, 0, 5 / 32.0 / 8);
	tell(&b, RESULT_SITE_FAILURE, 8, 7, SECOND / 20);
	stands(&b, 7, -0.125, 0, 6 / 32.0 / 8);
	assert_int_equal(b.window.ceiling, 0);
	/* It is not raised far above what is used. */
	tell(&b, RESULT_OK, 6, 5, 0);
	stands(&b, 7, -0.125, 0, 0);
	tell(&b, RESULT_OK, 7, 6, 0);
	stands(&b, 7, -0.125 + 1 / 7.0, 0, 0);
}

TEST_IN(begin_probe, NULL, probe_corrects_itself) {
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
TEST_IN(begin_probe, NULL, probe_dies_by_cohorts) {
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

/* A log tells the level later: until then each failure takes one from the window, then the
 * ceiling is found, or what was taken is given back. */
TEST_IN(begin_probe, NULL, levels_that_come_late) {
	good(&b, 5);
	assert_int_equal(b.window.concurrency, 6);
	/* 1/32 of a sixth: others are accepted */
	bad(&b, 1);
	stands(&b, 5, 0, 0, 1.0 / 192);
	assert_int_equal(b.window.ceiling, 0);
	for (int i = 0; i < 5; i++)
		window_late_level(&b.window, &b.settings, RESULT_OK, 5, b.now, &b.change);
	window_late_level(&b.window, &b.settings, RESULT_SITE_FAILURE, 6, b.now, &b.change);
	assert_true(b.change.window);
	assert_int_equal(b.window.ceiling, 5);
	assert_int_equal(b.window.state, WINDOW_LIMITED);
	assert_int_equal(b.window.concurrency, 5);
	/* Chance, below what is accepted, and one more that was tried above it. */
	for (int i = 0; i < 2; i++)
		tell(&b, RESULT_SITE_FAILURE, 0, 3, 0);
	assert_int_equal(b.window.concurrency, 3);
	window_late_level(&b.window, &b.settings, RESULT_SITE_FAILURE, 5, b.now, &b.change);
	assert_int_equal(b.window.concurrency, 4);
	window_late_level(&b.window, &b.settings, RESULT_SITE_FAILURE, 6, b.now, &b.change);
	assert_int_equal(b.window.concurrency, 5);
	assert_int_equal(b.window.ceiling, 5);
	/* Never known. */
	tell(&b, RESULT_SITE_FAILURE, 0, 3, 0);
	window_late_level(&b.window, &b.settings, RESULT_SITE_FAILURE, 0, b.now, &b.change);
	window_late_level(&b.window, &b.settings, RESULT_OK, 0, b.now, &b.change);
	assert_false(b.change.window);
	assert_int_equal(b.window.concurrency, 4);
	/* The other laws have no use for it. */
	begin(&b, WINDOW_LAW_POSTFIX, "1");
	window_late_level(&b.window, &b.settings, RESULT_SITE_FAILURE, 3, b.now, &b.change);
	assert_false(b.change.window);
	assert_int_equal(b.window.ceiling, 0);
}

/* A limit fell from 12 to 7, and somebody told; lanes of 12 drain still, and are refused
 * what is too much: the window stays, and the site is not dead. */
TEST_IN(begin_probe, NULL, what_drains_above_a_known_ceiling) {
	window_set_ceiling(&b.window, &b.settings, 7, b.now);
	window_resume(&b.window, &b.settings, 7);
	for (unsigned i = 0; i < 100; i++)
		tell(&b, RESULT_SITE_FAILURE, 0, 7, 0);
	stands(&b, 7, 0, 0, 0);
	/* nor where a log knows of one less */
	tell(&b, RESULT_SITE_FAILURE, 0, 6, 0);
	stands(&b, 7, 0, 0, 0);
	/* with room below the ceiling each takes one, until the half */
	tell(&b, RESULT_SITE_FAILURE, 0, 5, 0);
	stands(&b, 6, 0, 0, 0);
	for (unsigned i = 0; i < 1000; i++)
		tell(&b, RESULT_SITE_FAILURE, 0, 1, 0);
	stands(&b, 4, 0, 0, 0);
	/* nothing was accepted of late */
	nothing_but_bad(&b, 6);
	assert_int_equal(b.window.state, WINDOW_DEAD);
}

/* The same, and nobody told: what a log knows is that 12 were accepted a moment ago.  The
 * window falls until levels are known, is then what is accepted, and stays. */
TEST_IN(begin_probe, NULL, a_limit_that_fell) {
	b.settings.initial = 12;
	window_begin(&b.window, &b.settings);
	tell(&b, RESULT_SITE_FAILURE, 13, 12, SECOND / 20);
	assert_int_equal(b.window.ceiling, 12);
	for (int64_t interval = 10 * SECOND; interval <= 40 * SECOND; interval *= 2) {
		b.now += interval;
		send_canary(&b, RESULT_SITE_FAILURE, 13);
	}
	window_late_level(&b.window, &b.settings, RESULT_OK, 12, b.now, &b.change);
	for (unsigned i = 1; i <= 5; i++) {
		tell(&b, RESULT_SITE_FAILURE, 0, 12, SECOND / 20);
		assert_int_equal(b.window.concurrency, 12 - i);
	}
	/* the mail server does not obey at once */
	for (unsigned i = 0; i < 100; i++)
		tell(&b, RESULT_SITE_FAILURE, 0, 7, SECOND / 20);
	assert_int_equal(b.window.state, WINDOW_LIMITED);
	assert_int_equal(b.window.ceiling, 12);
	assert_true(b.window.concurrency < 7);
	/* four in a row, as 12 were accepted of late */
	for (unsigned i = 0; i < 4; i++)
		window_late_level(&b.window, &b.settings, RESULT_SITE_FAILURE, 8, b.now,
		    &b.change);
	assert_int_equal(b.window.ceiling, 7);
	stands(&b, 7, b.window.success, b.window.failure, b.window.fail_cohorts);
	for (unsigned i = 0; i < 100; i++) {
		tell(&b, RESULT_SITE_FAILURE, 0, 7, SECOND / 20);
		window_late_level(&b.window, &b.settings, RESULT_SITE_FAILURE, 8, b.now,
		    &b.change);
		assert_int_equal(b.window.concurrency, 7);
	}
	assert_int_equal(b.window.ceiling, 7);
}

/* What was accepted in this span of time is not forgotten for a log that lags behind. */
TEST_IN(begin_probe, NULL, two_logs_one_of_them_late) {
	b.settings.initial = 10;
	window_begin(&b.window, &b.settings);
	b.now = 4 * b.settings.believe_ns;
	tell(&b, RESULT_OK, 8, 9, 2 * SECOND);
	b.now--;
	tell(&b, RESULT_OK, 2, 9, 2 * SECOND);
	b.now++;
	tell(&b, RESULT_SITE_FAILURE, 8, 9, SECOND / 20);
	assert_int_equal(b.window.ceiling, 0);
}

/* A log may give any time.  A refusal that seems to start in the year 2262, or before
 * all time, lowers the ceiling as one that starts now; the canary follows as soon. */
TEST(a_refusal_from_another_century_puts_no_canary_off) {
	static const int64_t starts[] = { INT64_MAX, INT64_MAX / 2, 1, -1, INT64_MIN + 1,
		INT64_MIN };

	for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
		struct window_result result = { .class = RESULT_SITE_FAILURE, .level = 6,
			.in_flight = 5, .start_ns = starts[i] };

		begin(&b, WINDOW_LAW_PROBE, "1");
		window_result(&b.window, &b.settings, &result, b.now, &b.change);
		assert_true(window_is_sound(&b.window));
		assert_int_equal(b.window.ceiling, 5);
		assert_true(window_canary_due(&b.window, &b.settings, b.now +
		    b.settings.canary_least_ns));
	}
}
