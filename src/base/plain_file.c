/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  See plain_file.h.
 * MODEL    Found without being opened, looked at, and opened by what was found: to open a device
 *          or a fifo just to look at it can already have an effect.
 * THREADS  Any.
 */
#include "base/plain_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"

int plain_file_open(const char *path) {
	int place = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC), fd = -1, error;
	struct stat status;
	char name[32];

	if (place < 0)
		return -1;
	text_append(name, sizeof(name), 0, "/proc/self/fd/%d", place);
	if (fstat(place, &status) != 0)
		error = errno;
	else if (!S_ISREG(status.st_mode))
		error = S_ISLNK(status.st_mode) ? ELOOP : EINVAL;
	else
		error = (fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) < 0 ?
		    errno : 0;
	close(place);
	errno = error;
	return fd;
}
