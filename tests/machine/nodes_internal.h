/* SPDX-License-Identifier: ISC */
/* What nodes.c, the life of the other machines, and node_worker.c, what their processes do, share. */
#ifndef TESTS_MACHINE_NODES_INTERNAL_H
#define TESTS_MACHINE_NODES_INTERNAL_H

#include "tests/machine/nodes.h"

#define WORKERS		2
#define MEMBERS		(1 + WORKERS)	/* the first is the cluster role */
#define VISITS_MAX	24

struct node;

/* A session, from its question on. */
struct visit {
	bool used, admitted;
	uint32_t number;		/* of the node's visits: what is of an earlier one is void */
	uint16_t port;
	uint32_t class_index;
	struct session_ref ref;
	struct member *asked;		/* who was asked, while there is no answer, */
	uint32_t start;			/* in that life */
};

struct order {
	struct order *next;
	struct visit *visit;		/* NULL: to end `ref` */
	uint32_t number;
	struct session_ref ref;
};

struct member {
	struct process process;
	struct node *node;
	unsigned number;
	uint32_t start;
	struct segment *segment;
	struct engine *engine;
	struct order *inbox;
};

struct node {
	unsigned number;
	bool up;
	const struct generation *configured;
	struct generation *generation;	/* as published */
	struct segment *segment;
	int fd;
	/* its clock, as of that time of the world */
	int64_t clock_ns, since_ns, ppm;
	int64_t pause_ns;		/* between visitors, at most, */
	int64_t stay_ns;		/* and what one stays */
	struct member members[MEMBERS];
	struct visit visits[VISITS_MAX];
	uint32_t next_visit;
};

void node_member_main(void *process);
/* It was let in, and ends some time. */
void node_visit_ends(struct node *node, struct visit *visit);

#endif
