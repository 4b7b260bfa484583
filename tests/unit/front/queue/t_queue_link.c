/* SPDX-License-Identifier: ISC */
/* The queue role's link to the supervisor: files that are opened for it, runs of sendmail,
 * and what is refused. */
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/unit/test.h"
#include "base/clock.h"
#include "front/queue/queue_link.h"
#include "role/queue/queue_link.h"
#include "tests/unit/scratch.h"
#include "tests/unit/role/supervise/supervised.h"

#define NUMBER	7	/* of the generation */
#define STAYS	"exec sleep 300\n"	/* LINT-SLEEP: until it is killed, and not for ever */

/* --- a supervisor with a Sendmail in a directory of its own -------------------------- */

static int role_fd;
static struct queue_tell tell;
static char own_user[64], own_uid[16];	/* whose tests these are: Sendmail runs as the same */

static void write_file(const char *name, const char *words, mode_t mode) {
	scratch_write(name, words);
	assert_int_equal(chmod(scratch_path(name), mode), 0);
}

static int begin(void **state) {
	struct generation *g = block_begin();
	struct diag diag;

	g->number = NUMBER;
	g->mta_count = 2;
	g->mtas[0] = (struct generation_mta){ .kind = MTA_SENDMAIL, .name = text("idle"),
		.queue_count = 1, .queues = { text("%s/q1", scratch) } };
	g->mtas[1] = (struct generation_mta){ .kind = MTA_SENDMAIL, .name = text("out"),
		.drive = 1, .processes = 2, .cf = text("/etc/x.cf"), .user = text("%s", own_user),
		.sendmail = text("%s/sendmail", scratch), .queue_count = 2,
		.queues = { text("%s/q*", scratch), text("%s/other", scratch) },
		.run_limit_ns = 3600 * NS_PER_SECOND };
	queue_link_init(&supervisor);
	(void)catch_log(NULL);
	role_fd = queue_link_open(&supervisor, &diag);
	return role_fd >= 0 ? 0 : -1;
}

static int end(void **state) {
	int status;

	close(role_fd);
	queue_link_close(&supervisor);
	while (!LIST_EMPTY(&supervisor.queue->runs.list)) {
		pid_t pid = LIST_FIRST(&supervisor.queue->runs.list)->child.pid;

		(void)kill(-pid, SIGKILL);	/* no session yet: itself */
		(void)kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(subprocess_list_bury(&supervisor.programs, pid, status));
	}
	log_redirect(NULL, NULL);
	return 0;
}

/* Lets the supervisor work until the role hears something. */
static void hear(int *fd) {
	for (unsigned i = 0; i < 4000; i++) {
		static const struct timespec turn = { .tv_nsec = 5 * NS_PER_MS };
		bool ended;
		int status;
		pid_t pid;

		queue_link_turn(&supervisor, clock_now_ns());
		while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
			assert_true(subprocess_list_bury(&supervisor.programs, pid, status));
		if (queue_link_next(role_fd, &tell, fd, &ended))
			return;
		assert_false(ended);
		(void)nanosleep(&turn, NULL); /* LINT-SLEEP: another process works */
	}
	fail_msg("nothing was heard");
}

/* What the role hears within a tenth of a second; else *tell is as it was. */
static void hear_soon(int *fd) {
	for (unsigned i = 0; i < 20; i++) {
		static const struct timespec turn = { .tv_nsec = 5 * NS_PER_MS };
		bool ended;
		int status;
		pid_t pid;

		while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
			assert_true(subprocess_list_bury(&supervisor.programs, pid, status));
		if (queue_link_next(role_fd, &tell, fd, &ended))
			return;
		(void)nanosleep(&turn, NULL); /* LINT-SLEEP: another process works */
	}
}

static void hears_end(void) {
	bool ended;
	int fd;

	queue_link_turn(&supervisor, clock_now_ns());
	assert_false(queue_link_next(role_fd, &tell, &fd, &ended));
	assert_true(ended);
}

static unsigned directory_of(const char *name) {
	for (unsigned i = 0; i < supervisor.queue->places.count; i++)
		if (strcmp(supervisor.queue->places.list[i].path, scratch_path(name)) == 0)
			return i;
	fail_msg("%s is not open", name);
	return 0;
}

static void ask_open(unsigned directory, const char *id, uint32_t ticket) {
	struct queue_order order = { .verb = QUEUE_ORDER_OPEN, .directory = directory,
		.ticket = ticket };

	assert_true(queue_order_add_id(&order.ids, id));
	assert_true(queue_link_ask(role_fd, &order));
}

static void wait_for_file(const char *name) {
	for (unsigned i = 0; access(scratch_path(name), F_OK) != 0; i++) {
		if (i >= 20000)
			fail_msg("%s does not come", name);
		(void)usleep(1000); /* LINT-SLEEP: another process works */
	}
}

static int opened(unsigned directory, const char *id, uint32_t error) {
	int fd;

	ask_open(directory, id, 5);
	hear(&fd);
	assert_int_equal(tell.news, QUEUE_OPENED);
	assert_int_equal(tell.ticket, 5);
	assert_int_equal(tell.error, error);
	assert_int_equal(fd >= 0, error == 0);
	return fd;
}

static void run(const char *directory, unsigned count, uint32_t ticket, bool brief) {
	struct queue_order order = { .verb = QUEUE_ORDER_RUN, .ticket = ticket,
		.directory = directory_of(directory), .generation = NUMBER, .brief = brief, .checkpoint = 7 };
	char id[32];
	int fd;

	for (unsigned i = 0; i < count; i++) {
		snprintf(id, sizeof(id), "AA%05u", i);
		assert_true(queue_order_add_id(&order.ids, id));
	}
	assert_true(queue_link_ask(role_fd, &order));
	hear(&fd);
	assert_int_equal(tell.news, QUEUE_STARTED);
	assert_int_equal(tell.ticket, ticket);
}

static void ended_so(enum subprocess_how how, uint32_t number) {
	uint32_t pid = tell.pid;
	int fd;

	hear(&fd);
	assert_int_equal(tell.news, QUEUE_ENDED);
	assert_int_equal(tell.pid, pid);
	assert_int_equal(tell.how, how);
	assert_int_equal(tell.number, number);
}

/* --- directories --------------------------------------------------------------------- */

TEST_IN(begin, end, directories_of_driven_mail_servers) {
	const struct queue_places *places = &supervisor.queue->places;

	/* q1, q2, other; a file qfile is no directory, that of the one not driven is not
	 * its */
	assert_int_equal(places->count, 3);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(places->list[i].mta, 1);
	assert_false(queue_places_changed(places, &block.generation));
	assert_int_equal(mkdir(scratch_path("q3"), 0700), 0);
	assert_true(queue_places_changed(places, &block.generation));
	assert_int_equal(rmdir(scratch_path("q3")), 0);
	assert_int_equal(rename(scratch_path("other"), scratch_path("away")), 0);
	assert_true(queue_places_changed(places, &block.generation));
	assert_int_equal(rename(scratch_path("away"), scratch_path("other")), 0);
	assert_false(queue_places_changed(places, &block.generation));
}

/* A directory may keep its qf files in a subdirectory of that name. */
TEST_IN(begin, end, a_subdirectory_qf) {
	int fd;

	fd = opened(directory_of("q2"), "INNER1", 0);
	close(fd);
	opened(directory_of("q2"), "OUTER1", ENOENT);
}

TEST_IN(begin, end, changes_are_told) {
	char buffer[4096];
	struct pollfd polled = { .fd = supervisor.queue->places.notify_fd, .events = POLLIN };
	const struct inotify_event *event = (const void *)buffer;

	write_file("q1/qfNEW1", "x", 0600);
	assert_int_equal(poll(&polled, 1, 2000), 1);
	assert_true(read(polled.fd, buffer, sizeof(buffer)) > 0);
	assert_int_equal(event->wd, supervisor.queue->places.list[directory_of("q1")].watch);
	assert_string_equal(event->name, "qfNEW1");
	assert_int_equal(unlink(scratch_path("q1/qfNEW1")), 0);
}

/* --- files --------------------------------------------------------------------------- */

TEST_IN(begin, end, a_file_is_opened) {
	char content[16] = "";
	int fd = opened(directory_of("q1"), "AA1", 0);

	assert_int_equal(read(fd, content, sizeof(content)), 5);
	assert_string_equal(content, "one\n1");
	assert_int_equal(write(fd, "x", 1), -1);
	close(fd);
}

TEST_IN(begin, end, what_is_no_file_is_not_opened) {
	unsigned q1 = directory_of("q1");

	opened(q1, "NONE1", ENOENT);
	opened(q1, "LINK1", ELOOP);
	opened(q1, "PIPE1", EINVAL);
	opened(q1, "DIR1", EINVAL);
}

/* Each may be a file on a disk that is slow: roles that hang would be found late. */
TEST_IN(begin, end, a_turn_that_takes_long_takes_no_more_orders) {
	int64_t began_ns = clock_now_ns() - NS_PER_SECOND / 50;
	unsigned count = 0;
	bool ended;
	int fd;

	for (uint32_t i = 0; i < 64; i++)
		ask_open(directory_of("q1"), "NONE1", i);
	queue_link_turn(&supervisor, began_ns);
	while (queue_link_next(role_fd, &tell, &fd, &ended))
		count++;
	assert_int_equal(count, 1);
	assert_int_equal(queue_link_next_ns(&supervisor), 0);
}

/* Many at a time, each answered, in their order. */
TEST_IN(begin, end, many_at_a_time) {
	int fd;

	for (uint32_t i = 0; i < 64; i++)
		ask_open(directory_of("q1"), i % 2 == 0 ? "AA1" : "NONE1", i);
	for (uint32_t i = 0; i < 64; i++) {
		hear(&fd);
		assert_int_equal(tell.ticket, i);
		if (fd >= 0)
			close(fd);
		assert_int_equal(fd >= 0, i % 2 == 0);
	}
}

TEST_IN(begin, end, orders_that_are_none) {
	static const char bad[] = "27\nopen=qf../x\ndirectory=0\n\n";
	struct queue_order order = { .verb = QUEUE_ORDER_OPEN, .directory = 99 };

	assert_true(send(role_fd, bad, sizeof(bad) - 1, 0) > 0);
	hears_end();
	assert_non_null(strstr(last_line, "from=queue"));
	close(role_fd);
	role_fd = queue_link_open(&supervisor, &(struct diag){ 0 });
	assert_true(queue_order_add_id(&order.ids, "AA1"));
	assert_true(queue_link_ask(role_fd, &order));
	hears_end();
	assert_non_null(strstr(last_line, "unknown directory"));
}

static void refused_so(unsigned directory) {
	struct queue_order order = { .verb = QUEUE_ORDER_RUN, .directory = directory,
		.generation = block.generation.number, .checkpoint = 1 };
	int fd;

	opened(directory, "AA1", ESTALE);
	assert_true(queue_order_add_id(&order.ids, "AA00001"));
	assert_true(queue_link_ask(role_fd, &order));
	do
		hear(&fd);
	while (tell.news == QUEUE_AGAIN);
	assert_int_equal(tell.news, QUEUE_STARTED);
	assert_int_equal(tell.error, ESTALE);
	assert_true(LIST_EMPTY(&supervisor.queue->runs.list));
}

/* One that asks and does not read is cut off, and nobody waits for it. */
TEST_IN(begin, end, a_role_that_does_not_read) {
	struct queue_order order = { .verb = QUEUE_ORDER_OPEN,
		.directory = directory_of("q1") };

	assert_true(queue_order_add_id(&order.ids, "NONE1"));
	for (unsigned i = 0; i < 100000 && supervisor.queue->fd >= 0; i++) {
		(void)queue_link_ask(role_fd, &order);
		queue_link_turn(&supervisor, clock_now_ns());
	}
	assert_int_equal(supervisor.queue->fd, -1);
	assert_non_null(strstr(last_line, "does not read"));
}

/* A role that does not hear of a reload knows the new generation's number nevertheless: the
 * directory of one mail server is not run as another one's. */
TEST_IN(begin, end, a_directory_is_not_run_for_another_mail_server) {
	unsigned q1 = directory_of("q1"), other = directory_of("other");
	struct generation *g = &block.generation;
	const struct generation_mta own = g->mtas[1];

	supervisor.queue->looked_for = ++g->number;
	g->mtas[1].name = text("another");
	refused_so(q1);
	g->mtas[1] = own;
	g->mtas[1].drive = 0;
	refused_so(q1);
	g->mtas[1] = own;
	g->mta_count = 1;
	refused_so(q1);
	g->mta_count = 2;
	g->mtas[1].queue_count = 1;
	refused_so(other);
	close(opened(q1, "AA1", 0));
}

static pid_t role_that_stays(void) {
	pid_t pid = fork();

	if (pid == 0)
		for (;;)
			pause();
	assert_true(pid > 0);
	supervisor.child_count = 1;
	supervisor.children[0] = (struct child){ .kind = ROLE_QUEUE, .pid = pid };
	return pid;
}

/* Nobody could have it end, and another would not be started. */
TEST_IN(begin, end, a_role_without_a_link_is_ended) {
	pid_t pid = role_that_stays();
	int status;

	assert_int_equal(send(role_fd, "garbage", 7, 0), 7);
	queue_link_turn(&supervisor, clock_now_ns());
	assert_int_equal(supervisor.queue->fd, -1);
	assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
	queue_link_turn(&supervisor, clock_now_ns() + 5 * NS_PER_SECOND);
	assert_non_null(supervisor.children[0].killed);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* The process of a role that was told to end has some seconds for it. */
TEST_IN(begin, end, a_role_that_stays_is_ended) {
	int64_t now_ns = clock_now_ns();
	pid_t pid = role_that_stays();
	int status;

	block.generation.number++;
	block.generation.mtas[1].drive = 0;
	queue_link_turn(&supervisor, now_ns);
	queue_link_turn(&supervisor, now_ns + 4 * NS_PER_SECOND);
	assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
	assert_true(supervisor.queue->fd >= 0);
	queue_link_turn(&supervisor, now_ns + 5 * NS_PER_SECOND);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	assert_true(supervisor.children[0].killed);
	assert_int_equal(supervisor.queue->fd, -1);
	assert_non_null(strstr(last_line, "asked to end"));
}

/* Sendmail would follow it; we say that we do not. */
TEST_IN(begin, end, a_subdirectory_that_is_a_link) {
	struct diag diag;

	assert_int_equal(mkdir(scratch_path("q4"), 0700), 0);
	assert_int_equal(symlink("../q1", scratch_path("q4/qf")), 0);
	close(role_fd);
	role_fd = queue_link_open(&supervisor, &diag);
	assert_int_equal(supervisor.queue->places.count, 3);
	assert_non_null(strstr(last_line, "its subdirectory qf is a symbolic link"));
	assert_false(queue_places_changed(&supervisor.queue->places, &block.generation));
	assert_int_equal(unlink(scratch_path("q4/qf")), 0);
	assert_int_equal(rmdir(scratch_path("q4")), 0);
}

/* --- runs ---------------------------------------------------------------------------- */

TEST_IN(begin, end, what_is_run) {
	const char *said;
	char last[160];

	write_file("sendmail", "#!/bin/sh\n{ echo \"$@\"; env | sort; ls /proc/self/fd | wc -l; "
	    "id -u; pwd; } > \"${0%/*}/said\"\n", 0755);
	run("q1", 2, 11, false);
	assert_int_equal(tell.error, 0);
	ended_so(SUBPROCESS_EXIT, 0);
	said = scratch_take("said");
	assert_non_null(strstr(said, "-C /etc/x.cf -qf -OForkEachJob=False"));
	assert_non_null(strstr(said, scratch_path("q1* -qGmqueue -OCheckpointInterval=7 -qIAA00000 "
	    "-qIAA00001\n")));
	assert_null(strstr(said, "Timeout.connect"));
	/* ls has its own of the directory besides 0, 1 and 2 */
	snprintf(last, sizeof(last), "\nLC_ALL=C\nPATH=/usr/sbin:/usr/bin:/sbin:/bin\nPWD=/\n4\n%s\n/\n",
	    own_uid);
	assert_non_null(strstr(said, last));
	run("q1", 1, 12, true);
	ended_so(SUBPROCESS_EXIT, 0);
	said = scratch_take("said");
	assert_non_null(strstr(said, "-OTimeout.connect=10s"));
	assert_int_equal(logged, 0);
}

TEST_IN(begin, end, it_runs_as_its_user) {
	char said[4096];

	if (geteuid() != 0)
		skip();
	block.generation.mtas[1].user = text("nobody");
	write_file("sendmail", "#!/bin/sh\nid -u >&2; id -G >&2; exit 3\n", 0755);
	assert_int_equal(chmod(scratch, 0755), 0);
	run("q1", 1, 1, false);
	ended_so(SUBPROCESS_EXIT, 3);
	snprintf(said, sizeof(said), "text=\"65534\"");
	assert_non_null(strstr(last_line, said));
	/* names are looked up once a reload, not by the number, which a keeper can raise */
	block.generation.mtas[1].user = text("no-such-user");
	supervisor.queue->runs.generation = NUMBER - 1;
	run("q1", 1, 2, false);
	assert_int_equal(tell.error, 0);
	ended_so(SUBPROCESS_EXIT, 3);
	queue_runs_forget(&supervisor.queue->runs);
	run("q1", 1, 2, false);
	assert_int_equal(tell.error, EPERM);
}

TEST_IN(begin, end, a_program_that_is_not_there) {
	block.generation.mtas[1].sendmail = text("%s/none", scratch);
	run("q1", 1, 1, false);
	assert_int_equal(tell.error, 0);
	ended_so(SUBPROCESS_NOT_RUN, ENOENT);
	assert_non_null(strstr(last_line, "cannot be run: No such file"));
}

TEST_IN(begin, end, our_own_lines_are_no_reason) {
	(void)usleep(1000000); /* LINT-SLEEP: the log takes five lines of a kind a second */
	write_file("sendmail", "#!/bin/sh\necho 'deferred by Postern: waits'; "
	    "echo 'no room'; exit 71\n", 0755);
	run("q1", 1, 1, false);
	assert_int_equal(tell.error, 0);
	ended_so(SUBPROCESS_EXIT, 71);
	assert_non_null(strstr(last_line, "exit=71"));
	assert_non_null(strstr(last_line, "text=\"no room\""));
}

TEST_IN(begin, end, a_run_that_says_much_does_not_fill_memory) {
	const struct queue_run_process *process;
	struct stat status;

	write_file("sendmail", "#!/bin/sh\nyes | head -c 300000\n: > \"${0%/*}/much\"\n"
	    STAYS, 0755);
	run("q1", 1, 1, false);
	process = LIST_FIRST(&supervisor.queue->runs.list);
	wait_for_file("much");
	assert_int_equal(fstat(process->child.output_fd, &status), 0);
	assert_int_equal(status.st_size, 65536);
	assert_true(status.st_blocks * 512 <= 65536);
}

/* A disk of 3 MB as q5; what is mounted is gone with this process. */
static void mount_small(void) {
	unsigned was = supervisor.queue->places.count;

	if (mkdir(scratch_path("q5"), 0700) != 0 || unshare(CLONE_NEWNS) != 0 ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("tmpfs", scratch_path("q5"), "tmpfs", 0, "size=3m,mode=0700") != 0) {
		(void)rmdir(scratch_path("q5"));
		skip();
	}
	close(role_fd);
	role_fd = queue_link_open(&supervisor, &(struct diag){ 0 });
	assert_int_equal(supervisor.queue->places.count, was + 1);
}

static void unmount_small(void) {
	queue_link_close(&supervisor);
	assert_int_equal(umount(scratch_path("q5")), 0);
	assert_int_equal(rmdir(scratch_path("q5")), 0);
}

/* Sendmail delivers, cannot write down what it did, and would deliver all again. */
TEST_IN(begin, end, a_full_disk_starts_no_run) {
	char filler[65536] = "";
	unsigned lines;
	int fd;

	mount_small();
	write_file("sendmail", "#!/bin/sh\nexit 0\n", 0755);
	run("q5", 1, 1, false);
	assert_int_equal(tell.error, 0);
	ended_so(SUBPROCESS_EXIT, 0);
	lines = logged;
	/* 3 MB are free, and 1 MB is four times the file: enough; 1.1 MB is not */
	fd = open(scratch_path("q5/qfAA00000"), O_WRONLY | O_CREAT, 0600);
	assert_int_equal(ftruncate(fd, 700 << 10), 0);
	run("q5", 1, 2, false);
	assert_int_equal(tell.error, 0);
	ended_so(SUBPROCESS_EXIT, 0);
	assert_int_equal(ftruncate(fd, 800 << 10), 0);
	run("q5", 1, 3, false);
	assert_int_equal(tell.error, ENOSPC);
	assert_int_equal(ftruncate(fd, 0), 0);
	close(fd);
	run("q5", 1, 4, false);
	assert_int_equal(tell.error, 0);
	ended_so(SUBPROCESS_EXIT, 0);
	assert_int_equal(logged, lines + 2);
	assert_non_null(strstr(last_line, "has room again"));
	fd = open(scratch_path("q5/filler"), O_WRONLY | O_CREAT, 0600);
	while (write(fd, filler, sizeof(filler)) > 0)
		;
	close(fd);
	for (uint32_t i = 0; i < 5; i++) {
		run("q5", 1, i, false);
		assert_int_equal(tell.error, ENOSPC);
	}
	assert_int_equal(logged, lines + 3);
	assert_non_null(strstr(last_line, "file system full"));
	run("q1", 1, 6, false);
	assert_int_equal(tell.error, 0);
	ended_so(SUBPROCESS_EXIT, 0);
	run("q5", 1, 7, false);
	assert_int_equal(tell.error, ENOSPC);
	assert_int_equal(logged, lines + 3);
	unmount_small();
}

/* Sendmail takes it for a part of an id: its run would be of most of the queue. */
TEST_IN(begin, end, a_part_of_an_id_is_no_order) {
	struct queue_order order = { .verb = QUEUE_ORDER_RUN, .directory = directory_of("q1"),
		.generation = NUMBER, .checkpoint = 1 };

	assert_true(queue_order_add_id(&order.ids, "AA00001"));
	assert_true(queue_order_add_id(&order.ids, "0"));
	assert_true(queue_link_ask(role_fd, &order));
	hears_end();
	assert_non_null(strstr(last_line, "run has an invalid queue id, or too many"));
}

TEST_IN(begin, end, no_checkpoint_is_no_order) {
	static const uint32_t bad[] = { 0, 1001, 2500 };

	for (unsigned i = 0; i < 3; i++) {
		struct queue_order order = { .verb = QUEUE_ORDER_RUN,
			.directory = directory_of("q1"), .generation = NUMBER,
			.checkpoint = bad[i] };

		assert_true(queue_order_add_id(&order.ids, "AA00001"));
		assert_true(queue_link_ask(role_fd, &order));
		hears_end();
		assert_non_null(strstr(last_line, "checkpoint must be from 1 to 1000"));
		close(role_fd);
		role_fd = queue_link_open(&supervisor, &(struct diag){ 0 });
	}
}

/* Its user has as many processes as he may. */
TEST_IN(begin, end, a_full_process_table) {
	struct rlimit before, small;
	unsigned started = 0, lines;
	int fd;

	if (geteuid() != 0 || getrlimit(RLIMIT_NPROC, &before) != 0)
		skip();
	block.generation.mtas[1].user = text("nobody");
	block.generation.mtas[1].processes = 100;
	write_file("sendmail", "#!/bin/sh\n" STAYS, 0755);
	small = (struct rlimit){ .rlim_cur = 2, .rlim_max = before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NPROC, &small), 0);
	do {
		run("q1", 1, started, false);
		assert_int_equal(tell.error, 0);
		hear_soon(&fd);
	} while (tell.news == QUEUE_STARTED && ++started < 10);
	assert_int_equal(setrlimit(RLIMIT_NPROC, &before), 0);
	assert_int_equal(tell.news, QUEUE_ENDED);
	assert_int_equal(tell.how, SUBPROCESS_NOT_RUN);
	assert_int_equal(tell.number, EAGAIN);
	lines = logged;
	assert_true(lines <= 1);
	run("q1", 1, 11, false);
	hear_soon(&fd);
	assert_int_equal(tell.news, QUEUE_STARTED);
}

TEST_IN(begin, end, no_more_than_may_be) {
	write_file("sendmail", "#!/bin/sh\n" STAYS, 0755);
	for (unsigned i = 0; i < 4; i++) {
		run("q1", 1, i, false);
		assert_int_equal(tell.error, 0);
	}
	/* two, and two that may be stalled */
	run("q1", 1, 9, false);
	assert_int_equal(tell.error, EAGAIN);
}

TEST_IN(begin, end, of_another_generation_nothing_is_run) {
	block.generation.number = NUMBER + 1;
	run("q1", 1, 1, false);
	assert_int_equal(tell.error, ESTALE);
	block.generation.number = NUMBER;
	block.generation.mtas[1].drive = 0;
	run("q1", 1, 1, false);
	assert_int_equal(tell.error, ESTALE);
}

/* A run lives on when its role dies, and the next role is told. */
TEST_IN(begin, end, a_new_role_is_told_what_lives) {
	uint32_t pid;
	int fd;

	write_file("sendmail", "#!/bin/sh\n" STAYS, 0755);
	run("q1", 3, 1, false);
	pid = tell.pid;
	close(role_fd);
	queue_link_turn(&supervisor, clock_now_ns());
	queue_link_close(&supervisor);
	role_fd = queue_link_open(&supervisor, &(struct diag){ 0 });
	hear(&fd);
	assert_int_equal(tell.news, QUEUE_LIVES);
	assert_int_equal(tell.pid, pid);
	assert_int_equal(tell.directory, directory_of("q1"));
	assert_int_equal(tell.ids.count, 3);
	assert_string_equal(tell.ids.list[2], "AA00002");
	assert_int_equal(kill((pid_t)pid, SIGKILL), 0);
	ended_so(SUBPROCESS_SIGNAL, SIGKILL);
}

TEST_IN(begin, end, a_run_that_never_ends) {
	const struct queue_run_process *process;
	int64_t now_ns = clock_now_ns();
	int status;

	/* deaf to SIGTERM; it says when it is */
	write_file("sendmail", "#!/bin/sh\ntrap '' TERM\n: > \"${0%/*}/deaf\"\n"
	    STAYS, 0755);
	run("q1", 1, 1, false);
	process = LIST_FIRST(&supervisor.queue->runs.list);
	wait_for_file("deaf");
	subprocess_list_turn(&supervisor.programs, now_ns + 3599 * NS_PER_SECOND);
	assert_false(process->child.ending);
	assert_true(subprocess_list_next_ns(&supervisor.programs) <=
	    now_ns + 3601 * NS_PER_SECOND);
	subprocess_list_turn(&supervisor.programs, now_ns + 3601 * NS_PER_SECOND);
	assert_true(process->child.ending);
	assert_int_equal(waitpid(process->child.pid, &status, WNOHANG), 0);
	subprocess_list_turn(&supervisor.programs, now_ns + 3662 * NS_PER_SECOND);
	ended_so(SUBPROCESS_SIGNAL, SIGKILL);
}

/* --- all of it ----------------------------------------------------------------------- */

/* A role that orders as fast as it can, of a Sendmail that ends at once. */
TEST_IN(begin, end, runs_have_a_rate) {
	struct queue_order order = { .verb = QUEUE_ORDER_RUN, .generation = NUMBER + 1,
		.directory = directory_of("q1"), .checkpoint = 7 };
	int64_t now_ns = clock_now_ns();
	unsigned answers = 0;
	struct pollfd polled;
	bool ended;
	int fd;

	assert_true(queue_order_add_id(&order.ids, "AA00001"));
	/* 2 places, 100 at once of each */
	for (order.ticket = 1; order.ticket <= 250; order.ticket++) {
		assert_true(queue_link_ask(role_fd, &order));
		queue_link_turn(&supervisor, now_ns);
		while (queue_link_next(role_fd, &tell, &fd, &ended))
			answers++;
	}
	assert_int_equal(answers, 200);
	queue_link_poll(&supervisor, &polled);
	assert_int_equal(polled.fd, -1);
	assert_int_equal(queue_link_next_ns(&supervisor) - now_ns, NS_PER_SECOND / 40);
	/* 40 a second, none is lost */
	for (unsigned i = 1; i <= 50; i++) {
		queue_link_turn(&supervisor, now_ns + i * NS_PER_SECOND / 40);
		assert_true(queue_link_next(role_fd, &tell, &fd, &ended));
		assert_int_equal(tell.ticket, 200 + i);
		assert_false(queue_link_next(role_fd, &tell, &fd, &ended));
	}
	queue_link_poll(&supervisor, &polled);
	assert_int_equal(polled.fd, supervisor.queue->fd);
}

static int make_all(void **state) {
	const struct passwd *self = getpwuid(geteuid());

	if (self == NULL)
		return -1;
	snprintf(own_user, sizeof(own_user), "%s", self->pw_name);
	snprintf(own_uid, sizeof(own_uid), "%u", (unsigned)self->pw_uid);
	if (scratch_open(state) != 0 || mkdir(scratch_path("q1"), 0700) != 0 ||
	    mkdir(scratch_path("q2"), 0700) != 0 || mkdir(scratch_path("q2/qf"), 0700) != 0 ||
	    mkdir(scratch_path("other"), 0700) != 0 || mkdir(scratch_path("q1/qfDIR1"), 0700) != 0 ||
	    mkfifo(scratch_path("q1/qfPIPE1"), 0600) != 0 ||
	    symlink("qfAA1", scratch_path("q1/qfLINK1")) != 0)
		return -1;
	write_file("q1/qfAA1", "one\n1", 0600);
	write_file("q2/qfOUTER1", "x", 0600);
	write_file("q2/qf/qfINNER1", "x", 0600);
	write_file("qfile", "x", 0600);
	return 0;
}

/* A large file and a small one in turns. */
TEST_IN(begin, end, room_that_comes_and_goes_does_not_flood_the_log) {
	int64_t began_ns;
	int fd;

	mount_small();
	write_file("sendmail", "#!/bin/sh\nexit 0\n", 0755);
	fd = open(scratch_path("q5/qfAA00000"), O_WRONLY | O_CREAT, 0600);
	began_ns = clock_now_ns();
	for (uint32_t i = 0; i < 60; i++) {
		assert_int_equal(ftruncate(fd, 800 << 10), 0);
		run("q5", 1, i, false);
		assert_int_equal(tell.error, ENOSPC);
		assert_int_equal(ftruncate(fd, 0), 0);
		run("q5", 1, i, false);
		assert_int_equal(tell.error, 0);
		ended_so(SUBPROCESS_EXIT, 0);
	}
	/* five of each kind a second */
	assert_in_range(logged, 1, 10 * ((clock_now_ns() - began_ns) / NS_PER_SECOND + 2));
	close(fd);
	unmount_small();
}

TEST_GROUP(make_all, scratch_close)
