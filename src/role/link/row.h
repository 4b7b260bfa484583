/* SPDX-License-Identifier: ISC */
/*
 * What an optional row of the grid brings into role/.  run/ and supervise/ reach it through
 * this table alone: a build without the row (configure --disable-queue) has no entry for it.
 */
#ifndef ROLE_ROW_H
#define ROLE_ROW_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/diag.h"
#include "role/link/role.h"

struct pollfd;
struct supervisor;

/* The supervisor's end of the role's link.  Its thread; nothing waits. */
struct role_row_link {
	void (*init)(struct supervisor *supervisor);
	/* For a new role: its end, or -1 with *diag. */
	int (*open)(struct supervisor *supervisor, struct diag *diag);
	/* The role is gone. */
	void (*close)(struct supervisor *supervisor);
	void (*poll)(const struct supervisor *supervisor, struct pollfd *polled);
	void (*turn)(struct supervisor *supervisor, int64_t now_ns);
	/* When `turn` has something to do by itself, or INT64_MAX. */
	int64_t (*next_ns)(const struct supervisor *supervisor);
	/* Another configuration is active. */
	void (*reloaded)(struct supervisor *supervisor);
};

struct role_row {
	enum role_kind kind;
	/* as those of role.h */
	int (*main)(const struct role_context *context, struct engine *engine, struct diag *diag);
	/* In the new process, while it is root: opens what only root can.  NULL: nothing.  -1
	 * with *diag. */
	int (*open)(const struct generation *generation, struct role_context *context,
	    struct diag *diag);
	/* What follows the context across exec (handover.h); what `get` allocates stays until
	 * the process ends.  False: the file ended, or there is no memory. */
	bool (*put)(FILE *out, const struct role_context *context);
	bool (*get)(FILE *in, struct role_context *context, struct diag *diag);
	/* Calls keep_fd for each descriptor in it.  NULL: there is none. */
	void (*keep)(const struct role_context *context, void (*keep_fd)(int fd));
	/* The keeper's, each second.  NULL: nothing. */
	void (*watch)(struct engine *engine, int64_t now_ns);
	const struct role_row_link *link;	/* NULL: none; one row at most has one */
};

/* Those of this build; NULL ends the list. */
extern const struct role_row *const role_rows[];

/* NULL: the kind is of no optional row, or this build is without it. */
const struct role_row *role_row_of(enum role_kind kind);

#endif
