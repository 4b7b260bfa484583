/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Keeps the hints file alive.
 * MODEL    A turn each TURN_NS while anything changes: that long after a class became full or a
 *          window changed, at most, its mail is told (and the witness's time comes on top of
 *          it).  Else it rests until the next thing is due.
 * ERRORS   Logged once until it works again; there are no hints meanwhile.  Where the
 *          supervisor ends the link the process ends: the one that is started in its
 *          place has a new one.
 * THREADS  One of its own: to make the table of a million destinations takes a
 *          second, and a disk may take any time.
 */
#include "front/hints/hints.h"

#include <stdlib.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/rest.h"
#include "engine/hints/hints.h"
#include "front/link/mta_link.h"

#define TURN_NS	(50 * NS_PER_MS)

struct front_hints {
	struct engine_hints *hints;
	struct mta_link link;
	struct rest *rest;
};

static bool ask_for_reload(void *context, unsigned mta, uint64_t generation) {
	struct front_hints *front = context;

	return mta_link_ask(&front->link, MTA_RELOAD, mta, generation, NULL);
}

int front_hints_open(struct front_hints **front, struct engine *engine, int mta_fd,
    gid_t group, struct rest *rest, struct diag *diag) {
	struct front_hints *new = calloc(1, sizeof(*new));
	struct hints_calls calls = { ask_for_reload, new };

	if (new == NULL)
		return diag_set(diag, 0, "no memory for the hints");
	new->link.fd = mta_fd;
	new->rest = rest;
	if (engine_hints_open(&new->hints, engine, group, &calls, diag) != 0) {
		free(new);
		return -1;
	}
	*front = new;
	return 0;
}

static void read_outcomes(struct front_hints *front, int64_t now_ns) {
	struct mta_outcome outcome;
	enum mta_news news;
	int output_fd;

	while ((news = mta_link_next(&front->link, &outcome, &output_fd)) != MTA_NO_NEWS) {
		if (news == MTA_LINK_ENDED) {
			log_event(EVENT_SYSTEM,
			    "from=hints text=\"the supervisor closed its link\"");
			log_flush();
			_exit(EX_OSERR);
		}
		if (output_fd >= 0)
			close(output_fd);	/* no list was asked for */
		if (news == MTA_OUTCOME && outcome.verb == MTA_RELOAD)
			engine_hints_reloaded(front->hints, outcome.mta,
			    outcome.code == 0, now_ns);
	}
}

void *front_hints_run(void *argument) {
	struct front_hints *front = argument;

	for (;;) {
		char text[512];
		struct diag diag;

		read_outcomes(front, clock_now_ns());
		if (engine_hints_turn(front->hints, clock_now_ns(), &diag) != 0)
			log_event(EVENT_SYSTEM, "from=hints text=\"%s\"",
			    log_sentence(text, sizeof(text), diag.text));
		rest_take(front->rest, TURN_NS,
		    engine_hints_rest_ns(front->hints, clock_now_ns()));
	}
	return NULL;
}
