/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Run one program.
 * MODEL    The child leads a session of its own.  What it writes goes to a file in memory that
 *          does not grow; a pipe that closes at exec tells whether it was executed.  Should we
 *          die it is killed at once, or, where its file is set-user-ID or set-group-ID (which
 *          takes that away), when its time is over.
 * ERRORS   A program that cannot be executed ends with EX_OSERR, and its errno.
 */
#include "base/subprocess.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/process.h"
#include "base/text.h"

#define VARIABLES_MAX	12
#define ERROR_FD	(STDERR_FILENO + 1)
/* Ours are many, and mail programs close all that they may have: as any service has it. */
#define FILES		1024
/* A little later than we would have killed it. */
#define ALARM_LATE_S	2

/* --- in the new process ------------------------------------------------------------------ */

static int standard_fd(int wanted, int kept_fd, int null_fd) {
	return wanted >= 0 ? wanted : wanted == SUBPROCESS_KEPT && kept_fd >= 0 ? kept_fd : null_fd;
}

static bool leave_parent(const struct subprocess_program *program, int error_fd, int output_fd) {
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	int stderr_fd = standard_fd(program->stderr_fd, output_fd, null_fd);

	if (setsid() < 0 || null_fd < 0 ||
	    dup2(program->stdin_fd > 0 ? program->stdin_fd : null_fd, STDIN_FILENO) < 0 ||
	    dup2(standard_fd(program->stdout_fd, output_fd, null_fd), STDOUT_FILENO) < 0 ||
	    dup2(stderr_fd, STDERR_FILENO) < 0 ||
	    (error_fd != ERROR_FD && dup3(error_fd, ERROR_FD, O_CLOEXEC) < 0) ||
	    chdir(program->directory != NULL ? program->directory : "/") != 0)
		return false;
	/* all are close-on-exec; should one not be, it stays here */
#ifdef SYS_close_range
	(void)syscall(SYS_close_range, (unsigned)ERROR_FD + 1, ~0U, 0U);
#endif
	umask(022);
	return true;
}

/* Its groups, too: it may be a mail program that is set-group-ID, so that (other than a
 * role's) its own file may give it more. */
static bool subprocess_become(const struct subprocess_program *program) {
	if (!program->drop || (geteuid() == program->uid && program->uid != 0))
		return true;
	return (program->user != NULL ? initgroups(program->user, program->gid) :
	    setgroups(0, NULL)) == 0 &&
	    setresgid(program->gid, program->gid, program->gid) == 0 &&
	    setresuid(program->uid, program->uid, program->uid) == 0;
}

static void lower_files(void) {
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur <= FILES)
		return;
	files.rlim_cur = FILES;
	(void)setrlimit(RLIMIT_NOFILE, &files);
}

static bool die_with_parent(const struct subprocess_program *program) {
	if (program->outlives_us)
		return true;
	(void)alarm((unsigned)(program->life_ns / NS_PER_SECOND) + ALARM_LATE_S);
	return prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0;
}

static void subprocess_run(const struct subprocess_program *program, int error_fd, int output_fd)
    __attribute__((noreturn));

static void subprocess_run(const struct subprocess_program *program, int error_fd, int output_fd) {
	const char *environment[VARIABLES_MAX + 3] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
		"LC_ALL=C" };
	int error;

	for (size_t i = 0; program->variables != NULL && i < VARIABLES_MAX &&
	     program->variables[i] != NULL; i++)
		environment[i + 2] = program->variables[i];
	if (leave_parent(program, error_fd, output_fd)) {
		error_fd = ERROR_FD;
		process_reset_signals();
		lower_files();
		(void)signal(SIGPIPE, SIG_DFL);
		/* last: another user takes it away */
		if (subprocess_become(program) && die_with_parent(program))
			/* execve takes what it will not change */
			execve(program->path != NULL ? program->path : program->arguments[0],
			    (char *const *)(uintptr_t)program->arguments,
			    (char *const *)(uintptr_t)environment);
	}
	error = errno;
	(void)!write(error_fd, &error, sizeof(error));
	_exit(EX_OSERR);
}

/* --- in ours ------------------------------------------------------------------------------ */

/* Of so much room that it never grows: a program may run for hours, and write anything. */
int subprocess_file(size_t size) {
	int fd = memfd_create("output", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || (ftruncate(fd, (off_t)size) == 0 &&
	    fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) == 0))
		return fd;
	close(fd);
	return -1;
}

int subprocess_start(struct subprocess *child, const struct subprocess_program *program,
    int64_t now_ns) {
	int fds[2], output_fd, error;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0)
		return -1;
	output_fd = subprocess_file(SUBPROCESS_OUTPUT_MAX);
	pid = fork();
	if (pid == 0)
		subprocess_run(program, fds[1], output_fd);
	error = errno;
	close(fds[1]);
	if (pid < 0) {
		close(fds[0]);
		if (output_fd >= 0)
			close(output_fd);
		errno = error;
		return -1;
	}
	*child = (struct subprocess){ .pid = pid, .error_fd = fds[0], .output_fd = output_fd,
		.ends_ns = now_ns + program->life_ns, .grace_ns = program->grace_ns,
		.outlives_us = program->outlives_us, .calls = program->calls,
		.owner = program->owner };
	if (program->list != NULL)
		LIST_INSERT_HEAD(program->list, child, listed);
	return 0;
}

static void kill_session(const struct subprocess *child) {
	(void)kill(-child->pid, SIGKILL);
	(void)kill(child->pid, SIGKILL);
}

bool subprocess_turn(struct subprocess *child, int64_t now_ns) {
	bool was_ending = child->ending;

	if (child->pid == 0 || now_ns < child->ends_ns)
		return false;
	if (was_ending || child->grace_ns == 0)
		kill_session(child);
	else
		(void)kill(child->pid, SIGTERM);
	child->ending = true;
	child->ends_ns = child->grace_ns == 0 ? INT64_MAX : now_ns + child->grace_ns;
	return !was_ending;
}

static void read_line(const struct subprocess *child, const char *except, char *said) {
	char all[4096], *line, *rest;
	ssize_t length = child->output_fd < 0 ? 0 :
	    pread(child->output_fd, all, sizeof(all) - 1, 0);

	all[length > 0 ? length : 0] = '\0';
	said[0] = '\0';
	for (line = strtok_r(all, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
		if (except == NULL || strstr(line, except) == NULL) {
			text_append(said, SUBPROCESS_SAID_MAX, 0, "%s", line);
			return;
		}
}

static void subprocess_release(struct subprocess *child) {
	close(child->error_fd);
	if (child->output_fd >= 0)
		close(child->output_fd);
	if (child->calls != NULL)
		LIST_REMOVE(child, listed);
	child->pid = 0;
}

void subprocess_bury(struct subprocess *child, int status, const char *except,
    struct subprocess_end *end) {
	int error;

	*end = (struct subprocess_end){ .pid = child->pid, .killed = child->ending,
		.status = status };
	read_line(child, except, end->said);
	if (read(child->error_fd, &error, sizeof(error)) == (ssize_t)sizeof(error)) {
		end->how = SUBPROCESS_NOT_RUN;
		end->number = error;
		text_append(end->said, sizeof(end->said), 0, "cannot be run: %s", strerror(error));
	} else {
		end->how = WIFSIGNALED(status) ? SUBPROCESS_SIGNAL : SUBPROCESS_EXIT;
		end->number = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
	}
	subprocess_release(child);
}

const char *subprocess_end_text(const struct subprocess_end *end,
    char out[SUBPROCESS_END_TEXT_MAX]) {
	static const char *const words[] = { [SUBPROCESS_EXIT] = "exit",
		[SUBPROCESS_SIGNAL] = "signal", [SUBPROCESS_NOT_RUN] = "errno" };
	char text[SUBPROCESS_SAID_MAX];

	text_append(out, SUBPROCESS_END_TEXT_MAX, 0, "pid=%ld %s=%d%s text=\"%s\"",
	    (long)end->pid, words[end->how], end->number, end->killed ? " killed=yes" : "",
	    log_sentence(text, sizeof(text), end->said));
	return out;
}

void subprocess_list_turn(struct subprocess_list *list, int64_t now_ns) {
	struct subprocess *child;

	LIST_FOREACH(child, list, listed)
		if (subprocess_turn(child, now_ns) && child->calls->late != NULL)
			child->calls->late(child->owner, child);
}

int64_t subprocess_list_next_ns(const struct subprocess_list *list) {
	const struct subprocess *child;
	int64_t next_ns = INT64_MAX;

	LIST_FOREACH(child, list, listed)
		if (child->ends_ns < next_ns)
			next_ns = child->ends_ns;
	return next_ns;
}

bool subprocess_list_bury(struct subprocess_list *list, pid_t pid, int status) {
	struct subprocess_end end;
	struct subprocess *child;

	LIST_FOREACH(child, list, listed) {
		if (child->pid != pid)
			continue;
		subprocess_bury(child, status, child->calls->except, &end);
		child->calls->ended(child->owner, child, &end);
		return true;
	}
	return false;
}

void subprocess_list_stop(struct subprocess_list *list) {
	struct subprocess *child = LIST_FIRST(list), *next;

	for (; child != NULL; child = next) {
		next = LIST_NEXT(child, listed);
		if (child->outlives_us)
			continue;
		kill_session(child);
		(void)process_await(child->pid, clock_now_ns() + NS_PER_SECOND);
		subprocess_release(child);
	}
}
