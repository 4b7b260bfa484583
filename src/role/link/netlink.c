/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Open netlink sockets, also inside other network namespaces.
 * MODEL    Made anew for each role, so that no answer to a dead one's
 *          question waits in a buffer.  The socket is bound first and joined to
 *          the groups then: bound with the groups, it is not told of every end.
 * ERRORS   Without a socket the keeper works on: sessions then live by their
 *          owners and leases.
 * THREADS  One.
 */
#include "role/link/netlink.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"

#define RECEIVE_BYTES (8 * 1024 * 1024)

static int open_here(bool announcements, struct diag *diag) {
	static const int groups[] = { SKNLGRP_INET_TCP_DESTROY,
		SKNLGRP_INET6_TCP_DESTROY };
	static const int bytes = RECEIVE_BYTES;
	struct sockaddr_nl address = { .nl_family = AF_NETLINK };
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK,
	    NETLINK_SOCK_DIAG);
	size_t i;

	if (fd < 0)
		return diag_set(diag, errno, "cannot open a netlink socket");
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) != 0)
		(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
		diag_set(diag, errno, "cannot bind a netlink socket");
		close(fd);
		return -1;
	}
	/* Without the announcements the dumps still tell all, later. */
	for (i = 0; announcements && i < sizeof(groups) / sizeof(groups[0]); i++)
		if (setsockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP,
			&groups[i], sizeof(groups[i])) != 0)
			log_event(EVENT_WITNESS,
			    "text=\"no announcements of ended connections\" group=%d errno=%d",
			    groups[i], errno);
	return fd;
}

static void netlink_complain(const char *name, const struct diag *diag) {
	char quoted[256];

	log_event(EVENT_WITNESS, "netns=%s text=\"%s\"",
	    log_quote(quoted, sizeof(quoted), name, strlen(name)), diag->text);
}

/* False: too long a name. */
static bool namespace_path(const char *name, char path[256]) {
	size_t length = text_append(path, 256, 0,
	    name[0] == '/' ? "%s" : "/run/netns/%s", name);

	return length + 1 < 256;
}

/* All zero: there is none. */
static struct namespace_file namespace_file(const char *name) {
	char path[256];
	struct stat status;

	if (!namespace_path(name, path) || stat(path, &status) != 0)
		return (struct namespace_file){ 0 };
	return (struct namespace_file){ status.st_dev, status.st_ino };
}

bool netlink_is_stale(const struct generation *generation,
    const struct role_context *context) {
	for (uint32_t i = 0; i < generation->netns_count; i++) {
		const struct namespace_file *was = &context->netns[i];
		struct namespace_file is = namespace_file(
		    generation_text(generation, generation->netns[i]));

		if (is.inode != 0 && (is.device != was->device ||
			is.inode != was->inode))
			return true;
	}
	return false;
}

static int open_namespace(const char *name, struct diag *diag) {
	char path[256];
	int fd;

	if (!namespace_path(name, path))
		return diag_set(diag, 0, "the name is too long");
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return diag_set(diag, errno, "cannot open %s", path);
	if (setns(fd, CLONE_NEWNET) != 0) {
		diag_set(diag, errno, "cannot enter %s", path);
		close(fd);
		return -1;
	}
	close(fd);
	return 0;
}

bool netlink_open(const struct generation *generation,
    struct role_context *context) {
	bool announcements = context->kind == ROLE_KEEPER;
	struct diag diag;
	uint32_t i;
	int home, fd;

	context->netlink_count = 0;
	fd = open_here(announcements, &diag);
	if (fd >= 0)
		context->netlink_fds[context->netlink_count++] = fd;
	else
		netlink_complain("own", &diag);
	if (generation->netns_count == 0)
		return true;
	home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (home < 0) {
		diag_set(&diag, errno, "cannot open /proc/self/ns/net");
		netlink_complain("own", &diag);
		return true;
	}
	for (i = 0; i < generation->netns_count; i++) {
		const char *name = generation_text(generation, generation->netns[i]);

		context->netns[i] = namespace_file(name);
		if (open_namespace(name, &diag) != 0) {
			netlink_complain(name, &diag);
			continue;
		}
		fd = open_here(announcements, &diag);
		if (fd >= 0)
			context->netlink_fds[context->netlink_count++] = fd;
		else
			netlink_complain(name, &diag);
		if (setns(home, CLONE_NEWNET) != 0) {
			diag_set(&diag, errno, "cannot return to the own network namespace");
			netlink_complain(name, &diag);
			close(home);
			return false;
		}
	}
	close(home);
	return true;
}
