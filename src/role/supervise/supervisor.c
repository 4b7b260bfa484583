/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The daemon's parent process: start, loop, stop.
 * MODEL    One poll for signals, what roles ask for, and the next thing that is
 *          due.  Each turn looks at everything (the dead, the silent, those to
 *          start), so that no lost wake-up matters.  Its death takes all roles
 *          with it; the next supervisor adopts the segment.  There is no orderly
 *          stop of a role: it is killed.
 * ERRORS   After the start nothing stops it but a signal.
 * THREADS  One.
 */
#include "role/supervise/supervisor.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/sd_notify.h"
#include "role/link/background.h"
#include "role/supervise/alerts.h"
#include "role/supervise/gate_command.h"
#include "role/supervise/mta_command.h"
#include "role/supervise/children.h"
#include "role/link/generation_memory.h"
#include "role/supervise/reload.h"
#include "role/supervise/site_watch.h"
#include "role/supervise/startup.h"

#ifndef PACKAGE_VERSION
#define PACKAGE_VERSION "unknown"
#endif

#define TURN_NS		NS_PER_SECOND
#define BUSY_TURN_NS	(TURN_NS / 4)	/* while something of no known end is under way */
#define START_TURN_NS	(TURN_NS / 200)	/* while somebody waits for our start */
#define ABSENCE_NS	NS_PER_SECOND
#define READY_LIMIT_NS	(5 * NS_PER_SECOND)
#define FILES		65536

enum polled {
	POLLED_SIGNALS,
	POLLED_ORDERS,
	POLLED_MTAS,	/* each asker's */
	POLLED_LINK = POLLED_MTAS + MTA_ASKER_COUNT,
	POLLED_COUNT
};

/* When the things of the loop were last done. */
struct rhythm {
	int64_t beat_ns;
	int64_t watchdog_ns;
	int64_t watchdog_every_ns;	/* 0: nobody watches */
};

/* Returns false when we are to stop. */
static bool take_signals(struct supervisor *supervisor) {
	struct signalfd_siginfo info;

	while (read(supervisor->signal_fd, &info, sizeof(info)) ==
	    (ssize_t)sizeof(info)) {
		if (info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT) {
			log_event(EVENT_STOPPING, "signal=%u from_pid=%u",
			    info.ssi_signo, info.ssi_pid);
			return false;
		}
		supervisor->is_to_reload |= info.ssi_signo == SIGHUP;
	}
	return true;
}

/* One at a time, and root's, by SIGHUP, first: the keeper could ask for one all the time. */
static void reload_if_asked(struct supervisor *supervisor, int64_t now_ns) {
	if (reload_is_busy(&supervisor->reload))
		return;
	if (supervisor->is_to_reload) {
		supervisor->is_to_reload = false;
		reload_begin(supervisor, 0);
	} else if (supervisor->reload_asked != 0 && reload_may_be_asked(supervisor, now_ns)) {
		uint64_t asked = supervisor->reload_asked;

		supervisor->reload_asked = 0;
		reload_begin(supervisor, asked);
	}
}

static void kill_keeper(struct supervisor *supervisor) {
	unsigned i;

	keeper_orders_close(&supervisor->orders);
	for (i = 0; i < supervisor->child_count; i++)
		if (supervisor->children[i].kind == ROLE_KEEPER &&
		    supervisor->children[i].pid != 0)
			(void)kill(supervisor->children[i].pid, SIGKILL);
}

static void keeper_is_broken(struct supervisor *supervisor, const char *why) {
	log_event(EVENT_BAD_REQUEST, "from=keeper text=\"%s\"", why);
	kill_keeper(supervisor);
}

static void hear_keeper(struct supervisor *supervisor, int64_t now_ns) {
	static struct keeper_report report;
	const char *why = "";
	int got;

	while ((got = keeper_orders_read(&supervisor->orders, now_ns, &report, &why)) > 0) {
		switch ((enum keeper_report_kind)report.kind) {
		case KEEPER_REPORT_PUBLISHED:
		case KEEPER_REPORT_REFUSED:
		case KEEPER_REPORT_MISSING:
			if (!reload_hear(supervisor, &report)) {
				keeper_is_broken(supervisor, "unexpected report");
				return;
			}
			break;
		case KEEPER_REPORT_STATE:
			supervisor->journal_failed = report.journal_failed != 0;
			supervisor->alerts_from = report.alerts_from;
			break;
		case KEEPER_REPORT_RELOAD:
			supervisor->reload_asked = report.number;
			break;
		case KEEPER_REPORT_GATE_SHUT:
			gate_command_want(supervisor, GATE_WORD_SHUT);
			break;
		case KEEPER_REPORT_GATE_OPEN:
			gate_command_want(supervisor, GATE_WORD_OPEN);
			break;
		case KEEPER_REPORT_ALERT:
			alerts_tell(&supervisor->alerts, supervisor->generation, &report.alert,
			    now_ns);
			break;
		}
	}
	if (got < 0)
		keeper_is_broken(supervisor, why);
}

static void supervisor_announce(struct supervisor *supervisor, int64_t now_ns) {
	if (supervisor->ready || (!children_ready(supervisor) &&
	    now_ns - supervisor->began_ns < READY_LIMIT_NS))
		return;
	supervisor->ready = true;
	log_event(EVENT_STARTED,
	    "version=%s generation=%" PRIu64 " roles=%u classes=%u",
	    PACKAGE_VERSION, supervisor->generation->number,
	    supervisor->child_count, supervisor->generation->class_count);
	background_tell(supervisor->ready_fd, EX_OK);
	supervisor->ready_fd = -1;
	sd_notify_send("READY=1");
}

/* Somebody removed the state file, or put another there: roles go on with the one that they have,
 * and posternctl does not find it. */
static void look_at_state_file(struct supervisor *supervisor) {
	const char *path = generation_text(supervisor->generation,
	    supervisor->generation->state_path);
	struct stat named, own;
	char quoted[PATH_MAX];
	bool is_gone;

	if (supervisor->state_fd < 0 || fstat(supervisor->state_fd, &own) != 0)
		return;
	/* no link of a role's leads us anywhere */
	is_gone = lstat(path, &named) != 0 ? errno == ENOENT :
	    named.st_ino != own.st_ino || named.st_dev != own.st_dev;
	if (is_gone && !supervisor->state_is_gone)
		log_event(EVENT_SYSTEM, "path=%s text=\"the state file was removed or replaced: "
		    "posternctl cannot read the state until posternd is restarted\"",
		    log_quote(quoted, sizeof(quoted), path, strlen(path)));
	supervisor->state_is_gone = is_gone;
}

/* What the mail servers' files are like, each second. */
static void look_at_sites(struct supervisor *supervisor) {
	struct generation *changed;

	if (reload_is_busy(&supervisor->reload))
		return;
	changed = site_watch_look(supervisor->generation);
	if (changed != NULL)
		reload_site(supervisor, changed);
	free(changed);
}

static void keep_rhythm(struct supervisor *supervisor, struct rhythm *rhythm,
    int64_t now_ns) {
	if (now_ns - rhythm->beat_ns >= NS_PER_SECOND) {
		rhythm->beat_ns = now_ns;
		look_at_sites(supervisor);
		sockets_mend(&supervisor->sockets, supervisor->generation);
		look_at_state_file(supervisor);
		journal_places_turn(&supervisor->journal, supervisor->generation,
		    &supervisor->identity, supervisor->journal_failed, now_ns);
		if (supervisor->journal_failed)
			children_check_journal(supervisor);
		log_flush();
	}
	if (rhythm->watchdog_every_ns > 0 &&
	    now_ns - rhythm->watchdog_ns >= rhythm->watchdog_every_ns) {
		rhythm->watchdog_ns = now_ns;
		sd_notify_send("WATCHDOG=1");
	}
}

static int64_t turn_ns(const struct supervisor *supervisor) {
	if (!supervisor->ready)
		return START_TURN_NS;
	return reload_is_busy(&supervisor->reload) || supervisor->reload_asked != 0 ?
	    BUSY_TURN_NS : TURN_NS;
}

static int64_t earlier(int64_t a_ns, int64_t b_ns) {
	return a_ns < b_ns ? a_ns : b_ns;
}

static int wait_ms(const struct supervisor *supervisor, const struct rhythm *rhythm,
    int64_t now_ns) {
	int64_t next_ns = earlier(children_next_ns(supervisor, now_ns),
	    earlier(gate_command_next_ns(supervisor),
		earlier(supervisor->link == NULL ? INT64_MAX : supervisor->link->next_ns(supervisor),
		    subprocess_list_next_ns(&supervisor->programs))));
	int64_t most_ns = turn_ns(supervisor), wait_ns;

	if (rhythm->watchdog_every_ns > 0)
		next_ns = earlier(next_ns, rhythm->watchdog_ns + rhythm->watchdog_every_ns);
	wait_ns = next_ns - now_ns < most_ns ? next_ns - now_ns : most_ns;
	if (wait_ns < 0)
		wait_ns = 0;
	return (int)((wait_ns + NS_PER_MS - 1) / NS_PER_MS);
}

void supervisor_wait(struct supervisor *supervisor, struct pollfd *polled, nfds_t count,
    int wait_ms) {
	int64_t end_ns = clock_now_ns() + wait_ms * NS_PER_MS, now_ns;

	(void)poll(polled, count, wait_ms);
	now_ns = clock_now_ns();
	if (now_ns - end_ns > ABSENCE_NS)
		supervisor->present_ns = now_ns;
}

static void supervisor_reap(struct supervisor *supervisor, int64_t now_ns) {
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		if (!subprocess_list_bury(&supervisor->programs, pid, status) &&
		    !reload_bury(supervisor, pid, status))
			children_bury(supervisor, pid, status, now_ns);
}

static void supervisor_loop(struct supervisor *supervisor) {
	int64_t now_ns = clock_now_ns();
	struct rhythm rhythm = { .watchdog_ns = now_ns,
		.watchdog_every_ns = sd_notify_watchdog_ns() };
	bool go_on = true;

	supervisor->began_ns = supervisor->present_ns = now_ns;
	while (go_on) {
		struct pollfd polled[POLLED_COUNT] = {
			[POLLED_SIGNALS] = { supervisor->signal_fd, POLLIN, 0 },
			[POLLED_LINK] = { .fd = -1 },
		};

		supervisor_reap(supervisor, now_ns);
		if (damage_is_found(&supervisor->damage, now_ns)) {
			children_rebuild(supervisor, now_ns);
			/* who is started now has not been silent meanwhile */
			now_ns = clock_now_ns();
		}
		children_check(supervisor, now_ns);
		if (children_start(supervisor, now_ns))
			reload_send_again(supervisor);
		subprocess_list_turn(&supervisor->programs, now_ns);
		gate_command_turn(supervisor, now_ns);
		keeper_orders_turn(&supervisor->orders);
		reload_turn(supervisor, now_ns);
		alerts_turn(supervisor, now_ns);
		mta_commands_turn(supervisor, now_ns);
		if (supervisor->link != NULL)
			supervisor->link->turn(supervisor, now_ns);
		supervisor_announce(supervisor, now_ns);
		keeper_orders_poll(&supervisor->orders, now_ns, &polled[POLLED_ORDERS]);
		if (supervisor->link != NULL)
			supervisor->link->poll(supervisor, &polled[POLLED_LINK]);
		mta_commands_poll(&supervisor->mta, polled + POLLED_MTAS);
		supervisor_wait(supervisor, polled, POLLED_COUNT,
		    wait_ms(supervisor, &rhythm, now_ns));
		hear_keeper(supervisor, now_ns);
		if (polled[POLLED_SIGNALS].revents != 0)
			go_on = take_signals(supervisor);
		reload_if_asked(supervisor, now_ns);
		now_ns = clock_now_ns();
		keep_rhythm(supervisor, &rhythm, now_ns);
	}
}

int supervisor_run(const char *config_file, struct generation *generation,
    const struct config_messages *messages, int ready_fd) {
	static struct supervisor supervisor;
	int code;

	supervisor = (struct supervisor){ .config_file = config_file,
		.generation = generation, .pid = getpid(), .lock_fd = -1, .state_fd = -1,
		.onlooker_fd = -1, .signal_fd = -1, .exe_fd = -1, .generation_fd = -1,
		.ready_fd = ready_fd };
	/* a queue of many directories, runs, links: each has some */
	privileges_raise_files(FILES);
	keeper_orders_init(&supervisor.orders);
	alerts_init(&supervisor.alerts, supervisor.orders.counts);
	mta_commands_init(&supervisor.mta);
	for (const struct role_row *const *row = role_rows; *row != NULL; row++)
		if ((*row)->link != NULL)
			supervisor.link = (*row)->link;
	if (supervisor.link != NULL)
		supervisor.link->init(&supervisor);
	code = startup(&supervisor, messages);
	if (code == 0) {
		supervisor_loop(&supervisor);
		sd_notify_send("STOPPING=1");
		children_end(&supervisor);
		subprocess_list_stop(&supervisor.programs);
		if (supervisor.link != NULL)
			supervisor.link->close(&supervisor);
		sockets_remove(&supervisor.sockets);
		if (!supervisor.ready)
			code = EX_TEMPFAIL;
	}
	background_tell(supervisor.ready_fd, code);
	reload_end(&supervisor.reload);
	generation_memory_unmap(supervisor.generation);
	return code;
}
