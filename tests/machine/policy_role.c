/* SPDX-License-Identifier: ISC */
/* The policy role: front/policy/policy_session.c answers; what it answers is checked. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/internal.h"
#include "engine/session/witness.h"
#include "front/decision/decision_log.h"
#include "front/witness/kernel_table.h"
#include "tests/machine/role.h"
#include "tests/machine/senders.h"

void __wrap_decision_log(struct engine *engine, const struct generation *generation,
    const struct question *question, const struct answer *answer, enum decision_stage stage);

bool __wrap_slot_close(struct session_lock *lock, uint32_t slot, const struct session *session);
bool __real_slot_close(struct session_lock *lock, uint32_t slot, const struct session *session);

void let_go(const struct address *client, uint16_t port) {
	for (unsigned i = 0; i < TCP_MAX; i++)
		if (tcps[i].client_port == port && address_equal(&tcps[i].client, client))
			tcps[i].let_go = true;
}

/* For the log of events. */
bool __wrap_slot_close(struct session_lock *lock, uint32_t slot, const struct session *session) {
	const struct role *role = process_current()->own;
	const struct message *message;
	bool done;

	if (process_current()->node > 0)
		return __real_slot_close(lock, slot, session);
	message = role->kind != ROLE_KEEPER ? role->inbox : NULL;
	done = __real_slot_close(lock, slot, session);
	world_log("%s (%s %u) closes 192.0.2.%u[%u], state %u, flags %x%s", process_current()->name,
	    message == NULL ? "of itself" : message->request == NULL ? "end" : "question",
	    message == NULL ? 0 : message->link->number, session->client.bytes[15],
	    session->client_port, session->control.state, session->control.flags,
	    done ? "" : ": not now");
	return done;
}

/* What front/decision/decision_log.c does but for the line itself. */
void __wrap_decision_log(struct engine *engine, const struct generation *generation,
    const struct question *question, const struct answer *answer, enum decision_stage stage) {
	const struct role *role = process_current()->own;

	(void)generation, (void)question;
	if (answer->id != 0)
		engine_decision_logged(engine, answer->id);
	check_decision(role->inbox->link, answer, stage == DECISION_AT_RECIPIENT);
}

static void answer_request(struct role *role, const struct generation *generation,
    struct policy_link *link, const char *request) {
	struct policy_parser parser;
	struct policy_error error;
	char reply[POLICY_REPLY_MAX];
	size_t length;

	policy_parser_reset(&parser);
	if (policy_parser_feed(&parser, request, strlen(request), &error) <= 0)
		world_fail("request", "%s", request);
	link->session.socket = link->socket;
	link->asked_ns = clock_now_ns();
	length = policy_session_answer(&link->session, role->engine, generation,
	    listener_of(generation, LISTENER_POLICY), request, &parser.request, link->asked_ns,
	    reply);
	server_answered(link, reply, length);
}

/* The message stays the first of the inbox meanwhile. */
static void policy_turn(struct role *role) {
	const struct generation *generation = engine_pin(role->engine);
	struct message message = *role->inbox;

	role->asked_ns = clock_now_ns();
	if (message.link->sender != NULL)
		outbound_turn(role, generation, message.link, message.request);
	else if (message.request != NULL)
		answer_request(role, generation, message.link, message.request);
	else
		policy_session_over(&message.link->session, role->engine, generation,
		    clock_now_ns());
	engine_unpin(role->engine, generation);
	(void)role_next(role, &message);
	free(message.request);
}

void policy_main(struct role *role) {
	const struct witness_calls calls = { .lookup = kernel_table_lookup,
		.socket = kernel_table_socket };
	int64_t beat_ns = 0;
	struct diag diag;

	MUST(engine_lend_witness(role->engine, &calls, &diag) == 0);
	engine_wait_confirmed(role->engine);
	for (;;) {
		if (clock_now_ns() >= beat_ns) {
			beat_ns = clock_now_ns() + BEAT_NS;
			engine_heartbeat(role->engine, clock_now_ns());
		}
		while (role->inbox != NULL)
			policy_turn(role);
		fiber_sleep(beat_ns);
	}
}

