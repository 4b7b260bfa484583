/* SPDX-License-Identifier: ISC */
/*
 * The roles: the real code behind mains that are shorter than those of role/run, as there are no
 * sockets; and a supervisor, that starts again who has died.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rest.h"
#include "engine/internal.h"
#include "engine/session/gate.h"
#include "engine/session/witness.h"
#include "front/decision/decision_log.h"
#include "front/witness/kernel_table.h"
#include "front/witness/witness.h"
#include "segment/file/stir.h"
#include "tests/machine/events.h"
#include "tests/machine/world.h"

#define ROLES_MAX 8
#define BEAT_NS NS_PER_SECOND
#define KEEPER_BEAT_NS (200 * NS_PER_MS)
#define TURN_NS (KEEPER_BEAT_NS / 2)
#define DEAF_NS (REST_LIVELY_NS / 2)
#define HUNG_NS (4 * NS_PER_SECOND)
#define NETLINK_FD 1000
#define BEGIN_NS (50 * NS_PER_MS)	/* no outage is known of who has never been at work */

struct message {
	struct message *next;
	struct policy_link *link;	/* NULL: an order for the keeper */
	char *request;			/* NULL: the connection ended */
	unsigned place;
	int32_t pid;			/* of who died; 0: the kernel has announcements */
};

struct role {
	struct process process;
	enum role_kind kind;
	unsigned number, place;
	uint32_t start;			/* how often it was started */
	struct segment *segment;
	struct engine *engine;
	struct message *inbox;
	/* the keeper's */
	struct front_witness *witness;
	struct event_base *base;
	struct gate_watch gate;
	struct rest rest;
	bool stirred;
	int64_t second_ns;
};

static struct {
	const struct plan *plan;
	struct draws draws;
	struct role roles[ROLES_MAX];
	unsigned count;
	int segment_fd;
	const char *path;
	struct segment *segment;	/* the world's */
	bool calm;
} all;

void __wrap_decision_log(struct engine *engine, const struct generation *generation,
    const struct question *question, const struct answer *answer, enum decision_stage stage);

bool __wrap_slot_close(struct session_lock *lock, uint32_t slot, const struct session *session);
bool __real_slot_close(struct session_lock *lock, uint32_t slot, const struct session *session);

/* --- messages --------------------------------------------------------------------- */

static void role_send(struct role *role, struct message message) {
	struct message *copy = malloc(sizeof(*copy)), **last = &role->inbox;

	MUST(copy != NULL);
	*copy = message;
	copy->next = NULL;
	while (*last != NULL)
		last = &(*last)->next;
	*last = copy;
	process_wake(&role->process);
}

static bool role_next(struct role *role, struct message *message) {
	struct message *first = role->inbox;

	if (first == NULL)
		return false;
	*message = *first;
	role->inbox = first->next;
	free(first);
	return true;
}

bool link_lives(const struct policy_link *link) {
	return link->role != NULL && link->role->process.alive && link->role->start == link->start;
}

bool role_connect(struct policy_link *link, struct draws *draws) {
	unsigned first = draw_below(draws, all.count);

	for (unsigned i = 0; i < all.count; i++) {
		struct role *role = &all.roles[(first + i) % all.count];

		if (role->kind != ROLE_POLICY || !role->process.alive)
			continue;
		link->role = role;
		link->start = role->start;
		link->socket = socket_open();
		return true;
	}
	return false;
}

void role_ask(struct policy_link *link, const char *request) {
	role_send(link->role, (struct message){ .link = link, .request = strdup(request) });
}

void role_end_link(struct policy_link *link) {
	socket_close(link->socket);
	if (link_lives(link))
		role_send(link->role, (struct message){ .link = link });
}

void keeper_hear(void) {
	role_send(&all.roles[0], (struct message){ .pid = 0 });
}

/* --- policy ------------------------------------------------------------------------- */

static void let_go(const struct address *client, uint16_t port) {
	for (unsigned i = 0; i < TCP_MAX; i++)
		if (tcps[i].client_port == port && address_equal(&tcps[i].client, client))
			tcps[i].let_go = true;
}

/* For the log of events; and an end that a lock stood in the way of may have been one of a policy
 * connection alone, and is believed now that the keeper is away. */
bool __wrap_slot_close(struct session_lock *lock, uint32_t slot, const struct session *session) {
	const struct role *role = process_current()->own;
	const struct message *message = role->kind == ROLE_POLICY ? role->inbox : NULL;
	bool done = __real_slot_close(lock, slot, session);

	if (role->kind == ROLE_POLICY && message == NULL &&
	    keeper_is_away(role->segment, clock_now_ns()))
		let_go(&session->client, session->client_port);

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
	struct role *role = process_current()->own;

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
	length = policy_session_answer(&link->session, role->engine, generation, 0, request,
	    &parser.request, clock_now_ns(), reply);
	server_answered(link, reply, length);
}

/* Where the keeper is away a policy connection's end is taken for its session's: that of the same
 * tuple, if the question came so late that its own was over. */
static void end_link(struct role *role, const struct generation *generation,
    struct policy_link *link) {
	bool away = keeper_is_away(role->segment, clock_now_ns());

	policy_session_over(&link->session, role->engine, generation, clock_now_ns());
	away = away || keeper_is_away(role->segment, clock_now_ns());
	for (unsigned i = 0; i < TCP_MAX && away; i++)
		tcps[i].let_go |= tcps[i].number == link->number;
	if (away && link->late)
		let_go(&link->session.client, link->session.client_port);
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

static void policy_main(struct role *role) {
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

/* --- keeper -------------------------------------------------------------------------- */

static void keeper_stir(struct role *role) {
	rest_stir(&role->rest, clock_now_ns());
	role->stirred = true;
	process_wake(&role->process);
}

static void await_stirs(void *argument) {
	struct role *role = argument;
	const struct segment_header *header = segment_header(role->segment);

	fiber_watch(header, header->bytes);
	for (;;) {
		segment_await_stir(segment_header(role->segment));
		keeper_stir(role);
		for (int64_t end_ns = clock_now_ns() + DEAF_NS; clock_now_ns() < end_ns;)
			fiber_sleep(end_ns);
	}
}

static void watch_gate(struct role *role) {
	const struct generation *generation = engine_pin(role->engine);

	(void)gate_watch_look(&role->gate, role->engine, generation, clock_now_ns());
	engine_unpin(role->engine, generation);
}

/* As keeper_turn of role/run/keeper.c.  Returns when the next one is due. */
static int64_t keeper_turn(struct role *role) {
	int64_t now_ns = clock_now_ns(), next_ns;

	if (!rest_is_lively(&role->rest, now_ns) &&
	    !segment_is_at_rest(segment_header(role->segment)))
		keeper_stir(role);
	next_ns = front_witness_turn(role->witness, !rest_is_lively(&role->rest, now_ns));
	if (rest_is_lively(&role->rest, now_ns))
		next_ns = TURN_NS;
	engine_keeper_heartbeat(role->engine, clock_now_ns(),
	    next_ns > KEEPER_BEAT_NS ? next_ns : KEEPER_BEAT_NS);
	watch_gate(role);
	if (now_ns - role->second_ns >= NS_PER_SECOND - TURN_NS / 2) {
		role->second_ns = now_ns;
		front_witness_second(role->witness, clock_now_ns());
	}
	return clock_now_ns() + next_ns;
}

static void keeper_orders(struct role *role) {
	struct message order;

	while (role_next(role, &order)) {
		if (order.pid == 0)
			events_fire_readable(role->base, NETLINK_FD);
		else if (segment_role_died(role->segment, order.place, order.pid))
			segment_count_some(role->segment, COUNTER_ROLE_RESTARTS, 1);
	}
}

static void keeper_main(struct role *role) {
	const int fd = NETLINK_FD;
	int64_t turn_ns = 0, timer_ns;
	struct diag diag;

	engine_keeper_heartbeat(role->engine, clock_now_ns(), KEEPER_BEAT_NS);
	role->base = events_new();
	role->gate = (struct gate_watch){ 0 };
	rest_init(&role->rest, clock_now_ns());
	MUST(front_witness_open(&role->witness, role->base, role->engine, &fd, 1, &diag) == 0);
	process_thread(await_stirs, role);
	for (;;) {
		keeper_orders(role);
		events_fire_timers(role->base);
		if (role->stirred || clock_now_ns() >= turn_ns) {
			role->stirred = false;
			turn_ns = keeper_turn(role);
		}
		timer_ns = events_next_ns(role->base);
		if (role->inbox == NULL && !role->stirred)
			fiber_sleep(timer_ns < turn_ns ? timer_ns : turn_ns);
	}
}

/* --- the supervisor -------------------------------------------------------------------- */

/* As role_begin. */
static void role_main(void *argument) {
	struct process *process = argument;
	struct role *role = process->own;
	struct diag diag;
	int fd = dup(all.segment_fd);

	if (segment_attach(&role->segment, fd, all.path, &diag) != 0)
		world_fail("attach", "%s: %s", process->name, diag.text);
	fiber_watch(segment_header(role->segment), segment_header(role->segment)->bytes);
	segment_role_starting(role->segment, role->kind, role->number, clock_now_ns());
	if (engine_open(&role->engine, role->segment, role->place, &diag) != 0)
		world_fail("open", "%s: %s", process->name, diag.text);
	if (role->kind == ROLE_KEEPER)
		keeper_main(role);
	else
		policy_main(role);
}

static void role_start(void *argument) {
	struct role *role = argument;
	static const char *const names[] = { "keeper", "policy.0", "policy.1", "policy.2" };
	const char *name = names[role - all.roles];

	role->start++;
	role->inbox = NULL;
	role->stirred = false;
	role->second_ns = 0;
	world_log("%s starts", name);
	process_start(&role->process, name, role_main, role);
}

struct news {
	struct role *role;
	uint32_t start;
	int32_t pid;
};

static void tell_servers(void *argument) {
	struct news *news = argument;

	servers_lose(news->role, news->start);
}

static void tell_keeper(void *argument) {
	const struct news *news = argument;

	if (all.roles[0].process.alive)
		role_send(&all.roles[0], (struct message){ .place = news->role->place,
		    .pid = news->pid });
}

static void role_died(struct process *process) {
	struct role *role = process->own;
	struct news *news = malloc(sizeof(*news));
	int64_t now_ns = fibers_now_ns();

	MUST(news != NULL);
	*news = (struct news){ role, role->start, process->pid };
	world_log("%s died", process->name);
	if (role->kind == ROLE_KEEPER)
		tcps_are_forgotten();
	timer_at(now_ns + draw_scale(&all.draws, 1000, NS_PER_MS), tell_servers, news);
	timer_at(now_ns + draw_scale(&all.draws, 1000, 20 * NS_PER_MS), tell_keeper, news);
	timer_at(now_ns + draw_scale(&all.draws, NS_PER_MS, 600 * NS_PER_MS), role_start, role);
}

static void supervise(void *argument) {
	const struct role_record *records = segment_header(all.segment)->roles;

	if (fibers_now_ns() - records[all.roles[0].place].heartbeat_ns > NS_PER_SECOND / 2)
		tcps_are_forgotten();
	for (unsigned i = 0; i < all.count; i++) {
		struct role *role = &all.roles[i];
		const struct role_record *record = &records[role->place];

		if (role->process.alive && record->pid == role->process.pid &&
		    fibers_now_ns() - record->heartbeat_ns > HUNG_NS) {
			world_log("%s hangs", role->process.name);
			process_kill(&role->process);
		}
	}
	timer_at(fibers_now_ns() + NS_PER_SECOND / 4, supervise, argument);
}

static void strike(void *argument) {
	struct role *role = &all.roles[draw_below(&all.draws, all.count)];
	uint64_t after = (uint64_t)draw_scale(&all.draws, 1, 4000);

	if (all.calm || !role->process.alive)
		return;
	role->process.struck_in_lock = draw_below(&all.draws, 2) == 0;
	if (argument != NULL) {
		role->process.dies_after = after;
		return;
	}
	role->process.stops_after = after;
	role->process.stops_ns = draw_scale(&all.draws, 10 * NS_PER_MS, 6 * NS_PER_SECOND);
}

void roles_calm(void) {
	all.calm = true;
}

bool roles_are_well(void) {
	const struct role_record *records = segment_header(all.segment)->roles;

	for (unsigned i = 0; i < all.count; i++) {
		const struct role *role = &all.roles[i];
		const struct role_record *record = &records[role->place];

		if (!role->process.alive || role->process.stopped_until_ns > fibers_now_ns() ||
		    record->pid != role->process.pid || record->gap_end_ns == INT64_MAX ||
		    fibers_now_ns() - record->heartbeat_ns > 2 * BEAT_NS)
			return false;
	}
	return true;
}

void roles_begin(const struct plan *plan, struct segment *segment, int fd, const char *path) {
	int64_t now_ns = fibers_now_ns();

	all.plan = plan;
	all.draws.state = plan->seed ^ UINT64_C(0x7011);
	all.segment = segment;
	all.segment_fd = fd;
	all.path = path;
	all.count = 1 + plan->policies;
	for (unsigned i = 0; i < all.count; i++) {
		struct role *role = &all.roles[i];

		role->kind = i == 0 ? ROLE_KEEPER : ROLE_POLICY;
		role->number = i == 0 ? 0 : i - 1;
		role->place = segment_role_place(role->kind, role->number);
		role_start(role);
	}
	processes_on_death(role_died);
	supervise(NULL);
	fibers_run(now_ns + BEGIN_NS);
	for (uint32_t i = 0; i < plan->kills + plan->stops; i++)
		timer_at(fibers_now_ns() + draw_scale(&all.draws, 1000,
		    plan->spread * NS_PER_MS + NS_PER_MS),
		    strike, i < plan->kills ? &all : NULL);
}
