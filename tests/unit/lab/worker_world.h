/* SPDX-License-Identifier: ISC */
/* An allocator with its memory, and short ways to ask it: destinations are letters, and
 * lists of them are parted by a bar ("ab|c": a and b, then c). */
#ifndef TESTS_UNIT_WORKER_WORLD_H
#define TESTS_UNIT_WORKER_WORLD_H

#include "tests/unit/check.h"

#include "tests/unit/lab/worker_look.h"

#define WORLD_JOBS	1024
#define SECOND	INT64_C(1000000000)

struct world {
	struct workers *workers;
	struct worker_settings *settings;	/* of the workers: changed at any time */
	int64_t now_ns;
	uint64_t random;
	struct worker_job jobs[WORLD_JOBS];
	uint32_t last_job;
	struct worker_jobs lost;
};

static struct world w;

static inline void world_open_sized(const struct worker_sizes *sizes) {
	w = (struct world){ .workers = worker_open(sizes, &worker_defaults),
		.now_ns = 1000 * SECOND };
	TAILQ_INIT(&w.lost);
	w.settings = &w.workers->settings;
}

static inline int world_close(void **state) {
	assert_true(worker_is_sound(w.workers));
	worker_free(w.workers);
	return 0;
}

static inline int world_open(void **state) {
	world_open_sized(&(struct worker_sizes){ 20, 8, 128 });
	return 0;
}

/* Another one, with so many workers. */
static inline void world_reopen(uint32_t workers) {
	world_close(NULL);
	world_open_sized(&(struct worker_sizes){ workers, 8, 128 });
}

/* One that is on no connection, and has not been on one of late. */
static inline struct worker_job *world_job(uint32_t message) {
	do
		w.last_job = (w.last_job + 1) % WORLD_JOBS;
	while (w.jobs[w.last_job].connection != NULL);
	w.jobs[w.last_job].message = message;
	return &w.jobs[w.last_job];
}

static inline struct worker_place world_place(uint32_t message, const char *lists) {
	uint32_t keys[64];
	uint32_t counts[8] = { 0 }, list = 0, key = 0;
	struct worker_request request = { keys, counts, 0 };
	struct worker_place place;

	for (; *lists != '\0'; lists++) {
		if (*lists == '|') {
			list++;
		} else {
			keys[key++] = (unsigned char)*lists;
			counts[list]++;
		}
	}
	request.list_count = list + 1;
	worker_place(w.workers, world_job(message), &request, w.now_ns, w.random, &place);
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
	return worker_see_destination(w.workers, (unsigned char)destination, w.now_ns);
}

/* Not to be tried before retry_ns; 0: it was only closed. */
static inline void world_loses(const struct worker_place *place, int64_t retry_ns) {
	worker_lost(w.workers, place->connection, retry_ns, w.now_ns, &w.lost);
}

static inline void world_set_retry(char destination, int64_t retry_ns) {
	worker_set_retry(w.workers, (unsigned char)destination, retry_ns, w.now_ns);
}

static inline void world_done(const struct worker_place *place) {
	assert_false(worker_done(w.workers, place->job, w.now_ns));
}

static inline uint32_t world_jobs(uint32_t connection) {
	const struct worker_connection *c = worker_see_connection(w.workers, connection);

	return c == NULL ? 0 : c->job_count;
}

#endif
