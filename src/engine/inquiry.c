/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What an inbound question is about, before any lock is taken.
 * THREADS  Any.
 */
#include "engine/inquiry.h"

#include <string.h>

/* Has no class room?  A class that only observes always has. */
static bool gate_is_shut(const struct segment *segment,
    const struct generation *generation) {
	uint32_t hint = atomic_load_explicit(&segment->header->room_hint,
	    memory_order_relaxed);

	for (uint32_t i = 0; i < generation->class_count; i++) {
		uint32_t at = (hint + i) % generation->class_count;
		const struct generation_class *class =
		    generation_class(generation, at);

		if (class->observe ||
		    limit_has_room(&class->limits, atomic_load_explicit(
			&segment->records[class->record].open,
			memory_order_relaxed))) {
			if (i != 0)
				atomic_store_explicit(
				    &segment->header->room_hint, at,
				    memory_order_relaxed);
			return false;
		}
	}
	return generation->class_count > 0;
}

void inquiry_begin(struct inquiry *inquiry, struct engine *engine,
    const struct generation *generation, const struct question *question,
    int64_t now_ns, struct answer *answer) {
	struct session_key key = { question->client, question->client_port,
		SESSION_INBOUND };

	inquiry->engine = engine;
	inquiry->generation = generation;
	inquiry->question = question;
	inquiry->answer = answer;
	inquiry->class = NULL;
	inquiry->gate_shut = false;
	inquiry->again_slot = SEGMENT_NO_SLOT;
	/* the table's memory is fetched while the class is looked for */
	sessions_aim(engine->segment, &key, now_ns, &inquiry->lock);
	/* read before anything is stored: the connection existed by then */
	inquiry->dump_sequence = atomic_load_explicit(
	    &engine->segment->header->dump_sequence, memory_order_acquire);
	memset(answer, 0, sizeof(*answer));
	answer->rule = answer->class_index = CLASS_NO_RULE;
	answer->newly_decided = true;
	inquiry->exempt = generation_is_exempt(generation, &question->client,
	    question->name, question->name_length);
	if (inquiry->exempt)
		return;
	answer->rule = generation_match_inbound(generation,
	    question->server_port, &question->client, question->name,
	    question->name_length);
	if (answer->rule == CLASS_NO_RULE) {
		inquiry->gate_shut = gate_is_shut(engine->segment, generation);
		return;
	}
	answer->class_index =
	    generation_rule(generation, answer->rule)->class_index;
	inquiry->class = generation_class(generation, answer->class_index);
}

void inquiry_decide_unclassed(struct inquiry *inquiry) {
	if (inquiry->exempt)
		inquiry_decide(inquiry, VERDICT_ADMIT, REASON_EXEMPT);
	else if (inquiry->gate_shut)
		inquiry_decide(inquiry, VERDICT_REFUSE, REASON_GATE_SHUT);
	else
		inquiry_decide(inquiry, VERDICT_ADMIT, REASON_NO_CLASS);
}
