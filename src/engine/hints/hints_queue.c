/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Queues that are in use: which there are, by which window each runs, and what results say
 *          of them.
 * MODEL    The log's results tell which lanes have mail of a queue, whether more of it waits
 *          there, how long deliveries take, and which lanes Postfix or the site will have no
 *          more of for a while.  Queues that share a window are chained.
 *          Domains that the site sends to one next hop have a queue in common, and each a
 *          window of its own: the queue runs by the least of those that changed last
 *          (hints_keys.c).
 * ERRORS   A queue that cannot be followed, for want of memory or as there are too many,
 *          is told as if nothing were in use.  A result that was missed counts for all lanes
 *          that were used.
 * THREADS  One.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "engine/hints/hints_internal.h"

#define QUEUES_MAX	65536
/* A lane's mail that waits is told as suspended so long after, and what goes there yet. */
#define BLOCKED_NS	(3 * NS_PER_SECOND)
/* After a single message that failed; twice that after the next, and so on. */
#define FAILED_NS	NS_PER_SECOND
#define FAILED_DOUBLINGS	3u
#define REFUSED_NS	(10 * NS_PER_SECOND)

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
	queue->untold = true;
	return queue;
}

/* --- results ---------------------------------------------------------------------- */

void hint_queue_note_time(struct hint_queue *queue, const struct lane_use *use) {
	int64_t took_ns = use->took_ms * NS_PER_MS;
	int64_t span = use->ended_ns / HINT_LONG_NS, second = use->ended_ns / NS_PER_SECOND;

	if (span != queue->span) {
		queue->longest_ns[1] = span == queue->span + 1 ? queue->longest_ns[0] : 0;
		queue->longest_ns[0] = 0;
		queue->span = span;
	}
	if (took_ns > queue->longest_ns[0])
		queue->longest_ns[0] = took_ns;
	if (second != queue->second) {
		queue->took_ms[1] = second == queue->second + 1 ? queue->took_ms[0] : 0;
		queue->took_ms[0] = 0;
		queue->second = second;
	}
	queue->took_ms[0] += use->took_ms;
}

int64_t hint_queue_longest_ns(const struct hint_queue *queue, int64_t now_ns) {
	/* spans begin only with results: old ones are not of late any more */
	int64_t ago = now_ns / HINT_LONG_NS - queue->span;
	int64_t longest_ns = ago > HINT_LONG_SPANS ? 0 : queue->longest_ns[0];

	return ago + 1 > HINT_LONG_SPANS || queue->longest_ns[1] < longest_ns ? longest_ns :
	    queue->longest_ns[1];
}

static void block(struct hint_queue *queue, struct queue_lane *lane, int64_t now_ns,
    int64_t backoff_ns) {
	lane->failed_cohorts = 0;
	lane->blocked_ns = now_ns + backoff_ns;
	queue->blocked_ns = now_ns;
}

/* The queue manager counts failed cohorts of each lane, and suspends it for a while: its
 * own safety, which the lane of 1 does not have. */
static void note_failure(const struct hint_mta *mta, struct hint_queue *queue,
    struct queue_lane *lane, uint16_t width, const struct lane_use *use) {
	if (!use->failed) {
		int64_t revived_ns = lane_drained_ns(use->ended_ns, 0,
		    hint_queue_longest_ns(queue, use->ended_ns));

		/* A success of before revives it, narrow.  When that mail has gone, and no
		 * other came, its queue is made anew, as wide as ever. */
		lane->failed_cohorts = 0;
		if (lane->blocked_ns > revived_ns)
			lane->blocked_ns = revived_ns;
		return;
	}
	lane->failed_ns = use->ended_ns;
	lane->failed_cohorts += lane_failure(width);
	if (width > 1 && mta->cohort_limit > 0 &&
	    lane->failed_cohorts + 1e-6 >= mta->cohort_limit)
		block(queue, lane, use->ended_ns, mta->backoff_ns);
}

/* Has mail of another lane been accepted since? */
static bool others_accepted(const struct hint_queue *queue, const struct queue_lane *lane,
    int64_t since_ns) {
	for (uint32_t i = 0; i <= HINT_ORIGIN_LANE; i++)
		if (&queue->lanes[i] != lane && queue->lanes[i].accepted_ns >= since_ns)
			return true;
	return false;
}

/* What tells of the lane itself needs no level, which a log has late and rounded. */
static void note_row(struct hint_queue *queue, struct queue_lane *lane, uint16_t width,
    const struct lane_use *use) {
	if (!use->failed) {
		lane->accepted_ns = use->ended_ns;
		lane->row = 0;
		lane->refused_ns = 0;
		return;
	}
	if (lane->row == 0)
		lane->row_ns = use->ended_ns;
	if (lane->row < UINT32_MAX)
		lane->row++;
	if (lane_is_refused(width, lane->row, others_accepted(queue, lane, lane->row_ns)))
		lane->refused_ns = use->ended_ns + REFUSED_NS;
}

void hint_lane_note_result(const struct hint_mta *mta, struct hint_queue *queue,
    struct queue_lane *lane, uint16_t width, const struct lane_use *use) {
	note_failure(mta, queue, lane, width, use);
	note_row(queue, lane, width, use);
}

/* There was no place for a single message: the next one waits, too. */
void hint_queue_note_single(struct hint_queue *queue, const struct lane_use *use) {
	queue->singles--;
	queue->single_result_ns = use->ended_ns;
	if (!use->failed) {
		queue->single_row = 0;
		return;
	}
	queue->single_from_ns = use->ended_ns + (FAILED_NS << queue->single_row);
	if (queue->single_row < FAILED_DOUBLINGS)
		queue->single_row++;
}

/* The queue manager tells of mail that it did not try, as it suspended the lane: the one
 * that has failed most, or last, where none is known that it may be. */
void hint_queue_note_suspension(const struct hint_mta *mta, struct hint_queue *queue,
    const struct lane_use *use) {
	struct queue_lane *worst = NULL;

	if (queue->blocked_ns != 0 && use->ended_ns - queue->blocked_ns < BLOCKED_NS)
		return;
	for (uint32_t i = 0; i < mta->widths.count; i++) {
		struct queue_lane *lane = &queue->lanes[i];

		if (mta->widths.width[i] > 1 && lane->blocked_ns <= use->ended_ns &&
		    lane->failed_ns > use->ended_ns - mta->backoff_ns && (worst == NULL ||
			lane->failed_cohorts > worst->failed_cohorts ||
			(lane->failed_cohorts == worst->failed_cohorts &&
			    lane->failed_ns > worst->failed_ns)))
			worst = lane;
	}
	if (worst != NULL)
		block(queue, worst, use->ended_ns, mta->backoff_ns);
}

void hint_queues_missed(struct engine_hints *hints) {
	for (uint32_t i = 0; i < hints->queue_count; i++) {
		struct hint_queue *queue = &hints->queues[i];

		for (uint32_t j = 0; queue->hash != 0 && j <= HINT_ORIGIN_LANE; j++)
			if ((queue->used >> j & 1) != 0)
				queue->lanes[j].last_ns = hints->now_ns;
	}
}
