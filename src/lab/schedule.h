/* SPDX-License-Identifier: ISC */
/*
 * A scenario (lab/scenario.h) in virtual time: the scheduler chooses (policy/schedule/job.h), and
 * whatever it chooses is delivered, by the scenario's own times or in the order that it says.
 *
 * At one time messages come first, then windows change, then deliveries end, one after the
 * other; after each of these all is begun that can be.
 */
#ifndef LAB_SCHEDULE_H
#define LAB_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lab/scenario.h"
#include "policy/schedule/job.h"

enum schedule_event {
	SCHEDULE_ARRIVE,	/* a message comes; its first recipients are read */
	SCHEDULE_READ,		/* more of its recipients are read */
	SCHEDULE_WINDOW,	/* a destination's window changes, by the scenario */
	SCHEDULE_START, SCHEDULE_END,
	SCHEDULE_DEFER,		/* recipients, of a failed delivery or without one */
	SCHEDULE_BOUNCE,	/* the same, of a message that is too old */
	SCHEDULE_EVENT_COUNT
};

struct schedule_step {
	int64_t at_ns;
	enum schedule_event event;
	uint32_t transport;
	uint32_t message;		/* from 0, or SCENARIO_NONE */
	uint32_t destination;		/* or SCENARIO_NONE */
	uint32_t recipients;		/* read, or delivered; of a window its size */
	bool fails;			/* START: it will; END: it did */
};

/* What the scheduler's state can be asked for, while a step is shown. */
struct schedule_look {
	const struct job_board *board;
	const uint32_t *transports;	/* their numbers on the board */
};

/* False: it has seen enough, the run ends. */
typedef bool schedule_show_fn(void *context, const struct schedule_step *step,
    const struct schedule_look *look);

enum schedule_end {
	SCHEDULE_DONE,
	SCHEDULE_STOPPED,
	SCHEDULE_NOT_RUNNING,	/* a completion's delivery is never under way */
	SCHEDULE_STUCK		/* windows of 0 that nothing opens again */
};
struct schedule_result {
	enum schedule_end end;
	int line;			/* NOT_RUNNING: of the completion */
	int64_t at_ns;			/* when it ended */
	uint64_t deliveries;
	uint64_t left;			/* STUCK: messages */
	uint64_t failures;		/* deliveries */
	uint64_t deferred, bounced;	/* recipients; each time that they are */
};

void schedule_run(const struct scenario *scenario, schedule_show_fn *show, void *context,
    struct schedule_result *result);

#endif
