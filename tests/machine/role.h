/* SPDX-License-Identifier: ISC */
/* A role of the simulated machine, for the files that are its mains. */
#ifndef TESTS_MACHINE_ROLE_H
#define TESTS_MACHINE_ROLE_H

#include "tests/machine/world.h"

#define NETLINK_FD 1000
#define BEAT_NS NS_PER_SECOND

struct message {
	struct message *next;
	struct policy_link *link;	/* NULL: an order for the keeper */
	char *request;			/* NULL: the connection ended; of an order: not, if by hand */
	unsigned place;
	int32_t pid;			/* of who died; 0: the kernel has announcements.  Of a question
					 * to postern-lookup, which is about message `place`: its number;
					 * of an order by hand, of domain `place`: the verb */
};

struct role {
	struct process process;
	enum role_kind kind;
	unsigned number, place;
	uint32_t start;			/* how often it was started */
	struct segment *segment;
	struct engine *engine;
	struct message *inbox;
	const char *state_path;
	int64_t asked_ns;		/* when it took up what it is busy with */
};

uint8_t listener_of(const struct generation *generation, uint8_t kind);
bool role_next(struct role *role, struct message *message);

/* What is not a question's, and ends sessions of that tuple, is believed as the keeper is away. */
void let_go(const struct address *client, uint16_t port);

/* As role/run has them, without sockets.  They do not return. */
void policy_main(struct role *role);
void milter_main(struct role *role);
void keeper_main(struct role *role);
/* Of front/feed what is left without files. */
void feed_main(struct role *role);
/* The one of front/cluster. */
void cluster_main(struct role *role);
/* postern-lookup, which is no role: it has no segment and no engine. */
#define NO_ROLE ROLE_NONE
void lookup_main(struct role *role);

#endif
