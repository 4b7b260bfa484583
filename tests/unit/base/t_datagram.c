/* SPDX-License-Identifier: ISC */
/* Datagrams, with a descriptor and without; an end that takes no descriptors. */
#include <sys/socket.h>

#include "tests/unit/test.h"
#include "base/datagram.h"

static int ends[2];

static int connected(void **state) {
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends);
}

static int closed(void **state) {
	close(ends[0]);
	close(ends[1]);
	return 0;
}

static void receives(const char *text, int *fd) {
	char data[32];

	assert_int_equal(datagram_receive(ends[0], data, sizeof(data), fd), strlen(text));
	assert_memory_equal(data, text, strlen(text));
}

TEST_IN(connected, closed, a_descriptor_comes_along) {
	int fd;

	assert_true(datagram_send(ends[1], "with", 4, STDIN_FILENO));
	assert_true(datagram_send(ends[1], "none", 4, -1));
	receives("with", &fd);
	assert_true(fd > STDERR_FILENO);
	close(fd);
	receives("none", &fd);
	assert_int_equal(fd, -1);
}

TEST_IN(connected, closed, a_descriptor_is_refused) {
	int fd;

	datagram_refuse_descriptors(ends[0]);
	if (datagram_send(ends[1], "with", 4, STDIN_FILENO)) {
		print_message("this kernel cannot refuse descriptors\n");
		skip();
	}
	assert_int_equal(errno, EPERM);
	assert_true(datagram_send(ends[1], "none", 4, -1));
	receives("none", &fd);
	/* the other way is as it was */
	assert_true(datagram_send(ends[0], "back", 4, STDIN_FILENO));
}
