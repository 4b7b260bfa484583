/* SPDX-License-Identifier: ISC */
/* Landlock: the files that are left to a role. */
#ifndef ROLE_SANDBOX_FILES_H
#define ROLE_SANDBOX_FILES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/diag.h"
#include "config/generation/generation.h"
#include "segment/file/layout.h"

/* Has the kernel got it, switched on? */
bool sandbox_files_can(void);

/* From here on this thread and its children can open beneath: the directory of the state and
 * the system's own tables for reading; that of the journal for writing, for the roles that
 * have one, and that of the state for the keeper; the feed the directories of the logs for reading.  They
 * neither connect to (but the cluster role to that of Redis) nor bind a TCP port, nor signal others, where the kernel knows how.
 * Needs no_new_privs.  -1 with *diag. */
int sandbox_files_restrict(const struct generation *generation, enum role_kind kind,
    struct diag *diag);

/* The TCP port of Redis, if there is a cluster and it is not of this host's sockets; else 0. */
uint16_t sandbox_port(const struct generation *generation);

#endif
