/* SPDX-License-Identifier: ISC */
#include "tests/unit/test.h"
#include "tests/unit/engine/hints/hints_world.h"
#include "segment/destination/states.h"

/* The first `count` answers, by width. */
static void count_widths(unsigned count, unsigned widths[32]) {
	memset(widths, 0, 32 * sizeof(*widths));
	for (unsigned i = 0; i < count; i++)
		widths[look_up("a.example")->width]++;
}

static unsigned count_by(uint16_t width, unsigned count) {
	unsigned widths[32];

	count_widths(count, widths);
	return widths[width];
}

TEST_IN(world_open, world_close, windows_are_carried_by_lanes) {
	publish(LANES);
	see("a.example", 1, true);
	/* nobody knows it: the window begins with 5 */
	assert_string_equal(lanes_after("a.example", S), "5");
	assert_string_equal(lanes("b.example"), "5");
	set_window("a.example", 8);
	assert_string_equal(lanes_after("a.example", 0), "5+3");
	set_window("a.example", 20);
	assert_string_equal(lanes_after("a.example", 0), "20");
	/* a site without them gets none, and goes on being held */
	publish("postern-site 1\nmta out\n");
	assert_string_equal(lanes_after("a.example", S), "-");
	by_hand(MANUAL_HOLD, "a.example");
	assert_string_equal(lanes_after("a.example", 0), "held");
	/* lanes that are configured and not there */
	publish("postern-site 1\nmta out\nlane 3\nlane 7\n");
	resume_with("a.example", 9);
	assert_string_equal(lanes_after("a.example", S), "3");
}

TEST_IN(world_open, world_close, a_queue_moves_as_its_lanes_drain) {
	begin_with(8, "5+3");
	result("a.example", 5, 900, 0);
	result("a.example", 3, 900, 0);
	turn(0);
	set_window("a.example", 7);
	/* 3 may still have mail; 2 has no room beside it */
	assert_string_equal(lanes_after("a.example", 0), "5");
	result("a.example", 3, 900, S);
	result("a.example", 5, 900, 0);
	assert_string_equal(lanes_after("a.example", 0), "5");
	/* 2.5 s and half as much again as its longest delivery after its last result */
	assert_string_equal(lanes_after("a.example", 2799 * NS_PER_MS), "5");
	assert_string_equal(lanes_after("a.example", 2 * NS_PER_MS), "5+2");
}

TEST_IN(world_open, world_close, one_wide_lane_is_waited_for) {
	begin_with(10, "10");
	result("a.example", 10, 900, 0);
	turn(0);
	set_window("a.example", 9);
	/* not for a moment only */
	assert_string_equal(lanes_after("a.example", 0), "10");
	result("a.example", 10, 900, S);
	assert_string_equal(ask("a.example", 0),
	    "Postern: a.example: deliveries in flight go first");
	assert_string_equal(lanes_after("a.example", 3 * S), "5+3+1");
	assert_int_equal(world->reloads, 0);
}

TEST_IN(world_open, world_close, the_transport_itself_drains_first) {
	publish(LANES "route a.example [relay.example]\n");
	turn(0);
	/* a burst for somebody new, whose next hop may be another's: by no lane so far */
	see("a.example", 1, true);
	result("a.example", 0, 900, S);
	assert_string_equal(lanes_after("a.example", 0), "-");
	/* more than 3 is refused: its mail waits */
	set_window("a.example", 3);
	turn(0);
	result("a.example", 0, 900, S);
	assert_string_equal(lanes_after("a.example", 0), "held");
	/* what waited there goes on, and counts */
	for (unsigned i = 0; i < 5; i++) {
		result("a.example", 0, 900, S);
		assert_string_equal(lanes_after("a.example", 0), "held");
	}
	assert_string_equal(lanes_after("a.example", 3 * S), "3");
}

/* Until ten minutes after it: as long as results came its length was forgotten. */
TEST_IN(world_open, world_close, one_long_delivery_does_not_hold_a_silent_queue) {
	publish(LANES);
	see("a.example", 1, true);
	set_window("a.example", 10);
	assert_string_equal(lanes_after("a.example", 200 * S), "10");
	note_use("a.example", (struct lane_use){ .took_ms = 400000, .waited_ms = 900, .width = 10,
		.tried = true });
	turn(0);
	set_window("a.example", 3);
	turn(0);
	assert_string_equal(lanes_after("a.example", 2 * S), "held");
	/* another one may go on for as long */
	assert_string_equal(lanes_after("a.example", 110 * S), "held");
	assert_string_equal(lanes_after("a.example", 70 * S), "3");
}

TEST_IN(world_open, world_close, what_is_slow_to_drain_is_filled_up_by_single_messages) {
	const struct lane_use refused = { .took_ms = 10, .width = 5, .tried = true,
		.failed = true };

	begin_with(3, "3");
	result("a.example", 3, 90000, 0);
	turn(0);
	set_window("a.example", 5);
	/* the lane of 3 is slow, and stays */
	assert_string_equal(lanes_after("a.example", S), "3+2");
	for (unsigned i = 0; i < 3; i++) {
		result("a.example", 3, 90000, S);
		result("a.example", 2, 900, 0);
		turn(0);
	}
	set_window("a.example", 7);
	assert_string_equal(lanes_after("a.example", 0), "3+2+1");
	result("a.example", 1, 900, 0);
	/* the one that is missing goes alone, by a lane that is wider */
	for (unsigned i = 0; i < 3; i++) {
		turn(50 * NS_PER_MS);
		assert_int_equal(count_by(5, 50), i == 0 ? 1 : 0);
	}
	/* its result makes room for the next one */
	result("a.example", 5, 0, 0);
	turn(50 * NS_PER_MS);
	assert_int_equal(count_by(5, 50), 1);
	/* one that was refused makes it later */
	note_use("a.example", refused);
	for (unsigned i = 0; i < 4; i++) {
		turn(400 * NS_PER_MS);
		assert_int_equal(count_by(5, 50), i == 2 ? 1 : 0);
	}
}

/* How many of the next 20 questions get the lane of 10. */
static unsigned ask_for_singles(void) {
	result("a.example", 5, 900, 0);
	result("a.example", 1, 900, 0);
	for (unsigned i = 0; i < 10; i++)
		turn(50 * NS_PER_MS);
	return count_by(10, 20);
}

/* Three fit beside, and no mail comes for a while: all go.  When one is lost that is found
 * out, though there are always others. */
TEST_IN(world_open, world_close, single_messages_that_wait_for_mail_are_not_lost) {
	unsigned out;

	begin_with(9, "5+3+1");
	fails(3, 0);
	fails(2, 0);
	assert_string_equal(lanes_after("a.example", 0), "5+1");
	assert_int_equal(ask_for_singles(), 3);
	out = 2;
	for (unsigned i = 0; i < 50; i++) {
		while (out-- > 0)
			result("a.example", 10, 0, 0);
		out = ask_for_singles();
		assert_int_equal(out, 2);
		world->now_ns += S / 2;
	}
	for (unsigned i = 0; i < 20; i++) {
		while (out-- > 0)
			result("a.example", 10, 0, 0);
		out = ask_for_singles();
		assert_in_range(out, 0, 3);
		world->now_ns += S / 2;
	}
	assert_int_equal(out, 3);
}

/* Three were offered for a window of 9, and no mail came until it had fallen. */
TEST_IN(world_open, world_close, single_messages_of_a_window_that_fell_do_not_go) {
	begin_with(9, "5+3+1");
	fails(3, 0);
	fails(2, 0);
	assert_string_equal(lanes_after("a.example", 0), "5+1");
	result("a.example", 5, 900, 0);
	result("a.example", 1, 900, 0);
	for (unsigned i = 0; i < 10; i++)
		turn(50 * NS_PER_MS);
	set_window("a.example", 6);
	turn(50 * NS_PER_MS);
	assert_int_equal(count_by(10, 20), 0);
}

TEST_IN(world_open, world_close, lanes_that_postfix_suspends_are_passed_over) {
	struct lane_use use = { .took_ms = 10, .width = 3, .tried = true };

	begin_with(3, "3");
	/* two failures, a success, two failures: not yet a cohort */
	for (unsigned i = 0; i < 5; i++) {
		use.failed = i != 2;
		note_use("a.example", use);
	}
	assert_string_equal(lanes_after("a.example", 0), "3");
	note_use("a.example", use);
	assert_string_equal(lanes_after("a.example", 0), "2+1");
	assert_string_equal(lanes_after("a.example", 299 * S), "2+1");
	assert_string_equal(lanes_after("a.example", 2 * S), "3");
}

/* `cohorts`: failed, with nothing accepted since. */
static void window_fell(const char *name, uint16_t window, double cohorts) {
	struct state_lock lock;

	assert_true(states_aim(world->site.segment, name, strlen(name), &lock));
	assert_int_equal(states_lock(&lock, world->now_ns, STATES_CREATE), STATES_HELD);
	if (!lock.state.begun)
		window_begin(&lock.state.window, &window_defaults);
	lock.state.begun = true;
	lock.state.window.concurrency = window;
	lock.state.window.fail_cohorts = cohorts;
	states_store(&lock);
	states_unlock(&lock);
}

/* A burst found the site full: Postfix suspends the lane, and others of it run still, which the
 * log has not told of.  Mail waits until it has, or for 2.5 s and 1.5 times the longest.  (Each
 * round begins without the lanes of the one before: after 600 s.) */
TEST_IN(world_open, world_close, a_lane_that_was_full_counts_until_something_is_heard) {
	publish(LANES);
	see("a.example", 1, true);
	for (unsigned i = 0; i < 2; i++) {
		window_fell("a.example", 5, 0);
		assert_string_equal(lanes_after("a.example", 700 * S), "5");
		fails(5, 0);
		window_fell("a.example", 3, 0.2);
		turn(S / 10);
		assert_int_equal(look_up("a.example")->kind, HINTS_HELD);
		if (i == 0) {
			turn(2 * S);
			assert_int_equal(look_up("a.example")->kind, HINTS_HELD);
			world->now_ns += S;
		} else {
			world->now_ns += S;
			window_fell("a.example", 3, 0);
			result("a.example", 5, 0, 0);
		}
		assert_string_equal(lanes_after("a.example", 0), "3");
	}
}

/* Each message that went by it was refused, up to 15 a S, until the window fell. */
TEST_IN(world_open, world_close, a_lane_of_1_that_the_site_refuses_gets_no_more_mail) {
	begin_with(5, "5");
	result("a.example", 5, 0, 0);
	turn(0);
	set_window("a.example", 6);
	assert_string_equal(lanes_after("a.example", 0), "5+1");
	/* one may be chance; and where nothing else is accepted the site is down, not full */
	fails(1, S / 10);
	assert_string_equal(lanes_after("a.example", 0), "5+1");
	fails(1, S / 10);
	assert_string_equal(lanes_after("a.example", 0), "5+1");
	result("a.example", 5, 0, S / 10);
	fails(1, 0);
	assert_string_equal(lanes_after("a.example", 0), "5");
	assert_string_equal(lanes_after("a.example", 9 * S), "5");
	assert_string_equal(lanes_after("a.example", 2 * S), "5+1");
	/* one that is accepted ends the row */
	fails(1, 0);
	result("a.example", 1, 0, 0);
	result("a.example", 5, 0, 0);
	fails(1, 0);
	assert_string_equal(lanes_after("a.example", 0), "5+1");
}

/* More failures than we saw, in another order: its own word counts. */
TEST_IN(world_open, world_close, a_suspension_is_told_by_mail_that_was_not_tried) {
	const struct lane_use untried = { .suspended = true };
	struct lane_use use = { .took_ms = 10, .width = 5, .tried = true, .failed = true };

	begin_with(7, "5+2");
	note_use("a.example", untried);
	/* nothing has failed: it says nothing */
	assert_string_equal(lanes_after("a.example", 0), "5+2");
	note_use("a.example", use);
	assert_string_equal(lanes_after("a.example", 0), "5+2");
	note_use("a.example", untried);
	assert_string_equal(lanes_after("a.example", 0), "3+2+1");
	/* the rest of its mail, told within moments, says no more */
	use.width = 2;
	note_use("a.example", use);
	note_use("a.example", untried);
	assert_string_equal(lanes_after("a.example", 0), "3+2+1");
	assert_string_equal(lanes_after("a.example", 299 * S), "3+2+1");
}

/* Less mail comes than the window takes, and the widest lane is far behind. */
TEST_IN(world_open, world_close, a_narrow_lane_does_not_run_dry_beside_a_full_one) {
	unsigned widths[32];

	begin_with(12, "10+2");
	result("a.example", 10, 30000, 0);
	result("a.example", 2, 0, 0);
	turn(0);
	count_widths(120, widths);
	assert_in_range(widths[2], 18, 22);
	for (unsigned i = 0; i < 10; i++) {
		result("a.example", 10, 30000, S / 2);
		result("a.example", 2, 0, 0);
		turn(0);
	}
	/* four times its part: 8 of 18 */
	count_widths(180, widths);
	assert_in_range(widths[2], 75, 85);
	for (unsigned i = 0; i < 20; i++) {
		result("a.example", 10, 30000, S / 2);
		result("a.example", 2, 15000, 0);
		turn(0);
	}
	/* and where mail waits in it for long it falls, slowly */
	count_widths(120, widths);
	assert_in_range(widths[2], 20, 60);
}

TEST_IN(world_open, world_close, a_canary_goes_by_a_lane_of_its_own) {
	unsigned widths[32];
	const struct window_owner owner = { .kind = DESTINATION_DOMAIN,
		.name = "a.example", .provider = JUDGE_NONE };
	struct window_view view;

	publish(LANES);
	see("a.example", 1, true);
	set_window("a.example", 6);
	turn(S);
	/* nothing waits: it would not be above the window */
	turn(700 * S);
	assert_string_equal(lanes("a.example"), "5+1");
	result("a.example", 5, 900, 0);
	result("a.example", 1, 900, 0);
	turn(0);
	(void)windows_view(world->site.engine, world->generation, &owner, world->now_ns, &view);
	assert_true(view.canary_out);
	count_widths(70, widths);
	assert_int_equal(widths[2], 1);
	assert_in_range(widths[1], 10, 13);
	assert_int_equal(widths[1] + widths[2] + widths[5], 70);
	/* offered for 5 s only; its own result is not mail of lane 2 */
	result("a.example", 2, 0, 6 * S);
	for (unsigned i = 0; i < 9; i++) {	/* and nothing waits any more */
		result("a.example", 1, 0, 0);
		result("a.example", 5, 0, 0);
	}
	assert_string_equal(lanes_after("a.example", 0), "5+1");
	set_window("a.example", 7);
	assert_string_equal(lanes_after("a.example", 0), "5");
	assert_string_equal(lanes_after("a.example", 3 * S), "5+2");
}

TEST_IN(world_open, world_close, next_hops_share_a_queue) {
	publish(LANES "route a.example [relay.example]:25\n"
	    "route b.example [relay.example]:25\n");
	see("a.example", 1, true);
	see("b.example", 1, true);
	see("c.example", 1, true);
	turn(S);
	set_window("a.example", 10);
	assert_string_equal(lanes_after("a.example", 0), "10");
	result("a.example", 10, 900, 0);
	turn(0);
	/* the lane of the one is full of mail: so is the other's */
	assert_string_equal(lanes("b.example"), "10");
}
