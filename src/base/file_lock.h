/* SPDX-License-Identifier: ISC */
/*
 * A lock of a file, or of a byte of it, that ends with the opening that holds it, and that the
 * descriptor must allow: a process that was handed one to read can lock out no other reader.
 */
#ifndef BASE_FILE_LOCK_H
#define BASE_FILE_LOCK_H

#include <stdbool.h>
#include <sys/types.h>

/* Takes the lock at once, or not at all.  `exclusive`: for one opening alone, and `fd` must be
 * open for writing; else shared, and it must be open for reading.  -1 with errno: EAGAIN,
 * another opening has it; EBADF, the descriptor does not allow it.  Any thread. */
int file_lock(int fd, bool exclusive);

/* The same of one byte, which need not be there; and its end. */
int file_lock_byte(int fd, off_t byte, bool exclusive);
int file_unlock_byte(int fd, off_t byte);

/* Does another opening hold any lock of this byte?  Takes none; `fd` must be open for reading.
 * 1, 0, or -1 with errno.  Any thread. */
int file_byte_is_locked(int fd, off_t byte);

#endif
