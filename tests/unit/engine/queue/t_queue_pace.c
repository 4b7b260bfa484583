/* SPDX-License-Identifier: ISC */
/* The driven queue and a destination with a pace: runs begin as tokens come. */
#include "tests/unit/test.h"
#include "engine/queue/queue_internal.h"
#include "tests/unit/engine/queue/queue_steps.h"

#define PACED	"destinations = ( { match = [ \"d0.example\" ]; pace = \"60/1m\"; pace_burst = 2; } );\n"

static void begin(void) {
	world_open(PACED, 4);
	servers(3, 10 * MS);
	for (unsigned i = 0; i < 3; i++)
		(void)world_mail(world.servers[i].name);
	assert_true(world_drain(5 * S));
	world_run(world.now_ns + 5 * S);
	world.put_off = 0;
}

TEST_IN(NULL, tear_down, messages_go_at_the_pace) {
	unsigned before, runs;

	begin();
	before = world.servers[0].got;
	runs = world.runs;
	for (unsigned i = 0; i < 40; i++)
		(void)world_mail("d0.example");
	world_run(world.now_ns + 500 * MS);
	assert_int_equal(world.servers[0].got - before, 2);
	for (unsigned i = 1; i <= 20; i++) {
		world_run(world.now_ns + S);
		assert_in_range(world.servers[0].got - before, i + 1, i + 2);
	}
	assert_true(world.put_off <= 2);
	assert_true(world.runs - runs <= 30);
	assert_true(world_drain(30 * S));
	assert_int_equal(world.servers[0].got - before, 40);
}

TEST_IN(NULL, tear_down, others_are_not_held_up_by_it) {
	unsigned before;

	begin();
	before = world.servers[1].got;
	for (unsigned i = 0; i < 60; i++) {
		(void)world_mail("d0.example");
		(void)world_mail("d1.example");
	}
	world_run(world.now_ns + 3 * S);
	assert_int_equal(world.servers[1].got - before, 60);
}

TEST_IN(NULL, tear_down, a_message_takes_one_token_whatever_its_recipients) {
	unsigned before;

	begin();
	before = world.servers[0].got;
	for (unsigned i = 0; i < 10; i++)
		(void)world_mail("d0.example*5 d1.example");
	world_run(world.now_ns + 500 * MS);
	assert_int_equal(world.servers[0].got - before, 10);
	world_run(world.now_ns + 4 * S);
	assert_in_range(world.servers[0].got - before, 25, 30);
	assert_true(world_drain(10 * S));
	assert_int_equal(world.servers[0].got - before, 50);
}

static void limit_pace(int64_t pace_ns) {
	const struct by_hand limit = { .verb = MANUAL_LIMIT, .name = "d1.example", .name_length = 10,
		.window = BY_HAND_UNSET, .ceiling = BY_HAND_UNSET, .pace_ns = pace_ns };
	struct window_owner owner;

	assert_int_equal(windows_by_hand(world.site.engine, world.site.generation, &limit,
	    world.now_ns, &owner), BY_HAND_DONE);
}

/* Six an hour: the next would go in ten minutes, a second after that has ended it goes. */
TEST_IN(NULL, tear_down, mail_goes_at_once_when_a_slow_pace_ends) {
	unsigned before;

	begin();
	before = world.servers[1].got;
	limit_pace(600 * S);
	for (unsigned i = 0; i < 8; i++)
		(void)world_mail("d1.example");
	world_run(world.now_ns + 5 * S);
	assert_in_range(world.servers[1].got - before, 0, 1);
	limit_pace(-1);
	world_run(world.now_ns + 2 * S);
	assert_int_equal(world.servers[1].got - before, 8);
}
