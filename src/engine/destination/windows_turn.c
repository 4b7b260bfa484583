/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What time does to windows.
 * MODEL    Whoever looks at a window sees it as of now, so nothing waits for this: it
 *          writes down what time has brought, and tells of it; and it frees the places
 *          of processes that died, some at a time.
 * ERRORS   What cannot be had is left to the next time.
 * THREADS  One for each engine; several processes would do no harm.
 */
#include <string.h>

#include "base/clock.h"
#include "base/process.h"
#include "engine/destination/windows_internal.h"
#include "segment/destination/flights.h"
#include "segment/destination/recipients.h"

#define DUE_MAX		512
#define EXPIRE_NS	(10 * NS_PER_SECOND)
/* Of flights, a turn: places that are looked at, and processes that are asked after (a
 * look into /proc each).  The rest have their turns. */
#define LOOKS_MOST	8192u
#define ASKS_MOST	512u
#define LOOKS_AT_ONCE	64u
#define FLIGHTS_NS	(500 * NS_PER_MS)

struct due {
	struct window_owner owners[DUE_MAX];
	unsigned count;
	const struct generation *generation;
	int64_t now_ns;
	int64_t next_ns;	/* the first of the others is due then */
};

/* When time changes it; INT64_MAX: never. */
static int64_t due_ns(const struct window *window) {
	bool stopped = window->state == WINDOW_DEAD || window->state == WINDOW_HELD;
	int64_t due_ns = stopped ? window->until_ns : INT64_MAX;

	return window->canary_out != 0 && window->canary_ns < due_ns ? window->canary_ns : due_ns;
}

static void add_due(struct due *due, const struct destination_window *one) {
	int64_t at_ns = due_ns(&one->state.window);

	if (!one->state.begun)
		return;
	if (at_ns > due->now_ns || due->count == DUE_MAX) {
		due->next_ns = at_ns < due->next_ns ? at_ns : due->next_ns;
		return;
	}
	if (windows_owner_named(due->generation, one->name, strlen(one->name),
	    &due->owners[due->count]))
		due->count++;
}

static void turn(struct engine *engine, const struct generation *generation,
    const struct window_owner *owner, int64_t now_ns) {
	struct window_change change;
	struct window_rules rules;
	struct state_lock lock;

	windows_rules(generation, windows_mta(engine, generation, owner),
	    owner, &rules);
	if (windows_lock(&lock, engine, owner, &rules, now_ns, STATES_KNOWN_ONLY, &change) !=
	    STATES_HELD)
		return;
	states_store(&lock);
	states_unlock(&lock);
	windows_report_back(engine, generation, owner, &lock.state, &rules.settings, &change,
	    now_ns);
}

/* Places of one process lie near to each other. */
struct asked {
	struct flight_process last;
	bool alive;
	unsigned asks;
};

static bool is_alive(void *context, const struct flight_process *process) {
	struct asked *asked = context;

	if (asked->asks > 0 && asked->last.pid == process->pid &&
	    asked->last.start_ticks == process->start_ticks)
		return asked->alive;
	asked->asks++;
	asked->last = *process;
	asked->alive = !process_is_over(process->pid, process->start_ticks);
	return asked->alive;
}

/* Is there anything to look after? */
static bool look_after_flights(struct engine *engine, int64_t now_ns) {
	uint32_t *next = &engine->windows_time.next_flight;
	struct asked asked = { .asks = 0 };
	uint32_t used, size;

	for (uint32_t looks = 0; looks < LOOKS_MOST && asked.asks < ASKS_MOST &&
	     looks < engine->segment->header->flight_count; looks += LOOKS_AT_ONCE)
		(void)flights_sweep(engine->segment, next, LOOKS_AT_ONCE, is_alive, &asked,
		    now_ns);
	flights_used(engine->segment, &used, &size);
	return used > 0;
}

int64_t windows_turn(struct engine *engine, const struct generation *generation, int64_t now_ns) {
	struct windows_time *time = &engine->windows_time;
	struct due due = { .count = 0, .generation = generation, .now_ns = now_ns,
		.next_ns = now_ns + EXPIRE_NS };
	struct learned_follower at = { .word = 0 };
	struct destination_window timed;

	if (look_after_flights(engine, now_ns))
		due.next_ns = now_ns + FLIGHTS_NS;
	if (now_ns - time->expired_ns >= EXPIRE_NS) {
		(void)recipients_expire(engine->segment, now_ns);
		time->expired_ns = now_ns;
	}
	while (states_next(engine->segment, STATES_TIMED, &at, &timed))
		add_due(&due, &timed);
	for (unsigned i = 0; i < due.count; i++)
		turn(engine, generation, &due.owners[i], now_ns);
	return due.next_ns;
}
