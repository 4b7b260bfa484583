/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  See file_lock.h.
 * MODEL    An open-file-description lock.  flock(2) would do, but allows every lock on every
 *          descriptor.
 * THREADS  Any.
 */
#include "base/file_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* A length of 0 is all of it. */
static int file_lock_range(int fd, off_t start, off_t length, short type) {
	struct flock lock = { .l_type = type,
		.l_whence = SEEK_SET, .l_start = start, .l_len = length };

	if (fcntl(fd, F_OFD_SETLK, &lock) == 0)
		return 0;
	if (errno == EACCES)
		errno = EAGAIN;
	return -1;
}

int file_lock(int fd, bool exclusive) {
	return file_lock_range(fd, 0, 0, exclusive ? F_WRLCK : F_RDLCK);
}

int file_lock_byte(int fd, off_t byte, bool exclusive) {
	return file_lock_range(fd, byte, 1, exclusive ? F_WRLCK : F_RDLCK);
}

int file_unlock_byte(int fd, off_t byte) {
	return file_lock_range(fd, byte, 1, F_UNLCK);
}

int file_byte_is_locked(int fd, off_t byte) {
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte,
		.l_len = 1 };

	return fcntl(fd, F_OFD_GETLK, &lock) != 0 ? -1 : lock.l_type != F_UNLCK;
}
