/* SPDX-License-Identifier: ISC */
/*
 * The inside of the scheduler (job.h): what the memory of a board holds, and the calls
 * between its files.  Not for others.
 *
 *	job_board.c	memory, tables, who is found by what
 *	job_slots.c	the scheduler's list: order, and the search for candidates
 *	job_order.c	what waits at a queue, in the list's order; which queue is first
 *	job_stack.c	the list's law: link, unlink, parents, children, blockers
 *	job_next.c	which entry is next
 *	job.c		batches, taking, being done
 *	job_view.c	looking
 *	pool.c		recipients in memory
 *
 * The list.  qmgr walks its list of jobs to find a candidate, and to pass blockers.  Here a
 * job's place in the list is a number, its *slot*: order is a comparison.  Over the slots
 * stands a tree of maxima (16 children a node) that finds the best candidate, jobs to read
 * for, and places by time, without walking.  A new job gets the slot two behind the last;
 * one that is put before another takes a free slot between or makes neighbours move over.
 *
 * Blockers.  In qmgr a job that was passed because its queues are full carries the
 * transport's tag until a place is free at one of them; then the tag changes, for all.  A
 * walk starts at the current job, and all before that are blockers: so those with the tag are
 * the jobs below a slot, `passed`, less a few exceptions (jobs that were put there or got
 * recipients since).  Whether a queue is one for which blockers wait follows from its first
 * waiting job; where not (that job's part was taken out), `tag` tells.  The first job
 * with a place comes from a heap of the queues that have a place, by their first waiting job.
 */
#ifndef POLICY_SCHEDULE_JOB_INTERNAL_H
#define POLICY_SCHEDULE_JOB_INTERNAL_H

#include "policy/schedule/job.h"

#define JOB_FANOUT_BITS	4u
#define JOB_FANOUT	(1u << JOB_FANOUT_BITS)
#define JOB_LEVELS	8u
#define JOB_SLOTS_EACH	4u		/* slots for each job that fits in */

/* Flags of a slot, above the job's number. */
#define JOB_SLOT_LOOK	(UINT32_C(1) << 28)	/* nothing of it waits, or more can be read */
#define JOB_SLOT_EXCEPT	(UINT32_C(1) << 29)	/* not passed, though it stands before `passed` */
#define JOB_SLOT_DISORDER (UINT32_C(1) << 30)	/* an older job stands behind it */
#define JOB_SLOT_FLAGS	(UINT32_C(15) << 28)

/* A leaf, or the maxima of a node's children; zeros: empty.  Small is good, so the
 * complements are kept. */
struct job_slot {
	uint32_t older;		/* ~(time since when it waits) */
	uint16_t fewer;		/* UINT16_MAX - entries in all, at most; 0: no candidate */
	uint16_t shorter;	/* UINT16_MAX - entries left, at most; 0: no candidate */
	uint32_t who;		/* leaf: job + 1; and flags */
};

/* A node of a treap, or of a list (left: before, right: behind). */
struct job_link {
	uint32_t left, right, up;
};

struct job {
	struct job_link time;	/* among the transport's jobs with unread recipients, by age */
	uint64_t linked;	/* comes behind those of the same age that were linked before */
	uint32_t message;
	uint32_t transport;
	uint32_t sibling_job;	/* next job of the message */
	uint32_t before, behind;	/* in the scheduler's list */
	uint32_t slot;
	uint32_t parent;	/* stack */
	uint32_t children;	/* first */
	uint32_t elder, younger;	/* siblings on the stack */
	int32_t level;		/* -1: not in the list */
	uint32_t peers;		/* first of the ring, whose turn it is */
	uint32_t peer_count;
	int32_t slots_used;
	int32_t slots_available;	/* times delivery_slot_cost */
	uint32_t selected;	/* entries */
	uint32_t read;		/* entries */
	int32_t in_core;	/* recipients */
	int32_t slots;		/* for recipients */
	uint8_t hashed;		/* its peers are in the hash table */
	uint8_t exception;	/* JOB_SLOT_EXCEPT */
	uint8_t disorder;	/* JOB_SLOT_DISORDER */
	uint8_t timed;		/* is in the tree by age */
};

struct job_peer {
	struct job_link link;	/* in the queue's order */
	uint32_t job;
	uint32_t queue;
	uint32_t before, behind;	/* ring of the job */
	uint32_t hash_next;	/* + 1 */
	uint32_t waiting;	/* entries: all full but the last, and a first that was put back */
	uint32_t recipients;	/* that wait */
	uint32_t first;		/* recipients of a first one that was put back; 0: none */
	uint32_t last;		/* recipients of the last */
	uint32_t running;	/* entries */
	uint32_t running_recipients;
	uint32_t in;		/* enum job_in */
};
enum job_in { JOB_IN_NONE, JOB_IN_ROW, JOB_IN_TREE };

struct job_queue {
	uint64_t word;
	uint32_t transport;
	uint32_t window;
	uint32_t busy;
	uint32_t waiting;	/* entries */
	uint32_t recipients;	/* that wait */
	uint32_t waiting_jobs;
	uint32_t running;
	uint32_t running_recipients;
	uint32_t tag;		/* = the transport's epoch: blockers wait for it */
	uint32_t row_first, row_last;	/* peers that came in the list's order ... */
	uint32_t row_seen;		/* one of them, perhaps: where a look at the row ended */
	uint32_t row_fetched;		/* one of them, perhaps: is in the processor's cache */
	uint32_t tree;			/* ... and the others */
	uint32_t heap_at;	/* + 1; 0: not in the transport's heap */
	uint32_t heap_key;	/* slot of its first waiting job, or less */
};

struct job_message {
	uint64_t word;
	int64_t queued_s;
	int64_t refill_s;
	uint32_t queued;	/* since the board's base */
	uint32_t jobs;		/* first */
	uint32_t unread;
	uint32_t entries;	/* waiting and running */
	uint32_t promised;	/* recipients that may be read in the batch to come */
	int32_t in_core;
	int32_t slots;
	uint8_t more;		/* some are unread */
	uint8_t reading;	/* a batch was asked for */
	uint8_t closed;
};

struct job_transport {
	struct job_settings settings;
	uint64_t word;
	int64_t cache_s;
	uint32_t turn_next;	/* round robin: ring */
	uint32_t busy;
	uint32_t first, last;	/* scheduler's list */
	uint32_t time_root;
	uint32_t next_unread;
	uint32_t current;
	uint32_t cache, cache_current;
	uint32_t epoch;
	uint32_t passed;	/* jobs in lower slots were passed */
	uint32_t heap_count;
	uint32_t flagged[4];	/* slots with each of the flags */
	int32_t slots_unused;	/* recipient slots */
	uint64_t in_core;	/* recipients */
};

/* A table's places are used from the first; freed ones form a list: each begins with the next one
 * (+ 1). */
struct job_table {
	uint64_t at;		/* bytes from the board's start */
	uint32_t each;		/* bytes of a place */
	uint32_t capacity, high, free, used;
};

struct job_board {
	struct pool_settings pool;
	int64_t base_s;		/* times are counted from here */
	uint64_t in_core, promised;
	uint64_t linked;	/* jobs, ever */
	struct job_table transports, queues, messages, jobs, peers;
	uint32_t turn_last;	/* of the ring of transports; JOB_NONE: none */
	uint32_t based;
	uint32_t hash_mask;
	uint32_t slot_count;
	uint32_t level_count;
	uint32_t level_size[JOB_LEVELS];
	uint64_t level_at[JOB_LEVELS];	/* in slots, from a transport's first */
	uint64_t slots_each;	/* slots of one transport, all levels */
	uint64_t hash_at, heaps_at, slots_at;	/* bytes from the board's start */
};

#define JOB_AT(board, offset, type, index) \
	((type *)(void *)((char *)(board) + (offset)) + (index))
static inline struct job *job_at(const struct job_board *board, uint32_t i) {
	return JOB_AT(board, board->jobs.at, struct job, i);
}
static inline struct job_peer *job_peer_at(const struct job_board *board, uint32_t i) {
	return JOB_AT(board, board->peers.at, struct job_peer, i);
}
static inline struct job_queue *job_queue_at(const struct job_board *board, uint32_t i) {
	return JOB_AT(board, board->queues.at, struct job_queue, i);
}
static inline struct job_message *job_message_at(const struct job_board *board, uint32_t i) {
	return JOB_AT(board, board->messages.at, struct job_message, i);
}
static inline struct job_transport *job_transport_at(const struct job_board *board, uint32_t i) {
	return JOB_AT(board, board->transports.at, struct job_transport, i);
}
static inline struct job_slot *job_level(const struct job_board *board, uint32_t transport,
    uint32_t level) {
	return JOB_AT(board, board->slots_at, struct job_slot,
	    transport * board->slots_each + board->level_at[level]);
}

static inline bool job_waits(const struct job *job) {
	return job->selected < job->read;
}
/* Entries in all: at least read, at most this. */
static inline uint32_t job_most(const struct job_board *board, const struct job *job) {
	return job->read + job_message_at(board, job->message)->unread;
}
static inline int64_t job_seconds(int64_t ns) {
	return ns / 1000000000 - (ns % 1000000000 < 0);
}
static inline bool job_queue_has_place(const struct job_queue *queue) {
	return queue->window > queue->busy;
}

/* --- job_board.c --- */
uint32_t job_find(const struct job_board *board, uint32_t message, uint32_t transport);
uint32_t job_peer_find(const struct job_board *board, uint32_t job, uint32_t queue);
uint32_t job_create(struct job_board *board, uint32_t message, uint32_t transport);
uint32_t job_peer_create(struct job_board *board, uint32_t job, uint32_t queue);
void job_peer_destroy(struct job_board *board, uint32_t peer);
void job_message_destroy(struct job_board *board, uint32_t message);

/* --- job_slots.c --- */
#define JOB_SLOTS_START(board)	((board)->slot_count / 8)
/* Gives the job, linked already, a slot between its neighbours'. */
void job_slots_place(struct job_board *board, uint32_t job);
void job_slots_clear(struct job_board *board, uint32_t job);
/* What stands in its slot is what the job says. */
void job_slots_refresh(struct job_board *board, uint32_t job);
/* First slot from `from` on with a flag; JOB_NONE. */
uint32_t job_slots_flag(const struct job_board *board, uint32_t transport, uint32_t flag,
    uint32_t from);
/* The last job before slot `below` that waits as long as, or longer than, since `queued`. */
uint32_t job_slots_older(const struct job_board *board, uint32_t transport, uint32_t queued,
    uint32_t below);
/* Does a job behind `slot` wait longer than since `queued`? */
bool job_slots_longer(const struct job_board *board, uint32_t transport, uint32_t queued,
    uint32_t slot);
/* The job with the best age over size that needs at most `slots` entries, up to a slot. */
struct job_best {
	uint32_t job;		/* JOB_NONE: there is none */
	double score;
};
struct job_best job_slots_best(const struct job_board *board, uint32_t transport,
    uint32_t current, uint32_t slots, int64_t now_s, uint32_t to);
static inline uint32_t job_slots_who(const struct job_board *board, uint32_t transport,
    uint32_t slot) {
	return (job_level(board, transport, 0)[slot].who & ~JOB_SLOT_FLAGS) - 1;
}

/* --- job_order.c --- */
/* It is in the list, and its message has unread recipients, or no longer. */
void job_time_update(struct job_board *board, uint32_t job);
/* The next younger of those, in the transport of a job of the list; JOB_NONE. */
uint32_t job_time_next(const struct job_board *board, uint32_t job);
void job_order_insert(struct job_board *board, uint32_t peer);
void job_order_remove(struct job_board *board, uint32_t peer);
uint32_t job_order_first(const struct job_board *board, uint32_t queue);
uint32_t job_order_next(const struct job_board *board, uint32_t peer);
/* The first of the queue was taken: has the next one's job fetched. */
void job_order_fetch(const struct job_board *board, const struct job_queue *queue);
/* The queue has a place and something waits, or its first waiting job stands further ahead. */
void job_heap_offer(struct job_board *board, uint32_t queue);
void job_heap_lower(struct job_board *board, uint32_t queue, uint32_t slot);
void job_heap_zero(struct job_board *board, uint32_t transport);
/* The first job of the list with an entry that has a place; JOB_NONE. */
uint32_t job_heap_first(struct job_board *board, uint32_t transport);
void job_heap_remove(struct job_board *board, uint32_t queue);

/* --- job_stack.c --- */
void job_link(struct job_board *board, uint32_t job);
void job_unlink(struct job_board *board, uint32_t job);
void job_pop(struct job_board *board, uint32_t job);
void job_retire(struct job_board *board, uint32_t job);
/* Makes `job` the child of `current`, and the current one. */
void job_push(struct job_board *board, uint32_t current, uint32_t job);
bool job_is_blocker(const struct job_board *board, const struct job *job);
/* All before `slot` were passed. */
void job_pass(struct job_board *board, struct job_transport *transport, uint32_t number,
    uint32_t slot);
void job_unblock(struct job_board *board, uint32_t job);
/* A queue's places have changed. */
void job_queue_changed(struct job_board *board, uint32_t queue);
static inline void job_forget_candidate(struct job_transport *transport) {
	transport->cache_current = JOB_NONE;
}

/* --- job_next.c --- */
/* So many recipients leave what waits at a peer: how many entries there are less. */
uint32_t job_peer_less(struct job_board *board, uint32_t peer, uint32_t recipients);

/* --- pool.c --- */
/* How many recipients the message may read, of those that it has slots for; promises them. */
uint32_t pool_promise(struct job_board *board, uint32_t message, uint64_t slots);
void pool_unpromise(struct job_board *board, uint32_t message);
/* Recipients of a job come (or, negative, leave) memory. */
void pool_count(struct job_board *board, uint32_t job, int32_t recipients);
static inline uint64_t pool_room_slots(const struct job_message *message) {
	return message->slots > message->in_core ? (uint64_t)(message->slots - message->in_core) :
	    message->entries == 0;
}
uint64_t pool_first_slots(const struct job_board *board, uint32_t message);
void pool_move(struct job_board *board, uint32_t job);
/* The jobs of the message pass on what is free, after one of `job` is done. */
void pool_done(struct job_board *board, uint32_t message, uint32_t job);
void pool_grant(struct job_board *board, uint32_t job, int32_t slots);
/* Is it time to read more of it? */
bool pool_refill_due(const struct job_board *board, uint32_t job, int64_t now_s);
bool pool_can_refill(const struct job_board *board, const struct job_message *message);
/* Jobs of the message have something to look at, or no longer. */
void pool_changed(struct job_board *board, uint32_t message);

#endif
