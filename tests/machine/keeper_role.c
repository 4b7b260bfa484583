/* SPDX-License-Identifier: ISC */
/* As role/run/keeper.c: the witness, the gate, heartbeats, and three threads. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/rest.h"
#include "engine/destination/windows.h"
#include "engine/hints/hints.h"
#include "engine/journal/journal_manual.h"
#include "engine/session/gate.h"
#include "front/witness/witness.h"
#include "segment/file/internal.h"
#include "segment/file/stir.h"
#include "tests/machine/events.h"
#include "tests/machine/orders.h"
#include "tests/machine/role.h"

#define KEEPER_BEAT_NS (200 * NS_PER_MS)
#define TURN_NS (KEEPER_BEAT_NS / 2)
#define WINDOWS_TURN_NS (500 * NS_PER_MS)
#define HINTS_TURN_NS (50 * NS_PER_MS)
#define DEAF_NS (REST_LIVELY_NS / 2)

struct keeper {
	struct role *role;
	struct front_witness *witness;
	struct event_base *base;
	struct gate_watch gate;
	struct rest rest;
	bool stirred;
	int64_t second_ns;
	struct segment_saved saved;
	struct journal_manual_log *journal;
};

static void keeper_stir(struct keeper *keeper) {
	rest_stir(&keeper->rest, clock_now_ns());
	keeper->stirred = true;
	process_wake(&keeper->role->process);
}

/* As base/rest.h. */
static void take_rest(struct keeper *keeper, int64_t turn_ns, int64_t until_ns) {
	int64_t end_ns = clock_now_ns() + turn_ns;

	if (!rest_is_lively(&keeper->rest, clock_now_ns())) {
		while (clock_now_ns() < until_ns && !rest_is_lively(&keeper->rest, clock_now_ns()))
			fiber_sleep(until_ns);
		return;
	}
	while (clock_now_ns() < end_ns)
		fiber_sleep(end_ns);
}

static void await_stirs(void *argument) {
	struct keeper *keeper = argument;
	struct segment_header *header = segment_header(keeper->role->segment);

	fiber_watch(header, header->bytes);
	for (;;) {
		segment_await_stir(header);
		keeper_stir(keeper);
		for (int64_t end_ns = clock_now_ns() + DEAF_NS; clock_now_ns() < end_ns;)
			fiber_sleep(end_ns);
	}
}

/* PATH.sessions, from which a damaged state is made anew. */
static void save_sessions(void *argument) {
	struct keeper *keeper = argument;
	struct segment *segment = keeper->role->segment;
	struct diag diag;

	fiber_watch(segment_header(segment), segment_header(segment)->bytes);
	for (;;) {
		if (segment_renew_sessions(segment, &keeper->saved, clock_now_ns(), &diag) != 0)
			world_fail("save", "%s", diag.text);
		for (int64_t end_ns = clock_now_ns() + NS_PER_SECOND; clock_now_ns() < end_ns;)
			fiber_sleep(end_ns);
	}
}

/* As role/run/keeper.c: windows and hints have a thread each; where nothing is stirred they rest. */
static void turn_windows(void *argument) {
	struct keeper *keeper = argument;
	struct engine *engine = keeper->role->engine;
	struct segment_header *header = segment_header(keeper->role->segment);

	fiber_watch(header, header->bytes);
	for (;;) {
		const struct generation *generation = engine_pin(engine);
		int64_t next_ns = windows_turn(engine, generation, clock_now_ns());

		engine_unpin(engine, generation);
		take_rest(keeper, WINDOWS_TURN_NS, next_ns);
	}
}

static void turn_hints(void *argument) {
	struct keeper *keeper = argument;
	struct engine *engine = keeper->role->engine;
	struct segment_header *header = segment_header(keeper->role->segment);
	struct engine_hints *hints;
	struct diag diag;

	fiber_watch(header, header->bytes);
	MUST(engine_hints_open(&hints, engine, (gid_t)-1, NULL, &diag) == 0);
	for (;;) {
		if (engine_hints_turn(hints, clock_now_ns(), &diag) != 0)
			world_fail("hints", "%s", diag.text);
		take_rest(keeper, HINTS_TURN_NS, clock_now_ns() + engine_hints_rest_ns(hints,
		    clock_now_ns()));
	}
}

static void watch_gate(struct keeper *keeper) {
	struct engine *engine = keeper->role->engine;
	const struct generation *generation = engine_pin(engine);

	(void)gate_watch_look(&keeper->gate, engine, generation, clock_now_ns());
	engine_unpin(engine, generation);
}

/* Returns when the next one is due. */
static int64_t keeper_turn(struct keeper *keeper) {
	int64_t now_ns = clock_now_ns(), next_ns;

	if (!rest_is_lively(&keeper->rest, now_ns) &&
	    !segment_is_at_rest(segment_header(keeper->role->segment)))
		keeper_stir(keeper);
	next_ns = front_witness_turn(keeper->witness, !rest_is_lively(&keeper->rest, now_ns));
	if (rest_is_lively(&keeper->rest, now_ns))
		next_ns = TURN_NS;
	engine_keeper_heartbeat(keeper->role->engine, clock_now_ns(),
	    next_ns > KEEPER_BEAT_NS ? next_ns : KEEPER_BEAT_NS);
	watch_gate(keeper);
	if (now_ns - keeper->second_ns >= NS_PER_SECOND - TURN_NS / 2) {
		keeper->second_ns = now_ns;
		front_witness_second(keeper->witness, clock_now_ns());
		journal_manual_turn(keeper->journal, clock_now_ns(), clock_wall_ns());
	}
	return clock_now_ns() + next_ns;
}

static void carry_out(struct keeper *keeper) {
	struct role *role = keeper->role;
	struct message order;

	while (role_next(role, &order)) {
		if (order.request != NULL)
			orders_carry_out(role, &order);
		else if (order.pid == 0)
			events_fire_readable(keeper->base, NETLINK_FD);
		else if (segment_role_died(role->segment, order.place, order.pid))
			segment_count_some(role->segment, COUNTER_ROLE_RESTARTS, 1);
		free(order.request);
	}
}

static void open_journal(struct keeper *keeper) {
	struct engine *engine = keeper->role->engine;
	const struct generation *generation = engine_pin(engine);
	struct diag diag;

	MUST(journal_manual_open(&keeper->journal, engine, generation, &journal_tells,
	    clock_now_ns(), &diag) == 0);
	engine_unpin(engine, generation);
}

void keeper_main(struct role *role) {
	struct keeper *keeper = calloc(1, sizeof(*keeper));
	const int fd = NETLINK_FD;
	int64_t turn_ns = 0, timer_ns;
	struct diag diag;

	MUST(keeper != NULL);
	keeper->role = role;
	if (plan_has_mail(world_plan()))
		open_journal(keeper);
	engine_keeper_heartbeat(role->engine, clock_now_ns(), KEEPER_BEAT_NS);
	keeper->base = events_new();
	rest_init(&keeper->rest, clock_now_ns());
	MUST(front_witness_open(&keeper->witness, keeper->base, role->engine, &fd, 1, &diag) == 0);
	process_thread(await_stirs, keeper);
	process_thread(save_sessions, keeper);
	if (plan_has_mail(world_plan())) {
		process_thread(turn_windows, keeper);
		process_thread(turn_hints, keeper);
	}
	for (;;) {
		carry_out(keeper);
		events_fire_timers(keeper->base);
		if (keeper->stirred || clock_now_ns() >= turn_ns) {
			keeper->stirred = false;
			turn_ns = keeper_turn(keeper);
		}
		timer_ns = events_next_ns(keeper->base);
		if (role->inbox == NULL && !keeper->stirred)
			fiber_sleep(timer_ns < turn_ns ? timer_ns : turn_ns);
	}
}
