/* SPDX-License-Identifier: ISC */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "policy/lane.h"
#include "random.h"

#define NS	INT64_C(1000000000)

static const struct lane_widths usual = { .count = 6, .width = { 1, 2, 3, 5, 10, 20 },
	.origin = 20 };

/* The set of these lanes; 0 ends, 99 is the transport itself. */
static lane_set lanes(const unsigned *widths) {
	lane_set set = 0;

	for (; *widths != 0; widths++) {
		if (*widths == 99)
			set |= LANE_ORIGIN;
		for (uint32_t i = 0; i < usual.count; i++)
			if (usual.width[i] == *widths)
				set |= UINT32_C(1) << i;
	}
	return set;
}
#define LANES(...) lanes((const unsigned[]){ __VA_ARGS__, 0 })

static struct lane_choice choose(lane_set given, lane_set used, lane_set waiting,
    uint32_t allowed, bool limited, bool patient) {
	const struct lane_now now = { given, used, waiting, allowed, limited, patient };
	struct lane_choice choice;

	lane_choose(&usual, &now, &choice);
	return choice;
}

static void each_window_is_a_sum_of_lanes(void **state) {
	static const unsigned wanted[][5] = {
		{ 0 }, { 1 }, { 2 }, { 3 }, { 3, 1 }, { 5 }, { 5, 1 }, { 5, 2 }, { 5, 3 },
		{ 5, 3, 1 }, { 10 }, { 10, 1 }, { 10, 2 }, { 10, 3 }, { 10, 3, 1 },
		{ 10, 5 }, { 10, 5, 1 }, { 10, 5, 2 }, { 10, 5, 3 }, { 10, 5, 3, 1 }, { 20 },
	};

	(void)state;
	for (uint32_t window = 0; window <= 20; window++) {
		struct lane_choice choice = choose(0, 0, 0, window, false, false);

		assert_int_equal(choice.give, lanes(wanted[window]));
		assert_int_equal(lane_sum(&usual, choice.give), window);
		assert_false(choice.reload);
	}
	/* four at most: 20 + 10 + 5 + 3 */
	assert_int_equal(choose(0, 0, 0, 1000, false, false).give, LANES(20, 10, 5, 3));
}

static void a_window_that_rises_keeps_its_lanes(void **state) {
	lane_set used;

	(void)state;
	assert_int_equal(choose(LANES(3), LANES(3), 0, 4, false, false).give, LANES(3, 1));
	/* 5 would be wider than 3 + 2, and is not: what is there stays */
	assert_int_equal(choose(LANES(3), LANES(3), 0, 5, false, false).give, LANES(3, 2));
	assert_int_equal(choose(LANES(5, 3, 2), LANES(5, 3, 2), 0, 10, true, true).give,
	    LANES(5, 3, 2));
	/* 11 of 12 can be had at once: good enough */
	used = LANES(5, 3, 2);
	assert_int_equal(choose(used, used, used, 12, true, false).give, LANES(5, 3, 2, 1));
	/* 13: 10 + 3, of which 3 is there; 11 is too little, 3 alone is narrow: mail goes
	 * on as it does, until it was patient for long */
	used = LANES(5, 3, 2, 1);
	assert_int_equal(choose(used, used, used, 13, true, false).give, used);
	assert_int_equal(choose(used, used, used, 13, true, true).give, LANES(3));
	/* then 5, 2 and 1 have drained */
	assert_int_equal(choose(LANES(3), LANES(3), LANES(3), 13, true, false).give,
	    LANES(10, 3));
}

static void a_lane_that_was_left_keeps_its_width(void **state) {
	lane_set used = LANES(5, 3);
	struct lane_choice choice = choose(used, used, used, 7, true, false);

	(void)state;
	/* 5 stays, 3 drains; 2 comes when it has */
	assert_int_equal(choice.give, LANES(5));
	assert_true(choice.reload);
	assert_int_equal(choose(LANES(5), used, LANES(5), 7, true, false).give, LANES(5));
	assert_false(choose(LANES(5), used, LANES(5), 7, true, false).reload);
	assert_int_equal(choose(LANES(5), LANES(5), LANES(5), 7, true, false).give,
	    LANES(5, 2));
	/* back to 8 before it drained */
	assert_int_equal(choose(LANES(5), used, used, 8, true, false).give, used);
}

static void a_single_wide_lane_is_held_until_it_drained(void **state) {
	struct lane_choice choice = choose(LANES(10), LANES(10), LANES(10), 9, true, false);

	(void)state;
	assert_int_equal(choice.give, 0);
	assert_int_equal(choice.wanted, LANES(5, 3, 1));
	assert_true(choice.reload);
	assert_int_equal(choose(0, LANES(10), LANES(10), 9, true, false).give, 0);
	assert_int_equal(choose(0, 0, 0, 9, true, false).give, LANES(5, 3, 1));
	/* nothing waits there: it will be empty in a moment, nobody is held for that, but
	 * not for ever */
	assert_int_equal(choose(LANES(10), LANES(10), 0, 9, true, false).give, LANES(10));
	assert_int_equal(choose(LANES(10), LANES(10), 0, 9, true, true).give, 0);
	assert_false(choose(LANES(10), LANES(10), 0, 9, true, true).reload);
	/* more than 9 is not known to do harm: nobody is held */
	assert_int_equal(choose(LANES(10), LANES(10), LANES(10), 9, false, true).give,
	    LANES(10));
	/* a narrow part of it is no way for all mail */
	assert_int_equal(choose(LANES(10, 2), LANES(10, 2), LANES(10, 2), 7, true,
	    false).give, 0);
	assert_int_equal(choose(LANES(10, 5), LANES(10, 5), LANES(10, 5), 7, true,
	    false).give, LANES(5));
}

static void the_transport_itself_is_a_lane_that_is_left(void **state) {
	lane_set origin = LANES(99);

	(void)state;
	/* the first burst for somebody new: not known to do harm */
	assert_int_equal(choose(origin, origin, origin, 5, false, true).give, origin);
	/* refused: held, or taken out by a reload */
	assert_int_equal(choose(origin, origin, origin, 5, true, false).give, 0);
	assert_true(choose(origin, origin, origin, 5, true, false).reload);
	assert_int_equal(choose(origin, 0, 0, 5, true, false).give, LANES(5));
	/* nothing is taken beside it while it may still run 20 */
	assert_int_equal(choose(0, origin, 0, 5, false, true).give, 0);
}

static void suspended_is_held(void **state) {
	struct lane_choice choice = choose(LANES(5), LANES(5), LANES(5), 0, true, false);

	(void)state;
	assert_int_equal(choice.give, 0);
	assert_true(choice.reload);
	assert_false(choose(LANES(5), LANES(5), 0, 0, true, false).reload);
}

static void the_narrowest_lane_is_the_least(void **state) {
	static const struct lane_widths wide = { .count = 2, .width = { 4, 9 } };
	const struct lane_now now = { .allowed = 2 };
	struct lane_choice choice;

	(void)state;
	lane_choose(&wide, &now, &choice);
	assert_int_equal(choice.give, 1);
	lane_choose(&(struct lane_widths){ .count = 0 }, &now, &choice);
	assert_int_equal(choice.give, 0);
}

static uint32_t canary(lane_set used, lane_set waiting, uint32_t allowed,
    lane_set give) {
	const struct lane_now now = { give, used, waiting, allowed, true, false };
	uint32_t lane = lane_canary(&usual, &now, give);

	return lane == LANE_WIDTHS_MAX ? 0 : usual.width[lane];
}

static void a_canary_goes_beside_a_full_window(void **state) {
	(void)state;
	assert_int_equal(canary(LANES(5), LANES(5), 5, LANES(5)), 1);
	assert_int_equal(canary(LANES(5, 1), LANES(5, 1), 6, LANES(5, 1)), 2);
	assert_int_equal(canary(LANES(1), LANES(1), 1, LANES(1)), 2);
	/* not full, nothing waits, something else is in the way, held, no lane */
	assert_int_equal(canary(LANES(5), LANES(5), 6, LANES(5)), 0);
	assert_int_equal(canary(LANES(5), 0, 5, LANES(5)), 0);
	assert_int_equal(canary(LANES(5, 2), LANES(5, 2), 5, LANES(5)), 0);
	assert_int_equal(canary(LANES(5, 99), LANES(5), 5, LANES(5)), 0);
	assert_int_equal(canary(0, 0, 5, 0), 0);
	assert_int_equal(canary(LANES(99), LANES(99), 20, LANES(99)), 0);
	assert_int_equal(lane_canary(&(struct lane_widths){ .count = 1, .width = { 5 } },
	    &(struct lane_now){ 1, 1, 1, 5, true, false }, 1), LANE_WIDTHS_MAX);
}

static void drained_is_a_matter_of_time(void **state) {
	(void)state;
	assert_int_equal(lane_drained_ns(10 * NS, 4 * NS, 2 * NS), 31 * NS / 2);
	assert_int_equal(lane_drained_ns(10 * NS, 12 * NS, 2 * NS), 35 * NS / 2);
	assert_int_equal(lane_drained_ns(10 * NS, 0, 0), 15 * NS);
	assert_int_equal(lane_drained_ns(10 * NS, 0, 900 * NS), 610 * NS);
}

static void queues_share_a_window(void **state) {
	(void)state;
	assert_int_equal(lane_share(20, 0, 1), 20);
	assert_int_equal(lane_share(20, 3, 2), 8);
	assert_int_equal(lane_share(20, 30, 1), 1);
	assert_int_equal(lane_share(3, 0, 9), 1);
	assert_int_equal(lane_share(0, 0, 1), 0);
	assert_int_equal(lane_share(7, 0, 0), 7);
}

/* One queue for a long time: windows that change, lanes that fill and drain.  What is
 * used never comes to more than was allowed, canary included, but by what was there
 * before the window fell. */
static void never_more_than_is_allowed(void **state) {
	struct random random = random_seeded("never_more_than_is_allowed");
	uint32_t held = 0, moved = 0;

	(void)state;
	for (unsigned run = 0; run < 200; run++) {
		struct lane_widths widths = usual;
		lane_set given = 0, used = 0, waiting = 0;
		uint32_t allowed = 5, past = 0;

		if (run % 2 == 1) {
			widths.count = 0;
			for (unsigned w = 1; widths.count < 1 + run % LANE_WIDTHS_MAX; w++)
				if (random_below(&random, 3) == 0)
					widths.width[widths.count++] = (uint16_t)w;
		}
		for (unsigned turn = 0; turn < 300; turn++) {
			struct lane_now now;
			struct lane_choice choice;
			uint32_t lane, before = lane_sum(&widths, used), after;

			if (random_below(&random, 10) == 0)
				allowed = random_below(&random, 26);
			waiting = used & random_below(&random, LANE_ORIGIN);
			now = (struct lane_now){ given, used, waiting, allowed,
				random_below(&random, 2) == 0, random_below(&random, 9) == 0 };
			lane_choose(&widths, &now, &choice);
			after = lane_sum(&widths, used | choice.give);
			if ((choice.give & ~used) != 0 && allowed >= widths.width[0])
				assert_in_range(after, 1, allowed);
			if (allowed >= widths.width[0] && after > allowed)
				assert_int_equal(after, before);
			if (allowed == 0)
				assert_int_equal(choice.give, 0);
			lane = lane_canary(&widths, &now, choice.give);
			if (lane != LANE_WIDTHS_MAX) {
				assert_int_equal((used | choice.give) >> lane & 1, 0);
				assert_int_equal(lane_sum(&widths, used | choice.give) + 1,
				    allowed + 1);
			}
			held += choice.give == 0 && allowed > 0;
			moved += choice.give != given;
			given = choice.give;
			used |= given;
			/* what was left drains now and then */
			if (random_below(&random, 4) == 0)
				used = given | (used & random_below(&random,
				    LANE_ORIGIN));
			past = allowed > past ? allowed : past;
			assert_true(lane_sum(&widths, used) <= past ||
			    lane_sum(&widths, used) <= widths.width[0]);
		}
	}
	assert_true(held > 100);
	assert_true(moved > 1000);
}

/* When mail goes on and lanes drain, the window is carried whole. */
static void the_window_is_reached(void **state) {
	struct random random = random_seeded("the_window_is_reached");

	(void)state;
	for (unsigned run = 0; run < 500; run++) {
		lane_set given = 0, used = 0;
		uint32_t allowed = 0;
		struct lane_choice choice;

		for (unsigned change = 0; change < 5; change++) {
			allowed = 1 + random_below(&random, 25);
			for (unsigned turn = 0; turn < 3; turn++) {
				choice = choose(given, used, used, allowed, true, turn > 0);
				given = choice.give;
				used |= given;
				/* the window may move again before anything drained */
				if (random_below(&random, 3) != 0)
					used = given;
			}
		}
		for (unsigned turn = 0; turn < 4; turn++) {
			choice = choose(given, used, used, allowed, true, true);
			given = used = choice.give;
		}
		assert_in_range(10 * lane_sum(&usual, given), 9 * allowed - 9, 10 * allowed);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_window_is_a_sum_of_lanes),
		cmocka_unit_test(a_window_that_rises_keeps_its_lanes),
		cmocka_unit_test(a_lane_that_was_left_keeps_its_width),
		cmocka_unit_test(a_single_wide_lane_is_held_until_it_drained),
		cmocka_unit_test(the_transport_itself_is_a_lane_that_is_left),
		cmocka_unit_test(suspended_is_held),
		cmocka_unit_test(the_narrowest_lane_is_the_least),
		cmocka_unit_test(a_canary_goes_beside_a_full_window),
		cmocka_unit_test(drained_is_a_matter_of_time),
		cmocka_unit_test(queues_share_a_window),
		cmocka_unit_test(never_more_than_is_allowed),
		cmocka_unit_test(the_window_is_reached),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
