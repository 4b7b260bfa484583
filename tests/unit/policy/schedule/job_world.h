/* SPDX-License-Identifier: ISC */
/*
 * Random workloads for the scheduler, played on policy/schedule/job.h and on naive_job.h at once: all
 * that can be seen of the two must be equal after each step.
 */
#ifndef TESTS_UNIT_JOB_WORLD_H
#define TESTS_UNIT_JOB_WORLD_H

#include "policy/schedule/pool.h"
#include "tests/unit/policy/schedule/naive_job.h"
#include "tests/unit/random.h"

#define WORLD_RECIPIENTS 200	/* of a message */
#define WORLD_TAKEN	400

/* What a workload is like. */
struct world_kind {
	uint32_t messages, queues, transports;
	uint32_t most_recipients;
	uint32_t most_window;
	uint32_t pool;		/* recipients in memory, about; 0: all */
	bool one_transport;	/* each message has one */
	bool late;		/* some messages waited for long, or come back */
	bool by_hand;		/* entries are taken, put back, withdrawn */
	bool later;		/* batches come after the call that asks for them */
};

struct world_message {
	bool open;
	uint32_t index;		/* on the board */
	uint32_t recipients;	/* in all */
	uint32_t read[2];	/* so far: on the board, by naive */
	uint32_t asked[2];	/* batches to come */
	uint8_t queue[WORLD_RECIPIENTS];
};

struct world {
	struct world_kind kind;
	struct random random;
	struct pool_settings pool;
	struct job_board *board;
	void *memory;
	struct naive naive;
	int64_t now_s;
	uint32_t steps;
	uint32_t taken_count;
	struct job_taken taken[WORLD_TAKEN];
	struct naive_taken naive_taken[WORLD_TAKEN];
	struct world_message message[NAIVE_MESSAGES];
	uint64_t added, delivered, withdrawn;	/* recipients */
	uint32_t pool_bound;
};

void world_begin(struct world *world, const struct world_kind *kind, uint64_t seed);
/* One step; false: the two are not equal (told on stdout). */
bool world_step(struct world *world);
/* Delivers all that is left, with all windows open. */
bool world_drain(struct world *world);
void world_end(struct world *world);

#endif
