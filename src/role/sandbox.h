/* SPDX-License-Identifier: ISC */
/*
 * What a role can still ask of the kernel once it has given up its privileges: the system
 * calls of defs/sandbox.def, by seccomp (libseccomp), and the files that are its own, by
 * Landlock.  Either is used where it is there; setting sandbox says what else.
 */
#ifndef ROLE_SANDBOX_H
#define ROLE_SANDBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/diag.h"
#include "config/generation.h"
#include "segment/layout.h"

/* Which call stopped a role, written by it when it is: shared by all processes. */
struct sandbox_reports;

/* In the supervisor, before the first role.  NULL: nobody can tell. */
struct sandbox_reports *sandbox_reports_open(void);

/* The name of the call that stopped the role of this place, or NULL; forgets it. */
const char *sandbox_stopped_by(struct sandbox_reports *reports, unsigned place);

/* Why system calls cannot be restricted here (static text), or NULL. */
const char *sandbox_lacks_calls(void);
/* The same of files. */
const char *sandbox_lacks_files(void);

/* In a role, single-threaded, its privileges gone and its signals reset, right before its
 * main: from here on there is no way back.  `*what` gets the bits of enum role_sandbox that
 * are in force.  -1 with *diag: the role must not run. */
int sandbox_enter(const struct generation *generation, enum role_kind kind,
    struct sandbox_reports *reports, unsigned place, uint32_t *what, struct diag *diag);

#endif
