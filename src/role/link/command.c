/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Run one program as root.
 * MODEL    The child leads a session of its own: what it started is killed with it.
 *          Its output goes to a pipe, whose beginning is kept.  Should we die it
 *          is killed at once, or, where its file is set-user-ID or set-group-ID (which
 *          takes that away), when its time is over.
 * ERRORS   A program that cannot be run says so on its output and ends with
 *          EX_OSERR.
 * THREADS  The supervisor's.
 */
#include "role/link/command.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/process.h"
#include "role/confine/privileges.h"

#define VARIABLES_MAX	12
#define FIRST_FREE_FD	3

#define OUTPUTS_AT_ONCE	16
#define OUTPUT_READ	65536

/* A little later than we would have killed it. */
#define ALARM_LATE_S	2

static int outputs_fd = -1;

static void leave_parent(int stdout_fd, int stderr_fd, int64_t life_ns) {
	int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0 || setsid() < 0 ||
	    null_fd < 0 || dup2(null_fd, STDIN_FILENO) < 0 ||
	    dup2(stdout_fd, STDOUT_FILENO) < 0 ||
	    dup2(stderr_fd, STDERR_FILENO) < 0 || chdir("/") != 0)
		_exit(EX_OSERR);
	/* all are close-on-exec; should one not be, it stays here */
#ifdef SYS_close_range
	(void)syscall(SYS_close_range, (unsigned)FIRST_FREE_FD, ~0U, 0U);
#endif
	umask(022);
	(void)alarm((unsigned)(life_ns / NS_PER_SECOND) + ALARM_LATE_S);
	process_reset_signals();
	(void)signal(SIGPIPE, SIG_DFL);
}

/* Its groups, too: it may be a mail program that is set-group-ID, so that (other than a
 * role's) its own file may give it more. */
static void become(const struct identity *identity) {
	int failed = identity->user[0] != '\0' ?
	    initgroups(identity->user, identity->gid) : setgroups(0, NULL);

	if (failed != 0 || setresgid(identity->gid, identity->gid, identity->gid) != 0 ||
	    setresuid(identity->uid, identity->uid, identity->uid) != 0 ||
	    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0)
		_exit(EX_OSERR);
}

static void run(const struct command_line *line, int output_fd)
    __attribute__((noreturn));

static void run(const struct command_line *line, int output_fd) {
	char path[] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin", locale[] = "LC_ALL=C";
	char *environment[VARIABLES_MAX + 3] = { path, locale };
	size_t words = 0;
	char **arguments;

	for (size_t i = 0; line->variables != NULL && i < VARIABLES_MAX &&
	     line->variables[i] != NULL; i++) {
		environment[i + 2] = strdup(line->variables[i]);
		if (environment[i + 2] == NULL)
			_exit(EX_OSERR);
	}
	while (line->arguments[words] != NULL)
		words++;
	arguments = calloc(words + 1, sizeof(*arguments));
	if (arguments == NULL)
		_exit(EX_OSERR);
	for (size_t i = 0; i < words; i++) {
		arguments[i] = strdup(line->arguments[i]);
		if (arguments[i] == NULL)
			_exit(EX_OSERR);
	}
	leave_parent(line->stdout_fd >= 0 ? line->stdout_fd : output_fd, output_fd,
	    line->life_ns);
	if (line->identity != NULL && line->identity->drop)
		become(line->identity);
	execve(arguments[0], arguments, environment);
	dprintf(STDERR_FILENO, "cannot be run: %s\n", strerror(errno));
	_exit(EX_OSERR);
}

/* --- what they say ------------------------------------------------------------------- */

int command_outputs_fd(void) {
	return outputs_fd;
}

static int watch_output(struct command *command) {
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = command };

	if (outputs_fd < 0)
		outputs_fd = epoll_create1(EPOLL_CLOEXEC);
	return outputs_fd < 0 ? -1 :
	    epoll_ctl(outputs_fd, EPOLL_CTL_ADD, command->output_fd, &event);
}

static void forget_output(const struct command *command) {
	(void)epoll_ctl(outputs_fd, EPOLL_CTL_DEL, command->output_fd, NULL);
}

static void read_output(struct command *command) {
	static char output[OUTPUT_READ];
	size_t room = COMMAND_SAID_MAX - command->said_length;
	ssize_t length = read(command->output_fd, output, sizeof(output));

	if (length == 0)
		forget_output(command);
	if (length <= 0)
		return;
	if ((size_t)length < room)
		room = (size_t)length;
	memcpy(command->said + command->said_length, output, room);
	command->said_length += (uint32_t)room;
}

void command_read_outputs(void) {
	struct epoll_event events[OUTPUTS_AT_ONCE];
	int count = outputs_fd < 0 ? 0 : epoll_wait(outputs_fd, events, OUTPUTS_AT_ONCE, 0);

	for (int i = 0; i < count; i++)
		read_output(events[i].data.ptr);
}

/* --- from start to end ----------------------------------------------------------------- */

int command_start(struct command *command, const struct command_line *line,
    int64_t now_ns) {
	int fds[2], error;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) != 0)
		return -1;
	pid = fork();
	if (pid == 0)
		run(line, fds[1]);
	error = errno;
	close(fds[1]);
	if (pid < 0) {
		close(fds[0]);
		errno = error;
		return -1;
	}
	(void)fcntl(fds[0], F_SETFL, O_NONBLOCK);
	*command = (struct command){ .pid = pid, .output_fd = fds[0],
		.started_ns = now_ns, .life_ns = line->life_ns };
	/* unwatched, it runs all the same, as long as it says little */
	(void)watch_output(command);
	return 0;
}

void command_turn(struct command *command, int64_t now_ns) {
	if (command->pid == 0 || command->killed ||
	    now_ns - command->started_ns < command->life_ns)
		return;
	(void)kill(-command->pid, SIGKILL);
	command->killed = kill(command->pid, SIGKILL) == 0;
}

int64_t command_next_ns(const struct command *command) {
	return command->pid == 0 || command->killed ? INT64_MAX :
	    command->started_ns + command->life_ns;
}

void command_bury(struct command *command, char *said, size_t size) {
	size_t length;

	read_output(command);
	length = command->said_length < size ? command->said_length : size - 1;
	memcpy(said, command->said, length);
	said[length] = '\0';
	said[strcspn(said, "\n")] = '\0';
	forget_output(command);
	close(command->output_fd);
	command->pid = 0;
}

void command_end(struct command *command) {
	if (command->pid == 0)
		return;
	(void)kill(-command->pid, SIGKILL);
	(void)kill(command->pid, SIGKILL);
	(void)process_await(command->pid, clock_now_ns() + NS_PER_SECOND);
	forget_output(command);
	close(command->output_fd);
	command->pid = 0;
}
