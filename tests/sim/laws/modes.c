/* SPDX-License-Identifier: ISC */
/*
 * What operators of bulk mail servers use today.  A site's refusal changes the settings of its
 * path; nothing is learned.
 *
 *	snap back	KumoMTA's traffic shaping automation: three refusals in an hour set the
 *			connection limit to half of what it is for an hour; then it is full again
 *	ramp		the ramp that its issue 54 proposes: to half at each refusal, once a flight, one
 *			at least; 10 % of the full more each 10 minutes without one
 *	two modes	PowerMTA: a refusal that matches a pattern puts the queue into backoff
 *			mode, with 2 connections; back to normal after an hour
 *	(success)	the same with backoff-to-normal-after-delivery: back at the first success of
 *			what began later
 */
#include "tests/sim/laws/law.h"

#define HOUR		(60 * LAW_MINUTE)
#define TRIGGERS	3
#define BACKOFF		2

struct modes {
	double window;
	int64_t until_ns, changed_ns;
	int64_t refused_ns[TRIGGERS];	/* the latest, the oldest first */
};

static void modes_begin(void *state) {
	((struct modes *)state)->window = LAW_MOST;
}

static uint32_t modes_window(const void *state, int64_t now_ns) {
	(void)now_ns;
	return law_whole(((const struct modes *)state)->window);
}

static int64_t modes_due_ns(const void *state) {
	int64_t until_ns = ((const struct modes *)state)->until_ns;

	return until_ns > 0 ? until_ns : INT64_MAX;
}

static void modes_turn_full(void *state, uint32_t in_flight, int64_t now_ns) {
	struct modes *modes = state;

	(void)in_flight;
	if (modes->until_ns > 0 && now_ns >= modes->until_ns) {
		modes->window = LAW_MOST;
		modes->until_ns = 0;
	}
}

static void snap_back_hear(void *state, const struct law_result *result, int64_t now_ns) {
	struct modes *modes = state;

	if (law_accepts(result) || result->start_ns < modes->changed_ns)
		return;
	for (int i = 0; i + 1 < TRIGGERS; i++)
		modes->refused_ns[i] = modes->refused_ns[i + 1];
	modes->refused_ns[TRIGGERS - 1] = now_ns;
	if (modes->refused_ns[0] == 0 || now_ns - modes->refused_ns[0] > HOUR)
		return;
	modes->window = law_within(modes->window / 2);
	modes->changed_ns = now_ns;
	modes->until_ns = now_ns + HOUR;
	for (int i = 0; i < TRIGGERS; i++)
		modes->refused_ns[i] = 0;
}

static void ramp_hear(void *state, const struct law_result *result, int64_t now_ns) {
	struct modes *modes = state;

	if (law_accepts(result) || result->start_ns < modes->changed_ns)
		return;
	modes->window = law_within(modes->window / 2);
	modes->changed_ns = now_ns;
	modes->until_ns = now_ns + 10 * LAW_MINUTE;
}

static void ramp_turn(void *state, uint32_t in_flight, int64_t now_ns) {
	struct modes *modes = state;

	(void)in_flight;
	if (modes->until_ns == 0 || now_ns < modes->until_ns)
		return;
	modes->window = law_within(modes->window + LAW_MOST / 10.0);
	modes->until_ns = modes->window < LAW_MOST ? now_ns + 10 * LAW_MINUTE : 0;
}

static void two_modes_hear(void *state, const struct law_result *result, int64_t now_ns) {
	struct modes *modes = state;

	if (law_accepts(result) || modes->until_ns > 0)
		return;
	modes->window = BACKOFF;
	modes->changed_ns = now_ns;
	modes->until_ns = now_ns + HOUR;
}

static void two_modes_success_hear(void *state, const struct law_result *result, int64_t now_ns) {
	struct modes *modes = state;

	if (!law_accepts(result)) {
		two_modes_hear(state, result, now_ns);
	} else if (modes->until_ns > 0 && result->start_ns >= modes->changed_ns) {
		modes->window = LAW_MOST;
		modes->until_ns = 0;
	}
}

#define MODES(symbol, word, where, turns) const struct law law_##symbol = { .name = word, \
	.source = where, .bytes = sizeof(struct modes), .begin = modes_begin, \
	.window = modes_window, .hear = symbol##_hear, .turn = turns, .due_ns = modes_due_ns }

MODES(snap_back, "snap-back", "KumoMTA, traffic shaping automation, SetConfig", modes_turn_full);
MODES(ramp, "ramp", "KumoMTA, issue 54 and its pull request: AdjustConfig", ramp_turn);
MODES(two_modes, "two-modes", "PowerMTA, backoff mode, backoff-to-normal-after 1h", modes_turn_full);
MODES(two_modes_success, "two-modes-ok", "PowerMTA, backoff-to-normal-after-delivery",
    modes_turn_full);
