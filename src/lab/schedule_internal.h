/* SPDX-License-Identifier: ISC */
/* A scenario while it runs; lab/schedule*.c alone. */
#ifndef LAB_SCHEDULE_INTERNAL_H
#define LAB_SCHEDULE_INTERNAL_H

#include <sys/queue.h>

#include "lab/schedule.h"
#include "lab/simulate_events.h"

#define BATCH_MOST	5000u		/* recipients that are read at once */

/* A delivery under way. */
struct under_way {
	TAILQ_ENTRY(under_way) of_world, of_message;
	struct job_taken taken;
	uint32_t message, destination;
	int64_t start_ns;
	bool accepted;			/* else it fails */
	bool program_fails;		/* the transport's, not the destination */
};
TAILQ_HEAD(deliveries, under_way);

struct message {
	TAILQ_ENTRY(message) of_waiting;
	TAILQ_ENTRY(message) of_emptied;
	const struct scenario_recipients *runs;	/* the scenario's, or `own` */
	uint32_t run, offset;		/* where the next recipient is read */
	uint32_t unread;
	struct scenario_recipients *own, *deferred;	/* of the last round; of this one */
	uint32_t deferred_count;
	size_t deferred_room;
	bool emptied;
	struct deliveries deliveries;	/* the oldest first */
	uint32_t board;			/* its index on the board, or JOB_NONE */
};

struct destination {
	struct window window;
	uint32_t queue;			/* on the board */
	uint32_t accepted;		/* deliveries that its server works on */
	int64_t dead_until_ns;
};

struct change_event {
	int64_t at_ns;
	uint32_t destination, window;
};

struct part {
	uint32_t destination, count;
};

TAILQ_HEAD(messages, message);

struct world {
	const struct scenario *scenario;
	struct schedule_result *result;
	schedule_show_fn *show;
	void *context;
	struct schedule_look look;
	struct job_board *board;
	uint32_t *transports;
	struct message *messages;
	struct destination *destinations;
	uint32_t *arrivals;		/* messages by time */
	uint32_t arrived;		/* how many have come */
	struct messages incoming, back;	/* wait for room; the second: from the deferred queue */
	struct messages emptied;	/* all that was read of them last was deferred at once */
	int64_t *dead_until_ns;		/* transports */
	struct change_event *changes;
	uint32_t change_count, changed;
	uint32_t completed;		/* steered ones */
	struct deliveries deliveries;	/* the oldest first */
	uint32_t left;			/* messages that are not done */
	struct simulated_events ends;
	struct part parts[BATCH_MOST];
	int64_t now_ns;
	bool stopped;
};

static inline uint32_t schedule_transport(const struct world *w, uint32_t destination) {
	return w->scenario->destinations[destination].transport;
}

/* A step is shown; schedule.c. */
void schedule_show(struct world *w, const struct schedule_step *step);
/* Reads a batch of a message on the board.  False: nothing is left of it; schedule.c. */
bool schedule_read(struct world *w, uint32_t message, uint32_t most, bool first);

/* --- schedule_defer.c: what fails ---- */

/* Will a delivery that begins now be accepted?  If so it has its place at the server. */
void schedule_try(struct world *w, struct under_way *delivery);
/* Is nothing to be sent there now? */
bool schedule_is_dead(struct world *w, uint32_t destination);
/* These recipients are not delivered in this round. */
void schedule_defer(struct world *w, uint32_t message, uint32_t destination, uint32_t recipients);
/* What waits for it is deferred; messages of which nothing else is left are done. */
void schedule_kill_destination(struct world *w, uint32_t destination);
void schedule_kill_transport(struct world *w, uint32_t transport);
/* The emptied are done, where nothing else of them is left.  False: there were none. */
bool schedule_settle_emptied(struct world *w);
/* Nothing of the message is on the board any more: it is done, or comes back. */
void schedule_close(struct world *w, uint32_t message);

/* `scenario', `result', `show' and `context' are set. */
void schedule_world_begin(struct world *w);
void schedule_world_free(struct world *w);

#endif
