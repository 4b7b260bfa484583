/* SPDX-License-Identifier: ISC */
/*
 * What waits at a queue, in the order of the scheduler's list; the unread jobs by age; and which
 * queue with a place has the first waiting job (job_board.h).
 *
 * Model: what comes in the list's order is put behind a queue's row (a list whose first has
 * no valid link to the left); what does not, into its tree (a treap).  The heap holds queues
 * that have a place, by keys that are too small at worst: a key is put right when it comes to
 * the top, and so is a queue that has no place any more.
 */
#include "policy/schedule/job_internal.h"

/* --- trees ----------------------------------------------------------------------- */

static struct job_link *link_at(char *links, size_t stride, uint32_t i) {
	return (struct job_link *)(void *)(links + stride * i);
}

/* Who stands higher in a tree: as if by chance. */
static uint32_t rank(uint32_t i) {
	i = (i ^ i >> 16) * 0x7feb352d;
	i = (i ^ i >> 15) * 0x846ca68b;
	return i ^ i >> 16;
}

/* Puts `new` where `old` stands under `up`. */
static void replace_child(char *links, size_t stride, uint32_t *root, uint32_t up, uint32_t old,
    uint32_t new) {
	if (up == JOB_NONE)
		*root = new;
	else if (link_at(links, stride, up)->left == old)
		link_at(links, stride, up)->left = new;
	else
		link_at(links, stride, up)->right = new;
	if (new != JOB_NONE)
		link_at(links, stride, new)->up = up;
}

/* Turns a node with its parent. */
static void rotate_up(char *links, size_t stride, uint32_t *root, uint32_t node) {
	struct job_link *own = link_at(links, stride, node);
	uint32_t up = own->up, inner;
	struct job_link *parent = link_at(links, stride, up);

	replace_child(links, stride, root, parent->up, up, node);
	if (parent->left == node) {
		inner = own->right;
		own->right = up;
		parent->left = inner;
	} else {
		inner = own->left;
		own->left = up;
		parent->right = inner;
	}
	if (inner != JOB_NONE)
		link_at(links, stride, inner)->up = up;
	parent->up = node;
}

static void tree_insert(char *links, size_t stride, uint32_t *root, uint32_t pred, uint32_t node) {
	struct job_link *own = link_at(links, stride, node);
	uint32_t at = pred == JOB_NONE ? *root : link_at(links, stride, pred)->right;

	own->left = own->right = JOB_NONE;
	own->up = pred;
	if (at == JOB_NONE) {
		if (pred == JOB_NONE)
			*root = node;
		else
			link_at(links, stride, pred)->right = node;
	} else {
		while (link_at(links, stride, at)->left != JOB_NONE)
			at = link_at(links, stride, at)->left;
		link_at(links, stride, at)->left = node;
		own->up = at;
	}
	while (own->up != JOB_NONE && rank(node) < rank(own->up))
		rotate_up(links, stride, root, node);
}

static void tree_remove(char *links, size_t stride, uint32_t *root, uint32_t node) {
	struct job_link *own = link_at(links, stride, node);

	while (own->left != JOB_NONE && own->right != JOB_NONE)
		rotate_up(links, stride, root,
		    rank(own->left) < rank(own->right) ? own->left : own->right);
	replace_child(links, stride, root, own->up, node,
	    own->left != JOB_NONE ? own->left : own->right);
}

static uint32_t tree_next(char *links, size_t stride, uint32_t node) {
	uint32_t at = link_at(links, stride, node)->right;

	if (at != JOB_NONE) {
		while (link_at(links, stride, at)->left != JOB_NONE)
			at = link_at(links, stride, at)->left;
		return at;
	}
	for (at = link_at(links, stride, node)->up;
	    at != JOB_NONE && link_at(links, stride, at)->right == node;
	    at = link_at(links, stride, at)->up)
		node = at;
	return at;
}

/* --- jobs by age -------------------------------------------------------------------- */

static char *job_links(const struct job_board *board) {
	return (char *)&job_at(board, 0)->time;
}

static uint32_t queued_of(const struct job_board *board, uint32_t job) {
	return job_message_at(board, job_at(board, job)->message)->queued;
}

static bool is_younger(const struct job_board *board, uint32_t i, uint32_t than) {
	uint32_t own = queued_of(board, i), other = queued_of(board, than);

	return own != other ? own > other : job_at(board, i)->linked > job_at(board, than)->linked;
}

static void time_insert(struct job_board *board, uint32_t i, uint32_t *root) {
	uint32_t at = *root, pred = JOB_NONE;

	while (at != JOB_NONE) {
		if (is_younger(board, i, at)) {
			pred = at;
			at = job_at(board, at)->time.right;
		} else {
			at = job_at(board, at)->time.left;
		}
	}
	tree_insert(job_links(board), sizeof(struct job), root, pred, i);
}

void job_time_update(struct job_board *board, uint32_t i) {
	struct job *job = job_at(board, i);
	uint32_t *root = &job_transport_at(board, job->transport)->time_root;
	bool belongs = job->level >= 0 && job_message_at(board, job->message)->more;

	if (belongs && !job->timed)
		time_insert(board, i, root);
	else if (!belongs && job->timed)
		tree_remove(job_links(board), sizeof(struct job), root, i);
	job->timed = belongs;
}

uint32_t job_time_next(const struct job_board *board, uint32_t i) {
	uint32_t at = job_transport_at(board, job_at(board, i)->transport)->time_root;
	uint32_t next = JOB_NONE;

	while (at != JOB_NONE) {
		if (is_younger(board, at, i)) {
			next = at;
			at = job_at(board, at)->time.left;
		} else {
			at = job_at(board, at)->time.right;
		}
	}
	return next;
}

/* --- peers of a queue ------------------------------------------------------------------ */

static char *peer_links(const struct job_board *board) {
	return (char *)&job_peer_at(board, 0)->link;
}

static uint32_t slot_of(const struct job_board *board, uint32_t peer) {
	return job_at(board, job_peer_at(board, peer)->job)->slot;
}

/* The last in the queue's tree before a slot. */
static uint32_t tree_before(const struct job_board *board, const struct job_queue *queue,
    uint32_t slot) {
	uint32_t at = queue->tree, pred = JOB_NONE;

	while (at != JOB_NONE) {
		if (slot_of(board, at) < slot) {
			pred = at;
			at = job_peer_at(board, at)->link.right;
		} else {
			at = job_peer_at(board, at)->link.left;
		}
	}
	return pred;
}

static uint32_t tree_first(const struct job_board *board, const struct job_queue *queue) {
	uint32_t at = queue->tree;

	while (at != JOB_NONE && job_peer_at(board, at)->link.left != JOB_NONE)
		at = job_peer_at(board, at)->link.left;
	return at;
}

void job_order_insert(struct job_board *board, uint32_t i) {
	struct job_peer *peer = job_peer_at(board, i);
	struct job_queue *queue = job_queue_at(board, peer->queue);
	uint32_t slot = slot_of(board, i);

	queue->waiting_jobs++;
	if (queue->row_last != JOB_NONE && slot < slot_of(board, queue->row_last)) {
		peer->in = JOB_IN_TREE;
		tree_insert(peer_links(board), sizeof(struct job_peer), &queue->tree,
		    tree_before(board, queue, slot), i);
		return;
	}
	peer->in = JOB_IN_ROW;
	peer->link = (struct job_link){ queue->row_last, JOB_NONE, JOB_NONE };
	if (queue->row_last == JOB_NONE)
		queue->row_first = i;
	else
		job_peer_at(board, queue->row_last)->link.right = i;
	queue->row_last = i;
}

void job_order_remove(struct job_board *board, uint32_t i) {
	struct job_peer *peer = job_peer_at(board, i);
	struct job_queue *queue = job_queue_at(board, peer->queue);

	queue->waiting_jobs--;
	if (peer->in == JOB_IN_TREE) {
		tree_remove(peer_links(board), sizeof(struct job_peer), &queue->tree, i);
	} else if (queue->row_first == i) {
		queue->row_first = peer->link.right;
		if (queue->row_last == i)
			queue->row_last = JOB_NONE;
	} else {
		job_peer_at(board, peer->link.left)->link.right = peer->link.right;
		if (queue->row_last == i)
			queue->row_last = peer->link.left;
		else
			job_peer_at(board, peer->link.right)->link.left = peer->link.left;
	}
	peer->in = JOB_IN_NONE;
}

/* Whichever comes first of one of the row and one of the tree. */
static uint32_t earlier(const struct job_board *board, uint32_t row, uint32_t tree) {
	if (row == JOB_NONE || tree == JOB_NONE)
		return row == JOB_NONE ? tree : row;
	return slot_of(board, row) < slot_of(board, tree) ? row : tree;
}

uint32_t job_order_first(const struct job_board *board, uint32_t queue_number) {
	const struct job_queue *queue = job_queue_at(board, queue_number);

	if (queue->tree == JOB_NONE)
		return queue->row_first;
	return earlier(board, queue->row_first, tree_first(board, queue));
}

/* The first of the row behind a slot.  Who walks the queue looks at the row from where it
 * looked before. */
static uint32_t row_behind(const struct job_board *board, uint32_t number, uint32_t slot) {
	struct job_queue *queue = job_queue_at(board, number);
	uint32_t row = queue->row_seen, before = queue->row_first;

	if (row == JOB_NONE || job_peer_at(board, row)->in != JOB_IN_ROW ||
	    job_peer_at(board, row)->queue != number || slot_of(board, row) > slot)
		row = queue->row_first;
	while (row != JOB_NONE && slot_of(board, row) < slot) {
		before = row;
		row = job_peer_at(board, row)->link.right;
	}
	queue->row_seen = before;
	return row;
}

uint32_t job_order_next(const struct job_board *board, uint32_t i) {
	const struct job_peer *peer = job_peer_at(board, i);
	const struct job_queue *queue = job_queue_at(board, peer->queue);
	uint32_t slot = slot_of(board, i), row, tree;

	if (peer->in == JOB_IN_TREE) {
		tree = tree_next(peer_links(board), sizeof(struct job_peer), i);
		row = row_behind(board, peer->queue, slot);
	} else {
		row = peer->link.right;
		tree = tree_before(board, queue, slot);
		tree = tree != JOB_NONE ? tree_next(peer_links(board),
		    sizeof(struct job_peer), tree) : tree_first(board, queue);
	}
	return earlier(board, row, tree);
}

static void fetch_memory(const void *from, size_t bytes) {
	for (size_t at = 0; at < bytes; at += 64)
		__builtin_prefetch((const char *)from + at);
	__builtin_prefetch((const char *)from + bytes - 1);
}

static void fetch_slot(const struct job_board *board, const struct job *job) {
	uint32_t slot = job->slot;

	for (uint32_t level = 0; level < 2; level++) {
		slot = slot / JOB_FANOUT;
		fetch_memory(job_level(board, job->transport, level) + (size_t)slot * JOB_FANOUT,
		    JOB_FANOUT * sizeof(struct job_slot));
	}
}

/* Where a million jobs wait none of them is in a cache: what is going to be needed when this
 * first one of its queue is taken comes meanwhile, and whoever is first then. */
static void fetch_first(const struct job_board *board, uint32_t i) {
	const struct job_peer *peer = job_peer_at(board, i);
	const struct job *job = job_at(board, peer->job);

	fetch_slot(board, job);
	fetch_memory(job_message_at(board, job->message), sizeof(struct job_message));
	if (peer->in != JOB_IN_ROW || peer->link.right == JOB_NONE)
		return;
	fetch_memory(job_peer_at(board, peer->link.right), sizeof(struct job_peer));
	job_queue_at(board, peer->queue)->row_fetched = peer->link.right;
}

/* Only where fetch_first has the peer here by now: it would have to be waited for. */
void job_order_fetch(const struct job_board *board, const struct job_queue *queue) {
	uint32_t i = queue->row_first;

	if (i == queue->row_fetched && i != JOB_NONE)
		fetch_memory(job_at(board, job_peer_at(board, i)->job), sizeof(struct job));
}

/* --- queues with a place ---------------------------------------------------------------- */

static uint32_t *heap_of(const struct job_board *board, uint32_t transport) {
	return JOB_AT(board, board->heaps_at, uint32_t,
	    (size_t)transport * board->queues.capacity);
}

static void heap_set(struct job_board *board, uint32_t *heap, uint32_t at, uint32_t queue) {
	heap[at] = queue;
	job_queue_at(board, queue)->heap_at = at + 1;
}

static void heap_up(struct job_board *board, uint32_t *heap, uint32_t at) {
	uint32_t queue = heap[at], key = job_queue_at(board, queue)->heap_key;

	while (at > 0 && job_queue_at(board, heap[(at - 1) / 4])->heap_key > key) {
		heap_set(board, heap, at, heap[(at - 1) / 4]);
		at = (at - 1) / 4;
	}
	heap_set(board, heap, at, queue);
}

static void heap_down(struct job_board *board, uint32_t *heap, uint32_t count, uint32_t at) {
	uint32_t queue = heap[at], key = job_queue_at(board, queue)->heap_key;

	for (;;) {
		uint32_t child = at * 4 + 1, least = child, least_key;

		if (child >= count)
			break;
		least_key = job_queue_at(board, heap[child])->heap_key;
		for (uint32_t i = child + 1; i < child + 4 && i < count; i++) {
			uint32_t other = job_queue_at(board, heap[i])->heap_key;

			least = other < least_key ? i : least;
			least_key = other < least_key ? other : least_key;
		}
		if (least_key >= key)
			break;
		heap_set(board, heap, at, heap[least]);
		at = least;
	}
	heap_set(board, heap, at, queue);
}

void job_heap_offer(struct job_board *board, uint32_t i) {
	struct job_queue *queue = job_queue_at(board, i);
	struct job_transport *transport = job_transport_at(board, queue->transport);
	uint32_t *heap = heap_of(board, queue->transport), first;

	if (queue->heap_at > 0 || queue->waiting == 0 || !job_queue_has_place(queue))
		return;
	first = job_order_first(board, i);
	queue->heap_key = slot_of(board, first);
	fetch_first(board, first);
	heap[transport->heap_count] = i;
	heap_up(board, heap, transport->heap_count++);
}

void job_heap_lower(struct job_board *board, uint32_t i, uint32_t slot) {
	struct job_queue *queue = job_queue_at(board, i);

	if (queue->heap_at == 0 || queue->heap_key <= slot)
		return;
	queue->heap_key = slot;
	heap_up(board, heap_of(board, queue->transport), queue->heap_at - 1);
}

void job_heap_zero(struct job_board *board, uint32_t transport) {
	const uint32_t *heap = heap_of(board, transport);

	for (uint32_t i = 0; i < job_transport_at(board, transport)->heap_count; i++)
		job_queue_at(board, heap[i])->heap_key = 0;
}

void job_heap_remove(struct job_board *board, uint32_t i) {
	struct job_queue *queue = job_queue_at(board, i);
	struct job_transport *transport = job_transport_at(board, queue->transport);
	uint32_t *heap = heap_of(board, queue->transport), at = queue->heap_at - 1, last;

	if (queue->heap_at == 0)
		return;
	queue->heap_at = 0;
	last = heap[--transport->heap_count];
	if (last == i)
		return;
	heap_set(board, heap, at, last);
	heap_up(board, heap, at);
	heap_down(board, heap, transport->heap_count, job_queue_at(board, last)->heap_at - 1);
}

uint32_t job_heap_first(struct job_board *board, uint32_t number) {
	struct job_transport *transport = job_transport_at(board, number);
	uint32_t *heap = heap_of(board, number);

	while (transport->heap_count > 0) {
		struct job_queue *queue = job_queue_at(board, heap[0]);
		uint32_t peer, slot;

		if (queue->waiting == 0 || !job_queue_has_place(queue)) {
			job_heap_remove(board, heap[0]);
			continue;
		}
		peer = job_order_first(board, heap[0]);
		slot = slot_of(board, peer);
		if (queue->heap_key == slot)
			return job_peer_at(board, peer)->job;
		queue->heap_key = slot;
		fetch_first(board, peer);
		heap_down(board, heap, transport->heap_count, 0);
	}
	return JOB_NONE;
}
