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

int file_lock(int fd, bool exclusive) {
	struct flock lock = { .l_type = exclusive ? F_WRLCK : F_RDLCK,
		.l_whence = SEEK_SET };

	if (fcntl(fd, F_OFD_SETLK, &lock) == 0)
		return 0;
	if (errno == EACCES)
		errno = EAGAIN;
	return -1;
}
