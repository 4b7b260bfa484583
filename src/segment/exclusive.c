/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  One supervisor a state, and no role of an earlier one beside it.
 * MODEL    PATH.lock is locked by the supervisor, PATH.roles shared by each role;
 *          both are open-file locks, so they end with their process, however it
 *          ends.  The files are never renamed or removed.  Nobody else may open
 *          them: whoever can read a file can lock it.
 */
#include "segment/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/trusted_path.h"

#define LOCK_MODE	0600
#define WAIT_STEP_MS	2
#define WAIT_LOCK_MS	2000
#define WAIT_ROLES_MS	5000

static int open_lock(const char *path, const char *suffix, struct diag *diag) {
	struct stat status;
	char name[PATH_MAX];
	int fd;

	if (snprintf(name, sizeof(name), "%s%s", path, suffix) >=
	    (int)sizeof(name))
		return diag_set(diag, ENAMETOOLONG, "%s", path);
	fd = open(name, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
	    LOCK_MODE);
	if (fd < 0)
		return diag_set(diag, errno, "cannot open %s", name);
	/* the directory is the roles' user's, and we may be root: what stands there may be any
	 * file, by another name */
	if (!trusted_path_is_only_name(fd, AT_FDCWD, name, &status) ||
	    !S_ISREG(status.st_mode)) {
		close(fd);
		return diag_set(diag, 0, "%s is no file of Postern's: remove it", name);
	}
	/* set by the administrator, or by a posternd before this one */
	if ((status.st_mode & 07777) != LOCK_MODE)
		(void)fchmod(fd, LOCK_MODE);
	return fd;
}

/* flock has no time limit of its own. */
static int lock_within(int fd, int operation, int limit_ms) {
	for (int waited_ms = 0; ; waited_ms += WAIT_STEP_MS) {
		if (flock(fd, operation | LOCK_NB) == 0)
			return 0;
		if (errno != EWOULDBLOCK && errno != EINTR)
			return -1;
		if (waited_ms >= limit_ms) {
			errno = EWOULDBLOCK;
			return -1;
		}
		poll(NULL, 0, WAIT_STEP_MS);
	}
}

static void holder_of(int fd, char *out, size_t size) {
	ssize_t length = pread(fd, out, size - 1, 0);

	/* a role may have written it */
	out[length > 0 ? length : 0] = '\0';
	out[strspn(out, "0123456789")] = '\0';
	if (out[0] == '\0')
		snprintf(out, size, "unknown");
}

int segment_lock(const char *path, int *lock_fd, struct diag *diag) {
	char pid[32];
	int roles_fd, fd = open_lock(path, ".lock", diag);

	if (fd < 0)
		return -1;
	if (lock_within(fd, LOCK_EX, WAIT_LOCK_MS) != 0) {
		int error = errno == EWOULDBLOCK ? 0 : errno;

		holder_of(fd, pid, sizeof(pid));
		close(fd);
		return diag_set(diag, error,
		    "another posternd (pid %s) runs with the state %s", pid,
		    path);
	}
	snprintf(pid, sizeof(pid), "%ld\n", (long)getpid());
	if (ftruncate(fd, 0) != 0 ||
	    pwrite(fd, pid, strlen(pid), 0) != (ssize_t)strlen(pid)) {
		int error = errno;

		close(fd);
		return diag_set(diag, error, "cannot write to %s.lock", path);
	}
	roles_fd = open_lock(path, ".roles", diag);
	if (roles_fd < 0) {
		close(fd);
		return -1;
	}
	if (lock_within(roles_fd, LOCK_EX, WAIT_ROLES_MS) != 0) {
		close(roles_fd);
		close(fd);
		return diag_set(diag, 0,
		    "processes of an earlier posternd still use the state %s",
		    path);
	}
	close(roles_fd);
	*lock_fd = fd;
	return 0;
}

int segment_lock_role(const char *path, struct diag *diag) {
	int fd = open_lock(path, ".roles", diag);

	if (fd < 0)
		return -1;
	if (lock_within(fd, LOCK_SH, WAIT_LOCK_MS) != 0)
		return diag_set(diag, errno, "cannot lock %s.roles", path);
	return fd;
}
