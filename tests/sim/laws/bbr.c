/* SPDX-License-Identifier: ISC */
/*
 * The shape of BBR (Cardwell and others 2016) for deliveries: window = gain * highest
 * throughput of the last ten rounds * least smoothed duration of the last ten minutes (one
 * duration alone says little: deliveries differ).  The gain of
 * rounds is 1.25, 0.75 and six times 1; before throughput stops growing by 25 % for three
 * rounds it is 2.  A round is two smoothed durations.  Only what was accepted is throughput.
 */
#include <math.h>

#include "tests/sim/laws/law.h"

#define ROUNDS		10
#define PHASES		8
#define LEAST_WINDOW_NS	(10 * LAW_MINUTE)
#define STARTUP_GAIN	2.0

struct bbr {
	double rates[ROUNDS];	/* a ns */
	double least_ns, smooth_ns, full_rate;
	uint32_t round, accepted, flat;
	bool started;
	int64_t round_ns, least_at_ns;
};

static void bbr_begin(void *state) {
	(void)state;
}

static double bbr_rate(const struct bbr *bbr) {
	double most = 0;

	for (int i = 0; i < ROUNDS; i++)
		most = fmax(most, bbr->rates[i]);
	return most;
}

static uint32_t bbr_window(const void *state, int64_t now_ns) {
	static const double gains[PHASES] = { 1.25, 0.75, 1, 1, 1, 1, 1, 1 };
	const struct bbr *bbr = state;
	double rate = bbr_rate(bbr), gain = bbr->started ? gains[bbr->round % PHASES] : STARTUP_GAIN;

	(void)now_ns;
	return rate <= 0 ? LAW_INITIAL : law_whole(ceil(gain * rate * bbr->least_ns));
}

static void bbr_round(struct bbr *bbr, int64_t now_ns) {
	double rate = (double)bbr->accepted / (double)(now_ns - bbr->round_ns);

	bbr->rates[bbr->round++ % ROUNDS] = rate;
	bbr->accepted = 0;
	bbr->round_ns = now_ns;
	if (bbr->started)
		return;
	if (rate > bbr->full_rate * 1.25) {
		bbr->full_rate = rate;
		bbr->flat = 0;
	} else if (++bbr->flat >= 3) {
		bbr->started = true;
	}
}

static void bbr_hear(void *state, const struct law_result *result, int64_t now_ns) {
	struct bbr *bbr = state;
	double ns = (double)(result->end_ns - result->start_ns);

	if (!law_accepts(result))
		return;
	bbr->smooth_ns = bbr->smooth_ns <= 0 ? ns : bbr->smooth_ns + (ns - bbr->smooth_ns) / 8;
	if (bbr->least_ns <= 0 || bbr->smooth_ns < bbr->least_ns ||
	    now_ns - bbr->least_at_ns > LEAST_WINDOW_NS) {
		bbr->least_ns = bbr->smooth_ns;
		bbr->least_at_ns = now_ns;
	}
	bbr->accepted++;
	if (bbr->round_ns == 0)
		bbr->round_ns = result->start_ns > 0 ? result->start_ns : 1;
	if ((double)(now_ns - bbr->round_ns) >= 2 * bbr->smooth_ns)
		bbr_round(bbr, now_ns);
}

const struct law law_bbr = { .name = "bbr", .source = "Cardwell and others, BBR, 2016 (its shape)",
	.bytes = sizeof(struct bbr), .begin = bbr_begin, .window = bbr_window, .hear = bbr_hear };
