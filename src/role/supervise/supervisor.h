/* SPDX-License-Identifier: ISC */
/*
 * The supervisor: the one process that stays root.  It opens the sockets, executes the
 * roles, starts again what dies, kills what hangs, and compiles new configurations.  It maps
 * no segment: what it needs of it, the keeper does and reports.  One thread, one loop, no
 * trust in roles.
 */
#ifndef ROLE_SUPERVISOR_H
#define ROLE_SUPERVISOR_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/log.h"
#include "config/compile/compile.h"
#include "config/generation/generation.h"
#include "role/supervise/alerts.h"
#include "role/supervise/damage.h"
#include "role/supervise/gate_command.h"
#include "role/run/journal_places.h"
#include "role/run/keeper_orders.h"
#include "role/supervise/mta_command.h"
#include "role/confine/privileges.h"
#include "role/supervise/reload.h"
#include "role/confine/sandbox.h"
#include "role/supervise/sockets.h"
#include "segment/file/layout.h"

struct queue_link;

/* One role that should run. */
struct child {
	enum role_kind kind;
	unsigned number;	/* policy.0 ... */
	unsigned listener;	/* milter: the one that it serves */
	unsigned place;		/* in the segment's roles */
	char name[24];		/* "policy.0" */
	pid_t pid;		/* 0: down */
	pid_t reported_pid;		/* of which this keeper knows that it was started; or 0 */
	pid_t dead_pid;		/* of which the keeper may not have heard; or 0 */
	int lifeline_fd;	/* with pid: what it has to report (base/lifeline.h) */
	int nudge_fd;		/* and what it is told (base/nudge.h) */
	int64_t started_ns;
	int64_t beat_ns;	/* its last heartbeat, or its start */
	int stopped_call;	/* for which its sandbox stopped it; -1: none */
	int64_t start_ns;	/* away: when to start it */
	unsigned quick_deaths;	/* in a row, soon after the start */
	const char *killed;	/* by us, and why: "it ..."; NULL: not */
	uint64_t journal[2];	/* device and inode of journal.path at its start */
};

struct supervisor {
	const char *config_file;	/* absolute */
	struct generation *generation;	/* in force */
	int generation_fd;	/* the same, sealed, as the keeper gets it */
	struct identity identity;
	gid_t readers;		/* group of the state file */
	struct sockets sockets;
	struct subprocess_list programs;	/* that run for the gate, alerts, roles */
	struct gate_command gate;
	struct alerts alerts;
	struct keeper_orders orders;
	struct reload reload;
	bool is_to_reload;	/* SIGHUP came */
	uint64_t reload_asked;	/* by this number of the keeper's; or 0 */
	int64_t asked_tat_ns;	/* the rate of these */
	int64_t compile_tat_ns;	/* the same for the time that these take to compile */
	uint64_t last_number;	/* that was given to a generation; none is given twice */
	uint64_t again_number;	/* as which the one in force was ordered again */
	bool is_to_repeat;	/* it is to be */
	int64_t repeated_ns;	/* when it last was */
	bool journal_failed;	/* as the keeper reported */
	uint64_t alerts_from;	/* for the next keeper */
	struct mta_commands mta;
	struct queue_link *queue;	/* role/queue/queue_link.h; NULL: this build has none */
	struct journal_places journal;
	pid_t pid;
	int lock_fd;
	int state_fd;		/* the segment's file, for roles: it is not mapped here */
	bool state_is_gone;	/* its name was removed or taken, and that was logged */
	int onlooker_fd;	/* segment/onlooker.h, for metrics and keeper: not mapped here */
	int signal_fd;
	int exe_fd;		/* this program, as roles are to run it */
	enum log_target log_target;
	int ready_fd;		/* who waits for our start; -1: nobody any more */
	bool ready;		/* was announced */
	int64_t began_ns;
	int64_t present_ns;	/* we have been awake without a break since */
	struct damage damage;	/* of the segment, by what the roles die of */
	bool has_no_state;	/* it was to be built again, and could not be: nothing is started */
	struct child children[SEGMENT_ROLES_MAX];
	unsigned child_count;
};

/* Polls.  Where that takes longer than it may we were stopped, or the machine was suspended,
 * and nobody was silent then.  Work of ours does not count: a role could make it long to go
 * unnoticed. */
void supervisor_wait(struct supervisor *supervisor, struct pollfd *polled, nfds_t count,
    int wait_ms);

/* Runs the daemon with a first generation (generation_memory_map), which it takes over,
 * until it is told to stop.  `ready_fd` is background_begin's, or -1 in the
 * foreground.  Returns the exit code. */
int supervisor_run(const char *config_file, struct generation *generation,
    const struct config_messages *messages, int ready_fd);

/* Logs what a compilation said, an event each. */
void supervisor_log_messages(const struct config_messages *messages);

#endif
