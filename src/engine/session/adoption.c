/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Which unannounced connections are counted as sessions.
 * MODEL    Those that two dumps half a second apart show alive and that a dump
 *          first showed while a role that serves their port was away, or within
 *          a second after.  Which roles serve a port is known from the sessions
 *          that were seen on it; where none were, any may.
 * THREADS  The keeper's one.
 */
#include "engine/session/witness_internal.h"

#include "base/clock.h"

#define SHOWN_FOR_NS	(NS_PER_SECOND / 2)
#define AFTER_GAP_NS	NS_PER_SECOND

/* Who would have announced a connection of some port. */
struct service {
	bool policy;		/* the role that answers socket maps, too */
	bool milter;
	bool fault;		/* a lock timed out when it was first seen */
	bool usable;		/* some listener's sessions can be witnessed */
	uint8_t listener;	/* such a one */
};

static void service_add(struct service *service,
    const struct generation *generation, uint8_t listener) {
	const struct generation_listener *socket =
	    &generation->listeners[listener];

	if (socket->kind == LISTENER_POLICY || socket->kind == LISTENER_SOCKETMAP)
		service->policy = true;
	else if (socket->kind == LISTENER_MILTER)
		service->milter = true;
	else
		return;
	if (socket->proof == PROOF_AUTO || socket->proof == PROOF_WITNESS) {
		service->usable = true;
		service->listener = listener;
	}
}

/* Its sessions come by a proxy: connections on its port are the proxy's. */
static bool record_is_blind(const struct listener_record *record) {
	return atomic_load(&record->seen) == 0 &&
	    (atomic_load(&record->unseen) != 0 ||
		atomic_load(&record->absent) != 0);
}

static bool service_of_port(const struct witness *witness,
    const struct generation *generation, uint16_t port, int64_t first_seen_ns,
    struct service *service) {
	bool known = false;

	*service = (struct service){ 0 };
	for (unsigned i = 0; i < SEGMENT_LISTENERS; i++) {
		const struct listener_record *record =
		    &witness->segment->header->listeners[i];
		uint32_t key = atomic_load_explicit(&record->key,
		    memory_order_relaxed);
		uint8_t listener = (uint8_t)(key >> 16);
		int64_t fault_ns = segment_time_ns(&record->fault_until_ns);

		if (key == 0 || listener >= generation->listener_count)
			continue;
		/* a question that could not be answered may not tell its port */
		if (((uint16_t)key == port || (uint16_t)key == 0) &&
		    first_seen_ns >= atomic_load(&record->fault_begin_ns) &&
		    first_seen_ns <= fault_ns + AFTER_GAP_NS)
			service->fault = true;
		if ((uint16_t)key != port)
			continue;
		known = true;
		if (record_is_blind(record))
			continue;
		service_add(service, generation, listener);
	}
	/* a socket map may be there for mail that leaves alone */
	for (uint32_t i = 0; !known && i < generation->listener_count; i++)
		if (generation->listeners[i].kind != LISTENER_SOCKETMAP)
			service_add(service, generation, (uint8_t)i);
	return service->usable;
}

static bool was_away(const struct role_record *role, int64_t when_ns) {
	int64_t begin_ns = atomic_load(&role->gap_begin_ns);
	int64_t end_ns = segment_time_ns(&role->gap_end_ns);

	return end_ns != 0 && when_ns >= begin_ns && when_ns <= end_ns + AFTER_GAP_NS;
}

static bool in_gap(const struct witness *witness, const struct service *service,
    int64_t when_ns) {
	const struct role_record *roles = witness->segment->header->roles;

	for (unsigned i = 0; i < SEGMENT_ROLES_MAX; i++) {
		uint32_t kind = atomic_load_explicit(&roles[i].kind,
		    memory_order_relaxed);

		if (((kind == ROLE_POLICY && service->policy) ||
			(kind == ROLE_MILTER && service->milter)) &&
		    was_away(&roles[i], when_ns))
			return true;
	}
	return false;
}

/* The keeper's predecessor forgot with its end what it had seen within this of it. */
#define FORGOTTEN_NS	(2 * NS_PER_SECOND)

/* When the dump before this one was, or where this keeper has made none, the last one of the
 * keeper before; 0: there was none. */
static int64_t dump_before_ns(const struct witness *witness) {
	const struct role_record *keeper = &witness->segment->header->roles[
	    segment_role_place(ROLE_KEEPER, 0)];

	return witness->dumped_ns != 0 || keeper->gap_begin_ns == 0 ? witness->dumped_ns :
	    segment_time_ns(&keeper->gap_begin_ns) - FORGOTTEN_NS;
}

/* The end of an outage, where it lies between the two; else `first_ns`. */
static int64_t earlier_end_ns(const _Atomic int64_t *end, int64_t before_ns, int64_t first_ns) {
	int64_t end_ns = segment_time_ns(end);

	return end_ns > before_ns && end_ns < first_ns ? end_ns : first_ns;
}

int64_t adoption_first_seen_ns(const struct witness *witness, int64_t now_ns) {
	const struct segment_header *header = witness->segment->header;
	int64_t before_ns = dump_before_ns(witness), first_ns = now_ns;

	if (before_ns == 0)
		return now_ns;
	for (unsigned i = 0; i < SEGMENT_ROLES_MAX; i++) {
		uint32_t kind = atomic_load_explicit(&header->roles[i].kind, memory_order_relaxed);

		if (kind == ROLE_POLICY || kind == ROLE_MILTER)
			first_ns = earlier_end_ns(&header->roles[i].gap_end_ns, before_ns, first_ns);
	}
	for (unsigned i = 0; i < SEGMENT_LISTENERS; i++)
		if (atomic_load_explicit(&header->listeners[i].key, memory_order_relaxed) != 0)
			first_ns = earlier_end_ns(&header->listeners[i].fault_until_ns, before_ns,
			    first_ns);
	return first_ns;
}

void adoption_consider(struct witness *witness,
    const struct generation *generation, const struct connection *connection,
    int64_t first_seen_ns, int64_t now_ns) {
	const struct witness_calls *calls = &witness->calls;
	struct service service;

	if (generation->count_unannounced == UNANNOUNCED_NEVER || first_seen_ns > now_ns ||
	    now_ns - first_seen_ns < SHOWN_FOR_NS)
		return;
	if (carriers_have(witness, &connection->client, connection->server_port) ||
	    !service_of_port(witness, generation, connection->server_port,
		first_seen_ns, &service))
		return;
	if (generation->count_unannounced == UNANNOUNCED_OUTAGE && !service.fault &&
	    !in_gap(witness, &service, first_seen_ns))
		return;
	engine_count(witness->engine, COUNTER_WITNESS_LOOKUPS, 1);
	if (calls->lookup(calls->context, connection, NULL) != LOOKUP_ALIVE)
		return;
	(void)engine_session_adopt(witness->engine, generation, connection,
	    service.listener, now_ns);
}
