/* SPDX-License-Identifier: ISC */
/*
 * Opens a file whose path somebody else may have chosen: no fifo, device or link's target is
 * touched.
 */
#ifndef BASE_PLAIN_FILE_H
#define BASE_PLAIN_FILE_H

/* Opens the plain file for reading, close-on-exec.  -1 with errno; ELOOP: the name is a link;
 * EINVAL: it is no plain file.  Needs /proc.  Any thread. */
int plain_file_open(const char *path);

#endif
