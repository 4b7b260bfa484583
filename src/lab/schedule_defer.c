/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Deliveries that fail in a scenario, and what becomes of their recipients.
 * MODEL    As in Postfix: a destination or a transport that is dead has nothing on the board;
 *          what waits for it is deferred without an attempt.  A message with deferred recipients
 *          comes back with them after its backoff, at the next run of the deferred queue, or
 *          bounces when it is too old.
 * ERRORS   No memory: the program ends.
 * THREADS  One.
 */
#include <stdlib.h>

#include "base/order.h"
#include "lab/memory.h"
#include "lab/schedule_internal.h"
#include "policy/schedule/pool.h"

void schedule_try(struct world *w, struct under_way *delivery) {
	const struct scenario *s = w->scenario;
	const struct scenario_destination *d = &s->destinations[delivery->destination];
	const struct scenario_transport *t = &s->transports[d->transport];
	struct destination *own = &w->destinations[delivery->destination];

	delivery->program_fails =
	    scenario_value_at(s, t->works, t->works_count, w->now_ns, 1) == 0;
	delivery->accepted = !delivery->program_fails && own->accepted <
	    scenario_value_at(s, d->accepts, d->accepts_count, w->now_ns, UINT32_MAX);
	own->accepted += delivery->accepted;
	w->result->failures += !delivery->accepted;
}

bool schedule_is_dead(struct world *w, uint32_t destination) {
	struct destination *own = &w->destinations[destination];
	const struct window_settings *settings =
	    &w->scenario->transports[schedule_transport(w, destination)].window;

	if (w->dead_until_ns[schedule_transport(w, destination)] > w->now_ns ||
	    own->dead_until_ns > w->now_ns)
		return true;
	if (own->dead_until_ns != 0) {
		own->dead_until_ns = 0;
		window_begin(&own->window, settings);
		job_queue_window(w->board, own->queue, window_now(&own->window, settings, w->now_ns));
	}
	return false;
}

static bool is_too_old(const struct world *w, uint32_t message) {
	return w->now_ns - w->scenario->messages[message].arrive_ns >= w->scenario->lifetime_ns;
}

void schedule_defer(struct world *w, uint32_t message, uint32_t destination, uint32_t recipients) {
	struct message *m = &w->messages[message];
	bool bounces = is_too_old(w, message);
	struct schedule_step step = { .at_ns = w->now_ns,
		.event = bounces ? SCHEDULE_BOUNCE : SCHEDULE_DEFER,
		.transport = schedule_transport(w, destination), .message = message,
		.destination = destination, .recipients = recipients };

	schedule_show(w, &step);
	if (bounces) {
		w->result->bounced += recipients;
		return;
	}
	w->result->deferred += recipients;
	memory_grow(&m->deferred, &m->deferred_room, m->deferred_count, sizeof(*m->deferred));
	m->deferred[m->deferred_count++] = (struct scenario_recipients){ destination, recipients };
}

/* --- what waits for a place that is dead ------------------------------------------------ */

static bool is_in_core(const struct world *w, uint32_t message) {
	struct job_view job;

	for (uint32_t t = 0; t < w->scenario->transport_count; t++)
		if (job_view(w->board, w->messages[message].board, w->transports[t], &job) &&
		    job.in_core > 0)
			return true;
	return false;
}

static void deferred_settle(struct world *w, uint32_t message) {
	uint32_t on_board = w->messages[message].board;

	if (!is_in_core(w, message) &&
	    !schedule_read(w, message, pool_room(w->board, on_board), false))
		schedule_close(w, message);
}

bool schedule_settle_emptied(struct world *w) {
	bool any = !TAILQ_EMPTY(&w->emptied);
	struct message *m;

	while ((m = TAILQ_FIRST(&w->emptied)) != NULL) {
		uint32_t message = (uint32_t)(m - w->messages);

		TAILQ_REMOVE(&w->emptied, m, of_emptied);
		m->emptied = false;
		if (w->messages[message].board != JOB_NONE)
			deferred_settle(w, message);
	}
	return any;
}

static void withdraw_all(struct world *w, uint32_t destination) {
	uint32_t queue = w->destinations[destination].queue, on_board;

	while (!w->stopped &&
	    (on_board = job_waiting_next(w->board, queue, JOB_NONE)) != JOB_NONE) {
		uint32_t message = (uint32_t)job_message_word(w->board, on_board);

		schedule_defer(w, message, destination, job_withdraw(w->board, on_board, queue));
		deferred_settle(w, message);
	}
}

void schedule_kill_destination(struct world *w, uint32_t destination) {
	w->destinations[destination].dead_until_ns = w->now_ns + w->scenario->minimal_backoff_ns;
	withdraw_all(w, destination);
}

void schedule_kill_transport(struct world *w, uint32_t transport) {
	w->dead_until_ns[transport] = w->now_ns + w->scenario->transport_retry_ns;
	for (uint32_t i = 0; i < w->scenario->destination_count; i++)
		if (schedule_transport(w, i) == transport)
			withdraw_all(w, i);
}

/* --- back again ------------------------------------------------------------------------- */

static int by_destination(const void *a, const void *b) {
	const struct scenario_recipients *first = a, *second = b;

	return ORDER(first->destination, second->destination);
}

/* The deferred recipients are those of the next round: one run for a destination. */
static void begin_anew(struct message *m) {
	uint32_t count = 0;

	qsort(m->deferred, m->deferred_count, sizeof(*m->deferred), by_destination);
	m->unread = 0;
	for (uint32_t i = 0; i < m->deferred_count; i++) {
		m->unread += m->deferred[i].count;
		if (count > 0 && m->deferred[count - 1].destination == m->deferred[i].destination)
			m->deferred[count - 1].count += m->deferred[i].count;
		else
			m->deferred[count++] = m->deferred[i];
	}
	free(m->own);
	m->runs = m->own = m->deferred;
	m->run = m->offset = 0;
	m->deferred = NULL;
	m->deferred_count = 0;
	m->deferred_room = 0;
}

static int64_t return_ns(const struct world *w, uint32_t message) {
	const struct scenario *s = w->scenario;
	int64_t wait_ns = w->now_ns - s->messages[message].arrive_ns, due_ns;

	if (wait_ns > s->maximal_backoff_ns)
		wait_ns = s->maximal_backoff_ns;
	if (wait_ns < s->minimal_backoff_ns)
		wait_ns = s->minimal_backoff_ns;
	due_ns = w->now_ns + wait_ns + s->queue_run_ns - 1;
	return due_ns - due_ns % s->queue_run_ns;
}

void schedule_close(struct world *w, uint32_t message) {
	struct message *m = &w->messages[message];
	struct simulated_event event = { .kind = EVENT_RETURN, .item = m };

	job_message_close(w->board, w->messages[message].board);
	w->messages[message].board = JOB_NONE;
	if (m->deferred_count == 0) {
		w->left--;
		return;
	}
	begin_anew(m);
	event.at_ns = return_ns(w, message);
	simulate_push(&w->ends, &event);
}
