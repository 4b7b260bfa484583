/* SPDX-License-Identifier: ISC */
/* A small board for tests by hand: messages are known by a number, each entry is done as soon
 * as it is taken unless the test keeps it. */
#ifndef TESTS_UNIT_JOB_BENCH_H
#define TESTS_UNIT_JOB_BENCH_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/schedule/pool.h"

#define BENCH_NS	INT64_C(1000000000)

struct job_bench {
	struct job_board *board;
	void *memory;
	uint32_t transport;
	int64_t now_s;
	uint32_t message[100];		/* by number */
	char order[1024];
};

static inline void bench_open(struct job_bench *bench, const struct job_settings *settings,
    const struct pool_settings *pool) {
	struct job_capacity capacity = { .transports = 4, .queues = 500, .messages = 100,
		.jobs = 400, .peers = 4000 };

	memset(bench, 0, sizeof *bench);
	bench->memory = calloc(1, job_board_bytes(&capacity));
	bench->board = job_board_begin(bench->memory, &capacity, pool);
	bench->transport = job_transport_open(bench->board, settings, 0);
	bench->now_s = 1000;
}

static inline void bench_close(struct job_bench *bench) {
	free(bench->memory);
}

static inline uint32_t bench_queue(struct job_bench *bench, uint32_t window) {
	return job_queue_open(bench->board, bench->transport, window, 0);
}

static inline uint32_t bench_message(struct job_bench *bench, uint32_t number) {
	uint32_t i = job_message_open(bench->board, number, bench->now_s * BENCH_NS);

	bench->message[number] = i;
	return i;
}

/* A message of so many recipients, all for one queue, and all read. */
static inline void bench_mail(struct job_bench *bench, uint32_t number, uint32_t queue,
    uint32_t recipients) {
	uint32_t i = bench_message(bench, number);

	job_batch_begin(bench->board, i, 0, bench->now_s * BENCH_NS);
	if (!job_batch_add(bench->board, i, queue, recipients))
		abort();
	(void)job_batch_end(bench->board, i);
}

/* Another batch of a message: recipients for a queue, and what is left unread. */
static inline void bench_batch(struct job_bench *bench, uint32_t number, uint32_t queue,
    uint32_t recipients, uint32_t unread) {
	uint32_t i = bench->message[number];

	job_batch_begin(bench->board, i, unread, bench->now_s * BENCH_NS);
	if (recipients > 0 && !job_batch_add(bench->board, i, queue, recipients))
		abort();
	(void)job_batch_end(bench->board, i);
}

/* Takes the next entry; the message's number, 0: none. */
static inline uint32_t bench_take(struct job_bench *bench, struct job_taken *taken) {
	if (!job_next(bench->board, JOB_NONE, NULL, bench->now_s * BENCH_NS, taken))
		return 0;
	return (uint32_t)job_message_word(bench->board, taken->message);
}

static inline uint32_t bench_done(struct job_bench *bench, const struct job_taken *taken) {
	uint32_t number = (uint32_t)job_message_word(bench->board, taken->message);

	if (job_done(bench->board, taken) == JOB_LEFT_NONE) {
		job_message_close(bench->board, taken->message);
		bench->message[number] = JOB_NONE;
	}
	return number;
}

/* The next `most` deliveries, one after the other: "1*16 4 7*2". */
static inline const char *bench_run(struct job_bench *bench, uint32_t most) {
	uint32_t last = 0, times = 0;
	struct job_taken taken;
	size_t length = 0;

	bench->order[0] = '\0';
	for (;;) {
		uint32_t number = most-- > 0 ? bench_take(bench, &taken) : 0;

		if (number > 0)
			(void)bench_done(bench, &taken);
		if (number == last && number > 0) {
			times++;
			continue;
		}
		if (last > 0)
			length += (size_t)snprintf(bench->order + length,
			    sizeof bench->order - length, times > 1 ? "%s%u*%u" : "%s%u",
			    length > 0 ? " " : "", last, times);
		if (number == 0)
			return bench->order;
		last = number;
		times = 1;
	}
}

/* The scheduler's list: "7-8-1". */
static inline const char *bench_list(struct job_bench *bench) {
	uint32_t message = JOB_NONE;
	size_t length = 0;

	bench->order[0] = '\0';
	while ((message = job_list_next(bench->board, bench->transport, message)) != JOB_NONE)
		length += (size_t)snprintf(bench->order + length, sizeof bench->order - length,
		    "%s%u", length > 0 ? "-" : "",
		    (unsigned)job_message_word(bench->board, message));
	return bench->order;
}

static inline struct job_view bench_view(struct job_bench *bench, uint32_t number) {
	struct job_view view;

	if (!job_view(bench->board, bench->message[number], bench->transport, &view))
		abort();
	return view;
}

/* Number of the message whose job a job has preempted; 0: none. */
static inline uint32_t bench_parent(struct job_bench *bench, uint32_t number) {
	struct job_view view = bench_view(bench, number);

	return view.parent == JOB_NONE ? 0 : (uint32_t)job_message_word(bench->board, view.parent);
}

#endif
