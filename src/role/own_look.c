/* SPDX-License-Identifier: ISC */
/* Joins a role's netlink sockets with its engine, for the role's whole life. */
#include "role/own_look.h"

#include "base/log.h"
#include "engine/witness.h"
#include "front/kernel_table.h"

void own_look_open(const struct role_context *context, struct engine *engine)
{
	struct witness_calls calls = { .lookup = kernel_table_lookup };
	struct kernel_table *table;
	struct diag diag;

	if (context->netlink_count == 0)
		return;
	if (kernel_table_open(&table, context->netlink_fds,
	    context->netlink_count, &diag) == 0) {
		calls.context = table;
		if (engine_lend_witness(engine, &calls, &diag) == 0)
			return;
		kernel_table_close(&table);
	}
	log_event(EVENT_WITNESS, "text=\"%s\"", diag.text);
}
