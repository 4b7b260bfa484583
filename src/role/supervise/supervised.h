/* SPDX-License-Identifier: ISC */
/*
 * What the supervisor keeps, whole: its parts (children.h, reload.h, alerts.h ...) are functions
 * on it.
 */
#ifndef ROLE_SUPERVISED_H
#define ROLE_SUPERVISED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/log.h"
#include "base/siphash.h"
#include "base/subprocess.h"
#include "config/generation/generation.h"
#include "role/confine/privileges.h"
#include "role/link/row.h"
#include "role/run/alert.h"
#include "role/run/compiler.h"
#include "role/run/journal_places.h"
#include "role/run/keeper_orders.h"
#include "role/supervise/damage.h"
#include "role/supervise/sockets.h"
#include "segment/file/layout.h"
#include "wire/link/mta_order.h"

/* --- alerts.h -------------------------------------------------------------- */

#define ALERTS_WAITING_MAX	32
#define ALERTS_OWN_MAX	8	/* more, for those of the supervisor */
#define ALERTS_AT_ONCE_MAX	16	/* as alert.processes allows */
#define ALERTS_REMEMBERED	512

struct alerts {
	_Atomic uint64_t *counters;	/* the caller's: enum counter */
	struct alert waiting[ALERTS_WAITING_MAX + ALERTS_OWN_MAX];	/* a ring */
	unsigned first, count;
	struct alert_run {
		struct subprocess child;
		enum alert_kind kind;
	} running[ALERTS_AT_ONCE_MAX];
	struct siphash_key key;
	struct alert_told {
		enum alert_kind kind;
		uint64_t hash;		/* of the subject */
		int64_t told_ns;	/* 0: a free place */
	} remembered[ALERTS_REMEMBERED];
	int64_t rate_tat_ns, own_tat_ns;	/* of the keeper's, and of ours */
	uint64_t left_out;		/* since the last one that was told */
};

/* --- gate_command.h -------------------------------------------------------- */

enum gate_word { GATE_WORD_NONE, GATE_WORD_SHUT, GATE_WORD_OPEN };

struct gate_command {
	enum gate_word wanted;	/* waits to be run */
	enum gate_word last;	/* that was run, or is */
	struct subprocess child;	/* that runs now */
	int64_t started_ns;	/* the last one */
	int64_t changed_ns;	/* the last one that differed from the one before */
};

/* --- mta_command.h --------------------------------------------------------- */

enum mta_asker { MTA_ASKER_FEED, MTA_ASKER_KEEPER, MTA_ASKER_COUNT };

#define MTA_COMMANDS_AT_ONCE	8
#define MTA_KEEPER_AT_ONCE	2	/* of these; the others are the feed's */

struct mta_command {
	struct subprocess child;
	struct mta_order order;
	enum mta_asker asker;
	unsigned link;		/* its number: a later role of the kind did not ask */
};

struct mta_commands {
	int link_fds[MTA_ASKER_COUNT];	/* -1: that role is away */
	unsigned links[MTA_ASKER_COUNT];
	struct mta_command running[MTA_COMMANDS_AT_ONCE];
	int64_t requeue_tat_ns[GENERATION_MTAS_MAX];
	int64_t listed_ns[GENERATION_MTAS_MAX];	/* the last list; 0: none */
	unsigned list_link[GENERATION_MTAS_MAX];	/* by which link it was asked for */
	int64_t next_reload_ns[GENERATION_MTAS_MAX];
};

/* --- reload.h -------------------------------------------------------------- */

/* A configuration on its way: it is compiled, then the keeper publishes it. */
struct reload {
	struct compiler compiler;	/* as long as one runs there is no block */
	struct generation *block;	/* NULL: there is none */
	int fd;				/* of the memory that it is; with block */
	uint64_t number;		/* as which it was ordered to be published */
	int64_t began_ns;
	bool sent;			/* to the keeper that there is */
	bool is_reload;			/* else: a mail server's site has changed */
	struct compiler_report report;
	struct keeper_order answer;	/* to the keeper's reload `number`; 0: it did not ask */
};

/* --- all of it ------------------------------------------------------------- */

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
	const struct role_row_link *link;	/* of the optional row that has one; or NULL */
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

#endif
