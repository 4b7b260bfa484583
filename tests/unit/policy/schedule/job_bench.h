/* SPDX-License-Identifier: ISC */
/* A small board for tests by hand: messages are known by a number, each entry is done as soon
 * as it is taken unless the test keeps it. */
#ifndef TESTS_UNIT_JOB_BENCH_H
#define TESTS_UNIT_JOB_BENCH_H

#include "policy/schedule/pool.h"
#include "tests/unit/check.h"

#define BENCH_NS	INT64_C(1000000000)

static struct job_bench {
	struct job_board *board;
	void *memory;
	uint32_t transport;
	int64_t now_s;
	uint32_t message[100];		/* by number */
	char order[1024];
} bench;

static inline int bench_close(void **state) {
	free(bench.memory);
	bench.memory = NULL;
	return 0;
}

/* In place of the one before. */
static inline void bench_open(const struct job_settings *settings,
    const struct pool_settings *pool) {
	struct job_capacity capacity = { .transports = 4, .queues = 500, .messages = 100,
		.jobs = 400, .peers = 4000 };

	bench_close(NULL);
	memset(&bench, 0, sizeof bench);
	memset(bench.message, 0xff, sizeof bench.message);	/* JOB_NONE */
	bench.memory = calloc(1, job_board_bytes(&capacity));
	bench.board = job_board_begin(bench.memory, &capacity, pool);
	bench.transport = job_transport_open(bench.board, settings, 0);
	bench.now_s = 1000;
}

static inline uint32_t bench_queue(uint32_t window) {
	return job_queue_open(bench.board, bench.transport, window, 0);
}

static inline uint32_t bench_message(uint32_t number) {
	uint32_t i = job_message_open(bench.board, number, bench.now_s * BENCH_NS);

	bench.message[number] = i;
	return i;
}

/* A batch of a message, the first of which opens it: recipients for a queue, and what is left
 * unread. */
static inline void bench_batch(uint32_t number, uint32_t queue, uint32_t recipients,
    uint32_t unread) {
	uint32_t i = bench.message[number];

	if (i == JOB_NONE)
		i = bench_message(number);
	job_batch_begin(bench.board, i, unread, bench.now_s * BENCH_NS);
	assert_true(recipients == 0 || job_batch_add(bench.board, i, queue, recipients));
	(void)job_batch_end(bench.board, i);
}

/* A message of so many recipients, all for one queue, and all read. */
static inline void bench_mail(uint32_t number, uint32_t queue, uint32_t recipients) {
	bench_batch(number, queue, recipients, 0);
}

/* Takes the next entry; the message's number, 0: none. */
static inline uint32_t bench_take(struct job_taken *taken) {
	if (!job_next(bench.board, JOB_NONE, NULL, bench.now_s * BENCH_NS, taken))
		return 0;
	return (uint32_t)job_message_word(bench.board, taken->message);
}

static inline uint32_t bench_done(const struct job_taken *taken) {
	uint32_t number = (uint32_t)job_message_word(bench.board, taken->message);

	if (job_done(bench.board, taken) == JOB_LEFT_NONE) {
		job_message_close(bench.board, taken->message);
		bench.message[number] = JOB_NONE;
	}
	return number;
}

/* The next `most` deliveries, one after the other: "1*16 4 7*2". */
static inline const char *bench_run(uint32_t most) {
	uint32_t last = 0, times = 0;
	struct job_taken taken;
	size_t length = 0;

	bench.order[0] = '\0';
	for (;;) {
		uint32_t number = most-- > 0 ? bench_take(&taken) : 0;

		if (number > 0)
			(void)bench_done(&taken);
		if (number == last && number > 0) {
			times++;
			continue;
		}
		if (last > 0)
			length += (size_t)snprintf(bench.order + length,
			    sizeof bench.order - length, times > 1 ? "%s%u*%u" : "%s%u",
			    length > 0 ? " " : "", last, times);
		if (number == 0)
			return bench.order;
		last = number;
		times = 1;
	}
}

/* The scheduler's list: "7-8-1". */
static inline const char *bench_list(void) {
	uint32_t message = JOB_NONE;
	size_t length = 0;

	bench.order[0] = '\0';
	while ((message = job_list_next(bench.board, bench.transport, message)) != JOB_NONE)
		length += (size_t)snprintf(bench.order + length, sizeof bench.order - length,
		    "%s%u", length > 0 ? "-" : "",
		    (unsigned)job_message_word(bench.board, message));
	return bench.order;
}

static inline struct job_view bench_view(uint32_t number) {
	struct job_view view;

	if (!job_view(bench.board, bench.message[number], bench.transport, &view))
		abort();
	return view;
}

/* Number of the message whose job a job has preempted; 0: none. */
static inline uint32_t bench_parent(uint32_t number) {
	struct job_view view = bench_view(number);

	return view.parent == JOB_NONE ? 0 : (uint32_t)job_message_word(bench.board, view.parent);
}

#endif
