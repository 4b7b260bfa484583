/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Queues that are in use: which there are, by which window each runs.
 * MODEL    Queues that share a window are chained.
 *          Domains that the site sends to one next hop have a queue in common, and each a
 *          window of its own: the queue runs by the least of those that changed last
 *          (hints_tell.c).
 * ERRORS   A queue that cannot be followed, for want of memory or as there are too many,
 *          is told as if nothing were in use.
 * THREADS  One.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/siphash.h"
#include "engine/hints/hints_internal.h"

#define QUEUES_MAX	65536

/* --- queues in use --------------------------------------------------------------------- */

struct hint_share *hint_share_of(struct engine_hints *hints, uint64_t owner) {
	uint32_t at = map_index(&hints->share_of, owner);

	return at == NO_INDEX ? NULL : &hints->shares[at];
}

static bool grow_shares(struct engine_hints *hints) {
	uint32_t size = hints->share_size == 0 ? 64 : 2 * hints->share_size;
	struct hint_share *grown;

	if (hints->share_count < hints->share_size)
		return true;
	grown = reallocarray(hints->shares, size, sizeof(*grown));
	if (grown == NULL)
		return false;
	hints->shares = grown;
	hints->share_size = size;
	return true;
}

static struct hint_share *make_share(struct engine_hints *hints, uint64_t owner) {
	uint32_t at = hints->share_free;

	if (at == NO_INDEX && !grow_shares(hints))
		return NULL;
	if (at == NO_INDEX)
		at = hints->share_count;
	if (!map_set_index(&hints->share_of, owner, at))
		return NULL;
	if (at == hints->share_count)
		hints->share_count++;
	else
		hints->share_free = hints->shares[at].first;
	hints->shares[at] = (struct hint_share){ .first = NO_INDEX };
	return &hints->shares[at];
}

static bool join_share(struct engine_hints *hints, struct hint_queue *queue) {
	struct hint_share *share = hint_share_of(hints, queue->owner_hash);

	if (share == NULL)
		share = make_share(hints, queue->owner_hash);
	if (share == NULL)
		return false;
	queue->next_of_owner = share->first;
	share->first = (uint32_t)(queue - hints->queues);
	return true;
}

static void leave_share(struct engine_hints *hints, const struct hint_queue *queue) {
	struct hint_share *share = hint_share_of(hints, queue->owner_hash);
	uint32_t at = (uint32_t)(queue - hints->queues), *link;

	if (share == NULL)
		return;
	for (link = &share->first; *link != NO_INDEX && *link != at;)
		link = &hints->queues[*link].next_of_owner;
	if (*link == at)
		*link = queue->next_of_owner;
	if (share->first != NO_INDEX)
		return;
	map_remove_hash(&hints->share_of, queue->owner_hash);
	share->first = hints->share_free;
	hints->share_free = (uint32_t)(share - hints->shares);
}

struct hint_queue *hint_queue_find(const struct engine_hints *hints, uint64_t hash) {
	uint32_t at = map_index(&hints->active, hash);

	return at == NO_INDEX ? NULL : &hints->queues[at];
}

static struct hint_queue *take_place(struct engine_hints *hints) {
	struct hint_queue *grown;
	uint32_t at = hints->queue_free;

	if (at != NO_INDEX) {
		hints->queue_free = hints->queues[at].next_of_owner;
		return &hints->queues[at];
	}
	if (hints->queue_count == hints->queue_size) {
		uint32_t size = hints->queue_size == 0 ? 64 : 2 * hints->queue_size;

		if (size > QUEUES_MAX)
			return NULL;
		grown = reallocarray(hints->queues, size, sizeof(*grown));
		if (grown == NULL)
			return NULL;
		hints->queues = grown;
		hints->queue_size = size;
	}
	return &hints->queues[hints->queue_count++];
}

static void give_place(struct engine_hints *hints, struct hint_queue *queue) {
	queue->hash = 0;
	queue->next_of_owner = hints->queue_free;
	hints->queue_free = (uint32_t)(queue - hints->queues);
}

void hint_queue_end(struct engine_hints *hints, struct hint_queue *queue) {
	map_remove_hash(&hints->active, queue->hash);
	leave_share(hints, queue);
	give_place(hints, queue);
}

static struct hint_queue *begin(struct engine_hints *hints, const struct hint_key *key,
    const struct window_owner *owner, uint64_t owner_hash) {
	struct hint_queue *queue = take_place(hints);

	if (queue == NULL)
		return NULL;
	*queue = (struct hint_queue){ .hash = key->queue, .owner = *owner,
		.owner_hash = owner_hash, .group = hint_key_class(key), .mta = key->mta,
		.dirty = true,
		.canary = LANE_WIDTHS_MAX, .due_ns = INT64_MAX };
	if (!join_share(hints, queue)) {
		give_place(hints, queue);
		return NULL;
	}
	if (!map_set_index(&hints->active, key->queue, (uint32_t)(queue - hints->queues))) {
		leave_share(hints, queue);
		give_place(hints, queue);
		return NULL;
	}
	return queue;
}

void hint_queue_begin(struct engine_hints *hints, const struct hint_key *key,
    const struct window_owner *owner, lane_set given, int64_t seen_ns) {
	struct hint_queue *queue = hint_queue_find(hints, key->queue);

	if (queue == NULL)
		queue = begin(hints, key, owner, key->owner);
	if (queue == NULL || (queue->given & ~LANE_ORIGIN) != 0)
		return;
	queue->given = given;
	queue->used |= given;
	for (uint32_t i = 0; i <= HINT_ORIGIN_LANE; i++)
		if ((given >> i & 1) != 0)
			queue->lanes[i].last_ns = seen_ns;
	queue->last_ns = seen_ns > queue->last_ns ? seen_ns : queue->last_ns;
}

void hint_queue_adopt(struct engine_hints *hints, const struct hint_key *key,
    const struct window_owner *owner) {
	struct hint_queue *queue = hint_queue_find(hints, key->queue);

	if (queue == NULL)
		return;
	queue->dirty = true;
	if (queue->owner_hash == key->owner)
		return;
	leave_share(hints, queue);
	queue->owner = *owner;
	queue->owner_hash = key->owner;
	if (!join_share(hints, queue))
		queue->next_of_owner = NO_INDEX;
}

void hint_queues_touch(struct engine_hints *hints, uint64_t owner) {
	const struct hint_share *share = hint_share_of(hints, owner);

	for (uint32_t at = share == NULL ? NO_INDEX : share->first; at != NO_INDEX;
	     at = hints->queues[at].next_of_owner)
		hints->queues[at].dirty = true;
}

void hint_queues_free(struct engine_hints *hints) {
	free(hints->queues);
	free(hints->shares);
	map_free(&hints->active);
	map_free(&hints->share_of);
}

struct hint_queue *hint_queue_begin_heard(struct engine_hints *hints, const struct hint_key *key) {
	const struct lane_widths *widths = &hints->mtas[key->mta].widths;
	struct window_owner owner;
	struct window_view view;
	struct hint_queue *queue;

	if (!hint_key_owner(hints, key, &owner))
		return NULL;
	queue = begin(hints, key, &owner, key->owner);
	if (queue == NULL)
		return NULL;
	(void)windows_view(hints->engine, hints->generation, &owner, hints->now_ns, &view);
	hint_queue_idle(hints, key->mta, &owner, &view, queue->group, &queue->said);
	/* by those of a new window, rather than of one that has failed since; the result tells */
	if (queue->said.kind == HINTS_LANE && view.fail_cohorts <= 0)
		for (uint32_t i = 0; i < queue->said.lanes.count; i++)
			queue->given |= UINT32_C(1) << queue->said.lanes.lane[i];
	else if (queue->said.kind == HINTS_NOTHING && widths->count > 0)
		queue->given = LANE_ORIGIN;
	queue->used = queue->given;
	/* other domains may have the same next hop */
	hint_keys_tell_queue(hints, queue->hash, &queue->said);
	return queue;
}

/* --- mail servers ------------------------------------------------------------------ */

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
