/* SPDX-License-Identifier: ISC */
/* The policy role: an event loop around the policy front end.  Several processes
 * of it share the listening sockets. */
#include <sysexits.h>

#include "base/log.h"
#include "engine/engine.h"
#include "front/policy.h"
#include "role/own_look.h"
#include "role/role.h"

static int give_up(const struct diag *diag)
{
	log_event(EVENT_SYSTEM, "from=policy text=\"%s\"", diag->text);
	return EX_OSERR;
}

int policy_role_main(const struct role_context *context)
{
	struct policy_front *front;
	struct engine *engine;
	struct diag diag;

	if (engine_open(&engine, context->segment, context->role_slot, &diag) != 0)
		return give_up(&diag);
	own_look_open(context, engine);
	if (policy_front_open(&front, engine, &diag) != 0)
		return give_up(&diag);
	for (unsigned i = 0; i < context->socket_count; i++)
		if (policy_front_listen(front, context->sockets[i].fd,
		    context->sockets[i].listener, &diag) != 0)
			return give_up(&diag);
	engine_wait_confirmed(engine);
	policy_front_run(front);
	diag_set(&diag, 0, "the event loop ended");
	return give_up(&diag);
}
