/* SPDX-License-Identifier: ISC */
/*
 * The sockets that the daemon listens on.  The supervisor opens them once and
 * keeps them for its whole life: while a role is away its clients wait in the
 * backlog.
 */
#ifndef ROLE_SOCKETS_H
#define ROLE_SOCKETS_H

#include <sys/types.h>
#include <sys/un.h>

#include "base/diag.h"
#include "config/generation/generation.h"
#include "front/control/control_access.h"
#include "role/confine/privileges.h"

struct listen_socket {
	int fd;			/* -1: of a kind that no role serves */
	/* Unix sockets: the path, and which file it was when we made it. */
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	dev_t device;
	ino_t inode;
	struct control_access access;	/* control, queue: who may ask */
};

struct sockets {
	unsigned count;		/* as many as listeners, with the same numbers */
	struct listen_socket list[GENERATION_LISTENERS_MAX];
};

/* Opens every listener of the generation that a role serves: listening,
 * non-blocking, close-on-exec.  A unix socket whose owner is not configured
 * belongs to who we are, root, and to the group of `identity`; one of policy or milter to
 * the group of the mail server.  The path of a socket on which somebody still listens,
 * or of something else, is never taken.  -1 with *diag naming the listener;
 * then nothing stays open. */
int sockets_open(struct sockets *sockets, const struct generation *generation,
    const struct identity *identity, struct diag *diag);

/* The group that may read the state file: read_group of the first control socket that has
 * one, else the identity's.  -1 with *diag: there is no such group. */
int sockets_reader_group(const struct generation *generation, const struct identity *identity,
    gid_t *gid, struct diag *diag);

/* Undoes what a role can do to the sockets, which are one with its siblings' and successors': it
 * makes them non-blocking, disconnects them and has them listen.  What was to be undone is logged. */
void sockets_mend(const struct sockets *sockets, const struct generation *generation);

/* Removes the paths that are still ours.  The sockets end with the process: to close one could
 * take as long as a client wants who sent a lingering socket there (before Linux 6.16). */
void sockets_remove(const struct sockets *sockets);

#endif
