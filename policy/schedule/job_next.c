/* SPDX-License-Identifier: ISC */
/*
 * Which entry is next (job.h, job_board.h).
 *
 * Model: the current job may be preempted by a candidate, once an entry; then the first job
 * of the list, from there on, that has an entry with a place.  On the way lie only jobs that
 * are passed (blockers from then on), but for those with something to look at: recipients
 * that can be read, or nothing left in memory.
 */
#include "policy/schedule/job_internal.h"

#define PEERS_TRIED	16

/* --- entries ----------------------------------------------------------------------- */

/* Recipients of the first entry that waits. */
static uint32_t first_entry(const struct job_board *board, const struct job_peer *peer) {
	uint32_t limit = job_transport_at(board, job_at(board, peer->job)->transport)->
	    settings.destination_recipient_limit;

	if (peer->waiting == 1)
		return peer->recipients;
	if (peer->first > 0)
		return peer->first;
	/* Limits can change: each that is left has one at least. */
	if (limit == 0)
		limit = (peer->recipients + peer->waiting - 1) / peer->waiting;
	return limit < peer->recipients - (peer->waiting - 1) ? limit :
	    peer->recipients - (peer->waiting - 1);
}

/* Entries leave what waits, and are delivered. */
static void select_counted(struct job_board *board, uint32_t i, uint32_t entries,
    uint32_t recipients, uint32_t places, struct job_taken *out) {
	struct job_peer *peer = job_peer_at(board, i);
	struct job *job = job_at(board, peer->job);
	struct job_queue *queue = job_queue_at(board, peer->queue);
	struct job_transport *transport = job_transport_at(board, job->transport);

	if (peer->waiting == 0) {
		if (job_is_blocker(board, job))
			queue->tag = transport->epoch;
		job_order_remove(board, i);
		peer->last = 0;
	}
	peer->running += entries;
	peer->running_recipients += recipients;
	queue->waiting -= entries;
	queue->recipients -= recipients;
	queue->running += entries;
	queue->running_recipients += recipients;
	queue->busy += places;
	transport->busy += places;
	job->selected += entries;
	job->slots_available += (int32_t)entries;
	job->slots_used += (int32_t)entries;
	if (transport->cache_current != peer->job)
		job_forget_candidate(transport);
	if (peer->waiting == 0 && job_queue_has_place(queue))
		job_order_fetch(board, queue);
	/* whoever has nothing left leaves the list at once */
	if (job_waits(job) || job_message_at(board, job->message)->more)
		job_slots_refresh(board, peer->job);
	*out = (struct job_taken){ job->message, peer->queue, i, entries, recipients, places };
}

/* Entries of a peer are selected. */
static void select_entries(struct job_board *board, uint32_t i, uint32_t entries, uint32_t places,
    struct job_taken *out) {
	struct job_peer *peer = job_peer_at(board, i);
	uint32_t recipients = 0;

	for (uint32_t n = 0; n < entries; n++) {
		uint32_t entry = first_entry(board, peer);

		recipients += entry;
		peer->recipients -= entry;
		peer->first = 0;
		peer->waiting--;
	}
	select_counted(board, i, entries, recipients, places, out);
}

/* What is left fills as few entries as it can. */
uint32_t job_peer_less(struct job_board *board, uint32_t i, uint32_t recipients) {
	struct job_peer *peer = job_peer_at(board, i);
	uint32_t limit = job_transport_at(board, job_at(board, peer->job)->transport)->
	    settings.destination_recipient_limit;
	uint32_t before = peer->waiting, left = peer->recipients - recipients, entries;

	entries = left == 0 ? 0 : limit == 0 ? 1 : (left - 1) / limit + 1;
	/* the limit was another one when they came */
	entries = entries < before || left == 0 ? entries : before;
	peer->recipients = left;
	peer->waiting = entries;
	peer->first = 0;
	peer->last = entries == 0 ? 0 : limit == 0 || (uint64_t)(entries - 1) * limit >= left ?
	    left : left - (entries - 1) * limit;
	return before - entries;
}

/* --- preemption ---------------------------------------------------------------------- */

/* qmgr's walk ends at a job of the list's ground level whose age is no more than the best
 * score so far: it takes all behind for younger.  Where an older one stands behind, the best up
 * to there counts. */
static uint32_t best_before_end(const struct job_board *board, uint32_t number,
    uint32_t current, uint32_t slots, int64_t now_s) {
	struct job_best best = job_slots_best(board, number, current, slots, now_s, JOB_NONE);
	uint32_t from = job_at(board, current)->slot + 1, slot;

	while (best.job != JOB_NONE && (slot = job_slots_flag(board, number,
	    JOB_SLOT_DISORDER, from)) < job_at(board, best.job)->slot) {
		const struct job *job = job_at(board, job_slots_who(board, number, slot));
		int64_t age = now_s - board->base_s -
		    job_message_at(board, job->message)->queued + 1;

		from = slot + 1;
		if (job->children == JOB_NONE && !job_is_blocker(board, job)) {
			struct job_best before = job_slots_best(board, number, current, slots,
			    now_s, slot);

			if ((double)age <= before.score)
				return before.job;
		}
	}
	return best.job;
}

/* The best job to preempt the current one, now or as soon as it has the slots. */
static uint32_t find_candidate(const struct job_board *board, const struct job_transport *transport,
    uint32_t current, int64_t now_s) {
	const struct job *job = job_at(board, current);
	int32_t slots = ((int32_t)(job->read - job->selected) + job->slots_available) /
	    (int32_t)transport->settings.delivery_slot_cost;

	if (transport->cache_current == current &&
	    (transport->cache_s == now_s || transport->cache == JOB_NONE))
		return transport->cache;
	if (slots <= 0)
		return JOB_NONE;
	return best_before_end(board, job->transport, current, (uint32_t)slots, now_s);
}

/* Can the job be preempted at all? */
static bool is_preemptible(const struct job_board *board, const struct job_transport *transport,
    const struct job *job) {
	const struct job_settings *settings = &transport->settings;

	return settings->delivery_slot_cost >= 2 && job->slots_available > 0 &&
	    job_most(board, job) >= (uint64_t)settings->minimum_delivery_slots *
	    settings->delivery_slot_cost;
}

/* Are there slots enough, with discount and loan? */
static bool has_slots(const struct job_board *board, const struct job_transport *transport,
    const struct job *current, const struct job *job) {
	const struct job_settings *settings = &transport->settings;
	int64_t saved = current->slots_available / (int32_t)settings->delivery_slot_cost;
	int64_t expected = (int64_t)job_most(board, job) - job->selected;

	return (saved + settings->delivery_slot_loan) * 100 >=
	    expected * (100 - settings->delivery_slot_discount);
}

static uint32_t preempt_current(struct job_board *board, struct job_transport *transport,
    uint32_t current, int64_t now_s) {
	uint32_t i;

	if (!is_preemptible(board, transport, job_at(board, current)))
		return current;
	i = find_candidate(board, transport, current, now_s);
	if (transport->cache_current != current || transport->cache != JOB_NONE) {
		transport->cache = i;
		transport->cache_current = current;
		transport->cache_s = now_s;
	}
	if (i == JOB_NONE ||
	    !has_slots(board, transport, job_at(board, current), job_at(board, i)))
		return current;
	job_push(board, current, i);
	return i;
}

/* --- selection ------------------------------------------------------------------------- */

static bool can_go(const struct job_board *board, const struct job_peer *peer) {
	return peer->waiting > 0 && job_queue_has_place(job_queue_at(board, peer->queue));
}

/* The peer whose turn it is among those with a place, of the first `tries`. */
static uint32_t peer_in_turn(const struct job_board *board, const struct job *job, uint32_t tries) {
	uint32_t i = job->peers;

	for (tries = tries < job->peer_count ? tries : job->peer_count; tries > 0; tries--) {
		const struct job_peer *peer = job_peer_at(board, i);

		if (can_go(board, peer))
			return i;
		i = peer->behind;
	}
	return JOB_NONE;
}

static bool has_place(const struct job_board *board, uint32_t i) {
	return i != JOB_NONE &&
	    peer_in_turn(board, job_at(board, i), PEERS_TRIED) != JOB_NONE;
}

/* The first job of the list that has an entry with a place: the given one is where the
 * search starts. */
static uint32_t first_with_place(struct job_board *board, uint32_t number, uint32_t from) {
	if (has_place(board, from) && !job_is_blocker(board, job_at(board, from)))
		return from;
	return job_heap_first(board, number);
}

static void select_from(struct job_board *board, struct job_transport *transport, uint32_t i,
    uint32_t peer, struct job_taken *out) {
	struct job *job = job_at(board, i);

	job_pass(board, transport, job->transport, job->slot);
	job->peers = job_peer_at(board, peer)->behind;
	select_entries(board, peer, 1, 1, out);
	transport->current = i;
	if (!job_waits(job) && !job_message_at(board, job->message)->more)
		job_retire(board, i);
}

static void read_more(struct job_board *board, const struct job_reader *reader, uint32_t number) {
	struct job_message *message = job_message_at(board, number);
	uint32_t most = pool_promise(board, number, pool_room_slots(message));

	if (most == 0)
		return;
	message->reading = 1;
	pool_changed(board, number);
	reader->read(reader->context, number, most);
}

/* Looks at a job that can be read for, or has nothing in memory.  Its peer in turn. */
static uint32_t look_at_job(struct job_board *board, const struct job_reader *reader, uint32_t i,
    int64_t now_s) {
	const struct job *job = job_at(board, i);
	uint32_t peer = JOB_NONE;
	bool reads = reader != NULL && reader->read != NULL;

	if (reads && pool_refill_due(board, i, now_s))
		read_more(board, reader, job->message);
	if (job_waits(job))
		peer = peer_in_turn(board, job, UINT32_MAX);
	if (peer == JOB_NONE && reads &&
	    pool_can_refill(board, job_message_at(board, job->message))) {
		read_more(board, reader, job->message);
		if (job_waits(job))
			peer = peer_in_turn(board, job, UINT32_MAX);
	}
	return peer;
}

/* The first job from a slot on that has something to look at, and is no blocker: an exception
 * before those that were not passed. */
static uint32_t first_to_look_at(const struct job_board *board, uint32_t number, uint32_t slot) {
	uint32_t passed = job_transport_at(board, number)->passed;

	for (; slot < passed; slot++) {
		slot = job_slots_flag(board, number, JOB_SLOT_EXCEPT, slot);
		if (slot >= passed)
			break;
		if ((job_level(board, number, 0)[slot].who & JOB_SLOT_LOOK) != 0)
			return job_slots_who(board, number, slot);
	}
	slot = job_slots_flag(board, number, JOB_SLOT_LOOK, slot == JOB_NONE ? passed : slot);
	return slot == JOB_NONE ? JOB_NONE : job_slots_who(board, number, slot);
}

/* From the job `i` of the list on. */
static bool walk_list(struct job_board *board, uint32_t number, uint32_t i,
    const struct job_reader *reader, int64_t now_s, struct job_taken *out) {
	struct job_transport *transport = job_transport_at(board, number);

	while (i != JOB_NONE) {
		uint32_t slot = job_at(board, i)->slot;
		uint32_t special = first_to_look_at(board, number, slot), behind, peer;
		uint32_t first = first_with_place(board, number, i);

		if (special == JOB_NONE || (first != JOB_NONE &&
		    job_at(board, first)->slot < job_at(board, special)->slot)) {
			if (first == JOB_NONE)
				break;
			select_from(board, transport, first, peer_in_turn(board,
			    job_at(board, first), UINT32_MAX), out);
			return true;
		}
		behind = job_at(board, special)->behind;
		job_pass(board, transport, number, job_at(board, special)->slot);
		peer = look_at_job(board, reader, special, now_s);
		if (peer != JOB_NONE) {
			select_from(board, transport, special, peer, out);
			return true;
		}
		if (!job_waits(job_at(board, special)))
			job_retire(board, special);
		i = behind;
	}
	if (transport->last != JOB_NONE)
		job_pass(board, transport, number, job_at(board, transport->last)->slot + 1);
	transport->current = JOB_NONE;
	return false;
}

static bool has_processes(const struct job_transport *transport) {
	return transport->settings.process_limit == 0 ||
	    transport->busy < transport->settings.process_limit;
}

static bool next_of(struct job_board *board, uint32_t number, const struct job_reader *reader,
    int64_t now_s, struct job_taken *out) {
	struct job_transport *transport = job_transport_at(board, number);
	uint32_t i = transport->current;

	if (i == JOB_NONE || !has_processes(transport) ||
	    first_with_place(board, number, i) == JOB_NONE)
		return false;
	return walk_list(board, number, preempt_current(board, transport, i, now_s), reader, now_s,
	    out);
}

bool job_next(struct job_board *board, uint32_t transport, const struct job_reader *reader,
    int64_t now_ns, struct job_taken *out) {
	uint32_t before = board->turn_last;
	int64_t now_s = job_seconds(now_ns);

	if (transport != JOB_NONE)
		return next_of(board, transport, reader, now_s, out);
	if (before == JOB_NONE)
		return false;
	for (uint32_t left = board->transports.used; left > 0; left--) {
		uint32_t i = job_transport_at(board, before)->turn_next;

		if (next_of(board, i, reader, now_s, out)) {
			/* As qmgr turns its list: those that were passed come behind. */
			board->turn_last = i;
			return true;
		}
		before = i;
	}
	return false;
}

bool job_take(struct job_board *board, uint32_t message, uint32_t queue, uint32_t entries,
    uint32_t places, struct job_taken *out) {
	uint32_t i = job_find(board, message, job_queue_at(board, queue)->transport);
	uint32_t peer = i == JOB_NONE ? JOB_NONE : job_peer_find(board, i, queue);
	uint32_t waiting = peer == JOB_NONE ? 0 : job_peer_at(board, peer)->waiting;

	if (waiting == 0 || entries == 0)
		return false;
	select_entries(board, peer, entries < waiting ? entries : waiting, places, out);
	if (!job_waits(job_at(board, i)) && !job_message_at(board, message)->more)
		job_retire(board, i);
	return true;
}

bool job_take_recipients(struct job_board *board, uint32_t message, uint32_t queue,
    uint32_t recipients, uint32_t places, struct job_taken *out) {
	uint32_t i = job_find(board, message, job_queue_at(board, queue)->transport);
	uint32_t peer = i == JOB_NONE ? JOB_NONE : job_peer_find(board, i, queue);
	uint32_t waiting = peer == JOB_NONE ? 0 : job_peer_at(board, peer)->recipients;

	recipients = recipients < waiting ? recipients : waiting;
	if (recipients == 0)
		return false;
	select_counted(board, peer, job_peer_less(board, peer, recipients), recipients, places,
	    out);
	if (!job_waits(job_at(board, i)) && !job_message_at(board, message)->more)
		job_retire(board, i);
	return true;
}

/* --- what would be next ------------------------------------------------------------------ */

bool job_peek(struct job_board *board, uint32_t number, int64_t now_ns, struct job_would *out) {
	const struct job_transport *transport = job_transport_at(board, number);
	uint32_t current = transport->current, i = JOB_NONE, first;

	*out = (struct job_would){ JOB_NONE, JOB_NONE, JOB_NONE, false };
	if (current == JOB_NONE || !has_processes(transport))
		return false;
	first = first_with_place(board, number, current);
	if (first == JOB_NONE)
		return false;
	if (is_preemptible(board, transport, job_at(board, current)))
		i = find_candidate(board, transport, current, job_seconds(now_ns));
	if (i != JOB_NONE) {
		out->candidate = job_at(board, i)->message;
		out->preempts = has_slots(board, transport, job_at(board, current),
		    job_at(board, i)) &&
		    peer_in_turn(board, job_at(board, i), UINT32_MAX) != JOB_NONE;
	}
	first = out->preempts ? i : first;
	out->message = job_at(board, first)->message;
	out->queue = job_peer_at(board, peer_in_turn(board, job_at(board, first),
	    UINT32_MAX))->queue;
	return true;
}
