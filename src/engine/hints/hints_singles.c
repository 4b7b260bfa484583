/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Messages that go alone: canaries above a ceiling, and single messages that fill a window
 *          where no lanes do.
 * MODEL    The hints file offers one under a serial; a process of postern-lookup that has not seen
 *          that gives the next message to its lane.
 * ERRORS   One that nobody took is given up.
 * THREADS  One.
 */
#include "base/clock.h"
#include "engine/hints/hints_internal.h"

#define SINGLE_NS	(40 * NS_PER_MS)	/* between two of them: a turn */
#define SINGLES_NS	(10 * NS_PER_SECOND)	/* and three deliveries: they are lost */
#define COUNTED_NS	(60 * NS_PER_SECOND)
#define TURN_ASKED_NS	(200 * NS_PER_MS)
#define CANARY_NS	(120 * NS_PER_SECOND)

void hint_queue_end_canary(struct hint_queue *queue, const struct window_view *view,
    int64_t now_ns) {
	if (queue->canary == LANE_WIDTHS_MAX)
		return;
	if (view->canary_out && now_ns < queue->canary_ns) {
		hint_queue_wait(queue, queue->canary_ns);
		if (now_ns < queue->offered_ns)
			hint_queue_wait(queue, queue->offered_ns);
	} else {
		queue->canary = LANE_WIDTHS_MAX;
	}
}

/* One that nobody took, as a process of postern-lookup went, would be counted for ever
 * where there is always another one out: now and then they are let end, and counted from
 * none.  False: they are ending. */
static bool count_singles(struct hint_queue *queue, int64_t now_ns) {
	int64_t last_ns = queue->single_ns > queue->single_result_ns ? queue->single_ns :
	    queue->single_result_ns;
	int64_t ended_ns = last_ns + NS_PER_SECOND +
	    hint_queue_longest_ns(queue, now_ns) / 2 * 3;

	if (queue->singles > 0 && now_ns >= queue->singles_ns)
		queue->singles = 0;
	if (queue->singles == 0) {
		queue->counted_ns = now_ns;
		return true;
	}
	if (now_ns < queue->counted_ns + COUNTED_NS)
		return true;
	hint_queue_wait(queue, ended_ns);
	if (now_ns < ended_ns)
		return false;
	queue->singles = 0;
	queue->counted_ns = now_ns;
	return true;
}

/* The next of the single messages that fill the window where no lanes do. */
void hint_queue_send_single(const struct engine_hints *hints, struct hint_queue *queue,
    struct lane_now *now) {
	int64_t longest = hint_queue_longest_ns(queue, hints->now_ns);
	int64_t from_ns = queue->single_ns + SINGLE_NS;
	uint32_t lane;

	if (!count_singles(queue, hints->now_ns))
		return;
	now->singles = queue->singles;
	if (lane_singles(&hints->mtas[queue->mta].widths, now, queue->given, &lane) == 0)
		return;
	if (from_ns < queue->single_from_ns)
		from_ns = queue->single_from_ns;
	hint_queue_wait(queue, from_ns);
	if (hints->now_ns < from_ns)
		return;
	queue->single = now->single = lane;
	queue->singles = ++now->singles;
	queue->single_serial++;
	queue->single_ns = hints->now_ns;
	queue->singles_ns = hints->now_ns + SINGLES_NS + 3 * longest;
	queue->due_ns = hints->now_ns;		/* and the next one in the next turn */
}

/* A canary, if the window waits for one and it would be one. */
void hint_queue_send_canary(struct engine_hints *hints, struct hint_queue *queue,
    const struct window_view *view, const struct lane_now *now) {
	const struct lane_widths *widths = &hints->mtas[queue->mta].widths;
	uint32_t lane;

	if (queue->canary != LANE_WIDTHS_MAX || view->canary_out ||
	    (!view->canary_due && !view->canary_waits))
		return;
	/* single messages need not be on their way: the log tells, if late */
	if (now->singles > 0 && view->in_flight < now->allowed)
		return;
	lane = lane_canary(widths, now, queue->given);
	if (lane != LANE_WIDTHS_MAX && view->canary_waits) {
		shared_ask_canary(hints->engine->segment, queue->owner_hash, hints->now_ns);
		hint_queue_wait(queue, hints->now_ns + TURN_ASKED_NS);
		return;
	}
	if (lane == LANE_WIDTHS_MAX || !windows_issue_canary(hints->engine, hints->generation,
		&queue->owner, queue->mta, widths->width[lane], hints->now_ns))
		return;
	queue->canary = lane;
	queue->issued_ns = hints->now_ns;
	queue->serial = (queue->serial + 1) & 127;
	queue->offered_ns = hints->now_ns + HINT_OFFER_NS;
	queue->canary_ns = hints->now_ns + CANARY_NS;
	hint_queue_wait(queue, queue->offered_ns);
}
