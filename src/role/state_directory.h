/* SPDX-License-Identifier: ISC */
/*
 * The directory of state.path, in which the roles make files beside the locks, which are root's.
 */
#ifndef ROLE_STATE_DIRECTORY_H
#define ROLE_STATE_DIRECTORY_H

#include "base/diag.h"
#include "config/generation.h"
#include "role/privileges.h"

/* Makes the directory, and the one above it, where they are missing: root's, with write permission
 * for the group of the roles and the sticky bit, so that no role removes what is root's.  One that
 * is there and root's alone is shared in the same way; in any other the roles find for themselves
 * whether they can use it, and one of their user's is noted.  -1 with *diag.  Logs. */
int state_directory_make(const struct generation *generation, const struct identity *identity,
    struct diag *diag);

#endif
