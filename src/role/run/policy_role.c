/* SPDX-License-Identifier: ISC */
/* The policy role: an event loop around the policy and socketmap front ends.
 * Several processes of it share the listening sockets. */

#include "engine/engine.h"
#include "front/policy/policy.h"
#include "front/outbound/socketmap.h"
#include "front/decision/window_log.h"
#include "role/run/own_look.h"
#include "role/link/role.h"

static int socket_serve(struct policy_front *policy, struct socketmap_front *socketmap,
    const struct role_socket *socket, struct diag *diag) {
	if (socket->kind == LISTENER_SOCKETMAP)
		return socketmap_front_listen(socketmap, socket->fd, socket->listener, diag);
	return policy_front_listen(policy, socket->fd, socket->listener, diag);
}

int policy_role_main(const struct role_context *context, struct engine *engine,
    struct diag *diag) {
	struct policy_front *policy;
	struct socketmap_front *socketmap;

	window_log_listen(engine);
	own_look_open(context, engine);
	if (policy_front_open(&policy, engine, diag) != 0 ||
	    socketmap_front_open(&socketmap, engine, policy_front_base(policy), diag) != 0)
		return -1;
	for (unsigned i = 0; i < context->socket_count; i++)
		if (socket_serve(policy, socketmap, &context->sockets[i], diag) != 0)
			return -1;
	engine_wait_confirmed(engine);
	policy_front_run(policy);
	return diag_set(diag, 0, "the event loop ended");
}
