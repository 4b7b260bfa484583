/* SPDX-License-Identifier: ISC */
/*
 * The whole session engine in virtual time: any order of opens, ends, crashes,
 * reads of the kernel's table (late, partial, lost), announcements, leases,
 * adoptions and reloads ends with counters equal to the live set; and no admission
 * is above a limit.  World and engine are compared slot by slot.  TEST_SEED=N plays
 * one seed again.
 */
#include "tests/unit/test.h"

#include "tests/unit/engine/engine_world.h"
#include "tests/unit/random.h"

#define SEEDS		40
#define STEPS		1500
#define CHECK_EACH	250

static void one_world(uint64_t seed) {
	world_open(seed);
	for (unsigned i = 1; i <= STEPS; i++) {
		world_step();
		if (i % CHECK_EACH == 0) {
			world_rest();
			assert_true(world_agrees());
		}
	}
	world_rest();
	world_wait_for_leases();
	assert_true(world_agrees());
	world_end_all();
	world_rest();
	assert_true(world_is_empty());
	world_close();
}

TEST(counters_equal_the_live_set) {
	uint64_t first = random_seeded("t_engine_random").state;
	unsigned worlds = getenv("TEST_SEED") != NULL ? 1 : SEEDS;

	for (unsigned i = 0; i < worlds; i++)
		one_world(first + i);
}
