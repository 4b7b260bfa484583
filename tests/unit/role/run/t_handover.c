/* SPDX-License-Identifier: ISC */
/* What is sent before exec is received after it, and no other descriptor comes along. */
#include <fcntl.h>
#include <sys/wait.h>
#include "tests/unit/test.h"
#include "front/control/control_access.h"
#include "role/cluster/cluster_role.h"
#include "role/run/handover.h"
#include "role/queue/queue_places.h"

static int any_fd(void) {
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static bool survives(int fd) {
	return (fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0;
}

static struct handover empty(enum role_kind kind) {
	struct handover handover = { .supervisor_pid = 4711, .name = "feed.0",
		.state_path = "/run/postern/state", .log_target = LOG_TO_SYSLOG,
		.log_facility = 16,
		.context = { .kind = kind, .role_slot = 3, .hints_group = (gid_t)-1 } };

	for (unsigned i = 0; i < ROLE_FDS; i++)
		handover.context.fds[i] = -1;
	return handover;
}

static struct handover received;

#ifdef WITH_QUEUE
static bool holds(int fd, const void *pointer) {
	static char bytes[1 << 20];
	ssize_t length = pread(fd, bytes, sizeof(bytes), 0);

	assert_in_range(length, sizeof(received), sizeof(bytes) - 1);
	return memmem(bytes, (size_t)length, &pointer, sizeof(pointer)) != NULL;
}

/* Whoever has taken a role over would know where to write in the supervisor's memory. */
TEST(no_address_of_ours_goes_along) {
	static struct queue_places places;
	static const struct control_access access;
	struct handover handover = empty(ROLE_QUEUE);
	struct diag diag;
	int fd;

	places = (struct queue_places){ .count = 1, .notify_fd = any_fd(), .list = {
		{ .mta_name = "sm", .path = "/queue", .fd = any_fd() },
		{ .mta_name = "closed", .path = "closed", .fd = -1 } } };
	handover.context.queue_places = &places;
	handover.context.socket_count = 1;
	handover.context.sockets[0] = (struct role_socket){ .fd = any_fd(), .access = access };
	fd = handover_send(&handover, &diag);
	assert_true(fd >= 0);
	assert_false(holds(fd, &places));
	close(fd);
}
#endif

static void send_and_receive(const struct handover *handover) {
	struct diag diag;
	int fd = handover_send(handover, &diag);

	assert_true(fd >= 0);
	memset(&received, 0xff, sizeof(received));
	assert_int_equal(handover_receive(fd, &received, &diag), 0);
	assert_int_equal(received.supervisor_pid, 4711);
	assert_string_equal(received.name, "feed.0");
	assert_string_equal(received.state_path, "/run/postern/state");
	assert_int_equal(received.context.role_slot, 3);
}

/* In a role it stays until the process ends. */
static void forget(void) {
	struct role_context *context = &received.context;

	for (unsigned i = 0; i < context->log_count; i++) {
		free((void *)(uintptr_t)context->logs[i].log);
		for (unsigned f = 0; f < context->logs[i].count; f++)
			free(context->logs[i].list[f].path);
	}
	free((void *)(uintptr_t)context->queue_places);
}

TEST(logs_and_sockets_arrive) {
	static const struct control_access access = { .has_readers = true, .readers = 7,
		.reader_group = "adm" };
	struct handover handover = empty(ROLE_FEED);
	struct role_context *context = &handover.context;
	int stranger = any_fd();

	context->socket_count = 1;
	context->sockets[0] = (struct role_socket){ .fd = any_fd(), .listener = 5,
		.access = access };
	context->log_count = 1;
	context->logs[0].log = "/var/log/mail.log";
	context->logs[0].count = 2;
	context->logs[0].list[0] = (struct log_file){ .path = (char *)(uintptr_t)
		"/var/log/mail.log.1", .fd = any_fd(), .inode = 12 };
	context->logs[0].list[1] = (struct log_file){ .path = (char *)(uintptr_t)"", .fd = -1 };
	send_and_receive(&handover);
	assert_int_equal(received.context.sockets[0].listener, 5);
	assert_true(received.context.sockets[0].access.has_readers);
	assert_int_equal(received.context.sockets[0].access.readers, 7);
	assert_string_equal(received.context.sockets[0].access.reader_group, "adm");
	assert_string_equal(received.context.logs[0].log, "/var/log/mail.log");
	assert_string_equal(received.context.logs[0].list[0].path, "/var/log/mail.log.1");
	assert_int_equal(received.context.logs[0].list[0].inode, 12);
	assert_string_equal(received.context.logs[0].list[1].path, "");
	assert_true(survives(context->sockets[0].fd));
	assert_true(survives(context->logs[0].list[0].fd));
	assert_false(survives(stranger));
	forget();
}

TEST(a_descriptor_that_is_not_named_does_not_survive_exec) {
	struct handover handover = empty(ROLE_METRICS);
	int inherited = fcntl(any_fd(), F_DUPFD, 0);	/* as a careless library leaves one */

	assert_true(survives(inherited));
	send_and_receive(&handover);
	assert_false(survives(inherited));
	assert_true(survives(STDERR_FILENO));
}

#ifdef WITH_QUEUE
TEST(queue_directories_arrive) {
	static struct queue_places places = { .count = 1, .notify_fd = -1 };
	struct handover handover = empty(ROLE_QUEUE);

	places.list[0] = (struct queue_directory){ .mta = 2, .mta_name = "out",
		.path = "/var/spool/mqueue/q1", .fd = any_fd(), .watch = 9 };
	handover.context.queue_places = &places;
	send_and_receive(&handover);
	assert_ptr_not_equal(received.context.queue_places, &places);
	assert_int_equal(received.context.queue_places->count, 1);
	assert_int_equal(received.context.queue_places->list[0].watch, 9);
	assert_string_equal(received.context.queue_places->list[0].mta_name, "out");
	assert_string_equal(received.context.queue_places->list[0].path,
	    "/var/spool/mqueue/q1");
	assert_true(survives(places.list[0].fd));
	forget();
}
#endif

#ifdef WITH_CLUSTER
TEST(a_password_arrives_with_any_bytes) {
	struct handover handover = empty(ROLE_CLUSTER);
	struct cluster_secret secret = { .password = "a\0b", .length = 3, .stamp = 99 };

	handover.context.secret = &secret;
	send_and_receive(&handover);
	assert_int_equal(received.context.secret->length, 3);
	assert_memory_equal(received.context.secret->password, "a\0b", 3);
	assert_int_equal(received.context.secret->stamp, 99);
}
#endif

TEST(what_is_no_handover_is_refused) {
	struct diag diag;
	char text[] = "not one";
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	assert_int_equal(write(fds[1], text, sizeof(text)), (int)sizeof(text));
	close(fds[1]);
	assert_int_equal(handover_receive(fds[0], &received, &diag), -1);
	assert_int_equal(handover_receive(-1, &received, &diag), -1);
}
