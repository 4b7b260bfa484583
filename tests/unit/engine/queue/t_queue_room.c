/* SPDX-License-Identifier: ISC */
/* The driven queue with more mail than fits into memory. */
#include "tests/unit/test.h"
#include "engine/queue/queue_internal.h"
#include "tests/unit/engine/queue/queue_steps.h"
#include "tests/unit/engine/queue/queue_world_journal.h"

#define ACTIVE	16u
#define MOST	(4 * ACTIVE)

static void begin(unsigned count) {
	world_open("", 4);
	world.settings.schedule.pool.message_active_limit = ACTIVE;
	world_restart_role(true);
	servers(count, 10 * MS);
	for (unsigned i = 0; i < count; i++)
		(void)world_mail(world.servers[i].name);
	assert_true(world_drain(5 * S));
}

/* More than memory holds, for one that is held: mail for others goes at once all the same,
 * and so does this when it is resumed. */
TEST_IN(NULL, tear_down, mail_of_a_held_destination_does_not_shut_other_mail_out) {
	begin(3);
	by_hand(MANUAL_HOLD, "d0.example");
	for (unsigned i = 0; i < MOST + 40; i++) {
		(void)world_mail("d0.example");
		if (i % 8 == 0)
			world_run(world.now_ns + 10 * MS);
	}
	world_run(world.now_ns + S);
	assert_int_equal(world.queue->message_count, world_has_journal ? 0 : MOST);
	for (unsigned i = 0; i < 20; i++) {
		unsigned mail = world_mail("d1.example d2.example");

		world_run(world.now_ns + S);
		assert_true(world_is_gone(mail));
	}
	world.reads = 0;
	world_run(world.now_ns + 60 * S);
	/* not read again and again */
	assert_int_equal(world.reads, 0);
	by_hand(MANUAL_RESUME, "d0.example");
	all_is_delivered(30 * S);
}

/* The crowd makes room, and not the few of another one that is held. */
TEST_IN(NULL, tear_down, few_that_are_held_stay_known_beside_a_crowd) {
	unsigned few[4];

	begin(3);
	by_hand(MANUAL_HOLD, "d0.example");
	by_hand(MANUAL_HOLD, "d1.example");
	for (unsigned i = 0; i < 4; i++)
		few[i] = world_mail("d1.example");
	for (unsigned i = 0; i < 3 * MOST; i++) {
		(void)world_mail("d0.example");
		world_run(world.now_ns + 10 * MS);
	}
	world_run(world.now_ns + S);
	by_hand(MANUAL_RESUME, "d1.example");
	world_run(world.now_ns + 3 * S);
	for (unsigned i = 0; i < 4; i++)
		assert_true(world_is_gone(few[i]));
}

/* The same with mail that waits for its retry time. */
TEST_IN(NULL, tear_down, mail_that_failed_does_not_shut_other_mail_out) {
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
