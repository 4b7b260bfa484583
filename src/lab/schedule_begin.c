/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The world of a scenario before anything has happened in it.
 * MODEL    Everything of the scenario has its place on the scheduler's board; what comes by
 *          time is sorted.
 * ERRORS   No memory: the program ends.
 * THREADS  One.
 */
#include "lab/schedule_internal.h"

#include <stdlib.h>

#include "base/order.h"
#include "lab/memory.h"

static int by_arrival(const void *a, const void *b, void *context) {
	const struct scenario *s = context;
	uint32_t first = *(const uint32_t *)a, second = *(const uint32_t *)b;
	int64_t one = s->messages[first].arrive_ns, other = s->messages[second].arrive_ns;

	return order_then(ORDER(one, other), ORDER(first, second));
}

static int by_time(const void *a, const void *b) {
	const struct change_event *first = a, *second = b;

	return order_then(ORDER(first->at_ns, second->at_ns),
	    ORDER(first->destination, second->destination));
}

static void world_allocate(struct world *w) {
	const struct scenario *s = w->scenario;
	size_t changes = 0;

	for (uint32_t i = 0; i < s->destination_count; i++)
		changes += s->destinations[i].change_count;
	w->transports = memory_of(s->transport_count, sizeof(*w->transports));
	w->messages = memory_of(s->message_count, sizeof(*w->messages));
	w->destinations = memory_of(s->destination_count, sizeof(*w->destinations));
	w->arrivals = memory_of(s->message_count, sizeof(*w->arrivals));
	w->changes = memory_of(changes, sizeof(*w->changes));
	w->dead_until_ns = memory_of(s->transport_count, sizeof(*w->dead_until_ns));
}

static void begin_board(struct world *w) {
	const struct scenario *s = w->scenario;
	uint32_t active = s->message_count < s->pool.message_active_limit ? s->message_count :
	    s->pool.message_active_limit;
	uint64_t jobs = (uint64_t)active * s->transport_count;
	struct job_capacity capacity = {
		.transports = s->transport_count, .queues = s->destination_count,
		.messages = active, .peers = s->run_count,
		.jobs = jobs < s->run_count ? (uint32_t)jobs : s->run_count,
	};

	w->board = job_board_begin(memory_of(1, job_board_bytes(&capacity)), &capacity, &s->pool);
}

/* The first of the file has the first turn. */
static void open_transports(struct world *w) {
	for (uint32_t i = w->scenario->transport_count; i-- > 0;)
		w->transports[i] = job_transport_open(w->board,
		    &w->scenario->transports[i].job, i);
}

static void open_destinations(struct world *w) {
	const struct scenario *s = w->scenario;

	for (uint32_t i = 0; i < s->destination_count; i++) {
		const struct scenario_destination *d = &s->destinations[i];
		const struct window_settings *settings = &s->transports[d->transport].window;
		struct destination *own = &w->destinations[i];
		uint32_t window;

		window_begin(&own->window, settings);
		window = d->change_count > 0 ? s->changes[d->changes].count :
		    window_now(&own->window, settings, 0);
		own->queue = job_queue_open(w->board, w->transports[d->transport], window, i);
		for (uint32_t j = 1; j < d->change_count; j++)
			w->changes[w->change_count++] = (struct change_event){
				s->changes[d->changes + j].at_ns, i,
				s->changes[d->changes + j].count };
	}
	qsort(w->changes, w->change_count, sizeof(w->changes[0]), by_time);
}

void schedule_world_begin(struct world *w) {
	const struct scenario *s = w->scenario;

	TAILQ_INIT(&w->deliveries);
	TAILQ_INIT(&w->incoming);
	TAILQ_INIT(&w->back);
	TAILQ_INIT(&w->emptied);
	world_allocate(w);
	begin_board(w);
	for (uint32_t i = 0; i < s->message_count; i++) {
		w->arrivals[i] = i;
		w->messages[i] = (struct message){
			.runs = s->runs + s->messages[i].runs,
			.unread = s->messages[i].recipients, .board = JOB_NONE };
		TAILQ_INIT(&w->messages[i].deliveries);
	}
	w->left = s->message_count;
	qsort_r(w->arrivals, s->message_count, sizeof(w->arrivals[0]), by_arrival,
	    (void *)(uintptr_t)s);
	open_transports(w);
	open_destinations(w);
	w->look = (struct schedule_look){ w->board, w->transports };
}

void schedule_world_free(struct world *w) {
	struct under_way *delivery;

	while ((delivery = TAILQ_FIRST(&w->deliveries)) != NULL) {
		TAILQ_REMOVE(&w->deliveries, delivery, of_world);
		free(delivery);
	}
	for (uint32_t i = 0; i < w->scenario->message_count; i++) {
		free(w->messages[i].own);
		free(w->messages[i].deferred);
	}
	free(w->dead_until_ns);
	free(w->board);
	free(w->transports);
	free(w->messages);
	free(w->destinations);
	free(w->arrivals);
	free(w->changes);
	simulate_events_free(&w->ends);
	free(w);
}
