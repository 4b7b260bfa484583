/* SPDX-License-Identifier: ISC */
/* A pipe from the supervisor to a role: look now, whatever your next turn is.  Neither side
 * ever waits, and none loses more than its own time by what the other one does with it. */
#ifndef BASE_NUDGE_H
#define BASE_NUDGE_H

#include <stdbool.h>

#include "base/diag.h"

/* fds[0] is the role's, fds[1] the supervisor's; both close-on-exec.  0, or -1 with *diag. */
int nudge_open(int fds[2], struct diag *diag);

/* In the supervisor.  Of many only some are kept. */
void nudge_give(int fd);

/* In the role, once its descriptor is readable.  False: there will be none any more. */
bool nudge_take(int fd);

#endif
