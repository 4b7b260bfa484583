/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What holds mail of an MTA that asks besides the limit of its class: the
 *          window of its destination, and what is held by hand or by a rule.
 * MODEL    The window of the host, or of the domain that goes by it, is asked before each
 *          connect, for each recipient, and once more when the server is known, if it is
 *          another's then: the place in the
 *          first one stays the process's until it ends.
 * ERRORS   State that cannot be had holds nothing, whatever "fail" says.
 * THREADS  As outbound.c.
 */
#include <string.h>

#include "engine/outbound/outbound_internal.h"
#include "engine/destination/windows.h"

_Static_assert(OUTBOUND_WHY_MAX >= WINDOW_REASON_MAX, "reasons fit");

/* Mail is held, or would be. */
static void hold(struct engine *engine, bool observed, enum reason reason,
    struct outbound_answer *out) {
	struct answer *answer = &out->answer;

	answer->decision.verdict = observed ? VERDICT_ADMIT : VERDICT_DEFER;
	answer->decision.reason = reason;
	answer->decision.count = answer->decision.limit = 0;
	answer->observed = observed;
	answer->newly_decided = true;
	engine_count(engine, observed ? COUNTER_OBSERVED : COUNTER_DEFERRED, 1);
}

bool outbound_is_held(struct engine *engine, const struct generation *generation,
    const struct outbound_question *question, int64_t now_ns,
    struct outbound_answer *out) {
	struct window_held held;
	enum reason reason = REASON_RECIPIENT_HELD;

	if (question->stage != OUTBOUND_BEFORE_CONNECT)
		return false;
	if (question->recipient_length == 0 || !windows_recipient_held(engine,
	    generation, question->recipient, question->recipient_length, now_ns,
	    &held)) {
		reason = REASON_CLASS_HELD;
		if (out->found.class_index == CLASS_NO_RULE ||
		    !windows_class_held(engine, generation,
			out->found.class_index, now_ns, &held))
			return false;
	}
	out->until_ns = held.until_ns;
	out->cause = held.event;
	memcpy(out->why, held.reason, sizeof(held.reason));
	hold(engine, held.observed, reason, out);
	return true;
}

/* Mail for a domain that goes by another host, as mailertable says, is learned for the domain.
 * Once it is connected Sendmail names no recipient: then it is the one that was asked about. */
static void find_owner(const struct outbound_process *process,
    const struct generation *generation, const struct outbound_question *question,
    uint64_t asked_hash, struct window_owner *out) {
	const struct engine *engine = process->engine;
	const char *at = question->recipient_length == 0 ? NULL :
	    memrchr(question->recipient, '@', question->recipient_length);
	struct window_owner by_domain;
	size_t length;

	windows_owner_of_host(engine, generation, question->destination,
	    question->destination_length, question->mta, out);
	if (out->kind == DESTINATION_NONE || process->places == NULL ||
	    windows_owner_is_for_host(engine, out))
		return;
	if (question->stage == OUTBOUND_CONNECTED) {
		(void)windows_places_owner(process->places, generation, asked_hash, out);
		return;
	}
	length = at == NULL ? 0 : question->recipient_length - (size_t)(++at - question->recipient);
	if (length == 0 || (length == question->destination_length &&
	    memcmp(at, question->destination, length) == 0))
		return;
	windows_owner_of_host(engine, generation, at, length, question->mta, &by_domain);
	if (by_domain.kind != DESTINATION_NONE)
		*out = by_domain;
}

/* What the window says goes into the answer. */
static void take_answer(struct engine *engine, const struct window_asked *asked,
    struct outbound_answer *out) {
	struct decision *decision = &out->answer.decision;

	switch (asked->answer) {
	case WINDOW_GO:
		return;
	case WINDOW_GO_CANARY:
		out->canary = true;
		return;
	case WINDOW_UNUSABLE:
		engine_count(engine, COUNTER_FAULTS, 1);
		return;
	case WINDOW_FULL:
		hold(engine, asked->observed, REASON_WINDOW_FULL, out);
		decision->count = asked->in_flight;
		decision->limit = asked->window;
		return;
	case WINDOW_PACED:
		hold(engine, asked->observed, REASON_PACE, out);
		out->interval_ns = asked->interval_ns;
		return;
	case WINDOW_SUSPENDED:
		hold(engine, asked->observed, REASON_SUSPENDED, out);
		out->until_ns = asked->until_ns;
		out->cause = asked->event;
		memcpy(out->why, asked->reason, sizeof(asked->reason));
		return;
	}
}

uint64_t outbound_ask_window(struct outbound_process *process,
    const struct generation *generation, const struct outbound_question *question,
    uint64_t asked_hash, int64_t now_ns, struct outbound_answer *out) {
	struct engine *engine = process->engine;
	struct window_owner owner;
	struct window_asked asked;
	uint64_t hash;
	struct window_question about = { .owner = &owner, .places = process->places,
		.queue_id = question->queue_id,
		.queue_id_length = question->queue_id_length, .mta = question->mta };

	find_owner(process, generation, question, asked_hash, &owner);
	if (owner.kind == DESTINATION_NONE || process->places == NULL)
		return 0;
	hash = windows_owner_hash(engine, &owner);
	memcpy(out->owner, owner.name, sizeof(out->owner));
	if (question->stage == OUTBOUND_BEFORE_CONNECT || hash != asked_hash) {
		windows_ask(engine, generation, &about, now_ns, &asked);
		take_answer(engine, &asked, out);
		if (asked.answer == WINDOW_UNUSABLE ||
		    out->answer.decision.verdict != VERDICT_ADMIT)
			return 0;
	}
	if (question->stage == OUTBOUND_CONNECTED)
		windows_connected(engine, generation, &about, now_ns);
	return hash;
}
