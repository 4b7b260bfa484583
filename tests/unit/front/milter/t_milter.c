/* SPDX-License-Identifier: ISC */
/* The milter front end behind libmilter's own reader, over real sockets. */
#include "tests/unit/test.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/thread.h"
#include "front/milter/milter.h"
#include "front/milter/milter_gate.h"
#include "tests/unit/own_site.h"

static struct sockaddr_un place;

static void *run(void *context) {
	struct diag diag;

	(void)milter_front_run(site.engine, *(int *)context, site.milter_listener, false, &diag);
	return NULL;
}

/* Once a program: libmilter cannot be ended. */
static int set_up(void **state) {
	static int fd;
	socklen_t length = sizeof(place);
	struct diag diag;

	(void)site_begin(state);
	place.sun_family = AF_UNIX;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&place, sizeof(sa_family_t)), 0);
	assert_int_equal(listen(fd, 16), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&place, &length), 0);
	return thread_start(run, &fd, &diag);
}

static int client(void) {
	static const char negotiate[] = "\0\0\0\rO\0\0\0\6\0\0\1\377\0\37\377\377";
	const struct timeval limit = { .tv_sec = 20 };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&place,
	    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 6)), 0);
	assert_int_equal(send(fd, negotiate, sizeof(negotiate) - 1, MSG_NOSIGNAL),
	    sizeof(negotiate) - 1);
	return fd;
}

static void is_answered(int fd) {
	unsigned char head[5];
	char rest[4096];

	assert_int_equal(recv(fd, head, sizeof(head), MSG_WAITALL), sizeof(head));
	assert_int_equal(recv(fd, rest, (size_t)(head[2] << 8 | head[3]) - 1, MSG_WAITALL),
	    (head[2] << 8 | head[3]) - 1);
}

static void ends(int fd) {
	char byte;

	assert_int_equal(shutdown(fd, SHUT_WR), 0);
	while (recv(fd, &byte, 1, 0) > 0)
		;
	close(fd);
}

/* It is over, and goes on: no end of the connection. */
TEST_IN(set_up, NULL, a_client_that_ends_more_than_once_shuts_nobody_out) {
	int fd = client();

	is_answered(fd);
	for (int i = 0; i < 3; i++)
		assert_int_equal(send(fd, "\0\0\0\1K", 5, MSG_NOSIGNAL), 5);
	ends(fd);
	fd = client();
	is_answered(fd);
	assert_false(milter_gate_is_empty());
	ends(fd);
}
