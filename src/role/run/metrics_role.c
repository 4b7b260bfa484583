/* SPDX-License-Identifier: ISC */
/* The metrics role: shows the state by HTTP.  It reads the state file as anybody may who is
 * allowed to, and can write nothing there: its heartbeat and counters stand in a page that it
 * shares with the keeper (segment/onlooker.h). */

#include "engine/engine.h"
#include "front/http/http.h"
#include "role/link/role.h"

int metrics_role_main(const struct role_context *context, struct engine *engine,
    struct diag *diag) {
	struct http_front *front;

	if (http_front_open(&front, engine, diag) != 0)
		return -1;
	for (unsigned i = 0; i < context->socket_count; i++)
		if (http_front_listen(front, context->sockets[i].fd,
			context->sockets[i].listener, diag) != 0)
			return -1;
	http_front_run(front);
	return diag_set(diag, 0, "the event loop ended");
}
