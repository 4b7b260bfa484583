/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Which sessions the kernel's table proves alive or over.
 * MODEL    What is shown alive is believed.  What is missing is over only where
 *          the witness can see (a session shown before, a listener whose sessions
 *          all were, the setting) or somebody said so, and only after one exact
 *          lookup just before closing: a dump is not of one moment.
 * ERRORS   A lookup or lock that fails leaves the session to the next dump.
 * THREADS  The keeper's one.
 */
#include "engine/session/witness_internal.h"

#include "base/clock.h"

/* A session that its owner holds but the kernel does not show teaches that the
 * listener's sessions are not all visible: for good, so not before the owner had
 * the time to say that it ended, after it was missing for the first time. */
#define UNSEEN_AGE_DS		20
#define FRESH_NS		(3 * NS_PER_SECOND / 2)
#define UNSEEN_NS		(FRESH_NS + NS_PER_SECOND / 2)
/* One that is not looked at any more makes room for another. */
#define UNSEEN_OLD_NS		(5 * NS_PER_SECOND)
/* Sessions of unknown port are searched for when they are this young. */
#define SEARCH_AGE_DS		12

uint8_t proof_setting(const struct generation *generation,
    const struct session *session) {
	/* theirs is the number of an mta */
	if (session->control.direction == SESSION_OUTBOUND ||
	    session->control.listener >= generation->listener_count)
		return PROOF_AUTO;
	return generation->listeners[session->control.listener].proof;
}

static bool is_adopted(const struct session *session) {
	return (session->control.flags & SESSION_FLAG_ADOPTED) != 0;
}

bool proof_applies(const struct generation *generation,
    const struct session *session) {
	uint8_t setting = proof_setting(generation, session);

	if ((session->control.flags & SESSION_FLAG_PROCESS) != 0)
		return false;
	/* renamed by XCLIENT, and we never heard who it was before */
	if ((session->control.flags & SESSION_FLAG_CARRIED) != 0 &&
	    session->proof_port == 0)
		return false;
	return is_adopted(session) || setting == PROOF_AUTO ||
	    setting == PROOF_WITNESS;
}

void proof_tuple(const struct session *session, struct connection *tuple) {
	bool carried = (session->control.flags & SESSION_FLAG_CARRIED) != 0;

	*tuple = (struct connection){
		.client = carried ? session->proof_address : session->client,
		.client_port = carried ? session->proof_port
				       : session->client_port,
		.outbound = session->control.direction == SESSION_OUTBOUND,
	};
	if (session->server_port != 0 && !address_is_unknown(&session->server)) {
		tuple->server = session->server;
		tuple->server_port = session->server_port;
	}
}

static enum lookup_result ask_kernel(struct witness *witness,
    const struct session *session, struct connection *found) {
	const struct witness_calls *calls = &witness->calls;
	struct connection tuple;
	enum lookup_result result;

	proof_tuple(session, &tuple);
	engine_count(witness->engine, COUNTER_WITNESS_LOOKUPS, 1);
	result = calls->lookup(calls->context, &tuple, found);
	if (result != LOOKUP_GONE || tuple.server_port == 0 ||
	    (session->control.flags & SESSION_FLAG_CARRIED) == 0)
		return result;
	/* XCLIENT may have renamed the server half, too */
	tuple.server = (struct address){ { 0 } };
	tuple.server_port = 0;
	engine_count(witness->engine, COUNTER_WITNESS_LOOKUPS, 1);
	return calls->lookup(calls->context, &tuple, found);
}

static void teach_seen(struct witness *witness, const struct session *session,
    uint16_t port) {
	struct listener_record *record = segment_listener(witness->segment,
	    session->control.listener, port);

	if (record != NULL)
		atomic_fetch_add(&record->seen, 1);
}

void proof_shown(struct witness *witness, const struct generation *generation,
    uint32_t slot, const struct session *session,
    const struct connection *connection, int64_t now_ns) {
	struct session_ref ref = ref_of(session, slot);
	uint16_t port = session->server_port;

	if (!proof_applies(generation, session))
		return;
	if (session->control.proof == SESSION_PROOF_WITNESS &&
	    (port != 0 || (session->control.flags & SESSION_FLAG_CARRIED) != 0))
		return;
	engine_session_seen(witness->engine, &ref, connection, now_ns);
	if (session->control.proof == SESSION_PROOF_WITNESS || is_adopted(session))
		return;
	if ((session->control.flags & SESSION_FLAG_CARRIED) == 0)
		port = connection->server_port;
	teach_seen(witness, session, port);
}

/* A role that is not only alive but at work. */
static bool incarnation_is_fresh(const struct segment *segment,
    uint16_t incarnation, int64_t now_ns) {
	const struct role_record *roles = segment->header->roles;

	for (unsigned i = 0; incarnation != 0 && i < SEGMENT_ROLES_MAX; i++) {
		if (atomic_load_explicit(&roles[i].incarnation,
			memory_order_relaxed) == incarnation)
			return now_ns - segment_time_ns(&roles[i].heartbeat_ns) < FRESH_NS;
	}
	return false;
}

static uint32_t age_ds(const struct witness *witness,
    const struct session *session, int64_t now_ns) {
	uint32_t now_ds = segment_ds(witness->segment, now_ns);

	return now_ds > session->opened_ds ? now_ds - session->opened_ds : 0;
}

/* Has the session been missing for as long as its owner needs to tell its end? */
static bool is_missing_for_long(struct witness *witness, uint32_t slot,
    const struct session *session, int64_t now_ns) {
	struct unseen *unseen = &witness->unseen;

	if (unseen->since_ns != 0 && unseen->slot == slot &&
	    unseen->serial == session->serial)
		return now_ns - unseen->since_ns >= UNSEEN_NS;
	if (unseen->since_ns == 0 || now_ns - unseen->since_ns >= UNSEEN_OLD_NS)
		*unseen = (struct unseen){ .serial = session->serial, .slot = slot,
			.since_ns = now_ns };
	return false;
}

static void teach_unseen(struct witness *witness,
    const struct generation *generation, uint32_t slot,
    const struct session *session, int64_t now_ns) {
	struct listener_record *record;
	bool by_milter = incarnation_is_fresh(witness->segment,
	    session->milter_owner, now_ns);
	_Atomic uint32_t *lesson;

	if (session->control.state == SESSION_REFUSED ||
	    proof_setting(generation, session) != PROOF_AUTO ||
	    age_ds(witness, session, now_ns) < UNSEEN_AGE_DS ||
	    !(by_milter || incarnation_is_fresh(witness->segment,
		session->policy_owner, now_ns)) ||
	    (session->server_port != 0 &&
		!port_is_in(witness->asked, session->server_port)))
		return;
	record = segment_listener(witness->segment, session->control.listener,
	    session->server_port);
	if (record == NULL)
		return;
	/* a policy connection outlives its session: it proves no life */
	lesson = by_milter ? &record->unseen : &record->absent;
	if (atomic_load(lesson) == 0 &&
	    is_missing_for_long(witness, slot, session, now_ns) &&
	    ask_kernel(witness, session, NULL) == LOOKUP_GONE)
		atomic_fetch_add(lesson, 1);
}

/* Nothing says on which port it is: the dump may not have asked for it. */
static bool may_search(struct witness *witness, const struct session *session,
    int64_t now_ns) {
	if (session->server_port != 0 || witness->searches_left == 0 ||
	    age_ds(witness, session, now_ns) > SEARCH_AGE_DS)
		return false;
	witness->searches_left--;
	return true;
}

/* Would its absence prove that it is over?  What was only learned of its
 * listener does not outweigh a milter that still holds it: clients behind a proxy
 * may share a listener with others. */
static bool is_provable(const struct witness *witness,
    const struct generation *generation, const struct session *session,
    int64_t now_ns) {
	if (is_adopted(session) ||
	    (session->control.flags & SESSION_FLAG_ENDED_HINT) != 0 ||
	    session->control.proof == SESSION_PROOF_WITNESS ||
	    proof_setting(generation, session) == PROOF_WITNESS)
		return true;
	/* of one that was hidden from the beginning its milter's connection tells (owners.c) */
	if (session_has_sockets(session) && session->milter_socket != 0)
		return false;
	return session_is_visible(witness->segment, generation, session) &&
	    !incarnation_is_fresh(witness->segment, session->milter_owner,
		now_ns);
}

void proof_missing(struct witness *witness, const struct generation *generation,
    uint32_t slot, const struct session *session, int64_t now_ns) {
	struct connection found;
	bool provable;

	if (!proof_applies(generation, session))
		return;
	if (session->control.direction == SESSION_OUTBOUND) {
		outbound_missing(witness, slot, session, now_ns);
		return;
	}
	provable = is_provable(witness, generation, session, now_ns);
	if (!provable && !may_search(witness, session, now_ns)) {
		teach_unseen(witness, generation, slot, session, now_ns);
		return;
	}
	switch (ask_kernel(witness, session, &found)) {
	case LOOKUP_ALIVE:
		proof_shown(witness, generation, slot, session, &found, now_ns);
		break;
	case LOOKUP_GONE:
		if (provable)
			session_close_unchanged(witness->engine, slot, session,
			    now_ns);
		break;
	case LOOKUP_UNKNOWN:
		break;
	}
}

/* Another connection from the same port, to another server, is none of the session's: a proxy
 * on this host and who comes by XCLIENT may both have it. */
static bool is_of_session(struct witness *witness, const struct session *session,
    const struct connection *connection) {
	struct connection tuple;

	proof_tuple(session, &tuple);
	return (tuple.server_port == connection->server_port &&
		address_equal(&tuple.server, &connection->server)) ||
	    ask_kernel(witness, session, NULL) != LOOKUP_ALIVE;
}

void proof_destroyed(struct witness *witness, const struct generation *generation,
    const struct session_ref *ref, const struct session *session,
    const struct connection *connection, int64_t now_ns) {
	const struct witness_calls *calls = &witness->calls;

	if (!proof_applies(generation, session))
		return;
	if (!is_of_session(witness, session, connection)) {
		witness->early = true;
		return;
	}
	/* it was in the kernel's table, so the listener's are visible there */
	if (session->control.proof != SESSION_PROOF_WITNESS &&
	    session->control.direction == SESSION_INBOUND)
		teach_seen(witness, session, session->server_port != 0 ?
		    session->server_port : connection->server_port);
	engine_count(witness->engine, COUNTER_WITNESS_LOOKUPS, 1);
	if (calls->lookup(calls->context, connection, NULL) == LOOKUP_GONE)
		session_close_unchanged(witness->engine, ref->slot - 1, session,
		    now_ns);
	else
		witness->early = true;
}
