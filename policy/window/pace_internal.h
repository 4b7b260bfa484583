/* SPDX-License-Identifier: ISC */
/* A pace unpacked, and how intervals between messages are stored; for pace.c and pace_state.c. */
#ifndef POLICY_PACE_INTERNAL_H
#define POLICY_PACE_INTERNAL_H

#include "policy/window/pace.h"

#define TICK_NS		INT64_C(100000)
#define CHANGE_NS	INT64_C(100000000)	/* of times of changes */
#define SHORTEST	(1000000000 / PACE_MOST / TICK_NS)
#define LONGEST		(PACE_INTERVAL_MOST_NS / TICK_NS)
#define COUNT_MOST	((1u << CODE_BITS) - 1)
#define CODE_BITS	14	/* of an interval */

/* An interval in ticks; between SHORTEST and LONGEST. */
int64_t pace_interval_within(double ticks);
int64_t pace_interval_of(const struct rate_limit *limit);
/* As it is stored: in 14 bits, rounded up.  Longer ones have greater codes; 0 stays 0. */
unsigned pace_interval_code(int64_t ticks);
int64_t pace_interval_decode(unsigned code);
int64_t pace_interval_stored(double ticks);

/* A line, where a pace is in force; or a meter, which counts what is accepted. */
struct pace_state {
	bool line;
	int64_t time;		/* line: tokens are taken until then; meter: this METER began */
	int64_t changed_ns;	/* the pace, last */
	int64_t interval;	/* that was learned; 0: the configured one is in force */
	int64_t proven;		/* 0: not known */
	unsigned count, last;	/* meter: accepted in this METER, and in the one before */
	int64_t active;		/* how long it accepted before it was lowered last */
	unsigned refused;	/* trials in a row */
	unsigned halved;	/* so often for the moment (rule 2) */
	unsigned longer;	/* the period is doubled so often (rule 3) */
	bool accepted;		/* of what was sent since the change */
	bool raised;		/* since it was lowered last */
	bool slowly;		/* no more half ways (rule 5) */
	bool deeply;		/* refused again, below the proven pace */
	bool guessed;		/* proven: by what was accepted before all was refused */
};

struct pace_state pace_unpack(const struct pace *pace);
void pace_pack(const struct pace_state *state, struct pace *pace);

#endif
