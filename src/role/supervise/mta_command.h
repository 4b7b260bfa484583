/* SPDX-License-Identifier: ISC */
/*
 * Commands on a Postfix that the supervisor runs as root for a role
 * (wire/link/mta_order.h): `postqueue -i ID`, `postqueue -j`, `postfix reload`.  Argument
 * lists, no shell, no input, a clean environment, killed after a time.  Roles are not
 * trusted: the number of the mail server, the queue id and the rates are checked
 * here, and programs and directories come from the configuration alone.
 *
 * Each role that may ask has a link of its own, a socket of datagrams, and commands of its
 * own; while as many run as it may have, nothing more is read from it.
 */
#ifndef ROLE_MTA_COMMAND_H
#define ROLE_MTA_COMMAND_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/diag.h"
#include "base/subprocess.h"
#include "config/generation/generation.h"
#include "wire/link/mta_order.h"

struct pollfd;
struct supervisor;

enum mta_asker { MTA_ASKER_FEED, MTA_ASKER_KEEPER, MTA_ASKER_COUNT };

#define MTA_COMMANDS_AT_ONCE	8
#define MTA_KEEPER_AT_ONCE	2	/* of these; the others are the feed's */

struct mta_command {
	struct subprocess child;
	struct mta_order order;
	enum mta_asker asker;
	unsigned link;		/* its number: a later role of the kind did not ask */
};

struct mta_commands {
	int link_fds[MTA_ASKER_COUNT];	/* -1: that role is away */
	unsigned links[MTA_ASKER_COUNT];
	struct mta_command running[MTA_COMMANDS_AT_ONCE];
	int64_t requeue_tat_ns[GENERATION_MTAS_MAX];
	int64_t listed_ns[GENERATION_MTAS_MAX];	/* the last list; 0: none */
	unsigned list_link[GENERATION_MTAS_MAX];	/* by which link it was asked for */
	int64_t next_reload_ns[GENERATION_MTAS_MAX];
};

void mta_commands_init(struct mta_commands *commands);

/* A new link for a new role; returns the role's end, or -1 with *diag. */
int mta_commands_link(struct mta_commands *commands, enum mta_asker asker,
    struct diag *diag);
void mta_commands_unlink(struct mta_commands *commands, enum mta_asker asker);

/* Fills one place for each asker: what to wait for. */
void mta_commands_poll(const struct mta_commands *commands,
    struct pollfd *polled);

/* Takes what was asked, starts it; never waits. */
void mta_commands_turn(struct supervisor *supervisor, int64_t now_ns);

#endif
