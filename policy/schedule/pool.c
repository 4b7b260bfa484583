/* SPDX-License-Identifier: ISC */
/*
 * Recipients in memory (pool.h).
 *
 * Model: slots are numbers that transports, jobs and messages hold; recipients are counted
 * where they are.  A message's slots are its own minimum and those of its jobs.  The
 * transport's share is below zero while parts of its extra pool are given out.
 */
#include "policy/schedule/pool.h"

#include "policy/schedule/job_internal.h"

void pool_changed(struct job_board *board, uint32_t message) {
	for (uint32_t i = job_message_at(board, message)->jobs; i != JOB_NONE;
	    i = job_at(board, i)->sibling_job)
		job_slots_refresh(board, i);
}

void pool_grant(struct job_board *board, uint32_t i, int32_t slots) {
	struct job *job = job_at(board, i);

	job->slots += slots;
	job_message_at(board, job->message)->slots += slots;
	job_transport_at(board, job->transport)->slots_unused -= slots;
	pool_changed(board, job->message);
}

void pool_move(struct job_board *board, uint32_t i) {
	struct job *job = job_at(board, i);
	struct job_transport *transport = job_transport_at(board, job->transport);
	const struct job_message *message = job_message_at(board, job->message);
	uint32_t next = transport->next_unread;
	int32_t free = job->slots - job->in_core;

	if (next == i) {
		next = job_time_next(board, i);
		transport->next_unread = next;
	}
	if (message->slots - message->in_core < free)
		free = message->slots - message->in_core;
	if (free <= 0)
		return;
	pool_grant(board, i, -free);
	if (next != JOB_NONE && transport->slots_unused > 0)
		pool_grant(board, next, transport->slots_unused);
}

void pool_done(struct job_board *board, uint32_t number, uint32_t job) {
	const struct job_message *message = job_message_at(board, number);

	for (uint32_t i = message->jobs; i != JOB_NONE; i = job_at(board, i)->sibling_job) {
		const struct job *sponsor = job_at(board, i);

		if (i != job && sponsor->in_core < sponsor->slots &&
		    (sponsor->level < 0 || !message->more))
			pool_move(board, i);
	}
	if (!message->more)
		pool_move(board, job);
}

bool pool_can_refill(const struct job_board *board, const struct job_message *message) {
	(void)board;
	return message->more && !message->reading && message->entries > 0 &&
	    message->slots > message->in_core;
}

bool pool_refill_due(const struct job_board *board, uint32_t i, int64_t now_s) {
	const struct job *job = job_at(board, i);
	const struct job_settings *settings = &job_transport_at(board, job->transport)->settings;
	const struct job_message *message = job_message_at(board, job->message);

	if (!pool_can_refill(board, message))
		return false;
	return message->slots - message->in_core >= (int64_t)settings->recipient_refill_limit ||
	    now_s - message->refill_s >= job_seconds(settings->recipient_refill_delay_ns);
}

/* How many more may be in memory, by the document's formula for some transports. */
static uint64_t room_for(const struct job_board *board, uint64_t transports_slots,
    uint64_t in_core) {
	uint64_t most = (uint64_t)board->pool.message_recipient_minimum *
	    board->pool.message_active_limit + transports_slots;

	if (most < board->pool.message_recipient_limit)
		most = board->pool.message_recipient_limit;
	in_core += board->promised;
	return most > in_core ? most - in_core : 0;
}

static uint64_t least(uint64_t a, uint64_t b) {
	return a < b ? a : b;
}

/* Of slots, so many as both formulas leave, and one batch takes.  A new message may turn out
 * to be for any transport; one with nothing left in memory goes on with one at least, in the
 * place of what just left. */
static uint32_t limited(const struct job_board *board, uint32_t message, uint64_t slots) {
	const struct job_message *own_message = job_message_at(board, message);
	bool is_new = own_message->jobs == JOB_NONE;
	uint64_t sum = 0;

	slots = least(slots, board->pool.batch_most);
	for (uint32_t i = 0; i < board->transports.used; i++) {
		const struct job_transport *transport = job_transport_at(board, i);
		uint64_t own = (uint64_t)transport->settings.recipient_limit +
		    transport->settings.extra_recipient_limit;

		sum += own;
		if (is_new || job_find(board, message, i) != JOB_NONE)
			slots = least(slots, room_for(board, own, transport->in_core));
	}
	slots = least(slots, room_for(board, sum, board->in_core));
	return slots == 0 && own_message->more && own_message->entries == 0 ? 1 :
	    (uint32_t)slots;
}

uint32_t pool_promise(struct job_board *board, uint32_t number, uint64_t slots) {
	struct job_message *message = job_message_at(board, number);

	pool_unpromise(board, number);
	message->promised = limited(board, number, slots);
	board->promised += message->promised;
	return message->promised;
}

void pool_unpromise(struct job_board *board, uint32_t number) {
	struct job_message *message = job_message_at(board, number);

	board->promised -= message->promised;
	message->promised = 0;
}

void pool_count(struct job_board *board, uint32_t i, int32_t recipients) {
	struct job *job = job_at(board, i);

	job->in_core += recipients;
	job_message_at(board, job->message)->in_core += recipients;
	job_transport_at(board, job->transport)->in_core += (uint64_t)(int64_t)recipients;
	board->in_core += (uint64_t)(int64_t)recipients;
}

uint64_t pool_first_slots(const struct job_board *board, uint32_t message) {
	uint64_t own = (uint64_t)job_message_at(board, message)->slots;
	uint64_t all = board->pool.message_recipient_limit;

	return board->in_core + own < all ? all - board->in_core : own;
}

uint32_t pool_first(const struct job_board *board, uint32_t i) {
	const struct job_message *message = job_message_at(board, i);

	return message->promised > 0 ? message->promised :
	    limited(board, i, pool_first_slots(board, i));
}

uint32_t pool_room(const struct job_board *board, uint32_t i) {
	const struct job_message *message = job_message_at(board, i);

	if (!message->more)
		return 0;
	return message->promised > 0 ? message->promised :
	    limited(board, i, pool_room_slots(message));
}

int64_t pool_unused(const struct job_board *board, uint32_t transport) {
	return job_transport_at(board, transport)->slots_unused;
}
