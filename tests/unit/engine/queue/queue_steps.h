/* SPDX-License-Identifier: ISC */
/* What tests of the driven queue say often (queue_world.h). */
#ifndef TESTS_UNIT_QUEUE_STEPS_H
#define TESTS_UNIT_QUEUE_STEPS_H

#include "tests/unit/check.h"

#include "base/clock.h"
#include "engine/destination/windows.h"
#include "tests/unit/engine/queue/queue_world.h"

#define S	NS_PER_SECOND
#define MS	NS_PER_MS

static inline int tear_down(void **state) {
	world_close();
	return 0;
}

/* d0.example, d1.example ... */
static inline void servers(unsigned count, int64_t takes_ns) {
	char name[32];

	for (unsigned i = 0; i < count; i++) {
		(void)snprintf(name, sizeof(name), "d%u.example", i);
		(void)world_server(name, takes_ns);
	}
}

/* A queue with so many processes, and that many servers. */
static inline void begin_queue(unsigned processes, unsigned count, int64_t takes_ns) {
	world_open("", processes);
	servers(count, takes_ns);
}

static inline void all_is_delivered(int64_t within_ns) {
	if (!world_drain(within_ns)) {
		world_tell();
		fail_msg("%u files are left", world_files_left());
	}
	world_check();
}

static inline void by_hand(enum manual_verb verb, const char *name) {
	const struct by_hand what = { .verb = verb, .name = name, .name_length = strlen(name),
		.reason = "moving", .window = BY_HAND_UNSET, .ceiling = BY_HAND_UNSET };
	struct window_owner owner;

	assert_int_equal(windows_by_hand(world.site.engine, world.site.generation, &what,
	    world.now_ns, &owner), BY_HAND_DONE);
}

#endif
