/* SPDX-License-Identifier: ISC */
/* The world compared with the engine's table. */
#include "tests/unit/engine/engine_world_state.h"

static bool is_slot_of(const struct session *session, const struct conn *conn) {
	struct address server = server_of(conn->server);

	if (session->control.direction !=
		(conn->outbound ? SESSION_OUTBOUND : SESSION_INBOUND) ||
	    (session->control.flags & SESSION_FLAG_PROCESS) != 0)
		return false;
	if (conn->outbound)
		return session->client_port == conn->port &&
		    address_equal(&session->server, &server);
	return (session->client_port == conn->key_port &&
		   address_equal(&session->client, &conn->key));
}

struct tally {
	unsigned slots[CONNS];		/* counted, of each connection */
	unsigned of_process[PROCESSES];
	bool good;
};

static void disagree(struct tally *tally, const char *what,
    const struct session *session, const char *class) {
	char client[ADDRESS_TEXT_MAX];

	address_format(&session->client, client);
	fprintf(stderr, "TEST_SEED=%llu: %s: class %s direction %u client %s:%u "
	    "proof %u flags %x\n", (unsigned long long)seed, what, class,
	    session->control.direction, client, session->client_port,
	    session->control.proof, session->control.flags);
	tally->good = false;
}

static void tally_process(struct tally *tally, const struct session *session,
    const char *class) {
	for (unsigned i = 0; i < PROCESSES; i++) {
		int32_t pid;

		memcpy(&pid, session->proof_address.bytes, sizeof(pid));
		if (!processes[i].live || processes[i].identity.pid != pid)
			continue;
		if (!holds(&processes[i], class))
			disagree(tally, "a class that the process left",
			    session, class);
		tally->of_process[i]++;
		return;
	}
	disagree(tally, "slot of a dead process", session, class);
}

static void tally_conn(struct tally *tally, const struct session *session,
    const char *class) {
	for (unsigned i = 0; i < CONNS; i++) {
		const struct conn *conn = &conns[i];

		if (!conn->live || !is_slot_of(session, conn))
			continue;
		tally->slots[i]++;
		if (!conn->outbound && conn->standing == COUNTED &&
		    !conn->any_class && strcmp(conn->class, class) != 0)
			disagree(tally, "another class", session, class);
		return;
	}
	if (session->control.listener != site.lease_listener ||
	    session->control.direction == SESSION_OUTBOUND)
		disagree(tally, "nobody's slot", session, class);
}

static void tally_slots(struct tally *tally) {
	struct segment *segment = site.segment;
	uint32_t first, count;

	for (uint32_t shard = 0; shard < segment->header->shard_count; shard++) {
		sessions_range(segment, shard, &first, &count);
		for (uint32_t i = 0; i < count; i++) {
			struct session session;
			const char *class;

			session_load(segment, first + i, &session);
			if (session.control.state != SESSION_OPEN)
				continue;
			class = segment->records[session.control.class_record].name;
			if ((session.control.flags & SESSION_FLAG_PROCESS) != 0)
				tally_process(tally, &session, class);
			else
				tally_conn(tally, &session, class);
		}
	}
}

/* Of an outbound connection: counted where its address and name belong. */
static const char *outbound_class_name(const struct conn *conn) {
	const char *name = relay_names[conn->server];
	struct address server = server_of(conn->server);
	uint32_t rule = generation_match_outbound(policy.generation, &server,
	    name, strlen(name));

	return rule == CLASS_NO_RULE || conn->uid == 0 ? NULL :
	    generation_text(policy.generation, generation_class(
		policy.generation, generation_rule(policy.generation,
		    rule)->class_index)->name);
}

static uint32_t outbound_expected(const char *class) {
	uint32_t count = 0;

	for (unsigned i = 0; i < CONNS; i++) {
		const char *in = conns[i].live && conns[i].outbound ?
		    outbound_class_name(&conns[i]) : NULL;

		count += in != NULL && strcmp(in, class) == 0;
	}
	for (unsigned i = 0; i < PROCESSES; i++)
		count += processes[i].live && holds(&processes[i], class);
	return count;
}

static bool has_failed(const struct conn *conn, unsigned slots) {
	if (!conn->live || conn->invisible)
		return false;
	if (conn->outbound)
		return slots != (outbound_class_name(conn) != NULL);
	if (conn->standing == UNASKED)
		return slots > 1;
	return slots != (conn->standing == COUNTED);
}

bool world_agrees(void) {
	struct tally tally = { .good = site_is_consistent(&site) };

	policy.generation = pin(policy.engine, policy.generation);
	tally_slots(&tally);
	for (unsigned i = 0; i < CONNS; i++) {
		if (!has_failed(&conns[i], tally.slots[i]))
			continue;
		fprintf(stderr, "TEST_SEED=%llu: connection %u: outbound %d standing "
		    "%d port %u uid %u: %u slots\n", (unsigned long long)seed, i,
		    conns[i].outbound, conns[i].standing, conns[i].port,
		    conns[i].uid, tally.slots[i]);
		tally.good = false;
	}
	for (uint32_t r = 0; r < site.segment->header->record_count; r++) {
		const struct class_record *record = &site.segment->records[r];
		uint32_t outbound = atomic_load(&record->open) -
		    atomic_load(&record->open_inbound);

		if (atomic_load(&record->in_use) == 0 ||
		    outbound == outbound_expected(record->name))
			continue;
		fprintf(stderr, "TEST_SEED=%llu: class %s counts %u outbound, not %u\n",
		    (unsigned long long)seed, record->name, outbound,
		    outbound_expected(record->name));
		tally.good = false;
	}
	return tally.good;
}

bool world_is_empty(void) {
	bool empty = world_agrees();

	for (uint32_t r = 0; r < site.segment->header->record_count; r++) {
		if (atomic_load(&site.segment->records[r].open) != 0) {
			fprintf(stderr, "TEST_SEED=%llu: class %s is not empty\n",
			    (unsigned long long)seed,
			    site.segment->records[r].name);
			empty = false;
		}
	}
	return empty;
}
