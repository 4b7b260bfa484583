/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Inbound sessions: opened, asked about again, ended.
 * MODEL    One shard transaction a question.  Within it the class's mutex makes
 *          counts stand still, the law of policy/limit.h decides, and slot and
 *          counters are written together.
 * ERRORS   A lock that cannot be had in time: nothing was changed, the answer is
 *          "unusable" (admits, unless configured closed).
 */
#include "engine/internal.h"

#include <string.h>

#include "base/clock.h"

/* One question on its way. */
struct inquiry {
	struct engine *engine;
	const struct generation *generation;
	const struct question *question;
	struct answer *answer;
	const struct generation_class *class;	/* NULL: none */
	uint32_t dump_sequence;
	struct session_lock lock;
};

static void inquiry_begin(struct inquiry *inquiry, struct engine *engine,
    const struct generation *generation, const struct question *question,
    int64_t now_ns, struct answer *answer) {
	struct session_key key = { question->client, question->client_port,
		SESSION_INBOUND };

	*inquiry = (struct inquiry){ .engine = engine, .generation = generation,
		.question = question, .answer = answer };
	/* the table's memory is fetched while the class is looked for */
	sessions_aim(engine->segment, &key, now_ns, &inquiry->lock);
	/* read before anything is stored: the connection existed by then */
	inquiry->dump_sequence = atomic_load_explicit(
	    &engine->segment->header->dump_sequence, memory_order_acquire);
	memset(answer, 0, sizeof(*answer));
	answer->rule = generation_match_inbound(generation,
	    question->server_port, &question->client, question->name,
	    question->name_length);
	answer->class_index = CLASS_NO_RULE;
	if (answer->rule != CLASS_NO_RULE) {
		answer->class_index =
		    generation_rule(generation, answer->rule)->class_index;
		inquiry->class =
		    generation_class(generation, answer->class_index);
	}
	answer->newly_decided = true;
}

static void decide(struct inquiry *inquiry, enum verdict verdict,
    enum reason reason) {
	inquiry->answer->decision =
	    (struct decision){ .verdict = verdict, .reason = reason };
}

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

static void fill_session(const struct inquiry *inquiry, uint32_t slot,
    enum session_state state, struct session *session) {
	const struct question *question = inquiry->question;
	const struct generation *generation = inquiry->generation;
	const struct segment *segment = inquiry->engine->segment;
	int64_t now_ns = inquiry->lock.now_ns;
	struct session before;

	session_load(segment, slot, &before);
	*session = (struct session){
		.control = { .class_record = SEGMENT_NO_CLASS,
		    .state = (uint8_t)state, .direction = SESSION_INBOUND,
		    .proof = SESSION_PROOF_OWNER,
		    .listener = question->listener, .client_bits = 255 },
		.client = question->client, .server = question->server,
		.client_port = question->client_port,
		.server_port = question->server_port,
		.serial = (uint16_t)(before.serial + 1),
		.opened_ds = segment_ds(segment, now_ns),
		.until_ds = segment_ds(segment,
		    now_ns + generation->lease_owner_ns),
		.dump_sequence = inquiry->dump_sequence,
	};
	if (question->listener < generation->listener_count &&
	    generation->listeners[question->listener].proof == PROOF_LEASE)
		session->control.proof = SESSION_PROOF_LEASE;
	if (question->carried) {
		session->control.flags |= SESSION_FLAG_CARRIED;
		session->proof_address = question->carrier_client;
		session->proof_port = question->carrier_port;
	}
	if (question->owner == OWNER_POLICY)
		session->policy_owner = inquiry->engine->incarnation;
	else
		session->milter_owner = inquiry->engine->incarnation;
}

/* Remembers a session that is in no count.  No place: then not. */
static void remember(struct inquiry *inquiry, enum session_state state) {
	uint32_t slot = sessions_take(&inquiry->lock);
	struct session session;

	if (slot == SEGMENT_NO_SLOT)
		return;
	fill_session(inquiry, slot, state, &session);
	sessions_link(&inquiry->lock, slot);
	sessions_change_begin(&inquiry->lock);
	session_store(inquiry->engine->segment, slot, &session);
	sessions_change_end(&inquiry->lock);
	inquiry->answer->session = ref_of(&session, slot);
}

/* Counts the session.  Under the class's mutex, and the client's if not NULL. */
static void admit(struct inquiry *inquiry, struct client_lock *client,
    const struct limit_state *state) {
	const struct generation_class *class = inquiry->class;
	struct segment *segment = inquiry->engine->segment;
	struct class_record *record = &segment->records[class->record];
	int64_t now_ns = inquiry->lock.now_ns, client_tat_ns = 0;
	struct session session;
	uint32_t slot = sessions_take(&inquiry->lock);

	if (slot == SEGMENT_NO_SLOT) {
		decide(inquiry, VERDICT_ADMIT, REASON_UNTRACKED);
		segment_count(segment, COUNTER_UNTRACKED, 1);
		return;
	}
	fill_session(inquiry, slot, SESSION_OPEN, &session);
	session.control.class_record = (uint16_t)class->record;
	if (client != NULL && client_reserve(client)) {
		session.control.client_bits =
		    address_is_v4(&session.client) ?
		    (uint8_t)(96 + class->client_bits_v4) :
		    class->client_bits_v6;
		if (class->limits.client_rate.count != 0)
			client_tat_ns = rate_after(&class->limits.client_rate,
			    state->client_rate_tat_ns, now_ns);
	}
	sessions_link(&inquiry->lock, slot);
	slot_commit(&inquiry->lock, slot, &session,
	    session.control.client_bits == 255 ? NULL : client, client_tat_ns);
	if (class->limits.rate.count != 0)
		atomic_store_explicit(&record->rate_tat_ns,
		    rate_after(&class->limits.rate, state->rate_tat_ns, now_ns),
		    memory_order_relaxed);
	class_count(&record->admitted);
	inquiry->answer->session = ref_of(&session, slot);
	segment_count(segment, COUNTER_ADMITTED, 1);
}

static bool observes(const struct generation_class *class, enum reason reason) {
	return limit_reason_is_client(reason) ? class->client_observe
					      : class->observe;
}

/* The class's answer.  Under its mutex, and the client's if not NULL. */
static void ask_class(struct inquiry *inquiry, struct client_lock *client) {
	const struct generation_class *class = inquiry->class;
	struct segment *segment = inquiry->engine->segment;
	struct class_record *record = &segment->records[class->record];
	struct answer *answer = inquiry->answer;
	struct limit_state state;

	limit_state_read(segment, (uint16_t)class->record, &state);
	if (client != NULL)
		client_counts(client, &state.client_open,
		    &state.client_rate_tat_ns);
	answer->decision = limit_inbound(&class->limits, &state,
	    inquiry->lock.now_ns);
	if (answer->decision.verdict != VERDICT_ADMIT &&
	    observes(class, answer->decision.reason)) {
		answer->decision.verdict = VERDICT_ADMIT;
		answer->observed = true;
		class_count(&record->observed);
		segment_count(segment, COUNTER_OBSERVED, 1);
	}
	if (answer->decision.verdict == VERDICT_ADMIT) {
		admit(inquiry, client, &state);
	} else if (class->action == CLASS_ACTION_DEFER &&
	    !inquiry->question->connect_only) {
		answer->decision.verdict = VERDICT_DEFER;
		class_count(&record->deferred);
	} else {
		class_count(&record->refused);
	}
}

/* False: locks were not to be had. */
static bool ask_under_locks(struct inquiry *inquiry) {
	const struct generation_class *class = inquiry->class;
	const struct address *address = &inquiry->question->client;
	struct segment *segment = inquiry->engine->segment;
	uint16_t record = (uint16_t)class->record;
	struct client_lock client;

	if (!class_lock(segment, record, inquiry->lock.now_ns))
		return false;
	if (class->has_client_limit) {
		unsigned bits = address_is_v4(address) ?
		    96u + class->client_bits_v4 : class->client_bits_v6;

		if (!client_lock(segment, record, address, bits,
			inquiry->lock.now_ns, &client)) {
			class_unlock(segment, record);
			return false;
		}
		ask_class(inquiry, &client);
		client_unlock(&client);
	} else {
		ask_class(inquiry, NULL);
	}
	class_unlock(segment, record);
	return true;
}

/* Adds this owner to a session that is open already. */
static void join(struct inquiry *inquiry, uint32_t slot,
    struct session *session) {
	const struct question *question = inquiry->question;
	uint16_t incarnation = inquiry->engine->incarnation;

	if (question->owner == OWNER_POLICY)
		session->policy_owner = incarnation;
	else
		session->milter_owner = incarnation;
	if (address_is_unknown(&session->server))
		session->server = question->server;
	if (session->server_port == 0)
		session->server_port = question->server_port;
	session->until_ds = segment_ds(inquiry->engine->segment,
	    inquiry->lock.now_ns + inquiry->generation->lease_owner_ns);
	sessions_change_begin(&inquiry->lock);
	session_store(inquiry->engine->segment, slot, session);
	sessions_change_end(&inquiry->lock);
	decide(inquiry, VERDICT_ADMIT, REASON_KNOWN_SESSION);
	inquiry->answer->newly_decided = false;
	inquiry->answer->session = ref_of(session, slot);
}

enum earlier { EARLIER_NONE, EARLIER_JOINED, EARLIER_STUCK };

/* What stands under this tuple already.  An adopted session, or one that is said
 * to have ended, is taken out of the count before the new one is decided. */
static enum earlier settle_earlier(struct inquiry *inquiry) {
	struct session session;
	uint32_t slot = sessions_find(&inquiry->lock,
	    &inquiry->question->server, inquiry->question->server_port);

	if (slot == SEGMENT_NO_SLOT)
		return EARLIER_NONE;
	session_load(inquiry->engine->segment, slot, &session);
	/* a milter hears of a deferred session what its policy check decided */
	if ((session.control.state == SESSION_OPEN ||
		(session.control.state == SESSION_DEFERRED &&
		    inquiry->question->connect_only)) &&
	    (session.control.flags &
		(SESSION_FLAG_ADOPTED | SESSION_FLAG_ENDED_HINT)) == 0) {
		join(inquiry, slot, &session);
		return EARLIER_JOINED;
	}
	return slot_close(&inquiry->lock, slot, &session) ? EARLIER_NONE
							  : EARLIER_STUCK;
}

static void answer_new(struct inquiry *inquiry, bool exempt) {
	struct engine *engine = inquiry->engine;
	const struct generation *generation = inquiry->generation;
	struct answer *answer = inquiry->answer;

	if (exempt) {
		decide(inquiry, VERDICT_ADMIT, REASON_EXEMPT);
		answer->rule = answer->class_index = CLASS_NO_RULE;
	} else if (inquiry->class != NULL) {
		if (!ask_under_locks(inquiry)) {
			answer_unusable(engine, generation,
			    inquiry->question->listener,
			    inquiry->question->server_port,
			    inquiry->lock.now_ns, answer);
			return;
		}
		if (answer->decision.verdict == VERDICT_DEFER)
			remember(inquiry, SESSION_DEFERRED);
		else if (answer->decision.verdict == VERDICT_REFUSE)
			remember(inquiry, SESSION_REFUSED);
	} else {
		bool shut = gate_is_shut(engine->segment, generation);

		decide(inquiry, shut ? VERDICT_REFUSE : VERDICT_ADMIT,
		    shut ? REASON_GATE_SHUT : REASON_NO_CLASS);
	}
	if (inquiry->class == NULL || exempt) {
		bool refused = answer->decision.verdict == VERDICT_REFUSE;

		remember(inquiry, refused ? SESSION_REFUSED : SESSION_UNCOUNTED);
		if (!refused)
			engine_count(engine, COUNTER_UNCOUNTED, 1);
	}
	if (answer->decision.verdict == VERDICT_REFUSE)
		engine_count(engine, COUNTER_REFUSED, 1);
	if (answer->decision.verdict != VERDICT_ADMIT || answer->observed ||
	    answer->decision.reason == REASON_UNTRACKED)
		answer->id = next_decision(engine);
}

/* The session of the CONNECT that an XCLIENT replaces. */
static void close_carrier(struct engine *engine, const struct question *question,
    int64_t now_ns) {
	struct session_key key = { question->carrier_client,
		question->carrier_port, SESSION_INBOUND };
	struct session_lock lock;
	struct session session;
	uint32_t slot;

	sessions_aim(engine->segment, &key, now_ns, &lock);
	if (!sessions_lock(&lock))
		return;
	slot = sessions_find(&lock, &question->server, question->server_port);
	if (slot != SEGMENT_NO_SLOT) {
		session_load(engine->segment, slot, &session);
		(void)slot_close(&lock, slot, &session);
	}
	sessions_unlock(&lock);
}

void engine_session_open(struct engine *engine,
    const struct generation *generation, const struct question *question,
    int64_t now_ns, struct answer *answer) {
	struct inquiry inquiry;
	enum earlier earlier;
	bool exempt;

	inquiry_begin(&inquiry, engine, generation, question, now_ns, answer);
	segment_count(engine->segment, COUNTER_QUESTIONS, 1);
	exempt = generation_is_exempt(generation, &question->client,
	    question->name, question->name_length);
	if (address_is_unknown(&question->client) || question->client_port == 0) {
		decide(&inquiry, VERDICT_ADMIT, REASON_UNTRACKED);
		segment_count(engine->segment, COUNTER_UNTRACKED, 1);
		answer->id = next_decision(engine);
		return;
	}
	if (question->carried &&
	    (question->carrier_port != question->client_port ||
		!address_equal(&question->carrier_client, &question->client)))
		close_carrier(engine, question, now_ns);
	relief_seek(engine, generation, exempt ? NULL : inquiry.class, now_ns);
	if (!sessions_lock(&inquiry.lock)) {
		answer_unusable(engine, generation, question->listener,
		    question->server_port, now_ns, answer);
		return;
	}
	earlier = settle_earlier(&inquiry);
	if (earlier == EARLIER_NONE)
		answer_new(&inquiry, exempt);
	else if (earlier == EARLIER_STUCK)
		answer_unusable(engine, generation, question->listener,
		    question->server_port, now_ns, answer);
	sessions_unlock(&inquiry.lock);
}

/* The milter that holds the session knows it by its slot and serial. */
static void keep_milter(struct inquiry *inquiry, uint32_t old_slot,
    const struct session *old) {
	struct segment *segment = inquiry->engine->segment;
	struct session session;

	if (old->milter_owner == 0 ||
	    inquiry->answer->session.slot != old_slot + 1)
		return;
	session_load(segment, old_slot, &session);
	session.serial = old->serial;
	session.milter_owner = old->milter_owner;
	sessions_change_begin(&inquiry->lock);
	session_store(segment, old_slot, &session);
	sessions_change_end(&inquiry->lock);
	inquiry->answer->session = ref_of(&session, old_slot);
}

/* Decides a deferred session anew: counted now, or deferred once more. */
static void ask_again(struct inquiry *inquiry, uint32_t slot,
    const struct session *session) {
	struct engine *engine = inquiry->engine;
	struct answer *answer = inquiry->answer;

	if (inquiry->class == NULL) {
		decide(inquiry, VERDICT_ADMIT, REASON_NO_CLASS);
		return;
	}
	/* the slot is given back first, so that there is one for the new count */
	if (!slot_close(&inquiry->lock, slot, session) ||
	    !ask_under_locks(inquiry)) {
		answer_unusable(engine, inquiry->generation,
		    inquiry->question->listener, inquiry->question->server_port,
		    inquiry->lock.now_ns, answer);
		return;
	}
	if (answer->decision.verdict == VERDICT_ADMIT) {
		keep_milter(inquiry, slot, session);
		return;
	}
	answer->decision.verdict = VERDICT_DEFER;
	remember(inquiry, SESSION_DEFERRED);
	keep_milter(inquiry, slot, session);
	engine_count(engine, COUNTER_DEFERRED, 1);
	answer->id = next_decision(engine);
}

void engine_session_recipient(struct engine *engine,
    const struct generation *generation, const struct question *question,
    int64_t now_ns, struct answer *answer) {
	struct inquiry inquiry;
	struct session session;
	uint32_t slot;

	inquiry_begin(&inquiry, engine, generation, question, now_ns, answer);
	decide(&inquiry, VERDICT_ADMIT, REASON_KNOWN_SESSION);
	answer->newly_decided = false;
	if (question->client_port == 0)
		return;
	if (!sessions_lock(&inquiry.lock)) {
		answer_unusable(engine, generation, question->listener,
		    question->server_port, now_ns, answer);
		/* it was let in; a fault is no reason to turn its mail away */
		answer->decision.verdict = VERDICT_ADMIT;
		return;
	}
	slot = sessions_find(&inquiry.lock, &question->server,
	    question->server_port);
	if (slot != SEGMENT_NO_SLOT) {
		session_load(engine->segment, slot, &session);
		if (session.control.state == SESSION_DEFERRED) {
			answer->newly_decided = true;
			ask_again(&inquiry, slot, &session);
		} else {
			answer->session = ref_of(&session, slot);
		}
	}
	sessions_unlock(&inquiry.lock);
}

/* Shall the kernel be asked before the owner's word counts?  A policy connection
 * may end before its session does, so where nothing was learned yet, too; a
 * milter's close is exact. */
static bool kernel_decides(const struct engine *engine,
    const struct generation *generation, const struct session *session,
    enum session_owner owner, int64_t now_ns) {
	if (keeper_is_away(engine->segment, now_ns))
		return false;
	return session_is_visible(engine->segment, generation, session) ||
	    (owner == OWNER_POLICY &&
		session_may_be_visible(engine->segment, generation, session));
}

void engine_session_ended(struct engine *engine,
    const struct generation *generation, const struct session_ref *ref,
    enum session_owner owner, int64_t now_ns) {
	struct session_lock lock;
	struct session session;
	bool keep;

	if (!session_lock_ref(engine, ref, SESSION_INBOUND, now_ns, &lock, &session))
		return;
	if (owner == OWNER_MILTER)
		session.milter_owner = 0;
	else
		session.policy_owner = 0;
	/* a milter that still holds the session knows better than a policy
	 * connection, and the kernel better than both */
	keep = session.milter_owner != 0 &&
	    incarnation_lives(engine->segment, session.milter_owner);
	if (!keep && kernel_decides(engine, generation, &session, owner, now_ns)) {
		session.control.flags |= SESSION_FLAG_ENDED_HINT;
		keep = true;
	}
	if (!keep && !slot_close(&lock, ref->slot - 1, &session)) {
		session.control.flags |= SESSION_FLAG_ENDED_HINT;
		keep = true;
	}
	if (keep) {
		sessions_change_begin(&lock);
		session_store(engine->segment, ref->slot - 1, &session);
		sessions_change_end(&lock);
	}
	sessions_unlock(&lock);
}

static void close_ref(struct engine *engine, const struct session_ref *ref,
    uint8_t direction, int64_t now_ns) {
	struct session_lock lock;
	struct session session;

	if (!session_lock_ref(engine, ref, direction, now_ns, &lock, &session))
		return;
	(void)slot_close(&lock, ref->slot - 1, &session);
	sessions_unlock(&lock);
}

void engine_session_close(struct engine *engine, const struct session_ref *ref,
    int64_t now_ns) {
	close_ref(engine, ref, SESSION_INBOUND, now_ns);
	close_ref(engine, ref, SESSION_OUTBOUND, now_ns);
}

void engine_explain(struct engine *engine, const struct generation *generation,
    const struct question *question, int64_t now_ns, struct answer *answer,
    uint32_t *open, uint32_t *client_open) {
	struct inquiry inquiry;
	struct limit_state state = { 0 };
	struct client_lock client;
	uint16_t record;

	inquiry_begin(&inquiry, engine, generation, question, now_ns, answer);
	*open = *client_open = 0;
	if (generation_is_exempt(generation, &question->client, question->name,
		question->name_length)) {
		decide(&inquiry, VERDICT_ADMIT, REASON_EXEMPT);
		return;
	}
	if (inquiry.class == NULL) {
		bool shut = gate_is_shut(engine->segment, generation);

		decide(&inquiry, shut ? VERDICT_REFUSE : VERDICT_ADMIT,
		    shut ? REASON_GATE_SHUT : REASON_NO_CLASS);
		return;
	}
	record = (uint16_t)inquiry.class->record;
	limit_state_read(engine->segment, record, &state);
	if (inquiry.class->has_client_limit &&
	    client_lock(engine->segment, record, &question->client,
		address_is_v4(&question->client) ?
		96u + inquiry.class->client_bits_v4 :
		inquiry.class->client_bits_v6, now_ns, &client)) {
		client_counts(&client, &state.client_open,
		    &state.client_rate_tat_ns);
		client_unlock(&client);
	}
	*open = state.open;
	*client_open = state.client_open;
	answer->decision = limit_inbound(&inquiry.class->limits, &state, now_ns);
	if (answer->decision.verdict == VERDICT_ADMIT)
		return;
	answer->observed = observes(inquiry.class, answer->decision.reason);
	if (inquiry.class->action == CLASS_ACTION_DEFER)
		answer->decision.verdict = VERDICT_DEFER;
	if (answer->observed)
		answer->decision.verdict = VERDICT_ADMIT;
}
