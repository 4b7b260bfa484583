/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The deliveries and the scheduler's states of a simulated schedule.
 * MODEL    A state is a line of texts, made while the scheduler stands at it; jobs have
 *          their messages' numbers, as in the document.
 * ERRORS   failed: no memory; full: more than TRACE_BYTES_MAX.
 * THREADS  One.
 */
#include "lab/schedule_trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/schedule/pool.h"

/* --- states -------------------------------------------------------------------------- */

static void write_slots(FILE *out, const struct job_view *view) {
	if (view->slots != 0)
		fprintf(out, "%u:%d ", (unsigned)view->word + 1, (int)view->slots);
}

static void write_entries(FILE *out, const struct job_view *view) {
	fprintf(out, "%u:%u/%u", (unsigned)view->word + 1,
	    (unsigned)(view->least_entries - view->waiting_entries),
	    (unsigned)view->least_entries);
	if (view->most_entries != view->least_entries)
		fprintf(out, "..%u", (unsigned)view->most_entries);
	putc(' ', out);
}

static void write_one(FILE *out, enum trace_text text, const struct schedule_look *look,
    const struct job_view *view) {
	unsigned number = (unsigned)view->word + 1;
	struct pool_view pool;

	switch (text) {
	case TRACE_JOBS:
		fprintf(out, "%u-", number);
		break;
	case TRACE_CURRENT:
		if (view->current)
			fprintf(out, "%u ", number);
		break;
	case TRACE_BLOCKED:
		if (view->blocker)
			fprintf(out, "%u ", number);
		break;
	case TRACE_PARENTS:
		if (view->parent != JOB_NONE)
			fprintf(out, "%u:%u ", number,
			    (unsigned)job_message_word(look->board, view->parent) + 1);
		else if (view->level > 0)
			fprintf(out, "%u:- ", number);
		break;
	case TRACE_SLOTS:
		write_slots(out, view);
		break;
	case TRACE_ENTRIES:
		write_entries(out, view);
		break;
	case TRACE_RECIPIENTS:
		if (pool_job_view(look->board, view->message, view->transport, &pool))
			fprintf(out, "%u:%llu/%lld ", number, (unsigned long long)pool.in_core,
			    (long long)pool.slots);
		break;
	case TRACE_UNREAD:
		if (view->unread > 0)
			fprintf(out, "%u:%u+%u ", number, (unsigned)view->unread,
			    (unsigned)pool_room(look->board, view->message));
		break;
	case TRACE_POOL: case TRACE_TEXTS:
		break;
	}
}

static void write_text(FILE *out, enum trace_text text, uint32_t transport,
    const struct schedule_look *look) {
	uint32_t on_board = look->transports[transport];
	struct pool_view pool;
	struct job_view view;

	if (text == TRACE_POOL) {
		pool_transport_view(look->board, on_board, &pool);
		fprintf(out, "%lld ", (long long)pool.slots);
		return;
	}
	for (uint32_t message = job_list_next(look->board, on_board, JOB_NONE);
	     message != JOB_NONE; message = job_list_next(look->board, on_board, message))
		if (job_view(look->board, message, on_board, &view))
			write_one(out, text, look, &view);
}

/* All texts of a state, one after the other; NULL: no memory. */
static char *texts_of(uint32_t transport, const struct schedule_look *look, size_t *length) {
	char *text = NULL;
	FILE *out = open_memstream(&text, length);

	if (out == NULL)
		return NULL;
	for (unsigned i = 0; i < TRACE_TEXTS; i++) {
		long start = ftell(out);

		write_text(out, (enum trace_text)i, transport, look);
		/* the separator behind the last one goes */
		if (ftell(out) > start)
			fseek(out, -1, SEEK_CUR);
		putc('\0', out);
	}
	if (fclose(out) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

static bool array_grow(void *array, size_t *room, size_t count, size_t size) {
	void **place = array, *grown;
	size_t wanted = *room > 0 ? 2 * *room : 256;

	if (count < *room)
		return true;
	grown = reallocarray(*place, wanted, size);
	if (grown == NULL)
		return false;
	*place = grown;
	*room = wanted;
	return true;
}

static void keep_delivery(struct trace *trace, const struct schedule_step *step) {
	size_t room = trace->room;

	if (!array_grow(&trace->deliveries, &room, trace->count, sizeof(*trace->deliveries)) ||
	    !array_grow(&trace->order, &trace->room, trace->count, sizeof(*trace->order))) {
		trace->failed = true;
		return;
	}
	trace->deliveries[trace->count] = *step;
	trace->order[trace->count++] = step->message + 1;
}

static void keep_state(struct trace *trace, const struct schedule_step *step,
    const struct schedule_look *look) {
	size_t length = 0;
	char *text;

	text = trace->failed ? NULL : array_grow(&trace->steps, &trace->step_room, trace->step_count,
	    sizeof(*trace->steps)) ? texts_of(step->transport, look, &length) : NULL;
	if (text == NULL) {
		trace->failed = true;
		return;
	}
	trace->steps[trace->step_count++] = (struct trace_state){ *step, text };
	trace->bytes += length + sizeof(struct trace_state);
	trace->full = trace->bytes > TRACE_BYTES_MAX;
}

bool trace_keep(void *context, const struct schedule_step *step,
    const struct schedule_look *look) {
	struct trace *trace = context;

	if (step->event == SCHEDULE_START)
		keep_delivery(trace, step);
	if (trace->states)
		keep_state(trace, step, look);
	return !trace->full && !trace->failed;
}

void trace_free(struct trace *trace) {
	for (size_t i = 0; i < trace->step_count; i++)
		free(trace->steps[i].text);
	free(trace->steps);
	free(trace->deliveries);
	free(trace->order);
}

/* --- output ----------------------------------------------------------------------------- */

struct rows {
	const struct trace *trace;
	const struct scenario *scenario;
};

static struct value number_of(uint32_t message) {
	return message == SCENARIO_NONE ? value_unknown() : value_number(message + 1);
}

static struct value destination_of(const struct rows *rows, uint32_t destination) {
	return destination == SCENARIO_NONE ? value_unknown() :
	    value_text(scenario_name(rows->scenario, destination));
}

static void delivery_rows(void *context, struct writer *writer) {
	const struct rows *rows = context;

	for (size_t i = 0; i < rows->trace->count; i++) {
		const struct schedule_step *step = &rows->trace->deliveries[i];
		const struct value values[] = {
			value_decimal((double)step->at_ns / 1e9),
			number_of(step->message),
			value_text(rows->scenario->transports[step->transport].name),
			destination_of(rows, step->destination),
			value_number(step->recipients),
			value_text(step->fails ? "failed" : "delivered"),
		};

		writer_row(writer, values);
	}
}

void trace_write_deliveries(const struct trace *trace, const struct scenario *scenario,
    struct writer *writer) {
	static const struct column columns[] = {
		{ "time_s", COLUMN_DECIMAL },
		{ "message", COLUMN_NUMBER },
		{ "transport", COLUMN_TEXT },
		{ "destination", COLUMN_TEXT },
		{ "recipients", COLUMN_NUMBER },
		{ "result", COLUMN_TEXT },
	};
	struct rows rows = { trace, scenario };

	writer_table(writer, "deliveries", columns, sizeof(columns) / sizeof(columns[0]),
	    delivery_rows, &rows);
}

static void step_rows(void *context, struct writer *writer) {
	const struct rows *rows = context;

	for (size_t i = 0; i < rows->trace->step_count; i++) {
		const struct schedule_step *step = &rows->trace->steps[i].step;
		const char *text = rows->trace->steps[i].text;
		struct value values[6 + TRACE_TEXTS] = {
			value_decimal((double)step->at_ns / 1e9),
			value_text(schedule_event_word(step->event)),
			number_of(step->message),
			value_text(rows->scenario->transports[step->transport].name),
			destination_of(rows, step->destination),
			value_number(step->recipients),
		};

		for (unsigned j = 0; j < TRACE_TEXTS; j++) {
			values[6 + j] = value_text(text);
			text += strlen(text) + 1;
		}
		writer_row(writer, values);
	}
}

void trace_write_steps(const struct trace *trace, const struct scenario *scenario,
    struct writer *writer) {
	static const struct column columns[6 + TRACE_TEXTS] = {
		{ "time_s", COLUMN_DECIMAL },
		{ "event", COLUMN_TEXT },
		{ "message", COLUMN_NUMBER },
		{ "transport", COLUMN_TEXT },
		{ "destination", COLUMN_TEXT },
		{ "recipients", COLUMN_NUMBER },
		[6 + TRACE_JOBS] = { "jobs", COLUMN_TEXT },
		[6 + TRACE_CURRENT] = { "current", COLUMN_TEXT },
		[6 + TRACE_BLOCKED] = { "blocked", COLUMN_TEXT },
		[6 + TRACE_PARENTS] = { "parents", COLUMN_TEXT },
		[6 + TRACE_SLOTS] = { "slots", COLUMN_TEXT },
		[6 + TRACE_ENTRIES] = { "entries", COLUMN_TEXT },
		[6 + TRACE_RECIPIENTS] = { "in_core", COLUMN_TEXT },
		[6 + TRACE_UNREAD] = { "unread", COLUMN_TEXT },
		[6 + TRACE_POOL] = { "pool", COLUMN_TEXT },
	};
	struct rows rows = { trace, scenario };

	writer_table(writer, "steps", columns, sizeof(columns) / sizeof(columns[0]),
	    step_rows, &rows);
}
