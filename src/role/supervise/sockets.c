/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Open what the roles listen on, with owners and modes.
 * MODEL    A unix socket gets its final mode from its descriptor when it is
 *          bound, and its owner through a descriptor of the new file, so that
 *          the owner of the directory cannot make root change another file.
 *          Nobody can connect before both are right, as listen comes last.
 *          Who listens is asked again for a while: a process of an earlier daemon that
 *          was killed lets go of its lock before it does of its sockets.
 * ERRORS   Any listener that cannot be opened stops the start; but a socket for
 *          a mail server whose directory is not there is left out and said so:
 *          that mail server is not installed here.  So is one for metrics that cannot
 *          be opened at all.
 * THREADS  One.
 */
#include "role/supervise/sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <pwd.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/datagram.h"
#include "base/log.h"
#include "base/text.h"
#include "base/trusted_path.h"
#include "config/read/listen_address.h"

#define BACKLOG 4096		/* the kernel cuts it to net.core.somaxconn */
#define DATAGRAM_ROOM (8 << 20)
#define TAKEN_TRIES 50
#define TAKEN_WAIT_NS (20 * NS_PER_MS)

/* Datagrams, or connections. */
static int type_of(uint8_t kind) {
	return kind == LISTENER_SYSLOG ? SOCK_DGRAM : SOCK_STREAM;
}

/* 0: somebody listens there, to the last; else the error of who tries it, or -1 and errno:
 * it could not be tried. */
static int try_path(const struct listen_address *address, int type) {
	int fd, error = 0;

	for (unsigned i = 0; i < TAKEN_TRIES; i++) {
		fd = socket(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		if (fd < 0)
			return -1;
		error = connect(fd, (const struct sockaddr *)&address->socket_address,
		    address->length) == 0 ? 0 : errno;
		close(fd);
		if (error != 0 && error != EAGAIN)
			break;
		clock_pause(TAKEN_WAIT_NS);
	}
	return error;
}

/* Makes room at a path: 0 when there is nothing, or only a dead socket, which
 * goes. */
static int clear_path(const struct listen_address *address, int type,
    struct diag *diag) {
	struct stat status;
	int error;

	if (lstat(address->path, &status) != 0)
		return errno == ENOENT ? 0 :
		    diag_set(diag, errno, "cannot examine the path");
	if (!S_ISSOCK(status.st_mode))
		return diag_set(diag, 0, "the path exists but is not a socket, and belongs to "
		    "user %u; remove it", status.st_uid);
	error = try_path(address, type);
	if (error < 0)
		return diag_set(diag, errno, "cannot create a socket");
	if (error != ECONNREFUSED && error != ENOENT)
		return diag_set(diag, error == EAGAIN ? 0 : error,
		    "another process listens there");
	if (unlink(address->path) != 0 && errno != ENOENT)
		return diag_set(diag, errno, "cannot remove the unused socket");
	return 0;
}

/* Looks at the directory of a unix socket.  False with errno. */
static bool look_at_directory(const struct listen_address *address,
    struct stat *status) {
	char directory[sizeof(address->path)];

	text_copy(directory, sizeof(directory), address->path,
	    (size_t)(strrchr(address->path, '/') - address->path));
	return stat(directory[0] == '\0' ? "/" : directory, status) == 0;
}

/*
 * The group of a socket whose clients open and end sessions: the mail server's, as nobody else
 * may.  In a directory of the mail server's own, as Postfix's private is, it is that of its
 * owner; elsewhere Postfix's where there is one.  Sendmail connects as root.
 */
static gid_t mail_server_group(const struct listen_address *address,
    const struct identity *identity) {
	const struct passwd *owner;
	const struct group *postfix;
	struct stat status;

	if (address->socket_address.ss_family == AF_UNIX &&
	    look_at_directory(address, &status) && status.st_uid != 0 &&
	    status.st_uid != identity->uid && (owner = getpwuid(status.st_uid)) != NULL)
		return owner->pw_gid;
	postfix = getgrnam("postfix");
	return postfix != NULL ? postfix->gr_gid : identity->gid;
}

static int find_owner(const struct generation *generation,
    const struct generation_listener *listener, const struct listen_address *address,
    const struct identity *identity, uid_t *uid, gid_t *gid, struct diag *diag) {
	const char *owner = generation_text(generation, listener->owner);
	const char *group = generation_text(generation, listener->group);

	/* root's, where we are: a role can neither replace it nor change its mode */
	*uid = geteuid();
	*gid = identity->gid;
	if (owner[0] != '\0' && identity_user(owner, uid, diag) != 0)
		return -1;
	if (group[0] != '\0')
		return identity_group(group, gid, diag);
	if (identity->drop &&
	    (listener->kind == LISTENER_POLICY || listener->kind == LISTENER_MILTER ||
	    listener->kind == LISTENER_MILTER_ACCOUNTS))
		*gid = mail_server_group(address, identity);
	return 0;
}

static int find_group(const char *name, bool *has, gid_t *gid,
    char copy[CONTROL_GROUP_MAX + 1], struct diag *diag) {
	*has = name[0] != '\0';
	if (!*has)
		return 0;
	if (!text_copy(copy, CONTROL_GROUP_MAX + 1, name, strlen(name)))
		return diag_set(diag, 0, "the name of the group %s is too long", name);
	return identity_group(name, gid, diag);
}

static int find_access(const struct generation *generation,
    const struct generation_listener *listener, struct control_access *access,
    struct diag *diag) {
	*access = (struct control_access){ .own_user_acts = geteuid() != 0 };
	return find_group(generation_text(generation, listener->read_group),
	    &access->has_readers, &access->readers, access->reader_group, diag) != 0 ||
	    find_group(generation_text(generation, listener->write_group),
	    &access->has_writers, &access->writers, access->writer_group, diag) != 0 ? -1 : 0;
}

int sockets_reader_group(const struct generation *generation, const struct identity *identity,
    gid_t *gid, struct diag *diag) {
	struct control_access access;
	struct diag inner;

	*gid = identity->gid;
	for (uint32_t i = 0; i < generation->listener_count; i++) {
		if (generation->listeners[i].kind != LISTENER_CONTROL)
			continue;
		if (find_access(generation, &generation->listeners[i], &access, &inner) != 0)
			return diag_set(diag, 0, "%s:%u: listen.control: %s",
			    generation_text(generation, generation->file),
			    generation->listeners[i].line, inner.text);
		if (!access.has_readers)
			continue;
		*gid = access.readers;
		break;
	}
	return 0;
}

/* Gives the fresh socket file to its owner, and remembers which file it is. */
static int own_path(struct listen_socket *out, uid_t uid, gid_t gid,
    struct diag *diag) {
	struct stat status;
	int fd = open(out->path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	int result = 0;

	if (fd < 0)
		return diag_set(diag, errno, "cannot find the new socket");
	if (!trusted_path_is_only_name(fd, AT_FDCWD, out->path, &status) ||
	    !S_ISSOCK(status.st_mode))
		result = diag_set(diag, 0, "the new socket was replaced");
	else if ((status.st_uid != uid || status.st_gid != gid) &&
	    fchownat(fd, "", uid, gid, AT_EMPTY_PATH) != 0)
		result = diag_set(diag, errno, "cannot set its owner");
	out->device = status.st_dev;
	out->inode = status.st_ino;
	close(fd);
	return result;
}

static int bind_unix(struct listen_socket *out, const struct listen_address *address,
    int type, mode_t mode, uid_t uid, gid_t gid, struct diag *diag) {
	mode_t old_mask;
	int error;

	if (clear_path(address, type, diag) != 0)
		return -1;
	if (fchmod(out->fd, mode) != 0)
		return diag_set(diag, errno, "cannot set its mode");
	old_mask = umask(0);
	error = bind(out->fd, (const struct sockaddr *)&address->socket_address,
	    address->length) == 0 ? 0 : errno;
	umask(old_mask);
	if (error != 0)
		return diag_set(diag, error, "cannot bind");
	text_copy(out->path, sizeof(out->path), address->path,
	    strlen(address->path));
	return own_path(out, uid, gid, diag);
}

static int bind_inet(struct listen_socket *out, const struct listen_address *address,
    int type, struct diag *diag) {
	static const int on = 1;

	/* of datagram sockets it would let others share the address */
	if (type == SOCK_STREAM &&
	    setsockopt(out->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0)
		return diag_set(diag, errno, "cannot set SO_REUSEADDR");
	if (address->socket_address.ss_family == AF_INET6 &&
	    setsockopt(out->fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) != 0)
		return diag_set(diag, errno, "cannot set IPV6_V6ONLY");
	for (unsigned i = 0; bind(out->fd,
	    (const struct sockaddr *)&address->socket_address, address->length) != 0; i++) {
		if (errno != EADDRINUSE || i == TAKEN_TRIES)
			return diag_set(diag, errno, "cannot bind");
		clock_pause(TAKEN_WAIT_NS);
	}
	return 0;
}

/* Datagrams wait here while their role is away; what does not fit is lost, or makes
 * its sender wait. */
static void make_room(int fd) {
	static const int bytes = DATAGRAM_ROOM;

	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) != 0)
		(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
}

static int open_one(struct listen_socket *out, const struct generation *generation,
    const struct generation_listener *listener, const struct identity *identity,
    struct diag *diag) {
	struct listen_address address;
	const char *why;
	uid_t uid;
	gid_t gid;
	int result, type = type_of(listener->kind);

	if (!listen_address_parse(generation_text(generation, listener->address),
		&address, &why))
		return diag_set(diag, 0, "%s", why);
	if (find_owner(generation, listener, &address, identity, &uid, &gid, diag) != 0 ||
	    find_access(generation, listener, &out->access, diag) != 0)
		return -1;
	out->fd = socket(address.socket_address.ss_family,
	    type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (out->fd < 0)
		return diag_set(diag, errno, "cannot create a socket");
	if (address.socket_address.ss_family == AF_UNIX) {
		/* a client's socket that lingers would hold up who closes it last; connections
		 * inherit this */
		datagram_refuse_descriptors(out->fd);
		result = bind_unix(out, &address, type, listener->mode, uid,
		    gid, diag);
	} else {
		result = bind_inet(out, &address, type, diag);
	}
	if (type == SOCK_DGRAM)
		make_room(out->fd);
	else if (result == 0 && listen(out->fd, BACKLOG) != 0)
		result = diag_set(diag, errno, "cannot listen");
	return result;
}

/* Is it a question socket of a mail server that this machine does not have? */
static bool has_no_place(const struct generation *generation,
    const struct generation_listener *listener) {
	struct listen_address address;
	struct stat status;
	const char *why;

	return listener->kind != LISTENER_CONTROL &&
	    listen_address_parse(generation_text(generation, listener->address),
		&address, &why) &&
	    address.socket_address.ss_family == AF_UNIX &&
	    !look_at_directory(&address, &status) && errno == ENOENT;
}

static void say_left_out(const struct generation *generation,
    const struct generation_listener *listener, const char *why) {
	char text[sizeof(((struct diag *)0)->text)];

	log_event(EVENT_SYSTEM, "text=\"%s:%u: listener %s is disabled until a restart: %s\"",
	    generation_text(generation, generation->file), listener->line,
	    generation_text(generation, listener->address),
	    log_sentence(text, sizeof(text), why));
}

/*
 * Is it for Postfix in its usual place, and there is none?  The shipped configuration is for
 * machines with Postfix and for those with Sendmail: nothing is amiss.
 */
static bool is_for_no_postfix(const struct generation *generation,
    const struct generation_listener *listener) {
	static const char queue[] = "/var/spool/postfix";
	const char *text = generation_text(generation, listener->address);
	struct stat status;

	if (strncmp(text, "unix:", 5) == 0)
		text += 5;
	return strncmp(text, queue, sizeof(queue) - 1) == 0 &&
	    text[sizeof(queue) - 1] == '/' &&
	    lstat(queue, &status) != 0 && errno == ENOENT;
}

static void unlink_one(const struct listen_socket *socket) {
	struct stat status;

	if (socket->path[0] != '\0' && lstat(socket->path, &status) == 0 &&
	    status.st_dev == socket->device && status.st_ino == socket->inode)
		unlink(socket->path);
}

static void close_one(struct listen_socket *socket) {
	unlink_one(socket);
	if (socket->fd >= 0)
		close(socket->fd);
	*socket = (struct listen_socket){ .fd = -1 };
}

int sockets_open(struct sockets *sockets, const struct generation *generation,
    const struct identity *identity, struct diag *diag) {
	struct diag inner;
	unsigned i;

	*sockets = (struct sockets){ .count = generation->listener_count };
	for (i = 0; i < sockets->count; i++)
		sockets->list[i].fd = -1;
	for (i = 0; i < sockets->count; i++) {
		const struct generation_listener *listener =
		    &generation->listeners[i];

		if (has_no_place(generation, listener)) {
			if (!is_for_no_postfix(generation, listener))
				say_left_out(generation, listener,
				    "its directory does not exist");
			continue;
		}
		if (open_one(&sockets->list[i], generation, listener, identity,
			&inner) == 0)
			continue;
		/* nobody's mail depends on it */
		if (listener->kind == LISTENER_METRICS) {
			close_one(&sockets->list[i]);
			say_left_out(generation, listener, inner.text);
			continue;
		}
		for (i = 0; i < sockets->count; i++)
			close_one(&sockets->list[i]);
		diag_set(diag, 0, "%s:%u: listener %s: %s",
		    generation_text(generation, generation->file), listener->line,
		    generation_text(generation, listener->address), inner.text);
		diag->error = inner.error;
		return -1;
	}
	return 0;
}

/* False: a role had connected it, and nobody but its peer was heard.  Each is disconnected, as
 * one that is connected to port 0 names no peer. */
static bool mend_datagrams(int fd) {
	static const struct sockaddr nobody = { .sa_family = AF_UNSPEC };
	struct sockaddr_storage peer;
	socklen_t length = sizeof(peer);
	bool is_connected = getpeername(fd, (struct sockaddr *)&peer, &length) == 0;

	(void)connect(fd, &nobody, sizeof(nobody));
	return !is_connected;
}

/* False: a role had disconnected it, so that it listened no more, and perhaps connected it then;
 * errno is 0, or why it does not listen now.  The backlog is set at any rate. */
static bool mend_listening(int fd) {
	static const struct sockaddr nobody = { .sa_family = AF_UNSPEC };
	int listens = 0;
	socklen_t length = sizeof(listens);

	(void)getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length);
	if (!listens)
		(void)connect(fd, &nobody, sizeof(nobody));
	errno = 0;
	return listen(fd, BACKLOG) == 0 && listens;
}

static void say_mended(const struct generation *generation,
    const struct generation_listener *listener, const char *what) {
	log_event(EVENT_REPAIRED, "text=\"%s:%u: repaired listener %s: it %s; a worker must "
	    "have changed it\"",
	    generation_text(generation, generation->file), listener->line,
	    generation_text(generation, listener->address), what);
}

void sockets_mend(const struct sockets *sockets, const struct generation *generation) {
	for (unsigned i = 0; i < sockets->count; i++) {
		const struct generation_listener *listener = &generation->listeners[i];
		int fd = sockets->list[i].fd;

		if (fd < 0)
			continue;
		if ((fcntl(fd, F_GETFL) & O_NONBLOCK) == 0 &&
		    fcntl(fd, F_SETFL, O_NONBLOCK) == 0)
			say_mended(generation, listener, "was in blocking mode");
		if (type_of(listener->kind) == SOCK_DGRAM) {
			if (!mend_datagrams(fd))
				say_mended(generation, listener, "accepted one sender only");
		} else if (!mend_listening(fd)) {
			say_mended(generation, listener, errno == 0 ? "did not listen" :
			    "does not listen and cannot be repaired");
		}
	}
}

void sockets_remove(const struct sockets *sockets) {
	for (unsigned i = 0; i < sockets->count; i++)
		unlink_one(&sockets->list[i]);
}
