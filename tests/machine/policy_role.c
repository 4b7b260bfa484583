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

void __wrap_decision_log(struct engine *engine, const struct generation *generation,
    const struct question *question, const struct answer *answer, enum decision_stage stage);

bool __wrap_slot_close(struct session_lock *lock, uint32_t slot, const struct session *session);
bool __real_slot_close(struct session_lock *lock, uint32_t slot, const struct session *session);

void let_go(const struct address *client, uint16_t port) {
	for (unsigned i = 0; i < TCP_MAX; i++)
		if (tcps[i].client_port == port && address_equal(&tcps[i].client, client))
			tcps[i].let_go = true;
}

/* For the log of events.  And an end that a lock stood in the way of is believed later: a milter's,
 * though the tuple may have come again, and a policy connection's while the keeper is away. */
bool __wrap_slot_close(struct session_lock *lock, uint32_t slot, const struct session *session) {
	const struct role *role = process_current()->own;
	const struct message *message = role->kind != ROLE_KEEPER ? role->inbox : NULL;
	bool done;

	if (message == NULL && (role->kind == ROLE_MILTER || (role->kind == ROLE_POLICY &&
	    keeper_is_away(role->segment, clock_now_ns()))))
		let_go(&session->client, session->client_port);
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
	length = policy_session_answer(&link->session, role->engine, generation, listener_of(generation, LISTENER_POLICY), request,
	    &parser.request, clock_now_ns(), reply);
	server_answered(link, reply, length);
}

static struct tcp *tcp_of(const struct policy_link *link) {
	for (unsigned i = 0; i < TCP_MAX; i++)
		if (tcps[i].number == link->number)
			return &tcps[i];
	return NULL;
}

/* Where the keeper is away a policy connection's end is taken for its session's: that of the same
 * tuple, if the question came so late that its own was over. */
static void end_link(struct role *role, const struct generation *generation,
    struct policy_link *link) {
	bool away = keeper_is_away(role->segment, clock_now_ns()), was_let_go = false;
	struct tcp *tcp = tcp_of(link);

	if (link->late)
		let_go(&link->session.client, link->session.client_port);
	if (tcp != NULL) {
		was_let_go = tcp->let_go;
		tcp->let_go = true;
	}
	policy_session_over(&link->session, role->engine, generation, clock_now_ns());
	away = away || keeper_is_away(role->segment, clock_now_ns());
	if (tcp != NULL && tcp->number == link->number)
		tcp->let_go = was_let_go || away;
}

/* The message stays the first of the inbox meanwhile. */
static void policy_turn(struct role *role) {
	const struct generation *generation = engine_pin(role->engine);
	struct message message = *role->inbox;

	if (message.request != NULL)
		answer_request(role, generation, message.link, message.request);
	else
		end_link(role, generation, message.link);
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

