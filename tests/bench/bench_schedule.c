/* SPDX-License-Identifier: ISC */
/*
 * What the next entry costs, by how many jobs are queued: CPU time of job_next alone, and of
 * all that a delivery brings (a new message for each that is done, so the queue stays as
 * long); and what memory the queue takes.
 *
 *	equal	10 recipients each, to 10 destinations
 *	mixed	as real logs have it (98 of 100 messages have one recipient), and so many
 *		bulk messages that there are 10 recipients a message: preemption at each turn
 *	blocked	as mixed, to 200 destinations, of which 100 are suspended and 100 have a
 *		window of 2; after each 50 entries one is suspended and one resumed: blockers
 *		stand everywhere, and each turn is at another end of memory
 *
 * In each, 100 entries run at a time.  As many entries as were queued at first go before
 * anything is measured (blocked: three times as many): then a long queue, like a short one,
 * has the order that deliveries left it in, and not that of its arrival.  Just after a
 * million messages came at once, "blocked" costs about twice as much.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/unit/policy/schedule/job_look.h"

#define NS		INT64_C(1000000000)
#define RUNNING		100
#define BURST		50	/* entries that are taken, and then done, at a time */
#define QUEUES		5000
#define ARRIVALS	1000	/* messages a second */

enum kind { EQUAL, MIXED, BLOCKED, KINDS };
static const char *const kind_word[KINDS] = { "equal", "mixed", "blocked" };

struct bench {
	enum kind kind;
	uint64_t random;
	struct job_board *board;
	uint32_t queues;
	uint32_t running;
	uint32_t calls;			/* of job_next */
	uint32_t turned;		/* suspended and resumed so far */
	uint32_t from;			/* the oldest in taken[] */
	int64_t now_ns;
	struct job_taken taken[RUNNING];
};

static uint32_t below(struct bench *bench, uint32_t limit) {
	bench->random = bench->random * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return (uint32_t)((bench->random >> 33) * limit >> 31);
}

static uint32_t size_of_message(struct bench *bench) {
	uint32_t draw = below(bench, 10000);

	if (bench->kind == EQUAL)
		return 10;
	/* 1 in 200 is bulk, of 1000 to 2600 recipients. */
	return draw < 50 ? 1000 + below(bench, 1600) : draw < 9810 ? 1 : draw < 9980 ? 2 : 4;
}

/* Destinations are as unlike as in life: the square of a number by chance. */
static uint32_t some_queue(struct bench *bench) {
	uint64_t draw = below(bench, 1 << 15);

	return (uint32_t)(draw * draw * bench->queues >> 30);
}

static void new_message(struct bench *bench, uint32_t size) {
	uint32_t message = job_message_open(bench->board, size, bench->now_ns);
	uint32_t queue = some_queue(bench);

	if (message == JOB_NONE)
		abort();
	bench->now_ns += NS / ARRIVALS;
	job_batch_begin(bench->board, message, 0, bench->now_ns);
	for (uint32_t i = 0; i < size; i++) {
		if (!job_batch_add(bench->board, message, queue, 1))
			abort();
		queue = size > 10 ? (queue + 1) % bench->queues : some_queue(bench);
	}
	(void)job_batch_end(bench->board, message);
}

static void open_board(struct bench *bench, uint32_t jobs) {
	struct job_capacity capacity = { .transports = 1, .queues = QUEUES, .messages = jobs + 1,
		.jobs = jobs + 1, .peers = jobs * 13 + 100000 };
	struct pool_settings pool = pool_defaults;
	struct job_settings settings = job_defaults;
	size_t bytes = job_board_bytes(&capacity);
	uint32_t transport;
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED)
		abort();
	(void)madvise(memory, bytes, MADV_HUGEPAGE);
	pool.message_active_limit = jobs + 1;
	pool.message_recipient_limit = UINT32_MAX;
	settings.process_limit = RUNNING;
	settings.recipient_limit = INT32_MAX / 2;
	bench->board = job_board_begin(memory, &capacity, &pool);
	transport = job_transport_open(bench->board, &settings, 0);
	bench->queues = bench->kind == BLOCKED ? 200 : QUEUES;
	for (uint32_t i = 0; i < bench->queues; i++)
		(void)job_queue_open(bench->board, transport,
		    bench->kind != BLOCKED ? 20 : i < bench->queues / 2 ? 0 : 2, i);
}

static void take(struct bench *bench, uint32_t count) {
	for (; count > 0; count--) {
		bench->calls++;
		if (!job_next(bench->board, 0, NULL, bench->now_ns,
		    &bench->taken[(bench->from + bench->running) % RUNNING]))
			break;
		bench->running++;
	}
}

/* One destination is resumed, another suspended. */
static void turn(struct bench *bench) {
	if (bench->kind != BLOCKED)
		return;
	job_queue_window(bench->board, bench->turned % bench->queues, 2);
	job_queue_window(bench->board, (bench->turned + bench->queues / 2) % bench->queues, 0);
	bench->turned++;
}

/* The oldest are done; for each message that goes, one of its size comes. */
static void done(struct bench *bench, uint32_t count) {
	for (; count > 0 && bench->running > 0; count--) {
		const struct job_taken *taken = &bench->taken[bench->from];

		if (job_done(bench->board, taken) == JOB_LEFT_NONE) {
			uint32_t size = (uint32_t)job_message_word(bench->board, taken->message);

			job_message_close(bench->board, taken->message);
			new_message(bench, size);
		}
		bench->from = (bench->from + 1) % RUNNING;
		bench->running--;
	}
}

static uint64_t resident(void) {
	unsigned long size, pages = 0;
	FILE *file = fopen("/proc/self/statm", "r");

	if (file == NULL || fscanf(file, "%lu %lu", &size, &pages) != 2)
		pages = 0;
	if (file != NULL)
		fclose(file);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static int by_size(const void *a, const void *b) {
	double left = *(const double *)a, right = *(const double *)b;

	return (left > right) - (left < right);
}

/* ns of a job_next: the least of several rounds (what else runs only adds). */
static double measure(enum kind kind, uint32_t jobs, uint32_t bursts) {
	static struct bench bench;
	double rounds[9], all_ns = 0;
	uint64_t before = resident(), warm_up, recipients;

	memset(&bench, 0, sizeof bench);
	bench.kind = kind;
	bench.random = 1;
	bench.now_ns = 1000 * NS;
	open_board(&bench, jobs);
	for (uint32_t i = 0; i < jobs; i++)
		new_message(&bench, size_of_message(&bench));
	recipients = bench.board->in_core;
	warm_up = recipients * (kind == BLOCKED ? 3 : 1) / BURST;
	take(&bench, RUNNING);
	for (uint64_t i = 0; i < bursts + warm_up; i++) {
		done(&bench, BURST);
		turn(&bench);
		take(&bench, BURST);
	}
	for (unsigned round = 0; round < 9; round++) {
		int64_t spent_ns = 0, began_ns = clock_thread_cpu_ns();

		bench.calls = 0;
		for (uint32_t i = 0; i < bursts; i++) {
			int64_t start_ns;

			done(&bench, BURST);
			turn(&bench);
			start_ns = clock_thread_cpu_ns();
			take(&bench, BURST);
			spent_ns += clock_thread_cpu_ns() - start_ns;
		}
		rounds[round] = (double)spent_ns / bench.calls;
		all_ns += (double)(clock_thread_cpu_ns() - began_ns) / bench.calls;
	}
	qsort(rounds, 9, sizeof rounds[0], by_size);
	printf("schedule_next_%s_ns_%u %.0f\n", kind_word[kind], jobs, rounds[0]);
	printf("schedule_delivery_%s_ns_%u %.0f\n", kind_word[kind], jobs,
	    all_ns / 9);
	printf("schedule_recipients_%s_%u %" PRIu64 "\n", kind_word[kind], jobs, recipients);
	if (jobs >= 100000)
		printf("schedule_memory_%s_mib_%u %.0f\n", kind_word[kind], jobs,
		    (double)(resident() - before) / 1048576);
	fflush(stdout);
	return rounds[0];
}

int main(int argc, char **argv) {
	uint32_t most = argc > 1 ? 10000 : 1000000;

	(void)argv;
	for (enum kind kind = 0; kind < KINDS; kind++) {
		double first = 0, last = 0;

		for (uint32_t jobs = 1000; jobs <= most; jobs *= 10) {
			last = measure(kind, jobs, argc > 1 ? 50 : 2000);
			first = jobs == 1000 ? last : first;
		}
		printf("schedule_growth_%s_1000_to_%u %.2f\n", kind_word[kind], most, last / first);
	}
	return 0;
}
