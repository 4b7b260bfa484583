/* SPDX-License-Identifier: ISC */
/* The logs that the feed role reads, opened while it is still root. */
#ifndef ROLE_FEED_ROLE_H
#define ROLE_FEED_ROLE_H

#include "config/generation.h"
#include "role/role.h"

/* Is there a log to follow? */
bool feed_role_needed(const struct generation *generation);

/* Opens them into `context` (only for ROLE_FEED; what cannot be opened is for the
 * role to log).  The generation must outlive the context. */
void feed_role_open(const struct generation *generation, struct role_context *context);

#endif
