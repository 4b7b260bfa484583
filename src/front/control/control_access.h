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

/* Of the peer of a connected socket, whose user goes to *uid (-1: not known). */
enum control_permission control_permission_of(int fd, const struct control_access *access,
    uid_t *uid);

/* Why somebody who is not `needed` is refused. */
const char *control_refusal(const struct control_access *access,
    enum control_permission needed, char *out, size_t size);

#endif
