/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What was decided, noted for posternctl why.
 * MODEL    Texts of the configuration are copied, as a reload may change them; what a
 *          stranger wrote stands there as it came.  The rule of a suspension by failed
 *          cohorts is the innermost group of settings that counts.
 * ERRORS   None: a note that is lost costs an explanation.
 * THREADS  Any.
 */
#include "engine/decision/decided.h"

#include <string.h>

#include "base/clock.h"
#include "base/decision_id.h"
#include "engine/cluster/shares.h"
#include "engine/destination/windows_internal.h"

/* The end of a path says more than its begin. */
#define FILE_SHOWN	96

static void put_file(struct decided *d, const char *file, uint32_t line) {
	size_t length = strlen(file);

	decided_put_string(d, DECIDED_FILE, length > FILE_SHOWN ? file + length - FILE_SHOWN : file);
	d->line = line;
}

static void begin(struct decided *d, uint64_t id, enum decided_kind kind,
    enum decided_stage stage, int64_t now_ns) {
	/* without its texts, which need no zeros */
	memset(d, 0, offsetof(struct decided, texts));
	d->id = id;
	d->kind = (uint8_t)kind;
	d->stage = (uint8_t)stage;
	d->at_ns = now_ns;
	d->reason = DECIDED_NO_REASON;
}

/* --- classes ---------------------------------------------------------------------- */

/* The setting that the reason speaks of; CLASS_PLACES: none. */
static enum generation_class_place place_of(enum reason reason, bool outbound) {
	switch (reason) {
	case REASON_CLASS_SHARE:
		return outbound ? CLASS_AT_SESSIONS : CLASS_AT_INBOUND;
	case REASON_CLASS_INBOUND:
	case REASON_GATE_SHUT:
		return CLASS_AT_INBOUND;
	case REASON_CLASS_SESSIONS:
		return CLASS_AT_SESSIONS;
	case REASON_CLASS_RATE:
		return CLASS_AT_RATE;
	case REASON_CLIENT_SESSIONS:
		return CLASS_AT_CLIENT_SESSIONS;
	case REASON_CLIENT_RATE:
		return CLASS_AT_CLIENT_RATE;
	default:
		return CLASS_PLACES;
	}
}

static uint32_t line_of(const struct generation_class *class,
    enum generation_class_place which, uint32_t file) {
	if (which == CLASS_PLACES || class->places[which].file != file)
		return 0;
	return class->places[which].line;
}

static void put_rate(struct decided *d, const struct rate_limit *rate) {
	d->before = rate->count;
	d->window = (uint32_t)(rate->period_ns / NS_PER_MS);
}

static void put_class(struct decided *d, const struct generation *generation,
    uint32_t class_index, uint32_t rule_index, bool outbound) {
	const struct generation_class *class;
	const struct generation_rule *rule = NULL;
	enum reason reason = (enum reason)d->reason;
	uint32_t file;

	if (class_index == CLASS_NO_RULE)
		return;
	class = generation_class(generation, class_index);
	decided_put_string(d, DECIDED_CLASS, generation_text(generation, class->name));
	if (rule_index != CLASS_NO_RULE)
		rule = generation_rule(generation, rule_index);
	file = rule != NULL ? rule->file : class->file;
	put_file(d, generation_text(generation, file), rule != NULL ? rule->line : class->line);
	if (rule != NULL)
		decided_put_string(d, DECIDED_RULE, generation_text(generation, rule->text));
	d->action = class->action;
	d->limit_line = line_of(class, place_of(reason, outbound), file);
	d->observe_line = line_of(class, outbound ? CLASS_AT_OUTBOUND_OBSERVE :
	    limit_reason_is_client(reason) ? CLASS_AT_CLIENT_OBSERVE : CLASS_AT_OBSERVE, file);
	if (reason == REASON_CLASS_RATE)
		put_rate(d, &class->limits.rate);
	else if (reason == REASON_CLIENT_RATE)
		put_rate(d, &class->limits.client_rate);
}

/* --- sessions --------------------------------------------------------------------- */

static bool is_worth_it(const struct answer *answer) {
	return answer->newly_decided && (answer->observed ||
	    answer->decision.verdict != VERDICT_ADMIT ||
	    answer->decision.reason == REASON_UNUSABLE ||
	    answer->decision.reason == REASON_UNTRACKED);
}

static enum decided_kind kind_of(const struct answer *answer) {
	if (answer->decision.reason == REASON_UNUSABLE)
		return DECIDED_FAULT;
	if (answer->decision.reason == REASON_UNTRACKED)
		return DECIDED_UNTRACKED;
	if (answer->observed)
		return DECIDED_OBSERVED;
	if (answer->decision.verdict == VERDICT_DISCARD)
		return DECIDED_DISCARDED;
	return answer->decision.verdict == VERDICT_REFUSE ? DECIDED_REFUSED :
	    DECIDED_DEFERRED;
}

static void put_answer(struct decided *d, const struct answer *answer) {
	d->reason = (uint8_t)answer->decision.reason;
	d->verdict = (uint8_t)answer->decision.verdict;
	d->count = answer->decision.count;
	d->limit = answer->decision.limit;
	if (answer->decision.reason == REASON_CLASS_SHARE) {
		d->before = answer->decision.whole;
		d->by = (uint8_t)answer->decision.lease;
	}
	if (answer->observed)
		d->flags |= DECIDED_OBSERVED_ONLY;
}

static void put_client(struct decided *d, const struct question *question) {
	d->client = question->client;
	d->client_port = question->client_port;
	d->server_port = question->server_port;
}

void decided_note_session(struct engine *engine, const struct generation *generation,
    const struct question *question, enum decided_stage stage, int64_t now_ns,
    struct answer *answer) {
	struct decided d;

	/* of a session that is let in to be asked about at each recipient those are noted */
	if (!is_worth_it(answer) || (stage == DECIDED_AT_CONNECT &&
	    answer->decision.verdict == VERDICT_DEFER))
		return;
	answer->id = decisions_claim(engine->segment, DECIDED_OF_SESSIONS);
	begin(&d, answer->id, kind_of(answer), stage, now_ns);
	put_answer(&d, answer);
	put_client(&d, question);
	put_class(&d, generation, answer->class_index, answer->rule, false);
	decided_put(&d, DECIDED_NAME, question->name,
	    question->name == NULL ? 0 : question->name_length);
	decisions_write(engine->segment, &d);
}

void decided_note_outbound(struct engine *engine, const struct generation *generation,
    const struct outbound_question *question, int32_t pid, int64_t now_ns,
    struct outbound_answer *out) {
	bool connected = question->stage == OUTBOUND_CONNECTED;
	struct decided d;

	/* what waits for its turn is not held: it is next some time */
	if (!is_worth_it(&out->answer) ||
	    out->answer.decision.reason == REASON_NOT_ITS_TURN)
		return;
	out->answer.id = decisions_claim(engine->segment, DECIDED_OF_SESSIONS);
	begin(&d, out->answer.id, kind_of(&out->answer),
	    connected ? DECIDED_CONNECTED : DECIDED_BEFORE_CONNECT, now_ns);
	put_answer(&d, &out->answer);
	d.flags |= DECIDED_OUTBOUND;
	d.cause = out->cause;
	d.until_ns = out->until_ns;
	d.pid = pid;
	d.client = connected ? question->server : out->found.relay;
	decided_put_string(&d, DECIDED_WINDOW_OF, out->owner);
	decided_put(&d, DECIDED_NAME, question->destination, question->destination_length);
	put_class(&d, generation, out->answer.class_index, out->answer.rule, true);
	decided_put(&d, DECIDED_RECIPIENT, question->recipient, question->recipient_length);
	decided_put(&d, DECIDED_QUEUE_ID, question->queue_id, question->queue_id_length);
	decided_put_string(&d, DECIDED_REASON, out->why);
	decisions_write(engine->segment, &d);
}

uint64_t decided_note_pressure(struct engine *engine, const struct generation *generation,
    const struct question *question, uint32_t class_index, const char *recipient,
    size_t length, int64_t now_ns, const struct window_pressure *pressure, uint64_t cause) {
	struct decided d;

	begin(&d, decisions_claim(engine->segment, DECIDED_OF_SESSIONS),
	    DECIDED_BACK_PRESSURE, DECIDED_AT_RECIPIENT, now_ns);
	d.reason = REASON_SUSPENDED;
	d.verdict = pressure->observed ? VERDICT_ADMIT : VERDICT_DEFER;
	d.flags = pressure->observed ? DECIDED_OBSERVED_ONLY : 0;
	d.cause = cause;
	d.until_ns = pressure->for_ns == 0 ? INT64_MAX : now_ns + pressure->for_ns;
	put_client(&d, question);
	decided_put_string(&d, DECIDED_WINDOW_OF, pressure->owner.name);
	put_class(&d, generation, class_index, CLASS_NO_RULE, false);
	decided_put(&d, DECIDED_RECIPIENT, recipient, length);
	decided_put(&d, DECIDED_NAME, question->name,
	    question->name == NULL ? 0 : question->name_length);
	decisions_write(engine->segment, &d);
	return d.id;
}

uint64_t decided_note_class_full(struct engine *engine, const struct generation *generation,
    uint32_t class_index, uint32_t open, uint32_t limit, int64_t now_ns) {
	const struct generation_class *class = generation_class(generation, class_index);
	struct share_class share;
	struct limits whole;
	struct decided d;

	begin(&d, decisions_claim(engine->segment, DECIDED_OF_SESSIONS),
	    DECIDED_DEFERRED, DECIDED_IN_QUEUE, now_ns);
	d.reason = limit < class->limits.sessions ? REASON_CLASS_SHARE : REASON_CLASS_SESSIONS;
	d.verdict = VERDICT_DEFER;
	d.flags = DECIDED_OUTBOUND;
	d.count = open;
	d.limit = limit;
	shares_whole(engine, generation, class_index, now_ns, &whole);
	if (d.reason == REASON_CLASS_SHARE) {
		d.before = whole.sessions;
		if (shares_look(engine, generation, class_index, now_ns, &share))
			d.by = (uint8_t)share_lease(share.state);
	}
	put_class(&d, generation, class_index, CLASS_NO_RULE, true);
	decisions_write(engine->segment, &d);
	return d.id;
}

/* --- destinations ------------------------------------------------------------------ */

static const uint8_t kinds_of_windows[] = {
	[WINDOW_DIED] = DECIDED_SUSPENDED, [WINDOW_RULE_SUSPENDED] = DECIDED_SUSPENDED,
	[WINDOW_RULE_CEILING] = DECIDED_WINDOW, [WINDOW_RULE_HELD] = DECIDED_RECIPIENT_HELD,
	[WINDOW_RULE_ALERT] = DECIDED_ALERT, [WINDOW_BACK] = DECIDED_BACK,
	[WINDOW_CHANGED] = DECIDED_WINDOW, [WINDOW_BY_HAND] = DECIDED_BY_HAND,
	[WINDOW_FAILED] = DECIDED_FAILURE, [WINDOW_TOLD_STOP] = DECIDED_SUSPENDED,
	[WINDOW_TOLD_BACK] = DECIDED_BACK, [WINDOW_TOLD_CEILING] = DECIDED_WINDOW,
};

uint64_t decided_claim_event(struct engine *engine) {
	return decisions_claim(engine->segment, DECIDED_OF_DESTINATIONS);
}

/* A provider rule by its name, and its place. */
static void put_reply_rule(struct decided *d, const struct judge_rule *rule) {
	put_file(d, rule->file, rule->line);
	decided_put_string(d, DECIDED_RULE, rule->name);
}

/* The innermost group of settings that counts for the destination. */
static void put_settings(struct decided *d, const struct window_report *report) {
	const struct generation *g = report->generation;
	struct generation_window_source sources[GENERATION_WINDOW_SOURCES];
	unsigned mta = report->judgement == NULL ? GENERATION_MTAS_MAX :
	    report->judgement->mta;
	uint32_t provider = report->judgement == NULL ? GENERATION_NO_PROVIDER :
	    report->judgement->provider;

	if (generation_window_sources(g, mta, report->name, report->name_length, provider,
	    sources) == 0 || sources[0].line == 0)
		return;
	put_file(d, sources[0].file, sources[0].line);
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

static void put_numbers(struct decided *d, const struct window_report *report) {
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

void decided_note_window(struct engine *engine, struct window_report *report) {
	char origin[DECISION_ID_MAX];
	struct decided d;

	if (report->id == 0)
		report->id = decided_claim_event(engine);
	begin(&d, report->id, (enum decided_kind)kinds_of_windows[report->what],
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
