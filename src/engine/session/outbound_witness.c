/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Outbound connections that nobody asks about: counted as the kernel's
 *          table shows them.
 * MODEL    One session for each live connection to a remote port that is neither
 *          of an MTA that asks (told by the socket's owner) nor the other end of
 *          an inbound one.  It is matched by address and by the name under which
 *          that was reached last, at each dump anew: it moves when a name becomes
 *          known and when the configuration changes.  None is ever refused.
 * ERRORS   What a lock stands in the way of is done at the next dump; a full table
 *          leaves a connection out.
 * THREADS  The keeper's one.
 * BUGS     A connection is counted up to one turn of dumps after it was made: so
 *          many more may be open for as long.
 */
#include "engine/outbound/outbound.h"
#include "engine/session/witness_internal.h"

static bool is_asked_about(const struct generation *generation, uint32_t uid) {
	for (uint32_t i = 0; i < generation->mta_count; i++) {
		const struct generation_mta *mta = &generation->mtas[i];

		if (mta->kind == MTA_SENDMAIL && mta->uid_known &&
		    mta->uid == uid)
			return true;
	}
	return false;
}

/* The mta whose mail leaves for that port, or UINT8_MAX. */
static uint8_t mta_of(const struct generation *generation, uint16_t port) {
	for (uint32_t i = 0; i < generation->mta_count; i++) {
		const struct generation_mta *mta = &generation->mtas[i];

		for (uint32_t p = 0; mta->kind != MTA_SENDMAIL &&
		     p < mta->port_count; p++) {
			if (mta->ports[p] == port)
				return (uint8_t)i;
		}
	}
	return UINT8_MAX;
}

/* To a service of this host, by the addresses alone: the server's end may not be in
 * the table yet, or not any more. */
static bool stays_here(const struct witness *witness,
    const struct connection *connection) {
	bool loopback = address_is_v4(&connection->client) &&
	    connection->client.bytes[12] == 127;

	return port_is_in(witness->asked, connection->server_port) &&
	    (loopback || address_equal(&connection->client, &connection->server));
}

/* Is it counted here, or is it another's: asked about, or one of our own clients,
 * which is inbound? */
static bool is_witnessed(const struct dump *dump,
    const struct connection *connection) {
	return !is_asked_about(dump->generation, connection->uid) &&
	    !stays_here(dump->witness, connection) &&
	    !dump_shows(&dump->inbound, connection);
}

static const struct generation_class *class_of(const struct dump *dump,
    const struct address *server) {
	struct outbound_class found;

	outbound_class_of(dump->witness->engine, dump->generation, server, NULL,
	    0, &found);
	return found.rule == CLASS_NO_RULE ? NULL :
	    generation_class(dump->generation, found.class_index);
}

/* Counts a slot that is in no class.  Under the shard's mutex; false: the class's
 * was not to be had. */
static bool count(struct session_lock *lock, uint32_t slot,
    const struct generation_class *class, struct session *session) {
	uint16_t record = (uint16_t)class->record;

	if (!class_lock_for(lock->segment, class, lock->now_ns))
		return false;
	session->control.class_record = record;
	session->control.state = SESSION_OPEN;
	slot_commit(lock, slot, session, NULL, 0);
	class_count(&lock->segment->records[record].admitted);
	class_unlock(lock->segment, record);
	return true;
}

static uint16_t record_of(const struct generation_class *class) {
	return class == NULL ? SEGMENT_NO_CLASS : (uint16_t)class->record;
}

/* Another class, another mta, or seen again. */
static void put_right(struct dump *dump, uint32_t slot,
    const struct session *seen, const struct generation_class *class,
    uint8_t mta) {
	struct session_ref ref = ref_of(seen, slot);
	struct session_lock lock;
	struct session session;

	if (session_lock_ref(dump->witness->engine, &ref, dump->now_ns, &lock,
		&session) != REF_HELD)
		return;
	session.control.proof = SESSION_PROOF_WITNESS;
	session.control.listener = mta;
	sessions_change_begin(&lock);
	session_store(lock.segment, slot, &session);
	sessions_change_end(&lock);
	if (session.control.class_record != record_of(class) &&
	    (session.control.state != SESSION_OPEN ||
		slot_uncount(&lock, slot, &session)) && class != NULL)
		(void)count(&lock, slot, class, &session);
	sessions_unlock(&lock);
}

void outbound_look_at(struct dump *dump, uint32_t slot,
    const struct session *session) {
	const struct generation_class *class;
	const struct connection *alive;
	struct connection tuple;
	uint8_t mta;

	if (!proof_applies(dump->generation, session))
		return;
	proof_tuple(session, &tuple);
	alive = dump_search(&dump->outbound, &tuple, false);
	if (alive == NULL) {
		if ((int32_t)(session->dump_sequence - dump->sequence) < 0)
			outbound_missing(dump->witness, slot, session,
			    dump->now_ns);
		return;
	}
	if (!is_witnessed(dump, alive)) {
		session_close_unchanged(dump->witness->engine, slot, session,
		    dump->now_ns);
		return;
	}
	class = class_of(dump, &session->server);
	mta = mta_of(dump->generation, session->server_port);
	if (session->control.class_record != record_of(class) ||
	    session->control.listener != mta ||
	    session->control.proof != SESSION_PROOF_WITNESS)
		put_right(dump, slot, session, class, mta);
}

void outbound_missing(struct witness *witness, uint32_t slot,
    const struct session *session, int64_t now_ns) {
	const struct witness_calls *calls = &witness->calls;
	struct connection tuple;

	proof_tuple(session, &tuple);
	engine_count(witness->engine, COUNTER_WITNESS_LOOKUPS, 1);
	if (calls->lookup(calls->context, &tuple, NULL) == LOOKUP_GONE)
		session_close_unchanged(witness->engine, slot, session, now_ns);
}

/* A slot for the connection, in no class yet.  Under the shard's mutex. */
static uint32_t make(struct dump *dump, struct session_lock *lock,
    const struct connection *connection, struct session *session) {
	const struct segment *segment = lock->segment;
	uint32_t slot = sessions_take(lock);
	struct session before;

	if (slot == SEGMENT_NO_SLOT)
		return slot;
	session_load(segment, slot, &before);
	*session = (struct session){
		.control = { .class_record = SEGMENT_NO_CLASS,
		    .state = SESSION_UNCOUNTED, .direction = SESSION_OUTBOUND,
		    .proof = SESSION_PROOF_WITNESS,
		    .listener = mta_of(dump->generation,
			connection->server_port),
		    .client_bits = 255 },
		.client = connection->client, .server = connection->server,
		.client_port = connection->client_port,
		.server_port = connection->server_port,
		.serial = session_serial_next(before.serial),
		.opened_ds = segment_ds(segment, dump->now_ns),
		.until_ds = segment_ds(segment, dump->now_ns +
			dump->generation->lease_orphan_ns),
		.dump_sequence = dump->sequence,
	};
	sessions_link(lock, slot);
	sessions_change_begin(lock);
	session_store(lock->segment, slot, session);
	sessions_change_end(lock);
	return slot;
}

static void look_at_new(struct dump *dump, const struct connection *connection) {
	const struct generation_class *class =
	    class_of(dump, &connection->server);
	struct engine *engine = dump->witness->engine;
	struct session_key key = { connection->client, connection->client_port,
		SESSION_OUTBOUND };
	struct session_lock lock;
	struct session session;
	uint32_t slot;

	sessions_aim(dump->witness->segment, &key, dump->now_ns, &lock);
	if (!sessions_lock(&lock))
		return;
	if (sessions_find(&lock, &connection->server, connection->server_port) ==
		SEGMENT_NO_SLOT &&
	    (class != NULL || !sessions_are_scarce(&lock))) {
		slot = make(dump, &lock, connection, &session);
		if (slot != SEGMENT_NO_SLOT && class == NULL)
			engine_count(engine, COUNTER_UNCOUNTED, 1);
		else if (slot != SEGMENT_NO_SLOT &&
		    count(&lock, slot, class, &session))
			engine_count(engine, COUNTER_ADMITTED, 1);
	}
	sessions_unlock(&lock);
}

void outbound_look_at_new(struct dump *dump) {
	const struct dump_list *outbound = &dump->outbound;

	for (size_t i = 0; i < outbound->count; i++) {
		const struct connection *connection = &outbound->list[i];

		if (connection->alive && !outbound->announced[i] &&
		    is_witnessed(dump, connection))
			look_at_new(dump, connection);
	}
}
