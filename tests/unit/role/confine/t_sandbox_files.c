/* SPDX-License-Identifier: ISC */
/* What files and ports Landlock leaves to a role, whatever its other restrictions are: the
 * cluster role reaches Redis's port, and no other one. */
#define TEST_OWN_MAIN
#include "tests/unit/test.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "role/confine/sandbox_files.h"
#include "tests/unit/own_site.h"

#define CLASSES "classes = ( { name = \"all\"; match = \"*\"; hold_at = 9; } );\n"
#define PORTS_VERSION	4	/* from which on Landlock knows ports */

static int listeners[2] = { -1, -1 };	/* Redis, and somebody else */
static struct sockaddr_in places[2];
static char state_file[128], new_file[128];

/* 0, or the errno. */
static int opened(const char *path, int flags) {
	int fd = open(path, flags | O_CLOEXEC, 0600);

	if (fd < 0)
		return errno;
	close(fd);
	return 0;
}

static int connected(unsigned which) {
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int error = connect(fd, (struct sockaddr *)&places[which], sizeof(places[which])) == 0 ?
	    0 : errno;

	close(fd);
	return error;
}

static int bound(void) {
	struct sockaddr_in any = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int error = bind(fd, (struct sockaddr *)&any, sizeof(any)) == 0 ? 0 : errno;

	close(fd);
	return error;
}

static int begin(bool far) {
	char text[400], cluster[64] = "unix:/nowhere";

	for (unsigned i = 0; i < 2; i++) {
		socklen_t length = sizeof(places[i]);

		places[i] = (struct sockaddr_in){ .sin_family = AF_INET,
			.sin_addr = { htonl(INADDR_LOOPBACK) } };
		listeners[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (bind(listeners[i], (struct sockaddr *)&places[i], length) != 0 ||
		    listen(listeners[i], 8) != 0 ||
		    getsockname(listeners[i], (struct sockaddr *)&places[i], &length) != 0)
			return -1;
	}
	if (far)
		snprintf(cluster, sizeof(cluster), "inet:127.0.0.1:%u",
		    (unsigned)ntohs(places[0].sin_port));
	snprintf(text, sizeof(text), "cluster = { redis = \"%s\"; node = \"a\"; nodes = 2; };\n"
	    CLASSES, cluster);
	site_open(&site, 64, text);
	snprintf(state_file, sizeof(state_file), "%s/state", site.directory);
	snprintf(new_file, sizeof(new_file), "%s/new", site.directory);
	return 0;
}

static int begin_far(void **state) {
	return begin(true);
}

static int begin_near(void **state) {
	return begin(false);
}

static int end(void **state) {
	for (unsigned i = 0; i < 2; i++)
		close(listeners[i]);
	site_close(&site);
	return 0;
}

/* In a process that becomes this role: the first thing that is not as wanted, or 0. */
static int wrong_of(enum role_kind kind, int redis, int other) {
	bool knows_ports = syscall(444 /* landlock_create_ruleset */, NULL, 0, 1) >= PORTS_VERSION;
	bool keeps = kind == ROLE_KEEPER;
	struct diag diag;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
	    sandbox_files_restrict(site.generation, kind, &diag) != 0)
		return 1;
	if (opened("/etc/passwd", O_RDONLY) != EACCES || opened("/tmp", O_RDONLY) != EACCES)
		return 2;
	if (opened(state_file, O_RDONLY) != 0)
		return 3;
	if (opened(state_file, O_RDWR) != (keeps ? 0 : EACCES) ||
	    opened(new_file, O_WRONLY | O_CREAT) != (keeps ? 0 : EACCES))
		return 4;
	if (!knows_ports)
		return 0;
	return connected(0) != redis ? 5 : connected(1) != other ? 6 : bound() != EACCES ? 7 : 0;
}

static void becomes(enum role_kind kind, int redis, int other) {
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (child == 0)
		_exit(wrong_of(kind, redis, other));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

TEST_IN(begin_far, end, all_is_there_without_it) {
	assert_int_equal(opened("/etc/passwd", O_RDONLY), 0);
	assert_int_equal(connected(0), 0);
	assert_int_equal(connected(1), 0);
	assert_int_equal(bound(), 0);
}

TEST_IN(begin_far, end, the_cluster_role_reaches_redis_alone) {
	becomes(ROLE_CLUSTER, 0, EACCES);
	becomes(ROLE_POLICY, EACCES, EACCES);
	becomes(ROLE_METRICS, EACCES, EACCES);
	becomes(ROLE_KEEPER, EACCES, EACCES);
}

TEST_IN(begin_near, end, a_redis_of_this_host_needs_no_port) {
	becomes(ROLE_CLUSTER, EACCES, EACCES);
}

int main(void) {
	if (!sandbox_files_can()) {
		puts("skipped: the kernel has no Landlock");
		return 77;
	}
	return test_run();
}
