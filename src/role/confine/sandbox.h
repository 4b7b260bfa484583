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
#include "config/generation/generation.h"
#include "segment/file/layout.h"

/* The name of a system call, or its number; static memory. */
const char *sandbox_call_name(int call);

/* Why system calls cannot be restricted here (static text), or NULL. */
const char *sandbox_lacks_calls(void);
/* The same of files. */
const char *sandbox_lacks_files(void);

/* In a role, single-threaded, its privileges gone and its signals reset, right before its
 * main: from here on there is no way back.  A call that stops it is written to `lifeline_fd`
 * (base/lifeline.h).  `*what` gets the bits of enum role_sandbox that are active.  -1 with
 * *diag: the role must not run. */
int sandbox_enter(const struct generation *generation, enum role_kind kind,
    int lifeline_fd, uint32_t *what, struct diag *diag);

#endif
