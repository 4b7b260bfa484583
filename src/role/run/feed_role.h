/* SPDX-License-Identifier: ISC */
/* The logs that the feed role reads, opened while it is still root. */
#ifndef ROLE_FEED_ROLE_H
#define ROLE_FEED_ROLE_H

#include "config/generation/generation.h"
#include "role/link/role.h"

/* Is there a log to follow? */
bool feed_role_needed(const struct generation *generation);

/* Opens them into `context` (only for ROLE_FEED; what cannot be opened is for the
 * role to log).  The generation must outlive the context. */
void feed_role_open(const struct generation *generation, struct role_context *context);

/* The group that may read systemd's journal, where that is a log; (gid_t)-1: none.  Asks the name
 * services: for a fork of the supervisor. */
gid_t feed_role_group(const struct generation *generation);

/* In the role, before its sandbox: loads what reads systemd's journal, where that is a log. */
void feed_role_load(const struct generation *generation);

#endif
