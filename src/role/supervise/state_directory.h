/* SPDX-License-Identifier: ISC */
/*
 * The directory of state.path, in which the roles make files.
 */
#ifndef ROLE_STATE_DIRECTORY_H
#define ROLE_STATE_DIRECTORY_H

#include "base/diag.h"
#include "config/generation/generation.h"
#include "role/confine/privileges.h"

/* Makes the directory, and the one above it, where they are missing: the first is the roles'
 * user's, the other root's.  One that is there and root's alone is shared with the roles' group,
 * with the sticky bit; in any other the roles find for themselves whether they can use it.
 * Sockets in it are noted.  -1 with *diag.  Logs. */
int state_directory_make(const struct generation *generation, const struct identity *identity,
    struct diag *diag);

#endif
