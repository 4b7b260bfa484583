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
#include "role/supervise/mta_command.h"
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

static const uint8_t role_of_listener[] = {
	[LISTENER_POLICY] = ROLE_POLICY, [LISTENER_SOCKETMAP] = ROLE_POLICY,
	[LISTENER_MILTER] = ROLE_MILTER, [LISTENER_MILTER_ACCOUNTS] = ROLE_MILTER,
	[LISTENER_CONTROL] = ROLE_KEEPER, [LISTENER_SYSLOG] = ROLE_FEED,
	[LISTENER_EVENTS] = ROLE_FEED, [LISTENER_QUEUE] = ROLE_QUEUE,
	[LISTENER_METRICS] = ROLE_METRICS,
};

static void take_sockets(struct supervisor *supervisor, const struct child *child,
    struct role_context *context) {
	unsigned i;

	sockets_mend(&supervisor->sockets, supervisor->generation);
	for (i = 0; i < supervisor->sockets.count; i++) {
		uint8_t kind = supervisor->generation->listeners[i].kind;
		int fd = supervisor->sockets.list[i].fd;

		if (fd < 0 || role_of_listener[kind] != child->kind ||
		    (child->kind == ROLE_MILTER && i != child->listener))
			continue;
		context->sockets[context->socket_count++] = (struct role_socket){
			.fd = fd, .listener = (uint8_t)i, .kind = kind,
			.access = supervisor->sockets.list[i].access };
	}
}

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
	if (context->kind == ROLE_METRICS && (context->fds[ROLE_FD_STATE] =
		segment_open_to_look(supervisor->state_fd, &diag)) < 0)
		give_up("cannot pass the state on", &diag, EX_OSERR);
}

static void role_execute(const struct supervisor *supervisor, const struct handover *handover)
    __attribute__((noreturn));

static void role_execute(const struct supervisor *supervisor, const struct handover *handover) {
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
	handover->context.fds[ROLE_FD_ROLES_LOCK] = segment_lock_role(supervisor->lock_fd,
	    &diag);
	if (handover->context.fds[ROLE_FD_ROLES_LOCK] < 0)
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
	role_execute(supervisor, handover);
}

static void plan_places(const struct supervisor *supervisor, struct role_context *context) {
	for (unsigned i = 0; i < supervisor->child_count; i++)
		context->planned[supervisor->children[i].place] = true;
}

static void run_role(struct supervisor *supervisor, const struct child *child,
    struct handover *handover) __attribute__((noreturn));
static void run_role(struct supervisor *supervisor, const struct child *child,
    struct handover *handover) {
	begin_process(supervisor, child->name, handover);
	background_leave(supervisor->ready_fd);
	take_sockets(supervisor, child, &handover->context);
	plan_places(supervisor, &handover->context);
	privileges_raise_files(FILES_BESIDES +
	    (supervisor->generation->policy_connections > FILES_AT_LEAST ?
		supervisor->generation->policy_connections : FILES_AT_LEAST));
	open_for_role(supervisor, &handover->context);
	end_process(supervisor, handover);
}

/* For a stack it is large. */
static struct handover *new_handover(const struct supervisor *supervisor,
    enum handover_duty duty, enum role_kind kind) {
	static struct handover handover;

	handover = (struct handover){ .duty = duty, .result_fd = -1, .context = { .kind = kind } };
	for (unsigned i = 0; i < ROLE_FDS; i++)
		handover.context.fds[i] = -1;
	handover.context.fds[ROLE_FD_GENERATION] = supervisor->generation_fd;
	return &handover;
}

pid_t spawn_helper(struct supervisor *supervisor, bool damaged, bool without_text,
    int result_fd, struct diag *diag) {
	struct handover *handover;
	pid_t pid = fork();

	if (pid < 0)
		diag_set(diag, errno, "cannot fork");
	if (pid != 0)
		return pid;
	handover = new_handover(supervisor, HANDOVER_PREPARE, ROLE_KEEPER);
	handover->result_fd = result_fd;
	handover->damaged = damaged;
	handover->without_text = without_text;
	handover->has_terminal = supervisor->ready_fd >= 0;
	handover->context.generation_number = supervisor->last_number;
	begin_process(supervisor, "prepare", handover);
	end_process(supervisor, handover);
}

static enum mta_asker asker_of(const struct child *child) {
	return child->kind == ROLE_FEED ? MTA_ASKER_FEED :
	    child->kind == ROLE_KEEPER ? MTA_ASKER_KEEPER : MTA_ASKER_COUNT;
}

static void close_end(int *fd) {
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void spawn_unlink(struct supervisor *supervisor, struct child *child) {
	const struct role_row *row = role_row_of(child->kind);

	close_end(&child->lifeline_fd);
	close_end(&child->nudge_fd);
	if (child->kind == ROLE_KEEPER)
		keeper_orders_close(&supervisor->orders);
	if (row != NULL && row->link != NULL)
		row->link->close(supervisor);
	if (asker_of(child) != MTA_ASKER_COUNT)
		mta_commands_unlink(&supervisor->mta, asker_of(child));
}

/* Its ends go to `fds`.  -1 with *diag: there are some, or none. */
static int open_links(struct supervisor *supervisor, struct child *child, int fds[ROLE_FDS],
    struct diag *diag) {
	const struct role_row *row = role_row_of(child->kind);
	int pair[2];

	child->lifeline_fd = child->nudge_fd = -1;
	if (lifeline_open(pair, diag) != 0)
		return -1;
	child->lifeline_fd = pair[0];
	fds[ROLE_FD_LIFELINE] = pair[1];
	if (nudge_open(pair, diag) != 0)
		return -1;
	fds[ROLE_FD_NUDGE] = pair[0];
	child->nudge_fd = pair[1];
	if (row != NULL && row->link != NULL &&
	    (fds[ROLE_FD_ROW] = row->link->open(supervisor, diag)) < 0)
		return -1;
	if (child->kind == ROLE_KEEPER &&
	    (fds[ROLE_FD_ORDERS] = keeper_orders_open(&supervisor->orders, diag)) < 0)
		return -1;
	if (asker_of(child) != MTA_ASKER_COUNT && (fds[ROLE_FD_MTA] = mta_commands_link(
		&supervisor->mta, asker_of(child), diag)) < 0)
		return -1;
	return 0;
}

static pid_t fork_role(struct supervisor *supervisor, const struct child *child,
    struct handover *handover, struct diag *diag) {
	pid_t pid = fork();

	if (pid == 0)
		run_role(supervisor, child, handover);
	return pid > 0 ? pid : diag_set(diag, errno, "cannot fork");
}

int spawn_role(struct supervisor *supervisor, struct child *child,
    struct diag *diag) {
	struct handover *handover = new_handover(supervisor, HANDOVER_SERVE, child->kind);
	struct role_context *context = &handover->context;
	pid_t pid = -1;

	context->number = child->number;
	context->role_slot = child->place;
	context->generation_number = supervisor->generation->number;
	context->alerts_from = supervisor->alerts_from;
	context->hints_group = supervisor->identity.hints_group;
	if (open_links(supervisor, child, context->fds, diag) == 0) {
		context->fds[ROLE_FD_STATE] = supervisor->state_fd;
		if (child->kind == ROLE_KEEPER || child->kind == ROLE_METRICS)
			context->fds[ROLE_FD_ONLOOKER] = supervisor->onlooker_fd;
		pid = fork_role(supervisor, child, handover, diag);
	}
	for (unsigned fd = ROLE_FD_LIFELINE; fd < ROLE_FDS; fd++)
		close_end(&context->fds[fd]);
	if (pid < 0) {
		spawn_unlink(supervisor, child);
		return -1;
	}
	child->pid = pid;
	return 0;
}
