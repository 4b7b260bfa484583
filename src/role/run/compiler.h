/* SPDX-License-Identifier: ISC */
/*
 * The configuration, compiled by a process of its own: with many classes it takes a second,
 * and its files may lie where a read takes any time; the supervisor has roles to start
 * meanwhile.
 */
#ifndef ROLE_COMPILER_H
#define ROLE_COMPILER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/diag.h"
#include "config/compile/compile.h"

#define COMPILER_NEEDS_MAX 64

/* What it has to say of the file.  Begins as zeros with fd -1. */
struct compiler_report {
	int fd;			/* the file that it was read from: it can be passed on; or -1 */
	struct config_messages messages;
	size_t needs_count;	/* settings that wait for a restart */
	char needs_restart[COMPILER_NEEDS_MAX][SETTING_NAME_MAX];
};

/* Begins as zeros. */
struct compiler {
	pid_t pid;		/* 0: none runs; then the rest means nothing */
	int block_fd, report_fd;	/* where it writes what came of it */
	int64_t until_ns;	/* it is killed then */
};

/* Starts one, which ends with this process at the latest, and after 60 s.  None may run yet.
 * What waits for a restart is as in `running`, where there is one.  0, or -1 with *diag. */
int compiler_start(struct compiler *compiler, const char *file,
    const struct generation *running, int64_t now_ns, struct diag *diag);

/* Kills it when its time is over. */
void compiler_turn(const struct compiler *compiler, int64_t now_ns);

/* It was waited for, and ended with `status`: the descriptor of a generation in memory, the
 * caller's to close, with *report, which is to be freed; -1 with errors in it where the file
 * has mistakes, without any and with *diag where it could not be compiled. */
int compiler_result(struct compiler *compiler, int status, struct compiler_report *report,
    struct diag *diag);

/* Reads a report that was passed on, for compiler_report_free.  False: it is none; nothing is
 * to be freed. */
bool compiler_report_read(int fd, struct compiler_report *report);
void compiler_report_free(struct compiler_report *report);

/* The first configuration of all, waited for: it and the report as compiler_result has them. */
struct generation *compiler_run(const char *file, struct compiler_report *report,
    struct diag *diag);

/* Kills one that runs, and waits for its end. */
void compiler_end(struct compiler *compiler);

#endif
