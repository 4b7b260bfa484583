/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What the witness changes in the table: sessions seen, sessions adopted.
 * THREADS  The keeper's one.
 */
#include "engine/internal.h"
#include "engine/session/witness.h"

void engine_session_seen(struct engine *engine, const struct session_ref *ref,
    const struct connection *connection, int64_t now_ns) {
	struct session_lock lock;
	struct session session;

	if (session_lock_ref(engine, ref, now_ns, &lock, &session) != REF_HELD)
		return;
	session.control.proof = SESSION_PROOF_WITNESS;
	if ((session.control.flags & SESSION_FLAG_CARRIED) == 0) {
		session.server = connection->server;
		session.server_port = connection->server_port;
	}
	sessions_change_begin(&lock);
	session_store(engine->segment, ref->slot - 1, &session);
	sessions_change_end(&lock);
	sessions_unlock(&lock);
}

static void count_adopted(struct session_lock *lock, uint32_t slot,
    struct session *session, const struct generation_class *class) {
	struct segment *segment = lock->segment;
	uint16_t record = (uint16_t)class->record;
	unsigned bits = client_bits(class, &session->client);
	struct client_lock client;
	bool has_client = false, counts_client;

	if (class->has_client_limit) {
		client_aim(segment, record, &session->client, bits, lock->now_ns, &client);
		has_client = client_lock(&client);
	}
	counts_client = has_client && client_reserve(&client);
	session->control.state = SESSION_OPEN;
	session->control.class_record = record;
	if (counts_client)
		session->control.client_bits = (uint8_t)bits;
	slot_commit(lock, slot, session, counts_client ? &client : NULL, 0);
	if (has_client)
		client_unlock(&client);
	class_count(&segment->records[record].adopted);
	segment_count(segment, COUNTER_ADOPTED, 1);
}

/* Counts a session that nobody was asked about: fills class and client, stores
 * and links the slot (of sessions_take), above the limit if need be.  class NULL:
 * uncounted.  Under the shard's mutex; false: the class's was not to be had, the
 * slot is still the caller's. */
static bool slot_adopt(struct session_lock *lock, uint32_t slot,
    const struct generation_class *class, struct session *session) {
	if (class == NULL) {
		sessions_link(lock, slot);
		sessions_change_begin(lock);
		session_store(lock->segment, slot, session);
		sessions_change_end(lock);
		return true;
	}
	if (!class_lock_for(lock->segment, class, lock->now_ns))
		return false;
	sessions_link(lock, slot);
	count_adopted(lock, slot, session, class);
	class_unlock(lock->segment, (uint16_t)class->record);
	return true;
}

/* By address alone: never by guess. */
static const struct generation_class *class_of(
    const struct generation *generation, const struct connection *connection) {
	uint32_t rule = generation_match_inbound(generation,
	    connection->server_port, &connection->client, NULL, 0);

	if (rule == CLASS_NO_RULE ||
	    generation_is_exempt(generation, &connection->client, NULL, 0))
		return NULL;
	return generation_class(generation,
	    generation_rule(generation, rule)->class_index);
}

bool engine_session_adopt(struct engine *engine,
    const struct generation *generation, const struct connection *connection,
    uint8_t listener, int64_t now_ns) {
	struct session_key key = { connection->client, connection->client_port,
		SESSION_INBOUND };
	struct segment *segment = engine->segment;
	struct session session, before;
	struct session_lock lock;
	bool done = false;
	uint32_t slot;

	sessions_aim(segment, &key, now_ns, &lock);
	if (!sessions_lock(&lock))
		return false;
	if (sessions_find(&lock, &connection->server, connection->server_port) ==
		SEGMENT_NO_SLOT &&
	    (slot = sessions_take(&lock)) != SEGMENT_NO_SLOT) {
		session_load(segment, slot, &before);
		session = (struct session){
			.control = { .class_record = SEGMENT_NO_CLASS,
			    .state = SESSION_UNCOUNTED,
			    .direction = SESSION_INBOUND,
			    .proof = SESSION_PROOF_WITNESS,
			    .flags = SESSION_FLAG_ADOPTED,
			    .listener = listener, .client_bits = 255 },
			.client = connection->client,
			.server = connection->server,
			.client_port = connection->client_port,
			.server_port = connection->server_port,
			.serial = session_serial_next(before.serial),
			.opened_ds = segment_ds(segment, now_ns),
			.until_ds = segment_ds(segment,
			    now_ns + generation->lease_orphan_ns),
			.dump_sequence = atomic_load(
			    &segment->header->dump_sequence),
		};
		done = slot_adopt(&lock, slot, class_of(generation, connection),
		    &session);
		if (!done)
			sessions_put_back(&lock, slot);
	}
	sessions_unlock(&lock);
	return done;
}
