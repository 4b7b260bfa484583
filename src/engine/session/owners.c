/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Sessions whose role is gone, by the mail server's end of its connection.
 * MODEL    A role writes the inode of that end into the session.  When it has died, the
 *          keeper looks for the inode among the host's unix sockets, with each dump in
 *          which such a session is met.  A milter's end is final.  A policy check's must be
 *          gone at two looks: whoever asks again has closed it to open another, and takes
 *          the session over (engine_session_kept).
 * ERRORS   Sockets that cannot be read leave the session to its lease.
 * THREADS  The keeper's one; engine_peer_socket, engine_owner_proof and
 *          engine_session_kept: any.
 */
#include "engine/session/witness_internal.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "engine/session/relief.h"

#define READ_FOR_NS	(5 * NS_PER_SECOND)

static bool has_socket(const struct session *session) {
	return session_has_sockets(session) &&
	    (session->milter_socket != 0 || session->policy_socket != 0);
}

void owners_begin(struct dump *dump) {
	struct witness *witness = dump->witness;

	dump->looks_at_policy = dump->now_ns - witness->policy_looked_ns >=
	    OWNERS_APART_NS;
	if (dump->looks_at_policy) {
		witness->policy_looked_ns = dump->now_ns;
		witness->any_has_left = false;
	}
	dump->sockets_asked = false;
}

static enum lookup_result is_held(struct dump *dump, uint32_t socket) {
	struct witness *witness = dump->witness;
	const struct witness_calls *calls = &witness->calls;
	size_t low = 0, high;

	if (!dump->sockets_asked) {
		dump->sockets_asked = true;
		dump->sockets_read = calls->sockets != NULL &&
		    calls->sockets(calls->context, &dump->sockets, &dump->socket_count);
		if (dump->sockets_read)
			witness->sockets_read_ns = dump->now_ns;
		else
			engine_count(witness->engine, COUNTER_WITNESS_ERRORS, 1);
	}
	if (!dump->sockets_read)
		return LOOKUP_UNKNOWN;
	high = dump->socket_count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (dump->sockets[middle] < socket)
			low = middle + 1;
		else
			high = middle;
	}
	return low < dump->socket_count && dump->sockets[low] == socket ? LOOKUP_ALIVE
									: LOOKUP_GONE;
}

static void mark(struct dump *dump, uint32_t slot, const struct session *seen,
    bool has_left) {
	struct session_ref ref = ref_of(seen, slot);
	struct session_lock lock;
	struct session session;

	if (session_lock_ref(dump->witness->engine, &ref, dump->now_ns, &lock, &session) !=
	    REF_HELD)
		return;
	if (memcmp(&session, seen, sizeof(session)) == 0) {
		session.control.flags ^= SESSION_FLAG_LEFT;
		MUST(((session.control.flags & SESSION_FLAG_LEFT) != 0) == has_left);
		sessions_change_begin(&lock);
		session_store(lock.segment, slot, &session);
		sessions_change_end(&lock);
	}
	sessions_unlock(&lock);
}

/* Dumps may have missed it, and nobody has seen it before. */
static bool is_there(struct dump *dump, const struct session *session) {
	const struct witness_calls *calls = &dump->witness->calls;
	struct connection tuple;

	proof_tuple(session, &tuple);
	if (tuple.server_port == 0 || !proof_applies(dump->generation, session))
		return false;
	engine_count(dump->witness->engine, COUNTER_WITNESS_LOOKUPS, 1);
	return calls->lookup(calls->context, &tuple, NULL) != LOOKUP_GONE;
}

static bool end(struct dump *dump, uint32_t slot, const struct session *session) {
	if (is_there(dump, session))
		return false;
	engine_count(dump->witness->engine, COUNTER_OWNERS_LEFT, 1);
	session_close_unchanged(dump->witness->engine, slot, session, dump->now_ns);
	return true;
}

static bool look_at_policy(struct dump *dump, uint32_t slot,
    const struct session *session) {
	bool had_left = (session->control.flags & SESSION_FLAG_LEFT) != 0;
	enum lookup_result held;

	if (!dump->looks_at_policy)
		return false;
	held = is_held(dump, session->policy_socket);
	if (held == LOOKUP_UNKNOWN)
		return false;
	if (held == LOOKUP_GONE && had_left)
		return end(dump, slot, session);
	dump->witness->any_has_left |= held == LOOKUP_GONE;
	if ((held == LOOKUP_GONE) != had_left)
		mark(dump, slot, session, !had_left);
	return false;
}

bool owners_look(struct dump *dump, uint32_t slot, const struct session *session,
    bool is_shown) {
	const struct segment *segment = dump->witness->segment;

	if (!has_socket(session) ||
	    proof_setting(dump->generation, session) == PROOF_LEASE ||
	    (int32_t)(session->dump_sequence - dump->sequence) >= 0 ||
	    incarnation_lives(segment, session->milter_owner))
		return false;
	/* it goes on without its role, and the kernel tells its end; a dump may miss one */
	if ((is_shown || session->control.proof == SESSION_PROOF_WITNESS) &&
	    proof_applies(dump->generation, session))
		return false;
	if (session->milter_socket != 0)
		return is_held(dump, session->milter_socket) == LOOKUP_GONE &&
		    end(dump, slot, session);
	return !incarnation_lives(segment, session->policy_owner) &&
	    look_at_policy(dump, slot, session);
}

bool owners_want_look(const struct witness *witness, int64_t now_ns) {
	return witness->any_has_left &&
	    now_ns - witness->policy_looked_ns >= OWNERS_APART_NS;
}

bool owners_see(const struct witness *witness, const struct session *session,
    int64_t now_ns) {
	return has_socket(session) &&
	    witness->sockets_read_ns != 0 &&
	    now_ns - witness->sockets_read_ns < READ_FOR_NS;
}

/* --- for the roles ------------------------------------------------------------ */

uint32_t engine_peer_socket(struct engine *engine, int fd) {
	int domain = 0;
	socklen_t length = sizeof(domain);
	uint32_t peer = 0;
	struct stat status;

	if (engine->relief == NULL ||
	    getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) != 0 ||
	    domain != AF_UNIX || fstat(fd, &status) != 0 ||
	    relief_socket(engine->relief, (uint32_t)status.st_ino, &peer) != LOOKUP_ALIVE)
		return 0;
	return peer;
}

/* Is it in the kernel's table, and not as the connection of another one's process, which
 * is a proxy on this host? */
static bool is_shown(struct engine *engine, const struct question *question, int fd) {
	const struct connection tuple = { .client = question->client,
		.client_port = question->client_port, .server = question->server,
		.server_port = question->server_port };
	struct ucred peer;
	socklen_t length = sizeof(peer);
	struct connection found;

	if (tuple.server_port == 0 || address_is_unknown(&tuple.server) ||
	    relief_lookup(engine->relief, &tuple, &found) != LOOKUP_ALIVE)
		return false;
	return found.uid == 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 ||
	    found.uid == peer.uid;
}

void engine_owner_proof(struct engine *engine, const struct generation *generation,
    struct question *question, int fd) {
	question->shown = false;
	question->owner_socket = 0;
	if (engine->relief == NULL || fd < 0 ||
	    (question->listener < generation->listener_count &&
		generation->listeners[question->listener].proof == PROOF_LEASE))
		return;
	question->shown = is_shown(engine, question, fd);
	if (!question->shown)
		question->owner_socket = engine_peer_socket(engine, fd);
}

/* Is there a session of this tuple that a policy connection of a lost role held? */
static bool find_orphan(struct engine *engine, const struct question *question,
    int64_t now_ns, struct session *session, struct session_ref *ref) {
	const struct session_key key = { question->client, question->client_port,
		SESSION_INBOUND };
	struct session_lock lock;
	uint32_t slot;

	sessions_aim(engine->segment, &key, now_ns, &lock);
	if (!sessions_lock(&lock))
		return false;
	slot = sessions_find(&lock, &question->server, question->server_port);
	if (slot != SEGMENT_NO_SLOT) {
		session_load(engine->segment, slot, session);
		*ref = ref_of(session, slot);
	}
	sessions_unlock(&lock);
	return slot != SEGMENT_NO_SLOT && session_has_sockets(session) &&
	    session->policy_socket != 0 &&
	    !incarnation_lives(engine->segment, session->policy_owner);
}

void engine_session_kept(struct engine *engine, const struct question *question,
    int64_t now_ns, struct session_ref *ref) {
	struct session_ref orphan;
	struct session_lock lock;
	struct session session;
	uint32_t socket, peer;

	memset(ref, 0, sizeof(*ref));
	if (question->client_port == 0 || question->owner_socket == 0 ||
	    engine->relief == NULL ||
	    !find_orphan(engine, question, now_ns, &session, &orphan))
		return;
	socket = session.policy_socket;
	if (relief_socket(engine->relief, socket, &peer) != LOOKUP_GONE ||
	    session_lock_ref(engine, &orphan, now_ns, &lock, &session) != REF_HELD)
		return;
	if (session_has_sockets(&session) && session.policy_socket == socket) {
		session.policy_owner = engine->incarnation;
		session.policy_socket = question->owner_socket;
		session.control.flags &= (uint8_t)~SESSION_FLAG_LEFT;
		session.dump_sequence = atomic_load(&engine->segment->header->dump_sequence);
		sessions_change_begin(&lock);
		session_store(engine->segment, orphan.slot - 1, &session);
		sessions_change_end(&lock);
		*ref = orphan;
	}
	sessions_unlock(&lock);
}
