/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What happened to windows, noted for posternctl why.
 * MODEL    The rule of a suspension by failed cohorts is the innermost group of settings that
 *          counts.
 * ERRORS   None: a note that is lost costs an explanation.
 * THREADS  Any.
 */
#include <string.h>

#include "base/clock.h"
#include "base/decision_id.h"
#include "engine/decision/decided.h"
#include "engine/destination/windows_internal.h"

uint64_t windows_note_pressure(struct engine *engine, const struct generation *generation,
    const struct question *question, uint32_t class_index, const char *recipient,
    size_t length, int64_t now_ns, const struct window_pressure *pressure, uint64_t cause) {
	struct decided d;

	decided_begin(&d, decisions_claim(engine->segment, DECIDED_OF_SESSIONS),
	    DECIDED_BACK_PRESSURE, DECIDED_AT_RECIPIENT, now_ns);
	d.reason = REASON_SUSPENDED;
	d.verdict = pressure->observed ? VERDICT_ADMIT : VERDICT_DEFER;
	d.flags = pressure->observed ? DECIDED_OBSERVED_ONLY : 0;
	d.cause = cause;
	d.until_ns = pressure->for_ns == 0 ? INT64_MAX : now_ns + pressure->for_ns;
	decided_put_client(&d, question);
	decided_put_string(&d, DECIDED_WINDOW_OF, pressure->owner.name);
	decided_put_class(&d, generation, class_index, CLASS_NO_RULE, false);
	decided_put(&d, DECIDED_RECIPIENT, recipient, length);
	decided_put(&d, DECIDED_NAME, question->name,
	    question->name == NULL ? 0 : question->name_length);
	decisions_write(engine->segment, &d);
	return d.id;
}

static const uint8_t kinds_of_windows[] = {
	[WINDOW_DIED] = DECIDED_SUSPENDED, [WINDOW_RULE_SUSPENDED] = DECIDED_SUSPENDED,
	[WINDOW_RULE_CEILING] = DECIDED_WINDOW, [WINDOW_RULE_HELD] = DECIDED_RECIPIENT_HELD,
	[WINDOW_RULE_ALERT] = DECIDED_ALERT, [WINDOW_RULE_SLOWED] = DECIDED_PACE,
	[WINDOW_SOURCE_DAY] = DECIDED_SOURCE_DAY, [WINDOW_BACK] = DECIDED_BACK,
	[WINDOW_CHANGED] = DECIDED_WINDOW, [WINDOW_BY_HAND] = DECIDED_BY_HAND,
	[WINDOW_FAILED] = DECIDED_FAILURE, [WINDOW_TOLD_STOP] = DECIDED_SUSPENDED,
	[WINDOW_TOLD_BACK] = DECIDED_BACK, [WINDOW_TOLD_CEILING] = DECIDED_WINDOW,
};

/* A provider rule by its name, and its place. */
static void put_reply_rule(struct decided *d, const struct judge_rule *rule) {
	decided_put_file(d, rule->file, rule->line);
	decided_put_string(d, DECIDED_RULE, rule->name);
}

/* The innermost group of settings that counts for the destination. */
static void put_settings(struct decided *d, const struct window_report *report) {
	const struct generation *g = report->generation;
	struct generation_window_source sources[GENERATION_WINDOW_SOURCES];
	unsigned mta = report->judgement == NULL ? GENERATION_MTAS_MAX :
	    report->judgement->mta;
	uint32_t provider = report->judgement == NULL ? GENERATION_NO_PROVIDER :
	    report->judgement->owner.provider;

	if (generation_window_sources(g, mta, report->name, report->name_length, provider,
	    sources) == 0 || sources[0].line == 0)
		return;
	decided_put_file(d, sources[0].file, sources[0].line);
	decided_put_string(d, DECIDED_RULE, sources[0].what);
}

static void put_relay(struct decided *d, const struct delivery *delivery) {
	if (delivery->relay.length > 0) {
		decided_put(d, DECIDED_RELAY, delivery->relay.text, delivery->relay.length);
		return;
	}
	decided_put(d, DECIDED_RELAY, delivery->relay_name.text, delivery->relay_name.length);
}

static void put_result(struct decided *d, const struct window_report *report) {
	const struct delivery *delivery = report->delivery;
	const struct judgement *judgement = report->judgement;

	if (judgement == NULL)
		return;
	d->code = judgement->reply.code;
	d->result = (uint8_t)judgement->reply.class;
	if (judgement->mta < report->generation->mta_count &&
	    decided_text(d, DECIDED_MTA)[0] == '\0')
		decided_put_string(d, DECIDED_MTA, generation_text(report->generation,
		    report->generation->mtas[judgement->mta].name));
	if (delivery == NULL)
		return;
	d->client = delivery->relay_address;
	decided_put(d, DECIDED_QUEUE_ID, delivery->queue_id.text, delivery->queue_id.length);
	put_relay(d, delivery);
	if (report->what != WINDOW_RULE_HELD)
		decided_put(d, DECIDED_RECIPIENT, delivery->domain.text,
		    delivery->domain.length);
}

static enum decided_stage stage_of(const struct window_report *report) {
	if (report->what == WINDOW_BY_HAND)
		return DECIDED_BY_COMMAND;
	if (report->what >= WINDOW_TOLD_STOP)
		return DECIDED_BY_NODE;
	return report->judgement != NULL ? DECIDED_BY_RESULT : DECIDED_BY_TIME;
}

static uint8_t flags_of(const struct window_report *report) {
	const char class[] = WINDOW_CLASS_PREFIX;
	uint8_t flags = report->observed ? DECIDED_OBSERVED_ONLY : 0;

	if (report->state == WINDOW_HELD)
		flags |= DECIDED_HELD;
	if (report->was_held_until_ns != 0)
		flags |= DECIDED_WAS_HELD;
	if (report->name_length > strlen(class) &&
	    memcmp(report->name, class, strlen(class)) == 0)
		flags |= DECIDED_IS_CLASS;
	else if (memchr(report->name, '@', report->name_length) != NULL)
		flags |= DECIDED_IS_RECIPIENT;
	return flags | DECIDED_OUTBOUND;
}

static uint32_t pace_of(int64_t interval_ns) {
	int64_t ticks = interval_ns / DECIDED_PACE_NS;

	return ticks < 0 ? 0 : ticks < UINT32_MAX ? (uint32_t)ticks : UINT32_MAX;
}

static void put_numbers(struct decided *d, const struct window_report *report) {
	if (report->what == WINDOW_RULE_SLOWED) {
		d->before = pace_of(report->pace_before_ns);
		d->window = pace_of(report->pace_ns);
		return;
	}
	d->before = report->before;
	d->window = report->window;
	d->ceiling_before = report->ceiling_before;
	d->ceiling = report->ceiling;
	d->success = (float)report->success;
	d->failure = (float)report->failure;
	d->fail_cohorts = (float)report->fail_cohorts;
	if (report->for_ns > 0)
		d->until_ns = report->at_ns + report->for_ns;
	else if (report->state == WINDOW_HELD)
		d->until_ns = INT64_MAX;
	else
		d->until_ns = report->was_held_until_ns;
}

void windows_note(struct engine *engine, struct window_report *report) {
	char origin[DECISION_ID_MAX];
	struct decided d;

	if (report->id == 0)
		report->id = decided_claim_event(engine);
	decided_begin(&d, report->id, (enum decided_kind)kinds_of_windows[report->what],
	    stage_of(report), report->at_ns);
	d.cause = report->cause;
	d.flags = flags_of(report);
	put_numbers(&d, report);
	decided_put(&d, DECIDED_NAME, report->class_name != NULL ? report->class_name :
	    report->name, report->class_name != NULL ? strlen(report->class_name) :
	    report->name_length);
	if (report->rule != NULL && report->what != WINDOW_DIED)
		put_reply_rule(&d, report->rule);
	else if (report->what == WINDOW_DIED || report->what == WINDOW_CHANGED)
		put_settings(&d, report);
	if (report->what == WINDOW_DIED) {
		d.by = DECIDED_BY_COHORTS;
		d.limit = (uint32_t)report->limit;
	} else if (report->what == WINDOW_RULE_SUSPENDED) {
		d.by = DECIDED_BY_RULE;
	} else if (report->what == WINDOW_TOLD_STOP) {
		d.by = report->by;
	} else if (report->what == WINDOW_BY_HAND) {
		d.by = (uint8_t)report->verb;
		d.uid = (uint32_t)report->uid;
	}
	if (report->node != NULL)
		decided_put_string(&d, DECIDED_NODE, report->node);
	if (report->origin != 0)
		decided_put_string(&d, DECIDED_ORIGIN, decision_id_text(report->origin, origin));
	/* what an administrator wrote is kept whole: before what strangers did */
	if (report->rule != NULL)
		decided_put_string(&d, DECIDED_NOTE, report->rule->note);
	d.action = (uint8_t)report->enforcement.kind;
	if (report->enforcement.kind != ENFORCEMENT_APPLIED &&
	    report->enforcement.mta[0] != '\0')
		decided_put_string(&d, DECIDED_MTA, report->enforcement.mta);
	put_result(&d, report);
	decided_put_string(&d, DECIDED_REASON, report->reason);
	decisions_write(engine->segment, &d);
}
