/* SPDX-License-Identifier: ISC */
/*
 * A lock of a whole file that ends with the opening that holds it, and that the descriptor must
 * allow: a process that was handed one to read can lock out no other reader.
 */
#ifndef BASE_FILE_LOCK_H
#define BASE_FILE_LOCK_H

#include <stdbool.h>

/* Takes the lock at once, or not at all.  `exclusive`: for one opening alone, and `fd` must be
 * open for writing; else shared, and it must be open for reading.  -1 with errno: EAGAIN,
 * another opening has it; EBADF, the descriptor does not allow it.  Any thread. */
int file_lock(int fd, bool exclusive);

#endif
