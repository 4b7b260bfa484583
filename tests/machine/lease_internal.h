/* SPDX-License-Identifier: ISC */
/* What the files of the lease script share: lease.c (who calls, and time), lease_pools.c (what is
 * settled), lease_reply.c (answers). */
#ifndef TESTS_MACHINE_LEASE_INTERNAL_H
#define TESTS_MACHINE_LEASE_INTERNAL_H

#include "tests/machine/lease.h"

struct head {
	char operation[8], name[32], instance[34], epoch[20], nonce[20], other[34];
	int64_t token, sequence, event, heard, sent, lease, nodes;
};

struct ask {
	int64_t limit, version, fixed, hold, need, want, open;
	char name[LEASE_NAME];
};

/* One call.  What it changes is in a copy, until it is finished. */
struct turn {
	struct lease_data *stored;
	struct lease_data now;
	struct head head;
	unsigned slot;			/* of the node that calls; 0: it has none */
	bool has_heard, lacks;
	struct lease_reply *reply;
};

static inline int64_t most_of(int64_t a, int64_t b) {
	return a > b ? a : b;
}

static inline int64_t least_of(int64_t a, int64_t b) {
	return a < b ? a : b;
}

/* --- lease_pools.c ---------------------------------------------------------------------- */

/* Those parts of a pool that count; returns the caller's, or NULL. */
struct lease_part *lease_read_pool(struct turn *t, const char *name, struct lease_pool *out);
/* What the caller has of it from now on, to the answer.  `most`: nodes that count; `before`: event of
 * its call before this one. */
void lease_settle(struct turn *t, const struct ask *ask, int64_t most, bool waits, int64_t before);

/* --- lease_reply.c ----------------------------------------------------------------------- */

struct redis_value *reply_item(struct lease_reply *reply);
struct redis_value reply_text_value(struct lease_reply *reply, const char *text);
/* Room for a list in the list, of `count` values. */
struct redis_value *reply_list(struct lease_reply *reply, size_t count);
void reply_set_list(struct redis_value *at, const struct redis_value *items, size_t count);

#endif
