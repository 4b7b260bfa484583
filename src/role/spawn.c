/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Make a role out of a fork of the supervisor.
 * MODEL    The child first makes sure that it dies with its parent, takes the
 *          roles' lock and only then lets go of the daemon's (so that a new
 *          supervisor can never miss it), closes what is not its own, and drops
 *          its privileges.  Nothing is exec'ed: the mapping, the log and the
 *          sockets are simply there.
 * ERRORS   A child that cannot become its role exits; the supervisor tries
 *          again.
 * THREADS  One on both sides.
 */
#include "role/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"
#include "role/background.h"
#include "role/feed_role.h"
#include "role/netlink.h"
#include "role/role.h"
#include "segment/segment.h"

/* policy.connections may be raised while the role lives. */
#define FILES_AT_LEAST	65536
#define FILES_BESIDES	1024

static void give_up(const char *what, const struct diag *diag, int code)
    __attribute__((noreturn));

static void give_up(const char *what, const struct diag *diag, int code) {
	log_event(EVENT_SYSTEM, "text=\"%s: %s\"", what, diag->text);
	_exit(code);
}

/* To be called again after a change of user, which clears it.  The second look
 * catches a parent that died before the call. */
static void die_with_parent(pid_t parent) {
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0 ||
	    getppid() != parent)
		_exit(EX_TEMPFAIL);
}

void spawn_reset_signals(void) {
	sigset_t none;
	int number;

	for (number = 1; number < NSIG; number++)
		if (number != SIGKILL && number != SIGSTOP)
			(void)signal(number, number == SIGPIPE ? SIG_IGN : SIG_DFL);
	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* The kernel keeps 15 characters. */
static void set_title(const struct child *child) {
	char title[16];
	int word = (int)strcspn(child->name, "."), room = child->number < 10 ? 6 : 5;

	text_append(title, sizeof(title), 0, "postern-%.*s%u",
	    word < room ? word : room, child->name, child->number);
	(void)prctl(PR_SET_NAME, title, 0, 0, 0);
}

static bool is_own(const struct child *child, unsigned listener, uint8_t kind) {
	switch (child->kind) {
	case ROLE_POLICY:
		return kind == LISTENER_POLICY || kind == LISTENER_SOCKETMAP;
	case ROLE_MILTER:
		return kind == LISTENER_MILTER && listener == child->listener;
	case ROLE_KEEPER:
		return kind == LISTENER_CONTROL;
	case ROLE_FEED:
	case ROLE_NONE:
	case ROLE_SUPERVISOR:
		break;
	}
	return false;
}

static void take_sockets(struct supervisor *supervisor, const struct child *child,
    struct role_context *context) {
	unsigned i;

	for (i = 0; i < supervisor->sockets.count; i++) {
		uint8_t kind = supervisor->generation->listeners[i].kind;
		int fd = supervisor->sockets.list[i].fd;

		if (fd < 0)
			continue;
		if (!is_own(child, i, kind)) {
			close(fd);
			continue;
		}
		context->sockets[context->socket_count++] = (struct role_socket){
			.fd = fd, .listener = (uint8_t)i, .kind = kind };
	}
}

static int role_main(const struct role_context *context) {
	switch (context->kind) {
	case ROLE_POLICY:
		return policy_role_main(context);
	case ROLE_MILTER:
		return milter_role_main(context);
	case ROLE_KEEPER:
		return keeper_role_main(context);
	case ROLE_FEED:
		return feed_role_main(context);
	case ROLE_NONE:
	case ROLE_SUPERVISOR:
		break;
	}
	return EX_SOFTWARE;
}

static void run_role(struct supervisor *supervisor, const struct child *child,
    int link_fd) __attribute__((noreturn));

static void run_role(struct supervisor *supervisor, const struct child *child,
    int link_fd) {
	struct role_context context = { .kind = child->kind,
		.number = child->number, .role_slot = child->place,
		.segment = supervisor->segment, .supervisor_fd = link_fd,
		.mta_fd = -1 };
	struct diag diag;

	die_with_parent(supervisor->pid);
	/* Ctrl-C in the terminal of -f is for the supervisor */
	(void)setpgid(0, 0);
	log_set_role(child->name);
	if (segment_lock_role(segment_path(supervisor->segment), &diag) != 0)
		give_up("cannot take the roles' lock", &diag, EX_TEMPFAIL);
	close(supervisor->lock_fd);
	close(supervisor->signal_fd);
	background_leave(supervisor->ready_fd);
	keeper_link_close(&supervisor->link);
	gate_command_leave(supervisor);
	set_title(child);
	take_sockets(supervisor, child, &context);
	(void)privileges_raise_files(FILES_BESIDES +
	    (supervisor->generation->policy_connections > FILES_AT_LEAST ?
		supervisor->generation->policy_connections : FILES_AT_LEAST));
	if (!netlink_open(supervisor->generation, &context))
		_exit(EX_OSERR);
	feed_role_open(supervisor->generation, &context);
	if (privileges_drop(&supervisor->identity, &diag) != 0)
		give_up("cannot drop privileges", &diag, EX_NOPERM);
	die_with_parent(supervisor->pid);
	/* last: until here a signal meant for the supervisor changes nothing */
	spawn_reset_signals();
	_exit(role_main(&context));
}

int spawn_role(struct supervisor *supervisor, struct child *child,
    struct diag *diag) {
	int link_fd = -1;
	pid_t pid;

	if (child->kind == ROLE_KEEPER) {
		link_fd = keeper_link_open(&supervisor->link, diag);
		if (link_fd < 0)
			return -1;
	}
	segment_role_starting(supervisor->segment, child->place,
	    child->started_ns);
	pid = fork();
	if (pid == 0)
		run_role(supervisor, child, link_fd);
	if (link_fd >= 0)
		close(link_fd);
	if (pid < 0) {
		diag_set(diag, errno, "cannot fork");
		if (child->kind == ROLE_KEEPER)
			keeper_link_close(&supervisor->link);
		return -1;
	}
	child->pid = pid;
	segment_role_started(supervisor->segment, child->place, pid);
	return 0;
}
