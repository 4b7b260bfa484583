/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Inbound sessions: opened, and asked about again.
 * MODEL    One shard transaction a question.  Within it the class's mutex makes
 *          counts stand still, the law of policy/limit/limit.h decides, and slot and
 *          counters are written together.
 * ERRORS   A lock that cannot be had in time: nothing was changed, the answer is
 *          "unusable" (admits, unless configured closed).
 */
#include "engine/session/inquiry.h"

#include "base/clock.h"
#include "engine/decision/decided.h"
#include "engine/session/witness_internal.h"

static void set_owner(struct session *session, const struct question *question,
    uint16_t incarnation) {
	bool by_policy = question->owner == OWNER_POLICY;

	*(by_policy ? &session->policy_owner : &session->milter_owner) = incarnation;
	if (session_has_sockets(session))
		*(by_policy ? &session->policy_socket : &session->milter_socket) =
		    question->owner_socket;
	if (by_policy)
		session->control.flags &= (uint8_t)~SESSION_FLAG_LEFT;
}

/* Its absence proves its end from now on, though no dump may ever meet it.  Behind
 * XCLIENT the tuple that was looked at is not the one that the kernel is asked for. */
static void set_shown(const struct inquiry *inquiry, struct session *session) {
	struct listener_record *record;

	if (!inquiry->question->shown ||
	    session->control.proof != SESSION_PROOF_OWNER ||
	    (session->control.flags & SESSION_FLAG_CARRIED) != 0 ||
	    !proof_applies(inquiry->generation, session))
		return;
	session->control.proof = SESSION_PROOF_WITNESS;
	record = segment_listener(inquiry->engine->segment,
	    session->control.listener, session->server_port);
	if (record != NULL)
		atomic_fetch_add(&record->seen, 1);
}

static void fill_session(const struct inquiry *inquiry, uint32_t slot,
    enum session_state state, struct session *session) {
	const struct question *question = inquiry->question;
	const struct generation *generation = inquiry->generation;
	const struct segment *segment = inquiry->engine->segment;
	int64_t now_ns = inquiry->lock.now_ns;

	*session = (struct session){
		.control = { .class_record = SEGMENT_NO_CLASS,
		    .state = (uint8_t)state, .direction = SESSION_INBOUND,
		    .proof = SESSION_PROOF_OWNER,
		    .listener = question->listener, .client_bits = 255 },
		.client = question->client, .server = question->server,
		.client_port = question->client_port,
		.server_port = question->server_port,
		.serial = session_serial_next(session_load_serial(segment, slot)),
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
	set_owner(session, question, inquiry->engine->incarnation);
	if (session_has_sockets(session))
		session->process = question->process;
	set_shown(inquiry, session);
}

/* Remembers a session that is in no count.  No place: then not.  Who is refused
 * over and over must not fill the table, or nobody could be counted any more;
 * a deferred one is worth a place. */
static void remember(struct inquiry *inquiry, enum session_state state) {
	struct session session;
	uint32_t slot;

	if (state != SESSION_DEFERRED && sessions_are_scarce(&inquiry->lock))
		return;
	slot = sessions_take(&inquiry->lock);
	if (slot == SEGMENT_NO_SLOT)
		return;
	fill_session(inquiry, slot, state, &session);
	sessions_link(&inquiry->lock, slot);
	sessions_change_begin(&inquiry->lock);
	session_store(inquiry->engine->segment, slot, &session);
	sessions_change_end(&inquiry->lock);
	inquiry->answer->session = ref_of(&session, slot);
}

/* The slot to count: a new one, or that of the deferred session.  False: the
 * table is full. */
static bool take_slot(struct inquiry *inquiry, uint32_t *slot,
    struct session *session) {
	if (inquiry->again_slot == SEGMENT_NO_SLOT) {
		*slot = sessions_take(&inquiry->lock);
		if (*slot == SEGMENT_NO_SLOT)
			return false;
		fill_session(inquiry, *slot, SESSION_OPEN, session);
	} else {
		*slot = inquiry->again_slot;
		*session = inquiry->again;
		session->control.state = SESSION_OPEN;
	}
	session->control.class_record = (uint16_t)inquiry->class->record;
	return true;
}

/* Counts the session.  Under the class's mutex, and the client's if not NULL. */
static void admit(struct inquiry *inquiry, struct client_lock *client,
    const struct limit_state *state) {
	const struct generation_class *class = inquiry->class;
	struct segment *segment = inquiry->engine->segment;
	struct class_record *record = &segment->records[class->record];
	int64_t now_ns = inquiry->lock.now_ns, client_tat_ns = 0;
	struct session session;
	uint32_t slot;

	if (!take_slot(inquiry, &slot, &session)) {
		inquiry_decide(inquiry, VERDICT_ADMIT, REASON_UNTRACKED);
		segment_count(segment, COUNTER_UNTRACKED, 1);
		return;
	}
	if (client != NULL && client_reserve(client)) {
		session.control.client_bits =
		    (uint8_t)client_bits(class, &session.client);
		if (class->limits.client_rate.count != 0)
			client_tat_ns = rate_after(&class->limits.client_rate,
			    state->client_rate_tat_ns, now_ns);
	}
	if (inquiry->again_slot == SEGMENT_NO_SLOT)
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
	answer->decision = __builtin_expect(class->shared, 0) ?
	    shares_inbound(segment, inquiry->generation, class, &state,
		inquiry->lock.now_ns) :
	    limit_inbound(&class->limits, &state, inquiry->lock.now_ns);
	if (answer->decision.verdict != VERDICT_ADMIT &&
	    class_observes(class, answer->decision.reason)) {
		answer->decision.verdict = VERDICT_ADMIT;
		answer->observed = true;
		class_count(&record->observed);
		segment_count(segment, COUNTER_OBSERVED, 1);
	}
	if (answer->decision.verdict == VERDICT_ADMIT) {
		admit(inquiry, client, &state);
	} else if (inquiry->again_slot != SEGMENT_NO_SLOT ||
	    (class->action == CLASS_ACTION_DEFER &&
		!inquiry->question->connect_only)) {
		answer->decision.verdict = VERDICT_DEFER;
		class_count(&record->deferred);
	} else {
		class_count(&record->refused);
	}
}

/* False: locks were not to be had. */
static bool ask_under_locks(struct inquiry *inquiry) {
	const struct generation_class *class = inquiry->class;
	struct segment *segment = inquiry->engine->segment;
	uint16_t record = (uint16_t)class->record;

	if (!class_lock_for(segment, class, inquiry->lock.now_ns))
		return false;
	if (class->has_client_limit) {
		if (!client_lock(&inquiry->client)) {
			class_unlock(segment, record);
			return false;
		}
		ask_class(inquiry, &inquiry->client);
		client_unlock(&inquiry->client);
	} else {
		ask_class(inquiry, NULL);
	}
	class_unlock(segment, record);
	return true;
}

/* Adds this owner to a session that is open already.  It may be a new connection
 * of the same tuple: no dump that began before may end it, nor who has just looked for the
 * connection before it. */
static void join(struct inquiry *inquiry, uint32_t slot,
    struct session *session) {
	const struct question *question = inquiry->question;

	set_owner(session, question, inquiry->engine->incarnation);
	if (address_is_unknown(&session->server))
		session->server = question->server;
	if (session->server_port == 0)
		session->server_port = question->server_port;
	set_shown(inquiry, session);
	session->dump_sequence = inquiry->dump_sequence;
	session->serial = session_serial_asked(session->serial, asked_part(question->owner));
	session->until_ds = segment_ds(inquiry->engine->segment,
	    inquiry->lock.now_ns + inquiry->generation->lease_owner_ns);
	sessions_change_begin(&inquiry->lock);
	session_store(inquiry->engine->segment, slot, session);
	sessions_change_end(&inquiry->lock);
	inquiry_decide(inquiry, VERDICT_ADMIT, REASON_KNOWN_SESSION);
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
		session.control.state == SESSION_UNCOUNTED ||
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

static void unusable(struct inquiry *inquiry) {
	answer_unusable(inquiry->engine, inquiry->generation,
	    inquiry->question->listener, inquiry->question->server_port,
	    inquiry->lock.now_ns, inquiry->answer);
}

static void answer_new(struct inquiry *inquiry) {
	struct engine *engine = inquiry->engine;
	struct answer *answer = inquiry->answer;

	if (inquiry->class == NULL) {
		inquiry_decide_unclassed(inquiry);
		if (answer->decision.verdict == VERDICT_ADMIT) {
			remember(inquiry, SESSION_UNCOUNTED);
			engine_count(engine, COUNTER_UNCOUNTED, 1);
		} else {
			gate_wants_shares(engine->segment, inquiry->generation);
		}
	} else if (!ask_under_locks(inquiry)) {
		unusable(inquiry);
		return;
	}
	inquiry_note_gate(inquiry);
	if (answer->decision.verdict == VERDICT_DEFER) {
		remember(inquiry, SESSION_DEFERRED);
	} else if (answer->decision.verdict == VERDICT_REFUSE) {
		remember(inquiry, SESSION_REFUSED);
		engine_count(engine, COUNTER_REFUSED, 1);
	}
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

static void open_session(struct engine *engine, const struct generation *generation,
    const struct question *question, int64_t now_ns, struct answer *answer) {
	struct inquiry inquiry;
	enum earlier earlier;

	inquiry_begin(&inquiry, engine, generation, question, now_ns, answer);
	/* the memory of this one comes meanwhile */
	if (question->over != NULL)
		engine_session_ended(engine, generation, question->over, question->owner, now_ns);
	sessions_expect(&inquiry.lock);
	inquiry_look_at_gate(&inquiry);
	segment_count(engine->segment, COUNTER_QUESTIONS, 1);
	if (address_is_unknown(&question->client) || question->client_port == 0) {
		inquiry_decide(&inquiry, VERDICT_ADMIT, REASON_UNTRACKED);
		segment_count(engine->segment, COUNTER_UNTRACKED, 1);
		return;
	}
	if (question->carried &&
	    (question->carrier_port != question->client_port ||
		!address_equal(&question->carrier_client, &question->client)))
		close_carrier(engine, question, now_ns);
	if (inquiry.class != NULL)
		relief_seek(engine, generation, inquiry.class, SESSION_INBOUND, now_ns);
	if (!sessions_lock(&inquiry.lock)) {
		unusable(&inquiry);
		return;
	}
	earlier = settle_earlier(&inquiry);
	if (earlier == EARLIER_NONE)
		answer_new(&inquiry);
	else if (earlier == EARLIER_STUCK)
		unusable(&inquiry);
	sessions_unlock(&inquiry.lock);
}

void engine_session_open(struct engine *engine,
    const struct generation *generation, const struct question *question,
    int64_t now_ns, struct answer *answer) {
	open_session(engine, generation, question, now_ns, answer);
	decided_note_session(engine, generation, question, DECIDED_AT_CONNECT, now_ns,
	    answer);
}

/* Decides a deferred session anew, in its slot: counted now, or deferred once
 * more. */
static void ask_again(struct inquiry *inquiry, uint32_t slot,
    const struct session *session) {
	struct answer *answer = inquiry->answer;

	answer->session = ref_of(session, slot);
	if (inquiry->class == NULL) {
		inquiry_decide(inquiry, VERDICT_ADMIT, inquiry->exempt ?
		    REASON_EXEMPT : REASON_NO_CLASS);
		return;
	}
	inquiry->again_slot = slot;
	inquiry->again = *session;
	if (!ask_under_locks(inquiry)) {
		unusable(inquiry);
		if (answer->decision.verdict == VERDICT_REFUSE)
			answer->decision.verdict = VERDICT_DEFER;
		return;
	}
	if (answer->decision.verdict == VERDICT_DEFER)
		engine_count(inquiry->engine, COUNTER_DEFERRED, 1);
}

static void ask_recipient(struct engine *engine, const struct generation *generation,
    const struct question *question, int64_t now_ns, struct answer *answer) {
	struct inquiry inquiry;
	struct session session;
	uint32_t slot;

	inquiry_begin(&inquiry, engine, generation, question, now_ns, answer);
	inquiry_decide(&inquiry, VERDICT_ADMIT, REASON_KNOWN_SESSION);
	answer->newly_decided = false;
	if (question->client_port == 0)
		return;
	if (!sessions_lock(&inquiry.lock)) {
		unusable(&inquiry);
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

void engine_session_recipient(struct engine *engine,
    const struct generation *generation, const struct question *question,
    int64_t now_ns, struct answer *answer) {
	ask_recipient(engine, generation, question, now_ns, answer);
	decided_note_session(engine, generation, question, DECIDED_AT_RECIPIENT, now_ns,
	    answer);
}
