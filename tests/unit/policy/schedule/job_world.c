/* SPDX-License-Identifier: ISC */
#include "tests/unit/policy/schedule/job_world.h"
#include "tests/unit/policy/schedule/job_look.h"

#include <assert.h>
#include <string.h>

#define NS	INT64_C(1000000000)

#define SAME(what, a, b) do { \
	if ((int64_t)(a) != (int64_t)(b)) { \
		printf("step %u: %s: %" PRId64 ", naive %" PRId64 "\n", world->steps, what, \
		    (int64_t)(a), (int64_t)(b)); \
		return false; \
	} \
} while (0)

static uint32_t below(struct world *world, uint32_t limit) {
	return random_below(&world->random, limit);
}

static struct job_settings some_settings(struct world *world) {
	struct job_settings settings = job_defaults;

	settings.delivery_slot_cost = below(world, 8) == 0 ? below(world, 2) : 2 + below(world, 3);
	settings.minimum_delivery_slots = below(world, 4);
	settings.delivery_slot_discount = below(world, 3) * 50;
	settings.delivery_slot_loan = below(world, 4);
	settings.destination_recipient_limit = below(world, 4);
	settings.process_limit = below(world, 2) * (1 + below(world, 8));
	if (world->kind.pool > 0) {
		settings.recipient_limit = below(world, world->kind.pool);
		settings.extra_recipient_limit = below(world, world->kind.pool / 2 + 1);
		settings.recipient_refill_limit = 1 + below(world, 6);
		settings.recipient_refill_delay_ns = INT64_C(1000000000) * (1 + below(world, 4));
	}
	return settings;
}

void world_begin(struct world *world, const struct world_kind *kind, uint64_t seed) {
	struct job_capacity capacity = { .transports = kind->transports, .queues = kind->queues,
		.messages = kind->messages, .jobs = kind->messages * kind->transports,
		.peers = kind->messages * kind->queues };

	memset(world, 0, sizeof *world);
	world->kind = *kind;
	world->random = (struct random){ seed };
	world->now_s = 1000000 + below(world, 1000);
	world->pool = pool_defaults;
	world->pool.message_active_limit = kind->messages;
	if (kind->pool > 0) {
		world->pool.message_recipient_limit = 1 + below(world, 2 * kind->pool);
		world->pool.message_recipient_minimum = 1 + below(world, 4);
		world->pool.batch_most = 1 + below(world, 30);
	}
	world->pool_bound = world->pool.message_recipient_minimum * kind->messages;
	world->memory = calloc(1, job_board_bytes(&capacity));
	world->board = job_board_begin(world->memory, &capacity, &world->pool);
	naive_begin(&world->naive, &world->pool);
	for (uint32_t i = 0; i < kind->transports; i++) {
		struct job_settings settings = some_settings(world);

		(void)job_transport_open(world->board, &settings, i);
		naive_transport(&world->naive, (int)i, &settings);
		world->pool_bound += settings.recipient_limit + settings.extra_recipient_limit;
	}
	if (world->pool_bound < world->pool.message_recipient_limit)
		world->pool_bound = world->pool.message_recipient_limit;
	for (uint32_t i = 0; i < kind->queues; i++) {
		uint32_t window = below(world, kind->most_window + 1);
		uint32_t transport = below(world, kind->transports);

		(void)job_queue_open(world->board, transport, window, i);
		world->naive.queue[i] = (struct naive_queue){ .transport = (int)transport,
			.window = (int)window };
	}
	for (int i = (int)kind->queues; i < NAIVE_QUEUES; i++)
		world->naive.queue[i].transport = NONE;
}

void world_end(struct world *world) {
	free(world->memory);
}

/* --- batches ----------------------------------------------------------------------- */

/* The next recipients of a message, sorted by queue; on one side. */
static void batch(struct world *world, uint32_t number, uint32_t most, int side) {
	struct world_message *message = &world->message[number];
	uint32_t count[NAIVE_QUEUES] = { 0 }, left = message->recipients - message->read[side];

	if (most > left)
		most = left;
	for (uint32_t i = 0; i < most; i++)
		count[message->queue[message->read[side] + i]]++;
	message->read[side] += most;
	message->asked[side] = 0;
	if (side == 0)
		job_batch_begin(world->board, message->index, left - most, world->now_s * NS);
	else
		naive_batch_begin(&world->naive, (int)number, (int)(left - most), world->now_s);
	for (uint32_t i = 0; i < world->kind.queues; i++) {
		if (count[i] == 0)
			continue;
		if (side == 0) {
			if (!job_batch_add(world->board, message->index, i, count[i]))
				abort();
		} else {
			naive_batch_add(&world->naive, (int)number, (int)i, (int)count[i]);
		}
	}
	if (side == 0) {
		(void)job_batch_end(world->board, message->index);
		world->added += most;
	} else {
		naive_batch_end(&world->naive, (int)number);
	}
}

static void asked(struct world *world, uint32_t number, uint32_t most, int side) {
	if (world->kind.later)
		world->message[number].asked[side] = most;
	else
		batch(world, number, most, side);
}

static void board_reads(void *context, uint32_t message, uint32_t most) {
	struct world *world = context;

	asked(world, (uint32_t)job_message_word(world->board, message), most, 0);
}

static void naive_reads(void *context, int message, int most) {
	asked(context, (uint32_t)message, (uint32_t)most, 1);
}

static void both_batches(struct world *world, uint32_t number, uint32_t most) {
	batch(world, number, most, 0);
	batch(world, number, most, 1);
}

static bool open_message(struct world *world) {
	struct world_message *message;
	uint32_t number = 0, destinations = 1 + below(world, world->kind.queues);
	int64_t queued_s = world->now_s;

	while (number < world->kind.messages && world->message[number].open)
		number++;
	if (number == world->kind.messages)
		return true;
	message = &world->message[number];
	*message = (struct world_message){ .open = true };
	if (world->kind.late && below(world, 2) == 0)
		queued_s -= below(world, 30);
	message->index = job_message_open(world->board, number, queued_s * NS);
	SAME("opened", message->index != JOB_NONE,
	    naive_message(&world->naive, (int)number, queued_s));
	message->open = message->index != JOB_NONE;
	if (!message->open)
		return true;
	message->recipients = 1 + below(world, below(world, 3) == 0 ?
	    world->kind.most_recipients : 3);
	for (uint32_t i = 0; i < message->recipients; i++)
		message->queue[i] = (uint8_t)((number + below(world, destinations)) %
		    world->kind.queues);
	for (uint32_t i = 1; world->kind.one_transport && i < message->recipients; i++)
		while (world->naive.queue[message->queue[i]].transport !=
		    world->naive.queue[message->queue[0]].transport)
			message->queue[i] = (uint8_t)below(world, world->kind.queues);
	SAME("first batch", pool_first(world->board, message->index),
	    naive_first(&world->naive, (int)number));
	both_batches(world, number, pool_first(world->board, message->index));
	return true;
}

/* A batch that was asked for comes. */
static bool later_batch(struct world *world) {
	for (uint32_t i = 0; i < world->kind.messages; i++) {
		struct world_message *message = &world->message[i];

		SAME("asked for", message->asked[0], message->asked[1]);
		if (!message->open || message->asked[0] == 0 || below(world, 2) == 0)
			continue;
		both_batches(world, i, message->asked[0]);
		return true;
	}
	return true;
}

/* --- steps --------------------------------------------------------------------------- */

static bool close_message(struct world *world, uint32_t number) {
	job_message_close(world->board, world->message[number].index);
	naive_close(&world->naive, (int)number);
	world->message[number].open = false;
	return true;
}

static void keep(struct world *world, const struct job_taken *taken,
    const struct naive_taken *naive_taken) {
	world->taken[world->taken_count] = *taken;
	world->naive_taken[world->taken_count++] = *naive_taken;
}

static bool same_taken(struct world *world, const struct job_taken *taken,
    const struct naive_taken *naive) {
	SAME("message", job_message_word(world->board, taken->message),
	    world->naive.job[naive->job].message);
	SAME("queue", taken->queue, naive->queue);
	SAME("entries", taken->entries, naive->entries);
	SAME("recipients", taken->recipients, naive->recipients);
	return true;
}

static bool next(struct world *world) {
	struct job_reader reader = { board_reads, world };
	uint32_t transport = below(world, 3) == 0 ? JOB_NONE :
	    below(world, world->kind.transports);
	bool reads = below(world, 5) > 0, found;
	struct naive_taken naive_taken;
	struct job_taken taken;
	struct job_would would;
	bool peeked = false;

	if (world->taken_count == WORLD_TAKEN)
		return true;
	if (transport != JOB_NONE)
		peeked = job_peek(world->board, transport, world->now_s * NS, &would);
	found = job_next(world->board, transport, reads ? &reader : NULL, world->now_s * NS,
	    &taken);
	SAME("found", found, naive_next(&world->naive, transport == JOB_NONE ? NONE :
	    (int)transport, reads ? naive_reads : NULL, world, world->now_s, &naive_taken));
	if (!found)
		return true;
	if (!same_taken(world, &taken, &naive_taken))
		return false;
	SAME("one entry", taken.entries, 1);
	if (world->kind.pool == 0 && transport != JOB_NONE) {
		SAME("peek", peeked, found);
		SAME("peek: message", would.message, taken.message);
		SAME("peek: queue", would.queue, taken.queue);
	}
	keep(world, &taken, &naive_taken);
	return true;
}

static bool done(struct world *world) {
	uint32_t at, number;
	struct job_taken taken;
	struct naive_taken naive_taken;
	enum job_left left;
	int entries;

	if (world->taken_count == 0)
		return true;
	at = below(world, world->taken_count);
	taken = world->taken[at];
	naive_taken = world->naive_taken[at];
	world->taken[at] = world->taken[--world->taken_count];
	world->naive_taken[at] = world->naive_taken[world->taken_count];
	number = (uint32_t)job_message_word(world->board, taken.message);
	world->delivered += taken.recipients;
	left = job_done(world->board, &taken);
	entries = naive_done(&world->naive, &naive_taken);
	SAME("is there more", left == JOB_LEFT_SOME, entries > 0);
	if (left == JOB_LEFT_SOME)
		return true;
	SAME("more unread", left == JOB_LEFT_UNREAD, world->naive.message[number].more);
	if (left == JOB_LEFT_NONE) {
		if (world->kind.late && below(world, 3) == 0 &&
		    pool_first(world->board, taken.message) > 0) {
			/* It comes back. */
			world->message[number].read[0] = world->message[number].read[1] = 0;
			both_batches(world, number, pool_first(world->board, taken.message));
			return true;
		}
		return close_message(world, number);
	}
	SAME("room", pool_room(world->board, taken.message),
	    naive_room(&world->naive, (int)number));
	if (world->kind.later) {
		world->message[number].asked[0] = world->message[number].asked[1] =
		    pool_room(world->board, taken.message);
		return true;
	}
	both_batches(world, number, pool_room(world->board, taken.message));
	return true;
}

static bool window(struct world *world) {
	uint32_t queue = below(world, world->kind.queues);
	uint32_t size = below(world, world->kind.most_window + 1);

	job_queue_window(world->board, queue, size);
	naive_window(&world->naive, (int)queue, (int)size);
	return true;
}

static bool take(struct world *world, uint32_t number) {
	uint32_t queue = below(world, world->kind.queues), entries = 1 + below(world, 2);
	uint32_t places = below(world, 2);
	struct naive_taken naive_taken;
	struct job_taken taken;
	bool found;

	if (world->taken_count == WORLD_TAKEN)
		return true;
	found = job_take(world->board, world->message[number].index, queue, entries, places,
	    &taken);
	SAME("taken", found, naive_take(&world->naive, (int)number, (int)queue, (int)entries,
	    (int)places, &naive_taken));
	if (!found)
		return true;
	keep(world, &taken, &naive_taken);
	return same_taken(world, &taken, &naive_taken);
}

/* Puts back what makes no entries smaller than full in the middle: those are merged. */
static bool put_back(struct world *world) {
	uint32_t at, limit;
	const struct job_taken *taken;
	struct job_peer part;

	if (world->taken_count == 0)
		return true;
	at = below(world, world->taken_count);
	taken = &world->taken[at];
	part = job_part(world->board, taken->message, taken->queue);
	limit = world->naive.transport[world->naive.queue[taken->queue].transport].settings.
	    destination_recipient_limit;
	if (taken->entries > 1 || (part.waiting > 0 &&
	    (limit == 0 || taken->recipients < limit || part.recipients <=
	    (part.waiting - 1) * limit)))
		return true;
	job_put_back(world->board, taken);
	naive_put_back(&world->naive, &world->naive_taken[at]);
	world->taken[at] = world->taken[--world->taken_count];
	world->naive_taken[at] = world->naive_taken[world->taken_count];
	return true;
}

static bool withdraw(struct world *world, uint32_t number) {
	uint32_t queue = below(world, 3) == 0 ? JOB_NONE : below(world, world->kind.queues), count;
	int before = world->naive.message[number].in_core;

	count = job_withdraw(world->board, world->message[number].index, queue);
	naive_withdraw(&world->naive, (int)number, queue == JOB_NONE ? NONE : (int)queue);
	SAME("withdrawn", count, before - world->naive.message[number].in_core);
	world->withdrawn += count;
	if (world->naive.message[number].entries == 0)
		return close_message(world, number);
	return true;
}

static bool by_hand(struct world *world) {
	uint32_t number = below(world, world->kind.messages);

	if (below(world, 3) == 0)
		return put_back(world);
	if (!world->message[number].open)
		return true;
	return below(world, 3) == 0 ? withdraw(world, number) : take(world, number);
}

/* --- comparison ------------------------------------------------------------------------ */

static bool same_job(struct world *world, uint32_t number, uint32_t transport) {
	int job = naive_job_of((int)number, (int)transport);
	const struct naive_job *naive = &world->naive.job[job];
	uint32_t message = world->message[number].index;
	struct job_view view;
	bool exists = job_view(world->board, message, transport, &view);

	SAME("job", exists, naive->exists);
	if (!exists)
		return true;
	SAME("listed", view.listed, naive->level >= 0);
	SAME("least", view.least_entries, naive->read);
	SAME("waiting", view.waiting_entries, naive->read - naive->selected);
	SAME("slots", view.slots, naive->available);
	SAME("level", view.level, naive->level < 0 ? 0 : naive->level);
	SAME("parent", view.parent == JOB_NONE ? NONE :
	    (int64_t)job_message_word(world->board, view.parent),
	    naive->parent == NONE ? NONE : world->naive.job[naive->parent].message);
	SAME("blocker", view.blocker, naive_is_blocker(&world->naive, job));
	SAME("current", view.current, world->naive.transport[transport].current == job);
	SAME("a job's recipients", view.in_core, naive->in_core);
	SAME("a job's recipient slots", view.recipient_slots, naive->slots);
	SAME("reading", view.reading, world->naive.message[number].reading);
	return true;
}

/* The document's formula for one transport: for messages of one. */
static bool pool_fits(struct world *world, uint32_t transport, uint64_t in_core) {
	const struct job_settings *settings = &world->naive.transport[transport].settings;
	uint32_t most = world->pool.message_recipient_minimum * world->kind.messages +
	    settings->recipient_limit + settings->extra_recipient_limit;

	if (most < world->pool.message_recipient_limit)
		most = world->pool.message_recipient_limit;
	if (world->kind.one_transport && in_core > most)
		SAME("a transport's bound", in_core, most);
	return true;
}

static bool same_transport(struct world *world, uint32_t transport) {
	const struct naive_transport *naive = &world->naive.transport[transport];
	uint32_t message = JOB_NONE;

	for (int i = 0; i <= naive->list.count; i++) {
		message = job_list_next(world->board, transport, message);
		SAME("list", message == JOB_NONE ? NONE :
		    (int64_t)job_message_word(world->board, message), i == naive->list.count ? NONE :
		    world->naive.job[naive->list.item[i]].message);
	}
	if (!pool_fits(world, transport, job_transport_at(world->board, transport)->in_core))
		return false;
	SAME("recipient slots", pool_unused(world->board, transport), naive->unused);
	message = pool_next_unread(world->board, transport);
	SAME("next unread", message == JOB_NONE ? NONE :
	    (int64_t)job_message_word(world->board, message), naive->next_unread == NONE ? NONE :
	    world->naive.job[naive->next_unread].message);
	return true;
}

/* What waits at a queue: in the list's order, all of it. */
static bool same_queue(struct world *world, uint32_t queue) {
	const struct naive_queue *naive = &world->naive.queue[queue];
	const struct naive_list *list = &world->naive.transport[naive->transport].list;
	struct job_queue_view view;
	uint32_t message = JOB_NONE;

	job_queue_view(world->board, queue, &view);
	SAME("busy", view.busy, naive->busy);
	SAME("waiting at a queue", view.waiting_entries, naive->waiting);
	for (int i = 0; i < list->count; i++) {
		const struct naive_job *job = &world->naive.job[list->item[i]];

		for (int k = 0; k < job->peers; k++) {
			if (job->peer[k].queue != (int)queue || job->peer[k].waiting == 0)
				continue;
			message = job_waiting_next(world->board, queue, message);
			SAME("in a queue's order", message == JOB_NONE ? NONE :
			    (int64_t)job_message_word(world->board, message), job->message);
		}
	}
	if (view.waiting_jobs > 0)
		SAME("end of a queue", job_waiting_next(world->board, queue, message), JOB_NONE);
	return true;
}

static bool same(struct world *world) {

	for (uint32_t i = 0; i < world->kind.messages; i++)
		for (uint32_t k = 0; world->message[i].open && k < world->kind.transports; k++)
			if (!same_job(world, i, k))
				return false;
	for (uint32_t i = 0; i < world->kind.transports; i++)
		if (!same_transport(world, i))
			return false;
	for (uint32_t i = 0; i < world->kind.queues; i++)
		if (!same_queue(world, i))
			return false;
	SAME("in memory", world->board->in_core, world->naive.in_core);
	if (!world->kind.late && world->board->in_core > world->pool_bound)
		SAME("the document's bound", world->board->in_core, world->pool_bound);
	return true;
}

bool world_step(struct world *world) {
	uint32_t what = below(world, 100);
	bool equal;

	world->steps++;
	if (what < 20)
		equal = open_message(world);
	else if (what < 55)
		equal = next(world);
	else if (what < 85)
		equal = done(world);
	else if (what < 90)
		equal = window(world);
	else if (what < 95 && world->kind.by_hand)
		equal = by_hand(world);
	else
		equal = later_batch(world);
	if (below(world, 10) == 0)
		world->now_s += below(world, 4);
	return equal && same(world);
}

bool world_drain(struct world *world) {
	uint32_t guard = 0;

	for (uint32_t i = 0; i < world->kind.queues; i++) {
		job_queue_window(world->board, i, 5);
		naive_window(&world->naive, (int)i, 5);
	}
	do {
		world->steps++;
		world->now_s++;
		if (!next(world) || !done(world) || !later_batch(world) || !same(world))
			return false;
		if (++guard > 100000) {
			printf("it never ends\n");
			return false;
		}
	} while (world->board->messages.used > 0);
	SAME("delivered once", world->delivered + world->withdrawn, world->added);
	return true;
}
