/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Make a role out of a fork of the supervisor.
 * MODEL    The child first makes sure that it dies with its parent, takes the
 *          roles' lock while it still has the daemon's (so that a new supervisor can
 *          never miss it), opens what only root can, and executes this program once
 *          more: no address of the supervisor is known there, and of its descriptors
 *          only those that the role was given are open.  It drops its privileges there
 *          (role_begin.c): others of the roles' user could look at what that one executes.
 * ERRORS   A child that cannot become its role exits; the supervisor tries
 *          again.
 * THREADS  One on both sides.
 */
#include "role/supervise/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/lifeline.h"
#include "base/log.h"
#include "base/nudge.h"
#include "base/process.h"
#include "base/text.h"
#include "role/link/background.h"
#include "role/run/feed_role.h"
#include "role/run/handover.h"
#include "role/link/netlink.h"
#include "role/link/row.h"
#include "role/run/role_begin.h"
#include "segment/file/segment.h"

/* policy.connections may be raised while the role lives. */
#define FILES_AT_LEAST	65536
#define FILES_BESIDES	1024
#define OOM_MORE	100
#define OOM_MOST	1000	/* OOM_SCORE_ADJ_MAX */

static void give_up(const char *what, const struct diag *diag, int code)
    __attribute__((noreturn));

static void give_up(const char *what, const struct diag *diag, int code) {
	log_event(EVENT_SYSTEM, "text=\"%s: %s\"", what, diag->text);
	_exit(code);
}

static bool is_own(const struct child *child, unsigned listener, uint8_t kind) {
	switch (child->kind) {
	case ROLE_POLICY:
		return kind == LISTENER_POLICY || kind == LISTENER_SOCKETMAP;
	case ROLE_MILTER:
		return (kind == LISTENER_MILTER || kind == LISTENER_MILTER_ACCOUNTS) &&
		    listener == child->listener;
	case ROLE_KEEPER:
		return kind == LISTENER_CONTROL;
	case ROLE_FEED:
		return kind == LISTENER_SYSLOG || kind == LISTENER_EVENTS;
	case ROLE_QUEUE:
		return kind == LISTENER_QUEUE;
	case ROLE_METRICS:
		return kind == LISTENER_METRICS;
	case ROLE_CLUSTER:
	case ROLE_NONE:
	case ROLE_SUPERVISOR:
		break;
	}
	return false;
}

static void take_sockets(struct supervisor *supervisor, const struct child *child,
    struct role_context *context) {
	unsigned i;

	sockets_mend(&supervisor->sockets, supervisor->generation);
	for (i = 0; i < supervisor->sockets.count; i++) {
		uint8_t kind = supervisor->generation->listeners[i].kind;
		int fd = supervisor->sockets.list[i].fd;

		if (fd < 0)
			continue;
		if (!is_own(child, i, kind))
			continue;
		context->sockets[context->socket_count++] = (struct role_socket){
			.fd = fd, .listener = (uint8_t)i, .kind = kind,
			.access = &supervisor->sockets.list[i].access };
	}
}

/* The role's ends of its links to the supervisor. */
struct links {
	int mta_fd;		/* keeper and feed, or -1 */
	int row_fd;		/* of an optional row (role/link/row.h), or -1 */
	int lifeline_fd;
	int nudge_fd;
	int orders_fd;		/* keeper, or -1 */
};

/* What only root can open, opened. */
static void open_for_role(const struct supervisor *supervisor, struct role_context *context) {
	const struct generation *generation = supervisor->generation;
	const struct role_row *row = role_row_of(context->kind);
	struct diag diag;

	if (!netlink_open(generation, context))
		_exit(EX_OSERR);
	feed_role_open(generation, context);
	if (row != NULL && row->open != NULL && row->open(generation, context, &diag) != 0)
		give_up("cannot open what its worker needs", &diag, EX_OSERR);
	/* the other descriptor stays behind at exec */
	if (context->kind == ROLE_METRICS && (context->state_fd = segment_open_to_look(
		supervisor->state_fd, &diag)) < 0)
		give_up("cannot pass the state on", &diag, EX_OSERR);
}

static void execute(const struct supervisor *supervisor, const struct handover *handover)
    __attribute__((noreturn));

static void execute(const struct supervisor *supervisor, const struct handover *handover) {
	struct diag diag;
	char word[64], number[16];
	char *arguments[] = { (char *)(uintptr_t)"posternd", word, number, NULL };
	int fd = handover_send(handover, &diag);

	if (fd < 0)
		give_up("cannot pass the context on", &diag, EX_OSERR);
	text_append(word, sizeof(word), 0, ROLE_BEGIN_OPTION "%s", handover->name);
	text_append(number, sizeof(number), 0, "%d", fd);
	(void)syscall(SYS_execveat, supervisor->exe_fd, "", arguments, environ, AT_EMPTY_PATH);
	diag_set(&diag, errno, "cannot execute posternd");
	give_up("cannot start", &diag, EX_OSERR);
}

/* The terminal of -f is root's: it keeps Ctrl-C, and nobody else reads from it or types into
 * it.  What is logged there goes there; to a file or a pipe, too, by an opening of the role's
 * own, as position and flags are one for all that share one.  A socket, and a pipe without a
 * reader, cannot be opened. */
static void leave_terminal(void) {
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	int log_fd = open("/proc/self/fd/2",
	    O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	if (log_fd < 0 && isatty(STDERR_FILENO))	/* it hung up */
		log_fd = null_fd;
	if (log_fd >= 0 && dup2(log_fd, STDERR_FILENO) < 0)
		_exit(EX_OSERR);
	if (setsid() < 0 || null_fd < 0 || dup2(null_fd, STDIN_FILENO) < 0 ||
	    dup2(null_fd, STDOUT_FILENO) < 0)
		_exit(EX_OSERR);
}

/* Where memory ends, a role can be started again. */
static void go_before_the_supervisor(void) {
	int fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC), score = 0;
	char text[16] = "";

	if (fd < 0)
		return;
	if (read(fd, text, sizeof(text) - 1) > 0)
		score = (int)strtol(text, NULL, 10);
	score = score + OOM_MORE < OOM_MOST ? score + OOM_MORE : OOM_MOST;
	text_append(text, sizeof(text), 0, "%d", score);
	(void)!write(fd, text, strlen(text));
	close(fd);
}

/* The first steps of each new process: what all of them hand over. */
static void begin_process(const struct supervisor *supervisor, const char *name,
    struct handover *handover) {
	const struct generation *generation = supervisor->generation;
	const char *state_path = generation_text(generation, generation->state_path);
	struct diag diag;

	process_die_with(supervisor->pid);
	leave_terminal();
	go_before_the_supervisor();
	log_set_role(name);
	handover->supervisor_pid = supervisor->pid;
	handover->identity = supervisor->identity;
	handover->log_target = supervisor->log_target;
	handover->log_facility = generation_log_facility(generation);
	handover->readers = supervisor->readers;
	text_copy(handover->name, sizeof(handover->name), name, strlen(name));
	text_copy(handover->state_path, sizeof(handover->state_path), state_path,
	    strlen(state_path));
	handover->context.roles_lock_fd = segment_lock_role(supervisor->lock_fd, &diag);
	if (handover->context.roles_lock_fd < 0)
		give_up("cannot take the workers' lock", &diag, EX_TEMPFAIL);
}

static void end_process(const struct supervisor *supervisor, const struct handover *handover)
    __attribute__((noreturn));

static void end_process(const struct supervisor *supervisor,
    const struct handover *handover) {
	/* who publishes, and writes the hints, gives these files to their readers */
	const gid_t more[2] = { supervisor->readers, supervisor->identity.hints_group };
	/* and who reads systemd's journal is in its group */
	const gid_t reading[2] = { handover->context.kind == ROLE_FEED ?
	    feed_role_group(supervisor->generation) : (gid_t)-1, (gid_t)-1 };
	struct diag diag;

	if (privileges_join(&supervisor->identity,
		handover->context.kind == ROLE_KEEPER ? more : reading, &diag) != 0)
		give_up("cannot drop privileges", &diag, EX_NOPERM);
	execute(supervisor, handover);
}

static void plan_places(const struct supervisor *supervisor, struct role_context *context) {
	for (unsigned i = 0; i < supervisor->child_count; i++)
		context->planned[supervisor->children[i].place] = true;
}

static void run_role(struct supervisor *supervisor, const struct child *child,
    const struct links *links) __attribute__((noreturn));

static void run_role(struct supervisor *supervisor, const struct child *child,
    const struct links *links) {
	static struct handover handover;	/* for a stack it is large */
	struct role_context *context = &handover.context;
	bool is_keeper = child->kind == ROLE_KEEPER;

	handover = (struct handover){ .duty = HANDOVER_SERVE, .result_fd = -1,
		.context = { .kind = child->kind, .number = child->number,
			.role_slot = child->place, .state_fd = supervisor->state_fd,
			.onlooker_fd = is_keeper || child->kind == ROLE_METRICS ?
			    supervisor->onlooker_fd : -1,
			.orders_fd = links->orders_fd, .mta_fd = links->mta_fd,
			.queue_fd = links->row_fd, .lifeline_fd = links->lifeline_fd,
			.nudge_fd = links->nudge_fd,
			.generation_fd = supervisor->generation_fd,
			.generation_number = supervisor->generation->number,
			.alerts_from = supervisor->alerts_from,
			.hints_group = supervisor->identity.hints_group } };
	begin_process(supervisor, child->name, &handover);
	background_leave(supervisor->ready_fd);
	take_sockets(supervisor, child, context);
	plan_places(supervisor, context);
	privileges_raise_files(FILES_BESIDES +
	    (supervisor->generation->policy_connections > FILES_AT_LEAST ?
		supervisor->generation->policy_connections : FILES_AT_LEAST));
	open_for_role(supervisor, context);
	end_process(supervisor, &handover);
}

pid_t spawn_helper(struct supervisor *supervisor, bool damaged, bool without_text,
    int result_fd, struct diag *diag) {
	static struct handover handover;
	pid_t pid = fork();

	if (pid < 0)
		diag_set(diag, errno, "cannot fork");
	if (pid != 0)
		return pid;
	handover = (struct handover){ .duty = HANDOVER_PREPARE, .result_fd = result_fd,
		.damaged = damaged, .without_text = without_text,
		.has_terminal = supervisor->ready_fd >= 0,
		.context = { .kind = ROLE_KEEPER, .state_fd = -1,
			.onlooker_fd = -1, .orders_fd = -1,
			.mta_fd = -1, .queue_fd = -1, .lifeline_fd = -1, .nudge_fd = -1,
			.generation_fd = supervisor->generation_fd,
			.generation_number = supervisor->last_number } };
	begin_process(supervisor, "prepare", &handover);
	end_process(supervisor, &handover);
}

static void close_links(const struct links *links) {
	if (links->lifeline_fd >= 0)
		close(links->lifeline_fd);
	if (links->nudge_fd >= 0)
		close(links->nudge_fd);
	if (links->orders_fd >= 0)
		close(links->orders_fd);
	if (links->mta_fd >= 0)
		close(links->mta_fd);
	if (links->row_fd >= 0)
		close(links->row_fd);
}

static enum mta_asker asker_of(const struct child *child) {
	return child->kind == ROLE_FEED ? MTA_ASKER_FEED :
	    child->kind == ROLE_KEEPER ? MTA_ASKER_KEEPER : MTA_ASKER_COUNT;
}

void spawn_unlink(struct supervisor *supervisor, const struct child *child) {
	const struct role_row *row = role_row_of(child->kind);

	if (child->kind == ROLE_KEEPER)
		keeper_orders_close(&supervisor->orders);
	if (row != NULL && row->link != NULL)
		row->link->close(supervisor);
	if (asker_of(child) != MTA_ASKER_COUNT)
		mta_commands_unlink(&supervisor->mta, asker_of(child));
}

/* -1 with *diag: there are none. */
static int open_links(struct supervisor *supervisor, const struct child *child,
    struct links *links, struct diag *diag) {
	const struct role_row *row = role_row_of(child->kind);

	*links = (struct links){ -1, -1, -1, -1, -1 };
	if (row != NULL && row->link != NULL) {
		links->row_fd = row->link->open(supervisor, diag);
		return links->row_fd >= 0 ? 0 : -1;
	}
	if (child->kind == ROLE_KEEPER)
		links->orders_fd = keeper_orders_open(&supervisor->orders, diag);
	if (asker_of(child) == MTA_ASKER_COUNT)
		return 0;
	if (child->kind != ROLE_KEEPER || links->orders_fd >= 0)
		links->mta_fd = mta_commands_link(&supervisor->mta, asker_of(child), diag);
	if (links->mta_fd >= 0)
		return 0;
	close_links(links);
	spawn_unlink(supervisor, child);
	return -1;
}

static void close_pair(const int fds[2]) {
	close(fds[0]);
	close(fds[1]);
}

static int open_pipes(int lifeline_fds[2], int nudge_fds[2], struct diag *diag) {
	if (lifeline_open(lifeline_fds, diag) != 0)
		return -1;
	if (nudge_open(nudge_fds, diag) == 0)
		return 0;
	close_pair(lifeline_fds);
	return -1;
}

int spawn_role(struct supervisor *supervisor, struct child *child,
    struct diag *diag) {
	int lifeline_fds[2], nudge_fds[2];
	struct links links;
	pid_t pid;

	if (open_pipes(lifeline_fds, nudge_fds, diag) != 0)
		return -1;
	if (open_links(supervisor, child, &links, diag) != 0) {
		close_pair(lifeline_fds);
		close_pair(nudge_fds);
		return -1;
	}
	links.lifeline_fd = lifeline_fds[1];
	links.nudge_fd = nudge_fds[0];
	pid = fork();
	if (pid == 0)
		run_role(supervisor, child, &links);
	close_links(&links);
	if (pid < 0) {
		diag_set(diag, errno, "cannot fork");
		close(lifeline_fds[0]);
		close(nudge_fds[1]);
		spawn_unlink(supervisor, child);
		return -1;
	}
	child->pid = pid;
	child->lifeline_fd = lifeline_fds[0];
	child->nudge_fd = nudge_fds[1];
	return 0;
}
