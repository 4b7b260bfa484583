/* SPDX-License-Identifier: ISC */
/* The milter role: what front/milter asks at connect and says at the end, without libmilter.  One
 * thread, where the real one has many. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/session/witness.h"
#include "front/decision/decision_log.h"
#include "front/witness/kernel_table.h"
#include "tests/machine/role.h"

/* As engine_owner_proof: it asks the kernel by the connection's descriptor. */
static void owner_proof(struct question *question, uint32_t socket) {
	const struct connection tuple = { .client = question->client,
		.client_port = question->client_port, .server = question->server,
		.server_port = question->server_port };

	question->shown = kernel_table_lookup(NULL, &tuple, NULL) == LOOKUP_ALIVE;
	if (!question->shown)
		question->owner_socket = socket;
}

/* The request is the client's name; its address is the connection's that it is of. */
static void on_connect(struct role *role, const struct generation *generation,
    struct policy_link *link, const char *name) {
	struct question question = { .client = link->client, .client_port = link->client_port,
		.server = *world_server(), .server_port = 25,
		.name = name[0] == '\0' ? NULL : name, .name_length = strlen(name),
		.listener = listener_of(generation, LISTENER_MILTER), .owner = OWNER_MILTER,
		.connect_only = true };
	bool refused;
	struct answer answer;

	owner_proof(&question, link->socket);
	link->asked_ns = clock_now_ns();
	engine_session_open(role->engine, generation, &question, link->asked_ns, &answer);
	/* not one that dies of the question: nothing tells of that */
	if (link->tcp->number == link->number)
		link->tcp->at_milter = true;
	link->session.ref = answer.session;
	decision_log(role->engine, generation, &question, &answer, DECISION_AT_CONNECT);
	refused = answer.decision.verdict == VERDICT_REFUSE;
	server_answered(link, refused ? "action=421 4.7.0 Too many sessions" : "", refused ? 32 : 0);
}

/* Final, and none of the kernel's business, who could not tell after XCLIENT.  So it ends the tuple's
 * next session where it is heard after that began, and no milter was asked since: nothing tells
 * the two apart.  No more where the question itself was heard so late, as smtpd died. */
static void on_end(struct role *role, const struct generation *generation,
    struct policy_link *link) {
	for (unsigned i = 0; i < TCP_MAX; i++)
		if (tcps[i].client_port == link->client_port && tcps[i].number > link->number &&
		    address_equal(&tcps[i].client, &link->client))
			tcps[i].let_go |= link->late || !tcps[i].at_milter;
	engine_session_ended(role->engine, generation, &link->session.ref, OWNER_MILTER,
	    clock_now_ns());
}

static void milter_turn(struct role *role) {
	const struct generation *generation = engine_pin(role->engine);
	struct message message = *role->inbox;

	role->asked_ns = clock_now_ns();
	if (message.request != NULL)
		on_connect(role, generation, message.link, message.request);
	else if (message.link->session.ref.slot != 0)
		on_end(role, generation, message.link);
	engine_unpin(role->engine, generation);
	(void)role_next(role, &message);
	free(message.request);
}

void milter_main(struct role *role) {
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
			milter_turn(role);
		fiber_sleep(beat_ns);
	}
}
