/* SPDX-License-Identifier: ISC */
/*
 * What a service manager forbids to the supervisor, and so to all that it starts.  A Sendmail
 * that delivers needs what the system's first process has: it delivers into home directories
 * and /tmp, in the name of users, and starts what they have in .forward.  With less mail would
 * bounce; so no queue is driven then (generation_drives).
 */
#ifndef ROLE_CONFINEMENT_H
#define ROLE_CONFINEMENT_H

#include <stddef.h>

#include "config/generation/generation.h"

/* What a process that we start would lack, against the system's first process, for people
 * ("capabilities, read-only /home"); "": nothing, or no service manager started us.  Reads
 * /proc; the supervisor, when it starts. */
void confinement_find(char *out, size_t size);

/* Of two /proc/PID/mountinfo: appends to *out what of `first` a process with `ours` cannot
 * reach, or not as freely: "read-only /usr, other /tmp". */
void confinement_compare_mounts(const char *ours, const char *first, char *out, size_t size);

/* Logs (config-note) which settings of the generation it stands in the way of.  The
 * supervisor, when it starts and after a reload. */
void confinement_note(const struct generation *generation);

#endif
