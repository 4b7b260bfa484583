/* SPDX-License-Identifier: ISC */
/* An allocator with its memory, and short ways to ask it: destinations are letters, and
 * lists of them are parted by a bar ("ab|c": a and b, then c). */
#ifndef TESTS_UNIT_WORKER_WORLD_H
#define TESTS_UNIT_WORKER_WORLD_H

#include "tests/unit/check.h"

#include "tests/unit/lab/worker_look.h"

#define SECOND	INT64_C(1000000000)

struct world {
	struct workers *workers;
	struct worker_settings settings;
	int64_t now_ns;
	uint64_t random;
};

static inline void world_open_for(struct world *world, uint32_t workers, uint32_t jobs) {
	struct worker_sizes sizes = { workers, jobs, 8, 2 * workers + 64 };

	world->now_ns = 1000 * SECOND;
	world->random = 0;
	world->settings = worker_defaults;
	world->workers = worker_open(&sizes, &world->settings);
	assert_non_null(world->workers);
}

static inline void world_open(struct world *world, uint32_t workers) {
	world_open_for(world, workers, 1024);
}

static inline void world_set(struct world *world) {
	world->workers->settings = world->settings;
}

static inline void world_close(struct world *world) {
	assert_true(worker_is_sound(world->workers));
	worker_free(world->workers);
	world->workers = NULL;
}

static inline struct worker_place world_place(struct world *world, uint32_t message,
    const char *lists) {
	uint64_t keys[64];
	uint32_t counts[8] = { 0 }, list = 0, key = 0;
	struct worker_request request = { message, message, keys, counts, 0 };
	struct worker_place place;

	for (; *lists != '\0'; lists++) {
		if (*lists == '|') {
			list++;
		} else {
			keys[key++] = (uint64_t)*lists;
			counts[list]++;
		}
	}
	request.list_count = list + 1;
	worker_place(world->workers, &request, world->now_ns, world->random, &place);
	return place;
}

/* Must come to this rule and destination (0: none). */
static inline struct worker_place world_must(struct world *world, uint32_t message,
    const char *lists, enum worker_rule rule, char destination) {
	struct worker_place place = world_place(world, message, lists);

	assert_string_equal(worker_rule_word(place.rule), worker_rule_word(rule));
	assert_int_equal(place.destination, destination);
	assert_true(worker_is_sound(world->workers));
	return place;
}

static inline void world_done(struct world *world, const struct worker_place *place) {
	assert_false(worker_done(world->workers, place->job, world->now_ns));
}

static inline uint32_t world_jobs(const struct world *world, uint32_t connection) {
	const struct worker_connection *c = worker_see_connection(world->workers, connection);

	return c == NULL ? 0 : c->job_count;
}

#endif
