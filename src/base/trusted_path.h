/* SPDX-License-Identifier: ISC */
/*
 * A directory that root opens by a path of which a part may be an unprivileged user's: a link
 * that root did not make leads nowhere.
 */
#ifndef BASE_TRUSTED_PATH_H
#define BASE_TRUSTED_PATH_H

#include <stdbool.h>

/* `path` is absolute.  Links are followed that belong to root or to who we are.  What is missing is
 * made, with mode 0755.  A descriptor of the directory, or -1 with errno (EPERM: another's link).
 * Any thread. */
int trusted_path_open(const char *path);

/* Is what was opened by this name, without following a link, what the name leads to, and is that
 * its only name?  Else it may be another's file, that had this name for a moment.  *status: of
 * fstat.  Any thread. */
struct stat;
bool trusted_path_is_only_name(int fd, int directory_fd, const char *name, struct stat *status);

#endif
