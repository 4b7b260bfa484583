/* SPDX-License-Identifier: ISC */
/*
 * A new source address and a receiver with reputation, day by day: a plan that is used by the
 * law of policy/window/warm.h, or by the calendar alone.  Nothing is random but by the seed.
 */
#ifndef LAB_SIMULATE_WARM_H
#define LAB_SIMULATE_WARM_H

#include <stdbool.h>
#include <stdint.h>

#include "policy/window/warm.h"

enum warmed_by { WARMED_BY_RESULTS, WARMED_BY_CALENDAR, WARMED_BY_COUNT };

struct warmed_day {
	uint32_t day;		/* from 0 */
	uint32_t number;	/* 0: none binds */
	uint32_t sent, throttled;
	uint32_t tolerance;	/* messages that the receiver takes that day */
	enum warm_verdict verdict;
};

struct warm_simulation {
	struct warm_settings warm;
	uint32_t demand;	/* messages a day */
	double weekend;		/* share of it on two days of seven */
	uint32_t tolerance;	/* messages a day that the receiver takes at first */
	double growth;		/* so much more than it took, the day after */
	double harm;		/* share of the tolerance that throttling all of a day costs */
	double jitter;		/* of the tolerance of a day */
	uint32_t days;
	uint32_t pause_after, pause;	/* days without messages; 0: none */
	uint64_t seed;
	bool with_trace;	/* for the command */
	void (*show)(void *context, const struct warmed_day *day);	/* of WARMED_BY_RESULTS */
	void *context;
};

/* Until the receiver took the plan's last number in a day, or the end. */
struct warm_simulation_result {
	uint32_t days;
	bool reached;
	uint64_t sent, throttled;
};

void simulate_warm_defaults(struct warm_simulation *simulation);
void simulate_warm(const struct warm_simulation *simulation, enum warmed_by by,
    struct warm_simulation_result *result);

#endif
