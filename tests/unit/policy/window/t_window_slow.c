/* SPDX-License-Identifier: ISC */
/* The law probe and sites that get slow instead of refusing, with numbers worked out by hand. */
#include "tests/unit/test.h"
#include "policy/window/level.h"
#include "tests/unit/policy/window/window_bench.h"

static void deliver(struct bench *bench, uint32_t level, int64_t took_ns) {
	bench->now += took_ns;
	window_result(&bench->window, &bench->settings, &(const struct window_result){
	    .class = RESULT_OK, .level = level, .in_flight = level - 1,
	    .start_ns = bench->now - took_ns, .took_ns = took_ns }, bench->now, &bench->change);
	assert_true(window_is_sound(&bench->window));
}

/* Of a log: it ended now. */
static void hear_of(struct bench *bench, uint32_t beside, int64_t took_ns) {
	window_took(&bench->window, &bench->settings, &(const struct level_verdict){
	    .beside = beside, .start_ns = bench->now - took_ns, .took_ns = took_ns }, bench->now,
	    &bench->change);
}

static void deliver_many(struct bench *bench, int count, uint32_t level, int64_t took_ns) {
	while (count-- > 0)
		deliver(bench, level, took_ns);
}

/* Deliveries take 2 s up to level 5, which is the initial window. */
static void begin_usual(struct bench *bench) {
	begin(bench, WINDOW_LAW_PROBE, "1");
	deliver_many(bench, 5, 5, 2 * SECOND);
	assert_int_equal(bench->window.usual_level, 5);
	assert_int_equal(bench->window.usual_10ms, 200);
	assert_int_equal(bench->window.ceiling, 0);
}

/* Twice the share of level 6 is 2 * 2 s * 6 / 5 = 4.8 s: seven of eight above that are enough. */
TEST(a_tarpit_is_a_ceiling) {
	begin_usual(&b);
	deliver(&b, 6, 2 * SECOND);
	deliver_many(&b, 6, 6, 32 * SECOND);
	assert_int_equal(b.window.ceiling, 0);
	deliver(&b, 6, 32 * SECOND);
	assert_true(b.change.window);
	assert_int_equal(b.window.ceiling, 5);
	assert_int_equal(b.window.concurrency, 5);
	/* those under way still do not talk it away */
	deliver_many(&b, 30, 12, 32 * SECOND);
	assert_int_equal(b.window.ceiling, 5);
}

TEST(what_takes_its_share_of_the_level_is_no_tarpit) {
	begin_usual(&b);
	deliver_many(&b, 8, 6, 48 * SECOND / 10);
	assert_int_equal(b.window.ceiling, 0);
	/* 8 s at most count of each: the mean is 4.8 s now, usual for 6 */
	assert_int_equal(b.window.usual_level, 6);
	assert_int_equal(b.window.usual_10ms, 480);
}

/* A site that serves five at a time takes 2 s * level / 5. */
TEST(a_site_that_lets_wait_is_no_tarpit) {
	begin_usual(&b);
	for (uint32_t level = 6; level <= 20; level++)
		deliver_many(&b, 8, level, 2 * SECOND * level / 5);
	assert_int_equal(b.window.ceiling, 0);
	assert_int_equal(b.window.usual_level, 20);
}

TEST(long_messages_are_no_tarpit) {
	begin_usual(&b);
	for (int i = 0; i < 100; i++) {
		deliver_many(&b, 3, 6 + (uint32_t)i / 10, 2 * SECOND);
		deliver(&b, 6 + (uint32_t)i / 10, 600 * SECOND);
	}
	assert_int_equal(b.window.ceiling, 0);
}

/* It is usual then: 15/16 of the way stays each time, by 8 s at most. */
TEST(a_site_that_is_slow_at_every_level_changes_no_window) {
	begin_usual(&b);
	for (int i = 0; i < 200; i++)
		deliver(&b, 1 + (uint32_t)i % 5, 60 * SECOND);
	assert_int_equal(b.window.ceiling, 0);
	assert_in_range(b.window.usual_10ms, 5950, 6000);
}

/* From 20 ms, two units of the mean, to 1.5 s: it is usual then, and above it no tarpit. */
TEST(a_quick_site_that_gets_slow_at_every_level_changes_no_window) {
	begin(&b, WINDOW_LAW_PROBE, "1");
	deliver_many(&b, 100, 5, SECOND / 50);
	assert_int_equal(b.window.usual_10ms, 2);
	deliver_many(&b, 300, 5, 3 * SECOND / 2);
	assert_in_range(b.window.usual_10ms, 145, 150);
	deliver_many(&b, 20, 6, 3 * SECOND / 2);
	assert_int_equal(b.window.ceiling, 0);
	/* and back */
	deliver_many(&b, 300, 5, SECOND / 50);
	assert_in_range(b.window.usual_10ms, 2, 3);
}

/* 320 s later; refused while it is slow, and a climb once it is quick. */
TEST(a_slow_canary_is_refused) {
	begin_usual(&b);
	deliver_many(&b, 8, 6, 32 * SECOND);
	assert_int_equal(b.window.ceiling, 5);
	assert_false(window_canary_due(&b.window, &b.settings, b.now + 320 * SECOND - 1));
	b.now += 320 * SECOND;
	for (int i = 0; i < 2; i++) {
		assert_true(window_canary_due(&b.window, &b.settings, b.now));
		window_canary_issued(&b.window, &b.settings, b.now + 600 * SECOND);
		b.now += i == 0 ? 32 * SECOND : 2 * SECOND;
		window_result(&b.window, &b.settings, &(const struct window_result){
		    .class = RESULT_OK, .level = 6, .in_flight = 5, .canary = true,
		    .start_ns = b.now - 1, .took_ns = i == 0 ? 32 * SECOND : 2 * SECOND },
		    b.now, &b.change);
		assert_int_equal(b.window.ceiling, i == 0 ? 5 : 6);
		b.now += 600 * SECOND;
	}
}

/* Of a log: the level comes later, and the duration with it. */
TEST(a_tarpit_in_a_log) {
	begin(&b, WINDOW_LAW_PROBE, "1");
	for (int i = 0; i < 5; i++)
		hear_of(&b, 3, 2 * SECOND);
	for (int i = 0; i < 8; i++) {
		assert_int_equal(b.window.ceiling, 0);
		b.now += 32 * SECOND;
		hear_of(&b, 9, 32 * SECOND);
	}
	assert_int_equal(b.window.ceiling, 5);
}

/* Twenty hung together, and what starts when the first has ended is quick. */
TEST(one_stall_is_no_tarpit) {
	begin_usual(&b);
	b.now += 60 * SECOND;
	for (int i = 0; i < 20; i++)
		hear_of(&b, 12, 60 * SECOND - i * SECOND);
	assert_int_equal(b.window.ceiling, 0);
	deliver_many(&b, 8, 12, 2 * SECOND);
	assert_int_equal(b.window.ceiling, 0);
}

/* They count as seven of seven: one more that starts after the first had ended decides. */
TEST(a_second_flight_that_hangs_makes_a_tarpit) {
	begin_usual(&b);
	b.now += 60 * SECOND;
	for (int i = 0; i < 11; i++)
		hear_of(&b, 12, 60 * SECOND);
	assert_int_equal(b.window.ceiling, 0);
	deliver(&b, 12, 60 * SECOND);
	assert_int_equal(b.window.ceiling, 5);
}

/* It was quick up to 20, and is a tarpit above 5 the next morning. */
TEST(after_a_time_without_mail_what_is_usual_is_learned_anew) {
	begin_usual(&b);
	for (uint32_t level = 6; level <= 20; level++)
		deliver_many(&b, 8, level, 2 * SECOND);
	assert_int_equal(b.window.usual_level, 20);
	b.now += 8 * 3600 * SECOND;
	deliver_many(&b, 5, 5, 2 * SECOND);
	assert_int_equal(b.window.usual_level, 5);
	deliver_many(&b, 8, 6, 32 * SECOND);
	assert_int_equal(b.window.ceiling, 5);
	/* what a canary above it is compared with stays known */
	b.now += 8 * 3600 * SECOND;
	deliver(&b, 1, 3 * SECOND);
	assert_in_range(b.window.usual_10ms, 200, 299);
	assert_true(b.window.slow_ceiling);
}

TEST(another_law_keeps_nothing_of_it) {
	begin_usual(&b);
	deliver_many(&b, 8, 6, 32 * SECOND);
	b.settings.law = WINDOW_LAW_DOCUMENT;
	window_adjust(&b.window, &b.settings);
	assert_int_equal(b.window.ceiling, 0);
	assert_false(b.window.slow_ceiling);
	assert_int_equal(b.window.usual_level, 0);
	assert_int_equal(b.window.usual_10ms, 0);
	assert_true(window_is_sound(&b.window));
}

/* Somebody who told of a ceiling knows better; a duration that is not known says nothing. */
TEST(a_told_ceiling_stays) {
	begin_usual(&b);
	window_set_ceiling(&b.window, &b.settings, 10, b.now);
	deliver_many(&b, 30, 8, 32 * SECOND);
	assert_int_equal(b.window.ceiling, 10);
	begin_usual(&b);
	deliver_many(&b, 30, 8, 0);
	assert_int_equal(b.window.ceiling, 0);
}

/* It found room at the ceiling and was a large message: nothing was above. */
TEST(a_slow_canary_that_found_room_lowers_no_ceiling) {
	begin_usual(&b);
	deliver_many(&b, 8, 6, 32 * SECOND);
	b.now += 320 * SECOND;
	assert_true(window_canary_due(&b.window, &b.settings, b.now));
	window_canary_issued(&b.window, &b.settings, b.now + 600 * SECOND);
	b.now += 32 * SECOND;
	window_result(&b.window, &b.settings, &(const struct window_result){
	    .class = RESULT_OK, .level = 5, .in_flight = 4, .canary = true,
	    .start_ns = b.now - 32 * SECOND, .took_ns = 32 * SECOND }, b.now, &b.change);
	assert_int_equal(b.window.ceiling, 5);
	/* once it is forgotten, what is slow is accepted as ever */
	window_set_ceiling(&b.window, &b.settings, 0, b.now);
	deliver(&b, 9, 32 * SECOND);
	assert_int_equal(b.window.accepted[0], 9);
}

/* Greylisting: quick refusals of recipients, then the same mail with its DATA. */
TEST(what_was_not_delivered_says_nothing_of_durations) {
	begin_usual(&b);
	for (int i = 0; i < 30; i++)
		window_result(&b.window, &b.settings, &(const struct window_result){
		    .class = RESULT_RCPT_TEMPORARY, .level = 5, .in_flight = 4, .start_ns = b.now - 1,
		    .took_ns = SECOND / 10 }, b.now, &b.change);
	assert_int_equal(b.window.usual_10ms, 200);
}

/* 320 acceptances in 16 s pay for a refused canary, and not for a slow one. */
TEST(quick_traffic_hurries_no_canary_above_a_tarpit) {
	begin_usual(&b);
	deliver_many(&b, 8, 6, 32 * SECOND);
	deliver_many(&b, 2000, 5, SECOND / 20);
	assert_false(window_canary_due(&b.window, &b.settings, b.now));
}

/* Ten times as long, and 90 ms more. */
TEST(a_site_that_is_quick_is_no_tarpit) {
	begin(&b, WINDOW_LAW_PROBE, "1");
	deliver_many(&b, 5, 5, SECOND / 100);
	deliver_many(&b, 30, 6, SECOND / 10);
	assert_int_equal(b.window.ceiling, 0);
}
