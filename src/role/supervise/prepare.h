/* SPDX-License-Identifier: ISC */
/*
 * The segment before there is any role: made, adopted or rebuilt, the first generation
 * published, the journal read into it.  In an unprivileged process, for which the supervisor
 * waits: it maps no segment.
 */
#ifndef ROLE_PREPARE_H
#define ROLE_PREPARE_H

#include <stdbool.h>

#include "role/supervise/supervised.h"

/* In the supervisor, while there is no role: 0, or the exit code; logged by whom it happened
 * to.  `damaged`: what is there is not adopted. */
int prepare(struct supervisor *supervisor, bool damaged);

#endif
