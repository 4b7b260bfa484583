/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  A simulated queue.
 * MODEL    One loop over events in virtual time: a message comes, or an attempt ends; between
 *          them each log has its turns, and free processes take what its runners bring.
 * ERRORS   No memory, or a journal that fails: the whole fails.
 * THREADS  One.
 */
#include "lab/simulate_queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "lab/memory.h"
#include "lab/simulate_events.h"

#define START_NS	(INT64_C(1800000000) * NS_PER_SECOND)
#define SEED		1
#define DESTINATIONS	50000u
#define RECORD_BYTES	64u		/* of a delivery in a file of its own */
#define TURNS_MOST	100000000u	/* a loop that stands still fails */

static const char mta[] = "simulated", directory[] = "/queue";

struct queued {
	uint32_t left;		/* recipients */
	uint16_t tries;
	uint8_t log;
};

struct queue_world {
	const struct queue_simulation *simulation;
	struct journal_storage *const *storages;
	struct messages *logs[QUEUED_LOGS_MAX];
	unsigned count;
	struct queued *queued;
	struct simulated_events events;
	struct queue_result *result;
	uint64_t random, envelope_bytes;
	uint32_t running, arrived, gone;
	int64_t now_ns;		/* since the start */
	bool failed;
};

static int64_t queue_wall(const struct queue_world *w) {
	return START_NS + w->now_ns;
}

static int64_t queue_interval(unsigned number) {
	unsigned last = messages_defaults.intervals - 1;

	return messages_defaults.intervals_ns[number < last ? number : last];
}

unsigned simulate_queue_logs(void) {
	return messages_defaults.intervals;
}

void simulate_queue_defaults(struct queue_simulation *simulation) {
	*simulation = (struct queue_simulation){ .messages = 20000, .per_second = 50,
		.recipients = 2, .attempts = 12, .processes = 500,
		.delivery_ns = NS_PER_SECOND, .deferred = 0.2 };
}

/* --- messages --------------------------------------------------------------------------- */

static void queue_id(uint32_t number, char id[16]) {
	snprintf(id, 16, "6AR%08u", number);
}

static uint64_t queue_key(const char *id) {
	return messages_key(mta, directory, id);
}

static size_t queue_domain(uint32_t number, uint32_t recipient, char domain[32]) {
	return (size_t)snprintf(domain, 32, "customer%u.example",
	    (number * 7 + recipient) % DESTINATIONS);
}

/* The first `left` of its recipients are those that are left. */
static void queue_put(struct queue_world *w, uint32_t number, unsigned log, int64_t wait_ns) {
	const struct queued *queued = &w->queued[number];
	struct messages_group groups[MESSAGES_GROUPS_MAX];
	char domains[MESSAGES_GROUPS_MAX][32], id[16];
	int64_t due_ns = wait_ns == 0 ? 0 : queue_wall(w) + wait_ns;

	for (uint32_t i = 0; i < queued->left; i++)
		groups[i] = (struct messages_group){ .domain = domains[i],
			.length = queue_domain(number, i, domains[i]), .recipients = 1,
			.due_ns = due_ns };
	queue_id(number, id);
	if (messages_put(w->logs[log], &(struct messages_envelope){ .mta = mta,
		.directory = directory, .id = id, .stamp = number + 1,
		.sender = "somebody@sender.example",
		.arrival_ns = queue_wall(w), .due_ns = due_ns,
		.tries = queued->tries, .recipients = queued->left, .groups = groups,
		.group_count = queued->left }, false, queue_wall(w)) == 0)
		w->failed = true;
}

static void queue_arrive(struct queue_world *w, uint32_t number) {
	struct storage_counts *files = &w->result->files.disk;
	struct journal_log_counts before, after;

	w->queued[number].left = w->simulation->recipients;
	journal_log_count(messages_log(w->logs[0]), &before);
	queue_put(w, number, 0, 0);
	journal_log_count(messages_log(w->logs[0]), &after);
	w->envelope_bytes = after.appended_bytes - before.appended_bytes;
	w->arrived++;
	files->writes++;
	files->written_bytes += w->envelope_bytes;
	files->syncs += 2;	/* the file, and its name in the directory */
}

static void queue_begin(struct queue_world *w, unsigned log, const char *id) {
	uint32_t number = (uint32_t)strtoul(id + 3, NULL, 10);
	struct simulated_event end = { .kind = EVENT_END, .what = number };

	/* unlike each other by half, so that they end in another order */
	end.at_ns = w->now_ns + (int64_t)((0.75 + simulate_share(&w->random) / 2) *
		(double)w->simulation->delivery_ns);
	if (messages_start(w->logs[log], queue_key(id), 0, queue_wall(w)) == 0)
		w->failed = true;
	simulate_push(&w->events, &end);
	w->running++;
	w->result->attempts++;
	w->result->files.disk.reads++;
	w->result->files.disk.read_bytes += w->envelope_bytes;
}

static void queue_deliver(struct queue_world *w, uint32_t number, const char *id) {
	struct queued *queued = &w->queued[number];
	struct storage_counts *files = &w->result->files.disk;
	char domain[32];

	for (uint32_t left = queued->left; left > 0; left--) {
		size_t length = queue_domain(number, left - 1, domain);

		if (simulate_share(&w->random) < w->simulation->deferred)
			continue;
		if (messages_delivered(w->logs[queued->log], queue_key(id),
		    &(const struct journal_delivery){ .domain = { domain, (uint16_t)length },
			.recipients = 1 }, queue_wall(w)) == 0)
			w->failed = true;
		queued->left--;
		w->result->delivered++;
		files->writes++;
		files->written_bytes += RECORD_BYTES;
		files->syncs++;
	}
}

/* What is deferred waits in its interval's log, and is there before it leaves the other. */
static void queue_end(struct queue_world *w, uint32_t number) {
	struct queued *queued = &w->queued[number];
	uint8_t before = queued->log;
	char id[16];

	queue_id(number, id);
	w->running--;
	queue_deliver(w, number, id);
	queued->tries++;
	if (queued->left > 0 && queued->tries < w->simulation->attempts) {
		unsigned last = w->count - 1;

		queued->log = (uint8_t)(queued->tries < last ? queued->tries : last);
		queue_put(w, number, queued->log, queue_interval(queued->tries));
		w->result->files.disk.writes++;
		w->result->files.disk.written_bytes += RECORD_BYTES;
		if (queued->log == before)
			return;
	} else {
		w->result->returned += queued->left;
		w->gone++;
	}
	if (messages_finish(w->logs[before], queue_key(id), queue_wall(w)) == 0)
		w->failed = true;
}

/* --- the loop --------------------------------------------------------------------------- */

/* By turns, one of each log.  Returns when a runner comes to the next one. */
static int64_t queue_fill(struct queue_world *w) {
	int64_t next_ns = INT64_MAX;
	unsigned none = 0;

	for (unsigned log = 0; w->running < w->simulation->processes && none < w->count;
	    log = (log + 1) % w->count) {
		struct messages_envelope envelope;
		int64_t at_ns = INT64_MAX;
		char id[16];

		switch (messages_next(w->logs[log], queue_wall(w), &envelope, &at_ns)) {
		case MESSAGES_ONE:
			snprintf(id, sizeof(id), "%s", envelope.id);
			queue_begin(w, log, id);
			none = 0;
			break;
		case MESSAGES_MORE:
			return w->now_ns;
		default:
			none++;
			if (at_ns != INT64_MAX && at_ns - START_NS < next_ns)
				next_ns = at_ns - START_NS;
		}
	}
	return next_ns;
}

static int64_t queue_turn(struct queue_world *w) {
	int64_t next_ns = INT64_MAX;
	uint64_t memory = 0;

	for (unsigned i = 0; i < w->count; i++) {
		int64_t at_ns = messages_turn(w->logs[i], queue_wall(w), w->now_ns);
		struct messages_totals totals;

		if (at_ns < next_ns)
			next_ns = at_ns;
		messages_count(w->logs[i], &totals);
		memory += totals.index_bytes;
	}
	if (memory > w->result->logs.memory_bytes)
		w->result->logs.memory_bytes = memory;
	return next_ns;
}

/* A start with what is there now, which changes nothing. */
static void queue_restart(struct queue_world *w) {
	const struct messages_calls calls = { .renewed = NULL };
	struct messages_settings settings = messages_defaults;
	struct storage_counts counts;

	settings.log.threaded = false;
	for (unsigned i = 0; i < w->count; i++) {
		struct journal_storage *copy;
		struct messages *messages = NULL;
		struct diag diag;

		journal_log_flush(messages_log(w->logs[i]));
		copy = journal_storage_memory_copy(w->storages[i]);
		if (copy == NULL || messages_open(&messages, copy, &settings, &calls, queue_wall(w),
			w->now_ns, &diag) != 0) {
			w->failed = true;
			journal_storage_memory_close(&copy);
			return;
		}
		while (!messages_is_recovered(messages))
			(void)messages_turn(messages, queue_wall(w), w->now_ns);
		journal_storage_memory_count(copy, &counts);
		w->result->logs.restart_bytes += counts.read_bytes;
		messages_close(&messages);
		journal_storage_memory_close(&copy);
	}
	w->result->files.restart_bytes = (w->arrived - w->gone) * w->envelope_bytes;
}

static void queue_event(struct queue_world *w, bool in_memory) {
	struct simulated_event event = simulate_pop(&w->events);

	if (event.kind == EVENT_END) {
		queue_end(w, event.what);
		return;
	}
	queue_arrive(w, event.what);
	if (w->arrived == w->simulation->messages && in_memory)
		queue_restart(w);
	if (w->arrived == w->simulation->messages)
		return;
	event.what++;
	event.at_ns = (int64_t)event.what * NS_PER_SECOND / w->simulation->per_second;
	simulate_push(&w->events, &event);
}

static void queue_run(struct queue_world *w, bool in_memory) {
	for (uint32_t turns = 0; !w->failed && w->gone < w->simulation->messages; turns++) {
		int64_t turn_ns, fill_ns, next_ns;

		while (simulate_is_due(&w->events, w->now_ns) && !w->failed)
			queue_event(w, in_memory);
		turn_ns = queue_turn(w);
		fill_ns = queue_fill(w);
		next_ns = turn_ns < fill_ns ? turn_ns : fill_ns;
		if (simulate_is_due(&w->events, next_ns))
			next_ns = w->events.heap[0].at_ns;
		if (turns == TURNS_MOST || next_ns == INT64_MAX)
			w->failed = true;
		else if (next_ns > w->now_ns)
			w->now_ns = next_ns;
	}
	w->result->duration_ns = w->now_ns;
}

/* --- the whole -------------------------------------------------------------------------- */

static bool queue_open(struct queue_world *w) {
	const struct messages_calls calls = { .renewed = NULL };

	for (unsigned i = 0; i < w->count; i++) {
		struct messages_settings settings = messages_defaults;
		struct diag diag;

		settings.log.threaded = false;
		if (w->count > 1) {
			settings.intervals_ns[1] = queue_interval(i > 0 ? i : 1);
			settings.intervals = 2;
		}
		if (messages_open(&w->logs[i], w->storages[i], &settings, &calls, queue_wall(w),
			w->now_ns, &diag) != 0 || messages_is_degraded(w->logs[i]))
			return false;
		for (unsigned turn = 0; turn < 100 && !messages_is_indexed(w->logs[i]); turn++)
			(void)messages_turn(w->logs[i], queue_wall(w), w->now_ns);
	}
	return true;
}

static void queue_close(struct queue_world *w, bool in_memory) {
	for (unsigned i = 0; i < w->count; i++) {
		struct messages_totals totals = { 0 };
		struct storage_counts counts = { 0 };

		if (w->logs[i] != NULL)
			messages_count(w->logs[i], &totals);
		w->result->written_anew += totals.written_anew;
		messages_close(&w->logs[i]);
		if (in_memory)
			journal_storage_memory_count(w->storages[i], &counts);
		w->result->logs.disk.reads += counts.reads;
		w->result->logs.disk.read_bytes += counts.read_bytes;
		w->result->logs.disk.writes += counts.writes;
		w->result->logs.disk.written_bytes += counts.written_bytes;
		w->result->logs.disk.syncs += counts.syncs;
	}
	simulate_events_free(&w->events);
	free(w->queued);
}

bool simulate_queue(const struct queue_simulation *simulation,
    struct journal_storage *const storages[], unsigned logs, bool in_memory,
    struct queue_result *result) {
	struct queue_world w = { .simulation = simulation, .storages = storages, .count = logs,
		.result = result, .random = SEED };
	const struct simulated_event first = { .kind = EVENT_ARRIVAL };

	memset(result, 0, sizeof(*result));
	w.queued = memory_of(simulation->messages, sizeof(*w.queued));
	simulate_push(&w.events, &first);
	w.failed = !queue_open(&w);
	if (!w.failed)
		queue_run(&w, in_memory);
	queue_close(&w, in_memory);
	return !w.failed;
}
