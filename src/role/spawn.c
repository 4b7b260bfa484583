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
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"
#include "role/background.h"
#include "role/cluster_role.h"
#include "role/feed_role.h"
#include "role/misdeed.h"
#include "role/netlink.h"
#include "role/role.h"
#include "role/sandbox.h"
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
			.fd = fd, .listener = (uint8_t)i, .kind = kind,
			.access = &supervisor->sockets.list[i].access };
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
	case ROLE_QUEUE:
		return queue_role_main(context);
	case ROLE_METRICS:
		return metrics_role_main(context);
	case ROLE_CLUSTER:
		return cluster_role_main(context);
	case ROLE_NONE:
	case ROLE_SUPERVISOR:
		break;
	}
	return EX_SOFTWARE;
}

/* The role's ends of its links to the supervisor. */
struct links {
	int control_fd;		/* keeper, or -1 */
	int mta_fd;		/* keeper and feed, or -1 */
	int queue_fd;		/* queue, or -1 */
};

static void enter_sandbox(const struct supervisor *supervisor, const struct child *child) {
	struct role_record *role = &segment_header(supervisor->segment)->roles[child->place];
	struct diag diag;
	uint32_t what;

	tzset();	/* its file is read once */
	misdeed_listen();
	if (sandbox_enter(supervisor->generation, child->kind, supervisor->sandbox,
		child->place, &what, &diag) != 0)
		give_up("cannot enter its sandbox", &diag, EX_NOPERM);
	atomic_store(&role->sandbox, what);
}

static void run_role(struct supervisor *supervisor, const struct child *child,
    const struct links *links) __attribute__((noreturn));

static void run_role(struct supervisor *supervisor, const struct child *child,
    const struct links *links) {
	struct role_context context = { .kind = child->kind,
		.number = child->number, .role_slot = child->place,
		.segment = supervisor->segment,
		.supervisor_fd = links->control_fd, .mta_fd = links->mta_fd,
		.hints_group = supervisor->identity.hints_group,
		.queue_fd = links->queue_fd, .queue_places = &supervisor->queue.places };
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
	alerts_leave(&supervisor->alerts);
	mta_commands_leave(&supervisor->mta);
	queue_link_leave(&supervisor->queue, child->kind == ROLE_QUEUE);
	set_title(child);
	take_sockets(supervisor, child, &context);
	(void)privileges_raise_files(FILES_BESIDES +
	    (supervisor->generation->policy_connections > FILES_AT_LEAST ?
		supervisor->generation->policy_connections : FILES_AT_LEAST));
	if (!netlink_open(supervisor->generation, &context))
		_exit(EX_OSERR);
	feed_role_open(supervisor->generation, &context);
	if (cluster_role_open(supervisor->generation, &context, &diag) != 0)
		give_up("cannot keep its password", &diag, EX_OSERR);
	if (privileges_drop(&supervisor->identity, &diag) != 0)
		give_up("cannot drop privileges", &diag, EX_NOPERM);
	die_with_parent(supervisor->pid);
	/* last: until here a signal meant for the supervisor changes nothing */
	spawn_reset_signals();
	enter_sandbox(supervisor, child);
	_exit(role_main(&context));
}

static void close_links(const struct links *links) {
	if (links->control_fd >= 0)
		close(links->control_fd);
	if (links->mta_fd >= 0)
		close(links->mta_fd);
	if (links->queue_fd >= 0)
		close(links->queue_fd);
}

static enum mta_asker asker_of(const struct child *child) {
	return child->kind == ROLE_FEED ? MTA_ASKER_FEED :
	    child->kind == ROLE_KEEPER ? MTA_ASKER_KEEPER : MTA_ASKER_COUNT;
}

void spawn_unlink(struct supervisor *supervisor, const struct child *child) {
	if (child->kind == ROLE_KEEPER)
		keeper_link_close(&supervisor->link);
	if (child->kind == ROLE_QUEUE)
		queue_link_close(&supervisor->queue);
	if (asker_of(child) != MTA_ASKER_COUNT)
		mta_commands_unlink(&supervisor->mta, asker_of(child));
}

/* -1 with *diag: there are none. */
static int open_links(struct supervisor *supervisor, const struct child *child,
    struct links *links, struct diag *diag) {
	*links = (struct links){ -1, -1, -1 };
	if (child->kind == ROLE_QUEUE) {
		links->queue_fd = queue_link_open(supervisor, diag);
		return links->queue_fd >= 0 ? 0 : -1;
	}
	if (child->kind == ROLE_KEEPER) {
		links->control_fd = keeper_link_open(&supervisor->link, diag);
		if (links->control_fd < 0)
			return -1;
	}
	if (asker_of(child) == MTA_ASKER_COUNT)
		return 0;
	links->mta_fd = mta_commands_link(&supervisor->mta, asker_of(child), diag);
	if (links->mta_fd >= 0)
		return 0;
	close_links(links);
	spawn_unlink(supervisor, child);
	return -1;
}

int spawn_role(struct supervisor *supervisor, struct child *child,
    struct diag *diag) {
	struct links links;
	pid_t pid;

	if (open_links(supervisor, child, &links, diag) != 0)
		return -1;
	segment_role_starting(supervisor->segment, child->place,
	    child->started_ns);
	pid = fork();
	if (pid == 0)
		run_role(supervisor, child, &links);
	close_links(&links);
	if (pid < 0) {
		diag_set(diag, errno, "cannot fork");
		spawn_unlink(supervisor, child);
		return -1;
	}
	child->pid = pid;
	segment_role_started(supervisor->segment, child->place, pid);
	return 0;
}
