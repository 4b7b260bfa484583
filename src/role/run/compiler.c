/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  See compiler.h.
 * MODEL    A fork, as what it executes is here already; it writes the block into memory that
 *          it seals, and its report into another.  Both are read when it has ended.
 * ERRORS   One that dies or is killed compiled nothing.
 * THREADS  One, the supervisor's; libconfig's in the child.
 */
#include "role/run/compiler.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/process.h"
#include "base/text.h"
#include "config/read/restart_only.h"
#include "role/link/generation_memory.h"

#define LIFE_NS		(60 * NS_PER_SECOND)
#define END_NS		(3 * NS_PER_SECOND)
#define LARGE_PAGE	((size_t)2 << 20)
#define HEAP_PIECE	(64 * LARGE_PAGE)
#define MESSAGES_KEPT	1000	/* by the compiler */

static bool write_report(int fd, const struct compiler_report *report) {
	size_t bytes = report->messages.count * sizeof(*report->messages.list);

	return generation_memory_write(fd, report, sizeof(*report)) == 0 &&
	    (bytes == 0 || generation_memory_write(fd, report->messages.list, bytes) == 0);
}

static void note_setting(void *context, const char *setting) {
	struct compiler_report *report = context;

	if (report->needs_count < COMPILER_NEEDS_MAX)
		text_copy(report->needs_restart[report->needs_count++],
		    sizeof(report->needs_restart[0]), setting, strlen(setting));
}

/* One large piece of heap in large pages: with 100,000 masks a tenth of the time is page faults
 * otherwise, and as much again is the end of the process. */
static void enlarge_heap(void) {
#if defined(M_MMAP_MAX) && defined(MADV_HUGEPAGE)
	char *piece;

	(void)mallopt(M_MMAP_MAX, 0);
	(void)mallopt(M_TRIM_THRESHOLD, 2 * HEAP_PIECE);
	piece = malloc(HEAP_PIECE);
	if (piece == NULL)
		return;
	(void)madvise(piece + -(uintptr_t)piece % LARGE_PAGE, HEAP_PIECE - LARGE_PAGE,
	    MADV_HUGEPAGE);
	free(piece);
#endif
}

static void compiler_compile(const struct compiler *compiler, const char *file,
    const struct generation *running) __attribute__((noreturn));

static void compiler_compile(const struct compiler *compiler, const char *file,
    const struct generation *running) {
	struct compiler_report report = { .needs_count = 0 };
	struct generation *block;
	struct diag diag;

	enlarge_heap();
	block = config_compile_at_last(file, &report.messages);
	if (block != NULL && running != NULL) {
		restart_only_differences(running, block, note_setting, &report);
		block = restart_only_keep(block, running);
		if (block == NULL)
			_exit(EX_OSERR);
	}
	if (block != NULL && generation_memory_fill(compiler->block_fd, block, &diag) != 0)
		_exit(EX_OSERR);
	if (!write_report(compiler->report_fd, &report))
		_exit(EX_OSERR);
	_exit(block != NULL ? EX_OK : EX_CONFIG);
}

int compiler_start(struct compiler *compiler, const char *file,
    const struct generation *running, int64_t now_ns, struct diag *diag) {
	pid_t parent = getpid();
	struct compiler new = { .block_fd = generation_memory_open(diag),
		.until_ns = now_ns + LIFE_NS };

	if (new.block_fd < 0)
		return -1;
	new.report_fd = memfd_create("postern-report", MFD_CLOEXEC);
	if (new.report_fd >= 0)
		new.pid = fork();
	if (new.report_fd < 0 || new.pid < 0) {
		diag_set(diag, errno, "cannot start the compiler process");
		if (new.report_fd >= 0)
			close(new.report_fd);
		close(new.block_fd);
		return -1;
	}
	if (new.pid == 0) {
		process_die_with(parent);
		compiler_compile(&new, file, running);
	}
	*compiler = new;
	return 0;
}

void compiler_turn(const struct compiler *compiler, int64_t now_ns) {
	if (compiler->pid != 0 && now_ns >= compiler->until_ns)
		(void)kill(compiler->pid, SIGKILL);
}

bool compiler_report_read(int fd, struct compiler_report *report) {
	struct config_message *list = NULL;
	size_t bytes;

	if (pread(fd, report, sizeof(*report), 0) != (ssize_t)sizeof(*report) ||
	    report->messages.count > MESSAGES_KEPT || report->needs_count > COMPILER_NEEDS_MAX)
		return false;
	bytes = report->messages.count * sizeof(*list);
	if (bytes > 0 && ((list = malloc(bytes)) == NULL ||
	    pread(fd, list, bytes, sizeof(*report)) != (ssize_t)bytes)) {
		free(list);
		return false;
	}
	report->messages.list = list;
	report->fd = fd;
	return true;
}

void compiler_report_free(struct compiler_report *report) {
	config_messages_free(&report->messages);
	if (report->fd >= 0)
		close(report->fd);
	report->fd = -1;
}

int compiler_result(struct compiler *compiler, int status, struct compiler_report *report,
    struct diag *diag) {
	int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1, fd = -1;

	if ((code != EX_OK && code != EX_CONFIG) ||
	    !compiler_report_read(compiler->report_fd, report)) {
		*report = (struct compiler_report){ .fd = -1 };
		close(compiler->report_fd);
		diag_set(diag, 0, "the compiler process %s",
		    code >= 0 ? "ran out of memory" : "was killed");
	} else if (code == EX_OK) {
		fd = compiler->block_fd;
		compiler->block_fd = -1;
	}
	if (compiler->block_fd >= 0)
		close(compiler->block_fd);
	*compiler = (struct compiler){ .pid = 0 };
	return fd;
}

struct generation *compiler_run(const char *file, struct compiler_report *report,
    struct diag *diag) {
	struct compiler compiler = { .pid = 0 };
	struct generation *block;
	int status, fd;

	*report = (struct compiler_report){ .fd = -1 };
	if (compiler_start(&compiler, file, NULL, 0, diag) != 0)
		return NULL;
	while (waitpid(compiler.pid, &status, 0) < 0)
		if (errno != EINTR)
			return diag_set(diag, errno, "cannot wait for the compiler process"), NULL;
	fd = compiler_result(&compiler, status, report, diag);
	if (fd < 0)
		return NULL;
	block = generation_memory_map(fd, diag);
	close(fd);
	return block;
}

void compiler_end(struct compiler *compiler) {
	if (compiler->pid == 0)
		return;
	(void)kill(compiler->pid, SIGKILL);
	(void)process_await(compiler->pid, clock_now_ns() + END_NS);
	close(compiler->block_fd);
	close(compiler->report_fd);
	*compiler = (struct compiler){ .pid = 0 };
}
