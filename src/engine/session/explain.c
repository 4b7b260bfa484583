/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What would be answered now, without doing it.
 * THREADS  Any; takes a client's lock only.
 */
#include <string.h>

#include "base/clock.h"
#include "engine/session/inquiry.h"
#include "engine/outbound/outbound.h"

void engine_explain(struct engine *engine, const struct generation *generation,
    const struct question *question, int64_t now_ns, struct answer *answer,
    uint32_t *open, uint32_t *client_open) {
	struct inquiry inquiry;
	struct limit_state state = { 0 };
	uint16_t record;

	inquiry_begin(&inquiry, engine, generation, question, now_ns, answer);
	inquiry_look_at_gate(&inquiry);
	*open = *client_open = 0;
	if (inquiry.class == NULL) {
		inquiry_decide_unclassed(&inquiry);
		return;
	}
	record = (uint16_t)inquiry.class->record;
	limit_state_read(engine->segment, record, &state);
	if (inquiry.class->has_client_limit && client_lock(&inquiry.client)) {
		client_counts(&inquiry.client, &state.client_open,
		    &state.client_rate_tat_ns);
		client_unlock(&inquiry.client);
	}
	*open = state.open;
	*client_open = state.client_open;
	answer->decision = inquiry.class->shared ?
	    shares_look_inbound(engine->segment, generation, inquiry.class, &state, now_ns) :
	    limit_inbound(&inquiry.class->limits, &state, now_ns);
	if (answer->decision.verdict == VERDICT_ADMIT)
		return;
	answer->observed = class_observes(inquiry.class, answer->decision.reason);
	if (inquiry.class->action == CLASS_ACTION_DEFER)
		answer->decision.verdict = VERDICT_DEFER;
	if (answer->observed)
		answer->decision.verdict = VERDICT_ADMIT;
	inquiry_note_gate(&inquiry);
}

void outbound_explain(struct engine *engine, const struct generation *generation,
    const char *destination, size_t length, struct outbound_answer *out,
    uint32_t *open) {
	const struct generation_class *class;
	struct answer *answer = &out->answer;
	struct limit_state state;

	memset(out, 0, sizeof(*out));
	*open = 0;
	outbound_class_find(engine, generation, destination, length, &out->found);
	answer->rule = out->found.rule;
	answer->class_index = out->found.class_index;
	answer->newly_decided = true;
	answer->decision.reason = REASON_NO_CLASS;
	if (out->found.rule == CLASS_NO_RULE)
		return;
	class = generation_class(generation, out->found.class_index);
	limit_state_read(engine->segment, (uint16_t)class->record, &state);
	*open = state.open;
	answer->decision = class->shared ?
	    shares_look_outbound(engine->segment, generation, class, &state, false, false,
		clock_now_ns()) :
	    limit_outbound(&class->limits, &state, false, false);
	answer->observed = answer->decision.verdict != VERDICT_ADMIT &&
	    class->outbound_observe;
	if (answer->observed)
		answer->decision.verdict = VERDICT_ADMIT;
}
