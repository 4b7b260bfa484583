/* SPDX-License-Identifier: ISC */
/*
 * What a role's process gets across exec: a file in memory that only it has, beside the
 * descriptors that the file names.
 */
#ifndef ROLE_HANDOVER_H
#define ROLE_HANDOVER_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/diag.h"
#include "base/log.h"
#include "role/confine/privileges.h"
#include "role/link/role.h"

/* What the process is for. */
enum handover_duty {
	HANDOVER_SERVE,		/* to be the role */
	HANDOVER_PREPARE,	/* to make or adopt the segment (prepare.h) */
};

struct handover {
	enum handover_duty duty;
	struct role_context context;	/* without segment; its pointers are made again by
					 * handover_receive, and stay for the process's life */
	pid_t supervisor_pid;
	struct identity identity;	/* whom it is to become */
	char name[24];			/* "policy.0" */
	char state_path[PATH_MAX];
	enum log_target log_target;
	int log_facility;
	bool damaged;			/* PREPARE: do not adopt what is there */
	bool without_text;		/* PREPARE: nor read the text file beside it */
	bool has_terminal;		/* somebody at a terminal waits for our start */
	gid_t readers;			/* group of the state file */
	int result_fd;			/* PREPARE: for struct prepare_result; or -1 */
};

/* In the child, as the last thing before exec: returns a descriptor of the file, or -1 with
 * *diag.  From then on it and every descriptor that the context names survive exec, and no
 * other above standard error does. */
int handover_send(const struct handover *handover, struct diag *diag);

/* After exec: closes `fd`.  -1 with *diag: it is no such file. */
int handover_receive(int fd, struct handover *handover, struct diag *diag);

/* For what rows put behind it (role/link/row.h).  False: the file is at its end, or there is
 * no memory. */
bool handover_put(FILE *out, const void *bytes, size_t size);
bool handover_get(FILE *in, void *bytes, size_t size);

#endif
