/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What an inbound question is about, before any lock is taken.
 * THREADS  Any.
 */
#include "engine/session/inquiry.h"

#include <string.h>

static void find_class(struct inquiry *inquiry) {
	const struct question *question = inquiry->question;
	const struct generation *generation = inquiry->generation;
	struct answer *answer = inquiry->answer;

	inquiry->exempt = generation_is_exempt(generation, &question->client,
	    question->name, question->name_length);
	if (inquiry->exempt)
		return;
	answer->rule = generation_match_inbound(generation,
	    question->server_port, &question->client, question->name,
	    question->name_length);
	if (answer->rule == CLASS_NO_RULE)
		return;
	answer->class_index =
	    generation_rule(generation, answer->rule)->class_index;
	inquiry->class = generation_class(generation, answer->class_index);
}

void inquiry_begin(struct inquiry *inquiry, struct engine *engine,
    const struct generation *generation, const struct question *question,
    int64_t now_ns, struct answer *answer) {
	const struct session_key key = { question->client, question->client_port,
		SESSION_INBOUND };

	inquiry->engine = engine;
	inquiry->generation = generation;
	inquiry->question = question;
	inquiry->answer = answer;
	inquiry->class = NULL;
	inquiry->gate_shut = false;
	inquiry->again_slot = SEGMENT_NO_SLOT;
	/* read before anything is stored: the connection existed by then */
	inquiry->dump_sequence = atomic_load_explicit(
	    &engine->segment->header->dump_sequence, memory_order_acquire);
	memset(answer, 0, sizeof(*answer));
	answer->rule = answer->class_index = CLASS_NO_RULE;
	answer->newly_decided = true;
	find_class(inquiry);
	/* the memory of both tables is fetched at once */
	sessions_aim(engine->segment, &key, now_ns, &inquiry->lock);
	if (inquiry->class != NULL && inquiry->class->has_client_limit)
		client_aim(engine->segment, (uint16_t)inquiry->class->record,
		    &question->client, client_bits(inquiry->class, &question->client),
		    now_ns, &inquiry->client);
}

void inquiry_look_at_gate(struct inquiry *inquiry) {
	inquiry->gate_shut = inquiry->class == NULL && !inquiry->exempt &&
	    gate_is_shut(inquiry->engine->segment, inquiry->generation);
}

void inquiry_note_gate(struct inquiry *inquiry) {
	struct decision *decision = &inquiry->answer->decision;

	if (decision->verdict == VERDICT_REFUSE &&
	    decision->reason == REASON_CLASS_INBOUND &&
	    gate_is_shut(inquiry->engine->segment, inquiry->generation))
		decision->reason = REASON_GATE_SHUT;
}

void inquiry_decide_unclassed(struct inquiry *inquiry) {
	if (inquiry->exempt)
		inquiry_decide(inquiry, VERDICT_ADMIT, REASON_EXEMPT);
	else if (inquiry->gate_shut)
		inquiry_decide(inquiry, VERDICT_REFUSE, REASON_GATE_SHUT);
	else
		inquiry_decide(inquiry, VERDICT_ADMIT, REASON_NO_CLASS);
}
