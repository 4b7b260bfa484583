/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Outbound connections in the same counts (DESIGN section 5, rows 3 to 5).
 * MODEL    As inbound.c; our half of the connection is the key.
 * ERRORS   As inbound.c: unusable state admits.
 */
#include "engine/internal.h"

#include <string.h>

static void open_slot(struct engine *engine,
    const struct generation *generation,
    const struct outbound_question *question,
    const struct generation_class *class, struct session_lock *lock,
    struct answer *answer) {
	struct segment *segment = engine->segment;
	uint32_t slot = sessions_take(lock);
	struct session session, before;

	if (slot == SEGMENT_NO_SLOT) {
		answer->decision.reason = REASON_UNTRACKED;
		segment_count(segment, COUNTER_UNTRACKED, 1);
		return;
	}
	session_load(segment, slot, &before);
	session = (struct session){
		.control = { .class_record = (uint16_t)class->record,
		    .state = SESSION_OPEN, .direction = SESSION_OUTBOUND,
		    .proof = SESSION_PROOF_OWNER, .listener = UINT8_MAX,
		    .client_bits = 255 },
		.client = question->local, .server = question->server,
		.client_port = question->local_port,
		.serial = (uint16_t)(before.serial + 1),
		.policy_owner = engine->incarnation,
		.opened_ds = segment_ds(segment, lock->now_ns),
		.until_ds = segment_ds(segment,
		    lock->now_ns + generation->lease_owner_ns),
	};
	sessions_link(lock, slot);
	slot_commit(lock, slot, &session, NULL, 0);
	class_count(&segment->records[class->record].admitted);
	segment_count(segment, COUNTER_ADMITTED, 1);
	answer->session = ref_of(&session, slot);
}

static bool ask(struct engine *engine, const struct generation *generation,
    const struct outbound_question *question,
    const struct generation_class *class, struct session_lock *lock,
    struct answer *answer) {
	struct segment *segment = engine->segment;
	uint16_t number = (uint16_t)class->record;
	struct class_record *record = &segment->records[number];
	struct limit_state state;
	bool takes_slot;

	if (!class_lock_for(segment, class, lock->now_ns))
		return false;
	limit_state_read(segment, number, &state);
	answer->decision = limit_outbound(&class->limits, &state,
	    question->holds_class, question->holds_host);
	takes_slot = limit_takes_slot(&answer->decision);
	if (answer->decision.verdict != VERDICT_ADMIT && class->outbound_observe) {
		answer->decision.verdict = VERDICT_ADMIT;
		answer->observed = true;
		takes_slot = !question->holds_class;
		class_count(&record->observed);
		segment_count(segment, COUNTER_OBSERVED, 1);
	}
	if (takes_slot)
		open_slot(engine, generation, question, class, lock, answer);
	else if (answer->decision.verdict != VERDICT_ADMIT)
		class_count(&record->deferred);
	class_unlock(segment, number);
	return true;
}

/* Closed means deferred here: mail that is ours to send stays queued. */
static void unusable(struct engine *engine, const struct generation *generation,
    int64_t now_ns, struct answer *answer) {
	answer_unusable(engine, generation, UINT8_MAX, 0, now_ns, answer);
	if (answer->decision.verdict == VERDICT_REFUSE)
		answer->decision.verdict = VERDICT_DEFER;
}

void engine_outbound_open(struct engine *engine,
    const struct generation *generation,
    const struct outbound_question *question, int64_t now_ns,
    struct answer *answer) {
	struct session_key key = { question->local, question->local_port,
		SESSION_OUTBOUND };
	const struct generation_class *class;
	struct session_lock lock;

	memset(answer, 0, sizeof(*answer));
	answer->newly_decided = true;
	answer->class_index = CLASS_NO_RULE;
	answer->rule = generation_match_outbound(generation, &question->server,
	    question->name, question->name_length);
	if (answer->rule == CLASS_NO_RULE) {
		answer->decision.reason = REASON_NO_CLASS;
		return;
	}
	answer->class_index =
	    generation_rule(generation, answer->rule)->class_index;
	class = generation_class(generation, answer->class_index);
	sessions_aim(engine->segment, &key, now_ns, &lock);
	if (!sessions_lock(&lock)) {
		unusable(engine, generation, now_ns, answer);
		return;
	}
	if (!ask(engine, generation, question, class, &lock, answer))
		unusable(engine, generation, now_ns, answer);
	sessions_unlock(&lock);
	if (answer->decision.verdict != VERDICT_ADMIT) {
		engine_count(engine, COUNTER_DEFERRED, 1);
		answer->id = next_decision(engine);
	}
}
