/* SPDX-License-Identifier: ISC */
/* What roles do with a segment, for fuzz_live_segment.c: one call each. */
#ifndef TESTS_LIVE_SEGMENT_H
#define TESTS_LIVE_SEGMENT_H

#include "engine/outbound/outbound.h"
#include "engine/session/witness.h"
#include "segment/decision/decisions.h"
#include "segment/destination/flights.h"
#include "segment/queue/grants.h"
#include "segment/hints/lane_uses.h"
#include "tests/unit/site.h"

#define LIVE_KEPT	8

/* What roles remember from one operation to the next. */
struct live {
	struct site site;
	uint64_t first;			/* generation in force before any input */
	bool has_writer;
	struct witness *witness;
	struct outbound_process *processes[2];
	struct session_ref sessions[LIVE_KEPT];
	struct flight_ref flights[LIVE_KEPT];
	struct grant_ref grants[LIVE_KEPT];
	struct lane_uses_cursor lanes;
	struct decisions_cursor decisions[DECIDED_RINGS];
	bool reloaded;
};

#define LIVE_OPERATIONS	28

void live_begin(struct live *live);
void live_end(struct live *live);
void live_operate(struct live *live, uint8_t which, uint8_t number);

#endif
