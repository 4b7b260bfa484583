/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  posternctl why: what a decision was based on, what led to it, what undoes it.
 * MODEL    From the id one goes on by causes: of a deferral the suspension, of that the
 *          failures one by one.  For people only what is known is shown; programs get each
 *          name.
 * ERRORS   An id that is not known any more: EX_NOHOST.
 * THREADS  One.
 */
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "base/clock.h"
#include "base/decision_id.h"
#include "base/text.h"
#include "ctl/ask/explain.h"
#include "ctl/ask/why.h"
#include "policy/reply/reply.h"
#include "view/cluster.h"
#include "view/decided.h"
#include "view/decided_line.h"

#define COUNT_OF(array)	(sizeof(array) / sizeof((array)[0]))
#define CAUSES_MAX	500
#define CAUSES_SHOWN	20
#define LATEST		20
#define LATEST_ALL	1000

enum told {
	TOLD_ID, TOLD_WHAT, TOLD_KIND, TOLD_TIME, TOLD_AGE, TOLD_SOURCE, TOLD_STAGE, TOLD_NAME,
	TOLD_CLIENT, TOLD_CLIENT_PORT, TOLD_PORT, TOLD_CLASS, TOLD_WINDOW_OF, TOLD_RECIPIENT,
	TOLD_QUEUE_ID, TOLD_RELAY, TOLD_MTA, TOLD_PID, TOLD_UID, TOLD_USER, TOLD_REASON,
	TOLD_COUNT, TOLD_LIMIT, TOLD_CLUSTER_LIMIT, TOLD_LEASE,
	TOLD_CLUSTER, TOLD_CLUSTER_ERROR, TOLD_RATE, TOLD_FAIL_COHORTS, TOLD_SUCCESS, TOLD_FAILURE,
	TOLD_BEFORE, TOLD_WINDOW, TOLD_CEILING_BEFORE, TOLD_CEILING, TOLD_CODE, TOLD_RESULT,
	TOLD_REPLY, TOLD_BY, TOLD_NODE, TOLD_ORIGIN, TOLD_NOTE, TOLD_RULE, TOLD_FILE, TOLD_LINE,
	TOLD_PLACE, TOLD_LIMIT_PLACE,
	TOLD_OBSERVED, TOLD_OBSERVE_PLACE, TOLD_UNTIL, TOLD_LEFT, TOLD_IN_FORCE, TOLD_CAUSE,
	TOLD_UNDO_BEFORE, TOLD_UNDO, TOLD_UNDO_NOTE,
	TOLD_VALUES
};

static const struct column columns[TOLD_VALUES] = {
	[TOLD_ID] = { "id", COLUMN_TEXT },
	[TOLD_WHAT] = { "what", COLUMN_TEXT },
	[TOLD_KIND] = { "kind", COLUMN_TEXT },
	[TOLD_TIME] = { "time", COLUMN_TEXT },
	[TOLD_AGE] = { "age", COLUMN_SECONDS },
	[TOLD_SOURCE] = { "source", COLUMN_TEXT },
	[TOLD_STAGE] = { "stage", COLUMN_TEXT },
	[TOLD_NAME] = { "name", COLUMN_TEXT },
	[TOLD_CLIENT] = { "client", COLUMN_TEXT },
	[TOLD_CLIENT_PORT] = { "client_port", COLUMN_NUMBER },
	[TOLD_PORT] = { "port", COLUMN_NUMBER },
	[TOLD_CLASS] = { "class", COLUMN_TEXT },
	[TOLD_WINDOW_OF] = { "window_of", COLUMN_TEXT },
	[TOLD_RECIPIENT] = { "recipient", COLUMN_TEXT },
	[TOLD_QUEUE_ID] = { "queue_id", COLUMN_TEXT },
	[TOLD_RELAY] = { "relay", COLUMN_TEXT },
	[TOLD_MTA] = { "mta", COLUMN_TEXT },
	[TOLD_PID] = { "pid", COLUMN_NUMBER },
	[TOLD_UID] = { "uid", COLUMN_NUMBER },
	[TOLD_USER] = { "user", COLUMN_TEXT },
	[TOLD_REASON] = { "reason", COLUMN_TEXT },
	[TOLD_COUNT] = { "count", COLUMN_NUMBER },
	[TOLD_LIMIT] = { "limit", COLUMN_NUMBER },
	[TOLD_CLUSTER_LIMIT] = { "cluster_limit", COLUMN_NUMBER },
	[TOLD_LEASE] = { "lease", COLUMN_TEXT },
	[TOLD_CLUSTER] = { "cluster_now", COLUMN_TEXT },
	[TOLD_CLUSTER_ERROR] = { "cluster_error", COLUMN_TEXT },
	[TOLD_RATE] = { "rate", COLUMN_TEXT },
	[TOLD_FAIL_COHORTS] = { "fail_cohorts", COLUMN_DECIMAL },
	[TOLD_SUCCESS] = { "success", COLUMN_DECIMAL },
	[TOLD_FAILURE] = { "failure", COLUMN_DECIMAL },
	[TOLD_BEFORE] = { "window_before", COLUMN_NUMBER },
	[TOLD_WINDOW] = { "window", COLUMN_NUMBER },
	[TOLD_CEILING_BEFORE] = { "ceiling_before", COLUMN_NUMBER },
	[TOLD_CEILING] = { "ceiling", COLUMN_NUMBER },
	[TOLD_CODE] = { "code", COLUMN_NUMBER },
	[TOLD_RESULT] = { "result", COLUMN_TEXT },
	[TOLD_REPLY] = { "text", COLUMN_TEXT },
	[TOLD_BY] = { "by", COLUMN_TEXT },
	[TOLD_NODE] = { "node", COLUMN_TEXT },
	[TOLD_ORIGIN] = { "origin_id", COLUMN_TEXT },
	[TOLD_NOTE] = { "note", COLUMN_TEXT },
	[TOLD_RULE] = { "rule", COLUMN_TEXT },
	[TOLD_FILE] = { "file", COLUMN_TEXT },
	[TOLD_LINE] = { "line", COLUMN_NUMBER },
	[TOLD_PLACE] = { "place", COLUMN_TEXT },
	[TOLD_LIMIT_PLACE] = { "limit_place", COLUMN_TEXT },
	[TOLD_OBSERVED] = { "observed", COLUMN_TRUTH },
	[TOLD_OBSERVE_PLACE] = { "observe_place", COLUMN_TEXT },
	[TOLD_UNTIL] = { "until", COLUMN_TEXT },
	[TOLD_LEFT] = { "left", COLUMN_SECONDS },
	[TOLD_IN_FORCE] = { "in_force", COLUMN_TRUTH },
	[TOLD_CAUSE] = { "cause", COLUMN_TEXT },
	[TOLD_UNDO_BEFORE] = { "undo_before", COLUMN_TEXT },
	[TOLD_UNDO] = { "undo", COLUMN_TEXT },
	[TOLD_UNDO_NOTE] = { "undo_note", COLUMN_TEXT },
};

struct why {
	struct ctl *ctl;
	struct state state;
	struct why_sources sources;
	struct why_event event;
	struct why_event *causes;	/* CAUSES_MAX; the latest first */
	size_t cause_count;
	const struct why_event *held;	/* what holds the mail: the event itself, a cause, or NULL */
	bool knows_force, in_force;
	struct why_stop stop;		/* of the same mail, now */
	char stopped_by[128];
	struct why_undo undo;
	bool knows_cluster;
	struct cluster_told cluster;	/* as it is now, of a decision without a lease */
};

/* --- words ----------------------------------------------------------------------------- */

static struct value text_or_unknown(const char *text) {
	return value_text(text[0] == '\0' ? NULL : text);
}

static struct value number_if(uint64_t number, bool known) {
	return known ? value_number(number) : value_unknown();
}

static bool holds_mail(const struct decided *d) {
	return d->kind == DECIDED_SUSPENDED || d->kind == DECIDED_RECIPIENT_HELD ||
	    (d->kind == DECIDED_BY_HAND && d->by <= 2);
}

/* --- values ---------------------------------------------------------------------------- */

struct texts {
	char id[DECISION_ID_MAX], cause[DECISION_ID_MAX];
	char what[VIEW_DECIDED_MAX], time[VIEW_TIME_MAX], until[VIEW_TIME_MAX];
	char client[ADDRESS_TEXT_MAX], user[64], rate[64];
	char place[WHY_PLACE_MAX], limit_place[WHY_PLACE_MAX], observe_place[WHY_PLACE_MAX];
};

/* By whom it was done by hand: as in tail, and the name that he has here. */
static void set_user(uint32_t uid, struct texts *t, struct value *v) {
	const struct passwd *user = getpwuid((uid_t)uid);

	v[TOLD_UID] = value_number(uid);
	if (user != NULL && text_copy(t->user, sizeof(t->user), user->pw_name,
	    strlen(user->pw_name)))
		v[TOLD_USER] = value_text(t->user);
}

static void set_who(const struct decided *d, struct texts *t, struct value *v) {
	bool has_client = !address_is_unknown(&d->client);

	address_format(&d->client, t->client);
	v[TOLD_NAME] = text_or_unknown(decided_text(d, DECIDED_NAME));
	v[TOLD_CLIENT] = value_text(has_client && (d->flags & DECIDED_OUTBOUND) == 0 ?
	    t->client : NULL);
	v[TOLD_CLIENT_PORT] = number_if(d->client_port, d->client_port != 0);
	v[TOLD_PORT] = number_if(d->server_port, d->server_port != 0);
	v[TOLD_CLASS] = text_or_unknown(decided_text(d, DECIDED_CLASS));
	v[TOLD_WINDOW_OF] = text_or_unknown(decided_text(d, DECIDED_WINDOW_OF));
	v[TOLD_RECIPIENT] = text_or_unknown(decided_text(d, DECIDED_RECIPIENT));
	v[TOLD_QUEUE_ID] = text_or_unknown(decided_text(d, DECIDED_QUEUE_ID));
	v[TOLD_RELAY] = text_or_unknown(decided_text(d, DECIDED_RELAY));
	if (!v[TOLD_RELAY].known && has_client && (d->flags & DECIDED_OUTBOUND) != 0)
		v[TOLD_RELAY] = value_text(t->client);
	v[TOLD_MTA] = text_or_unknown(decided_text(d, DECIDED_MTA));
	v[TOLD_PID] = number_if((uint64_t)d->pid, d->pid > 0);
	if (d->kind == DECIDED_BY_HAND)
		set_user(d->uid, t, v);
}

static void set_numbers(const struct decided *d, struct texts *t, struct value *v) {
	bool of_window = decided_ring_of((enum decided_kind)d->kind) == DECIDED_OF_DESTINATIONS &&
	    d->kind != DECIDED_ALERT && d->kind != DECIDED_RECIPIENT_HELD &&
	    d->kind != DECIDED_ACCOUNT_HELD;
	bool of_share = !of_window && d->reason == REASON_CLASS_SHARE;
	bool of_rate = d->reason == REASON_CLASS_RATE ||
	    d->reason == REASON_CLIENT_RATE || ((d->kind == DECIDED_ACCOUNT || d->kind == DECIDED_ACCOUNT_HELD) && d->window != 0);

	v[TOLD_COUNT] = number_if(d->count, (d->limit != 0 || of_share) && !of_window);
	v[TOLD_LIMIT] = number_if(d->limit, d->limit != 0 || of_share);
	v[TOLD_CLUSTER_LIMIT] = number_if(d->before, of_share);
	v[TOLD_LEASE] = value_text(decided_lease_word(d));
	if (of_rate) {
		t->rate[0] = '\0';
		(void)text_append(t->rate, sizeof(t->rate), 0, "%u/%ums", d->before, d->window);
		v[TOLD_RATE] = value_text(t->rate);
	}
	if (!of_window)
		return;
	v[TOLD_FAIL_COHORTS] = value_decimal((double)d->fail_cohorts);
	v[TOLD_SUCCESS] = value_decimal((double)d->success);
	v[TOLD_FAILURE] = value_decimal((double)d->failure);
	v[TOLD_BEFORE] = number_if(d->before, d->before != 0);
	v[TOLD_WINDOW] = value_number(d->window);
	v[TOLD_CEILING_BEFORE] = number_if(d->ceiling_before, d->ceiling_before != 0);
	v[TOLD_CEILING] = number_if(d->ceiling, d->ceiling != 0);
}

static void set_rule(const struct decided *d, struct texts *t, struct value *v) {
	const char *file = decided_text(d, DECIDED_FILE);

	v[TOLD_RULE] = text_or_unknown(decided_text(d, DECIDED_RULE));
	v[TOLD_FILE] = text_or_unknown(file);
	v[TOLD_LINE] = number_if(d->line, d->line != 0);
	v[TOLD_PLACE] = text_or_unknown(why_place(file, d->line, t->place));
	if (d->kind == DECIDED_SUSPENDED && d->by == DECIDED_BY_COHORTS && d->line == 0)
		v[TOLD_PLACE] = value_text("the defaults of window");
	v[TOLD_LIMIT_PLACE] = text_or_unknown(why_place(file, d->limit_line, t->limit_place));
	if ((d->flags & DECIDED_OBSERVED_ONLY) != 0)
		v[TOLD_OBSERVE_PLACE] = text_or_unknown(why_place(file, d->observe_line,
		    t->observe_place));
}

static void set_reply(const struct decided *d, struct value *v) {
	v[TOLD_CODE] = number_if(d->code, d->code != 0);
	if (d->kind == DECIDED_FAILURE)
		v[TOLD_RESULT] = value_text(result_class_word((enum result_class)d->result));
	v[TOLD_REPLY] = text_or_unknown(decided_text(d, DECIDED_REASON));
	v[TOLD_NOTE] = text_or_unknown(decided_text(d, DECIDED_NOTE));
}

/* What the cluster's role is in now, where a lease was missing. */
static void set_cluster(const struct why *why, struct value *v) {
	if (!why->knows_cluster)
		return;
	v[TOLD_CLUSTER] = view_cluster_state(&why->state.view, &why->cluster);
	if (why->cluster.state != CLUSTER_STATE_JOINED)
		v[TOLD_CLUSTER_ERROR] = text_or_unknown(why->cluster.why);
}

/* What holds the mail, and where that was decided. */
static void set_origin(const struct why *why, struct value *v) {
	const struct decided *d = why->held != NULL ? &why->held->d : &why->event.d;

	v[TOLD_BY] = value_text(decided_by(d));
	v[TOLD_NODE] = text_or_unknown(decided_text(d, DECIDED_NODE));
	v[TOLD_ORIGIN] = text_or_unknown(decided_text(d, DECIDED_ORIGIN));
}

/* A deferral lasts as long as what holds the mail. */
static void set_until(const struct why *why, struct texts *t, struct value *v) {
	const struct why_event *event = why->held != NULL ? why->held : &why->event;
	int64_t until_ns = why->in_force ? why->stop.until_wall_ns :
	    (event->d.flags & DECIDED_WAS_HELD) != 0 ? 0 : event->until_wall_ns;
	int64_t left_ns = until_ns - why->sources.wall_ns;

	if (until_ns == INT64_MAX)
		v[TOLD_UNTIL] = value_text("it is resumed");
	else if (until_ns != 0)
		v[TOLD_UNTIL] = value_text(view_time(until_ns, t->until));
	if (until_ns != 0 && until_ns != INT64_MAX && left_ns > 0 &&
	    (!why->knows_force || why->in_force))
		v[TOLD_LEFT] = value_number((uint64_t)((left_ns + NS_PER_SECOND - 1) /
		    NS_PER_SECOND));
	if (why->knows_force)
		v[TOLD_IN_FORCE] = value_truth(why->in_force);
}

static void set_values(const struct why *why, struct texts *t, struct value *v) {
	const struct decided *d = &why->event.d;
	int64_t age_ns = why->sources.wall_ns - why->event.wall_ns;

	for (size_t i = 0; i < TOLD_VALUES; i++)
		v[i] = value_unknown();
	view_decided_say(d, t->what);
	v[TOLD_ID] = value_text(decision_id_text(d->id, t->id));
	v[TOLD_WHAT] = value_text(t->what);
	v[TOLD_KIND] = value_text(why->ctl->writer.json ? decided_word(d->kind) :
	    decided_shown_word(d));
	v[TOLD_TIME] = value_text(view_time(why->event.wall_ns, t->time));
	v[TOLD_AGE] = number_if((uint64_t)(age_ns / NS_PER_SECOND), age_ns >= 0);
	v[TOLD_SOURCE] = value_text(why->event.source);
	v[TOLD_STAGE] = value_text(decided_stage_word(d->stage));
	if (d->reason < REASON_COUNT)
		v[TOLD_REASON] = explain_reason_word((enum reason)d->reason);
	v[TOLD_OBSERVED] = value_truth((d->flags & DECIDED_OBSERVED_ONLY) != 0);
	set_who(d, t, v);
	set_numbers(d, t, v);
	set_reply(d, v);
	set_rule(d, t, v);
	set_cluster(why, v);
	set_origin(why, v);
	set_until(why, t, v);
	if (d->cause != 0)
		v[TOLD_CAUSE] = value_text(decision_id_text(d->cause, t->cause));
	v[TOLD_UNDO_BEFORE] = text_or_unknown(why->undo.edit);
	v[TOLD_UNDO] = text_or_unknown(why->undo.command);
	v[TOLD_UNDO_NOTE] = value_text(why->undo.none);
}

/* --- what led to it ----------------------------------------------------------------------- */

static const struct column cause_columns[] = {
	{ "id", COLUMN_TEXT }, { "time", COLUMN_TEXT }, { "kind", COLUMN_TEXT },
	{ "name", COLUMN_TEXT }, { "queue_id", COLUMN_TEXT }, { "relay", COLUMN_TEXT },
	{ "place", COLUMN_TEXT }, { "text", COLUMN_TEXT },
};

static void cause_row(struct writer *writer, const struct why_event *event) {
	const struct decided *d = &event->d;
	char id[DECISION_ID_MAX], time[VIEW_TIME_MAX], place[WHY_PLACE_MAX];
	const struct value values[COUNT_OF(cause_columns)] = {
		value_text(decision_id_text(d->id, id)),
		value_text(view_time(event->wall_ns, time)),
		value_text(decided_word(d->kind)),
		text_or_unknown(decided_text(d, DECIDED_NAME)),
		text_or_unknown(decided_text(d, DECIDED_QUEUE_ID)),
		text_or_unknown(decided_text(d, DECIDED_RELAY)),
		text_or_unknown(why_place(decided_text(d, DECIDED_FILE), d->line, place)),
		text_or_unknown(decided_text(d, DECIDED_REASON)),
	};

	writer_row(writer, values);
}

/* The oldest of the last ones first. */
static void cause_rows(void *context, struct writer *writer) {
	const struct why *why = context;
	size_t shown = why->cause_count < CAUSES_SHOWN ? why->cause_count : CAUSES_SHOWN;

	for (size_t i = shown; i-- > 0;)
		cause_row(writer, &why->causes[i]);
}

static void find_causes(struct why *why) {
	uint64_t cause = why->event.d.cause;

	if (holds_mail(&why->event.d))
		why->held = &why->event;
	while (cause != 0 && why->cause_count < CAUSES_MAX) {
		struct why_event *event = &why->causes[why->cause_count];
		uint64_t before = cause;

		if (!why_find(&why->sources, cause, event))
			break;
		why->cause_count++;
		if (why->held == NULL && holds_mail(&event->d))
			why->held = event;
		cause = event->d.cause;
		/* each is older: no ring of them, whoever wrote them */
		if (cause >= before && cause % DECIDED_RINGS == before % DECIDED_RINGS)
			break;
	}
}

static void find_undo(struct why *why) {
	char id[DECISION_ID_MAX];

	why_undo(why->ctl, &why->event, why->held, why->sources.wall_ns, &why->undo);
	if (why_is_unleased(&why->event.d) && why->state.view.reader != NULL)
		why->knows_cluster = reader_cluster(why->state.view.reader, &why->cluster);
	if (why->held == NULL || why->state.view.reader == NULL)
		return;
	why_find_stop(&why->sources, why->held, &why->stop);
	why->knows_force = true;
	why->in_force = why->stop.stopped &&
	    (why->stop.by == 0 || why->stop.by == why->held->d.id);
	if (why->in_force || why->undo.none != NULL)
		return;
	memset(&why->undo, 0, sizeof(why->undo));
	why->undo.none = "it is no longer active";
	if (!why->stop.stopped)
		return;
	(void)text_append(why->stopped_by, sizeof(why->stopped_by), 0, "it is no longer "
	    "active, but a later decision stops the same mail: posternctl why %s",
	    decision_id_text(why->stop.by, id));
	why->undo.none = why->stopped_by;
}

/* --- one of them ---------------------------------------------------------------------------- */

static void write_one(struct why *why) {
	struct column shown[TOLD_VALUES];
	struct value values[TOLD_VALUES], known[TOLD_VALUES];
	struct writer *writer = &why->ctl->writer;
	struct texts texts;
	size_t count = 0;

	set_values(why, &texts, values);
	writer_object_begin(writer, NULL);
	for (size_t i = 0; i < TOLD_VALUES; i++) {
		bool twice = i == TOLD_FILE || i == TOLD_LINE;	/* people have the place */

		if (!writer->json && (!values[i].known || twice))
			continue;
		shown[count] = columns[i];
		known[count++] = values[i];
	}
	writer_members(writer, shown, known, count);
	if (why->cause_count > CAUSES_SHOWN && !writer->json)
		ctl_complain("%zu earlier failures are not shown",
		    why->cause_count - CAUSES_SHOWN);
	if (why->cause_count > 0 || writer->json)
		writer_table(writer, "because", cause_columns, COUNT_OF(cause_columns),
		    cause_rows, why);
	writer_object_end(writer);
}

static int tell_unknown(const struct why *why, uint64_t id) {
	struct why_there there;
	char text[DECISION_ID_MAX], here[DECISION_ID_MAX];

	(void)decision_id_text(id, text);
	if (why_find_there(&why->sources, id, &there))
		ctl_complain("%s: unknown here: it is a decision of node %s, which stops mail "
		    "for %s; run posternctl why %s there, or posternctl why %s here",
		    text, there.node,
		    there.name, text, decision_id_text(there.here, here));
	else
		ctl_complain("%s: unknown here: it is from another node, or was overwritten%s",
		    text,
		    why->sources.journal_path[0] == '\0' ?
		    ", and the journal is disabled (journal.path)" :
		    ", or is too old for the size of the journal (journal.decisions_size)");
	return EX_NOHOST;
}

static int tell_one(struct why *why, uint64_t id) {
	if (!why_find(&why->sources, id, &why->event))
		return tell_unknown(why, id);
	why->causes = calloc(CAUSES_MAX, sizeof(why->causes[0]));
	if (why->causes == NULL) {
		ctl_complain("no memory");
		return EX_OSERR;
	}
	find_causes(why);
	find_undo(why);
	write_one(why);
	free(why->causes);
	return EX_OK;
}

/* --- the latest -------------------------------------------------------------------------------- */

struct latest {
	const char *wanted;	/* NULL: any */
	struct why_event *list;
	size_t count, most;
};

static bool fits(const struct decided *d, const char *wanted) {
	static const enum decided_text names[] = { DECIDED_NAME, DECIDED_CLASS,
		DECIDED_WINDOW_OF, DECIDED_RECIPIENT, DECIDED_QUEUE_ID };
	char address[ADDRESS_TEXT_MAX];
	size_t length = strlen(wanted);

	for (size_t i = 0; i < COUNT_OF(names); i++) {
		const char *text = decided_text(d, names[i]);

		if (strlen(text) == length && text_equal_nocase(text, wanted, length))
			return true;
	}
	address_format(&d->client, address);
	return strcmp(address, wanted) == 0;
}

static bool take_latest(void *context, const struct why_event *event) {
	struct latest *latest = context;

	if (latest->wanted == NULL || fits(&event->d, latest->wanted))
		latest->list[latest->count++] = *event;
	return latest->count < latest->most;
}

static void latest_rows(void *context, struct writer *writer) {
	const struct latest *latest = context;

	/* the newest last, where people look */
	for (size_t i = latest->count; i-- > 0;)
		view_decided_row(writer, &latest->list[i].d, latest->list[i].wall_ns);
}

static int tell_latest(struct why *why, const char *wanted) {
	struct latest latest = { .wanted = wanted,
		.most = why->ctl->all ? LATEST_ALL : LATEST };

	latest.list = calloc(latest.most, sizeof(latest.list[0]));
	if (latest.list == NULL) {
		ctl_complain("no memory");
		return EX_OSERR;
	}
	why_each(&why->sources, take_latest, &latest);
	if (latest.count == 0 && wanted != NULL)
		ctl_complain("%s: not a decision ID, and no recent decision matches it", wanted);
	if (latest.count > 0 || wanted == NULL || why->ctl->writer.json)
		view_decided_table(&why->ctl->writer, NULL, latest_rows, &latest);
	free(latest.list);
	return latest.count == 0 && wanted != NULL ? EX_NOHOST : EX_OK;
}

/* --- the command --------------------------------------------------------------------------------- */

/* Was an id meant?  Then a slip in it is told. */
static bool looks_like_id(const char *word) {
	size_t length = strlen(word);

	return strncmp(word, "id=", 3) == 0 ||
	    ((length == 12 || length == 13) && strspn(word, "0123456789"
	    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == length);
}

int command_WHY(struct ctl *ctl) {
	const char *word = ctl->argument_count > 0 ? ctl->arguments[0] : NULL;
	char journal[PATH_MAX + 16] = "";
	struct why why = { .ctl = ctl };
	uint64_t id = 0;
	bool is_id = word != NULL && decision_id_parse(word, strlen(word), &id);
	int opened = state_open(ctl, &why.state), result = opened;

	if (result != EX_OK && (why.state.places.journal[0] == '\0' || !is_id))
		return state_close(&why.state, result);
	if (why.state.places.journal[0] != '\0')
		(void)snprintf(journal, sizeof(journal), "%s/%s", why.state.places.journal,
		    generation_journal_word(JOURNAL_ROOM_DECISIONS));
	why_sources_begin(&why.sources, &why.state, journal);
	if (is_id) {
		result = tell_one(&why, id);
	} else {
		result = tell_latest(&why, word);
		if (result == EX_NOHOST && looks_like_id(word))
			ctl_complain("a decision ID has 12 letters and digits, the last of "
			    "which is a checksum: one of them may be wrong");
	}
	why_sources_end(&why.sources);
	return state_close(&why.state, result == EX_OK && opened == EX_UNAVAILABLE ? opened :
	    result);
}
