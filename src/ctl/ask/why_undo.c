/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The command that undoes a decision, as a shell takes it.
 * MODEL    What holds mail is resumed; a window or ceiling gets its number back; a limit is
 *          a line of the configuration, and a reload.  The command names the configuration
 *          file where posternctl was told one.
 * ERRORS   Names are strangers': each word is quoted unless it is plain; of one that is not
 *          printable there is no command, as not every shell knows $'...'.
 * THREADS  One.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/manual.h"
#include "base/text.h"
#include "config/generation/enforcement.h"
#include "ctl/ask/why.h"
#include "policy/limit/decision.h"
#include "view/accounts.h"
#include "view/decided_line.h"
#include "view/shell_word.h"

static void add_word(struct why_undo *out, const char *word) {
	char quoted[WHY_COMMAND_MAX];
	size_t length = strlen(out->command);

	if (!shell_word(word, quoted, sizeof(quoted)))
		out->none = "no command: a name in it is too long or not printable, so a shell "
		    "could misread it";
	else
		(void)text_append(out->command, sizeof(out->command), length, " %s", quoted);
}

static void undo_begin(const struct ctl *ctl, struct why_undo *out, const char *command) {
	(void)text_append(out->command, sizeof(out->command), 0, "posternctl");
	if (ctl->config_given) {
		add_word(out, "-c");
		add_word(out, ctl->config_path);
	}
	if (ctl->socket != NULL) {
		add_word(out, "-s");
		add_word(out, ctl->socket);
	}
	add_word(out, command);
}

static void add_number(struct why_undo *out, const char *option, uint32_t number) {
	(void)text_append(out->command, sizeof(out->command), strlen(out->command), " %s %u",
	    option, number);
}

static void add_name(struct why_undo *out, const char *name) {
	if (*name == '-')
		add_word(out, "--");
	add_word(out, name);
}

static void resume(const struct ctl *ctl, const char *name, bool class,
    struct why_undo *out) {
	if (*name == '\0') {
		out->none = "the cause is no longer known; see posternctl destinations";
		return;
	}
	undo_begin(ctl, out, "resume");
	if (class) {
		add_word(out, "--class");
		add_word(out, name);
	} else {
		add_name(out, name);
	}
}

/* A window or a ceiling, as it was before. */
static void set_back(const struct ctl *ctl, const struct decided *d, struct why_undo *out) {
	bool window = d->before != d->window && d->before != 0;
	bool ceiling = d->ceiling != d->ceiling_before;

	if (!window && !ceiling) {
		out->none = "nothing was changed";
		return;
	}
	undo_begin(ctl, out, "limit");
	add_name(out, decided_text(d, DECIDED_NAME));
	if (window)
		add_number(out, "--window", d->before);
	if (ceiling)
		add_number(out, "--ceiling", d->ceiling_before);
}

/* What was resumed stops again: a hold until it would have ended. */
static void stop_again(const struct ctl *ctl, const struct why_event *event, int64_t wall_ns,
    struct why_undo *out) {
	const struct decided *d = &event->d;
	bool was_held = (d->flags & DECIDED_WAS_HELD) != 0;
	bool ends = was_held && event->until_wall_ns != 0 && event->until_wall_ns != INT64_MAX;
	int64_t left_ns = event->until_wall_ns - wall_ns;

	if (ends && left_ns <= 0) {
		out->none = "the hold has expired";
		return;
	}
	undo_begin(ctl, out, was_held ? "hold" : "suspend");
	if (ends)
		(void)text_append(out->command, sizeof(out->command), strlen(out->command),
		    " --for %llds", (long long)((left_ns + NS_PER_SECOND - 1) / NS_PER_SECOND));
	if ((d->flags & DECIDED_IS_CLASS) != 0)
		add_word(out, "--class");
	add_name(out, decided_text(d, DECIDED_NAME));
}

static void undo_by_hand(const struct ctl *ctl, const struct why_event *event, int64_t wall_ns,
    struct why_undo *out) {
	const struct decided *d = &event->d;

	switch (d->by) {
	case MANUAL_SUSPEND:
	case MANUAL_HOLD:
		resume(ctl, decided_text(d, DECIDED_NAME), (d->flags & DECIDED_IS_CLASS) != 0,
		    out);
		break;
	case MANUAL_LIMIT:
		set_back(ctl, d, out);
		break;
	case MANUAL_RESUME:
		stop_again(ctl, event, wall_ns, out);
		break;
	default:
		out->none = "nothing to undo: the reset values will be learned again";
	}
}

/* The setting that a class's reason speaks of; NULL: none. */
static const char *setting_of(const struct decided *d) {
	switch (d->reason) {
	case REASON_CLASS_SHARE:
		return (d->flags & DECIDED_OUTBOUND) != 0 ? "hold_at" : "refuse_at";
	case REASON_CLASS_INBOUND:
	case REASON_GATE_SHUT:
		return "refuse_at";
	case REASON_CLASS_SESSIONS:
		return "hold_at";
	case REASON_CLASS_RATE:
		return "rate";
	case REASON_CLIENT_SESSIONS:
		return "client.sessions";
	case REASON_CLIENT_RATE:
		return "client.rate";
	default:
		return NULL;
	}
}

bool why_is_unleased(const struct decided *decided) {
	return decided->reason == REASON_CLASS_SHARE && decided_lease_word(decided) != NULL &&
	    decided->by == LEASE_ENDED;
}

static void undo_limit(const struct ctl *ctl, const struct decided *d, struct why_undo *out) {
	const char *setting = setting_of(d);
	char place[DECIDED_PLACE_MAX];

	if (d->reason == REASON_UNTRACKED) {
		out->none = "if the table is full (posternctl status), raise state.sessions "
		    "and restart posternd";
		return;
	}
	if (why_is_unleased(d)) {
		out->none = "a higher limit does not help: this ends when this node leases its "
		    "share again (posternctl cluster); until then, raise cluster.fraction for "
		    "a larger part, or set cluster.when_unreachable = \"alone\" for the whole limit";
		return;
	}
	if (setting == NULL || d->line == 0) {
		out->none = "no command; see posternctl status";
		return;
	}
	(void)decided_place(d, d->limit_line != 0 ? d->limit_line :
	    d->line, place);
	(void)text_append(out->edit, sizeof(out->edit), 0, "%s%s of class %s in %s",
	    d->limit_line != 0 ? "raise " : "raise or set ", setting,
	    decided_text(d, DECIDED_CLASS), place);
	if (d->reason == REASON_CLASS_SHARE)
		(void)text_append(out->edit, sizeof(out->edit), strlen(out->edit),
		    ", on every node: the lowest limit of all nodes applies");
	undo_begin(ctl, out, "reload");
}

static void add_login(struct why_undo *out, const struct decided *d) {
	const char *login = decided_text(d, DECIDED_NAME);

	add_word(out, "account");
	if (view_login_is_cut(login))
		out->none = "no command: the login is longer than what is kept of it";
	add_name(out, login);
}

/* A login's counts start from 0 again; for good only another limit helps. */
static void undo_account(const struct ctl *ctl, const struct decided *d, struct why_undo *out) {
	char place[DECIDED_PLACE_MAX];

	if (d->reason == REASON_ACCOUNT_POOL ||
	    (d->reason != REASON_ACCOUNT_HELD && d->until_ns == 0)) {
		(void)text_append(out->edit, sizeof(out->edit), 0, "raise the limit of account %s "
		    "in %s", decided_text(d, DECIDED_CLASS),
		    decided_place(d, d->line, place));
		undo_begin(ctl, out, "reload");
		return;
	}
	undo_begin(ctl, out, d->reason == REASON_ACCOUNT_HELD ? "resume" : "forget");
	add_login(out, d);
}

/* Of mail that is held by what is not known any more: by its name. */
static void undo_unknown(const struct ctl *ctl, const struct decided *d,
    struct why_undo *out) {
	switch (d->reason) {
	case REASON_SUSPENDED:
		resume(ctl, decided_text(d, DECIDED_WINDOW_OF), false, out);
		break;
	case REASON_RECIPIENT_HELD:
		resume(ctl, decided_text(d, DECIDED_RECIPIENT), false, out);
		break;
	case REASON_CLASS_HELD:
		resume(ctl, decided_text(d, DECIDED_CLASS), true, out);
		break;
	case REASON_WINDOW_FULL:
		undo_begin(ctl, out, "limit");
		add_name(out, decided_text(d, DECIDED_WINDOW_OF));
		add_number(out, "--window", d->limit + 1);
		break;
	case REASON_PACE:
		out->none = "no command; see destinations[].pace in postern.conf";
		break;
	default:
		undo_limit(ctl, d, out);
	}
}

static void find_undo(const struct ctl *ctl, const struct why_event *event,
    const struct why_event *held, int64_t wall_ns, struct why_undo *out) {
	const struct decided *d = held != NULL ? &held->d : &event->d;

	/* what is done by hand stands, and counts when nothing is observed any more */
	if ((event->d.flags & DECIDED_OBSERVED_ONLY) != 0 && event->d.kind != DECIDED_BY_HAND &&
	    !(event->d.kind == DECIDED_SUSPENDED && event->d.by == DECIDED_BY_HAND_OF)) {
		out->none = event->d.action == ENFORCEMENT_APPLIED ||
		    decided_ring_of((enum decided_kind)event->d.kind) == DECIDED_OF_SESSIONS ?
		    "nothing to undo: observe mode" : "nothing to undo: not enforced";
		return;
	}
	switch ((enum decided_kind)d->kind) {
	case DECIDED_SUSPENDED:
	case DECIDED_RECIPIENT_HELD:
		resume(ctl, decided_text(d, DECIDED_NAME), false, out);
		break;
	case DECIDED_BY_HAND:
		undo_by_hand(ctl, held != NULL ? held : event, wall_ns, out);
		break;
	case DECIDED_WINDOW:
		set_back(ctl, d, out);
		break;
	case DECIDED_PACE:
		undo_begin(ctl, out, "forget");
		add_name(out, decided_text(d, DECIDED_NAME));
		break;
	case DECIDED_SOURCE_DAY:
		out->none = "no command; see sources[].warm in postern.conf";
		break;
	case DECIDED_REFUSED:
	case DECIDED_DEFERRED:
	case DECIDED_BACK_PRESSURE:
		undo_unknown(ctl, d, out);
		break;
	case DECIDED_ACCOUNT_HELD:
		undo_begin(ctl, out, "resume");
		add_login(out, d);
		break;
	case DECIDED_ACCOUNT:
		undo_account(ctl, d, out);
		break;
	case DECIDED_UNTRACKED:
		undo_limit(ctl, d, out);
		break;
	case DECIDED_DISCARDED:
		out->none = "nothing to undo: the mail log shows that it was delivered";
		break;
	case DECIDED_FAULT:
		out->none = "no command; see posternctl status and the log";
		break;
	case DECIDED_BACK:
		out->none = "nothing to undo: its mail has resumed";
		break;
	default:
		out->none = "nothing to undo: this decision changed nothing by itself";
	}
}

void why_undo(const struct ctl *ctl, const struct why_event *event,
    const struct why_event *held, int64_t wall_ns, struct why_undo *out) {
	memset(out, 0, sizeof(*out));
	find_undo(ctl, event, held, wall_ns, out);
	if (out->none != NULL)
		out->command[0] = out->edit[0] = '\0';
}

/* --- what is in force ---------------------------------------------------------------- */

struct stop_search {
	const struct why_sources *sources;
	const struct decided *wanted;
	struct why_stop *out;
};

/* A class that is written with capitals is known by its id alone. */
static bool is_named(const struct decided *d, const char *name) {
	if ((d->flags & DECIDED_IS_CLASS) != 0)
		name = view_class_of(name);
	return name != NULL && strcasecmp(name, decided_text(d, DECIDED_NAME)) == 0;
}

/* What has that id counts, else what has that name. */
static void take_stop(const struct stop_search *search, uint64_t by, const char *name,
    int64_t until_ns) {
	uint64_t id = search->wanted->id;

	if (until_ns <= search->sources->now_ns || search->out->by == id ||
	    (by != id && !is_named(search->wanted, name)))
		return;
	*search->out = (struct why_stop){ .stopped = true, .by = by,
		.until_wall_ns = why_wall_ns(search->sources, until_ns) };
}

static void look_at_window(void *context, const struct destination_window *window) {
	const struct window *w = &window->state.window;

	if (window->state.begun && window_is_shut(w))
		take_stop(context, window->event, window->name, w->until_ns);
}

static void look_at_recipient(void *context, const struct recipient_held *held) {
	take_stop(context, held->event, held->address, held->until_ns);
}

void why_find_stop(const struct why_sources *sources, const struct why_event *event,
    struct why_stop *out) {
	struct stop_search search = { sources, &event->d, out };
	struct segment *reader = sources->state->view.reader;

	*out = (struct why_stop){ .stopped = false };
	if (reader == NULL)
		return;
	(void)states_each(reader, look_at_window, &search);
	(void)recipients_each(reader, clock_now_ns(), look_at_recipient, &search);
}

/* --- of another node ------------------------------------------------------------------ */

struct there_search {
	const struct why_sources *sources;
	uint64_t id;
	struct why_there *out;
	bool found;
};

static void look_there(void *context, const struct destination_window *window) {
	struct there_search *search = context;
	const struct window *w = &window->state.window;

	if (search->found || window->shared.hold_node == SHARED_OURS ||
	    window->shared.hold_id != search->id || !window->state.begun ||
	    !window_is_shut(w) || w->until_ns <= search->sources->now_ns)
		return;
	search->found = true;
	search->out->here = window->event;
	(void)shared_node_name(search->sources->state->view.reader, window->shared.hold_node,
	    search->out->node);
	(void)log_quote(search->out->name, sizeof(search->out->name), window->name,
	    strlen(window->name));
}

bool why_find_there(const struct why_sources *sources, uint64_t id, struct why_there *out) {
	struct there_search search = { sources, id, out, false };

	if (sources->state->view.reader != NULL)
		(void)states_each(sources->state->view.reader, look_there, &search);
	return search.found;
}
