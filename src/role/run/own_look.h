/* SPDX-License-Identifier: ISC */
/* A look of its own at the kernel's table, for a role that answers questions. */
#ifndef ROLE_OWN_LOOK_H
#define ROLE_OWN_LOOK_H

#include "engine/engine.h"
#include "role/link/role.h"

/* Without one the role works on: while the keeper is away, sessions that have
 * ended stay in the counts. */
void own_look_open(const struct role_context *context, struct engine *engine);

#endif
