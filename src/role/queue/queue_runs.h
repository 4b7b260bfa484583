/* SPDX-License-Identifier: ISC */
/*
 * Runs of sendmail for the queue role: an argument list, the user of the configuration, a
 * clean environment, no descriptors of ours.  They are Sendmail's own: they outlive the
 * role that asked for them and the supervisor itself, and are ended only when they take
 * longer than mta[].run_limit (SIGTERM, a minute later SIGKILL).
 */
#ifndef ROLE_QUEUE_RUNS_H
#define ROLE_QUEUE_RUNS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "base/subprocess.h"
#include "config/generation/generation.h"
#include "role/queue/queue_places.h"
#include "wire/queue/queue_order.h"

struct queue_run_process {
	struct subprocess child;
	LIST_ENTRY(queue_run_process) next;
	char *mta;		/* its name */
	char *path;		/* of the directory */
	struct queue_order_ids ids;
	unsigned place;		/* of its mail server in the generation */
	uint64_t generation;
};

/* A mail server of the generation. */
struct queue_program {
	char user[64];		/* "": it is not known */
	uid_t uid;
	gid_t gid;
	int exec_error;		/* of the last one that could not be executed; 0: it could */
};

struct queue_runs {
	LIST_HEAD(, queue_run_process) list;
	struct subprocess_list *processes;/* the supervisor's */
	void (*tell)(const struct queue_tell *news);	/* the role, of ends */
	bool fork_fails;	/* as it was last tried: logged once */
	bool known;		/* the programs are those of `generation` */
	uint64_t generation;
	struct queue_program programs[GENERATION_MTAS_MAX];
};

/* There is another configuration.  Its number does not tell: the keeper chooses that. */
void queue_runs_forget(struct queue_runs *runs);

/* Starts one: its pid, or -1 with errno (EAGAIN: it has as many as it may, or the
 * process table is full; ENOSPC: Sendmail could not write what it
 * delivered, and would deliver it again). */
pid_t queue_runs_start(struct queue_runs *runs, const struct generation *generation,
    const struct generation_mta *mta, struct queue_directory *place,
    const struct queue_order *order, int64_t now_ns);

#endif
