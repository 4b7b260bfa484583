/* SPDX-License-Identifier: ISC */
/*
 * The scheduler's memory (job_board.h).
 *
 * Model: tables of fixed size behind one another, places numbered; zeros are empty, so
 * pages that nothing was put in are never touched.  Peers of a job are in a ring; those of
 * a job with many are in a hash table as well.  Errors: a full table gives JOB_NONE.
 */
#include "policy/schedule/job_internal.h"

#include <string.h>

#define MANY_PEERS	8
#define INDEX_MOST	(UINT32_C(1) << 28)

const struct job_settings job_defaults = {
	.delivery_slot_cost = 5,
	.minimum_delivery_slots = 3,
	.delivery_slot_discount = 50,
	.delivery_slot_loan = 3,
	.destination_recipient_limit = 50,
	.process_limit = 100,
	.recipient_limit = 20000,
	.extra_recipient_limit = 1000,
	.recipient_refill_limit = 100,
	.recipient_refill_delay_ns = INT64_C(5000000000),
};

const struct pool_settings pool_defaults = {
	.message_recipient_limit = 20000,
	.message_recipient_minimum = 10,
	.message_active_limit = 20000,
	.batch_most = 5000,
};

static uint32_t clip(uint32_t count) {
	return count < 1 ? 1 : count > INDEX_MOST / JOB_SLOTS_EACH ? INDEX_MOST / JOB_SLOTS_EACH :
	    count;
}

/* Room for `count` of `size` bytes at *end, from a cache line's start. */
static uint64_t reserve(uint64_t *end, uint64_t count, size_t size) {
	uint64_t at = (*end + 63) / 64 * 64;

	*end = at + count * size;
	return at;
}

static void lay_table(struct job_table *table, uint32_t capacity, size_t each, uint64_t *end) {
	table->capacity = clip(capacity);
	table->each = (uint32_t)each;
	table->at = reserve(end, table->capacity, each);
}

static uint64_t lay_out(struct job_board *board, const struct job_capacity *capacity) {
	uint64_t end = sizeof *board;
	uint32_t size, hash = 16;

	lay_table(&board->transports, capacity->transports, sizeof(struct job_transport), &end);
	lay_table(&board->queues, capacity->queues, sizeof(struct job_queue), &end);
	lay_table(&board->messages, capacity->messages, sizeof(struct job_message), &end);
	lay_table(&board->jobs, capacity->jobs, sizeof(struct job), &end);
	lay_table(&board->peers, capacity->peers, sizeof(struct job_peer), &end);
	while (hash < board->peers.capacity)
		hash *= 2;
	board->hash_mask = hash - 1;
	board->slot_count = board->jobs.capacity * JOB_SLOTS_EACH;
	if (board->slot_count < 256)
		board->slot_count = 256;
	board->slot_count = (board->slot_count + 255) / 256 * 256;
	size = board->slot_count;
	for (board->level_count = 0; board->level_count < JOB_LEVELS; size /= JOB_FANOUT) {
		size = (size + JOB_FANOUT - 1) / JOB_FANOUT * JOB_FANOUT;
		board->level_at[board->level_count] = board->slots_each;
		board->level_size[board->level_count++] = size;
		board->slots_each += size;
		if (size == JOB_FANOUT)
			break;
	}
	board->hash_at = reserve(&end, hash, sizeof(uint32_t));
	board->heaps_at = reserve(&end, (uint64_t)board->transports.capacity *
	    board->queues.capacity, sizeof(uint32_t));
	board->slots_at = reserve(&end, board->transports.capacity * board->slots_each,
	    sizeof(struct job_slot));
	return end;
}

size_t job_board_bytes(const struct job_capacity *capacity) {
	struct job_board board;

	memset(&board, 0, sizeof board);
	return (size_t)lay_out(&board, capacity);
}

struct job_board *job_board_begin(void *memory, const struct job_capacity *capacity,
    const struct pool_settings *pool) {
	struct job_board *board = memory;

	memset(board, 0, sizeof *board);
	(void)lay_out(board, capacity);
	board->pool = *pool;
	if (board->pool.message_recipient_minimum < 1)
		board->pool.message_recipient_minimum = 1;
	if (board->pool.batch_most < 1)
		board->pool.batch_most = pool_defaults.batch_most;
	board->turn_last = JOB_NONE;
	return board;
}

/* --- tables ------------------------------------------------------------------- */

static void *table_place(struct job_board *board, const struct job_table *table, uint32_t i) {
	return (char *)board + table->at + (uint64_t)i * table->each;
}

/* A free place, all zeros; JOB_NONE: the table is full. */
static uint32_t table_take(struct job_board *board, struct job_table *table) {
	uint32_t i = table->free != 0 ? table->free - 1 : table->high;

	if (i == table->capacity)
		return JOB_NONE;
	if (table->free != 0)
		memcpy(&table->free, table_place(board, table, i), sizeof(table->free));
	else
		table->high++;
	memset(table_place(board, table, i), 0, table->each);
	table->used++;
	return i;
}

static void table_free(struct job_board *board, struct job_table *table, uint32_t i) {
	memcpy(table_place(board, table, i), &table->free, sizeof(table->free));
	table->free = i + 1;
	table->used--;
}

/* --- transports and queues ------------------------------------------------------ */

uint32_t job_transport_open(struct job_board *board, const struct job_settings *settings,
    uint64_t word) {
	uint32_t i = table_take(board, &board->transports);
	struct job_transport *transport;

	if (i == JOB_NONE)
		return JOB_NONE;
	transport = job_transport_at(board, i);
	transport->word = word;
	transport->first = transport->last = JOB_NONE;
	transport->time_root = JOB_NONE;
	transport->next_unread = transport->current = JOB_NONE;
	transport->cache = transport->cache_current = JOB_NONE;
	transport->epoch = 1;
	job_transport_adjust(board, i, settings);
	/* First in the ring: behind the last. */
	if (board->turn_last == JOB_NONE) {
		transport->turn_next = i;
		board->turn_last = i;
	} else {
		struct job_transport *last = job_transport_at(board, board->turn_last);

		transport->turn_next = last->turn_next;
		last->turn_next = i;
	}
	return i;
}

void job_transport_adjust(struct job_board *board, uint32_t transport,
    const struct job_settings *settings) {
	struct job_transport *owner = job_transport_at(board, transport);
	struct job_settings *own = &owner->settings;
	int32_t before = (int32_t)own->recipient_limit, more;

	*own = *settings;
	if (own->recipient_limit > INT32_MAX / 2)
		own->recipient_limit = INT32_MAX / 2;
	more = (int32_t)own->recipient_limit - before;
	owner->slots_unused += more;
	if (owner->next_unread != JOB_NONE && owner->slots_unused > 0)
		pool_grant(board, owner->next_unread, owner->slots_unused);
	if (own->delivery_slot_discount > 100)
		own->delivery_slot_discount = 100;
	if (own->delivery_slot_cost > INT16_MAX)
		own->delivery_slot_cost = INT16_MAX;
	if (own->extra_recipient_limit > INT32_MAX / 2)
		own->extra_recipient_limit = INT32_MAX / 2;
}

uint32_t job_queue_open(struct job_board *board, uint32_t transport, uint32_t window,
    uint64_t word) {
	uint32_t i = table_take(board, &board->queues);
	struct job_queue *queue;

	if (i == JOB_NONE)
		return JOB_NONE;
	queue = job_queue_at(board, i);
	queue->word = word;
	queue->transport = transport;
	queue->window = window;
	queue->row_first = queue->row_last = queue->row_seen = queue->row_fetched =
	    queue->tree = JOB_NONE;
	return i;
}

bool job_queue_close(struct job_board *board, uint32_t i) {
	struct job_queue *queue = job_queue_at(board, i);

	if (queue->waiting > 0 || queue->running > 0 || queue->busy > 0)
		return false;
	job_heap_remove(board, i);
	table_free(board, &board->queues, i);
	return true;
}

/* --- messages and jobs ------------------------------------------------------------ */

uint32_t job_message_open(struct job_board *board, uint64_t word, int64_t queued_ns) {
	int64_t queued_s = job_seconds(queued_ns);
	struct job_message *message;
	uint32_t i = JOB_NONE;

	if (board->messages.used < board->pool.message_active_limit)
		i = table_take(board, &board->messages);
	if (i == JOB_NONE)
		return JOB_NONE;
	if (!board->based) {
		board->base_s = queued_s - INT32_MAX;
		board->based = 1;
	}
	message = job_message_at(board, i);
	message->word = word;
	message->queued_s = queued_s;
	message->queued = queued_s <= board->base_s ? 0 :
	    queued_s - board->base_s >= UINT32_MAX ? UINT32_MAX - 1 :
	    (uint32_t)(queued_s - board->base_s);
	message->jobs = JOB_NONE;
	message->slots = (int32_t)board->pool.message_recipient_minimum;
	if (pool_promise(board, i, pool_first_slots(board, i)) == 0) {
		job_message_destroy(board, i);
		return JOB_NONE;
	}
	return i;
}

/* Nothing of it waits or runs. */
static void destroy_job(struct job_board *board, uint32_t i) {
	struct job *job = job_at(board, i);
	uint32_t *link = &job_message_at(board, job->message)->jobs;

	if (job->level > 0)
		job_pop(board, i);
	pool_move(board, i);
	if (job->level >= 0)
		job_unlink(board, i);
	while (*link != i)
		link = &job_at(board, *link)->sibling_job;
	*link = job->sibling_job;
	table_free(board, &board->jobs, i);
}

void job_message_destroy(struct job_board *board, uint32_t i) {
	struct job_message *message = job_message_at(board, i);

	while (message->jobs != JOB_NONE)
		destroy_job(board, message->jobs);
	pool_unpromise(board, i);
	table_free(board, &board->messages, i);
}

uint32_t job_find(const struct job_board *board, uint32_t message, uint32_t transport) {
	uint32_t i = job_message_at(board, message)->jobs;

	while (i != JOB_NONE && job_at(board, i)->transport != transport)
		i = job_at(board, i)->sibling_job;
	return i;
}

uint32_t job_create(struct job_board *board, uint32_t message, uint32_t transport) {
	uint32_t *end = &job_message_at(board, message)->jobs;
	uint32_t i = table_take(board, &board->jobs);
	struct job *job;

	if (i == JOB_NONE)
		return JOB_NONE;
	job = job_at(board, i);
	job->message = message;
	job->transport = transport;
	job->sibling_job = JOB_NONE;
	job->parent = job->children = job->elder = job->younger = JOB_NONE;
	job->before = job->behind = job->peers = JOB_NONE;
	job->level = -1;
	while (*end != JOB_NONE)
		end = &job_at(board, *end)->sibling_job;
	*end = i;
	return i;
}

/* --- peers ------------------------------------------------------------------------- */

static uint32_t *hash_place(const struct job_board *board, uint32_t job, uint32_t queue) {
	uint64_t hash = ((uint64_t)job << 32 | queue) * UINT64_C(0x9e3779b97f4a7c15);

	return JOB_AT(board, board->hash_at, uint32_t, (hash >> 32) & board->hash_mask);
}

static void hash_add(struct job_board *board, uint32_t i) {
	struct job_peer *peer = job_peer_at(board, i);
	uint32_t *place = hash_place(board, peer->job, peer->queue);

	peer->hash_next = *place;
	*place = i + 1;
}

static void hash_remove(struct job_board *board, uint32_t i) {
	struct job_peer *peer = job_peer_at(board, i);
	uint32_t *place = hash_place(board, peer->job, peer->queue);

	while (*place != i + 1)
		place = &job_peer_at(board, *place - 1)->hash_next;
	*place = peer->hash_next;
}

uint32_t job_peer_find(const struct job_board *board, uint32_t i, uint32_t queue) {
	const struct job *job = job_at(board, i);
	uint32_t peer;

	if (job->peers == JOB_NONE)
		return JOB_NONE;
	peer = job_peer_at(board, job->peers)->before;	/* the one that came last */
	if (job_peer_at(board, peer)->queue == queue)
		return peer;
	if (job->hashed) {
		uint32_t at = *hash_place(board, i, queue);

		while (at != 0 && (job_peer_at(board, at - 1)->job != i ||
		    job_peer_at(board, at - 1)->queue != queue))
			at = job_peer_at(board, at - 1)->hash_next;
		return at - 1;
	}
	for (uint32_t left = job->peer_count; left > 0; left--) {
		if (job_peer_at(board, peer)->queue == queue)
			return peer;
		peer = job_peer_at(board, peer)->before;
	}
	return JOB_NONE;
}

uint32_t job_peer_create(struct job_board *board, uint32_t job_number, uint32_t queue) {
	struct job *job = job_at(board, job_number);
	uint32_t i = table_take(board, &board->peers);
	struct job_peer *peer;

	if (i == JOB_NONE)
		return JOB_NONE;
	peer = job_peer_at(board, i);
	peer->job = job_number;
	peer->queue = queue;
	if (job->peers == JOB_NONE) {
		peer->before = peer->behind = i;
		job->peers = i;
	} else {
		struct job_peer *first = job_peer_at(board, job->peers);

		peer->behind = job->peers;
		peer->before = first->before;
		job_peer_at(board, first->before)->behind = i;
		first->before = i;
	}
	job->peer_count++;
	if (job->hashed) {
		hash_add(board, i);
	} else if (job->peer_count > MANY_PEERS) {
		uint32_t each = job->peers;

		job->hashed = 1;
		do {
			hash_add(board, each);
			each = job_peer_at(board, each)->behind;
		} while (each != job->peers);
	}
	return i;
}

void job_peer_destroy(struct job_board *board, uint32_t i) {
	struct job_peer *peer = job_peer_at(board, i);
	struct job *job = job_at(board, peer->job);

	if (job->hashed)
		hash_remove(board, i);
	if (peer->behind == i) {
		job->peers = JOB_NONE;
	} else {
		job_peer_at(board, peer->before)->behind = peer->behind;
		job_peer_at(board, peer->behind)->before = peer->before;
		if (job->peers == i)
			job->peers = peer->behind;
	}
	job->peer_count--;
	table_free(board, &board->peers, i);
}
