/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Whose turn it is in a run of a Sendmail that the queue role drives, and what
 *          the role is told of it.
 * MODEL    The role has granted domains to the messages of its runs (segment/queue/grants.h).
 *          What was not granted stays queued: it takes no place of a window, no slot of a
 *          class, and no line in the log.  All else is asked as ever.  Such a process has
 *          one connection at a time, so that what it held elsewhere is free when it is
 *          connected to the next.
 * ERRORS   Without a grant in force mail goes as without a queue role.
 * THREADS  As outbound.c.
 */
#include <string.h>

#include "engine/outbound/outbound_internal.h"
#include "engine/destination/windows.h"
#include "segment/queue/told.h"

/* What stands behind the last @ of an address. */
static const char *domain_of(const char *address, size_t length, size_t *out) {
	for (size_t i = length; i-- > 0;) {
		if (address[i] == '@') {
			*out = length - i - 1;
			return address + i + 1;
		}
	}
	*out = 0;
	return "";
}

void outbound_turn_look(const struct engine *engine,
    const struct outbound_question *question, int64_t now_ns, struct outbound_turn *turn) {
	size_t length = 0;
	const char *domain = "";

	*turn = (struct outbound_turn){ .answer = GRANT_NONE };
	if (question->queue_id_length == 0)
		return;
	if (question->recipient_length > 0)
		domain = domain_of(question->recipient, question->recipient_length, &length);
	turn->answer = grants_ask(engine->segment, question->queue_id,
	    question->queue_id_length, domain, length, now_ns, &turn->asked);
}

bool outbound_turn_holds(struct engine *engine, const struct generation *generation,
    const struct outbound_question *question, const struct outbound_turn *turn,
    struct outbound_answer *out) {
	if (turn->answer != GRANT_WAIT || question->stage != OUTBOUND_BEFORE_CONNECT ||
	    question->recipient_length == 0 || generation->outbound_observe)
		return false;
	out->found.rule = out->found.class_index = CLASS_NO_RULE;
	out->answer.rule = out->answer.class_index = CLASS_NO_RULE;
	out->answer.decision.verdict = VERDICT_DEFER;
	out->answer.decision.reason = REASON_NOT_ITS_TURN;
	engine_count(engine, COUNTER_TURNS_HELD, 1);
	return true;
}

/* Observe mode of all that is outbound holds for this, too. */
enum grant_once outbound_turn_knows(const struct engine *engine,
    const struct generation *generation, const struct outbound_question *question,
    const struct outbound_turn *turn) {
	const struct grant_asked *asked = &turn->asked;

	if (turn->answer != GRANT_GO || question->stage != OUTBOUND_BEFORE_CONNECT ||
	    (asked->once != GRANT_ONCE_OBSERVE && asked->once != GRANT_ONCE_ENFORCE) ||
	    question->recipient_length == 0 ||
	    !told_is_delivered(engine->segment, told_key(engine->segment, question->queue_id,
		question->queue_id_length, asked->made_s, question->recipient,
		question->recipient_length)))
		return GRANT_ONCE_OFF;
	return generation->outbound_observe ? GRANT_ONCE_OBSERVE : (enum grant_once)asked->once;
}

void outbound_turn_discard(struct engine *engine, const struct outbound_turn *turn,
    int64_t now_ns, struct outbound_answer *out) {
	out->found.rule = out->found.class_index = CLASS_NO_RULE;
	out->answer.rule = out->answer.class_index = CLASS_NO_RULE;
	out->answer.decision.verdict = VERDICT_DISCARD;
	out->answer.decision.reason = REASON_DELIVERED;
	out->answer.newly_decided = true;
	engine_count(engine, COUNTER_DISCARDED, 1);
	/* as one that is held: nothing is connected for it */
	grants_mark(engine->segment, &turn->asked, GRANT_HELD, now_ns);
}

void outbound_turn_settle(struct outbound_process *process,
    const struct generation *generation, const struct outbound_question *question,
    const struct outbound_turn *turn, uint64_t name_hash, int64_t now_ns,
    const struct outbound_answer *out) {
	bool goes = out->answer.decision.verdict == VERDICT_ADMIT;
	enum reason reason = out->answer.decision.reason;
	enum grant_mark mark = GRANT_CONNECTED;

	if (turn->answer == GRANT_NONE)
		return;
	if (question->stage == OUTBOUND_BEFORE_CONNECT)
		mark = goes ? GRANT_ASKED :
		    reason == REASON_RECIPIENT_HELD ? GRANT_HELD :
		    reason == REASON_CLASS_HELD ? GRANT_DEFERRED_LONG : GRANT_DEFERRED;
	grants_mark(process->engine->segment, &turn->asked, mark, now_ns);
	if (question->stage != OUTBOUND_CONNECTED)
		return;
	outbound_keep_one_host(process, generation, name_hash, now_ns);
	if (process->places != NULL)
		windows_places_keep_one(process->places, out->owner, now_ns);
}

bool outbound_is_its_turn(struct engine *engine, const struct generation *generation,
    const char *queue_id, size_t queue_id_length, const char *domain, size_t length,
    int64_t now_ns) {
	struct grant_asked asked;
	enum grant_answer answer = grants_ask(engine->segment, queue_id, queue_id_length,
	    domain, length, now_ns, &asked);

	if (answer != GRANT_NONE)
		grants_mark(engine->segment, &asked, GRANT_TURN, now_ns);
	if (answer != GRANT_WAIT || asked.at_last || generation->outbound_observe)
		return true;
	engine_count(engine, COUNTER_TURNS_HELD, 1);
	return false;
}

void outbound_turn_why(struct engine *engine, const struct generation *generation,
    const char *domain, size_t length, uint8_t mta, int64_t now_ns,
    struct outbound_answer *out) {
	struct window_owner owner;
	struct window_view view;

	memset(out, 0, sizeof(*out));
	out->answer.decision.reason = REASON_NOT_ITS_TURN;
	windows_owner_of_host(engine, generation, domain, length, mta, &owner);
	if (owner.kind == DESTINATION_NONE ||
	    !windows_view(engine, generation, &owner, now_ns, &view) ||
	    (view.state != WINDOW_DEAD && view.state != WINDOW_HELD))
		return;
	out->answer.decision.reason = REASON_SUSPENDED;
	out->until_ns = view.until_ns;
	out->cause = view.event;
	memcpy(out->owner, owner.name, sizeof(out->owner));
	memcpy(out->why, view.reason, sizeof(view.reason));
}
