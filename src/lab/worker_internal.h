/* SPDX-License-Identifier: ISC */
/* The allocator's own tables (worker.h), between its files. */
#ifndef LAB_WORKER_INTERNAL_H
#define LAB_WORKER_INTERNAL_H

#include <sys/queue.h>

#include "base/map.h"
#include "lab/worker.h"

#define NONE	WORKER_NONE

struct worker_connection {
	uint64_t order;		/* they were made in this order */
	int64_t opened_ns;
	int64_t idle_ns;	/* no jobs since */
	TAILQ_HEAD(, worker_job) jobs;
	uint32_t job_count;
	struct worker_destination *destination;	/* NULL: no connection */
	bool past_age;
	TAILQ_ENTRY(worker_connection) of_age;	/* in aged or no_connection */
	TAILQ_ENTRY(worker_connection) of_idle;
	LIST_ENTRY(worker_connection) of_destination;
};
TAILQ_HEAD(worker_connections, worker_connection);

struct worker_job {
	uint64_t tag;
	uint32_t message;
	struct worker_connection *connection;	/* NULL: free, or lost */
	bool first;		/* lost: it was the first of its connection */
	TAILQ_ENTRY(worker_job) of_list;	/* of its connection, no_job or lost */
};

struct worker_destination {
	uint64_t key;
	uint64_t order;		/* of the last connection */
	int64_t closed_ns;	/* when that was closed */
	int64_t retry_ns;	/* not to be tried before; 0: not broken */
	LIST_HEAD(, worker_connection) connections;	/* newest first */
	uint32_t connection_count;
	bool used;
	SLIST_ENTRY(worker_destination) of_free;
};

struct workers {
	struct worker_settings settings;
	struct worker_sizes sizes;
	struct worker_connection *connections;
	struct worker_job *jobs;
	struct worker_destination *destinations;
	uint32_t *concurrency;			/* of each message */
	struct map by_key;			/* destinations */
	struct map pairs;			/* jobs of one message on one connection */
	SLIST_HEAD(, worker_destination) free_destinations;
	uint32_t hand;				/* of the collector */
	struct worker_connections no_connection;
	struct worker_connections aged;		/* open and not past age, oldest first */
	struct worker_connections idle;		/* idle longest first */
	TAILQ_HEAD(, worker_job) no_job, lost;
	uint32_t open, idle_count, placed;	/* connections, jobs on them */
	uint64_t order, collected, evicted;
};

static inline uint64_t worker_hash(uint64_t key) {
	return key * UINT64_C(0x9e3779b97f4a7c15) >> 16;
}
static inline uint64_t worker_pair_hash(const struct workers *workers, uint32_t message,
    const struct worker_connection *connection) {
	return worker_hash((uint64_t)message << 32 | (uint64_t)(connection - workers->connections));
}

/* The record of a destination that is not stale; NULL: it is unused. */
struct worker_destination *worker_find(const struct workers *workers, uint64_t key,
    int64_t now_ns);
/* The same, or a new one. */
struct worker_destination *worker_record(struct workers *workers, uint64_t key, int64_t now_ns);

/* A job of the message is on the connection, or no longer: counts its workers. */
void worker_pair_add(struct workers *workers, uint32_t message,
    const struct worker_connection *connection);

/* Its destination's record stays.  It must have no jobs. */
void worker_close(struct workers *workers, struct worker_connection *connection,
    int64_t now_ns);

#endif
