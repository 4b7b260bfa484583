/* SPDX-License-Identifier: ISC */
/*
 * src/front/cluster/lease.lua once more, for a Redis in virtual time: the same answer to each call.
 * tests/mta/test_cluster_lease.py compares the two.  What there is none of here: foreign keys,
 * other schemas, more than LEASE_POOLS pools.
 */
#ifndef TESTS_MACHINE_LEASE_H
#define TESTS_MACHINE_LEASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/cluster/redis_value.h"

#define LEASE_SLOTS	8
#define LEASE_MARKS	48
#define LEASE_POOLS	48
#define LEASE_NAME	80

struct lease_node {
	bool used, alive;
	char name[32], instance[34];
	int64_t token, sequence, life, last, lease, nodes;
};

struct lease_mark {
	char who[36];
	int64_t ms;
};

struct lease_marks {
	unsigned count;
	struct lease_mark marks[LEASE_MARKS];
};

/* What one node has of a pool. */
struct lease_part {
	int64_t slot, life, granted, need, limit, fixed, version, open, odd, waits;
};

struct lease_pool {
	char name[LEASE_NAME];
	unsigned count;
	struct lease_part parts[LEASE_SLOTS];
};

/* All that the server remembers; a copy of it is a copy of its data.  Zeros: nothing. */
struct lease_data {
	bool is, ready;
	char run[48], epoch[20];
	int64_t event, tokens, longest;
	struct lease_node nodes[LEASE_SLOTS + 1];	/* from 1 on */
	struct lease_marks rows[LEASE_SLOTS + 1];	/* 0: of the epoch */
	unsigned pool_count;
	struct lease_pool pools[LEASE_POOLS];
};

/* An answer: a list of values. */
#define REPLY_VALUES	1024
struct lease_reply {
	struct redis_value value;
	struct redis_value items[REPLY_VALUES];	/* of the list, then those of lists in it, from the end */
	size_t last;				/* used from here on */
	char text[16384];
	size_t length;
};
void reply_begin(struct lease_reply *reply);
void reply_number(struct lease_reply *reply, int64_t number);
void reply_text(struct lease_reply *reply, const char *text);

/* `run`: run_id of the server; `head` and `pools` as of wire/cluster/cluster_call.h.  True: those
 * who hear the channel are to be told CLUSTER_NEWS_SHORT. */
bool lease_run(struct lease_data *lease, const char *run, const char *head, const char *const *pools,
    size_t count, struct lease_reply *reply);

#endif
