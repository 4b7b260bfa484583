/* SPDX-License-Identifier: ISC */
/* Redis (redis_server.c, redis_knowledge.c), and the way to it (network.c). */
#ifndef TESTS_MACHINE_NETWORK_H
#define TESTS_MACHINE_NETWORK_H

#include "front/cluster/script.h"
#include "tests/machine/lease.h"
#include "tests/machine/nodes.h"

/* --- network.c ------------------------------------------------------------------------- */

void network_begin(const struct plan *plan);
void network_calm(void);
/* What came for the process that runs; true: something did. */
bool network_deliver(void);
/* To all who hear the channel. */
void network_tell(const char *text);
/* The server went down, with all connections. */
void network_lose(void);

/* --- redis_server.c -------------------------------------------------------------------- */

void redis_begin(const struct plan *plan);
void redis_calm(void);
/* How often it was started; 0: it does not run. */
uint32_t redis_life(void);
/* Nothing is done before then. */
int64_t redis_hangs_until_ns(void);
void redis_execute(char *const *words, size_t count, struct lease_reply *reply);
/* What it holds; NULL: it does not run. */
const struct lease_data *redis_lease(void);

/* --- redis_knowledge.c: what front/cluster/know_*.lua do ---------------------------------- */

#define KNOWN_NAMES	40
#define KNOWN_RECORD	400

struct redis_known {
	int64_t number;
	unsigned count;
	struct known_name {
		char name[LEASE_NAME];
		int64_t number;
		char records[NODES_MAX][KNOWN_RECORD];	/* of n0, n1, ...; "": none */
	} names[KNOWN_NAMES];
};

void redis_knowledge(struct redis_known *known, enum cluster_script script, char *const *words,
    size_t count, struct lease_reply *reply);

#endif
