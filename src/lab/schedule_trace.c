/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The deliveries and the scheduler's states of a simulated schedule.
 * MODEL    A state is a line of texts, made while the scheduler stands at it; jobs have
 *          their messages' numbers, as in the document.
 * ERRORS   full: more than TRACE_BYTES_MAX; no memory: the program ends.
 * THREADS  One.
 */
#include "lab/schedule_trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/memory.h"
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
		fprintf(out, "%u:%u/%d ", number, (unsigned)view->in_core,
		    (int)view->recipient_slots);
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
	struct job_view view;

	if (text == TRACE_POOL) {
		fprintf(out, "%lld ", (long long)pool_unused(look->board, on_board));
		return;
	}
	for (uint32_t message = job_list_next(look->board, on_board, JOB_NONE);
	     message != JOB_NONE; message = job_list_next(look->board, on_board, message))
		if (job_view(look->board, message, on_board, &view))
			write_one(out, text, look, &view);
}

/* All texts of a state, one after the other. */
static char *texts_of(uint32_t transport, const struct schedule_look *look, size_t *length) {
	char *text = NULL;
	FILE *out = memory_is_there(open_memstream(&text, length));

	for (unsigned i = 0; i < TRACE_TEXTS; i++) {
		long start = ftell(out);

		write_text(out, (enum trace_text)i, transport, look);
		/* the separator behind the last one goes */
		if (ftell(out) > start)
			fseek(out, -1, SEEK_CUR);
		putc('\0', out);
	}
	return memory_is_there(fclose(out) == 0 ? text : NULL);
}

static void keep_delivery(struct trace *trace, const struct schedule_step *step) {
	memory_grow(&trace->deliveries, &trace->room, trace->count, sizeof(*trace->deliveries));
	trace->deliveries[trace->count++] = *step;
}

static void keep_state(struct trace *trace, const struct schedule_step *step,
    const struct schedule_look *look) {
	size_t length = 0;
	char *text = texts_of(step->transport, look, &length);

	memory_grow(&trace->steps, &trace->step_room, trace->step_count, sizeof(*trace->steps));
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
	return !trace->full;
}

void trace_free(struct trace *trace) {
	for (size_t i = 0; i < trace->step_count; i++)
		free(trace->steps[i].text);
	free(trace->steps);
	free(trace->deliveries);
}

/* --- output ----------------------------------------------------------------------------- */

static struct value number_of(uint32_t message) {
	return value_number_if(message != SCENARIO_NONE, message + 1);
}

/* Transport and destination of a step. */
static void put_where(const struct scenario *scenario, struct writer *writer,
    const struct schedule_step *step) {
	writer_text(writer, "transport", scenario->transports[step->transport].name);
	writer_text(writer, "destination", step->destination == SCENARIO_NONE ? NULL :
	    scenario_name(scenario, step->destination));
	writer_number(writer, "recipients", step->recipients);
}

static void delivery_row(void *context, struct writer *writer, const void *item) {
	const struct schedule_step *step = item;

	writer_decimal(writer, "time_s", value_decimal((double)step->at_ns / 1e9));
	writer_member(writer, "message", COLUMN_NUMBER, number_of(step->message));
	put_where(context, writer, step);
	writer_text(writer, "result", step->fails ? "failed" : "delivered");
}

void trace_write_deliveries(const struct trace *trace, const struct scenario *scenario,
    struct writer *writer) {
	writer_table(writer, &(const struct table){ .name = "deliveries", .row = delivery_row,
	    .context = (void *)(uintptr_t)scenario, .items = trace->deliveries,
	    .count = trace->count, .each = sizeof(*trace->deliveries) });
}

static void step_row(void *context, struct writer *writer, const void *item) {
	static const char *const events[SCHEDULE_EVENT_COUNT] = {
		[SCHEDULE_ARRIVE] = "arrive", [SCHEDULE_READ] = "read",
		[SCHEDULE_WINDOW] = "window", [SCHEDULE_START] = "start",
		[SCHEDULE_END] = "end", [SCHEDULE_DEFER] = "defer", [SCHEDULE_BOUNCE] = "bounce",
	};
	static const char *const names[TRACE_TEXTS] = {
		[TRACE_JOBS] = "jobs", [TRACE_CURRENT] = "current", [TRACE_BLOCKED] = "blocked",
		[TRACE_PARENTS] = "parents", [TRACE_SLOTS] = "slots",
		[TRACE_ENTRIES] = "entries", [TRACE_RECIPIENTS] = "in_core",
		[TRACE_UNREAD] = "unread", [TRACE_POOL] = "pool",
	};
	const struct trace_state *state = item;
	const char *text = state->text;

	writer_decimal(writer, "time_s", value_decimal( (double)state->step.at_ns / 1e9));
	writer_text(writer, "event", events[state->step.event]);
	writer_member(writer, "message", COLUMN_NUMBER, number_of(state->step.message));
	put_where(context, writer, &state->step);
	for (unsigned i = 0; i < TRACE_TEXTS; i++) {
		writer_text(writer, names[i], text);
		text += text == NULL ? 0 : strlen(text) + 1;
	}
}

void trace_write_steps(const struct trace *trace, const struct scenario *scenario,
    struct writer *writer) {
	writer_table(writer, &(const struct table){ .name = "steps", .row = step_row,
	    .context = (void *)(uintptr_t)scenario, .items = trace->steps,
	    .count = trace->step_count, .each = sizeof(*trace->steps) });
}
