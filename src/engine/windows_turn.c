/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What time does to windows.
 * MODEL    Whoever looks at a window sees it as of now, so nothing waits for this: it
 *          writes down what time has brought, and tells of it; and it frees the places
 *          of processes that died.
 * ERRORS   What cannot be had is left to the next time.
 * THREADS  One for each engine; several processes would do no harm.
 */
#include <string.h>

#include "base/clock.h"
#include "base/process.h"
#include "engine/windows_internal.h"
#include "segment/flights.h"
#include "segment/recipients.h"

#define DUE_MAX		512
#define EXPIRE_NS	(10 * NS_PER_SECOND)

struct due {
	struct window_owner owners[DUE_MAX];
	unsigned count;
	const struct generation *generation;
	int64_t now_ns;
};

static void look(void *context, const struct destination_window *one)
{
	struct due *due = context;
	const struct window *window = &one->state.window;
	bool stopped = window->state == WINDOW_DEAD || window->state == WINDOW_HELD;

	if (!one->state.begun || due->count == DUE_MAX ||
	    ((!stopped || window->until_ns > due->now_ns) &&
	     (window->canary_out == 0 || window->canary_ns > due->now_ns)))
		return;
	if (windows_owner_named(due->generation, one->name, strlen(one->name),
	    &due->owners[due->count]))
		due->count++;
}

static void turn(struct engine *engine, const struct generation *generation,
    const struct window_owner *owner, int64_t now_ns)
{
	struct window_change change;
	struct window_rules rules;
	struct state_lock lock;

	windows_rules(generation, windows_mta(generation, windows_seen_bits(engine, owner)),
	    owner, &rules);
	if (windows_lock(&lock, engine, owner, &rules, now_ns, STATES_KNOWN_ONLY, &change) !=
	    STATES_HELD)
		return;
	states_store(&lock);
	states_unlock(&lock);
	windows_report_back(engine, generation, owner, &lock.state, &rules.settings, &change,
	    now_ns);
}

static bool is_alive(void *context, const struct flight_process *process)
{
	(void)context;
	return !process_is_over(process->pid, process->start_ticks);
}

void windows_turn(struct engine *engine, const struct generation *generation, int64_t now_ns)
{
	struct windows_time *time = &engine->windows_time;
	struct due due = { .count = 0, .generation = generation, .now_ns = now_ns };
	uint32_t used, size;

	flights_used_in(engine->segment->header, engine->segment->header, &used, &size);
	if (used > 0)
		(void)flights_sweep(engine->segment, is_alive, NULL, now_ns);
	if (now_ns - time->expired_ns >= EXPIRE_NS) {
		(void)recipients_expire(engine->segment, now_ns);
		time->expired_ns = now_ns;
	}
	(void)states_each_timed(engine->segment, look, &due);
	for (unsigned i = 0; i < due.count; i++)
		turn(engine, generation, &due.owners[i], now_ns);
}
