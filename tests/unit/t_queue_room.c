/* SPDX-License-Identifier: ISC */
/* The driven queue with more mail than fits into memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "engine/queue_internal.h"
#include "engine/windows.h"
#include "tests/unit/queue_world.h"

#define S	NS_PER_SECOND
#define MS	NS_PER_MS
#define ACTIVE	16u
#define MOST	(4 * ACTIVE)

static int tear_down(void **state)
{
	(void)state;
	world_close();
	return 0;
}

static void begin(unsigned servers)
{
	char name[32];

	world_open("", 4);
	world.settings.message_active_limit = ACTIVE;
	world_restart_role(true);
	for (unsigned i = 0; i < servers; i++) {
		(void)snprintf(name, sizeof(name), "d%u.example", i);
		(void)world_server(name, 10 * MS);
		(void)world_mail(name);
	}
	assert_true(world_drain(5 * S));
}

static void by_hand(enum by_hand_verb verb, const char *name)
{
	const struct by_hand order = { .verb = verb, .name = name,
		.name_length = strlen(name), .reason = "moving", .window = BY_HAND_UNSET };
	struct window_owner owner;

	assert_int_equal(windows_by_hand(world.site.engine, world.site.generation, &order,
	    world.now_ns, &owner), BY_HAND_DONE);
}

static void all_is_delivered(int64_t within_ns)
{
	assert_true(world_drain(within_ns));
	world_check();
}

/* More than memory holds, for one that is held: mail for others goes at once all the same,
 * and so does this when it is resumed. */
static void mail_of_a_held_destination_does_not_shut_other_mail_out(void **state)
{
	(void)state;
	begin(3);
	by_hand(BY_HAND_HOLD, "d0.example");
	for (unsigned i = 0; i < MOST + 40; i++) {
		(void)world_mail("d0.example");
		if (i % 8 == 0)
			world_run(world.now_ns + 10 * MS);
	}
	world_run(world.now_ns + S);
	assert_int_equal(world.queue->message_count, MOST);
	for (unsigned i = 0; i < 20; i++) {
		unsigned mail = world_mail("d1.example d2.example");

		world_run(world.now_ns + S);
		assert_true(world_is_gone(mail));
	}
	world.reads = 0;
	world_run(world.now_ns + 60 * S);
	/* not read again and again */
	assert_int_equal(world.reads, 0);
	by_hand(BY_HAND_RESUME, "d0.example");
	all_is_delivered(30 * S);
}

/* The crowd makes room, and not the few of another one that is held. */
static void few_that_are_held_stay_known_beside_a_crowd(void **state)
{
	unsigned few[4];

	(void)state;
	begin(3);
	by_hand(BY_HAND_HOLD, "d0.example");
	by_hand(BY_HAND_HOLD, "d1.example");
	for (unsigned i = 0; i < 4; i++)
		few[i] = world_mail("d1.example");
	for (unsigned i = 0; i < 3 * MOST; i++) {
		(void)world_mail("d0.example");
		world_run(world.now_ns + 10 * MS);
	}
	world_run(world.now_ns + S);
	by_hand(BY_HAND_RESUME, "d1.example");
	world_run(world.now_ns + 3 * S);
	for (unsigned i = 0; i < 4; i++)
		assert_true(world_is_gone(few[i]));
}

/* The same with mail that waits for its retry time. */
static void mail_that_failed_does_not_shut_other_mail_out(void **state)
{
	(void)state;
	begin(2);
	world.servers[0].mode = SERVER_PUTS_OFF;
	for (unsigned i = 0; i < MOST + 40; i++) {
		(void)world_mail("d0.example");
		world_run(world.now_ns + 400 * MS);
	}
	assert_true(world.queue->message_count <= MOST);
	for (unsigned i = 0; i < 20; i++) {
		unsigned mail = world_mail("d1.example");

		world_run(world.now_ns + S);
		assert_true(world_is_gone(mail));
	}
	world.servers[0].mode = SERVER_TAKES;
	all_is_delivered(3600 * S);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(
		    mail_of_a_held_destination_does_not_shut_other_mail_out, tear_down),
		cmocka_unit_test_teardown(few_that_are_held_stay_known_beside_a_crowd, tear_down),
		cmocka_unit_test_teardown(mail_that_failed_does_not_shut_other_mail_out,
		    tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
