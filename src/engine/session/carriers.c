/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Which connections are a proxy's.
 * MODEL    Learned from one that was there for some seconds without a session, while every
 *          role that could have announced it was at work since before it came, where
 *          there are sessions that the kernel does not show.
 * ERRORS   A server that looks up a client's name for longer than that before it asks
 *          teaches the same; it is forgotten when the session comes.
 * THREADS  The keeper's one.
 */
#include "engine/session/witness_internal.h"

#include "base/clock.h"
#include "segment/file/stir.h"

#define UNANNOUNCED_FOR_NS	(2 * NS_PER_SECOND)
#define AFTER_GAP_NS		NS_PER_SECOND
#define HIDDEN_AGE_DS		20	/* some dumps would have shown it */
#define HIDDEN_FOR_NS		(60 * NS_PER_SECOND)

static struct carrier_record *find(const struct witness *witness,
    const struct address *address, uint16_t port) {
	struct carrier_record *records = witness->segment->header->carriers;

	for (unsigned i = 0; i < SEGMENT_CARRIERS; i++) {
		if (atomic_load(&records[i].seen_ns) != 0 && records[i].port == port &&
		    address_equal(&records[i].address, address))
			return &records[i];
	}
	return NULL;
}

bool carriers_have(const struct witness *witness, const struct address *address,
    uint16_t port) {
	return find(witness, address, port) != NULL;
}

void carriers_forget(struct witness *witness, const struct address *address,
    uint16_t port) {
	struct carrier_record *record = find(witness, address, port);

	if (record == NULL)
		return;
	atomic_store(&record->seen_ns, 0);
	segment_stir(witness->segment->header);
}

/* Was every role that asks about sessions at work since before then, and no lock in its way? */
static bool all_were_at_work(const struct witness *witness, int64_t since_ns) {
	const struct segment_header *header = witness->segment->header;
	const struct role_record *roles = header->roles;

	for (unsigned i = 0; i < SEGMENT_ROLES_MAX; i++) {
		uint32_t kind = atomic_load_explicit(&roles[i].kind, memory_order_relaxed);
		int64_t end_ns = segment_time_ns(&roles[i].gap_end_ns);

		if ((kind == ROLE_POLICY || kind == ROLE_MILTER) &&
		    since_ns <= end_ns + AFTER_GAP_NS)
			return false;
	}
	for (unsigned i = 0; i < SEGMENT_LISTENERS; i++) {
		int64_t fault_ns = segment_time_ns(&header->listeners[i].fault_until_ns);

		if (fault_ns != 0 && since_ns <= fault_ns + AFTER_GAP_NS)
			return false;
	}
	return true;
}

/* Are there clients that the kernel does not show?  Without any there is no proxy, and who stays
 * unannounced waits: in a backlog, for postscreen, for the name of the client. */
static bool somebody_is_hidden(const struct witness *witness, const struct generation *generation,
    int64_t now_ns) {
	for (uint32_t i = 0; i < generation->listener_count; i++)
		if (generation->listeners[i].proof == PROOF_OWNER ||
		    generation->listeners[i].proof == PROOF_LEASE)
			return true;
	return witness->hidden_ns != 0 && now_ns - witness->hidden_ns < HIDDEN_FOR_NS;
}

void carriers_look(struct witness *witness, const struct session *session, int64_t now_ns) {
	uint32_t now_ds = segment_ds(witness->segment, now_ns);

	if (session->control.proof != SESSION_PROOF_WITNESS &&
	    (session->control.flags & (SESSION_FLAG_ADOPTED | SESSION_FLAG_CARRIED)) == 0 &&
	    session->control.state == SESSION_OPEN &&
	    now_ds > session->opened_ds + HIDDEN_AGE_DS)
		witness->hidden_ns = now_ns;
}

static struct carrier_record *make_room(const struct witness *witness) {
	struct carrier_record *records = witness->segment->header->carriers;
	struct carrier_record *oldest = &records[0];

	for (unsigned i = 1; i < SEGMENT_CARRIERS; i++) {
		if (atomic_load(&records[i].seen_ns) < atomic_load(&oldest->seen_ns))
			oldest = &records[i];
	}
	return oldest;
}

void carriers_note(struct witness *witness, const struct generation *generation,
    const struct connection *connection, int64_t first_seen_ns, int64_t now_ns) {
	struct carrier_record *record = find(witness, &connection->client,
	    connection->server_port);

	if (record == NULL) {
		if (first_seen_ns > now_ns ||
		    now_ns - first_seen_ns < UNANNOUNCED_FOR_NS ||
		    !all_were_at_work(witness, first_seen_ns) ||
		    !somebody_is_hidden(witness, generation, now_ns))
			return;
		record = make_room(witness);
		atomic_store(&record->seen_ns, 0);
		record->address = connection->client;
		record->port = connection->server_port;
		segment_stir(witness->segment->header);	/* it is to be saved */
	}
	atomic_store(&record->seen_ns, now_ns);
}
