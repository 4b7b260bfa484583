/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Run commands on a Postfix for roles.
 * MODEL    An order is refused, or started at once; its outcome is told when it has
 *          ended.  What a list says goes by a pipe to the role itself, which may be
 *          as slow as the time allows.
 * ERRORS   A command that fails is logged and told.  A role that sends what is no
 *          order loses its link until it is started again.
 * THREADS  The supervisor's.
 */
#include "role/supervise/mta_command.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/datagram.h"
#include "base/log.h"

#define WORDS_MAX	6
/* Both of a second Postfix instance's would be asked once a minute. */
#define LIST_APART_NS	(60 * NS_PER_SECOND)
/* A role that was started anew has forgotten what the list told. */
#define LIST_ANEW_NS	(5 * NS_PER_SECOND)
#define RELOAD_APART_NS	(60 * NS_PER_SECOND)

static const struct {
	const char *program;
	int64_t life_ns;
} commands_of[MTA_VERB_COUNT] = {
	[MTA_REQUEUE] = { "postqueue", 10 * NS_PER_SECOND },
	[MTA_LIST] = { "postqueue", 120 * NS_PER_SECOND },
	[MTA_RELOAD] = { "postfix", 30 * NS_PER_SECOND },
};

static const struct {
	const char *word;
	unsigned verbs;		/* that it may ask for, a bit each */
	unsigned from, end;	/* its places */
} askers[MTA_ASKER_COUNT] = {
	[MTA_ASKER_FEED] = { "feed", 1u << MTA_REQUEUE | 1u << MTA_LIST, MTA_KEEPER_AT_ONCE,
	    MTA_COMMANDS_AT_ONCE },
	[MTA_ASKER_KEEPER] = { "keeper", 1u << MTA_RELOAD, 0, MTA_KEEPER_AT_ONCE },
};

void mta_commands_init(struct mta_commands *commands) {
	*commands = (struct mta_commands){ .link_fds = { -1, -1 } };
}

int mta_commands_link(struct mta_commands *commands, enum mta_asker asker,
    struct diag *diag) {
	int fds[2];

	mta_commands_unlink(commands, asker);
	if (datagram_pair(fds, diag) != 0)
		return -1;
	commands->link_fds[asker] = fds[0];
	commands->links[asker]++;
	return fds[1];
}

void mta_commands_unlink(struct mta_commands *commands, enum mta_asker asker) {
	if (commands->link_fds[asker] >= 0)
		close(commands->link_fds[asker]);
	commands->link_fds[asker] = -1;
}

/* -1: there is none. */
static int free_place(const struct mta_commands *commands, unsigned asker) {
	for (unsigned i = askers[asker].from; i < askers[asker].end; i++)
		if (commands->running[i].child.pid == 0)
			return (int)i;
	return -1;
}

void mta_commands_poll(const struct mta_commands *commands,
    struct pollfd *polled) {
	for (unsigned i = 0; i < MTA_ASKER_COUNT; i++)
		polled[i] = (struct pollfd){ .events = POLLIN,
			.fd = free_place(commands, i) >= 0 ? commands->link_fds[i] : -1 };
}

/* --- what is said to roles ------------------------------------------------------ */

static void mta_tell(const struct mta_commands *commands,
    const struct mta_command *command, int code) {
	struct mta_outcome outcome = { .verb = command->order.verb,
		.mta = command->order.mta, .code = code };
	int fd = commands->link_fds[command->asker];

	memcpy(outcome.queue_id, command->order.queue_id,
	    sizeof(outcome.queue_id));
	if (fd >= 0 && command->link == commands->links[command->asker])
		(void)datagram_send(fd, &outcome, sizeof(outcome), -1);
}

/* --- one order -------------------------------------------------------------------- */

static int allow_list(struct mta_commands *commands, unsigned mta, int64_t now_ns) {
	unsigned link = commands->links[MTA_ASKER_FEED];
	int64_t apart_ns = commands->list_link[mta] == link ? LIST_APART_NS : LIST_ANEW_NS;

	if (commands->listed_ns[mta] != 0 && now_ns < commands->listed_ns[mta] + apart_ns)
		return MTA_TOO_SOON;
	commands->listed_ns[mta] = now_ns;
	commands->list_link[mta] = link;
	return 0;
}

/* 0, or MTA_NOT_RUN, MTA_TOO_SOON.  What is allowed counts as run. */
static int order_allow(struct mta_commands *commands, const struct generation *generation,
    const struct mta_command *command, int64_t now_ns) {
	const struct rate_limit *rate = &generation->requeue_rate;
	const struct mta_order *order = &command->order;
	int64_t *tat_ns;

	if ((askers[command->asker].verbs >> order->verb & 1) == 0 ||
	    order->generation != generation->number ||
	    order->mta >= generation->mta_count ||
	    generation->mtas[order->mta].kind != MTA_POSTFIX ||
	    generation->mtas[order->mta].transport != 0)
		return MTA_NOT_RUN;
	if (order->verb == MTA_REQUEUE) {
		tat_ns = &commands->requeue_tat_ns[order->mta];
		if (!rate_allows(rate, *tat_ns, now_ns))
			return MTA_TOO_SOON;
		*tat_ns = rate_after(rate, *tat_ns, now_ns);
		return 0;
	}
	if (order->verb == MTA_RELOAD && !generation->mtas[order->mta].may_reload)
		return MTA_NOT_RUN;
	if (order->verb == MTA_LIST)
		return allow_list(commands, order->mta, now_ns);
	if (now_ns < commands->next_reload_ns[order->mta])
		return MTA_TOO_SOON;
	commands->next_reload_ns[order->mta] = now_ns + RELOAD_APART_NS;
	return 0;
}

static void mta_ended(void *owner, struct subprocess *child, const struct subprocess_end *end) {
	const struct supervisor *supervisor = owner;
	const struct generation *generation = supervisor->generation;
	const struct mta_command *command = (const struct mta_command *)child;
	const struct mta_order *order = &command->order;
	char text[SUBPROCESS_END_TEXT_MAX];

	if (end->status != 0)
		log_event(EVENT_MTA_COMMAND, "command=%s mta=%s%s%s %s",
		    mta_verb_word(order->verb), order->mta < generation->mta_count ?
		    generation_text(generation, generation->mtas[order->mta].name) : "-",
		    order->verb == MTA_REQUEUE ? " queue_id=" : "", order->queue_id,
		    subprocess_end_text(end, text));
	mta_tell(&supervisor->mta, command, WIFEXITED(end->status) ?
	    WEXITSTATUS(end->status) : MTA_KILLED);
}

static const struct subprocess_calls mta_calls = { .ended = mta_ended };

static int mta_run(struct supervisor *supervisor, struct mta_command *command, int stdout_fd,
    int64_t now_ns) {
	const struct generation *generation = supervisor->generation;
	const struct mta_order *order = &command->order;
	const struct generation_mta *mta = &generation->mtas[order->mta];
	const char *arguments[WORDS_MAX] = { NULL, "-c",
		generation_text(generation, mta->config_directory) };
	const struct subprocess_program line = { .arguments = arguments,
		.life_ns = commands_of[order->verb].life_ns,
		.stdout_fd = stdout_fd, .stderr_fd = SUBPROCESS_KEPT,
		.list = &supervisor->programs, .calls = &mta_calls, .owner = supervisor };
	char program[PATH_MAX];
	int length = snprintf(program, sizeof(program), "%s/%s",
	    generation_text(generation, mta->command_directory),
	    commands_of[order->verb].program);

	errno = ENAMETOOLONG;
	if (length < 0 || (size_t)length >= sizeof(program))
		return -1;
	arguments[0] = program;
	switch (order->verb) {
	case MTA_REQUEUE:
		arguments[3] = "-i";
		arguments[4] = order->queue_id;
		break;
	case MTA_LIST:
		arguments[3] = "-j";
		break;
	case MTA_RELOAD:
	case MTA_VERB_COUNT:
		arguments[3] = "reload";
		break;
	}
	return subprocess_start(&command->child, &line, now_ns);
}

/* With a pipe to the role for what it says. */
static int mta_run_list(struct supervisor *supervisor, struct mta_command *command,
    int64_t now_ns) {
	const struct mta_outcome output = { .verb = MTA_LIST, .mta = command->order.mta,
		.is_output = 1 };
	int fds[2], result;

	if (pipe2(fds, O_CLOEXEC) != 0)
		return -1;
	(void)fcntl(fds[0], F_SETFL, O_NONBLOCK);
	errno = EAGAIN;
	result = datagram_send(supervisor->mta.link_fds[command->asker], &output,
	    sizeof(output), fds[0]) ? mta_run(supervisor, command, fds[1], now_ns) : -1;
	close(fds[0]);
	close(fds[1]);
	return result;
}

static void order_obey(struct supervisor *supervisor, struct mta_command *command,
    int64_t now_ns) {
	struct mta_commands *commands = &supervisor->mta;
	const struct generation *generation = supervisor->generation;
	int code = order_allow(commands, generation, command, now_ns);

	if (code == 0 && (command->order.verb == MTA_LIST ?
	    mta_run_list(supervisor, command, now_ns) :
	    mta_run(supervisor, command, SUBPROCESS_KEPT, now_ns)) != 0) {
		log_event(EVENT_MTA_COMMAND, "command=%s mta=%s text=\"cannot start: %s\"",
		    mta_verb_word(command->order.verb),
		    generation_text(generation,
			generation->mtas[command->order.mta].name),
		    strerror(errno));
		code = MTA_NOT_RUN;
	}
	if (code != 0)
		mta_tell(commands, command, code);
}

/* False: there is none, or no room. */
static bool asker_serve(struct supervisor *supervisor, enum mta_asker asker,
    int64_t now_ns) {
	struct mta_commands *commands = &supervisor->mta;
	int place = free_place(commands, asker);
	struct mta_command *command;
	char data[sizeof(command->order) + 1];
	const char *why = "";
	ssize_t length;

	if (place < 0 || commands->link_fds[asker] < 0)
		return false;
	length = recv(commands->link_fds[asker], data, sizeof(data), MSG_DONTWAIT);
	if (length < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (length <= 0) {
		mta_commands_unlink(commands, asker);
		return false;
	}
	command = &commands->running[place];
	command->asker = asker;
	command->link = commands->links[asker];
	if (!mta_order_read(data, (size_t)length, &command->order, &why)) {
		log_event(EVENT_BAD_REQUEST, "from=%s text=\"%s\" action=close",
		    askers[asker].word, why);
		mta_commands_unlink(commands, asker);
		return false;
	}
	order_obey(supervisor, command, now_ns);
	return true;
}

/* As there may always be a next one, no more than there are places in a turn. */
void mta_commands_turn(struct supervisor *supervisor, int64_t now_ns) {
	for (unsigned i = 0; i < MTA_COMMANDS_AT_ONCE; i++) {
		bool any = false;

		for (unsigned asker = 0; asker < MTA_ASKER_COUNT; asker++)
			any |= asker_serve(supervisor, (enum mta_asker)asker, now_ns);
		if (!any)
			break;
	}
}
