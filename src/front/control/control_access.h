/* SPDX-License-Identifier: ISC */
/* Who may ask on a control socket, by what the kernel says of the peer. */
#ifndef FRONT_CONTROL_ACCESS_H
#define FRONT_CONTROL_ACCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define CONTROL_GROUP_MAX	32

/* read_group and write_group of a listener.  All zero: everybody whom the permissions of the
 * socket let in reads, root alone writes. */
struct control_access {
	bool has_readers, has_writers;
	bool own_user_acts;	/* not started as root: one user is the operator and the roles */
	gid_t readers, writers;
	char reader_group[CONTROL_GROUP_MAX + 1], writer_group[CONTROL_GROUP_MAX + 1];
};

enum control_permission { CONTROL_STRANGER, CONTROL_READER, CONTROL_OPERATOR };

/* Who asks. */
struct control_peer {
	const struct control_access *access;
	enum control_permission permission;
	uid_t uid;		/* -1: not known */
};

/* At the other end of a connected socket. */
struct control_peer control_peer_of(int fd, const struct control_access *access);

/* Logs that it asked for what it may not; why somebody who is not `needed` is refused. */
const char *control_refusal(const struct control_peer *peer, const char *command,
    enum control_permission needed, char *out, size_t size);

#endif
