/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Runs Postfix's own tools, and posternctl itself.
 * MODEL    What they read, write and complain of is in memory, so that nobody waits for the
 *          other; no shell sees anything.
 * ERRORS   diag; a program that takes too long is killed.
 * THREADS  One (fork).
 */
#include "ctl/cli/program.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/subprocess.h"
#include "base/text.h"

static const char *find_program(const char *name, char path[PATH_MAX]) {
	static const char *const directories[] = { "/usr/sbin", "/usr/local/sbin", "/sbin",
		"/usr/bin", "/usr/local/bin", "/bin" };

	if (strchr(name, '/') != NULL)
		return name;
	for (size_t i = 0; i < sizeof(directories) / sizeof(directories[0]); i++) {
		snprintf(path, PATH_MAX, "%s/%s", directories[i], name);
		if (access(path, X_OK) == 0)
			return path;
	}
	return name;
}

static int wait_for(struct subprocess *child) {
	int status = 0;
	pid_t ended;

	while ((ended = waitpid(child->pid, &status, WNOHANG)) == 0 ||
	    (ended < 0 && errno == EINTR)) {
		(void)subprocess_turn(child, clock_now_ns());
		clock_pause(NS_PER_MS);
	}
	return status;
}

/* One line of it. */
static void read_error(int fd, char *text, size_t size) {
	ssize_t got = fd < 0 ? 0 : pread(fd, text, size - 1, 0);
	size_t length = got > 0 ? strnlen(text, (size_t)got) : 0;

	while (length > 0 && text[length - 1] == '\n')
		length--;
	text[length] = '\0';
	for (size_t i = 0; i < length; i++)
		if (text[i] == '\n')
			text[i] = ' ';
}

static const char *read_output(int fd, struct program_output *output) {
	off_t length = lseek(fd, 0, SEEK_CUR);

	if (length >= PROGRAM_OUTPUT_MAX)
		return "writes too much";
	output->out = length < 0 ? NULL : calloc(1, (size_t)length + 1);
	if (output->out == NULL)
		return "wrote what cannot be kept";
	output->length = (size_t)length;
	return pread(fd, output->out, output->length, 0) == (ssize_t)length ? NULL :
	    "wrote what cannot be read";
}

static int run_program(const struct subprocess_program *program, struct program_output *output,
    struct diag *diag) {
	const char *name = program->arguments[0], *why;
	struct subprocess child = { .pid = 0 };
	struct subprocess_end end;
	int status;

	if (subprocess_start(&child, program, clock_now_ns()) != 0)
		return diag_set(diag, errno, "cannot start %s", name);
	status = wait_for(&child);
	read_error(child.output_fd, output->error, sizeof(output->error));
	subprocess_bury(&child, status, NULL, &end);
	output->exit = end.how == SUBPROCESS_NOT_RUN ? 127 :
	    end.how == SUBPROCESS_SIGNAL ? 128 + end.number : end.number;
	why = end.killed ? "takes too long" : read_output(program->stdout_fd, output);
	return why == NULL ? 0 : diag_set(diag, 0, "%s %s", name, why);
}

int program_run(const char *const *argv, const char *directory, const char *input,
    size_t input_length, struct program_output *output, struct diag *diag) {
	char path[PATH_MAX];
	struct subprocess_program program = { .path = find_program(argv[0], path), .arguments = argv,
		.life_ns = PROGRAM_SECONDS * NS_PER_SECOND, .stdin_fd = subprocess_file(input_length),
		.stdout_fd = subprocess_file(PROGRAM_OUTPUT_MAX), .stderr_fd = SUBPROCESS_KEPT,
		.directory = directory == NULL ? "." : directory };
	int result = -1;

	memset(output, 0, sizeof(*output));
	if (program.stdin_fd < 0 || program.stdout_fd < 0 ||
	    pwrite(program.stdin_fd, input, input_length, 0) != (ssize_t)input_length)
		diag_set(diag, errno, "cannot make the files of %s", argv[0]);
	else
		result = run_program(&program, output, diag);
	if (result != 0)
		program_free(output);
	if (program.stdin_fd >= 0)
		close(program.stdin_fd);
	if (program.stdout_fd >= 0)
		close(program.stdout_fd);
	return result;
}

void program_free(struct program_output *output) {
	free(output->out);
	output->out = NULL;
}
