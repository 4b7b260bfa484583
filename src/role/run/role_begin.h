/* SPDX-License-Identifier: ISC */
/* A role's process from exec to the role's main (spawn.c is what comes before). */
#ifndef ROLE_ROLE_BEGIN_H
#define ROLE_ROLE_BEGIN_H

/* posternd's first argument, with the role's name behind it; the second is the number of the
 * descriptor of handover.h. */
#define ROLE_BEGIN_OPTION	"--role="

/* Becomes the role.  Returns an exit code if it cannot, or when the role's main ends. */
int role_begin(const char *descriptor);

#endif
