/* SPDX-License-Identifier: ISC */
/* What the daemon listens on, where an earlier one's sockets are. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/datagram.h"
#include "role/sockets.h"
#include "tests/unit/site.h"

static struct site site;
static struct sockets sockets;
static struct diag diag;

static int begin(void **state)
{
	(void)state;
	site_open(&site, 64, "classes = ();");
	return 0;
}

static int end(void **state)
{
	(void)state;
	sockets_remove(&sockets);
	site_close(&site);
	return 0;
}

static int open_all(void)
{
	const struct identity identity = { .uid = geteuid(), .gid = getegid() };

	return sockets_open(&sockets, site.generation, &identity, &diag);
}

/* On the control socket's path, as an earlier daemon. */
static int listen_there(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/c", site.directory);
	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 5), 0);
	return fd;
}

static void a_dead_socket_goes(void **state)
{
	(void)state;
	close(listen_there());
	assert_int_equal(open_all(), 0);
}

/* It was killed, and lets go of its socket after somebody has asked. */
static void a_process_that_is_about_to_end_is_waited_for(void **state)
{
	int fd = listen_there(), status;
	pid_t pid = fork();

	(void)state;
	if (pid == 0) {
		(void)accept(fd, NULL, NULL);
		_exit(0);
	}
	assert_true(pid > 0);
	close(fd);
	assert_int_equal(open_all(), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
}

static void a_socket_of_somebody_else_is_not_taken(void **state)
{
	int fd = listen_there();

	(void)state;
	assert_int_equal(open_all(), -1);
	assert_non_null(strstr(diag.text, "another process listens there"));
	close(fd);
	assert_int_equal(open_all(), 0);
}

/* A socket that lingers, in a connection that nobody accepted, held up who closed it last. */
static void a_client_attaches_no_descriptor(void **state)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	(void)state;
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_dead_socket_goes, begin, end),
		cmocka_unit_test_setup_teardown(a_process_that_is_about_to_end_is_waited_for,
		    begin, end),
		cmocka_unit_test_setup_teardown(a_socket_of_somebody_else_is_not_taken, begin,
		    end),
		cmocka_unit_test_setup_teardown(a_client_attaches_no_descriptor, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
