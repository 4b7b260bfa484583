/* SPDX-License-Identifier: ISC */
/*
 * What happened to windows, in words.  Names and reasons came from outside: they are
 * quoted.  The log cuts floods.  Any thread.
 */
#include "front/decision/window_log.h"

#include <string.h>

#include "base/account_text.h"
#include "base/clock.h"
#include "base/decision_id.h"
#include "base/log.h"
#include "base/pace_text.h"
#include "base/text.h"
#include "engine/account/account_health.h"
#include "engine/destination/windows.h"

#define NAME_SHOWN	(4 * 80 + 4)
#define TEXT_SHOWN	(4 * WINDOW_REASON_MAX + 4)
#define RULE_SHOWN	256

struct words {
	char name[NAME_SHOWN];
	char rule[RULE_SHOWN];		/* its name, or FILE:LINE, or "-" */
	char note[TEXT_SHOWN];
	char text[TEXT_SHOWN];
	long long for_s;
	const char *observed;
	char id[DECISION_ID_MAX];
	char node[NAME_SHOWN];		/* TOLD_...: which one said so, or "-" */
};

static void find_rule_words(const struct window_report *report, struct words *out) {
	const struct judge_rule *rule = report->rule;
	char plain[RULE_SHOWN / 4];

	log_quote(out->rule, sizeof(out->rule), "", 0);
	out->note[0] = plain[0] = '\0';
	if (rule == NULL)
		return;
	if (rule->name[0] != '\0')
		text_append(plain, sizeof(plain), 0, "%s", rule->name);
	else
		text_append(plain, sizeof(plain), 0, "%s:%u", rule->file, rule->line);
	log_quote(out->rule, sizeof(out->rule), plain, strlen(plain));
	log_sentence(out->note, sizeof(out->note), rule->note);
}

static void find_words(const struct window_report *report, struct words *out) {
	log_quote(out->name, sizeof(out->name), report->name, report->name_length);
	log_sentence(out->text, sizeof(out->text), report->reason);
	find_rule_words(report, out);
	decision_id_text(report->id, out->id);
	log_quote(out->node, sizeof(out->node), report->node == NULL ? "" : report->node,
	    report->node == NULL ? 0 : strlen(report->node));
	out->for_s = (long long)((report->for_ns + NS_PER_SECOND - 1) / NS_PER_SECOND);
	out->observed = report->observed ? "yes" : "no";
}

static bool log_suspended(const struct window_report *report, const struct words *w) {
	return log_event(EVENT_SUSPENDED, "id=%s destination=%s for=%llds by=%s rule=%s window=%u "
	    "ceiling=%u observed=%s text=\"%s\"", w->id, w->name, w->for_s,
	    report->what == WINDOW_DIED ? "cohorts" : "rule", w->rule, report->before,
	    report->ceiling, w->observed, w->text);
}

/* It may be looked up there. */
static bool log_told(const struct window_report *report, const struct words *w) {
	char origin[DECISION_ID_MAX];

	return log_event(EVENT_SUSPENDED, "id=%s destination=%s state=%s for=%llds by=node node=%s "
	    "origin=%s there=%s window=%u ceiling=%u observed=%s text=\"%s\"", w->id, w->name,
	    window_state_word(report->state), w->for_s, w->node,
	    decision_id_text(report->origin, origin), windows_by_word(report->by),
	    report->before, report->ceiling, w->observed, w->text);
}

static bool log_told_ceiling(const struct window_report *report, const struct words *w) {
	return log_event(EVENT_WINDOW, "id=%s destination=%s by=node node=%s window=%u before=%u "
	    "ceiling=%u ceiling_before=%u observed=%s", w->id, w->name, w->node, report->window,
	    report->before, report->ceiling, report->ceiling_before, w->observed);
}

static bool log_window(const struct window_report *report, const struct words *w) {
	return log_event(EVENT_WINDOW, "id=%s destination=%s window=%u before=%u ceiling=%u success=%.4g "
	    "failure=%.4g fail_cohorts=%.4g by=%s rule=%s observed=%s text=\"%s\"", w->id, w->name,
	    report->window, report->before, report->ceiling, report->success, report->failure,
	    report->fail_cohorts, report->what == WINDOW_CHANGED ? "feedback" : "rule",
	    w->rule, w->observed, w->text);
}

static bool log_pace(const struct window_report *report, const struct words *w) {
	char before[PACE_TEXT_MAX], now[PACE_TEXT_MAX];

	return log_event(EVENT_PACE, "id=%s destination=%s pace=%s before=%s rule=%s observed=%s "
	    "text=\"%s\"", w->id, w->name, pace_text(report->pace_ns, now),
	    pace_text(report->pace_before_ns, before), w->rule, w->observed, w->text);
}

static bool log_source_day(const struct window_report *report, const struct words *w) {
	return log_event(EVENT_SOURCE_DAY, "id=%s source=%s number=%u before=%u text=\"%s\"", w->id,
	    w->name, report->window, report->before, w->text);
}

static bool window_log_report(void *context, const struct window_report *report) {
	struct words w;

	(void)context;
	find_words(report, &w);
	switch (report->what) {
	case WINDOW_DIED:
	case WINDOW_RULE_SUSPENDED:
		return log_suspended(report, &w);
	case WINDOW_TOLD_STOP:
		return log_told(report, &w);
	case WINDOW_CHANGED:
	case WINDOW_RULE_CEILING:
		return log_window(report, &w);
	case WINDOW_TOLD_CEILING:
		return log_told_ceiling(report, &w);
	case WINDOW_TOLD_BACK:
		return log_event(EVENT_BACK, "id=%s destination=%s by=node node=%s window=%u "
		    "ceiling=%u text=\"%s\"", w.id, w.name, w.node, report->window,
		    report->ceiling, w.text);
	case WINDOW_BACK:
		return log_event(EVENT_BACK, "id=%s destination=%s window=%u ceiling=%u",
		    w.id, w.name, report->window, report->ceiling);
	case WINDOW_RULE_HELD:
		return log_event(EVENT_RECIPIENT_HELD, "id=%s recipient=%s for=%llds rule=%s "
		    "observed=%s text=\"%s\"", w.id, w.name, w.for_s, w.rule, w.observed,
		    w.text);
	case WINDOW_RULE_ALERT:
		return log_event(EVENT_ALERT, "id=%s destination=%s rule=%s note=\"%s\" "
		    "text=\"%s\"", w.id, w.name, w.rule, w.note, w.text);
	case WINDOW_SOURCE_DAY:
		return log_source_day(report, &w);
	case WINDOW_RULE_SLOWED:
		return log_pace(report, &w);
	case WINDOW_BY_HAND:
		return log_event(EVENT_BY_HAND, "id=%s command=%s name=%s state=%s for=%llds window=%u "
		    "ceiling=%u observed=%s uid=%ld text=\"%s\"", w.id, manual_word(report->verb), w.name,
		    window_state_word(report->state), w.for_s, report->window,
		    report->ceiling, w.observed, (long)(int32_t)report->uid, w.text);
	case WINDOW_FAILED:
		break;
	}
	return false;
}

#ifdef WITH_ACCOUNTS
static void report_trip(const struct generation *generation, const struct account_trip *trip) {
	const struct health_limits *limits = &trip->account->health;
	const char *name = generation_text(generation, trip->account->name);
	char id[DECISION_ID_MAX], login[NAME_SHOWN], window[ACCOUNT_WINDOW_TEXT];
	char entry[4 * GENERATION_CLASS_NAME_MAX + 4];
	bool networks = trip->verdict == HEALTH_NETWORKS;

	log_quote(login, sizeof(login), trip->login, strlen(trip->login));
	log_quote(entry, sizeof(entry), name, strlen(name));
	log_event(EVENT_ACCOUNT_HELD, "id=%s account=%s login=%s reason=%s count=%u limit=%u "
	    "window=%s failed=%.0f results=%.0f action=%s observed=%s",
	    decision_id_text(trip->id, id), entry, login,
	    trip->reason,
	    networks ? trip->counts.networks : trip->counts.unknown,
	    networks ? limits->networks : limits->unknown,
	    account_window_text(networks ? limits->networks_period_s :
		limits->unknown_period_s, window), trip->counts.failed, trip->counts.results,
	    trip->account->health_action == ACCOUNT_HEALTH_HOLD ? "hold" : "alert",
	    trip->observed ? "yes" : "no");
}
#endif

void window_log_listen(struct engine *engine) {
	windows_listen(engine, window_log_report, NULL);
#ifdef WITH_ACCOUNTS
	engine_account_listen(engine, report_trip);
#endif
}
