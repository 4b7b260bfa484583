/* SPDX-License-Identifier: ISC */
/*
 * The allocator of workers (lab/worker.h) in virtual time: messages whose jobs go to
 * sites, each a list of hosts or more of them; connections that take time to be made, do
 * one job after the other, and may be closed by the remote.  A job that is deferred does
 * not come back.  Nothing is random but by the seed.
 */
#ifndef LAB_SIMULATE_WORKERS_H
#define LAB_SIMULATE_WORKERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lab/memory.h"
#include "lab/options.h"
#include "lab/worker.h"

#define WORKED_MESSAGES_MAX	64
#define WORKED_LISTS_MAX	8
#define WORKED_HOSTS_MAX	32	/* of one site, all lists */
#define WORKED_BROKEN_MAX	32
#define WORKED_JOBS_MAX		1000000u

struct worked_broken {
	uint32_t site;		/* from 1; 0: each */
	uint32_t host;		/* from 1 */
};

struct workers_simulation {
	struct worker_settings settings;
	uint32_t workers;
	/* Jobs of each, and when it comes; [0] is that of the verification probes. */
	struct timed_count messages[WORKED_MESSAGES_MAX + 1];
	uint32_t message_count;	/* with [0] */
	uint32_t sites;		/* 0: as many as jobs */
	uint32_t lists[WORKED_LISTS_MAX], list_count;
	struct worked_broken broken[WORKED_BROKEN_MAX];
	uint32_t broken_count;
	int64_t broken_until_ns;	/* INT64_MAX: for good */
	bool routing;
	int64_t connect_ns, service_ns, retry_ns;
	double jitter;
	uint32_t close_after;	/* 0: never */
	uint64_t seed;
	int64_t every_ns;	/* states are kept so often; 0: never */
	bool with_trace;	/* decisions are kept */
};

/* The workers of a message at a time, or a decision. */
struct worked_row {
	int64_t at_ns;
	uint32_t message, number;	/* workers; or the job's number in its message, from 1 */
	uint32_t free;
	struct worker_place place;
};

struct worked_result {
	uint32_t jobs, done, deferred;
	uint32_t most;		/* workers at a time */
	double mean;		/* workers, from its coming to its last end */
	int64_t first_ns, last_ns;	/* its first job placed, its last one ended */
};

struct workers_result {
	int64_t duration_ns;
	uint64_t by_rule[WORKER_RULE_COUNT];	/* WAIT: decisions, not jobs */
	uint64_t connections, failed;	/* made, not made */
	uint64_t rescheduled;		/* jobs */
	uint64_t closed_for_new, aged, closed_by_remote;	/* connections */
	uint32_t most;			/* workers with jobs at a time */
	struct worked_result messages[WORKED_MESSAGES_MAX + 1];
	struct memory_rows states, decisions;	/* worked_row; the caller's to free */
};

/* Of each site. */
uint32_t simulated_hosts(const struct workers_simulation *simulation);
/* "1.2": the destination of site 1, host 2. */
uint32_t simulated_site(const struct workers_simulation *simulation, uint32_t destination);
uint32_t simulated_host(const struct workers_simulation *simulation, uint32_t destination);

void simulate_workers(const struct workers_simulation *simulation,
    struct workers_result *result);

#endif
