/* SPDX-License-Identifier: ISC */
/*
 * The supervisor: the one process that stays root.  It opens the segment and
 * the sockets, forks the roles, starts again what dies, kills what hangs, and
 * puts new configurations in force.  One thread, one loop, no trust in roles.
 */
#ifndef ROLE_SUPERVISOR_H
#define ROLE_SUPERVISOR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "config/compile.h"
#include "config/generation.h"
#include "role/alert_watch.h"
#include "role/alerts.h"
#include "role/gate_command.h"
#include "role/journal_places.h"
#include "role/keeper_link.h"
#include "role/mta_command.h"
#include "role/privileges.h"
#include "role/queue_link.h"
#include "role/sandbox.h"
#include "role/sockets.h"
#include "segment/layout.h"

struct segment;

/* One role that should run. */
struct child {
	enum role_kind kind;
	unsigned number;	/* policy.0 ... */
	unsigned listener;	/* milter: the one that it serves */
	unsigned place;		/* in the segment's roles */
	char name[24];		/* "policy.0" */
	pid_t pid;		/* 0: away */
	int64_t started_ns;
	int64_t start_ns;	/* away: when to start it */
	unsigned quick_deaths;	/* in a row, soon after the start */
	const char *killed;	/* by us, and why: "it ..."; NULL: not */
	uint64_t journal[2];	/* device and inode of journal.path at its start */
};

struct supervisor {
	const char *config_file;	/* absolute */
	struct generation *generation;	/* in force */
	struct segment *segment;
	struct identity identity;
	struct sockets sockets;
	struct keeper_link link;
	struct gate_command gate;
	struct alerts alerts;
	struct alert_watch watch;
	struct mta_commands mta;
	struct queue_link queue;
	struct journal_places journal;
	struct sandbox_reports *sandbox;	/* NULL: nobody tells */
	pid_t pid;
	int lock_fd;
	int signal_fd;
	int ready_fd;		/* who waits for our start; -1: nobody any more */
	bool ready;		/* was announced */
	int64_t began_ns;
	int64_t present_ns;	/* we have been awake without a break since */
	struct child children[SEGMENT_ROLES_MAX];
	unsigned child_count;
};

/* Runs the daemon with a freshly compiled generation, which it takes over,
 * until it is told to stop.  `ready_fd` is background_begin's, or -1 in the
 * foreground.  Returns the exit code. */
int supervisor_run(const char *config_file, struct generation *generation,
    const struct config_messages *messages, int ready_fd);

/* Logs what a compilation said, an event each. */
void supervisor_log_messages(const struct config_messages *messages);

#endif
