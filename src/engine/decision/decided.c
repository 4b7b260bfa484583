/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What was decided, noted for posternctl why.
 * MODEL    Texts of the configuration are copied, as a reload may change them; what a
 *          stranger wrote stands there as it came.
 * ERRORS   None: a note that is lost costs an explanation.
 * THREADS  Any.
 */
#include "engine/decision/decided.h"

#include <string.h>

#include "base/clock.h"
#include "base/decision_id.h"

/* The end of a path says more than its begin. */
#define FILE_SHOWN	96

void decided_put_file(struct decided *d, const char *file, uint32_t line) {
	size_t length = strlen(file);

	decided_put_string(d, DECIDED_FILE, length > FILE_SHOWN ? file + length - FILE_SHOWN : file);
	d->line = line;
}

void decided_begin(struct decided *d, uint64_t id, enum decided_kind kind,
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

void decided_put_class(struct decided *d, const struct generation *generation,
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
	decided_put_file(d, generation_text(generation, file), rule != NULL ? rule->line : class->line);
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

bool decided_is_worth_it(const struct answer *answer) {
	return answer->newly_decided && (answer->observed ||
	    answer->decision.verdict != VERDICT_ADMIT ||
	    answer->decision.reason == REASON_UNUSABLE ||
	    answer->decision.reason == REASON_UNTRACKED);
}

enum decided_kind decided_kind_of(const struct answer *answer) {
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

void decided_put_answer(struct decided *d, const struct answer *answer) {
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

void decided_put_client(struct decided *d, const struct question *question) {
	d->client = question->client;
	d->client_port = question->client_port;
	d->server_port = question->server_port;
}

void decided_note_session(struct engine *engine, const struct generation *generation,
    const struct question *question, enum decided_stage stage, int64_t now_ns,
    struct answer *answer) {
	struct decided d;

	/* of a session that is let in to be asked about at each recipient those are noted */
	if (!decided_is_worth_it(answer) || (stage == DECIDED_AT_CONNECT &&
	    answer->decision.verdict == VERDICT_DEFER))
		return;
	answer->id = decisions_claim(engine->segment, DECIDED_OF_SESSIONS);
	decided_begin(&d, answer->id, decided_kind_of(answer), stage, now_ns);
	decided_put_answer(&d, answer);
	decided_put_client(&d, question);
	decided_put_class(&d, generation, answer->class_index, answer->rule, false);
	decided_put(&d, DECIDED_NAME, question->name,
	    question->name == NULL ? 0 : question->name_length);
	decisions_write(engine->segment, &d);
}

uint64_t decided_claim_event(struct engine *engine) {
	return decisions_claim(engine->segment, DECIDED_OF_DESTINATIONS);
}
