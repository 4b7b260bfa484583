/* SPDX-License-Identifier: ISC */
/* The roles' windows on the kernel's table of connections. */
#ifndef ROLE_NETLINK_H
#define ROLE_NETLINK_H

#include "config/generation/generation.h"
#include "role/link/role.h"

/* Opens a NETLINK_SOCK_DIAG socket in our own network namespace and in each of
 * witness.netns; the keeper's are joined to the TCP destroy groups of both
 * families.  Those that cannot be opened are logged and left out.  To be called
 * after fork, while it is still root: it changes namespaces back and forth.
 * Returns false when it could not come back: the process must end. */
bool netlink_open(const struct generation *generation,
    struct role_context *context);

/* Is a namespace of witness.netns another than when they were opened, or there
 * now and was not then (a container that was started again)?  Its connections
 * cannot be seen by these sockets.  Any process. */
bool netlink_is_stale(const struct generation *generation,
    const struct role_context *context);

#endif
