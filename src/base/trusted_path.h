/* SPDX-License-Identifier: ISC */
/*
 * A directory that root opens by a path of which a part may be an unprivileged user's: a link
 * that root did not make leads nowhere.
 */
#ifndef BASE_TRUSTED_PATH_H
#define BASE_TRUSTED_PATH_H

#include <stdbool.h>
#include <sys/types.h>

/* `path` is absolute.  Links are followed that belong to root or to who we are.  `make`: what is
 * missing is made, with `mode`.  A descriptor of the directory, or -1 with errno (EPERM: another's
 * link).  Any thread. */
int trusted_path_open(const char *path, bool make, mode_t mode);

#endif
