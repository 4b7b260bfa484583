/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  One supervisor a state, and no role of an earlier one beside it.
 * MODEL    PATH.lock is locked by the supervisor, PATH.roles shared by each role;
 *          both locks end with their process, however it ends.  The files are
 *          root's and never renamed or removed, and a role has PATH.roles for
 *          reading: it can lock out no other by it.
 */
#include "segment/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_lock.h"
#include "base/trusted_path.h"

#define LOCK_MODE	0600
#define WAIT_STEP_MS	2
#define WAIT_LOCK_MS	2000
#define WAIT_ROLES_MS	5000

static int open_lock(const char *path, const char *suffix, int access, struct diag *diag) {
	int flags = access | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
	struct stat status;
	char name[PATH_MAX];
	int fd;

	if (snprintf(name, sizeof(name), "%s%s", path, suffix) >=
	    (int)sizeof(name))
		return diag_set(diag, ENAMETOOLONG, "%s", path);
	/* the kernel may refuse O_CREAT of another's file: below it is named */
	fd = open(name, flags);
	if (fd < 0 && errno == ENOENT)
		fd = open(name, flags | O_CREAT, LOCK_MODE);
	if (fd < 0)
		return diag_set(diag, errno, "cannot open %s", name);
	/* the roles make files there, and we may be root: what stands there may be any file, by
	 * another name, or one of a role's, which could lock us out */
	if (!trusted_path_is_only_name(fd, AT_FDCWD, name, &status) ||
	    !S_ISREG(status.st_mode)) {
		close(fd);
		return diag_set(diag, 0, "%s is no file of Postern's: remove it", name);
	}
	if (status.st_uid != geteuid()) {
		close(fd);
		return diag_set(diag, 0, "%s belongs to user %u, not to %u as posternd: remove it",
		    name, status.st_uid, geteuid());
	}
	/* set by the administrator, or by a posternd before this one */
	if ((status.st_mode & 07777) != LOCK_MODE)
		(void)fchmod(fd, LOCK_MODE);
	return fd;
}

static int lock_within(int fd, bool exclusive, int limit_ms) {
	for (int waited_ms = 0; ; waited_ms += WAIT_STEP_MS) {
		if (file_lock(fd, exclusive) == 0)
			return 0;
		if (errno != EAGAIN || waited_ms >= limit_ms)
			return -1;
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
	int roles_fd, fd = open_lock(path, ".lock", O_RDWR, diag);

	if (fd < 0)
		return -1;
	if (lock_within(fd, true, WAIT_LOCK_MS) != 0) {
		int error = errno == EAGAIN ? 0 : errno;

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
	roles_fd = open_lock(path, ".roles", O_RDWR, diag);
	if (roles_fd < 0) {
		close(fd);
		return -1;
	}
	if (lock_within(roles_fd, true, WAIT_ROLES_MS) != 0) {
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
	int fd = open_lock(path, ".roles", O_RDONLY, diag);

	if (fd < 0)
		return -1;
	if (lock_within(fd, false, WAIT_LOCK_MS) != 0)
		return diag_set(diag, errno, "cannot lock %s.roles", path);
	return fd;
}
