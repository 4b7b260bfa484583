/* SPDX-License-Identifier: ISC */
/*
 * Places in the scheduler's list, and the search for a candidate (job_board.h).
 *
 * Model: an array with holes, in the list's order, and a tree of maxima over it.  A job that
 * comes last is put two slots behind the one before; another takes a slot from the hole
 * before its place, and where there is none, the jobs of the smallest window round it that is
 * sparse enough are spread evenly (amortised, log^2 of the list's length in the worst case).
 * Who gets a lower slot lowers the keys of its queues in the heap; order never changes.
 *
 * The search visits the most promising child first: no job under a node can have a better
 * score than (its greatest age) / (its least size).
 */
#include "policy/schedule/job_internal.h"

#define SATURATED	(UINT16_MAX - 1)

static uint16_t complement(uint32_t entries) {
	return (uint16_t)(UINT16_MAX - (entries < SATURATED ? entries : SATURATED));
}

/* The maxima of a node's children. */
static struct job_slot combined(const struct job_slot *child) {
	struct job_slot sum = { 0, 0, 0, 0 };

	for (unsigned i = 0; i < JOB_FANOUT; i++) {
		sum.older = child[i].older > sum.older ? child[i].older : sum.older;
		sum.fewer = child[i].fewer > sum.fewer ? child[i].fewer : sum.fewer;
		sum.shorter = child[i].shorter > sum.shorter ? child[i].shorter : sum.shorter;
		sum.who |= child[i].who;
	}
	sum.who &= JOB_SLOT_FLAGS;
	return sum;
}

/* Do the children, of which one has fallen and none has risen, still come to what their node
 * says?  Most jobs are alike: the first few tell. */
static bool still_holds(const struct job_slot *node, const struct job_slot *child) {
	bool older = false, fewer = false, shorter = false;
	uint32_t flags = 0;

	for (unsigned i = 0; i < JOB_FANOUT; i++) {
		older |= child[i].older == node->older;
		fewer |= child[i].fewer == node->fewer;
		shorter |= child[i].shorter == node->shorter;
		flags |= child[i].who & JOB_SLOT_FLAGS;
		if (older && fewer && shorter && flags == node->who)
			return true;
	}
	return false;
}

static bool same_slots(const struct job_slot *a, const struct job_slot *b) {
	return a->older == b->older && a->fewer == b->fewer && a->shorter == b->shorter &&
	    a->who == b->who;
}

/* A leaf changes. */
static void put_leaf(struct job_board *board, uint32_t transport, uint32_t slot,
    struct job_slot now) {
	struct job_transport *owner = job_transport_at(board, transport);
	struct job_slot *leaf = &job_level(board, transport, 0)[slot];

	for (unsigned i = 0; ((leaf->who ^ now.who) & JOB_SLOT_FLAGS) != 0 && i < 4; i++) {
		owner->flagged[i] += now.who >> 28 >> i & 1;
		owner->flagged[i] -= leaf->who >> 28 >> i & 1;
	}
	*leaf = now;
}

/* The nodes above a leaf that is no less than it was, in anything. */
static void raise_above(struct job_board *board, uint32_t transport, uint32_t slot,
    const struct job_slot *leaf) {
	for (uint32_t level = 1; level < board->level_count; level++) {
		struct job_slot *node, was;

		slot /= JOB_FANOUT;
		node = &job_level(board, transport, level)[slot];
		was = *node;
		node->older = leaf->older > was.older ? leaf->older : was.older;
		node->fewer = leaf->fewer > was.fewer ? leaf->fewer : was.fewer;
		node->shorter = leaf->shorter > was.shorter ? leaf->shorter : was.shorter;
		node->who |= leaf->who & JOB_SLOT_FLAGS;
		if (same_slots(node, &was))
			return;
	}
}

/* Changes a leaf, and the nodes above it. */
static void change_leaf(struct job_board *board, uint32_t transport, uint32_t slot,
    struct job_slot now) {
	struct job_slot was = job_level(board, transport, 0)[slot];
	bool rises;

	if (same_slots(&was, &now))
		return;
	put_leaf(board, transport, slot, now);
	if (now.older >= was.older && now.fewer >= was.fewer && now.shorter >= was.shorter &&
	    (was.who & ~now.who & JOB_SLOT_FLAGS) == 0) {
		raise_above(board, transport, slot, &now);
		return;
	}
	rises = now.older > was.older || now.fewer > was.fewer || now.shorter > was.shorter ||
	    (now.who & ~was.who & JOB_SLOT_FLAGS) != 0;
	for (uint32_t level = 1; level < board->level_count; level++) {
		const struct job_slot *below = job_level(board, transport, level - 1);
		struct job_slot *node, sum;

		slot /= JOB_FANOUT;
		node = &job_level(board, transport, level)[slot];
		if (!rises && still_holds(node, below + (size_t)slot * JOB_FANOUT))
			return;
		sum = combined(below + (size_t)slot * JOB_FANOUT);
		if (same_slots(node, &sum))
			return;
		*node = sum;
	}
}

static void empty_leaves(struct job_board *board, uint32_t transport, uint32_t from, uint32_t to) {
	static const struct job_slot none = { 0, 0, 0, 0 };
	const struct job_slot *leaf = job_level(board, transport, 0);

	for (; from < to; from++)
		if (leaf[from].who != 0)
			put_leaf(board, transport, from, none);
}

/* All nodes above the leaves from `from` to before `to`. */
static void climb_all(struct job_board *board, uint32_t transport, uint32_t from, uint32_t to) {
	for (uint32_t level = 1; level < board->level_count; level++) {
		const struct job_slot *below = job_level(board, transport, level - 1);
		struct job_slot *nodes = job_level(board, transport, level);

		from /= JOB_FANOUT;
		to = (to + JOB_FANOUT - 1) / JOB_FANOUT;
		for (uint32_t i = from; i < to; i++)
			nodes[i] = combined(below + (size_t)i * JOB_FANOUT);
	}
}

static struct job_slot leaf_of(const struct job_board *board, uint32_t i) {
	const struct job *job = job_at(board, i);
	const struct job_message *message = job_message_at(board, job->message);
	uint32_t most = job->read + message->unread;
	struct job_slot leaf = { .older = ~message->queued, .fewer = 0, .shorter = 0,
		.who = i + 1 };

	if (job->children == JOB_NONE && most > job->selected) {
		leaf.fewer = complement(most);
		leaf.shorter = complement(most - job->selected);
	}
	if (!job_waits(job) || pool_can_refill(board, message))
		leaf.who |= JOB_SLOT_LOOK;
	if (job->exception)
		leaf.who |= JOB_SLOT_EXCEPT;
	if (job->disorder)
		leaf.who |= JOB_SLOT_DISORDER;
	return leaf;
}

void job_slots_refresh(struct job_board *board, uint32_t i) {
	const struct job *job = job_at(board, i);

	if (job->level >= 0)
		change_leaf(board, job->transport, job->slot, leaf_of(board, i));
}

void job_slots_clear(struct job_board *board, uint32_t i) {
	static const struct job_slot none = { 0, 0, 0, 0 };
	const struct job *job = job_at(board, i);

	change_leaf(board, job->transport, job->slot, none);
}

/* --- places ---------------------------------------------------------------------- */

/* The first job from a slot on, before another slot. */
static uint32_t first_job(const struct job_board *board, uint32_t transport, uint32_t from,
    uint32_t to) {
	const struct job_slot *leaf = job_level(board, transport, 0);

	while (from < to && leaf[from].who == 0)
		from++;
	return from < to ? job_slots_who(board, transport, from) : JOB_NONE;
}

/* A job has moved forward: what waits for it is known to wait from there. */
static void lower_keys(struct job_board *board, const struct job *job) {
	uint32_t left = job->peer_count;

	for (uint32_t i = job->peers; left > 0; left--) {
		const struct job_peer *peer = job_peer_at(board, i);

		if (peer->waiting > 0)
			job_heap_lower(board, peer->queue, job->slot);
		i = peer->behind;
	}
}

/* Gives `count` jobs of the list, from `start` on, slots spread over from .. to - 1; but
 * for `fresh` they have some there, which are cleared. */
static void spread_jobs(struct job_board *board, uint32_t transport, uint32_t start, uint32_t count,
    uint32_t from, uint32_t to, uint32_t fresh) {
	uint64_t room = to - from, number = 0;

	empty_leaves(board, transport, from, to);
	for (uint32_t i = start; number < count; number++) {
		struct job *job = job_at(board, i);
		uint32_t slot = from + (uint32_t)((number * room + room / 2) / count);
		bool forward = slot < job->slot && i != fresh;

		job->slot = slot;
		put_leaf(board, transport, slot, leaf_of(board, i));
		if (forward)
			lower_keys(board, job);
		i = job->behind;
	}
	climb_all(board, transport, from, to);
}

/* `passed` stands before the same job when slots from .. to - 1 are dealt out anew. */
struct boundary {
	uint32_t inside, job;
};

static struct boundary boundary_keep(const struct job_board *board, uint32_t transport,
    uint32_t from, uint32_t to) {
	uint32_t passed = job_transport_at(board, transport)->passed;
	struct boundary kept = { passed > from && passed < to, JOB_NONE };

	if (kept.inside)
		kept.job = first_job(board, transport, passed, to);
	return kept;
}

static void boundary_put(struct job_board *board, uint32_t transport, struct boundary kept,
    uint32_t to) {
	if (kept.inside)
		job_transport_at(board, transport)->passed = kept.job == JOB_NONE ? to :
		    job_at(board, kept.job)->slot;
}

/* No slot is free between the job's neighbours: spreads the jobs of a window round it. */
static void make_room(struct job_board *board, uint32_t i) {
	struct job *job = job_at(board, i);
	uint32_t transport = job->transport, from = 0, to = board->slot_count, count = 0;
	const struct job_slot *leaf = job_level(board, transport, 0);
	uint32_t by = job_at(board, job->before != JOB_NONE ? job->before : job->behind)->slot;
	struct boundary kept;

	for (uint64_t size = 32; ; size *= 2) {
		from = size < board->slot_count ? by & ~((uint32_t)size - 1) : 0;
		to = size < board->slot_count - from ? from + (uint32_t)size : board->slot_count;
		count = 1;
		for (uint32_t slot = from; slot < to; slot++)
			count += leaf[slot].who != 0;
		/* Denser where it is small: neighbours of a big one have room afterwards. */
		if (size >= board->slot_count || (uint64_t)count * 8 <=
		    (uint64_t)(to - from) * (size <= 64 ? 6 : size <= 4096 ? 5 : 4))
			break;
	}
	kept = boundary_keep(board, transport, from, to);
	spread_jobs(board, transport,
	    job->before == JOB_NONE ? i : first_job(board, transport, from, to),
	    count, from, to, i);
	boundary_put(board, transport, kept, to);
}

/* The end of the slots is reached: all begin at the start again, two apart. */
static void compact_jobs(struct job_board *board, uint32_t i) {
	uint32_t number = job_at(board, i)->transport, slot = JOB_SLOTS_START(board);
	struct job_transport *transport = job_transport_at(board, number);
	struct boundary kept = boundary_keep(board, number, 0, board->slot_count);
	uint32_t low = JOB_SLOTS_START(board), high = board->slot_count;

	if (transport->first != i)
		low = job_at(board, transport->first)->slot < low ?
		    job_at(board, transport->first)->slot : low;
	empty_leaves(board, number, low, high);
	for (uint32_t each = transport->first; each != JOB_NONE; slot += 2) {
		struct job *job = job_at(board, each);

		job->slot = slot;
		put_leaf(board, number, slot, leaf_of(board, each));
		each = job->behind;
	}
	climb_all(board, number, low, high);
	job_heap_zero(board, number);
	boundary_put(board, number, kept, slot);
}

void job_slots_place(struct job_board *board, uint32_t i) {
	struct job *job = job_at(board, i);
	const struct job *before = job->before == JOB_NONE ? NULL : job_at(board, job->before);
	const struct job *behind = job->behind == JOB_NONE ? NULL : job_at(board, job->behind);

	if (behind == NULL) {
		uint32_t slot = before == NULL ? JOB_SLOTS_START(board) : before->slot + 2;

		if (slot >= board->slot_count) {
			compact_jobs(board, i);
			return;
		}
		job->slot = slot;
	} else if (before == NULL) {
		if (behind->slot == 0) {
			make_room(board, i);
			return;
		}
		job->slot = behind->slot - (behind->slot > 1 ? 2 : 1);
	} else {
		if (behind->slot - before->slot < 2) {
			make_room(board, i);
			return;
		}
		job->slot = before->slot + (behind->slot - before->slot) / 2;
	}
	change_leaf(board, job->transport, job->slot, leaf_of(board, i));
}

/* --- searches ---------------------------------------------------------------------- */

uint32_t job_slots_flag(const struct job_board *board, uint32_t transport, uint32_t flag,
    uint32_t from) {
	const struct job_transport *owner = job_transport_at(board, transport);
	uint32_t level = 0;

	if (owner->flagged[__builtin_ctz(flag) - 28] == 0)
		return JOB_NONE;
	for (;; level++) {
		const struct job_slot *nodes;
		uint32_t end = (from | (JOB_FANOUT - 1)) + 1;

		if (level == board->level_count || from >= board->level_size[level])
			return JOB_NONE;
		nodes = job_level(board, transport, level);
		while (from < end && (nodes[from].who & flag) == 0)
			from++;
		if (from < end)
			break;
		from = end / JOB_FANOUT;
	}
	while (level-- > 0) {
		const struct job_slot *nodes = job_level(board, transport, level);

		for (from *= JOB_FANOUT; (nodes[from].who & flag) == 0; )
			from++;
	}
	return from;
}

uint32_t job_slots_older(const struct job_board *board, uint32_t transport, uint32_t queued,
    uint32_t below) {
	uint32_t level, at = below;

	/* Up, leftwards, until a node with one as old; then down, the rightmost first. */
	for (level = 0; level < board->level_count; level++) {
		const struct job_slot *nodes = job_level(board, transport, level);
		uint32_t begin = at == 0 ? 0 : (at - 1) / JOB_FANOUT * JOB_FANOUT;

		while (at > begin && nodes[at - 1].older < ~queued)
			at--;
		if (at > begin)
			break;
		at = begin / JOB_FANOUT;
	}
	if (level == board->level_count)
		return JOB_NONE;
	at--;
	while (level-- > 0) {
		const struct job_slot *nodes = job_level(board, transport, level);

		for (at = at * JOB_FANOUT + JOB_FANOUT - 1; nodes[at].older < ~queued; )
			at--;
	}
	return job_slots_who(board, transport, at);
}

bool job_slots_longer(const struct job_board *board, uint32_t transport, uint32_t queued,
    uint32_t slot) {
	uint32_t at = slot + 1;

	for (uint32_t level = 0; level < board->level_count; level++) {
		const struct job_slot *nodes = job_level(board, transport, level);

		for (; at % JOB_FANOUT != 0; at++)
			if (at < board->level_size[level] && nodes[at].older > ~queued)
				return true;
		at /= JOB_FANOUT;
	}
	return false;
}

struct search {
	const struct job_board *board;
	uint32_t transport;
	uint32_t from;		/* slots before it were passed */
	uint32_t to;		/* the last */
	uint32_t current;
	uint16_t shorter;	/* complement of the entries at most */
	uint32_t slots;
	int64_t end;		/* now + 1, since the base */
	double best;
	uint32_t best_slot;
};

static void search_leaf(struct search *search, uint32_t slot) {
	const struct job_slot *leaf = &job_level(search->board, search->transport, 0)[slot];
	uint32_t i = (leaf->who & ~JOB_SLOT_FLAGS) - 1, most = UINT16_MAX - (uint32_t)leaf->fewer;
	uint32_t left = UINT16_MAX - (uint32_t)leaf->shorter;
	double score;

	if (leaf->fewer == 0 || i == search->current)
		return;
	if (most == SATURATED || left == SATURATED) {
		const struct job *job = job_at(search->board, i);

		most = job_most(search->board, job);
		left = most - job->selected;
	}
	score = (double)(search->end - (int64_t)~leaf->older) / most;
	if (left > search->slots || score < search->best ||
	    (score == search->best && slot > search->best_slot) || !(score > 0))
		return;
	search->best = score;
	search->best_slot = slot;
}

/* The best of a node's children, and the score of the second. */
struct ranked {
	double best, second;
	unsigned who;
};

static inline void ranked_add(struct ranked *ranked, unsigned i, double score) {
	bool is_best = score > ranked->best;
	double other = is_best ? ranked->best : score;

	ranked->second = other > ranked->second ? other : ranked->second;
	ranked->who = is_best ? i : ranked->who;
	ranked->best = is_best ? score : ranked->best;
}

/* The children of a node, numbered on their level from `first`. */
static void search_nodes(struct search *search, uint32_t level, uint32_t first) {
	const struct job_slot *child = job_level(search->board, search->transport, level) + first;
	struct ranked ranked = { -1, -1, 0 };
	double score[JOB_FANOUT];
	uint64_t width = UINT64_C(1) << (JOB_FANOUT_BITS * level);

	/* what was passed is older than the rest: it would be looked at first, each time */
	for (unsigned i = 0; i < JOB_FANOUT; i++) {
		uint64_t slot = (first + i) * width;

		score[i] = slot + width <= search->from || slot > search->to ||
		    child[i].shorter < search->shorter || child[i].fewer == 0 ? -1 :
		    (double)(search->end - (int64_t)~child[i].older) /
		    (UINT16_MAX - child[i].fewer);
		ranked_add(&ranked, i, score[i]);
	}
	while (ranked.best >= 0 && ranked.best >= search->best) {
		uint64_t slot = (first + ranked.who) * width;

		if (ranked.best > search->best || slot <= search->best_slot) {
			if (level == 0)
				search_leaf(search, (uint32_t)slot);
			else
				search_nodes(search, level - 1,
				    (first + ranked.who) * JOB_FANOUT);
		}
		/* mostly no other is worth a visit */
		if (ranked.second < 0 || ranked.second < search->best)
			return;
		score[ranked.who] = -1;
		ranked = (struct ranked){ -1, -1, 0 };
		for (unsigned i = 0; i < JOB_FANOUT; i++)
			ranked_add(&ranked, i, score[i]);
	}
}

struct job_best job_slots_best(const struct job_board *board, uint32_t transport,
    uint32_t current, uint32_t slots, int64_t now_s, uint32_t to) {
	struct search search = { .board = board, .transport = transport,
		.from = job_transport_at(board, transport)->passed, .to = to, .current = current,
		.shorter = complement(slots), .slots = slots, .end = now_s - board->base_s + 1,
		.best = 0, .best_slot = JOB_NONE };

	search_nodes(&search, board->level_count - 1, 0);
	for (uint32_t slot = job_slots_flag(board, transport, JOB_SLOT_EXCEPT, 0);
	    slot != JOB_NONE && slot <= to;
	    slot = job_slots_flag(board, transport, JOB_SLOT_EXCEPT, slot + 1))
		search_leaf(&search, slot);
	return (struct job_best){ search.best_slot == JOB_NONE ? JOB_NONE :
	    job_slots_who(board, transport, search.best_slot), search.best };
}
