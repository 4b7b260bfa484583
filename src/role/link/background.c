/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Daemonize with an honest exit status.
 * MODEL    The caller's process keeps a pipe to its grandchild: one byte is the
 *          exit code; an end without a byte means that the daemon died.
 * THREADS  One, before any other exists.
 */
#include "role/link/background.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

static void wait_and_exit(int fd, pid_t child) __attribute__((noreturn));

static void wait_and_exit(int fd, pid_t child) {
	unsigned char code = EX_SOFTWARE, more;
	ssize_t length;

	while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
	do {
		length = read(fd, &code, 1);
	} while (length < 0 && errno == EINTR);
	if (length != 1)
		fputs("posternd: the daemon ended while it was starting\n", stderr);
	/* whoever tries again after a failure must not meet the one that failed */
	while (code != EX_OK && read(fd, &more, 1) < 0 && errno == EINTR)
		;
	_exit(code);
}

static void to_null(int fd) {
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null_fd < 0)
		return;
	if (null_fd == fd) {
		(void)fcntl(fd, F_SETFD, 0);
		return;
	}
	(void)dup2(null_fd, fd);
	close(null_fd);
}

int background_begin(struct diag *diag) {
	int pipe_fds[2];
	pid_t child;

	if (pipe2(pipe_fds, O_CLOEXEC) != 0)
		return diag_set(diag, errno, "cannot create a pipe");
	child = fork();
	if (child < 0) {
		diag_set(diag, errno, "cannot fork");
		close(pipe_fds[0]);
		close(pipe_fds[1]);
		return -1;
	}
	if (child > 0) {
		close(pipe_fds[1]);
		wait_and_exit(pipe_fds[0], child);
	}
	close(pipe_fds[0]);
	/* the second fork: a process that leads no session gets no terminal */
	if (setsid() < 0 || (child = fork()) < 0) {
		fprintf(stderr, "posternd: cannot detach from the terminal: %s\n",
		    strerror(errno));
		background_tell(pipe_fds[1], EX_OSERR);
		_exit(EX_OSERR);
	}
	if (child > 0)
		_exit(EX_OK);
	if (chdir("/") != 0) {
		fprintf(stderr, "posternd: cannot change directory to /: %s\n",
		    strerror(errno));
		background_tell(pipe_fds[1], EX_OSERR);
		_exit(EX_OSERR);
	}
	to_null(STDIN_FILENO);
	to_null(STDOUT_FILENO);
	return pipe_fds[1];
}

void background_tell(int fd, int code) {
	unsigned char byte = (unsigned char)code;

	if (fd < 0)
		return;
	to_null(STDERR_FILENO);
	while (write(fd, &byte, 1) < 0 && errno == EINTR)
		;
	if (code == EX_OK)
		close(fd);
}

void background_leave(int fd) {
	if (fd < 0)
		return;
	to_null(STDERR_FILENO);
	close(fd);
}
