/* SPDX-License-Identifier: ISC */
/* Opens without waiting, as what is named may be a pipe; a file that shrinks
 * meanwhile is read as far as it goes. */
#include "config/read/read_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_bytes.h"

char *read_file(const char *path, size_t most, size_t *length) {
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat status;
	char *text = NULL;
	size_t size;
	ssize_t got;
	int error = 0;

	*length = 0;
	if (fd < 0)
		return NULL;
	if (fstat(fd, &status) != 0) {
		error = errno;
	} else if (S_ISREG(status.st_mode)) {
		size = status.st_size > (off_t)most ? most + 1 : (size_t)status.st_size;
		text = malloc(size + 1);
		got = text == NULL ? -ENOMEM : file_read_at(fd, text, size, 0);
		if (got >= 0) {
			*length = (size_t)got;
			text[got] = '\0';
		} else {
			error = (int)-got;
			free(text);
			text = NULL;
		}
	}
	close(fd);
	errno = error;
	return text;
}

const char *read_file_error(void) {
	return errno == 0 ? "not a regular file" : strerror(errno);
}
