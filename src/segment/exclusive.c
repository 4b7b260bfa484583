/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  One supervisor a state, and no role of an earlier one beside it.
 * MODEL    Of PATH.lock, the supervisor locks one byte for itself, and each role shares
 *          another; a lock ends with its process, however it ends.  Roles may do with the name
 *          what they like, as the directory is theirs: the supervisor opens the file once,
 *          and a role by that descriptor, to read, so that it can lock out no other role.
 *          What stands at the name when a supervisor starts, and is not root's, is set aside.
 */
#include "segment/file/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file_lock.h"
#include "base/log.h"
#include "base/plain_file.h"
#include "base/trusted_path.h"
#include "segment/reader.h"

#define LOCK_MODE	0600
#define WAIT_STEP_MS	2
#define WAIT_LOCK_MS	2000
#define WAIT_ROLES_MS	5000

enum lock_byte { LOCK_BYTE_SUPERVISOR, LOCK_BYTE_ROLES };

static int lock_open(const char *name) {
	int flags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
	int fd;

	/* the kernel may refuse O_CREAT of another's file */
	fd = open(name, flags);
	if (fd < 0 && errno == ENOENT)
		fd = open(name, flags | O_CREAT, LOCK_MODE);
	return fd;
}

/* A plain file of ours, that has no second name: one of a role's could lock us out. */
static bool lock_is_own(int fd, const char *name) {
	struct stat status;

	if (!trusted_path_is_only_name(fd, AT_FDCWD, name, &status) ||
	    !S_ISREG(status.st_mode) || status.st_uid != geteuid())
		return false;
	/* set by the administrator, or by a posternd before this one */
	if ((status.st_mode & 07777) != LOCK_MODE)
		(void)fchmod(fd, LOCK_MODE);
	return true;
}

/* By a name that nobody can have guessed, and taken. */
static int lock_set_aside(const char *name, struct diag *diag) {
	char aside[PATH_MAX], quoted[PATH_MAX];

	if (snprintf(aside, sizeof(aside), "%s.foreign-%lld", name,
		(long long)clock_now_ns()) >= (int)sizeof(aside))
		return diag_set(diag, ENAMETOOLONG, "%s", name);
	if (rename(name, aside) != 0)
		return diag_set(diag, errno, "%s does not belong to Postern and cannot be "
		    "renamed",
		    name);
	log_event(EVENT_STATE, "file=%s text=\"the lock did not belong to Postern and was "
	    "renamed\"", log_quote(quoted, sizeof(quoted), aside, strlen(aside)));
	return 0;
}

static int lock_open_own(const char *path, struct diag *diag) {
	char name[PATH_MAX];
	int fd, error;

	if (snprintf(name, sizeof(name), "%s.lock", path) >= (int)sizeof(name))
		return diag_set(diag, ENAMETOOLONG, "%s", path);
	fd = lock_open(name);
	error = errno;
	if (fd >= 0 && lock_is_own(fd, name))
		return fd;
	/* whoever has it locked could be another posternd, of that user */
	if (fd >= 0 && file_lock_byte(fd, LOCK_BYTE_SUPERVISOR, true) != 0 && errno == EAGAIN) {
		close(fd);
		return diag_set(diag, 0, "%s does not belong to Postern, and another process "
		    "has locked it", name);
	}
	if (fd >= 0)
		close(fd);
	else if (error != ELOOP && error != EISDIR && error != ENXIO)
		return diag_set(diag, error, "cannot open %s", name);
	if (lock_set_aside(name, diag) != 0)
		return -1;
	fd = lock_open(name);
	if (fd >= 0 && lock_is_own(fd, name))
		return fd;
	if (fd >= 0)
		close(fd);
	return diag_set(diag, 0, "%s does not belong to Postern; remove it", name);
}

static int lock_within(int fd, enum lock_byte byte, bool exclusive, int limit_ms) {
	for (int waited_ms = 0; ; waited_ms += WAIT_STEP_MS) {
		if (file_lock_byte(fd, byte, exclusive) == 0)
			return 0;
		if (errno != EAGAIN || waited_ms >= limit_ms)
			return -1;
		poll(NULL, 0, WAIT_STEP_MS);
	}
}

static void holder_of(int fd, char *out, size_t size) {
	ssize_t length = pread(fd, out, size - 1, 0);

	/* whatever stands there goes to a terminal */
	out[length > 0 ? length : 0] = '\0';
	out[strspn(out, "0123456789")] = '\0';
	if (out[0] == '\0')
		snprintf(out, size, "unknown");
}

int segment_lock(const char *path, int *lock_fd, struct diag *diag) {
	int fd = lock_open_own(path, diag);
	char pid[32];

	if (fd < 0)
		return -1;
	if (lock_within(fd, LOCK_BYTE_SUPERVISOR, true, WAIT_LOCK_MS) != 0) {
		int error = errno == EAGAIN ? 0 : errno;

		holder_of(fd, pid, sizeof(pid));
		diag_set(diag, error, "another posternd (pid %s) uses the state %s", pid,
		    path);
	} else if (snprintf(pid, sizeof(pid), "%ld\n", (long)getpid()), ftruncate(fd, 0) != 0 ||
	    pwrite(fd, pid, strlen(pid), 0) != (ssize_t)strlen(pid)) {
		diag_set(diag, errno, "cannot write to %s.lock", path);
	} else if (lock_within(fd, LOCK_BYTE_ROLES, true, WAIT_ROLES_MS) != 0) {
		diag_set(diag, 0, "processes of an earlier posternd still use the state %s", path);
	} else if (file_unlock_byte(fd, LOCK_BYTE_ROLES) != 0) {
		diag_set(diag, errno, "cannot unlock %s.lock", path);
	} else {
		*lock_fd = fd;
		return 0;
	}
	close(fd);
	return -1;
}

enum segment_holder segment_lock_look(const char *path) {
	char name[PATH_MAX];
	int fd, locked;

	if (snprintf(name, sizeof(name), "%s.lock", path) >= (int)sizeof(name))
		return SEGMENT_HOLDER_UNKNOWN;
	fd = plain_file_open(name);
	if (fd < 0)
		return SEGMENT_HOLDER_UNKNOWN;
	locked = file_byte_is_locked(fd, LOCK_BYTE_SUPERVISOR);
	close(fd);
	return locked < 0 ? SEGMENT_HOLDER_UNKNOWN : locked ? SEGMENT_HELD : SEGMENT_FREE;
}

int segment_lock_role(int lock_fd, struct diag *diag) {
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", lock_fd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return diag_set(diag, errno, "cannot open %s (is /proc mounted?)", path);
	if (lock_within(fd, LOCK_BYTE_ROLES, false, WAIT_LOCK_MS) == 0)
		return fd;
	diag_set(diag, errno, "cannot lock a byte of the state's lock");
	close(fd);
	return -1;
}
