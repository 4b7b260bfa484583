/* SPDX-License-Identifier: ISC */
#include "tests/unit/test.h"
#include "tests/unit/engine/hints/hints_world.h"

/* A reload ends what Postfix suspended. */
TEST_IN(world_open, world_close, suspended_lanes_that_are_missed_are_worth_a_reload) {
	world->may_reload = true;
	begin_with(10, "10");
	fails(10, 0);
	/* it does without */
	assert_string_equal(lanes_after("a.example", 0), "5+3+2");
	assert_string_equal(lanes_after("a.example", 2 * S), "5+3+2");
	assert_int_equal(world->reloads, 0);
	fails(5, 0);
	turn(0);
	turn(2 * S);
	assert_int_equal(world->reloads, 0);	/* 6 of 10: single messages do the rest */
	result("a.example", 2, 900, 0);
	fails(3, 0);
	turn(0);
	turn(2 * S);
	assert_int_equal(world->reloads, 1);
	/* what is on its way has to end first: the new queue manager knows nothing of it */
	assert_string_equal(lanes("a.example"), "held");
	engine_hints_reloaded(world->hints, 1, true, world->now_ns);
	assert_string_equal(lanes_after("a.example", S), "held");
	assert_string_equal(lanes_after("a.example", 4 * S), "10");
}

/* The supervisor may be gone. */
TEST_IN(world_open, world_close, a_reload_that_nobody_answers_holds_no_mail_for_long) {
	world->may_reload = true;
	begin_with(10, "10");
	result("a.example", 10, 9000, 0);
	turn(0);
	set_window("a.example", 9);
	for (unsigned i = 0; i < 3; i++) {
		turn(0);
		result("a.example", 10, 9000, S);
	}
	turn(0);
	assert_int_equal(world->reloads, 1);
	assert_string_equal(lanes_after("a.example", 19 * S), "held");
	turn(2 * S);
	assert_string_equal(lanes_after("a.example", 0), "5+3+1");
}

TEST_IN(world_open, world_close, a_reload_takes_mail_out_of_a_wide_lane) {
	world->may_reload = true;
	begin_with(10, "10");
	result("a.example", 10, 9000, 0);
	turn(0);
	set_window("a.example", 9);
	turn(0);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(world->reloads, 0);
		result("a.example", 10, 9000, S);
		turn(0);
	}
	/* it has not come to rest at 10 again */
	assert_int_equal(world->reloads, 1);
	assert_string_equal(lanes("a.example"), "held");
	engine_hints_reloaded(world->hints, 1, true, world->now_ns);
	assert_string_equal(lanes_after("a.example", S), "held");
	/* what was being delivered then has ended */
	assert_string_equal(lanes_after("a.example", 2 * S), "5+3+1");
	/* once a minute, and whether it was done or not */
	result("a.example", 5, 9000, 0);
	set_window("a.example", 1);
	for (unsigned i = 0; i < 57; i++) {
		result("a.example", 5, 9000, S);
		turn(0);
	}
	assert_int_equal(world->reloads, 1);
	for (unsigned i = 0; i < 5; i++) {
		result("a.example", 5, 9000, S);
		turn(0);
	}
	assert_int_equal(world->reloads, 2);
	engine_hints_reloaded(world->hints, 1, false, world->now_ns);
	result("a.example", 5, 9000, 0);
	assert_string_equal(lanes_after("a.example", 0), "1");
	assert_int_equal(world->reloads, 2);
}
