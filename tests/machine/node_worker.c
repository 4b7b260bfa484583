/* SPDX-License-Identifier: ISC */
/* Processes of another machine: workers that open and close sessions, or its cluster role. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "segment/file/internal.h"
#include "segment/session/sessions.h"
#include "tests/machine/nodes_internal.h"

#define LOOK_NS		NS_PER_SECOND

static const char *name_of(uint32_t class_index) {
	return class_index == 0 ? "x.a" : NULL;
}

static struct question question_of(const struct member *member, const struct visit *visit) {
	const char *name = name_of(visit->class_index);
	struct question question = { .client_port = visit->port, .server = *world_server(),
		.server_port = 25, .name = name, .name_length = name == NULL ? 0 : strlen(name),
		.owner = OWNER_MILTER, .connect_only = true };

	memcpy(question.client.bytes + 10, (const uint8_t[]){ 0xff, 0xff, 198, 51, 100,
	    (uint8_t)(1 + (visit - member->node->visits)) }, 6);
	return question;
}

static void begin_session(struct member *member, const struct generation *generation,
    struct visit *visit) {
	struct question question = question_of(member, visit);
	int64_t asked_ns = clock_now_ns();
	struct answer answer;

	engine_session_open(member->engine, generation, &question, asked_ns, &answer);
	visit->asked = NULL;
	if (answer.decision.verdict == VERDICT_ADMIT && answer.class_index != CLASS_NO_RULE &&
	    answer.decision.reason != REASON_UNUSABLE &&
	    answer.decision.reason != REASON_UNTRACKED) {
		visit->admitted = true;
		visit->class_index = answer.class_index;
		visit->ref = answer.session;
		check_nodes_admitted(member->node->number, answer.class_index, true, asked_ns);
		node_visit_ends(member->node, visit);
		return;
	}
	visit->used = false;
	if (answer.session.slot != 0)
		engine_session_close(member->engine, &answer.session, clock_now_ns());
}

static bool is_visit(const struct node *node, const struct session *session) {
	for (unsigned i = 0; i < VISITS_MAX; i++)
		if (node->visits[i].used && node->visits[i].port == session->client_port)
			return true;
	return false;
}

/* What the kernel would show to a keeper: that it is over. */
static void end_others(struct member *member) {
	uint32_t first, count;

	for (uint32_t shard = 0; shard < member->segment->header->shard_count; shard++) {
		sessions_range(member->segment, shard, &first, &count);
		for (uint32_t slot = first; slot < first + count; slot++) {
			struct session session;
			struct session_ref ref;

			session_load(member->segment, slot, &session);
			if (session.control.state == SESSION_FREE || is_visit(member->node, &session))
				continue;
			ref = (struct session_ref){ .client = session.client,
				.client_port = session.client_port, .serial = session.serial,
				.slot = slot + 1, .direction = session.control.direction };
			engine_session_close(member->engine, &ref, clock_now_ns());
		}
	}
}

static void carry_out(struct member *member) {
	const struct generation *generation = engine_pin(member->engine);
	struct order order = *member->inbox;

	free(member->inbox);
	member->inbox = order.next;
	if (order.visit == NULL)
		engine_session_close(member->engine, &order.ref, clock_now_ns());
	else if (order.visit->used && order.visit->number == order.number)
		begin_session(member, generation, order.visit);
	engine_unpin(member->engine, generation);
}

static void work(struct member *member) {
	int64_t beat_ns = 0;

	for (;;) {
		if (clock_now_ns() >= beat_ns) {
			beat_ns = clock_now_ns() + LOOK_NS;
			engine_heartbeat(member->engine, clock_now_ns());
			end_others(member);
		}
		while (member->inbox != NULL)
			carry_out(member);
		fiber_sleep(nodes_world_ns(member->node->number, beat_ns));
	}
}

void node_member_main(void *argument) {
	struct process *process = argument;
	struct member *member = process->own;
	struct node *node = member->node;
	enum role_kind kind = member->number == 0 ? ROLE_CLUSTER : ROLE_POLICY;
	unsigned number = member->number == 0 ? 0 : member->number - 1;
	struct diag diag;

	if (segment_attach(&member->segment, dup(node->fd), generation_text(node->configured,
		node->configured->state_path), &diag) != 0)
		world_fail("attach", "node %u: %s", node->number, diag.text);
	fiber_watch(segment_header(member->segment), segment_header(member->segment)->bytes);
	segment_role_starting(member->segment, kind, number, clock_now_ns());
	if (engine_open(&member->engine, member->segment, segment_role_place(kind, number),
		&diag) != 0)
		world_fail("open", "node %u: %s", node->number, diag.text);
	if (kind == ROLE_CLUSTER)
		cluster_serve(member->engine);
	work(member);
}
