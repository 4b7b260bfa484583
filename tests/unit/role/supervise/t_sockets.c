/* SPDX-License-Identifier: ISC */
/* What the daemon listens on, where an earlier one's sockets are. */
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include "tests/unit/test.h"
#include "base/datagram.h"
#include "base/log.h"
#include "role/supervise/sockets.h"
#include "tests/unit/own_site.h"

static struct sockets sockets;
static struct diag diag;

static int begin(void **state) {
	site_open(&site, 64, "classes = ();");
	return 0;
}

static int end(void **state) {
	sockets_remove(&sockets);
	site_close(&site);
	return 0;
}

static int open_all(void) {
	const struct identity identity = { .uid = geteuid(), .gid = getegid() };

	return sockets_open(&sockets, site.generation, &identity, &diag);
}

/* On the control socket's path, as an earlier daemon. */
static int listen_there(void) {
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/c", site.directory);
	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 5), 0);
	return fd;
}

TEST_IN(begin, end, a_dead_socket_goes) {
	close(listen_there());
	assert_int_equal(open_all(), 0);
}

/* It was killed, and lets go of its socket after somebody has asked. */
TEST_IN(begin, end, a_process_that_is_about_to_end_is_waited_for) {
	int fd = listen_there(), status;
	pid_t pid = fork();

	if (pid == 0) {
		(void)accept(fd, NULL, NULL);
		_exit(0);
	}
	assert_true(pid > 0);
	close(fd);
	assert_int_equal(open_all(), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
}

TEST_IN(begin, end, a_socket_of_somebody_else_is_not_taken) {
	int fd = listen_there();

	assert_int_equal(open_all(), -1);
	assert_non_null(strstr(diag.text, "another process listens there"));
	close(fd);
	assert_int_equal(open_all(), 0);
}

/* A socket that lingers, in a connection that nobody accepted, held up who closed it last. */
TEST_IN(begin, end, a_client_attaches_no_descriptor) {
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	assert_int_equal(open_all(), 0);
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/c", site.directory);
	assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	assert_true(datagram_send(fd, "none", 4, -1));
	if (datagram_send(fd, "with", 4, STDIN_FILENO)) {
		close(fd);
		print_message("this kernel cannot refuse descriptors\n");
		skip();
	}
	assert_int_equal(errno, EPERM);
	close(fd);
}

/* --- what a role did to them ------------------------------------------------------ */

static struct generation generation;	/* of one listener, without texts */
static struct sockets one;
static struct sockaddr_storage place;
static socklen_t place_length;
static char said[512];

static void hear(void *context, const char *line) {
	(void)snprintf(said, sizeof(said), "%s", line);
}

/* Bound to `place`: a port of this host, or (AF_UNIX) a name that is no file. */
static int bound(int family, int type) {
	const struct sockaddr_in host = { .sin_family = AF_INET,
		.sin_addr = { htonl(INADDR_LOOPBACK) } };
	int fd = socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	place = (struct sockaddr_storage){ .ss_family = (sa_family_t)family };
	memcpy(&place, &host, family == AF_INET ? sizeof(host) : 0);
	place_length = family == AF_INET ? sizeof(host) : sizeof(sa_family_t);
	assert_int_equal(bind(fd, (const struct sockaddr *)&place, place_length), 0);
	place_length = sizeof(place);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&place, &place_length), 0);
	if (family == AF_UNIX)
		return fd;
	/* a port that was not asked for would be lost with the connection */
	close(fd);
	fd = socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (const struct sockaddr *)&place, place_length), 0);
	return fd;
}

static int listener(uint8_t kind, int family, int type) {
	int fd = bound(family, type);

	generation = (struct generation){ .listener_count = 1,
		.listeners = { { .kind = kind } } };
	one = (struct sockets){ .count = 1, .list = { { .fd = fd } } };
	said[0] = '\0';
	log_redirect(hear, NULL);
	if (type == SOCK_STREAM)
		assert_int_equal(listen(fd, 5), 0);
	return fd;
}

static void disconnect(int fd) {
	const struct sockaddr nobody = { .sa_family = AF_UNSPEC };

	assert_int_equal(connect(fd, &nobody, sizeof(nobody)), 0);
}

/* Whoever finds nothing to mend says nothing. */
static void mend_and_end(int fd) {
	said[0] = '\0';
	sockets_mend(&one, &generation);
	assert_string_equal(said, "");
	log_redirect(NULL, NULL);
	close(fd);
}

static bool accepts(int fd) {
	int client = socket(place.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0), got = -1;

	if (connect(client, (const struct sockaddr *)&place, place_length) == 0)
		got = accept(fd, NULL, NULL);
	close(client);
	if (got >= 0)
		close(got);
	return got >= 0;
}

TEST(a_listener_that_a_role_disconnected_accepts_again) {
	int fd = listener(LISTENER_POLICY, AF_INET, SOCK_STREAM);

	assert_true(accepts(fd));
	disconnect(fd);
	assert_false(accepts(fd));
	sockets_mend(&one, &generation);
	assert_non_null(strstr(said, "event=repaired"));
	assert_non_null(strstr(said, "did not listen"));
	assert_true(accepts(fd));
	mend_and_end(fd);
}

TEST(a_listener_that_a_role_connected_accepts_again) {
	int other = listener(LISTENER_POLICY, AF_INET, SOCK_STREAM), fd;
	struct sockaddr_storage there = place;

	fd = listener(LISTENER_POLICY, AF_INET, SOCK_STREAM);
	disconnect(fd);
	(void)connect(fd, (const struct sockaddr *)&there, place_length);
	sockets_mend(&one, &generation);
	assert_true(accepts(fd));
	close(other);
	mend_and_end(fd);
}

TEST(a_listener_that_a_role_had_wait_waits_no_more) {
	int fd = listener(LISTENER_POLICY, AF_UNIX, SOCK_STREAM);

	assert_int_equal(fcntl(fd, F_SETFL, 0), 0);
	sockets_mend(&one, &generation);
	assert_non_null(strstr(said, "was in blocking mode"));
	assert_int_equal(accept(fd, NULL, NULL), -1);
	assert_int_equal(errno, EAGAIN);
	mend_and_end(fd);
}

/* A milter may listen, and so leave room for one that waits. */
TEST(a_backlog_that_a_role_cut_is_as_long_as_before) {
	int fd = listener(LISTENER_MILTER, AF_UNIX, SOCK_STREAM), clients[8];

	assert_int_equal(listen(fd, 0), 0);
	sockets_mend(&one, &generation);
	for (unsigned i = 0; i < 8; i++) {
		clients[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		assert_int_equal(connect(clients[i], (const struct sockaddr *)&place,
		    place_length), 0);
	}
	for (unsigned i = 0; i < 8; i++)
		close(clients[i]);
	mend_and_end(fd);
}

static bool hears_everybody(int fd) {
	int sender = socket(place.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	char byte;

	(void)sendto(sender, "x", 1, 0, (const struct sockaddr *)&place, place_length);
	close(sender);
	return recv(fd, &byte, 1, 0) == 1;
}

static void check_deafened(int family) {
	int peer = listener(LISTENER_SYSLOG, family, SOCK_DGRAM), fd;
	struct sockaddr_storage there = place;
	socklen_t there_length = place_length;

	fd = listener(LISTENER_SYSLOG, family, SOCK_DGRAM);
	assert_true(hears_everybody(fd));
	assert_int_equal(connect(fd, (const struct sockaddr *)&there, there_length), 0);
	assert_false(hears_everybody(fd));
	sockets_mend(&one, &generation);
	assert_non_null(strstr(said, "accepted one sender only"));
	assert_true(hears_everybody(fd));
	close(peer);
	mend_and_end(fd);
}

TEST(a_datagram_socket_that_a_role_connected_hears_others_again) {
	check_deafened(AF_INET);
	check_deafened(AF_UNIX);
}

/* It has no peer by name. */
TEST(a_datagram_socket_that_is_connected_to_port_0_hears_others_again) {
	const struct sockaddr_in nowhere = { .sin_family = AF_INET,
		.sin_addr = { htonl(INADDR_LOOPBACK + 1) } };
	int fd = listener(LISTENER_SYSLOG, AF_INET, SOCK_DGRAM);

	assert_int_equal(connect(fd, (const struct sockaddr *)&nowhere, sizeof(nowhere)), 0);
	assert_false(hears_everybody(fd));
	sockets_mend(&one, &generation);
	assert_true(hears_everybody(fd));
	mend_and_end(fd);
}
