/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The witness: joins the kernel's table of connections with the session
 *          table.
 * MODEL    A dump is sorted by direction and client half; every session searches
 *          it; what is left alive without a session is unannounced.  Destroy events
 *          are looked at one by one.  What follows for one session is in proof.c,
 *          for an unannounced connection in adoption.c, for outbound ones in
 *          outbound_witness.c, by time alone in leases.c.
 * ERRORS   None here: whatever cannot be done now is left to the next dump.
 * THREADS  The keeper's one.
 */
#include "engine/session/witness_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define GAP_IS_NEWS_NS		NS_PER_SECOND
#define BLIND_AFTER_NS		(10 * NS_PER_SECOND)
#define SEARCHES_PER_DUMP	16

static const enum counter told_counters[3] = { COUNTER_ADOPTED,
	COUNTER_EXPIRED, COUNTER_REPAIRS };

static uint64_t counter_now(const struct witness *witness, enum counter counter) {
	return atomic_load_explicit(&witness->segment->header->counters[counter],
	    memory_order_relaxed);
}

int witness_open(struct witness **result, struct engine *engine,
    const struct witness_calls *calls, size_t capacity, struct diag *diag) {
	struct witness *witness = calloc(1, sizeof(*witness));

	*result = NULL;
	if (witness == NULL)
		return diag_set(diag, 0, "no memory for the witness");
	witness->engine = engine;
	witness->segment = engine->segment;
	witness->calls = *calls;
	witness->carried = calloc(WITNESS_CARRIED_MAX,
	    sizeof(*witness->carried));
	witness->unannounced = unannounced_open(capacity,
	    &witness->segment->header->key);
	if (witness->carried == NULL || witness->unannounced == NULL) {
		witness_close(&witness);
		return diag_set(diag, 0, "no memory for the witness");
	}
	for (unsigned i = 0; i < 3; i++)
		witness->told[i] = counter_now(witness, told_counters[i]);
	*result = witness;
	return 0;
}

void witness_close(struct witness **witness) {
	if (*witness == NULL)
		return;
	unannounced_close(&(*witness)->unannounced);
	free((*witness)->carried);
	free((*witness)->announced);
	free(*witness);
	*witness = NULL;
}

/* 0 is our own namespace alone. */
static uint64_t scope_of(const struct segment *segment,
    const struct generation *generation, unsigned namespaces) {
	uint64_t scope = namespaces;

	for (uint32_t i = 0; namespaces > 0 && i < generation->netns_count; i++) {
		const char *name = generation_text(generation,
		    generation->netns[i]);

		scope += (i + 1) * siphash13(&segment->header->key, name,
		    strlen(name));
	}
	return namespaces > 0 && scope == 0 ? 1 : scope;
}

void witness_scope(struct witness *witness, const struct generation *generation,
    unsigned namespaces) {
	struct segment_header *header = witness->segment->header;
	uint64_t scope = scope_of(witness->segment, generation, namespaces);

	if (atomic_load(&header->witness_scope) == scope)
		return;
	for (unsigned i = 0; i < SEGMENT_LISTENERS; i++) {
		atomic_store(&header->listeners[i].seen, 0);
		atomic_store(&header->listeners[i].unseen, 0);
		atomic_store(&header->listeners[i].absent, 0);
	}
	atomic_store(&header->witness_scope, scope);
}

/* --- reading the table ------------------------------------------------- */

void witness_each_session(struct witness *witness,
    void (*each)(void *context, uint32_t slot, const struct session *session),
    void *context) {
	struct segment *segment = witness->segment;

	/* else none of a shard whose writer died could be read until somebody asks there */
	sessions_mend(segment, clock_now_ns());
	for (uint32_t shard = 0; shard < segment->header->shard_count; shard++) {
		uint32_t first, count;
		struct session session;

		sessions_range(segment, shard, &first, &count);
		for (uint32_t slot = first; slot < first + count; slot++) {
			if (session_load_control(segment, slot).state !=
				SESSION_FREE &&
			    session_read(segment, shard, slot, &session))
				each(context, slot, &session);
		}
	}
}

bool witness_has_sessions(const struct witness *witness) {
	const struct segment *segment = witness->segment;

	for (uint32_t i = 0; i < segment->header->shard_count; i++) {
		if (atomic_load_explicit(&segment->session_shards[i].used,
			memory_order_relaxed) != 0)
			return true;
	}
	return false;
}

uint32_t witness_version(const struct witness *witness) {
	const struct segment *segment = witness->segment;
	uint32_t version = 0;

	for (uint32_t i = 0; i < segment->header->shard_count; i++)
		version += atomic_load_explicit(&segment->session_shards[i].seq,
		    memory_order_relaxed);
	return version;
}

/* --- ports ------------------------------------------------------------- */

static void put_port(struct witness *witness, uint16_t port, uint16_t *ports,
    size_t size, size_t *count) {
	if (port == 0 || port_is_in(witness->asked, port))
		return;
	if (*count >= size) {
		witness->ports_full = true;
		return;
	}
	port_put(witness->asked, port);
	ports[(*count)++] = port;
}

size_t witness_ports(struct witness *witness, const struct generation *generation,
    uint16_t *ports, size_t size) {
	size_t count = 0;

	witness->ports_full = false;
	memset(witness->asked, 0, sizeof(witness->asked));
	for (uint32_t i = 0; i < generation->witness_port_count; i++)
		put_port(witness, generation->witness_ports[i], ports, size,
		    &count);
	for (uint32_t i = 0; i < generation->port_count; i++)
		put_port(witness, generation->ports[i], ports, size, &count);
	for (unsigned i = 0; i < SEGMENT_LISTENERS; i++) {
		uint32_t key = atomic_load_explicit(
		    &witness->segment->header->listeners[i].key,
		    memory_order_relaxed);

		put_port(witness, (uint16_t)key, ports, size, &count);
	}
	for (uint32_t port = 1; port <= UINT16_MAX; port++) {
		if (witness->found[port / 8] == 0) {
			port |= 7;
			continue;
		}
		if (port_is_in(witness->found, (uint16_t)port))
			put_port(witness, (uint16_t)port, ports, size, &count);
	}
	return count;
}

/* --- dumps ------------------------------------------------------------- */

static void notice_gaps(struct witness *witness, int64_t now_ns) {
	const struct role_record *roles = witness->segment->header->roles;

	for (unsigned i = 0; i < SEGMENT_ROLES_MAX; i++) {
		uint32_t kind = atomic_load_explicit(&roles[i].kind,
		    memory_order_relaxed);
		int64_t end_ns;

		if (kind != ROLE_POLICY && kind != ROLE_MILTER)
			continue;
		end_ns = segment_time_ns(&roles[i].gap_end_ns);
		if (end_ns == witness->gap_ends_ns[i])
			continue;
		witness->gap_ends_ns[i] = end_ns;
		if (end_ns == 0 || now_ns - end_ns > GAP_IS_NEWS_NS)
			continue;
		/* it began just now, or ended just now */
		witness->early = true;
	}
}

bool witness_wants_dump(struct witness *witness,
    const struct generation *generation, int64_t now_ns, bool *at_once) {
	notice_gaps(witness, now_ns);
	if (atomic_load(&witness->segment->header->unconfirmed) != 0)
		witness->early = true;
	if (owners_want_look(witness, now_ns))
		witness->early = true;
	*at_once = witness->early;
	/* Also at rest, so that connections that were there before an outage
	 * are not taken for such as began in it, and as nobody else tells of
	 * outbound ones. */
	return witness->early || generation->count_unannounced != UNANNOUNCED_NEVER ||
	    generation->remote_port_count > 0 ||
	    witness_has_sessions(witness);
}

uint32_t witness_dump_begin(struct witness *witness) {
	witness->early = false;
	engine_count(witness->engine, COUNTER_WITNESS_DUMPS, 1);
	/* what was opened before this has the smaller number */
	return 1 + atomic_fetch_add(&witness->segment->header->dump_sequence, 1);
}

static int compare_half(const struct address *a, uint16_t a_port,
    const struct address *b, uint16_t b_port) {
	int order = memcmp(a->bytes, b->bytes, sizeof(a->bytes));

	return order != 0 ? order : (a_port > b_port) - (a_port < b_port);
}

static int compare_tuples(const struct connection *x,
    const struct connection *y) {
	int order = compare_half(&x->client, x->client_port, &y->client,
	    y->client_port);

	return order != 0 ? order : compare_half(&x->server, x->server_port,
	    &y->server, y->server_port);
}

static int compare_connections(const void *a, const void *b) {
	const struct connection *x = a, *y = b;

	return x->outbound != y->outbound ? x->outbound - y->outbound :
	    compare_tuples(x, y);
}

/* The first connection whose client half is not below the tuple's. */
static size_t lower_bound(const struct dump_list *list,
    const struct connection *tuple) {
	size_t low = 0, high = list->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (compare_half(&list->list[middle].client,
			list->list[middle].client_port, &tuple->client,
			tuple->client_port) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

const struct connection *dump_search(struct dump_list *list,
    const struct connection *tuple, bool any_server) {
	const struct connection *alive = NULL;

	for (size_t i = lower_bound(list, tuple); i < list->count; i++) {
		const struct connection *there = &list->list[i];

		if (compare_half(&there->client, there->client_port,
			&tuple->client, tuple->client_port) != 0)
			break;
		if (!any_server && compare_half(&there->server,
			there->server_port, &tuple->server,
			tuple->server_port) != 0)
			continue;
		list->announced[i] = 1;
		if (there->alive)
			alive = there;
	}
	return alive;
}

bool dump_shows(const struct dump_list *list, const struct connection *tuple) {
	for (size_t i = lower_bound(list, tuple); i < list->count; i++) {
		const struct connection *there = &list->list[i];

		if (compare_tuples(there, tuple) == 0)
			return true;
		if (compare_half(&there->client, there->client_port,
			&tuple->client, tuple->client_port) != 0)
			break;
	}
	return false;
}

/* The session's live connection in the dump, or NULL. */
static const struct connection *search(struct dump *dump,
    const struct session *session) {
	struct connection tuple;

	proof_tuple(session, &tuple);
	return dump_search(&dump->inbound, &tuple, tuple.server_port == 0 ||
	    (session->control.flags & SESSION_FLAG_CARRIED) != 0);
}

/* Adopted before it was known for a proxy's. */
static bool end_carrier(struct dump *dump, uint32_t slot, const struct session *session) {
	if ((session->control.flags & SESSION_FLAG_ADOPTED) == 0 ||
	    !carriers_have(dump->witness, &session->client, session->server_port))
		return false;
	session_close_unchanged(dump->witness->engine, slot, session, dump->now_ns);
	return true;
}

static void look_at_session(void *context, uint32_t slot,
    const struct session *session) {
	struct dump *dump = context;
	struct witness *witness = dump->witness;
	const struct connection *alive;

	if (session->control.direction == SESSION_OUTBOUND) {
		outbound_look_at(dump, slot, session);
		return;
	}
	alive = search(dump, session);
	if (owners_look(dump, slot, session, alive != NULL) || end_carrier(dump, slot, session))
		return;
	if ((session->control.flags & SESSION_FLAG_CARRIED) != 0 &&
	    witness->carried_count < WITNESS_CARRIED_MAX)
		witness->carried[witness->carried_count++] = (struct carried){
			session->proof_address, session->proof_port,
			ref_of(session, slot) };
	if (session->server_port != 0) {
		port_put(witness->found, session->server_port);
		if (!port_is_in(witness->asked, session->server_port))
			dump->unasked = true;
	}
	if (alive == NULL)
		carriers_look(witness, session, dump->now_ns);
	if (alive != NULL && (session->control.flags &
		(SESSION_FLAG_ADOPTED | SESSION_FLAG_CARRIED)) == 0)
		carriers_forget(witness, &session->client, session->server_port);
	if (alive != NULL)
		proof_shown(witness, dump->generation, slot, session, alive,
		    dump->now_ns);
	else if ((int32_t)(session->dump_sequence - dump->sequence) < 0)
		proof_missing(witness, dump->generation, slot, session,
		    dump->now_ns);
}

static bool make_announced(struct witness *witness, size_t count) {
	if (count > witness->announced_size) {
		uint8_t *larger = realloc(witness->announced, 2 * count);

		if (larger == NULL)
			return false;
		witness->announced = larger;
		witness->announced_size = 2 * count;
	}
	if (count > 0)
		memset(witness->announced, 0, count);
	return true;
}

static void look_at_unannounced(const struct dump *dump) {
	struct witness *witness = dump->witness;
	const struct dump_list *inbound = &dump->inbound;
	int64_t first_ns = adoption_first_seen_ns(witness, dump->now_ns);

	unannounced_begin(witness->unannounced);
	for (size_t i = 0; i < inbound->count; i++) {
		int64_t first_seen_ns;

		if (!inbound->list[i].alive || inbound->announced[i])
			continue;
		first_seen_ns = unannounced_note(witness->unannounced, &inbound->list[i],
		    first_ns);
		carriers_note(witness, dump->generation, &inbound->list[i], first_seen_ns,
		    dump->now_ns);
		adoption_consider(witness, dump->generation, &inbound->list[i],
		    first_seen_ns, dump->now_ns);
	}
}

static void split(struct dump *dump, const struct connection *list, size_t count) {
	uint8_t *announced = dump->witness->announced;
	size_t inbound = 0;

	while (inbound < count && !list[inbound].outbound)
		inbound++;
	dump->inbound = (struct dump_list){ list, inbound, announced };
	if (inbound < count)
		dump->outbound = (struct dump_list){ list + inbound,
			count - inbound, announced + inbound };
}

void witness_dump_end(struct witness *witness,
    const struct generation *generation, uint32_t dump_sequence,
    struct connection *list, size_t count, int64_t now_ns) {
	_Atomic uint32_t *unconfirmed = &witness->segment->header->unconfirmed;
	struct dump dump = { .witness = witness, .generation = generation,
		.sequence = dump_sequence, .now_ns = now_ns };

	if (!make_announced(witness, count)) {
		witness_dump_failed(witness, now_ns);
		return;
	}
	if (count > 0)
		qsort(list, count, sizeof(*list), compare_connections);
	split(&dump, list, count);
	witness->searches_left = SEARCHES_PER_DUMP;
	witness->carried_count = 0;
	memset(witness->found, 0, sizeof(witness->found));
	owners_begin(&dump);
	witness_each_session(witness, look_at_session, &dump);
	look_at_unannounced(&dump);
	outbound_look_at_new(&dump);
	if (dump.unasked && !witness->ports_full)
		witness->early = true;
	witness->failing_since_ns = 0;
	witness->dumped_ns = now_ns;
	/* taken-over sessions that no table shows have other proofs */
	if (atomic_load(unconfirmed) != 0)
		witness_expire(witness, generation, now_ns);
	atomic_store(unconfirmed, 0);
}

void witness_dump_failed(struct witness *witness, int64_t now_ns) {
	engine_count(witness->engine, COUNTER_WITNESS_ERRORS, 1);
	if (witness->failing_since_ns == 0)
		witness->failing_since_ns = now_ns;
	/* sessions that were taken over stand on owners and leases then */
	atomic_store(&witness->segment->header->unconfirmed, 0);
}

bool witness_is_blind(const struct witness *witness, int64_t now_ns) {
	return witness->failing_since_ns != 0 &&
	    now_ns - witness->failing_since_ns > BLIND_AFTER_NS;
}

/* --- destroy events ---------------------------------------------------- */

static bool find_by_key(struct witness *witness, const struct connection *which,
    int64_t now_ns, struct session_ref *ref, struct session *session) {
	struct session_key key = { which->client, which->client_port,
		which->outbound ? SESSION_OUTBOUND : SESSION_INBOUND };
	struct connection tuple;
	struct session_lock lock;
	uint32_t slot;

	sessions_aim(witness->segment, &key, now_ns, &lock);
	if (!sessions_lock(&lock))
		return false;
	slot = sessions_find(&lock, &which->server, which->server_port);
	if (slot != SEGMENT_NO_SLOT)
		session_load(witness->segment, slot, session);
	sessions_unlock(&lock);
	if (slot == SEGMENT_NO_SLOT)
		return false;
	*ref = ref_of(session, slot);
	proof_tuple(session, &tuple);
	return compare_half(&tuple.client, tuple.client_port, &which->client,
	    which->client_port) == 0;
}

static bool find_carried(struct witness *witness, const struct connection *which,
    int64_t now_ns, struct session_ref *ref, struct session *session) {
	struct session_lock lock;

	for (size_t i = 0; i < witness->carried_count; i++) {
		const struct carried *carried = &witness->carried[i];

		if (compare_half(&carried->client, carried->client_port,
			&which->client, which->client_port) != 0)
			continue;
		*ref = carried->ref;
		if (session_lock_ref(witness->engine, ref, now_ns, &lock,
			session) != REF_HELD)
			continue;
		sessions_unlock(&lock);
		return true;
	}
	return false;
}

void witness_destroyed(struct witness *witness,
    const struct generation *generation, const struct connection *which,
    int64_t now_ns) {
	struct session_ref ref;
	struct session session;

	engine_count(witness->engine, COUNTER_WITNESS_EVENTS, 1);
	if (address_is_unknown(&which->client) || which->client_port == 0 ||
	    address_is_unknown(&which->server) || which->server_port == 0) {
		if (which->server_port == 0 || which->outbound ||
		    port_is_in(witness->asked, which->server_port))
			witness->early = true;
		return;
	}
	if (!which->outbound)
		unannounced_forget(witness->unannounced, which);
	if (find_by_key(witness, which, now_ns, &ref, &session) ||
	    (!which->outbound && find_carried(witness, which, now_ns, &ref, &session)))
		proof_destroyed(witness, generation, &ref, &session, which,
		    now_ns);
}

void witness_news(struct witness *witness, struct witness_news *news) {
	uint64_t *fields[3] = { &news->adopted, &news->expired, &news->repairs };

	for (unsigned i = 0; i < 3; i++) {
		uint64_t now = counter_now(witness, told_counters[i]);

		*fields[i] = now - witness->told[i];
		witness->told[i] = now;
	}
}
