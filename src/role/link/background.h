/* SPDX-License-Identifier: ISC */
/* Going into the background, so that the exit status of the command that the
 * admin typed tells whether the daemon came up. */
#ifndef ROLE_BACKGROUND_H
#define ROLE_BACKGROUND_H

#include "base/diag.h"

/* Forks; returns in the daemon only, which has its own session, no terminal,
 * and / as its directory.  The process that was called waits for
 * background_tell and exits with that code.  Returns a descriptor for
 * background_tell, or -1 with *diag (in the process that was called). */
int background_begin(struct diag *diag);

/* Lets the waiting process exit with `code`: at once when it is 0, else when
 * this process has ended.  From then on nothing goes to its terminal.  With fd
 * -1 it does nothing. */
void background_tell(int fd, int code);

/* In a fork of the daemon: keeps neither the waiting process nor its terminal. */
void background_leave(int fd);

#endif
