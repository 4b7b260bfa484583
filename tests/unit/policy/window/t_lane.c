/* SPDX-License-Identifier: ISC */
#include "tests/unit/test.h"
#include "policy/window/lane.h"
#include "tests/unit/random.h"

#define NS	INT64_C(1000000000)
#define NONE	LANE_WIDTHS_MAX

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

/* What waits takes long to drain. */
static struct lane_choice choose(lane_set given, lane_set used, lane_set waiting,
    uint32_t allowed, bool limited, bool patient) {
	lane_set slow = waiting;
	const struct lane_now now = { given, used, waiting, slow, 0, allowed, 0, NONE, NONE,
		limited, patient, 0, 0 };
	struct lane_choice choice;

	lane_choose(&usual, &now, &choice);
	return choice;
}

/* Only `slow` takes long to drain. */
static struct lane_choice choose_soon(lane_set given, lane_set used, lane_set slow,
    uint32_t allowed) {
	const struct lane_now now = { given, used, used, slow, 0, allowed, 0, NONE, NONE,
		true, false, 0, 0 };
	struct lane_choice choice;

	lane_choose(&usual, &now, &choice);
	return choice;
}

TEST(each_window_is_a_sum_of_lanes) {
	static const unsigned wanted[][5] = {
		{ 0 }, { 1 }, { 2 }, { 3 }, { 3, 1 }, { 5 }, { 5, 1 }, { 5, 2 }, { 5, 3 },
		{ 5, 3, 1 }, { 10 }, { 10, 1 }, { 10, 2 }, { 10, 3 }, { 10, 3, 1 },
		{ 10, 5 }, { 10, 5, 1 }, { 10, 5, 2 }, { 10, 5, 3 }, { 10, 5, 3, 1 }, { 20 },
	};

	for (uint32_t window = 0; window <= 20; window++) {
		struct lane_choice choice = choose(0, 0, 0, window, false, false);

		assert_int_equal(choice.give, lanes(wanted[window]));
		assert_int_equal(lane_sum(&usual, choice.give), window);
		assert_false(choice.reload);
	}
	/* four at most: 20 + 10 + 5 + 3 */
	assert_int_equal(choose(0, 0, 0, 1000, false, false).give, LANES(20, 10, 5, 3));
}

TEST(a_window_that_rises_keeps_its_lanes) {
	lane_set used;

	assert_int_equal(choose(LANES(3), LANES(3), 0, 4, false, false).give, LANES(3, 1));
	/* 5 would be wider than 3 + 2, and is not: what is there stays */
	assert_int_equal(choose(LANES(3), LANES(3), 0, 5, false, false).give, LANES(3, 2));
	assert_int_equal(choose(LANES(5, 3, 2), LANES(5, 3, 2), 0, 10, true, true).give,
	    LANES(5, 3, 2));
	/* 11 of 12 can be had at once: good enough */
	used = LANES(5, 3, 2);
	assert_int_equal(choose(used, used, used, 12, true, false).give, LANES(5, 3, 2, 1));
	/* 13: 10 + 3, of which 3 is there; 11 is too little, 3 alone is narrow: mail goes
	 * on as it does, while the rest is slow to drain */
	used = LANES(5, 3, 2, 1);
	assert_int_equal(choose(used, used, used, 13, true, false).give, used);
	assert_int_equal(choose(used, used, used, 13, true, true).give, used);
	assert_false(choose(used, used, used, 13, true, true).reload);
	/* 20 is 10 + 5 + 3 + 2: the lane of 1 is in the way, and soon empty */
	assert_int_equal(choose_soon(used, used, LANES(5, 3, 2), 20).give, LANES(5, 3, 2));
	used = LANES(5, 3, 2);
	assert_int_equal(choose(used, used, used, 20, true, false).give, LANES(10, 5, 3, 2));
	/* nothing of 2 is there */
	assert_int_equal(choose_soon(LANES(1), LANES(1), 0, 2).give, LANES(1));
	assert_int_equal(choose(LANES(1), LANES(1), LANES(1), 2, true, true).give, LANES(1));
}

TEST(a_lane_that_was_left_keeps_its_width) {
	lane_set used = LANES(5, 3);
	struct lane_choice choice = choose(used, used, used, 7, true, false);

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

TEST(a_single_wide_lane_is_held_until_it_drained) {
	struct lane_choice choice = choose(LANES(10), LANES(10), LANES(10), 9, true, false);

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

TEST(the_transport_itself_is_a_lane_that_is_left) {
	lane_set origin = LANES(99);

	/* the first burst for somebody new: not known to do harm */
	assert_int_equal(choose(origin, origin, origin, 5, false, true).give, origin);
	/* refused: held, or taken out by a reload */
	assert_int_equal(choose(origin, origin, origin, 5, true, false).give, 0);
	assert_true(choose(origin, origin, origin, 5, true, false).reload);
	assert_int_equal(choose(origin, 0, 0, 5, true, false).give, LANES(5));
	/* nothing is taken beside it while it may still run 20 */
	assert_int_equal(choose(0, origin, 0, 5, false, true).give, 0);
}

TEST(suspended_is_held) {
	struct lane_choice choice = choose(LANES(5), LANES(5), LANES(5), 0, true, false);

	assert_int_equal(choice.give, 0);
	assert_true(choice.reload);
	assert_false(choose(LANES(5), LANES(5), 0, 0, true, false).reload);
}

TEST(the_narrowest_lane_is_the_least) {
	static const struct lane_widths wide = { .count = 2, .width = { 4, 9 } };
	const struct lane_now now = { .allowed = 2, .single = NONE };
	struct lane_choice choice;

	lane_choose(&wide, &now, &choice);
	assert_int_equal(choice.give, 1);
	lane_choose(&(struct lane_widths){ .count = 0 }, &now, &choice);
	assert_int_equal(choice.give, 0);
}

static uint32_t canary(lane_set used, lane_set waiting, uint32_t allowed,
    lane_set give) {
	const struct lane_now now = { give, used, waiting, 0, 0, allowed, 0, NONE, NONE, true,
		false, 0, 0 };
	uint32_t lane = lane_canary(&usual, &now, give);

	return lane == LANE_WIDTHS_MAX ? 0 : usual.width[lane];
}

TEST(a_canary_goes_beside_a_full_window) {
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
	    &(struct lane_now){ 1, 1, 1, 0, 0, 5, 0, NONE, NONE, true, false, 0, 0 }, 1), LANE_WIDTHS_MAX);
}

TEST(what_postfix_suspends_is_passed_over) {
	const struct lane_now now = { .allowed = 8, .blocked = LANES(5, 1),
		.single = NONE };
	struct lane_now full = { LANES(3), LANES(3), LANES(3), 0, LANES(1), 3, 0, NONE, NONE,
		true, false, 0, 0 };
	struct lane_choice choice;

	lane_choose(&usual, &now, &choice);
	assert_int_equal(choice.give, LANES(3, 2));
	assert_false(choice.reload);	/* 5 of 8: single messages do the rest */
	assert_int_equal(usual.width[lane_canary(&usual, &full, LANES(3))], 2);
	full.allowed = 7;
	full.blocked = LANES(5, 2);
	lane_choose(&usual, &full, &choice);
	assert_int_equal(choice.give, LANES(3, 1));
	assert_false(choice.reload);
	full.blocked = LANES(5, 3, 2);
	full.used = 0;
	lane_choose(&usual, &full, &choice);
	assert_int_equal(choice.give, LANES(1));
	assert_true(choice.reload);	/* 1 of 7 */
	full.used = LANES(3);
	full.allowed = 4;
	full.blocked = LANES(1);
	lane_choose(&usual, &full, &choice);
	assert_int_equal(choice.give, LANES(3));
	assert_int_equal(choice.wanted, LANES(3, 1));
	full.allowed = 3;
	full.blocked = LANES(3);
	full.used = 0;
	lane_choose(&usual, &full, &choice);
	assert_int_equal(choice.give, LANES(2, 1));
	assert_false(choice.reload);	/* they do as well */
	assert_true(lane_failure(5) == 0.2);
}

TEST(single_messages_fill_the_rest) {
	struct lane_now now = { LANES(3, 2, 1), LANES(3, 2, 1), LANES(3, 2, 1), LANES(3), 0, 7,
		0, NONE, NONE, true, false, 0, 0 };
	struct lane_choice choice;
	uint32_t lane;

	/* 5 + 2 would be 7, but mail waits long in 3: one more by the lane of 5 */
	lane_choose(&usual, &now, &choice);
	assert_int_equal(choice.give, LANES(3, 2, 1));
	assert_int_equal(lane_canary(&usual, &now, choice.give), NONE);
	assert_int_equal(lane_singles(&usual, &now, choice.give, &lane), 1);
	assert_int_equal(usual.width[lane], 5);
	/* it is out: the window is full, a canary goes by another lane */
	now.singles = 1;
	now.single = lane;
	assert_int_equal(lane_singles(&usual, &now, choice.give, &lane), 0);
	assert_int_equal(usual.width[lane_canary(&usual, &now, choice.give)], 10);
	/* and up: its lane stays the same while it is out */
	now.allowed = 9;
	now.waiting = LANES(3, 2, 1);
	assert_int_equal(lane_singles(&usual, &now, LANES(3, 2, 1), &lane), 2);
	assert_int_equal(usual.width[lane], 5);
	now.singles = 0;
	now.single = NONE;
	now.canary = lane;
	assert_int_equal(lane_singles(&usual, &now, LANES(3, 2, 1), &lane), 3);
	assert_int_equal(usual.width[lane], 10);
	/* of the lane of 5 only what is out there counts */
	now = (struct lane_now){ LANES(3), LANES(3), LANES(3), 0, 0, 8, 2, 3, NONE, true,
		false, 0, 0 };
	lane_choose(&usual, &now, &choice);
	assert_int_equal(choice.give, LANES(5, 3));
	now.allowed = 7;
	lane_choose(&usual, &now, &choice);
	assert_int_equal(choice.give & LANES(5), 0);
	/* none while nothing waits, or mail is held */
	now.waiting = 0;
	assert_int_equal(lane_singles(&usual, &now, LANES(3), &lane), 0);
	assert_int_equal(lane_singles(&usual, &now, 0, &lane), 0);
}

TEST(single_messages_leave_no_connection_behind) {
	struct lane_widths widths = usual;
	struct lane_now now = { LANES(3), LANES(3), LANES(3), 0, 0, 8, 0, NONE, NONE, true,
		false, 0, 0 };
	uint32_t lane;

	assert_int_equal(lane_singles(&widths, &now, LANES(3), &lane), 5);
	assert_int_equal(widths.width[lane], 5);
	/* lanes of 5 and more keep them for a moment: 2 messages, in the lane of 2 */
	widths.keep_from = 5;
	assert_int_equal(lane_singles(&widths, &now, LANES(3), &lane), 2);
	assert_int_equal(widths.width[lane], 2);
	now.singles = 1;
	now.single = lane;
	assert_int_equal(lane_singles(&widths, &now, LANES(3), &lane), 1);
	/* where all do, it makes no difference */
	now.singles = 0;
	now.single = NONE;
	widths.keep_from = 1;
	assert_int_equal(lane_singles(&widths, &now, LANES(3), &lane), 5);
	assert_int_equal(widths.width[lane], 5);
	widths.keep_from = 5;
	/* no narrow one is free */
	now.singles = 0;
	now.single = NONE;
	now.used = now.waiting = LANES(3, 2, 1);
	assert_int_equal(lane_singles(&widths, &now, LANES(3, 2, 1), &lane), 2);
	assert_int_equal(widths.width[lane], 5);
}

TEST(drained_is_a_matter_of_time) {
	assert_int_equal(lane_drained_ns(10 * NS, 4 * NS, 2 * NS), 31 * NS / 2);
	assert_int_equal(lane_drained_ns(10 * NS, 12 * NS, 2 * NS), 35 * NS / 2);
	assert_int_equal(lane_drained_ns(10 * NS, 0, 0), 15 * NS);
	assert_int_equal(lane_drained_ns(10 * NS, 0, 900 * NS), 610 * NS);
}

TEST(queues_share_a_window) {
	assert_int_equal(lane_share(20, 0, 1), 20);
	assert_int_equal(lane_share(20, 3, 2), 8);
	assert_int_equal(lane_share(20, 30, 1), 1);
	assert_int_equal(lane_share(3, 0, 9), 1);
	assert_int_equal(lane_share(0, 0, 1), 0);
	assert_int_equal(lane_share(7, 0, 0), 7);
}

/* A window of 8 that was never filled: one message more than was accepted at once, and so on;
 * what was given already is not taken back. */
TEST(lanes_come_up_to_what_is_proven) {
	struct lane_now now = { .given = LANES(5), .used = LANES(5), .waiting = LANES(5),
		.allowed = 8, .single = NONE, .canary = NONE, .proven = 5 };
	struct lane_choice choice;
	uint32_t lane;

	lane_choose(&usual, &now, &choice);
	assert_int_equal(choice.give, LANES(5));
	assert_int_equal(lane_singles(&usual, &now, choice.give, &lane), 3);
	assert_int_equal(usual.width[lane], 3);
	now.proven = 6;
	lane_choose(&usual, &now, &choice);
	assert_int_equal(choice.give, LANES(5, 1));
	now.proven = 0;
	lane_choose(&usual, &now, &choice);
	assert_int_equal(choice.give, LANES(5, 3));
	/* given before, when more was known */
	now.given = now.used = now.waiting = LANES(10);
	now.allowed = 12;
	now.proven = 5;
	lane_choose(&usual, &now, &choice);
	assert_int_equal(choice.give, LANES(10));
	now.given = now.used = now.waiting = LANES(3);
	now.allowed = 2;
	lane_choose(&usual, &now, &choice);
	assert_int_equal(choice.wanted, LANES(2));
}

/* So much lanes may come up to at least. */
static uint32_t least(const struct lane_widths *widths, const struct lane_now *now) {
	uint32_t most = now->proven != 0 && now->proven < now->allowed ? now->proven : now->allowed;

	return most < widths->width[0] ? widths->width[0] : most;
}

/* A lane of 1 is never suspended by Postfix: one place too many cost a message for each that came
 * by it. */
TEST(a_lane_that_is_refused_is_left) {
	struct lane_now now = { .given = LANES(5, 1), .used = LANES(5, 1), .waiting = LANES(5, 1),
		.allowed = 6, .single = NONE, .canary = NONE, .refused = LANES(1) };
	struct lane_choice choice;

	assert_false(lane_is_refused(1, 1, true));
	assert_true(lane_is_refused(1, 2, true));
	assert_false(lane_is_refused(1, 9, false));
	assert_false(lane_is_refused(2, 9, true));
	lane_choose(&usual, &now, &choice);
	assert_int_equal(choice.give, LANES(5));
	assert_int_equal(choice.wanted, LANES(5, 1));
	assert_false(choice.reload);
	/* where there is no other, rather that than none */
	now.given = now.used = now.waiting = 0;
	now.allowed = 1;
	lane_choose(&usual, &now, &choice);
	assert_int_equal(choice.give, LANES(1));
	now.allowed = 3;
	now.refused = LANES(1, 2, 3);
	lane_choose(&usual, &now, &choice);
	assert_int_equal(choice.give, LANES(3));
	now.blocked = LANES(3);
	lane_choose(&usual, &now, &choice);
	assert_int_equal(choice.give, LANES(2, 1));
}

/* All that may run. */
static uint32_t runs(const struct lane_widths *widths, const struct lane_now *now,
    lane_set set) {
	lane_set all = now->used | set;

	return lane_sum(widths, all) + ((all >> now->single & 1) != 0 ? 0 : now->singles);
}

/* One queue for a long time: windows that change, lanes that fill and drain.  What is
 * used never comes to more than was allowed, canary included, but by what was there
 * before the window fell. */
TEST(never_more_than_is_allowed) {
	struct random random = random_seeded("never_more_than_is_allowed");
	uint32_t held = 0, moved = 0, single = 0, canaries = 0;

	for (unsigned run = 0; run < 300; run++) {
		struct lane_widths widths = usual;
		struct lane_now now = { .allowed = 5, .single = NONE, .canary = NONE };
		uint32_t past = 0;

		if (run % 2 == 1) {
			widths.count = 0;
			for (unsigned w = 1; widths.count < 1 + run % LANE_WIDTHS_MAX; w++)
				if (random_below(&random, 3) == 0)
					widths.width[widths.count++] = (uint16_t)w;
		}
		for (unsigned turn = 0; turn < 300; turn++) {
			uint32_t lane, more, before, after;
			struct lane_choice choice;

			if (random_below(&random, 10) == 0)
				now.allowed = random_below(&random, 26);
			past = now.allowed > past ? now.allowed : past;
			if (past < widths.width[0])
				past = widths.width[0];
			now.waiting = random_below(&random, 3) == 0 ? now.used :
			    now.used & random_below(&random, LANE_ORIGIN);
			now.slow = now.waiting & random_below(&random, LANE_ORIGIN);
			now.blocked = random_below(&random, 4) == 0 ? ~now.used &
			    random_below(&random, LANE_ORIGIN) : 0;
			now.refused = random_below(&random, 4) == 0 ?
			    random_below(&random, LANE_ORIGIN) : 0;
			now.limited = random_below(&random, 2) == 0;
			now.patient = random_below(&random, 9) == 0;
			now.proven = random_below(&random, 2) == 0 ? 0 : random_below(&random, 26);
			before = runs(&widths, &now, 0);
			lane_choose(&widths, &now, &choice);
			after = runs(&widths, &now, choice.give);
			assert_int_equal(choice.give & now.blocked, 0);
			/* of those that are refused none, if there is any other */
			for (uint32_t i = 0; i < widths.count; i++)
				if ((choice.give & now.refused) != 0 &&
				    ((now.blocked | now.refused) >> i & 1) == 0)
					assert_in_range(widths.width[i], least(&widths, &now) + 1,
					    LANE_WIDTH_MOST);
			if (now.allowed == 0)
				assert_int_equal(choice.give, 0);
			if ((choice.give & ~now.used) != 0 && now.allowed >= widths.width[0])
				assert_in_range(after, 1, now.allowed);
			else if (after > now.allowed && now.allowed >= widths.width[0])
				assert_int_equal(after, before);
			more = lane_singles(&widths, &now, choice.give, &lane);
			if (more > 0) {
				assert_int_equal((now.used | choice.give) >> lane & 1, 0);
				assert_true(after + more <= now.allowed);
				assert_true(after + more == now.allowed || more +
				    (lane == now.single ? now.singles : 0) ==
				    widths.width[lane]);
				now.singles += 1 + random_below(&random, more);
				now.single = lane;
				single++;
			}
			lane = lane_canary(&widths, &now, choice.give);
			if (lane != NONE) {
				assert_int_equal((now.used | choice.give) >> lane & 1, 0);
				assert_true(lane != now.single || now.singles == 0);
				assert_int_equal(runs(&widths, &now, choice.give),
				    now.allowed);
				canaries++;
			}
			held += choice.give == 0 && now.allowed > 0;
			moved += choice.give != now.given;
			now.given = choice.give;
			now.used |= now.given;
			assert_in_range(runs(&widths, &now, 0), 0, past);
			/* what was left drains now and then, single messages end */
			if (random_below(&random, 4) == 0)
				now.used = now.given | (now.used &
				    random_below(&random, LANE_ORIGIN));
			if ((now.used >> now.single & 1) != 0)
				now.singles = 0;
			else if (now.singles > 0 && random_below(&random, 2) == 0)
				now.singles--;
		}
	}
	assert_true(held > 100);
	assert_true(moved > 1000);
	assert_true(single > 1000);
	assert_true(canaries > 100);
}

/* When mail goes on and lanes drain, the window is carried whole, though what is slow
 * never drains. */
TEST(the_window_is_reached) {
	struct random random = random_seeded("the_window_is_reached");

	for (unsigned run = 0; run < 1000; run++) {
		struct lane_now now = { .single = NONE, .canary = NONE, .limited = true };
		struct lane_choice choice;
		uint32_t lane, more;

		for (unsigned change = 0; change < 6; change++) {
			now.allowed = 1 + random_below(&random, 25);
			for (unsigned turn = 0; turn < 5; turn++) {
				bool last = change == 5 && turn >= 2;

				now.waiting = now.used;
				now.slow = last ? now.slow & now.used :
				    now.used & random_below(&random, LANE_ORIGIN);
				lane_choose(&usual, &now, &choice);
				now.given = choice.give;
				now.used = now.given | (random_below(&random, 3) == 0 &&
				    !last ? now.used : 0);
			}
		}
		now.waiting = now.used;
		more = lane_singles(&usual, &now, now.given, &lane);
		assert_int_equal(lane_sum(&usual, now.given) + more, now.allowed);
	}
}
