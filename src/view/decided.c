/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Decisions in words, and the latest of them.
 * ERRORS   No memory.
 * THREADS  One.
 */
#include "view/decided.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/decision_id.h"
#include "base/manual.h"
#include "base/pace_text.h"
#include "base/text.h"
#include "policy/limit/decision.h"
#include "view/decided_batch.h"

const char *view_time(int64_t wall_ns, char out[VIEW_TIME_MAX]) {
	time_t seconds = (time_t)(wall_ns / NS_PER_SECOND);
	struct tm tm;
	size_t length;

	if (gmtime_r(&seconds, &tm) == NULL)
		return "-";
	length = strftime(out, VIEW_TIME_MAX, "%Y-%m-%dT%H:%M:%S", &tm);
	(void)snprintf(out + length, VIEW_TIME_MAX - length, ".%03uZ",
	    (unsigned)(wall_ns / NS_PER_MS % 1000));
	return out;
}

bool view_decided_has(const struct decided *decided, uint32_t texts, const char *wanted,
    bool whole) {
	char client[ADDRESS_TEXT_MAX] = "";

	for (unsigned which = 1; which < DECIDED_TEXTS; which++) {
		const char *text = decided_text(decided, (enum decided_text)which);

		if ((texts >> which & 1) != 0 && (whole ? strcasecmp(text, wanted) == 0 :
		    strcasestr(text, wanted) != NULL))
			return true;
	}
	if (!address_is_unknown(&decided->client))
		address_format(&decided->client, client);
	return whole ? strcmp(client, wanted) == 0 : strcasestr(client, wanted) != NULL;
}

static bool is_class_reason(const struct decided *d) {
	return (d->limit != 0 || d->reason == REASON_CLASS_SHARE) &&
	    decided_text(d, DECIDED_CLASS)[0] != '\0' && d->reason != REASON_WINDOW_FULL;
}

/* At the end of what stands there. */
static void sentence_add(char out[VIEW_DECIDED_MAX], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void sentence_add(char out[VIEW_DECIDED_MAX], const char *format, ...) {
	size_t length = strlen(out);
	va_list arguments;

	va_start(arguments, format);
	(void)vsnprintf(out + length, VIEW_DECIDED_MAX - length, format, arguments);
	va_end(arguments);
}

/* Who or what it was about. */
static void sentence_subject(const struct decided *d, char out[VIEW_DECIDED_MAX]) {
	char address[ADDRESS_TEXT_MAX];
	const char *name = decided_text(d, DECIDED_NAME);

	out[0] = '\0';
	if ((d->flags & DECIDED_OUTBOUND) != 0) {
		bool class = name[0] == '\0' || (d->flags & DECIDED_IS_CLASS) != 0;

		sentence_add(out, "%s%s", class ? "class " : "",
		    name[0] == '\0' ? decided_text(d, DECIDED_CLASS) : name);
		return;
	}
	address_format(&d->client, address);
	sentence_add(out, name[0] == '\0' ? "%s%s" : "%s (%s)", address, name);
}

static void say_limit(const struct decided *d, char out[VIEW_DECIDED_MAX]) {
	const char *class = decided_text(d, DECIDED_CLASS);
	bool client = d->reason == REASON_CLIENT_SESSIONS || d->reason == REASON_CLIENT_RATE;
	bool rate = d->reason == REASON_CLASS_RATE || d->reason == REASON_CLIENT_RATE;

	sentence_add(out, ": %s%s%s had %u of %u sessions%s", client ? "this client of " : "", "class ",
	    class, d->count, d->limit, rate ? " opened recently" : "");
	if (d->reason != REASON_CLASS_SHARE)
		return;
	sentence_add(out, ", this node's share of %u", d->before);
	if (decided_lease_meaning(d) != NULL)
		sentence_add(out, ": %s", decided_lease_meaning(d));
}

/* " (observe mode)", " (not enforced: no lanes on mx1)", or "". */
static void say_not_applied(const struct decided *d, char out[VIEW_DECIDED_MAX]) {
	char why[ENFORCEMENT_TEXT_MAX];

	if ((d->flags & DECIDED_OBSERVED_ONLY) != 0)
		sentence_add(out, " (%s)", decided_not_applied(d, why));
}

const char *decided_not_applied(const struct decided *d, char out[ENFORCEMENT_TEXT_MAX]) {
	bool of_sessions = decided_is_of_sessions(d);

	return enforcement_text(of_sessions || d->action == ENFORCEMENT_APPLIED ?
	    ENFORCEMENT_OBSERVED : d->action, decided_text(d, DECIDED_MTA), out);
}

const char *decided_shown_word(const struct decided *d) {
	return d->kind == DECIDED_SUSPENDED && (d->flags & DECIDED_OBSERVED_ONLY) != 0 ?
	    "would-suspend" : decided_word(d->kind);
}

static const char *say_verdict(const struct decided *d) {
	bool observed = (d->flags & DECIDED_OBSERVED_ONLY) != 0;

	if (d->reason == REASON_DELIVERED)
		return observed ? "would be removed from its queue file (observe mode)" :
		    "removed from its queue file";
	if ((d->flags & DECIDED_OUTBOUND) != 0)
		return observed ? "mail would be deferred (observe mode)" : "mail is deferred";
	if (d->stage == DECIDED_AT_RECIPIENT)
		return observed ? "a recipient would be deferred (observe mode)" :
		    "a recipient was deferred";
	return observed ? "would be refused with 421 (observe mode)" :
	    "was refused with 421";
}

static void say_session(const struct decided *d, char out[VIEW_DECIDED_MAX]) {
	char who[VIEW_DECIDED_MAX];

	sentence_subject(d, who);
	sentence_add(out, "%s%s", who, d->stage == DECIDED_AT_CONNECT && d->kind != DECIDED_UNTRACKED &&
	    d->kind != DECIDED_FAULT ? " " : ": ");
	switch ((enum decided_kind)d->kind) {
	case DECIDED_UNTRACKED:
		sentence_add(out, "admitted but not counted");
		return;
	case DECIDED_FAULT:
		sentence_add(out, "the shared state was not available in time; %s",
		    d->verdict == VERDICT_ADMIT ? "admitted" : "refused");
		return;
	default:
		sentence_add(out, "%s", say_verdict(d));
	}
	if (is_class_reason(d))
		say_limit(d, out);
	else if (d->reason == REASON_WINDOW_FULL)
		sentence_add(out, ": %s had %u of %u deliveries in flight", decided_text(d,
		    DECIDED_WINDOW_OF), d->count, d->limit);
	else if (d->reason < REASON_COUNT)
		sentence_add(out, ": %s", decided_reason_text(d->reason));
}

/* "alice (account staff): a recipient was refused: 100 of 100 in 1h". */
static void say_account(const struct decided *d, char out[VIEW_DECIDED_MAX]) {
	bool observed = (d->flags & DECIDED_OBSERVED_ONLY) != 0;

	sentence_add(out, "login %s (account %s): %s %s refused%s", decided_text(d, DECIDED_NAME),
	    decided_text(d, DECIDED_CLASS), decided_text(d, DECIDED_RECIPIENT)[0] != '\0' ?
	    "a recipient" : "a message", observed ? "would be" : "was", observed ?
	    " (observe mode)" : "");
	if (d->reason < REASON_COUNT)
		sentence_add(out, ": %s", decided_reason_text(d->reason));
	if (d->reason == REASON_ACCOUNT_HELD)
		return;
	sentence_add(out, ", %u of %u", d->count, d->limit);
	if (d->window != 0)
		sentence_add(out, " in %u s", d->window / 1000);
}

/* Of another node's decision: the node, and the decision's id there. */
static void say_node(const struct decided *d, char out[VIEW_DECIDED_MAX]) {
	const char *node = decided_text(d, DECIDED_NODE);
	const char *origin = decided_text(d, DECIDED_ORIGIN);

	if (d->stage != DECIDED_BY_NODE)
		return;
	sentence_add(out, "%s%s%s", d->by == DECIDED_BY_OTHERS ? "" : " on ", *node == '\0' ?
	    "another node of the cluster" : "node ", node);
	if (*origin != '\0')
		sentence_add(out, " (there: posternctl why %s)", origin);
}

static const char *suspended_by(const struct decided *d) {
	switch (d->by) {
	case DECIDED_BY_RULE:
		return "a provider rule";
	case DECIDED_BY_HAND_OF:
		return "manual action";
	case DECIDED_BY_OTHERS:
		return "";
	default:
		return "too many consecutive delivery failures";
	}
}

static void say_suspended(const struct decided *d, char out[VIEW_DECIDED_MAX]) {
	bool observed = (d->flags & DECIDED_OBSERVED_ONLY) != 0;
	bool held = (d->flags & DECIDED_HELD) != 0;

	sentence_add(out, "%s %s", observed ? held ? "would hold" : "would suspend" : held ? "held" :
	    "suspended", decided_text(d, DECIDED_NAME));
	say_not_applied(d, out);
	sentence_add(out, ": %s", suspended_by(d));
	say_node(d, out);
}

static void say_account_held(const struct decided *d, char out[VIEW_DECIDED_MAX]) {
	bool observed = (d->flags & DECIDED_OBSERVED_ONLY) != 0;

	sentence_add(out, "login %s (account %s)%s: %s: %u (limit %u) in %u s",
	    decided_text(d, DECIDED_NAME), decided_text(d, DECIDED_CLASS),
	    (d->flags & DECIDED_HELD) != 0 ? " is held" :
	    observed ? " would be held (observe mode)" : "",
	    decided_reason_text(d->reason), d->count, d->limit,
	    d->window / 1000);
	if (d->reason == REASON_ACCOUNT_UNKNOWN)
		sentence_add(out, ", %.0f of %.0f results failed", (double)d->failure,
		    (double)d->failure + (double)d->success);
}

static void say_pace(const struct decided *d, char out[VIEW_DECIDED_MAX]) {
	char before[PACE_TEXT_MAX], now[PACE_TEXT_MAX];

	(void)pace_text(d->before * DECIDED_PACE_NS, before);
	(void)pace_text(d->window * DECIDED_PACE_NS, now);
	if (d->before == 0)
		sentence_add(out, "%s has a pace of %s now", decided_text(d, DECIDED_NAME), now);
	else
		sentence_add(out, "the pace of %s was lowered from %s to %s",
		    decided_text(d, DECIDED_NAME), before, now);
	say_not_applied(d, out);
}

static void say_source_day(const struct decided *d, char out[VIEW_DECIDED_MAX]) {
	const char *name = decided_text(d, DECIDED_NAME);

	if (d->window == 0)
		sentence_add(out, "source %s has passed its plan: no maximum per day applies", name);
	else
		sentence_add(out, "source %s may send %u messages in its new day (%u in the day before)",
		    name, (unsigned)d->window, (unsigned)d->before);
}

static void say_destination(const struct decided *d, char out[VIEW_DECIDED_MAX]) {
	const char *name = decided_text(d, DECIDED_NAME);

	switch ((enum decided_kind)d->kind) {
	case DECIDED_SUSPENDED:
		say_suspended(d, out);
		return;
	case DECIDED_BY_HAND:
		sentence_add(out, "an administrator %s %s%s", manual_done(d->by),
		    (d->flags & DECIDED_IS_CLASS) != 0 ? "class " : "", name);
		if (d->action != ENFORCEMENT_APPLIED)
			say_not_applied(d, out);
		return;
	case DECIDED_PACE:
		say_pace(d, out);
		return;
	case DECIDED_SOURCE_DAY:
		say_source_day(d, out);
		return;
	case DECIDED_WINDOW:
		sentence_add(out, d->ceiling != d->ceiling_before ? "the ceiling of %s changed" :
		    "the window of %s changed", name);
		break;
	default:
		sentence_add(out, "%s: %s", name, decided_meaning(d->kind));
	}
	if (*decided_text(d, DECIDED_NODE) != '\0')
		sentence_add(out, " (from node %s)", decided_text(d, DECIDED_NODE));
}

void view_decided_say(const struct decided *d, char out[VIEW_DECIDED_MAX]) {
	out[0] = '\0';
	if (d->kind == DECIDED_ACCOUNT)
		say_account(d, out);
	else if (d->kind == DECIDED_ACCOUNT_HELD)
		say_account_held(d, out);
	else if (decided_is_of_sessions(d))
		say_session(d, out);
	else
		say_destination(d, out);
}

/* --- rows ------------------------------------------------------------------------- */

struct timed {
	const struct decided *decided;
	int64_t wall_ns;
};

void view_decided_row(struct writer *writer, const struct decided *decided, int64_t wall_ns) {
	writer_row(writer, &(const struct timed){ decided, wall_ns });
}

void view_decided_put(struct writer *writer, const struct decided *decided, int64_t wall_ns) {
	const char *text = decided_text(decided, DECIDED_REASON);
	char id[DECISION_ID_MAX], time[VIEW_TIME_MAX], what[VIEW_DECIDED_MAX];

	view_decided_say(decided, what);
	writer_text(writer, "id", decision_id_text(decided->id, id));
	writer_text(writer, "time", view_time(wall_ns, time));
	writer_text(writer, "kind", writer->json ? decided_word(decided->kind) :
	    decided_shown_word(decided));
	writer_text(writer, "what", what);
	writer_text_if(writer, "text", text);
}

static void timed_row(void *context, struct writer *writer, const void *item) {
	static const struct decided none;
	const struct timed *timed = item;
	const struct decided *decided = timed->decided == NULL ? &none : timed->decided;

	(void)context;
	view_decided_put(writer, decided, timed->wall_ns);
}

void view_decided_table(struct writer *writer, const char *name,
    void (*rows)(void *context, struct writer *writer), void *context) {
	writer_table(writer, &(const struct table){ .name = name, .row = timed_row,
	    .rows = rows, .context = context });
}

/* --- the latest ------------------------------------------------------------------- */

static bool is_public(const void *context, const struct decided *decided) {
	(void)context;
	return (decided->flags & DECIDED_IS_RECIPIENT) == 0;
}

static void batch_rows(void *context, struct writer *writer) {
	const struct decided_batch *batch = context;
	int64_t now_ns, wall_ns;

	clock_pair(&now_ns, &wall_ns);
	for (size_t i = 0; i < batch->count; i++)
		view_decided_row(writer, &batch->list[i],
		    wall_ns - (now_ns - batch->list[i].at_ns));
}

int view_decisions_write(const struct view *view, struct writer *writer, size_t most) {
	struct decided_batch batch = { .wants = is_public, .most = most };
	int result;

	decided_batch_read(&batch, view->reader);
	decided_batch_sort(&batch, false);
	result = batch.no_memory ? -1 : 0;
	if (result == 0)
		view_decided_table(writer, NULL, batch_rows, &batch);
	free(batch.list);
	return result;
}
