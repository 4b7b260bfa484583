/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Ends of sessions that no kernel table proves: by time.
 * MODEL    A session whose owner (its policy or milter connection, of a role that
 *          lives) holds it is kept: its lease is renewed.  When the owner's role
 *          is gone, the lease of orphans runs.  With session_proof = "lease" time alone
 *          counts.  Refused ones are forgotten after a minute where their
 *          connection cannot be seen.  A slot of a delivering process whose owner's
 *          role is gone lasts as long as the process does.
 * THREADS  The keeper's one.
 */
#include "engine/outbound/outbound_internal.h"
#include "engine/session/witness_internal.h"

#define REFUSED_DS 600

struct round {
	struct witness *witness;
	const struct generation *generation;
	int64_t now_ns;
	uint32_t now_ds;
	uint32_t owner_until_ds;	/* a lease that begins now ends then */
	uint32_t orphan_until_ds;
	bool blind;
	uint32_t *unproven;	/* how many only their lease ends */
};

static void store_lease(const struct round *round, uint32_t slot,
    const struct session *seen, enum session_proof proof, uint32_t until_ds) {
	struct session_ref ref = ref_of(seen, slot);
	struct session_lock lock;
	struct session session;

	if (session_lock_ref(round->witness->engine, &ref, round->now_ns, &lock,
		&session) != REF_HELD)
		return;
	session.control.proof = (uint8_t)proof;
	session.until_ds = until_ds;
	sessions_change_begin(&lock);
	session_store(lock.segment, slot, &session);
	sessions_change_end(&lock);
	sessions_unlock(&lock);
}

static void end_session(const struct round *round, uint32_t slot,
    const struct session *session, bool expired) {
	session_close_unchanged(round->witness->engine, slot, session,
	    round->now_ns);
	if (expired)
		engine_count(round->witness->engine, COUNTER_EXPIRED, 1);
}

static bool owner_lives(const struct round *round, const struct session *session) {
	return incarnation_lives(round->witness->segment, session->milter_owner) ||
	    incarnation_lives(round->witness->segment, session->policy_owner) ||
	    owners_see(round->witness, session, round->now_ns);
}

static void look_at_refused(const struct round *round, uint32_t slot,
    const struct session *session, bool witnessed) {
	bool seen = witnessed || (!round->blind &&
	    proof_applies(round->generation, session) &&
	    session_is_visible(round->witness->segment, round->generation,
		session));

	if (!seen && round->now_ds >= session->opened_ds + REFUSED_DS)
		end_session(round, slot, session, false);
}

/* True: the process decided.  Its map connection speaks for it while that is
 * held, and tells its end at once. */
static bool look_at_process(const struct round *round, uint32_t slot,
    const struct session *session) {
	const struct witness_calls *calls = &round->witness->calls;
	struct process_identity process = outbound_slot_process(session);

	if ((session->control.flags & SESSION_FLAG_PROCESS) == 0 ||
	    calls->process_lives == NULL || owner_lives(round, session))
		return false;
	if (!calls->process_lives(calls->context, &process))
		end_session(round, slot, session, false);
	return true;
}

static void look_at(void *context, uint32_t slot, const struct session *session) {
	const struct round *round = context;
	uint8_t setting = proof_setting(round->generation, session);
	bool witnessed = !round->blind &&
	    session->control.proof == SESSION_PROOF_WITNESS &&
	    proof_applies(round->generation, session);
	uint32_t until_ds = session->until_ds;
	enum session_proof proof = session->control.proof;

	if (session->control.state == SESSION_REFUSED) {
		look_at_refused(round, slot, session, witnessed);
		return;
	}
	if (look_at_process(round, slot, session))
		return;
	if (witnessed)
		return;
	/* nobody can contradict whoever said that it ended */
	if ((session->control.flags & SESSION_FLAG_ENDED_HINT) != 0 &&
	    (round->blind || !proof_applies(round->generation, session))) {
		end_session(round, slot, session, false);
		return;
	}
	if (session->control.direction == SESSION_OUTBOUND &&
	    proof == SESSION_PROOF_WITNESS) {
		/* the lease begins when the witness went blind */
		proof = SESSION_PROOF_LEASE;
		until_ds = round->orphan_until_ds;
	} else if (!owner_lives(round, session)) {
		if (proof == SESSION_PROOF_OWNER)
			proof = SESSION_PROOF_LEASE;
		if (until_ds > round->orphan_until_ds)
			until_ds = round->orphan_until_ds;
	} else if (setting != PROOF_LEASE) {
		proof = proof == SESSION_PROOF_LEASE ? SESSION_PROOF_OWNER : proof;
		if (until_ds < round->now_ds +
		    (round->owner_until_ds - round->now_ds) / 2)
			until_ds = round->owner_until_ds;
	}
	*round->unproven += session->control.direction == SESSION_INBOUND &&
	    setting != PROOF_LEASE && proof == SESSION_PROOF_LEASE;
	if (round->now_ds >= until_ds)
		end_session(round, slot, session, true);
	else if (until_ds != session->until_ds ||
	    proof != session->control.proof)
		store_lease(round, slot, session, proof, until_ds);
}

void witness_expire(struct witness *witness, const struct generation *generation,
    int64_t now_ns) {
	struct segment *segment = witness->segment;
	uint32_t unproven = 0;
	struct round round = { .witness = witness, .unproven = &unproven, .generation = generation,
		.now_ns = now_ns, .now_ds = segment_ds(segment, now_ns),
		.owner_until_ds = segment_ds(segment,
		    now_ns + generation->lease_owner_ns),
		.orphan_until_ds = segment_ds(segment,
		    now_ns + generation->lease_orphan_ns),
		.blind = witness_is_blind(witness, now_ns) };

	witness_each_session(witness, look_at, &round);
	atomic_store_explicit(&segment->header->unproven, unproven, memory_order_relaxed);
}
