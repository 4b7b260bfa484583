/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Mail servers: their lanes, and their reloads, where nothing else takes mail out of a
 *          lane.
 * MODEL    A reload is asked for a moment after it would help, so that one is enough for a
 *          window that falls in steps.  The queue manager that comes then knows nothing of
 *          what is being delivered: mail of the queue is held from just before until that
 *          has ended (it would be refused, and its lanes suspended by Postfix itself).
 * BUGS     Other queues of the mail server are not held; for one delivery's time they may
 *          run twice their lanes.
 * ERRORS   One that is refused, fails or is never answered leaves all as it was.
 * THREADS  One.
 */
#include <string.h>

#include "base/clock.h"
#include "base/siphash.h"
#include "engine/hints/hints_internal.h"

#define RELOAD_AFTER_NS	NS_PER_SECOND
#define ANSWER_NS	(20 * NS_PER_SECOND)
#define RELOAD_EACH_NS	(62 * NS_PER_SECOND)	/* the supervisor allows one a minute */

/* --- lanes ------------------------------------------------------------------ */

/* The lanes of an earlier configuration, under the places of this one. */
static lane_set move_set(lane_set set, const struct lane_widths *from,
    const struct lane_widths *to) {
	lane_set moved = set & LANE_ORIGIN;

	for (uint32_t i = 0; i < from->count; i++)
		for (uint32_t j = 0; (set >> i & 1) != 0 && j < to->count; j++)
			if (from->width[i] == to->width[j])
				moved |= UINT32_C(1) << j;
	return moved;
}

static void move_queue(struct hint_queue *queue, const struct lane_widths *from,
    const struct lane_widths *to) {
	struct queue_lane lanes[LANE_WIDTHS_MAX + 1];

	memset(lanes, 0, sizeof(lanes));
	lanes[HINT_ORIGIN_LANE] = queue->lanes[HINT_ORIGIN_LANE];
	for (uint32_t i = 0; i < from->count; i++)
		for (uint32_t j = 0; j < to->count; j++)
			if (from->width[i] == to->width[j])
				lanes[j] = queue->lanes[i];
	memcpy(queue->lanes, lanes, sizeof(lanes));
	queue->given = move_set(queue->given, from, to);
	queue->used = move_set(queue->used, from, to);
	queue->waiting = move_set(queue->waiting, from, to);
	queue->canary = LANE_WIDTHS_MAX;
	queue->singles = 0;
	queue->dirty = true;
}

/* Another mail server has the number by now. */
static void drop_queues(struct engine_hints *hints, uint32_t mta) {
	for (uint32_t i = 0; i < hints->queue_count; i++) {
		struct hint_queue *queue = &hints->queues[i];

		if (queue->hash == 0 || queue->mta != mta)
			continue;
		hint_queue_end(hints, queue);
	}
}

static bool is_same_mta(struct engine_hints *hints, uint32_t number) {
	const char *name = number < hints->generation->mta_count ?
	    generation_text(hints->generation, hints->generation->mtas[number].name) : "";
	uint64_t hash = siphash13(&hints->engine->segment->header->key, name,
	    strlen(name)), before = hints->mtas[number].name;

	hints->mtas[number].name = hash;
	return hash == before;
}

void hint_queues_configure(struct engine_hints *hints) {
	for (uint32_t i = 0; i < GENERATION_MTAS_MAX; i++) {
		struct hint_mta *mta = &hints->mtas[i];
		const struct generation_mta *row = &hints->generation->mtas[i];
		struct lane_widths before = mta->widths;

		mta->widths = (struct lane_widths){ .count = 0 };
		mta->server = i;
		if (i < hints->generation->mta_count) {
			mta->server = generation_parent(hints->generation, i);
			mta->may_reload = row->may_reload != 0;
			mta->cohort_limit = row->site_cohorts / 1000.0;
			mta->backoff_ns = row->site_backoff_s * NS_PER_SECOND;
			mta->widths.origin = row->site_origin;
			mta->widths.keep_from = row->cache_from > UINT16_MAX ? UINT16_MAX :
			    (uint16_t)row->cache_from;
			for (uint32_t j = 0; j < row->lane_count; j++)
				if ((row->site_lanes >> j & 1) != 0)
					mta->widths.width[mta->widths.count++] =
					    row->lanes[j];
		}
		if (!is_same_mta(hints, i))
			drop_queues(hints, i);
		for (uint32_t j = 0; j < hints->queue_count; j++)
			if (hints->queues[j].hash != 0 && hints->queues[j].mta == i)
				move_queue(&hints->queues[j], &before, &mta->widths);
	}
}

/* --- reloads ---------------------------------------------------------------------- */

void hint_queue_want_reload(struct hint_mta *mta, struct hint_queue *queue,
    struct lane_choice *choice, int64_t now_ns) {
	int64_t at_ns;

	if (queue->reloading) {
		if (mta->wants_reload || mta->reloading)
			choice->give = queue->given;
		else if (queue->used != 0)
			choice->give = 0;
		else
			queue->reloading = false;
		return;
	}
	if (!choice->reload || !mta->may_reload || mta->reloading) {
		queue->reload_ns = 0;
		return;
	}
	if (queue->reload_ns == 0)
		queue->reload_ns = now_ns;
	at_ns = queue->reload_ns + RELOAD_AFTER_NS;
	if (at_ns < mta->reload_next_ns)
		at_ns = mta->reload_next_ns;
	if (now_ns < at_ns) {
		hint_queue_wait(queue, at_ns);
		return;
	}
	mta->wants_reload = queue->reloading = true;
}

static unsigned server_of(const struct engine_hints *hints, const struct hint_queue *queue) {
	return hints->mtas[queue->mta].server;
}

static void end_reloading(struct engine_hints *hints, unsigned mta) {
	for (uint32_t i = 0; i < hints->queue_count; i++)
		if (server_of(hints, &hints->queues[i]) == mta && hints->queues[i].reloading) {
			hints->queues[i].reloading = false;
			hints->queues[i].dirty = true;
		}
}

void engine_hints_reloaded(struct engine_hints *hints, unsigned mta, bool done,
    int64_t now_ns) {
	if (mta >= GENERATION_MTAS_MAX)
		return;
	hints->mtas[mta].reloading = false;
	if (!done)
		end_reloading(hints, mta);
	for (uint32_t i = 0; i < hints->queue_count; i++) {
		struct hint_queue *queue = &hints->queues[i];

		if (queue->hash == 0 || server_of(hints, queue) != mta)
			continue;
		queue->dirty = true;
		queue->reload_ns = 0;
		if (!done)
			continue;
		/* all that waited is on its new way; what was being delivered goes on; no
		 * lane is suspended any more */
		for (uint32_t j = 0; j < HINT_ORIGIN_LANE; j++)
			queue->lanes[j].blocked_ns = 0;
		if (queue->reloading)
			hint_queue_give(queue, 0, now_ns);
		queue->waiting &= queue->given;
		queue->canary = LANE_WIDTHS_MAX;
		queue->singles = 0;
		for (uint32_t j = 0; j <= HINT_ORIGIN_LANE; j++)
			if (((queue->used & ~queue->given) >> j & 1) != 0)
				queue->lanes[j].moved_ns = now_ns;
	}
}

void hint_queues_reload(struct engine_hints *hints) {
	for (unsigned i = 0; i < hints->generation->mta_count; i++) {
		struct hint_mta *mta = &hints->mtas[i];

		if (mta->reloading && hints->now_ns >= mta->answer_ns)
			engine_hints_reloaded(hints, i, false, hints->now_ns);
		if (!mta->wants_reload)
			continue;
		mta->wants_reload = false;
		mta->answer_ns = hints->now_ns + ANSWER_NS;
		mta->reloading = hints->calls.reload != NULL &&
		    hints->calls.reload(hints->calls.context, i, hints->generation->number);
		mta->reload_next_ns = hints->now_ns + (mta->reloading ? RELOAD_EACH_NS :
		    RELOAD_AFTER_NS);
		if (!mta->reloading)
			end_reloading(hints, i);
	}
}
