/* SPDX-License-Identifier: ISC */
/* The milter role: libmilter on one listening socket.  It ends by SIGKILL. */

#include "engine/engine.h"
#include "front/milter/milter.h"
#include "front/decision/window_log.h"
#include "role/run/own_look.h"
#include "role/link/role.h"

int milter_role_main(const struct role_context *context, struct engine *engine,
    struct diag *diag) {
	if (context->socket_count != 1)
		return diag_set(diag, 0, "libmilter supports one socket, not %u",
		    context->socket_count);
	window_log_listen(engine);
	own_look_open(context, engine);
	engine_wait_confirmed(engine);
	milter_front_run(engine, context->sockets[0].fd, context->sockets[0].listener,
	    context->sockets[0].kind == LISTENER_MILTER_ACCOUNTS, diag);
	return -1;
}
