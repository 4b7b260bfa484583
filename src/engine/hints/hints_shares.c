/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Ceilings that a cluster divides, as far as lanes use them.
 * MODEL    The share binds as a window does (windows_view).  The cluster role has to know how
 *          much of it may be in use: lanes that mail is given to, those that are left and not
 *          empty, and single messages; all of it as of a share that this thread has seen.
 * ERRORS   None.
 * THREADS  One.
 */
#include "engine/hints/hints_internal.h"
#include "segment/destination/states.h"
#include "segment/destination/shared.h"

struct telling {
	struct engine_hints *hints;
	bool anew;		/* the lease has ended, or begun */
};

static uint32_t lanes_of(const struct engine_hints *hints, const struct hint_queue *queue,
    lane_set set) {
	const struct lane_widths *widths = &hints->mtas[queue->mta].widths;
	uint32_t sum = lane_sum(widths, set & ~LANE_ORIGIN);

	if ((set & LANE_ORIGIN) != 0)
		sum += widths->origin != 0 ? widths->origin : hint_queue_busy(queue, hints->now_ns);
	return sum;
}

uint32_t hint_queue_share(struct engine_hints *hints, const struct hint_queue *queue,
    uint32_t window) {
	struct hint_share *shared = hint_share_of(hints, queue->owner_hash);
	struct destination_window state;
	uint32_t rest, waiting;

	if (shared == NULL)
		return window;
	if (shared->made_ns != hints->now_ns) {
		shared->made_ns = hints->now_ns;
		shared->rest = shared->waiting = 0;
		for (uint32_t at = shared->first; at != NO_INDEX;
		     at = hints->queues[at].next_of_owner) {
			if (hints->queues[at].waiting != 0)
				shared->waiting++;
			else
				shared->rest += hint_queue_busy(&hints->queues[at], hints->now_ns);
		}
		/* places of processes that ask for themselves */
		if (states_find(hints->engine->segment, queue->owner.name,
			strlen(queue->owner.name), &state))
			shared->rest += state.state.in_flight;
	}
	rest = shared->rest;
	waiting = shared->waiting;
	if (queue->waiting == 0) {
		uint32_t busy = hint_queue_busy(queue, hints->now_ns);

		rest -= busy < rest ? busy : rest;
		waiting++;
	}
	return lane_share(window, rest, waiting);
}

/* Mail of keys that run by this window, and of their queues, is told anew. */
static void renew(const struct telling *telling, uint64_t owner) {
	struct engine_hints *hints = telling->hints;
	uint32_t at = map_index(&hints->by_owner, owner);
	struct window_owner found;

	if (at != NO_INDEX && hint_key_owner(hints, &hints->keys[at], &found))
		hint_keys_renew(hints, found.name);
}

static void tell_share(void *context, uint64_t owner, const struct shared_seen *seen) {
	const struct telling *telling = context;
	struct engine_hints *hints = telling->hints;
	const struct hint_share *share = hint_share_of(hints, owner);
	uint32_t used = 0, given = 0, wanted = 0, serial = seen->serial;

	if (telling->anew)
		renew(telling, owner);
	for (uint32_t at = share == NULL ? NO_INDEX : share->first; at != NO_INDEX;
	     at = hints->queues[at].next_of_owner) {
		const struct hint_queue *queue = &hints->queues[at];

		used += lanes_of(hints, queue, queue->given | queue->used) + queue->singles;
		given += lanes_of(hints, queue, queue->given);
		wanted += queue->waiting != 0 ? UINT16_MAX :
		    hint_queue_busy(queue, hints->now_ns);
		if ((int32_t)(queue->share_serial - serial) < 0)
			serial = queue->share_serial;
	}
	for (uint32_t at = share == NULL ? NO_INDEX : share->first; at != NO_INDEX &&
	     given > shared_most(seen, hints->now_ns); at = hints->queues[at].next_of_owner)
		hints->queues[at].dirty = true;
	if (wanted > UINT16_MAX)
		wanted = UINT16_MAX;
	if (used != seen->lanes || wanted != seen->wanted || serial != seen->lanes_serial)
		shared_tell_lanes(hints->engine->segment, owner, used, wanted, serial);
}

void hint_shares_turn(struct engine_hints *hints) {
	const struct segment *segment = hints->engine->segment;
	struct telling telling = { .hints = hints };
	bool leased;

	if (!shared_is_used(segment))
		return;
	leased = hints->now_ns < shared_until(segment);
	telling.anew = leased != hints->leased;
	hints->leased = leased;
	shared_each(segment, tell_share, &telling);
}
