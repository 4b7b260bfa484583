/* SPDX-License-Identifier: ISC */
/* The kernel noted user and groups of the peer when it connected: its own groups of then,
 * not what the password file says now.  ERRORS: who is not known is a stranger's equal. */
#include "front/control/control_access.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"

#ifndef SO_PEERGROUPS
#define SO_PEERGROUPS 59
#endif

#define GROUPS_USUAL	64
#define COMMAND_LOGGED	64

static bool groups_contain(const gid_t *groups, size_t count, gid_t group) {
	for (size_t i = 0; i < count; i++)
		if (groups[i] == group)
			return true;
	return false;
}

/* Its supplementary groups; there may be thousands. */
static bool is_among_peer_groups(int fd, gid_t group) {
	gid_t usual[GROUPS_USUAL], *all;
	socklen_t length = sizeof(usual);
	bool found;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, usual, &length) == 0)
		return groups_contain(usual, length / sizeof(gid_t), group);
	if (errno != ERANGE)
		return false;
	all = malloc(length);
	found = all != NULL && getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, all, &length) == 0 &&
	    groups_contain(all, length / sizeof(gid_t), group);
	free(all);
	return found;
}

static bool is_member(int fd, const struct ucred *peer, bool configured, gid_t group) {
	return configured && (peer->gid == group || is_among_peer_groups(fd, group));
}

/* A compromised role may try: whatever group our user is in, it does not act by that. */
static bool is_role(const struct ucred *peer) {
	return peer->uid == geteuid();
}

static enum control_permission permission_of(int fd, const struct ucred *peer,
    const struct control_access *access) {
	if (peer->uid == 0 || (is_role(peer) ? access->own_user_acts :
	    is_member(fd, peer, access->has_writers, access->writers)))
		return CONTROL_OPERATOR;
	return !access->has_readers ||
	    is_member(fd, peer, access->has_readers, access->readers) ?
	    CONTROL_READER : CONTROL_STRANGER;
}

struct control_peer control_peer_of(int fd, const struct control_access *access) {
	struct ucred peer;
	socklen_t length = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 ||
	    length != sizeof(peer) || peer.pid <= 0)
		return (struct control_peer){ access, access->has_readers ?
		    CONTROL_STRANGER : CONTROL_READER, (uid_t)-1 };
	return (struct control_peer){ access, permission_of(fd, &peer, access), peer.uid };
}

static void log_forbidden(const struct control_peer *peer, const char *command) {
	char quoted[COMMAND_LOGGED];

	log_event(EVENT_FORBIDDEN, "from=control uid=%ld command=%s action=refuse",
	    (long)(int32_t)peer->uid, log_quote(quoted, sizeof(quoted), command,
	    strlen(command)));
}

const char *control_refusal(const struct control_peer *peer, const char *command,
    enum control_permission needed, char *out, size_t size) {
	const struct control_access *access = peer->access;
	bool readers = needed == CONTROL_READER && access->has_readers;
	unsigned more = (unsigned)access->own_user_acts + readers + access->has_writers;
	size_t length = text_append(out, size, 0, "only root");

	if (access->own_user_acts)
		length = text_append(out, size, length, "%s the daemon's own user",
		    --more == 0 ? " and" : ",");
	if (readers)
		length = text_append(out, size, length, "%s group %s (read_group)",
		    --more == 0 ? " and" : ",", access->reader_group);
	if (access->has_writers)
		length = text_append(out, size, length, " and group %s (write_group)",
		    access->writer_group);
	(void)text_append(out, size, length, " may run this command");
	log_forbidden(peer, command);
	return out;
}
