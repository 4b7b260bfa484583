/* SPDX-License-Identifier: ISC */
/* What a simulated schedule did, kept until it is written: the figures stand first. */
#ifndef LAB_SCHEDULE_TRACE_H
#define LAB_SCHEDULE_TRACE_H

#include "lab/schedule.h"
#include "view/writer.h"

#define TRACE_BYTES_MAX	((size_t)64 << 20)	/* of all states */

enum trace_text {
	TRACE_JOBS, TRACE_CURRENT, TRACE_BLOCKED, TRACE_PARENTS, TRACE_SLOTS, TRACE_ENTRIES,
	TRACE_RECIPIENTS, TRACE_UNREAD, TRACE_POOL, TRACE_TEXTS
};

struct trace_state {
	struct schedule_step step;
	char *text;		/* all of them, each with its NUL; "": nothing */
};

struct trace {
	bool states;		/* keep states, not only deliveries */
	struct schedule_step *deliveries;
	size_t count, room;
	struct trace_state *steps;
	size_t step_count, step_room;
	size_t bytes;
	bool full;
};

/* A schedule_show_fn; `context` is the struct trace. */
bool trace_keep(void *context, const struct schedule_step *step,
    const struct schedule_look *look);

void trace_write_deliveries(const struct trace *trace, const struct scenario *scenario,
    struct writer *writer);
void trace_write_steps(const struct trace *trace, const struct scenario *scenario,
    struct writer *writer);

void trace_free(struct trace *trace);

#endif
