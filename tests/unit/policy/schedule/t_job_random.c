/* SPDX-License-Identifier: ISC */
/* The scheduler against one that walks its lists, on random workloads: the same choices, and
 * all that can be seen is equal after each step. */
#include <time.h>

#include "tests/unit/test.h"
#include "tests/unit/policy/schedule/job_world.h"

static struct world world;

static void play(const struct world_kind *kind, const char *name, uint32_t rounds, uint32_t steps) {
	struct random random = random_seeded(name);

	for (uint32_t round = 0; round < rounds; round++) {
		uint64_t seed = random.state + round;
		bool equal = true;

		world_begin(&world, kind, seed);
		for (uint32_t step = 0; equal && step < steps; step++)
			equal = world_step(&world);
		equal = equal && world_drain(&world);
		world_end(&world);
		if (!equal)
			print_error("round %u: TEST_SEED=%" PRIu64 "\n", round, seed);
		assert_true(equal);
	}
}

static uint32_t rounds(uint32_t usual) {
	const char *more = getenv("TEST_ROUNDS");

	return more != NULL ? usual * (uint32_t)strtoul(more, NULL, 10) : usual;
}

TEST(windows_and_blockers) {
	static const struct world_kind kind = { .messages = 30, .queues = 8, .transports = 1,
		.most_recipients = 30, .most_window = 2 };

	play(&kind, "windows and blockers", rounds(60), 300);
}

TEST(many_small_beside_big) {
	static const struct world_kind kind = { .messages = 60, .queues = 30, .transports = 1,
		.most_recipients = 100, .most_window = 3 };

	play(&kind, "many small beside big", rounds(25), 500);
}

TEST(unread_batches) {
	static const struct world_kind kind = { .messages = 20, .queues = 10, .transports = 2,
		.most_recipients = 60, .most_window = 3, .pool = 30 };

	play(&kind, "unread batches", rounds(60), 300);
}

TEST(bounds_of_transports) {
	static const struct world_kind kind = { .messages = 20, .queues = 12, .transports = 3,
		.most_recipients = 60, .most_window = 3, .pool = 20, .one_transport = true };

	play(&kind, "bounds of transports", rounds(50), 300);
}

TEST(batches_that_come_later) {
	static const struct world_kind kind = { .messages = 20, .queues = 10, .transports = 3,
		.most_recipients = 60, .most_window = 2, .pool = 20, .later = true };

	play(&kind, "batches that come later", rounds(60), 300);
}

TEST(late_comers_by_hand) {
	static const struct world_kind kind = { .messages = 25, .queues = 6, .transports = 2,
		.most_recipients = 30, .most_window = 2, .late = true, .by_hand = true };

	play(&kind, "late comers, by hand", rounds(60), 300);
}

/* Old mail comes while others stand on the stack: the list is not by age any more. */
TEST(a_list_in_disorder) {
	static const struct world_kind kind = { .messages = 40, .queues = 5, .transports = 1,
		.most_recipients = 12, .most_window = 1, .late = true };

	play(&kind, "a list in disorder", rounds(20), 600);
}

TEST(all_at_once) {
	static const struct world_kind kind = { .messages = 25, .queues = 6, .transports = 2,
		.most_recipients = 40, .most_window = 2, .pool = 25, .late = true, .by_hand = true,
		.later = true };

	play(&kind, "all at once", rounds(60), 300);
}

/* Messages that are older than all that is queued: CPU seconds for each. */
static double late_comers(uint32_t queued) {
	static const uint32_t late = 2000;
	struct job_capacity capacity = { .transports = 1, .queues = 1, .messages = queued + late,
		.jobs = queued + late, .peers = queued + late };
	struct pool_settings pool = pool_defaults;
	struct job_settings settings = job_defaults;
	void *memory = calloc(1, job_board_bytes(&capacity));
	struct job_board *board;
	clock_t start = 0;

	assert_non_null(memory);
	pool.message_active_limit = pool.message_recipient_limit = queued + late;
	settings.recipient_limit = queued + late;
	board = job_board_begin(memory, &capacity, &pool);
	(void)job_queue_open(board, job_transport_open(board, &settings, 0), 0, 0);
	for (uint32_t i = 0; i < queued + late; i++) {
		int64_t queued_s = i < queued ? 1000000 + i : 1000000 - (int64_t)(i - queued);
		uint32_t message = job_message_open(board, i, queued_s * 1000000000);

		if (i == queued)
			start = clock();
		job_batch_begin(board, message, 0, 0);
		assert_true(job_batch_add(board, message, 0, 1));
		assert_true(job_batch_end(board, message));
	}
	free(memory);
	return (double)(clock() - start) / CLOCKS_PER_SEC / late;
}

/* Each walked over all that was younger: 100 times the time. */
TEST(old_mail_that_comes_back_does_not_pass_over_all_that_is_queued) {
	assert_true(late_comers(100000) < 20 * late_comers(1000) + 1e-6);
}
