/* SPDX-License-Identifier: ISC */
/* The allocator's own tables (worker.h), between its files. */
#ifndef POLICY_WORKER_INTERNAL_H
#define POLICY_WORKER_INTERNAL_H

#include "policy/schedule/worker.h"

#define NONE	WORKER_NONE

/* Lists by number; what is in one list at most shares an array of links. */
struct worker_link {
	uint32_t next, previous;
};
struct worker_list {
	uint32_t first, last, count;
};

struct worker_connection {
	uint64_t order;		/* they were made in this order */
	int64_t opened_ns;
	int64_t idle_ns;	/* no jobs since */
	struct worker_list jobs;
	uint32_t destination;	/* NONE: no connection */
	uint32_t past_age;
};

struct worker_job {
	uint64_t tag;
	uint32_t message;
	uint32_t connection;	/* NONE: free, or lost */
	uint32_t pair;
	uint32_t first;		/* lost: it was the first of its connection */
};

/* How many jobs of one message are on one connection. */
struct worker_pair {
	uint32_t message, connection;
	uint32_t jobs;		/* 0: free */
	uint32_t next;		/* in its bucket, or free */
};

struct worker_destination {
	uint64_t key;
	uint64_t order;		/* of the last connection */
	int64_t closed_ns;	/* when that was closed */
	int64_t retry_ns;	/* not to be tried before; 0: not broken */
	struct worker_list connections;	/* newest first */
	uint32_t next;		/* in its bucket, or free */
	uint32_t used;
};

/* Offsets are from its start. */
struct workers {
	struct worker_settings settings;
	struct worker_sizes sizes;
	uint64_t connections, connection_links, age_links, idle_links;
	uint64_t jobs, job_links;
	uint64_t pairs, pair_buckets;
	uint64_t destinations, destination_buckets;
	uint64_t concurrency;			/* of each message */
	uint32_t pair_mask, destination_mask;	/* buckets, less one */
	uint32_t free_pair, free_destination;
	uint32_t records, hand;			/* hand: of the collector */
	struct worker_list no_connection;	/* by age_links */
	struct worker_list aged;		/* open and not past age, oldest first */
	struct worker_list idle;		/* idle longest first */
	struct worker_list no_job, lost;	/* by job_links */
	uint32_t open, placed;			/* connections, jobs on them */
	uint64_t order, collected, evicted;
};

static inline void *worker_at(const struct workers *workers, uint64_t offset) {
	return (char *)(uintptr_t)workers + offset;
}

#define WORKER_ARRAY(name, type, field)							\
	static inline type *name(const struct workers *workers)				\
	{										\
		return (type *)worker_at(workers, workers->field);			\
	}
WORKER_ARRAY(connections_of, struct worker_connection, connections)
WORKER_ARRAY(connection_links_of, struct worker_link, connection_links)
WORKER_ARRAY(age_links_of, struct worker_link, age_links)
WORKER_ARRAY(idle_links_of, struct worker_link, idle_links)
WORKER_ARRAY(jobs_of, struct worker_job, jobs)
WORKER_ARRAY(job_links_of, struct worker_link, job_links)
WORKER_ARRAY(pairs_of, struct worker_pair, pairs)
WORKER_ARRAY(pair_buckets_of, uint32_t, pair_buckets)
WORKER_ARRAY(destinations_of, struct worker_destination, destinations)
WORKER_ARRAY(destination_buckets_of, uint32_t, destination_buckets)
WORKER_ARRAY(concurrency_of, uint32_t, concurrency)
#undef WORKER_ARRAY

void worker_list_begin(struct worker_list *list);
void worker_list_append(struct worker_list *list, struct worker_link *links, uint32_t item);
void worker_list_prepend(struct worker_list *list, struct worker_link *links, uint32_t item);
void worker_list_remove(struct worker_list *list, struct worker_link *links, uint32_t item);

/* The record of a destination that is not stale; NONE: it is unused. */
uint32_t worker_find(const struct workers *workers, uint64_t key, int64_t now_ns);
/* The same, or a new one. */
uint32_t worker_record(struct workers *workers, uint64_t key, int64_t now_ns);
/* Looks at so many records, and frees those that are stale. */
void worker_collect(struct workers *workers, uint32_t count, int64_t now_ns);

/* A job of the message is on the connection: counts a worker more if it is the first. */
uint32_t worker_pair_add(struct workers *workers, uint32_t message, uint32_t connection);
void worker_pair_remove(struct workers *workers, uint32_t pair);

/* Its destination's record stays.  It must have no jobs. */
void worker_close(struct workers *workers, uint32_t connection, int64_t now_ns);

#endif
