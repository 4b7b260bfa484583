/* SPDX-License-Identifier: ISC */
/* One pool of a Redis in virtual time (tests/machine/lease.h), that three nodes have joined.
 * Included by one test program, behind cmocka.h. */
#ifndef TESTS_SIM_LEASE_SERVER_H
#define TESTS_SIM_LEASE_SERVER_H

#include <inttypes.h>
#include <stdio.h>

#include "tests/machine/lease.h"

#define LEASE_NODES	3

struct lease_server {
	struct lease_data data;
	uint32_t limit, fixed;
	struct {
		int64_t token, sequence, event, heard_ms;
	} nodes[LEASE_NODES];
};

struct lease_answer {
	uint32_t granted, fair, others_short;
};

static inline int64_t lease_number(const struct lease_reply *reply, size_t at) {
	assert_true(at < reply->value.count);
	assert_int_equal(reply->items[at].kind, REDIS_KIND_NUMBER);
	return reply->items[at].number;
}

/* An answer of "ok". */
static inline const struct lease_reply *lease_ask(struct lease_server *server, unsigned node,
    const char *operation, const char *pool, int64_t now_ms) {
	static struct lease_reply reply;
	char head[256];

	snprintf(head, sizeof(head), "%s 1 n%u i%u %" PRId64 " %" PRId64 " first %" PRId64 " %" PRId64
	    " %" PRId64 " 15000 3 first -", operation, node, node, server->nodes[node].token,
	    ++server->nodes[node].sequence, server->nodes[node].event, server->nodes[node].heard_ms,
	    now_ms);
	(void)lease_run(&server->data, "run", head, &pool, pool == NULL ? 0 : 1, &reply);
	assert_true(redis_value_is(&reply.items[0], "ok"));
	server->nodes[node].event = lease_number(&reply, 2);
	server->nodes[node].heard_ms = now_ms;
	return &reply;
}

/* What belongs to nobody is leased at once. */
static inline void lease_begin(struct lease_server *server, uint32_t limit, uint32_t fixed,
    int64_t now_ms) {
	*server = (struct lease_server){ .limit = limit, .fixed = fixed };
	for (unsigned i = 0; i < LEASE_NODES; i++) {
		server->nodes[i].token = lease_number(lease_ask(server, i, "hello", NULL, now_ms), 3);
		server->nodes[i].sequence = 0;
	}
	server->data.ready = true;
}

/* A call that says nothing of the pool. */
static inline void lease_renew(struct lease_server *server, unsigned node, int64_t now_ms) {
	(void)lease_ask(server, node, "share", NULL, now_ms);
}

static inline struct lease_answer lease_call(struct lease_server *server, unsigned node,
    uint32_t hold, uint32_t want, int64_t now_ms) {
	const struct lease_reply *reply;
	char pool[80];

	snprintf(pool, sizeof(pool), "%u 0 %u %u %u %u %u d:x", server->limit, server->fixed, hold,
	    want, want, hold);
	reply = lease_ask(server, node, "share", pool, now_ms);
	return (struct lease_answer){ (uint32_t)lease_number(reply, 9),
		(uint32_t)lease_number(reply, 10), (uint32_t)lease_number(reply, 11) };
}

#endif
