/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Outbound connections of an MTA that asks (DESIGN section 5, rows 3
 *          to 5).
 * MODEL    One slot for each process and class, keyed by both, so that the process
 *          finds it again on another map connection; the table alone says what is
 *          held.  Which hosts the process was admitted to is remembered beside it
 *          (outbound_memory.c).  A process that delivers while it serves a client of the
 *          class is counted by that session, which lasts longer.  A host that moves to another class takes its
 *          place there before the old one is given back.
 * ERRORS   As inbound.c: unusable state admits, or defers when configured closed;
 *          nothing was changed then.
 *          Windows come after the class (outbound_window.c).
 * THREADS  One for each process that is asked about.
 */
#include "engine/outbound/outbound_internal.h"

#include <string.h>

#include "base/siphash.h"
#include "base/text.h"
#include "engine/decision/decided.h"
#include "segment/destination/destinations.h"

/* One question on its way. */
struct asking {
	struct outbound_process *process;
	const struct generation *generation;
	const struct outbound_question *question;
	const struct generation_class *class;
	struct outbound_answer *out;
	uint64_t name_hash;
	bool same_host;		/* there is a connection to it */
	uint64_t owner_hash;	/* of the window that was asked for the host before; 0: none */
	struct session_lock lock;
	uint32_t slot;		/* of the process in the class, or SEGMENT_NO_SLOT */
	bool taken;		/* just now */
	bool ours;		/* noted by this very connection */
	bool counted;		/* in the class, by the session of its own client */
	struct session session;	/* as it is in the slot */
};

/* --- the slot ----------------------------------------------------------- */

/* 100::/64 is for nobody's traffic (RFC 6666). */
static struct session_key slot_key(const struct process_identity *identity,
    uint16_t record) {
	struct session_key key = { .client = { { 0x01 } },
		.client_port = (uint16_t)(record + 1),
		.direction = SESSION_OUTBOUND };
	uint32_t ticks = (uint32_t)identity->start_ticks;

	memcpy(key.client.bytes + 8, &identity->pid, sizeof(identity->pid));
	memcpy(key.client.bytes + 12, &ticks, sizeof(ticks));
	return key;
}

static struct address proof_of_process(const struct process_identity *identity) {
	struct address proof = { { 0 } };

	memcpy(proof.bytes, &identity->pid, sizeof(identity->pid));
	memcpy(proof.bytes + sizeof(identity->pid), &identity->start_ticks,
	    sizeof(identity->start_ticks));
	return proof;
}

/* The last host's mark in the slot: whoever goes on with the slot knows it. */
static uint16_t host_mark(const struct asking *asking) {
	return (uint16_t)(asking->name_hash >> 48) | 1;
}

/* What the slot says about the connection that was admitted last. */
static void describe(const struct asking *asking, struct session *session) {
	session->policy_owner = asking->process->engine->incarnation;
	session->proof_port = host_mark(asking);
	session->control.listener = asking->question->mta;
	if (!address_is_unknown(&asking->out->found.relay))
		session->server = asking->out->found.relay;
}

/* With another serial whoever asked before does not hold it any more: the end of
 * that connection may be heard later than this question. */
static void renew_slot(struct asking *asking, bool admitted) {
	struct session session = asking->session;

	session.policy_owner = asking->process->engine->incarnation;
	if (!asking->ours)
		session.serial = session_serial_next(session.serial);
	if (admitted)
		describe(asking, &session);
	if (memcmp(&session, &asking->session, sizeof(session)) == 0)
		return;
	sessions_change_begin(&asking->lock);
	session_store(asking->lock.segment, asking->slot, &session);
	sessions_change_end(&asking->lock);
	asking->session = session;
}

static void take_slot(struct asking *asking) {
	struct segment *segment = asking->lock.segment;
	uint16_t record = (uint16_t)asking->class->record;
	uint32_t slot = sessions_take(&asking->lock);
	struct session session, before;

	if (slot == SEGMENT_NO_SLOT) {
		asking->out->answer.decision.reason = REASON_UNTRACKED;
		segment_count(segment, COUNTER_UNTRACKED, 1);
		return;
	}
	session_load(segment, slot, &before);
	session = (struct session){
		.control = { .class_record = record, .state = SESSION_OPEN,
		    .direction = SESSION_OUTBOUND, .proof = SESSION_PROOF_OWNER,
		    .flags = SESSION_FLAG_PROCESS, .client_bits = 255 },
		.client = asking->lock.key.client,
		.client_port = asking->lock.key.client_port,
		.proof_address = proof_of_process(&asking->process->identity),
		.serial = session_serial_next(before.serial),
		.opened_ds = segment_ds(segment, asking->lock.now_ns),
		.until_ds = segment_ds(segment, asking->lock.now_ns +
			asking->generation->lease_owner_ns),
	};
	describe(asking, &session);
	sessions_link(&asking->lock, slot);
	slot_commit(&asking->lock, slot, &session, NULL, 0);
	class_count(&segment->records[record].admitted);
	segment_count(segment, COUNTER_ADMITTED, 1);
	asking->slot = slot;
	asking->session = session;
	asking->taken = true;
}

/* Finds the process's slot in the class.  False: a namesake's stands there and
 * could not be taken away. */
static bool find_slot(struct asking *asking) {
	const struct address anywhere = { { 0 } };
	struct address proof = proof_of_process(&asking->process->identity);
	struct session_ref ref;

	asking->slot = sessions_find(&asking->lock, &anywhere, 0);
	if (asking->slot == SEGMENT_NO_SLOT)
		return true;
	session_load(asking->lock.segment, asking->slot, &asking->session);
	ref = ref_of(&asking->session, asking->slot);
	if (asking->session.control.state == SESSION_OPEN &&
	    (asking->session.control.flags & SESSION_FLAG_PROCESS) != 0 &&
	    address_equal(&asking->session.proof_address, &proof)) {
		asking->ours = outbound_holds(asking->process,
		    (uint16_t)asking->class->record, &ref);
		/* an earlier connection of the process was told so */
		if (!asking->ours &&
		    asking->session.proof_port == host_mark(asking))
			asking->same_host = true;
		return true;
	}
	if (!slot_close(&asking->lock, asking->slot, &asking->session))
		return false;
	asking->slot = SEGMENT_NO_SLOT;
	return true;
}

/* --- the answer --------------------------------------------------------- */

/* Closed means deferred here: mail that is ours to send stays queued. */
static void unusable(struct asking *asking) {
	struct answer *answer = &asking->out->answer;

	answer_unusable(asking->process->engine, asking->generation, UINT8_MAX,
	    0, asking->lock.now_ns, answer);
	if (answer->decision.verdict == VERDICT_REFUSE)
		answer->decision.verdict = VERDICT_DEFER;
}

/* The law.  Under the shard's and the class's mutex. */
static void decide(struct asking *asking) {
	const struct generation_class *class = asking->class;
	struct segment *segment = asking->lock.segment;
	struct class_record *record = &segment->records[class->record];
	struct answer *answer = &asking->out->answer;
	bool held = asking->slot != SEGMENT_NO_SLOT || asking->counted;
	struct limit_state state;

	limit_state_read(segment, (uint16_t)class->record, &state);
	answer->decision = __builtin_expect(class->shared, 0) ?
	    shares_outbound(segment, asking->generation, class, &state, held,
		asking->same_host, asking->lock.now_ns) :
	    limit_outbound(&class->limits, &state, held, asking->same_host);
	if (answer->decision.verdict != VERDICT_ADMIT &&
	    class->outbound_observe) {
		answer->decision.verdict = VERDICT_ADMIT;
		answer->observed = true;
		class_count(&record->observed);
		segment_count(segment, COUNTER_OBSERVED, 1);
	}
	if (answer->decision.verdict != VERDICT_ADMIT)
		class_count(&record->deferred);
	/* a connection that lives is counted, whatever became of its slot */
	if (answer->decision.verdict == VERDICT_ADMIT && !held)
		take_slot(asking);
}

/* False: a lock was not to be had, nothing was changed. */
static bool ask_class(struct asking *asking) {
	struct segment *segment = asking->lock.segment;
	uint16_t record = (uint16_t)asking->class->record;
	bool done;

	if (!outbound_reserve_hold(asking->process) || !sessions_lock(&asking->lock))
		return false;
	done = find_slot(asking) &&
	    class_lock_for(segment, asking->class, asking->lock.now_ns);
	if (done) {
		bool held = asking->slot != SEGMENT_NO_SLOT;

		decide(asking);
		class_unlock(segment, record);
		if (held)
			renew_slot(asking, asking->out->answer.decision.verdict ==
				VERDICT_ADMIT);
	}
	sessions_unlock(&asking->lock);
	return done;
}

static void put_host(const struct asking *asking, uint16_t record) {
	const struct admitted_host host = { .name_hash = asking->name_hash,
		.generation = asking->generation->number,
		.rule = asking->out->found.rule, .record = record,
		.source = (uint8_t)asking->out->found.source };

	outbound_put_host(asking->process, asking->generation, &host,
	    asking->lock.now_ns);
}

/* What follows for the process's memory. */
static void settle(struct asking *asking) {
	struct answer *answer = &asking->out->answer;
	uint16_t record = (uint16_t)asking->class->record;

	if (asking->slot != SEGMENT_NO_SLOT) {
		answer->session = ref_of(&asking->session, asking->slot);
		outbound_note_hold(asking->process, record, &answer->session,
		    asking->taken);
	}
	if (answer->decision.verdict != VERDICT_ADMIT)
		outbound_drop_host(asking->process, asking->generation,
		    asking->name_hash, asking->lock.now_ns);
	else if (asking->slot != SEGMENT_NO_SLOT || asking->counted)
		put_host(asking, record);
}

/* "For a given sendmail process, only the first connection in a given class is counted": is
 * that its own client's? */
static bool is_counted_by_client(const struct asking *asking) {
	const struct outbound_question *question = asking->question;
	const struct session_key key = { question->client, question->client_port,
		SESSION_INBOUND };
	struct segment *segment = asking->process->engine->segment;
	struct session_lock lock;
	struct session session;
	uint32_t slot;

	if (question->client_port == 0 || address_is_unknown(&question->client))
		return false;
	sessions_aim(segment, &key, asking->lock.now_ns, &lock);
	if (!sessions_lock(&lock))
		return false;
	slot = sessions_find(&lock, &question->client_server, question->client_server_port);
	if (slot != SEGMENT_NO_SLOT)
		session_load(segment, slot, &session);
	sessions_unlock(&lock);
	return slot != SEGMENT_NO_SLOT && session.control.state == SESSION_OPEN &&
	    session.control.class_record == asking->class->record &&
	    session_has_sockets(&session) &&
	    session.process == (uint32_t)asking->process->identity.pid;
}

static void ask(struct asking *asking) {
	struct engine *engine = asking->process->engine;
	struct answer *answer = &asking->out->answer;
	struct session_key key = slot_key(&asking->process->identity,
	    (uint16_t)asking->class->record);

	asking->counted = is_counted_by_client(asking);
	relief_seek(engine, asking->generation, asking->class, SESSION_OUTBOUND,
	    asking->lock.now_ns);
	sessions_aim(engine->segment, &key, asking->lock.now_ns, &asking->lock);
	if (!ask_class(asking)) {
		unusable(asking);
		return;
	}
	settle(asking);
	answer->newly_decided = !asking->same_host;
	if (answer->decision.verdict != VERDICT_ADMIT)
		engine_count(engine, COUNTER_DEFERRED, 1);
}

static void answer_uncounted(struct asking *asking) {
	struct answer *answer = &asking->out->answer;

	answer->decision.reason = REASON_NO_CLASS;
	answer->newly_decided = !asking->same_host;
	if (!asking->same_host)
		engine_count(asking->process->engine, COUNTER_UNCOUNTED, 1);
	put_host(asking, SEGMENT_NO_CLASS);
}

static void teach(const struct asking *asking) {
	const struct outbound_question *question = asking->question;
	struct delivery_seen seen = { .name = question->destination,
		.relay = question->server, .mta = question->mta };

	if (address_is_unknown(&question->server))
		return;
	seen.name_length =
	    text_bare_host(&seen.name, question->destination_length);
	if (question->server_name != NULL && question->server_name_length > 0 &&
	    question->server_name[0] != '[') {
		seen.relay_name = question->server_name;
		seen.relay_name_length = question->server_name_length;
	}
	(void)destinations_note(asking->process->engine->segment, &seen,
	    asking->lock.now_ns);
}

/* By what we know of the connection itself, else of its destination. */
static void find_class(struct asking *asking,
    const struct admitted_host *known) {
	const struct outbound_question *question = asking->question;
	struct engine *engine = asking->process->engine;
	struct outbound_class *found = &asking->out->found;

	if (question->stage == OUTBOUND_CONNECTED &&
	    (!address_is_unknown(&question->server) ||
		question->server_name_length > 0)) {
		outbound_class_of(engine, asking->generation, &question->server,
		    question->server_name, question->server_name_length, found);
		return;
	}
	if (known == NULL || known->generation != asking->generation->number) {
		outbound_class_find(engine, asking->generation,
		    question->destination, question->destination_length, found);
		return;
	}
	/* nothing has changed: where it is counted, there it stays */
	*found = (struct outbound_class){ .rule = known->rule,
		.class_index = CLASS_NO_RULE, .source = known->source };
	if (known->rule != CLASS_NO_RULE)
		found->class_index = generation_rule(asking->generation,
		    known->rule)->class_index;
}

/* Is it a connection that was admitted as what it is?  Before a connect the host
 * alone says so, and the connection may have to be counted elsewhere; once it is
 * made it must be of the class that it was admitted to. */
static bool is_same_host(const struct asking *asking,
    const struct admitted_host *known) {
	uint16_t record = asking->class == NULL ? SEGMENT_NO_CLASS
						: (uint16_t)asking->class->record;

	return known != NULL &&
	    (asking->question->stage == OUTBOUND_BEFORE_CONNECT ||
		known->record == record);
}

static uint64_t hash_of(const struct outbound_process *process,
    const struct outbound_question *question) {
	char text[MASK_NAME_MAX + 1];
	const char *name = question->destination;
	size_t length = text_bare_host(&name, question->destination_length);

	if (length > sizeof(text))
		length = sizeof(text);
	text_lower(text, name, length);
	return siphash13(&process->engine->segment->header->key, text, length);
}

/* A connection that there is stays where it is counted; one that is not to be made,
 * or is given up, is in no count. */
static void ask_window(struct asking *asking) {
	struct outbound_process *process = asking->process;
	uint64_t owner_hash = outbound_ask_window(process, asking->generation,
	    asking->question, asking->owner_hash, asking->lock.now_ns, asking->out);
	struct admitted_host *host = outbound_host(process, asking->name_hash);

	if (asking->out->answer.decision.verdict != VERDICT_ADMIT &&
	    (!asking->same_host || asking->question->stage == OUTBOUND_CONNECTED))
		outbound_drop_host(process, asking->generation, asking->name_hash,
		    asking->lock.now_ns);
	else if (host != NULL)
		host->owner_hash = owner_hash;
}

/* Holds, class and window. */
static void ask_all(struct asking *asking, const struct admitted_host *known) {
	struct outbound_process *process = asking->process;
	struct outbound_answer *out = asking->out;
	enum reason observed = REASON_COUNT;

	find_class(asking, known);
	out->answer.rule = out->found.rule;
	out->answer.class_index = out->found.class_index;
	if (outbound_is_held(process->engine, asking->generation, asking->question,
		asking->lock.now_ns, out)) {
		if (!out->answer.observed)
			return;
		observed = out->answer.decision.reason;
	}
	if (out->found.rule != CLASS_NO_RULE)
		asking->class = generation_class(asking->generation,
		    out->found.class_index);
	asking->same_host = is_same_host(asking, known);
	asking->owner_hash = known == NULL ? 0 : known->owner_hash;
	if (asking->class == NULL)
		answer_uncounted(asking);
	else
		ask(asking);
	if (out->answer.decision.verdict == VERDICT_ADMIT)
		ask_window(asking);
	if (out->answer.decision.verdict == VERDICT_ADMIT &&
	    observed != REASON_COUNT) {
		out->answer.decision.reason = observed;
		out->answer.newly_decided = true;
	}
}

void outbound_process_ask(struct outbound_process *process,
    const struct generation *generation,
    const struct outbound_question *question, int64_t now_ns,
    struct outbound_answer *out) {
	struct asking asking = { .process = process, .generation = generation,
		.question = question, .out = out,
		.name_hash = hash_of(process, question),
		.lock = { .now_ns = now_ns }, .slot = SEGMENT_NO_SLOT };
	struct outbound_turn turn;
	enum grant_once once;

	memset(out, 0, sizeof(*out));
	engine_count(process->engine, COUNTER_OUTBOUND_QUESTIONS, 1);
	outbound_turn_look(process->engine, question, now_ns, &turn);
	if (outbound_turn_holds(process->engine, generation, question, &turn, out))
		return;
	once = outbound_turn_knows(process->engine, generation, question, &turn);
	if (once == GRANT_ONCE_ENFORCE) {
		outbound_turn_discard(process->engine, &turn, now_ns, out);
		outbound_note(process->engine, generation, question,
		    process->identity.pid, now_ns, out);
		return;
	}
	if (question->stage == OUTBOUND_CONNECTED)
		teach(&asking);
	ask_all(&asking, outbound_host(process, asking.name_hash));
	outbound_turn_settle(process, generation, question, &turn,
	    asking.name_hash, now_ns, out);
	if (once == GRANT_ONCE_OBSERVE && out->answer.decision.verdict == VERDICT_ADMIT) {
		out->answer.decision.reason = REASON_DELIVERED;
		out->answer.observed = out->answer.newly_decided = true;
		engine_count(process->engine, COUNTER_DISCARDS_OBSERVED, 1);
	}
	outbound_note(process->engine, generation, question, process->identity.pid,
	    now_ns, out);
}
