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

#include "base/diag.h"
#include "role/supervise/supervised.h"

struct pollfd;

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
