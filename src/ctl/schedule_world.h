/* SPDX-License-Identifier: ISC */
/* A scenario while it runs; ctl/schedule*.c alone. */
#ifndef CTL_SCHEDULE_WORLD_H
#define CTL_SCHEDULE_WORLD_H

#include "ctl/schedule.h"
#include "ctl/simulate_events.h"

#define BATCH_MOST	5000u		/* recipients that are read at once */

struct under_way {
	struct job_taken taken;
	uint32_t message, destination;
	uint32_t next, before;		/* of the message's deliveries under way, or of the free */
	int64_t start_ns;
	bool running;
};

struct message {
	uint32_t run, offset;		/* where the next recipient is read */
	uint32_t unread;
	uint32_t first, last;		/* deliveries under way, the oldest first; SCENARIO_NONE */
};

struct destination {
	struct window window;
	uint32_t queue;			/* on the board */
	uint32_t change;		/* the next of its window */
};

struct change_event {
	int64_t at_ns;
	uint32_t destination, window;
};

struct part {
	uint32_t destination, count;
};

struct world {
	const struct scenario *scenario;
	struct schedule_result *result;
	schedule_show_fn *show;
	void *context;
	struct schedule_look look;
	struct job_board *board;
	uint32_t *boards;		/* messages on the board */
	uint32_t *transports;
	struct message *messages;
	struct destination *destinations;
	uint32_t *arrivals;		/* messages by time */
	uint32_t arrived;		/* how many have come */
	uint32_t opened;		/* how many of these are in core, or were */
	struct change_event *changes;
	uint32_t change_count, changed;
	uint32_t completed;		/* steered ones */
	struct under_way *deliveries;
	uint32_t delivery_count, delivery_room, delivery_free;
	uint32_t left;			/* messages that are not done */
	struct simulated_events ends;
	struct part parts[BATCH_MOST];
	int64_t now_ns;
	bool failed, stopped;
};

/* `scenario', `result', `show' and `context' are set; failed: no memory. */
void schedule_world_begin(struct world *w);
void schedule_world_free(struct world *w);

#endif
