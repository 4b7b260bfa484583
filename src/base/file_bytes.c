/* SPDX-License-Identifier: ISC */
/* ERRORS  What was interrupted by a signal goes on. */
#include "base/file_bytes.h"

#include <errno.h>
#include <unistd.h>

ssize_t file_read_at(int fd, void *to, size_t bytes, uint64_t at) {
	size_t done = 0;

	while (done < bytes) {
		ssize_t got = pread(fd, (char *)to + done, bytes - done, (off_t)(at + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			break;
		done += (size_t)got;
	}
	return (ssize_t)done;
}

int file_write_at(int fd, const void *from, size_t bytes, uint64_t at) {
	size_t done = 0;

	while (done < bytes) {
		ssize_t put = pwrite(fd, (const char *)from + done, bytes - done,
		    (off_t)(at + done));

		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			return put < 0 ? -errno : -EIO;
		done += (size_t)put;
	}
	return 0;
}
