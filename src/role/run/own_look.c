/* SPDX-License-Identifier: ISC */
/*
 * Joins a role's netlink sockets with its engine, for the role's whole life.
 *
 * MODEL: a lookup does not find a socket that is bound to an interface (VRF) unless
 * a dump has shown that there are such.  So there is a dump before the first lookup
 * of a service, and another one now and then.
 * ERRORS: where none could be made, nothing is known.
 */
#include "role/run/own_look.h"

#include "base/clock.h"
#include "base/log.h"
#include "engine/session/witness.h"
#include "front/witness/kernel_table.h"

#define PORTS_MAX	INET_DIAG_REMOTE_AT_MOST
#define DUMP_SHARE	20
#define DUMPED_FOR_NS	NS_PER_SECOND

struct own_look {
	struct kernel_table *table;
	uint16_t ports[PORTS_MAX];	/* of services, ours and others' */
	size_t port_count;
	int64_t next_ns;		/* the last dump is good till then */
	int64_t rest_until_ns;		/* and no other is made before */
};

static bool is_dumped(const struct own_look *look, uint16_t port, int64_t now_ns) {
	for (size_t i = 0; i < look->port_count && now_ns < look->next_ns; i++)
		if (look->ports[i] == port)
			return true;
	return false;
}

/* Of this port too. */
static bool own_look_dump(struct own_look *look, uint16_t port) {
	struct inet_diag_ports asked = { .local = look->ports,
		.remote = look->ports };
	int64_t began_ns = clock_now_ns(), spent_ns;
	struct connection *list;
	struct diag diag;
	size_t count;
	bool done;

	if (began_ns < look->rest_until_ns)
		return false;
	/* those that are asked about come in again */
	if (began_ns >= look->next_ns || look->port_count == PORTS_MAX)
		look->port_count = 0;
	look->ports[look->port_count++] = port;
	asked.local_count = asked.remote_count = look->port_count;
	done = kernel_table_dump(look->table, &asked, &list, &count, &diag) == 0;
	if (!done)
		look->port_count = 0;
	spent_ns = clock_now_ns() - began_ns;
	look->rest_until_ns = clock_now_ns() + (DUMP_SHARE - 1) * spent_ns;
	look->next_ns = look->rest_until_ns + DUMPED_FOR_NS;
	return done;
}

static enum lookup_result look_up(void *context, const struct connection *which,
    struct connection *found) {
	struct own_look *look = context;

	/* without a port the whole table is walked anyway */
	if (which->server_port != 0 &&
	    !is_dumped(look, which->server_port, clock_now_ns()) &&
	    !own_look_dump(look, which->server_port))
		return LOOKUP_UNKNOWN;
	return kernel_table_lookup(look->table, which, found);
}

static enum lookup_result look_up_socket(void *context, uint32_t inode, uint32_t *peer) {
	struct own_look *look = context;

	return kernel_table_socket(look->table, inode, peer);
}

void own_look_open(const struct role_context *context, struct engine *engine) {
	static struct own_look look;	/* a role has one */
	const struct witness_calls calls = { .lookup = look_up, .socket = look_up_socket,
		.context = &look };
	struct diag diag;

	if (context->netlink_count == 0)
		return;
	if (kernel_table_open(&look.table, context->netlink_fds,
	    context->netlink_count, &diag) == 0) {
		if (engine_lend_witness(engine, &calls, &diag) == 0)
			return;
		kernel_table_close(&look.table);
	}
	log_event(EVENT_WITNESS, "text=\"%s\"", diag.text);
}
