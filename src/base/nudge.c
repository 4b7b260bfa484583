/* SPDX-License-Identifier: ISC */
/* MODEL: a byte each.  A pipe that is full has enough of them. */
#include "base/nudge.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int nudge_open(int fds[2], struct diag *diag) {
	return pipe2(fds, O_NONBLOCK | O_CLOEXEC) == 0 ? 0 :
	    diag_set(diag, errno, "cannot make a pipe");
}

void nudge_give(int fd) {
	(void)!write(fd, "", 1);
}

bool nudge_take(int fd) {
	char bytes[256];
	ssize_t length = read(fd, bytes, sizeof(bytes));

	return length > 0 || (length < 0 && (errno == EAGAIN || errno == EINTR));
}
