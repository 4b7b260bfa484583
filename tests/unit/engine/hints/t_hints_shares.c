/* SPDX-License-Identifier: ISC */
#include "tests/unit/test.h"
#include "tests/unit/engine/hints/hints_world.h"
#include "tests/unit/random.h"

/* A class of 2. */
TEST_IN(world_open, world_close, a_class_bounds_the_lanes_of_all_its_destinations) {
	struct class_record *record;

	publish(LANES);
	for (char name[] = "a.slow.example"; name[0] <= 'c'; name[0]++)
		see(name, 1, true);
	see("wide.example", 1, true);
	turn(20 * S);
	record = site_class(&world->site, "slow");
	assert_string_equal(lanes_after("wide.example", 0), "5");
	/* nothing is under way: one may begin, and then no other one */
	assert_string_equal(lanes_after("a.slow.example", 20 * S), "2");
	assert_string_equal(lanes("b.slow.example"), "held");
	assert_string_equal(look_up("b.slow.example")->text,
	    "Postern: class slow has 2 sessions, and other destinations use them");
	/* mail waits in its lane: it has both */
	result("a.slow.example", 2, 900, S);
	assert_string_equal(lanes_after("a.slow.example", 0), "2");
	world->now_ns += 2 * S;
	assert_string_equal(lanes("b.slow.example"), "held");
	/* an incoming session takes one: the lane of 2 is left, and waits until it is empty */
	atomic_store(&record->open, 1);
	atomic_store(&record->open_inbound, 1);
	assert_string_equal(lanes_after("a.slow.example", 50 * NS_PER_MS), "held");
	assert_string_equal(lanes_after("a.slow.example", 20 * S), "held");
	atomic_store(&record->open, 0);
	atomic_store(&record->open_inbound, 0);
	assert_string_equal(lanes_after("b.slow.example", 2 * S), "2");
	/* no window is wider than without a class, and others are as ever */
	assert_string_equal(lanes_after("wide.example", 0), "5");
}

#define BOUNDED		7u	/* destinations of the class of 2, */
#define MOST_LANES	6u	/* with so many lanes each */
#define MOST_WAITING	64u

static const uint16_t lane_widths[MOST_LANES] = { 1, 2, 3, 5, 10, 20 };

/* A lane of the queue manager: messages that wait, and when those that are delivered end. */
struct model_lane {
	int64_t came_ns[MOST_WAITING];
	unsigned waiting, running;
	int64_t began_ns[20], ends_ns[20];
};

static void deliver(const char *name, struct model_lane *lane,
    uint16_t width, struct random *random) {
	int64_t now_ns = world->now_ns;

	for (unsigned i = 0; i < lane->running; i++) {
		if (lane->ends_ns[i] > now_ns)
			continue;
		note_use(name, (struct lane_use){ .ended_ns = lane->ends_ns[i], .took_ms = 200,
			.waited_ms = (uint32_t)(lane->began_ns[i] / NS_PER_MS), .width = width,
			.tried = true });
		lane->running--;
		lane->ends_ns[i] = lane->ends_ns[lane->running];
		lane->began_ns[i] = lane->began_ns[lane->running];
		i--;
	}
	while (lane->running < width && lane->waiting > 0) {
		/* how long it waited */
		lane->began_ns[lane->running] = now_ns - lane->came_ns[0];
		lane->ends_ns[lane->running++] = now_ns +
		    (int64_t)(1 + random_below(random, 3000)) * NS_PER_MS;
		memmove(lane->came_ns, lane->came_ns + 1,
		    --lane->waiting * sizeof(lane->came_ns[0]));
	}
}

static unsigned lane_place(uint16_t width) {
	for (unsigned i = 0; i < MOST_LANES; i++)
		if (lane_widths[i] == width)
			return i;
	fail();
	return 0;
}

/* Mail comes at random, in floods and alone, and takes up to 3 s.  A queue that is full has all
 * its lanes, so that where fewer run a delivery of another one is taken for one of them: then
 * there may be more than the class's 2 (in 120 runs with other seeds: 3). */
TEST_IN(world_open, world_close, lanes_of_a_class_run_at_most_two_more_than_its_places) {
	static struct model_lane all[BOUNDED][MOST_LANES];
	struct random random = { random_seed() };
	unsigned went = 0, most = 0, above = 0;

	memset(all, 0, sizeof(all));
	publish(LANES);
	for (char name[] = "a.slow.example"; name[0] < 'a' + (char)BOUNDED; name[0]++)
		see(name, 1, true);
	turn(60 * NS_PER_SECOND);
	for (unsigned step = 0; step < 6000; step++) {
		char name[] = "a.slow.example";
		unsigned open = 0, which, asked;

		world->now_ns += (int64_t)(1 + random_below(&random, step % 500 < 20 ? 2000 : 100)) *
		    NS_PER_MS;
		for (unsigned i = 0; i < BOUNDED; i++)
			for (unsigned j = 0; j < MOST_LANES; j++) {
				name[0] = (char)('a' + i);
				deliver(name, &all[i][j], lane_widths[j], &random);
				open += all[i][j].running;
			}
		above += open > 2;
		most = open > most ? open : most;
		atomic_store(&site_class(&world->site, "slow")->open, open);
		turn(0);
		which = random_below(&random, BOUNDED);
		name[0] = (char)('a' + which);
		asked = random_below(&random, 10) == 0 ? 20 : random_below(&random, 2);
		for (; asked > 0; asked--) {
			const struct hints_answer *answer = look_up(name);
			struct model_lane *lane;

			assert_true(answer->kind != HINTS_NOTHING);
			if (answer->kind != HINTS_LANE)
				continue;
			lane = &all[which][lane_place(answer->width)];
			if (lane->waiting < MOST_WAITING)
				lane->came_ns[lane->waiting++] = world->now_ns;
			went++;
		}
	}
	assert_in_range(most, 2, 4);
	/* of 6000; most seeds: none */
	assert_in_range(above, 0, 120);
	/* 3 s each for 2 at once would be 300 */
	assert_true(went > 250);
	}
