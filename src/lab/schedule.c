/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Runs a scenario in virtual time.
 * MODEL    A world (schedule_internal.h), and events of four kinds, each in an order of its
 *          own: arrivals and changes of windows are sorted arrays, ends and returns a heap,
 *          steered completions a list.  Nothing is random.  Recipients are read where the message's
 *          cursor stands, and sorted as Postfix sorts them.
 * ERRORS   schedule_end; no memory: the program ends.
 * THREADS  One.
 */
#include "lab/schedule.h"

#include <stdlib.h>

#include "base/diag.h"
#include "base/order.h"
#include "lab/memory.h"
#include "lab/schedule_internal.h"
#include "policy/schedule/pool.h"

void schedule_show(struct world *w, const struct schedule_step *step) {
	if (w->show != NULL && !w->show(w->context, step, &w->look))
		w->stopped = true;
}

static void step_show(struct world *w, enum schedule_event event, uint32_t transport,
    uint32_t message, uint32_t destination, uint32_t recipients) {
	struct schedule_step step = { .at_ns = w->now_ns, .event = event,
		.transport = transport, .message = message, .destination = destination,
		.recipients = recipients };

	schedule_show(w, &step);
}

/* --- recipients ------------------------------------------------------------------- */

static int by_rank(const void *a, const void *b, void *context) {
	const struct scenario *s = context;
	uint32_t first = s->destinations[((const struct part *)a)->destination].rank;
	uint32_t second = s->destinations[((const struct part *)b)->destination].rank;

	return ORDER(first, second);
}

/* Those of places that are dead are deferred at once: how many parts are left. */
static size_t drop_dead_parts(struct world *w, uint32_t number, size_t count) {
	size_t left = 0;

	for (size_t i = 0; i < count; i++) {
		if (schedule_is_dead(w, w->parts[i].destination))
			schedule_defer(w, number, w->parts[i].destination, w->parts[i].count);
		else
			w->parts[left++] = w->parts[i];
	}
	return left;
}

/* Reads at most `most` recipients into parts[]: how many parts. */
static size_t read_parts(struct world *w, uint32_t number, uint32_t most, uint32_t *read) {
	const struct scenario *s = w->scenario;
	struct message *m = &w->messages[number];
	size_t count = 0;

	*read = 0;
	while (m->unread > 0 && *read < most) {
		const struct scenario_recipients *run = &m->runs[m->run];
		uint32_t n = run->count - m->offset;

		if (n > most - *read)
			n = most - *read;
		w->parts[count++] = (struct part){ run->destination, n };
		m->offset += n;
		m->unread -= n;
		*read += n;
		if (m->offset == run->count) {
			m->run++;
			m->offset = 0;
		}
	}
	qsort_r(w->parts, count, sizeof(w->parts[0]), by_rank, (void *)(uintptr_t)s);
	return count;
}

bool schedule_read(struct world *w, uint32_t number, uint32_t most, bool first) {
	uint32_t read, unread, on_board = w->messages[number].board;
	size_t count;
	bool any;

	if (most > BATCH_MOST)
		most = BATCH_MOST;
	do
		count = drop_dead_parts(w, number, read_parts(w, number, most, &read));
	while (count == 0 && w->messages[number].unread > 0 && w->scenario->fails);
	unread = w->messages[number].unread;
	/* Postfix stops where it may not read more, and does not look whether there is any */
	if (unread == 0 && read == most && count > 0)
		unread = JOB_UNREAD_MAYBE;
	job_batch_begin(w->board, on_board, unread, w->now_ns);
	for (size_t i = 0; i < count; i++) {
		const struct part *part = &w->parts[i];

		MUST(job_batch_add(w->board, on_board,
		    w->destinations[part->destination].queue, part->count));
	}
	any = job_batch_end(w->board, on_board);
	/* once for each transport: the parts are sorted by it */
	for (size_t i = 0; i < count; i++) {
		uint32_t transport = schedule_transport(w, w->parts[i].destination), own = 0;

		if (i > 0 && transport == schedule_transport(w, w->parts[i - 1].destination))
			continue;
		for (size_t j = i; j < count &&
		     schedule_transport(w, w->parts[j].destination) == transport; j++)
			own += w->parts[j].count;
		step_show(w, first ? SCHEDULE_ARRIVE : SCHEDULE_READ, transport, number,
		    SCENARIO_NONE, own);
	}
	return any;
}

static void read_more(void *context, uint32_t on_board, uint32_t most) {
	struct world *w = context;

	uint32_t number = (uint32_t)job_message_word(w->board, on_board);

	/* the scheduler, which asks, is not to be disturbed */
	if (!schedule_read(w, number, most, false) && !w->messages[number].emptied) {
		w->messages[number].emptied = true;
		TAILQ_INSERT_TAIL(&w->emptied, &w->messages[number], of_emptied);
	}
}

/* Those that have come are taken in while there is room. */
static void open_messages(struct world *w) {
	while (!w->stopped) {
		struct messages *from = TAILQ_EMPTY(&w->incoming) ? &w->back : &w->incoming;
		struct message *m = TAILQ_FIRST(from);
		uint32_t number, on_board;

		if (m == NULL)
			return;
		number = (uint32_t)(m - w->messages);
		on_board = job_message_open(w->board, number, w->now_ns);
		if (on_board == JOB_NONE)
			return;
		TAILQ_REMOVE(from, m, of_waiting);
		m->board = on_board;
		if (!schedule_read(w, number, pool_first(w->board, on_board), true))
			schedule_close(w, number);
	}
}

/* --- deliveries ------------------------------------------------------------------- */

static int64_t service_ns(const struct world *w, uint32_t message, uint32_t destination) {
	const struct scenario *s = w->scenario;
	const struct scenario_destination *d = &s->destinations[destination];

	return s->messages[message].service_ns >= 0 ? s->messages[message].service_ns :
	    d->service_ns >= 0 ? d->service_ns : s->transports[d->transport].service_ns;
}

static bool is_steered(const struct world *w) {
	return w->completed < w->scenario->completion_count;
}

/* It will end by itself. */
static void await_end(struct world *w, struct under_way *delivery) {
	int64_t at_ns = delivery->start_ns + (delivery->accepted ?
	    service_ns(w, delivery->message, delivery->destination) :
	    w->scenario->destinations[delivery->destination].refusal_ns);
	struct simulated_event event = { .kind = EVENT_END, .item = delivery,
		.at_ns = at_ns > w->now_ns ? at_ns : w->now_ns };

	simulate_push(&w->ends, &event);
}

/* Where it begins or ends. */
static void delivery_show(struct world *w, enum schedule_event event,
    const struct under_way *delivery) {
	schedule_show(w, &(struct schedule_step){ .at_ns = w->now_ns, .event = event,
		.transport = schedule_transport(w, delivery->destination),
		.message = delivery->message, .destination = delivery->destination,
		.recipients = delivery->taken.recipients, .fails = !delivery->accepted });
}

static void delivery_start(struct world *w, const struct job_taken *taken) {
	struct under_way *delivery = memory_of(1, sizeof(*delivery));

	*delivery = (struct under_way){ .taken = *taken, .start_ns = w->now_ns,
		.message = (uint32_t)job_message_word(w->board, taken->message),
		.destination = (uint32_t)job_queue_word(w->board, taken->queue) };
	TAILQ_INSERT_TAIL(&w->deliveries, delivery, of_world);
	TAILQ_INSERT_TAIL(&w->messages[delivery->message].deliveries, delivery, of_message);
	w->result->deliveries++;
	schedule_try(w, delivery);
	if (!is_steered(w))
		await_end(w, delivery);
	delivery_show(w, SCHEDULE_START, delivery);
}

static void start_all(struct world *w) {
	struct job_reader reader = { read_more, w };
	struct job_taken taken;

	do {
		open_messages(w);
		while (!w->stopped &&
		    job_next(w->board, JOB_NONE, &reader, w->now_ns, &taken))
			delivery_start(w, &taken);
	} while (schedule_settle_emptied(w) && !w->stopped);
}

/* The window goes by the law, where the scenario does not say what it is.  True: the destination
 * is dead now. */
static bool teach_window(struct world *w, uint32_t destination, bool accepted) {
	const struct scenario_destination *d = &w->scenario->destinations[destination];
	const struct window_settings *settings = &w->scenario->transports[d->transport].window;
	struct destination *own = &w->destinations[destination];
	struct window_result result = { .class = accepted ? RESULT_OK : RESULT_SITE_FAILURE };
	struct window_change change;
	struct job_queue_view view;

	if (d->change_count > 0 || own->dead_until_ns > w->now_ns)
		return false;
	job_queue_view(w->board, own->queue, &view);
	result.in_flight = view.busy - 1;
	window_result(&own->window, settings, &result, w->now_ns, &change);
	if (change.window)
		job_queue_window(w->board, own->queue, window_now(&own->window, settings, w->now_ns));
	return change.died;
}

/* Postfix forgets a destination of which nothing is in core: its window begins anew. */
static void forget_window(struct world *w, uint32_t destination) {
	const struct scenario_destination *d = &w->scenario->destinations[destination];
	const struct window_settings *settings = &w->scenario->transports[d->transport].window;
	struct destination *own = &w->destinations[destination];
	struct job_queue_view view;

	job_queue_view(w->board, own->queue, &view);
	if (d->change_count > 0 || view.waiting_recipients > 0 || view.running_entries > 0)
		return;
	window_begin(&own->window, settings);
	job_queue_window(w->board, own->queue, window_now(&own->window, settings, w->now_ns));
}

static void delivery_end(struct world *w, struct under_way *delivery) {
	uint32_t message = delivery->message, destination = delivery->destination;
	enum job_left left;
	bool died;

	TAILQ_REMOVE(&w->deliveries, delivery, of_world);
	TAILQ_REMOVE(&w->messages[message].deliveries, delivery, of_message);
	w->destinations[destination].accepted -= delivery->accepted;
	died = !delivery->program_fails && teach_window(w, destination, delivery->accepted);
	left = job_done(w->board, &delivery->taken);
	if (!delivery->accepted)
		schedule_defer(w, message, destination, delivery->taken.recipients);
	forget_window(w, destination);
	if (left == JOB_LEFT_UNREAD &&
	    !schedule_read(w, message, pool_room(w->board, delivery->taken.message), false))
		left = JOB_LEFT_NONE;
	if (left == JOB_LEFT_NONE)
		schedule_close(w, message);
	if (died)
		schedule_kill_destination(w, destination);
	if (delivery->program_fails)
		schedule_kill_transport(w, schedule_transport(w, destination));
	delivery_show(w, SCHEDULE_END, delivery);
	free(delivery);
	open_messages(w);
}

/* The delivery that a completion means, or NULL. */
static struct under_way *completion_meant(const struct world *w,
    const struct scenario_completion *completion) {
	struct under_way *delivery;

	TAILQ_FOREACH(delivery, &w->messages[completion->message].deliveries, of_message)
		if (completion->destination == SCENARIO_NONE ||
		    delivery->destination == completion->destination)
			break;
	return delivery;
}

/* --- time --------------------------------------------------------------------------- */

static int64_t arrival_ns(const struct world *w) {
	return w->arrived < w->scenario->message_count ?
	    w->scenario->messages[w->arrivals[w->arrived]].arrive_ns : INT64_MAX;
}

static int64_t change_ns(const struct world *w) {
	return w->changed < w->change_count ? w->changes[w->changed].at_ns : INT64_MAX;
}

/* Of the next steered completion: INT64_MAX while its delivery is not under way. */
static int64_t completion_ns(const struct world *w) {
	const struct scenario_completion *completion;

	if (!is_steered(w))
		return INT64_MAX;
	completion = &w->scenario->completions[w->completed];
	if (completion_meant(w, completion) == NULL)
		return INT64_MAX;
	return completion->at_ns > w->now_ns ? completion->at_ns : w->now_ns;
}

static void arrive_all(struct world *w) {
	while (arrival_ns(w) == w->now_ns) {
		uint32_t number = w->arrivals[w->arrived++];

		TAILQ_INSERT_TAIL(w->scenario->messages[number].deferred ? &w->back : &w->incoming,
		    &w->messages[number], of_waiting);
	}
	open_messages(w);
}

static void change_all(struct world *w) {
	for (; change_ns(w) == w->now_ns; w->changed++) {
		const struct change_event *change = &w->changes[w->changed];

		job_queue_window(w->board, w->destinations[change->destination].queue,
		    change->window);
		step_show(w, SCHEDULE_WINDOW, schedule_transport(w, change->destination), SCENARIO_NONE,
		    change->destination, change->window);
	}
}

/* One event, or all arrivals and changes of one time.  False: there is none. */
static bool world_step(struct world *w) {
	int64_t come = arrival_ns(w), change = change_ns(w), steered = completion_ns(w);
	int64_t ended = w->ends.count > 0 ? w->ends.heap[0].at_ns : INT64_MAX;
	int64_t next = come < change ? come : change;

	if (next == INT64_MAX && steered == INT64_MAX && ended == INT64_MAX)
		return false;
	if (next <= steered && next <= ended) {
		w->now_ns = next;
		arrive_all(w);
		change_all(w);
	} else if (steered <= ended) {
		struct under_way *meant = completion_meant(w,
		    &w->scenario->completions[w->completed]), *delivery;

		w->now_ns = steered;
		/* of the last one the others end by themselves */
		if (++w->completed == w->scenario->completion_count)
			TAILQ_FOREACH(delivery, &w->deliveries, of_world)
				if (delivery != meant)
					await_end(w, delivery);
		delivery_end(w, meant);
	} else {
		struct simulated_event event = simulate_pop(&w->ends);

		w->now_ns = ended;
		if (event.kind == EVENT_END) {
			delivery_end(w, event.item);
		} else {
			TAILQ_INSERT_TAIL(&w->back, (struct message *)event.item, of_waiting);
			open_messages(w);
		}
	}
	start_all(w);
	return !w->stopped;
}

/* --- all ------------------------------------------------------------------------------ */

static void world_finish(struct world *w) {
	struct schedule_result *result = w->result;

	result->at_ns = w->now_ns;
	result->left = w->left;
	if (w->stopped) {
		result->end = SCHEDULE_STOPPED;
	} else if (is_steered(w)) {
		result->end = SCHEDULE_NOT_RUNNING;
		result->line = w->scenario->completions[w->completed].line;
	} else if (w->left > 0) {
		result->end = SCHEDULE_STUCK;
	}
}

void schedule_run(const struct scenario *scenario, schedule_show_fn *show_fn, void *context,
    struct schedule_result *result) {
	struct world *w = memory_of(1, sizeof(*w));

	*result = (struct schedule_result){ .end = SCHEDULE_DONE };
	w->scenario = scenario;
	w->result = result;
	w->show = show_fn;
	w->context = context;
	schedule_world_begin(w);
	while (world_step(w))
		;
	world_finish(w);
	schedule_world_free(w);
}
