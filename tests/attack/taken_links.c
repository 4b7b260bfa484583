/* SPDX-License-Identifier: ISC */
/* Links are sockets whose other end is the supervisor's, and a pipe that it has, too. */
#include "taken_links.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static void read_line(char *out, size_t size, const char *path) {
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length;

	length = fd < 0 ? 0 : read(fd, out, size - 1);
	if (fd >= 0)
		close(fd);
	out[length > 0 ? length : 0] = '\0';
	out[strcspn(out, "\n")] = '\0';
}

pid_t find_role(pid_t supervisor, const char *title) {
	char children[4096], name[64], path[64], *word, *rest;

	snprintf(path, sizeof(path), "/proc/%ld/task/%ld/children", (long)supervisor,
	    (long)supervisor);
	read_line(children, sizeof(children), path);
	for (word = strtok_r(children, " ", &rest); word != NULL;
	     word = strtok_r(NULL, " ", &rest)) {
		pid_t pid = (pid_t)strtol(word, NULL, 10);

		snprintf(path, sizeof(path), "/proc/%ld/comm", (long)pid);
		read_line(name, sizeof(name), path);
		if (strcmp(name, title) == 0)
			return pid;
	}
	return 0;
}

void name_of(char *out, size_t size, long pid, const char *number) {
	char path[64];
	ssize_t length;

	snprintf(path, sizeof(path), "/proc/%ld/fd/%.16s", pid, number);
	length = readlink(path, out, size - 1);
	out[length > 0 ? length : 0] = '\0';
}

static bool has_pipe(long pid, const char *wanted) {
	char path[64], name[PATH_MAX];
	struct dirent *entry;
	bool found = false;
	DIR *list;

	snprintf(path, sizeof(path), "/proc/%ld/fd", pid);
	list = opendir(path);
	while (list != NULL && !found && (entry = readdir(list)) != NULL) {
		name_of(name, sizeof(name), pid, entry->d_name);
		found = strcmp(name, wanted) == 0;
	}
	if (list != NULL)
		closedir(list);
	return found;
}

static int option_of(int fd, int option) {
	int value = -1;
	socklen_t size = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, option, &value, &size) == 0 ? value : -1;
}

static bool is_link(int fd, const char *name, pid_t supervisor) {
	struct ucred peer = { 0 };
	socklen_t size = sizeof(peer);

	if (strncmp(name, "pipe:", 5) == 0)
		return (fcntl(fd, F_GETFL) & O_ACCMODE) == O_WRONLY && has_pipe(supervisor, name);
	return strncmp(name, "socket:", 7) == 0 && option_of(fd, SO_DOMAIN) == AF_UNIX &&
	    option_of(fd, SO_ACCEPTCONN) == 0 &&
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
	    peer.pid == supervisor;
}

static enum link_kind kind_of(const char *name, const char *title) {
	if (strncmp(name, "pipe:", 5) == 0)
		return LINK_LIFELINE;
	return strstr(title, "queue") != NULL ? LINK_QUEUE : LINK_MTA;
}

/* The keeper has two: that for orders was made first. */
static void tell_apart(struct link *links, unsigned count, const char *title) {
	struct link *first = NULL;

	if (strstr(title, "keeper") == NULL)
		return;
	for (unsigned i = 0; i < count; i++)
		if (links[i].kind == LINK_MTA && (first == NULL || links[i].inode < first->inode))
			first = &links[i];
	if (first != NULL)
		first->kind = LINK_ORDERS;
}

unsigned take_links(pid_t supervisor, pid_t pid, const char *title,
    struct link links[LINKS_MAX]) {
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	char path[64], name[PATH_MAX];
	struct dirent *entry;
	unsigned count = 0;
	DIR *list;

	snprintf(path, sizeof(path), "/proc/%ld/fd", (long)pid);
	list = pidfd < 0 ? NULL : opendir(path);
	while (list != NULL && count < LINKS_MAX && (entry = readdir(list)) != NULL) {
		long number = strtol(entry->d_name, NULL, 10);
		struct stat status;
		int fd;

		if (number <= STDERR_FILENO)
			continue;
		name_of(name, sizeof(name), pid, entry->d_name);
		fd = (int)syscall(SYS_pidfd_getfd, pidfd, (int)number, 0);
		if (fd < 0)
			continue;
		if (is_link(fd, name, supervisor) && fstat(fd, &status) == 0)
			links[count++] = (struct link){ fd, kind_of(name, title), status.st_ino };
		else
			close(fd);
	}
	if (list != NULL)
		closedir(list);
	if (pidfd >= 0)
		close(pidfd);
	tell_apart(links, count, title);
	return count;
}
