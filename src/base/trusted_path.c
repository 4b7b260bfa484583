/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Open a directory without being led elsewhere.
 * MODEL    A walk from the root directory, one name at a time, by descriptors: what was looked
 *          at is what is entered.  The target of a link takes its place in front of the rest.
 * ERRORS   errno.
 * THREADS  Any.
 */
#include "base/trusted_path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINKS_MOST	16
#define MADE_MODE	0755
#define WALK		(O_PATH | O_NOFOLLOW | O_CLOEXEC)

struct walk {
	int fd;			/* where we are */
	char rest[PATH_MAX];	/* still to be walked */
	unsigned links;
};

static int walk_failed(struct walk *walk, int error) {
	if (walk->fd >= 0)
		close(walk->fd);
	walk->fd = -1;
	errno = error;
	return -1;
}

static int walk_enter(struct walk *walk, int fd) {
	if (walk->fd >= 0)
		close(walk->fd);
	walk->fd = fd;
	return fd;
}

/* Puts the target before the rest.  -1 with errno. */
static int walk_follow(struct walk *walk, int link_fd) {
	char target[PATH_MAX], joined[PATH_MAX];
	ssize_t length = readlinkat(link_fd, "", target, sizeof(target) - 1);

	if (length <= 0 || ++walk->links > LINKS_MOST)
		return walk_failed(walk, ELOOP);
	target[length] = '\0';
	if ((size_t)snprintf(joined, sizeof(joined), "%s/%s", target, walk->rest) >=
	    sizeof(joined))
		return walk_failed(walk, ENAMETOOLONG);
	memcpy(walk->rest, joined, strlen(joined) + 1);
	if (target[0] != '/')
		return 0;
	return walk_enter(walk, open("/", O_PATH | O_CLOEXEC)) < 0 ? -1 : 0;
}

static int walk_step(struct walk *walk, const char *name) {
	struct stat status;
	int fd = openat(walk->fd, name, WALK);

	if (fd < 0 && errno == ENOENT &&
	    (mkdirat(walk->fd, name, MADE_MODE) == 0 || errno == EEXIST))
		fd = openat(walk->fd, name, WALK);
	if (fd < 0)
		return walk_failed(walk, errno);
	if (fstat(fd, &status) != 0 || !S_ISLNK(status.st_mode)) {
		walk_enter(walk, fd);
		return 0;
	}
	if (status.st_uid != 0 && status.st_uid != geteuid()) {
		close(fd);
		return walk_failed(walk, EPERM);
	}
	if (walk_follow(walk, fd) != 0) {
		close(fd);
		return -1;
	}
	close(fd);
	return 0;
}

int trusted_path_open(const char *path) {
	struct walk walk = { .fd = open("/", O_PATH | O_CLOEXEC) };
	int fd;

	if (walk.fd < 0)
		return -1;
	if (strlen(path) >= sizeof(walk.rest) || path[0] != '/')
		return walk_failed(&walk, ENAMETOOLONG);
	memcpy(walk.rest, path, strlen(path) + 1);
	for (;;) {
		char name[NAME_MAX + 1];
		size_t skip = strspn(walk.rest, "/"), length = strcspn(walk.rest + skip, "/");

		if (length == 0)
			break;
		if (length >= sizeof(name))
			return walk_failed(&walk, ENAMETOOLONG);
		memcpy(name, walk.rest + skip, length);
		name[length] = '\0';
		memmove(walk.rest, walk.rest + skip + length,
		    strlen(walk.rest + skip + length) + 1);
		if (walk_step(&walk, name) != 0)
			return -1;
	}
	fd = openat(walk.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return walk_failed(&walk, errno);
	close(walk.fd);
	return fd;
}

bool trusted_path_is_only_name(int fd, int directory_fd, const char *name, struct stat *status) {
	struct stat named;

	/* in this order: who removed the name after it was opened has left one name elsewhere */
	return fstat(fd, status) == 0 && status->st_nlink == 1 &&
	    fstatat(directory_fd, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
	    named.st_dev == status->st_dev && named.st_ino == status->st_ino &&
	    named.st_nlink == 1;
}
