/* SPDX-License-Identifier: ISC */
/*
 * Roles: the processes that the supervisor executes.  Each gets its sockets open
 * and its privileges gone, maps the segment, and has its place there; it runs
 * until it is killed (crash-only: there is no other end).
 */
#ifndef ROLE_ROLE_H
#define ROLE_ROLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/diag.h"
#include "config/generation/generation.h"
#include "front/control/control_access.h"
#include "front/feed/feed.h"
#include "segment/file/layout.h"

struct cluster_secret;
struct onlooker;
struct queue_places;
struct segment;

struct role_socket {
	int fd;			/* listening, non-blocking, close-on-exec */
	uint8_t listener;	/* number in the generation */
	uint8_t kind;		/* enum listener_kind */
	struct control_access access;	/* control, queue: who may ask */
};

/* What a name of witness.netns stands for; all zero: nothing. */
struct namespace_file {
	uint64_t device;
	uint64_t inode;
};

/* What a role is given besides its sockets; -1: it is not. */
enum role_fd {
	/* the supervisor's configuration (generation_memory.h): what a role takes its sandbox from,
	 * and what is to be published; -1: not any more */
	ROLE_FD_GENERATION,
	ROLE_FD_STATE,		/* the segment's file, to be mapped */
	ROLE_FD_ONLOOKER,	/* metrics, keeper: segment/onlooker.h */
	ROLE_FD_ROLES_LOCK,	/* held as long as the process lives */
	ROLE_FD_LIFELINE,	/* what the supervisor hears of it: base/lifeline.h */
	ROLE_FD_NUDGE,		/* and what it hears of the supervisor: base/nudge.h */
	ROLE_FD_ORDERS,		/* keeper: keeper_orders.h */
	ROLE_FD_MTA,		/* feed, keeper: commands on a Postfix (front/link/mta_link.h) */
	ROLE_FD_ROW,		/* of an optional row: row.h */
	ROLE_FDS
};

struct role_context {
	enum role_kind kind;
	unsigned number;		/* policy.0 ... */
	unsigned role_slot;		/* place in the segment's roles */
	struct segment *segment;
	struct role_socket sockets[GENERATION_LISTENERS_MAX];
	unsigned socket_count;		/* those of this role only */
	int fds[ROLE_FDS];
	uint64_t generation_number;	/* as which it is, or was, to be published */
	uint64_t alerts_from;		/* alert_watch_begin */
	bool planned[SEGMENT_ROLES_MAX];	/* places of roles that there are to be */
	struct onlooker *onlooker;	/* ROLE_FD_ONLOOKER, mapped */
	gid_t hints_group;		/* keeper: hints.group, or (gid_t)-1 */
	const struct queue_places *queue_places; /* queue: its directories */
	int netlink_fds[1 + 8];		/* own namespace, then witness.netns */
	unsigned netlink_count;
	struct namespace_file netns[8];	/* witness.netns, as they were opened */
	struct log_candidates logs[GENERATION_MTAS_MAX];	/* feed: of the mail servers */
	unsigned log_count;
	const struct cluster_secret *secret;	/* cluster: what it says to Redis; its own page */
};

struct engine;

/* The mains of the roles, with their engine: 0 when something has to be opened by root, -1 with
 * *diag: they cannot go on.  Those of optional rows: row.h. */
int policy_role_main(const struct role_context *context, struct engine *engine,
    struct diag *diag);
int milter_role_main(const struct role_context *context, struct engine *engine,
    struct diag *diag);
int keeper_role_main(const struct role_context *context, struct engine *engine,
    struct diag *diag);
int feed_role_main(const struct role_context *context, struct engine *engine,
    struct diag *diag);
int metrics_role_main(const struct role_context *context, struct engine *engine,
    struct diag *diag);

#endif
