/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What is reported of a result that was learned, and what its rule does beside the
 *          window.
 * MODEL    After the transaction.  What was reported is not reported again while it lasts.
 * ERRORS   None.
 * THREADS  One.
 */
#include <string.h>

#include "base/clock.h"
#include "engine/decision/decided.h"
#include "engine/feed/feed_internal.h"
#include "policy/limit/rate.h"
#include "segment/destination/flights.h"
#include "segment/destination/recipients.h"

#define QUIET_NS	(3600 * NS_PER_SECOND)

/* What the transaction made of the window. */
static void report_window(const struct feed_learning *l, enum window_happened what) {
	const struct feed_result *result = l->result;
	struct window_report report = windows_report_of(result->generation,
	    &result->judgement->owner, &l->lock.state, &l->rules.settings, what,
	    result->now_ns);

	report.before = l->told.before;
	report.ceiling_before = l->told.ceiling_before;
	report.limit = l->rules.settings.failed_cohort_limit;
	report.pace_before_ns = l->told.pace_before_ns;
	report.pace_ns = l->told.pace_ns;
	report.delivery = result->delivery;
	report.cause = l->told.failure;
	report.silent = what == WINDOW_FAILED || (what == WINDOW_CHANGED && !l->rules.debug) ||
	    (what == WINDOW_RULE_HELD && l->told.quiet);
	if (what == WINDOW_FAILED) {
		report.id = l->told.failure;
		report.cause = l->told.cause;
		report.at_ns = result->end_ns;
		report.for_ns = 0;
	} else if (what == WINDOW_DIED) {
		report.id = l->told.died_by;
	} else if (what == WINDOW_RULE_SUSPENDED || what == WINDOW_RULE_HELD) {
		report.id = l->told.held_by;
	}
	report.rule = l->has_rule ? &l->rule : NULL;
	report.judgement = result->judgement;
	report.reason = l->reason;
	if (what == WINDOW_RULE_HELD) {
		report.name = result->delivery->recipient.text;
		report.name_length = result->delivery->recipient.length;
		report.for_ns = l->rule_end_ns - result->now_ns;
	}
	windows_report(result->memory->engine, &report);
}

static void hold_recipient(struct feed_learning *l) {
	const struct feed_result *result = l->result;
	struct recipient_hold hold = {
		.address = result->delivery->recipient.text,
		.length = result->delivery->recipient.length,
		.rule = (uint16_t)(result->judgement->rule < RECIPIENT_A_RULE ?
		    result->judgement->rule : RECIPIENT_A_RULE),
		.until_ns = l->rule_end_ns, .reason = l->reason,
	};
	struct recipient_held held;
	struct engine *engine = result->memory->engine;
	bool is_held, tells;

	if (hold.length == 0)
		return;
	is_held = recipients_find(engine->segment, hold.address, hold.length,
	    result->now_ns, &held);
	if (is_held && (held.rule == RECIPIENT_NO_RULE || held.until_ns >= hold.until_ns))
		return;
	tells = !feed_match_is_quiet(l->match, result->now_ns, hold.until_ns);
	/* for longer, of which nobody is told: by what it is held already */
	if (tells || !is_held)
		hold.event = l->told.held_by = decided_claim_event(engine);
	if (!recipients_hold(engine->segment, &hold, result->now_ns) || hold.event == 0)
		return;
	l->told.quiet = !tells;
	engine_count(engine, COUNTER_RULE_ACTIONS, tells);
	report_window(l, WINDOW_RULE_HELD);
}

static void alert(const struct feed_learning *l) {
	const struct feed_result *result = l->result;
	int64_t quiet_ns = l->rule.for_ns > 0 ? l->rule.for_ns : QUIET_NS;

	engine_count(result->memory->engine, COUNTER_RULE_ALERTS, 1);
	if (!feed_match_is_quiet(l->match, result->now_ns, result->now_ns + quiet_ns))
		report_window(l, WINDOW_RULE_ALERT);
}

static void report_action(struct feed_learning *l) {
	struct engine *engine = l->result->memory->engine;

	switch (l->rule.action) {
	case REPLY_ACTION_CEILING:
		if (l->told.ruled)
			engine_count(engine, COUNTER_RULE_ACTIONS, 1);
		if (l->told.ruled)
			report_window(l, WINDOW_RULE_CEILING);
		break;
	case REPLY_ACTION_SUSPEND:
		if (l->told.ruled)
			engine_count(engine, COUNTER_SUSPENSIONS, 1);
		if (l->told.ruled)
			report_window(l, WINDOW_RULE_SUSPENDED);
		break;
	case REPLY_ACTION_HOLD_RECIPIENT:
		hold_recipient(l);
		break;
	case REPLY_ACTION_ALERT:
		alert(l);
		break;
	case REPLY_ACTION_SLOW:
		if (l->told.slowed)
			engine_count(engine, COUNTER_PACES_LOWERED, 1);
		if (l->told.slowed)
			report_window(l, WINDOW_RULE_SLOWED);
		break;
	case REPLY_ACTION_NONE:
		break;
	}
}

bool feed_may_note_failure(struct feed_learning *l) {
	static const struct rate_limit limit = { .period_ns = NS_PER_SECOND, .count = 10,
		.burst = 100 };
	struct feed_destination *destination = l->destination;
	int64_t now_ns = l->result->now_ns;

	if (destination == NULL)
		return true;
	if (!rate_allows(&limit, destination->failure_tat_ns, now_ns))
		return false;
	destination->failure_tat_ns = rate_after(&limit, destination->failure_tat_ns, now_ns);
	return true;
}

/* Whoever asked, and could not connect, does not try again: it has no connection there,
 * and so no place. */
static void free_place(const struct feed_learning *l) {
	const struct feed_result *result = l->result;
	struct segment *segment = result->memory->engine->segment;
	const char *owner = result->judgement->owner.name;
	struct span id = result->delivery->queue_id;

	/* an echo, too */
	if (l->asked && !l->connected && judged_weight(judge_heard(result->generation,
		result->judgement)) == JUDGED_NEGATIVE)
		(void)flights_end_attempt(segment, owner, strlen(owner),
		    flights_queue_hash(segment, id.text, id.length), result->now_ns);
}

/* From which mail server, for a provider or a relay that was not known before. */
static void note_mta(const struct feed_result *result) {
	const struct delivery_seen seen = { .name = result->judgement->owner.name,
		.name_length = strlen(result->judgement->owner.name),
		.mta = (uint8_t)result->judgement->mta, .cloned = result->judgement->cloned };

	(void)destinations_note(result->memory->engine->segment, &seen, result->now_ns);
}

void feed_report(struct feed_learning *l) {
	if (l->lock.is_new && l->result->seen == NULL)
		note_mta(l->result);
	free_place(l);
	if (l->told.back)
		report_window(l, WINDOW_BACK);
	if (l->told.failure != 0)
		report_window(l, WINDOW_FAILED);
	if (l->told.died) {
		engine_count(l->result->memory->engine, COUNTER_SUSPENSIONS, 1);
		report_window(l, WINDOW_DIED);
	}
	if (l->told.would_hold)
		engine_count(l->result->memory->engine, COUNTER_WINDOW_HOLDS_OBSERVED, 1);
	if ((l->told.changed && l->rules.debug) || l->told.fell)
		report_window(l, WINDOW_CHANGED);
	if (l->fires)
		report_action(l);
}

void feed_report_change(const struct feed_memory *memory, const struct generation *generation,
    const struct feed_destination *destination, const struct state_lock *lock,
    const struct window_rules *rules, const struct feed_told *told, int64_t now_ns) {
	struct window_report report = windows_report_of(generation, &destination->owner,
	    &lock->state, &rules->settings, WINDOW_CHANGED, now_ns);

	report.before = told->before;
	report.ceiling_before = told->ceiling_before;
	report.cause = destination->failure;
	report.silent = !rules->debug;
	windows_report(memory->engine, &report);
}
