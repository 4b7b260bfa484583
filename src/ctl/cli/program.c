/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Runs Postfix's own tools.
 * MODEL    fork and exec with a clean environment; no shell sees anything.  Three
 *          pipes and one poll loop, so that neither side waits for the other.
 * ERRORS   diag; a program that takes too long or writes too much is killed.
 * THREADS  One (fork).
 */
#include "ctl/cli/program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"

enum { IN, OUT, ERR, PIPES };

struct run {
	int ends[PIPES];		/* ours; -1: closed */
	const char *input;
	size_t input_left;
	struct program_output *output;
	size_t size, error_length;
};

static void close_end(int *fd) {
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void become(const char *const *argv, const char *directory,
    const int theirs[PIPES]) {
	static char path[] = "PATH=/usr/sbin:/usr/local/sbin:/sbin:/usr/bin:/usr/local/bin:/bin";
	static char locale[] = "LC_ALL=C";
	char *environment[] = { path, locale, NULL };

	if (dup2(theirs[IN], 0) < 0 || dup2(theirs[OUT], 1) < 0 ||
	    dup2(theirs[ERR], 2) < 0)
		_exit(126);
	if (directory != NULL && chdir(directory) != 0)
		_exit(126);
	(void)signal(SIGPIPE, SIG_DFL);
	/* execvpe looks the name up in our PATH, not in the one we give */
	(void)putenv(path);
	execvpe(argv[0], (char *const *)(uintptr_t)argv, environment);
	_exit(127);
}

static pid_t start(const char *const *argv, const char *directory,
    int ends[PIPES], struct diag *diag) {
	int theirs[PIPES] = { -1, -1, -1 }, pair[2];
	pid_t pid = -1;

	for (int i = 0; i < PIPES; i++) {
		if (pipe2(pair, O_CLOEXEC) != 0) {
			diag_set(diag, errno, "cannot create a pipe");
			goto out;
		}
		theirs[i] = pair[i == IN ? 0 : 1];
		ends[i] = pair[i == IN ? 1 : 0];
		(void)fcntl(ends[i], F_SETFL, O_NONBLOCK);
	}
	pid = fork();
	if (pid == 0)
		become(argv, directory, theirs);
	if (pid < 0)
		diag_set(diag, errno, "cannot start %s", argv[0]);
out:
	for (int i = 0; i < PIPES; i++)
		close_end(&theirs[i]);
	return pid;
}

static bool take_output(struct run *run) {
	struct program_output *output = run->output;
	ssize_t got;

	if (output->length + 1 >= run->size) {
		size_t size = run->size == 0 ? 16384 : 2 * run->size;
		char *grown = size > PROGRAM_OUTPUT_MAX ? NULL :
		    realloc(output->out, size);

		if (grown == NULL)
			return false;
		output->out = grown;
		run->size = size;
	}
	got = read(run->ends[OUT], output->out + output->length,
	    run->size - output->length - 1);
	if (got > 0)
		output->length += (size_t)got;
	else if (got == 0 || (errno != EAGAIN && errno != EINTR))
		close_end(&run->ends[OUT]);
	return true;
}

static void take_error(struct run *run) {
	char text[2048];
	ssize_t got = read(run->ends[ERR], text, sizeof(text));
	size_t room = sizeof(run->output->error) - 1 - run->error_length;

	if (got > 0) {
		size_t length = (size_t)got < room ? (size_t)got : room;

		memcpy(run->output->error + run->error_length, text, length);
		run->error_length += length;
	} else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
		close_end(&run->ends[ERR]);
	}
}

static void give_input(struct run *run) {
	ssize_t written = run->input_left == 0 ? 0 :
	    write(run->ends[IN], run->input, run->input_left);

	if (written > 0) {
		run->input += written;
		run->input_left -= (size_t)written;
	} else if (written == 0 || (errno != EAGAIN && errno != EINTR)) {
		close_end(&run->ends[IN]);
	}
}

/* Until it closed both of its ends.  False: *why. */
static bool talk(struct run *run, const char **why) {
	int64_t end_ns = clock_now_ns() + PROGRAM_SECONDS * NS_PER_SECOND;

	while (run->ends[OUT] >= 0 || run->ends[ERR] >= 0) {
		struct pollfd fds[PIPES] = {
			[IN] = { run->ends[IN], POLLOUT, 0 },
			[OUT] = { run->ends[OUT], POLLIN, 0 },
			[ERR] = { run->ends[ERR], POLLIN, 0 },
		};

		*why = "takes too long";
		if (clock_now_ns() > end_ns)
			return false;
		if (poll(fds, PIPES, 1000) <= 0)
			continue;
		if (fds[IN].revents != 0)
			give_input(run);
		*why = "writes too much";
		if (fds[OUT].revents != 0 && !take_output(run))
			return false;
		if (fds[ERR].revents != 0)
			take_error(run);
	}
	return true;
}

/* One line of it. */
static void tidy_error(char *text) {
	size_t length = strlen(text);

	while (length > 0 && text[length - 1] == '\n')
		text[--length] = '\0';
	for (size_t i = 0; i < length; i++)
		if (text[i] == '\n')
			text[i] = ' ';
}

int program_run(const char *const *argv, const char *directory, const char *input,
    size_t input_length, struct program_output *output, struct diag *diag) {
	struct run run = { .ends = { -1, -1, -1 }, .input = input,
		.input_left = input_length, .output = output };
	const char *why = "";
	int status = 0;
	bool done;
	pid_t pid;

	memset(output, 0, sizeof(*output));
	(void)signal(SIGPIPE, SIG_IGN);
	pid = start(argv, directory, run.ends, diag);
	done = pid > 0 && talk(&run, &why);
	for (int i = 0; i < PIPES; i++)
		close_end(&run.ends[i]);
	if (pid <= 0)
		return -1;
	if (!done)
		kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		continue;
	if (!done) {
		program_free(output);
		return diag_set(diag, 0, "%s %s", argv[0], why);
	}
	output->out[output->length] = '\0';
	output->exit = WIFEXITED(status) ? WEXITSTATUS(status) :
	    128 + WTERMSIG(status);
	tidy_error(output->error);
	return 0;
}

void program_free(struct program_output *output) {
	free(output->out);
	output->out = NULL;
}
