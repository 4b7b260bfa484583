/* SPDX-License-Identifier: ISC */
/*
 * Many workers against one limit, and an independent count beside Postern's.
 *
 *	stress [-p PROCESSES | -t THREADS] [-n OPENS] [-l LIMIT] [-h HOLD] [-s SEED]
 *
 * Each worker holds up to HOLD sessions at a time; OPENS is the sum of all.  A
 * worker adds to the independent counter after it was admitted and takes off
 * before it closes, so the counter's peak may reach LIMIT and never pass it.
 */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "segment/file/internal.h"
#include "tests/unit/site.h"

#define HOLD_MAX 256
#define LATE_TRIES 3
#define LATE_STEP_MS 100

struct shared {
	_Atomic uint32_t open;
	_Atomic uint32_t peak;
	_Atomic uint64_t admitted;
	_Atomic uint64_t refused;
	_Atomic uint64_t faults;
};

static struct site site;
static struct shared *shared;
static unsigned workers = 8, hold = 40, limit = 100;
static uint64_t opens = 1000000, seed = 1;

static uint32_t draw(uint64_t *state) {
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return (uint32_t)(*state >> 32);
}

static void note_open(void) {
	uint32_t now = 1 + atomic_fetch_add(&shared->open, 1);
	uint32_t peak = atomic_load(&shared->peak);

	while (now > peak &&
	    !atomic_compare_exchange_weak(&shared->peak, &peak, now))
		;
}

static void close_one(struct session_ref *held, unsigned *count, uint32_t at) {
	atomic_fetch_sub(&shared->open, 1);
	engine_session_close(site.engine, &held[at], clock_now_ns());
	held[at] = held[--*count];
}

static void work(unsigned number) {
	uint64_t random = (seed + number) * UINT64_C(0x9e3779b97f4a7c15) | 1;
	struct session_ref held[HOLD_MAX];
	unsigned count = 0;

	for (uint64_t i = 0; i < opens / workers; i++) {
		struct question question = site_question("192.0.2.1", 1, NULL);
		struct answer answer;

		/* addresses of this worker alone: no two share a tuple */
		question.client.bytes[13] = (uint8_t)number;
		question.client.bytes[14] = (uint8_t)(i >> 16);
		question.client_port = (uint16_t)(i | 1);
		question.client.bytes[15] = (uint8_t)(i & 1);
		engine_session_open(site.engine, site.generation, &question,
		    clock_now_ns(), &answer);
		if (answer.decision.reason == REASON_UNUSABLE) {
			atomic_fetch_add(&shared->faults, 1);
		} else if (answer.decision.verdict == VERDICT_ADMIT) {
			note_open();
			atomic_fetch_add(&shared->admitted, 1);
			held[count++] = answer.session;
		} else {
			atomic_fetch_add(&shared->refused, 1);
			engine_session_close(site.engine, &answer.session,
			    clock_now_ns());
		}
		while (count > 0 && (count >= hold || draw(&random) % 3 == 0))
			close_one(held, &count, draw(&random) % count);
	}
	while (count > 0)
		close_one(held, &count, count - 1);
	/* ends that a lock stood in the way of, on a machine that was busy */
	for (unsigned i = 0; i < LATE_TRIES; i++) {
		engine_heartbeat(site.engine, clock_now_ns());
		poll(NULL, 0, LATE_STEP_MS);
	}
}

static void *work_in_thread(void *number) {
	work((unsigned)(uintptr_t)number);
	return NULL;
}

static int run_threads(void) {
	pthread_t threads[64];

	for (unsigned i = 0; i < workers; i++)
		if (pthread_create(&threads[i], NULL, work_in_thread,
			(void *)(uintptr_t)i) != 0)
			return 1;
	for (unsigned i = 0; i < workers; i++)
		pthread_join(threads[i], NULL);
	return 0;
}

static int run_processes(void) {
	int failed = 0;

	for (unsigned i = 0; i < workers; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			work(i);
			_exit(0);
		}
		if (pid < 0)
			return 1;
	}
	for (unsigned i = 0; i < workers; i++) {
		int status;

		if (wait(&status) < 0 || !WIFEXITED(status) ||
		    WEXITSTATUS(status) != 0)
			failed = 1;
	}
	return failed;
}

int main(int argc, char **argv) {
	char classes[256];
	bool threads = false;
	uint32_t left;
	int option, failed;

	while ((option = getopt(argc, argv, "p:t:n:l:h:s:")) != -1) {
		switch (option) {
		case 'p': case 't':
			workers = (unsigned)strtoul(optarg, NULL, 10);
			threads = option == 't';
			break;
		case 'n': opens = strtoull(optarg, NULL, 10); break;
		case 'l': limit = (unsigned)strtoul(optarg, NULL, 10); break;
		case 'h': hold = (unsigned)strtoul(optarg, NULL, 10); break;
		case 's': seed = strtoull(optarg, NULL, 10); break;
		default: return 2;
		}
	}
	if (workers == 0 || workers > 64 || hold == 0 || hold > HOLD_MAX)
		return 2;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return 1;
	snprintf(classes, sizeof(classes), "classes = ( { name = \"all\"; "
	    "match = [ \"*\" ]; hold_at = %u; refuse_at = %u; "
	    "client = { sessions = %u; ipv4 = 24; }; } );", limit, limit, limit);
	site_open(&site, 4096, classes);
	failed = threads ? run_threads() : run_processes();
	left = atomic_load(&site_class(&site, "all")->open);
	printf("workers %u (%s) opens %llu admitted %llu refused %llu faults %llu "
	    "peak %u limit %u left %u seed %llu\n", workers,
	    threads ? "threads" : "processes", (unsigned long long)opens,
	    (unsigned long long)atomic_load(&shared->admitted),
	    (unsigned long long)atomic_load(&shared->refused),
	    (unsigned long long)atomic_load(&shared->faults),
	    atomic_load(&shared->peak), limit, left, (unsigned long long)seed);
	if (failed || left != 0 || !site_is_consistent(&site) ||
	    atomic_load(&shared->peak) != limit ||
	    atomic_load(&site_class(&site, "all")->peak) != limit)
		failed = 1;
	site_close(&site);
	printf("%s\n", failed ? "FAILED" : "ok");
	return failed;
}
