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
	struct worker_settings *settings;	/* of the workers: changed at any time */
	int64_t now_ns;
	uint64_t random;
};

static struct world w;

static inline void world_open_sized(const struct worker_sizes *sizes) {
	w = (struct world){ .workers = worker_open(sizes, &worker_defaults),
		.now_ns = 1000 * SECOND };
	assert_non_null(w.workers);
	w.settings = &w.workers->settings;
}

static inline int world_close(void **state) {
	assert_true(worker_is_sound(w.workers));
	worker_free(w.workers);
	return 0;
}

static inline int world_open(void **state) {
	world_open_sized(&(struct worker_sizes){ 20, 1024, 8, 104 });
	return 0;
}

/* Another one, with so many workers. */
static inline void world_reopen(uint32_t workers) {
	world_close(NULL);
	world_open_sized(&(struct worker_sizes){ workers, 1024, 8, 2 * workers + 64 });
}

static inline struct worker_place world_place(uint32_t message, const char *lists) {
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
	worker_place(w.workers, &request, w.now_ns, w.random, &place);
	return place;
}

/* Must come to this rule and destination (0: none). */
static inline struct worker_place world_must(uint32_t message, const char *lists, enum worker_rule rule, char destination) {
	struct worker_place place = world_place(message, lists);

	assert_string_equal(worker_rule_word(place.rule), worker_rule_word(rule));
	assert_int_equal(place.destination, destination);
	assert_true(worker_is_sound(w.workers));
	return place;
}

static inline enum worker_record world_sees(char destination) {
	return worker_see_destination(w.workers, (uint64_t)destination, w.now_ns);
}

/* Not to be tried before retry_ns; 0: it was only closed. */
static inline void world_loses(const struct worker_place *place, int64_t retry_ns) {
	worker_lost(w.workers, place->connection, retry_ns, w.now_ns);
}

static inline void world_set_retry(char destination, int64_t retry_ns) {
	worker_set_retry(w.workers, (uint64_t)destination, retry_ns, w.now_ns);
}

static inline void world_done(const struct worker_place *place) {
	assert_false(worker_done(w.workers, place->job, w.now_ns));
}

static inline uint32_t world_jobs(uint32_t connection) {
	const struct worker_connection *c = worker_see_connection(w.workers, connection);

	return c == NULL ? 0 : c->job_count;
}

#endif
