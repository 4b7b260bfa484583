/* SPDX-License-Identifier: ISC */
/*
 * Decisions in words.  Everything that came from outside is quoted; the log cuts
 * floods.  Any thread.
 */
#include "front/decision/decision_log.h"

#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "segment/decision/decisions.h"

#define RETRY_S		60	/* where no class tells another time */

enum event_kind decision_event(const struct answer *answer) {
	if (answer->decision.reason == REASON_UNUSABLE)
		return EVENT_FAULT;
	if (answer->decision.reason == REASON_UNTRACKED)
		return EVENT_UNTRACKED;
	if (answer->observed)
		return EVENT_OBSERVED;
	if (answer->decision.verdict == VERDICT_DISCARD)
		return EVENT_DISCARDED;
	return answer->decision.verdict == VERDICT_REFUSE ? EVENT_REFUSED :
	    EVENT_DEFERRED;
}

/* What was done, or would have been but for observe mode. */
static const char *action_of(const struct generation *generation,
    const struct question *question, const struct answer *answer) {
	bool observed_defer = answer->observed && !question->connect_only &&
	    answer->class_index != CLASS_NO_RULE &&
	    generation_class(generation, answer->class_index)->action ==
	    CLASS_ACTION_DEFER;

	if (answer->decision.verdict == VERDICT_DEFER || observed_defer)
		return "defer";
	if (answer->decision.verdict == VERDICT_REFUSE || answer->observed)
		return "421";
	return "admit";
}

void decision_rule_words(const struct generation *generation,
    const struct answer *answer, struct decision_rule *out) {
	const char *text = "";

	if (answer->class_index != CLASS_NO_RULE)
		text = generation_text(generation,
		    generation_class(generation, answer->class_index)->name);
	log_quote(out->class, sizeof(out->class), text, strlen(text));
	text_copy(out->place, sizeof(out->place), "-", 1);
	text = "";
	if (answer->rule != CLASS_NO_RULE) {
		const struct generation_rule *rule =
		    generation_rule(generation, answer->rule);
		const char *file = generation_text(generation, rule->file);

		log_quote(out->place, sizeof(out->place) - 16, file, strlen(file));
		text_append(out->place, sizeof(out->place), strlen(out->place), ":%u",
		    rule->line);
		text = generation_text(generation, rule->text);
	}
	log_quote(out->mask, sizeof(out->mask), text, strlen(text));
}

const char *decision_share_words(const struct answer *answer, char out[DECISION_SHARE_SHOWN]) {
	out[0] = '\0';
	if (answer->decision.reason == REASON_CLASS_SHARE)
		text_append(out, DECISION_SHARE_SHOWN, 0, " cluster_limit=%u lease=%s",
		    answer->decision.whole, lease_word(answer->decision.lease));
	return out;
}

static void write_event(struct engine *engine,
    const struct generation *generation, const struct question *question,
    const struct answer *answer) {
	char id[DECISION_ID_MAX], client[ADDRESS_TEXT_MAX], name[DECISION_NAME_SHOWN];
	char share[DECISION_SHARE_SHOWN];
	struct decision_rule rule;

	/* of a flood most lines are left out */
	if (!log_wants(decision_event(answer)))
		return;
	decision_rule_words(generation, answer, &rule);
	log_quote(name, sizeof(name), question->name,
	    question->name == NULL ? 0 : question->name_length);
	address_format(&question->client, client);
	if (log_event(decision_event(answer),
	    "id=%s class=%s client=%s[%u] name=%s count=%u limit=%u%s reason=%s "
	    "rule=%s mask=%s action=%s",
	    decision_id_text(answer->id, id), rule.class, client,
	    question->client_port, name, answer->decision.count,
	    answer->decision.limit,
	    decision_share_words(answer, share),
	    decided_reason_word(answer->decision.reason),
	    rule.place, rule.mask, action_of(generation, question, answer)))
		engine_decision_logged(engine, answer->id);
}

void decision_log(struct engine *engine, const struct generation *generation,
    const struct question *question, const struct answer *answer,
    enum decision_stage stage) {
	enum reason reason = answer->decision.reason;

	if (!answer->newly_decided)
		return;
	if (answer->decision.verdict == VERDICT_ADMIT && !answer->observed &&
	    reason != REASON_UNUSABLE && reason != REASON_UNTRACKED)
		return;
	/* its recipients will be turned away, or not; each has its line */
	if (answer->decision.verdict == VERDICT_DEFER &&
	    stage == DECISION_AT_CONNECT)
		return;
	write_event(engine, generation, question, answer);
}

size_t decision_client_text(const struct generation *generation,
    const struct question *question, const struct answer *answer,
    char out[REPLY_TEXT_SIZE]) {
	char id[DECISION_ID_MAX] = "ID", client[ADDRESS_TEXT_MAX];
	/* whoever is refused can tell which refusal it was, whatever the text; explain, which
	 * records nothing, has no id */
	struct reply_values values = { .retry_s = RETRY_S, .id = id, .client = client,
	    .needs_id = answer->id != 0 };
	const char *text = "";

	if (answer->decision.reason == REASON_UNUSABLE)
		text = "Service temporarily unavailable; try again later";
	else if (answer->class_index != CLASS_NO_RULE) {
		const struct generation_class *class =
		    generation_class(generation, answer->class_index);

		text = generation_text(generation, class->text);
		values.class_name = generation_text(generation, class->name);
		values.retry_s = class->retry_s;
	}
	if (answer->id != 0)
		(void)decision_id_text(answer->id, id);
	address_format(&question->client, client);
	return reply_text_expand(out, text, &values);
}
