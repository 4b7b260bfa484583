/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  See compiler.h.
 * MODEL    A fork, as what it executes is here already; it writes the block into memory that
 *          it seals, and the messages into another.  Both are read when it has ended.
 * ERRORS   One that dies or is killed compiled nothing.
 * THREADS  One, the supervisor's; libconfig's in the child.
 */
#include "role/compiler.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/process.h"
#include "role/generation_memory.h"
#include "role/role_begin.h"

#define LIFE_NS		(60 * NS_PER_SECOND)
#define END_NS		(3 * NS_PER_SECOND)
#define MESSAGES_KEPT	1000	/* by the compiler */

static void compiler_close(struct compiler *compiler) {
	close(compiler->block_fd);
	close(compiler->messages_fd);
	*compiler = (struct compiler){ .pid = 0 };
}

static bool write_messages(int fd, const struct config_messages *messages) {
	size_t bytes = messages->count * sizeof(*messages->list);

	return generation_memory_write(fd, messages, sizeof(*messages)) == 0 &&
	    (bytes == 0 || generation_memory_write(fd, messages->list, bytes) == 0);
}

static void compile(const struct compiler *compiler, const char *file)
    __attribute__((noreturn));

static void compile(const struct compiler *compiler, const char *file) {
	struct config_messages messages;
	struct generation *generation = config_compile(file, &messages);
	struct diag diag;

	if (!write_messages(compiler->messages_fd, &messages) ||
	    (generation != NULL && generation_memory_fill(compiler->block_fd, generation,
		&diag) != 0))
		_exit(EX_OSERR);
	_exit(generation != NULL ? EX_OK : EX_CONFIG);
}

int compiler_start(struct compiler *compiler, const char *file, int64_t now_ns,
    struct diag *diag) {
	pid_t parent = getpid();
	struct compiler new = { .block_fd = generation_memory_open(diag),
		.until_ns = now_ns + LIFE_NS };

	if (new.block_fd < 0)
		return -1;
	new.messages_fd = memfd_create("postern-messages", MFD_CLOEXEC);
	if (new.messages_fd >= 0)
		new.pid = fork();
	if (new.messages_fd < 0 || new.pid < 0) {
		diag_set(diag, errno, "cannot start the compiler process");
		if (new.messages_fd >= 0)
			close(new.messages_fd);
		close(new.block_fd);
		return -1;
	}
	if (new.pid == 0) {
		role_die_with(parent);
		compile(&new, file);
	}
	*compiler = new;
	return 0;
}

void compiler_turn(const struct compiler *compiler, int64_t now_ns) {
	if (compiler->pid != 0 && now_ns >= compiler->until_ns)
		(void)kill(compiler->pid, SIGKILL);
}

static bool read_messages(int fd, struct config_messages *messages) {
	struct config_messages said;
	size_t bytes;

	if (pread(fd, &said, sizeof(said), 0) != (ssize_t)sizeof(said) ||
	    said.count > MESSAGES_KEPT)
		return false;
	bytes = said.count * sizeof(*said.list);
	said.list = NULL;
	if (bytes > 0 && ((said.list = malloc(bytes)) == NULL ||
	    pread(fd, said.list, bytes, sizeof(said)) != (ssize_t)bytes)) {
		free(said.list);
		return false;
	}
	*messages = said;
	return true;
}

struct generation *compiler_result(struct compiler *compiler, int status,
    struct config_messages *messages, struct diag *diag) {
	int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	struct generation *block = NULL;

	memset(messages, 0, sizeof(*messages));
	if ((code != EX_OK && code != EX_CONFIG) ||
	    !read_messages(compiler->messages_fd, messages))
		diag_set(diag, 0, "the compiler process %s",
		    code >= 0 ? "ran out of memory" : "was killed");
	else if (code == EX_OK)
		block = generation_memory_read(compiler->block_fd, diag);
	compiler_close(compiler);
	return block;
}

void compiler_end(struct compiler *compiler) {
	if (compiler->pid == 0)
		return;
	(void)kill(compiler->pid, SIGKILL);
	(void)process_await(compiler->pid, clock_now_ns() + END_NS);
	compiler_close(compiler);
}
