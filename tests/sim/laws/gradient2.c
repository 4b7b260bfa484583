/* SPDX-License-Identifier: ISC */
/*
 * Gradient2, as the library concurrency-limits documents it: the mean rtt of 600 samples beside
 * the last one.  gradient = tolerance (1.5) long / short within 0.5 and 1; the limit goes a
 * fifth of the way to gradient * limit + 4.  It hears no refusals: only their short rtt.
 */
#include <math.h>

#include "tests/sim/laws/law.h"

#define LONG_SAMPLES	600
#define WARM_SAMPLES	10
#define TOLERANCE	1.5
#define QUEUE		4
#define SMOOTHING	0.2

struct gradient2 {
	double limit, long_ns;
	uint32_t samples;
};

static void gradient2_begin(void *state) {
	((struct gradient2 *)state)->limit = LAW_INITIAL;
}

static uint32_t gradient2_window(const void *state, int64_t now_ns) {
	(void)now_ns;
	return law_whole(((const struct gradient2 *)state)->limit);
}

static void gradient2_hear(void *state, const struct law_result *result, int64_t now_ns) {
	struct gradient2 *law = state;
	double short_ns = fmax(1, (double)(result->end_ns - result->start_ns)), gradient, next;

	(void)now_ns;
	if (law->samples < WARM_SAMPLES)
		law->long_ns = (law->long_ns * law->samples + short_ns) / (law->samples + 1);
	else
		law->long_ns += (short_ns - law->long_ns) * 2 / (LONG_SAMPLES + 1);
	law->samples++;
	if (law->long_ns / short_ns > 2)
		law->long_ns *= 0.95;
	if (result->in_flight + 1 < law->limit / 2)
		return;
	gradient = fmax(0.5, fmin(1, TOLERANCE * law->long_ns / short_ns));
	next = gradient * law->limit + QUEUE;
	law->limit = law_within(law->limit * (1 - SMOOTHING) + next * SMOOTHING);
}

const struct law law_gradient2 = { .name = "gradient2",
	.source = "Netflix concurrency-limits, Gradient2Limit", .bytes = sizeof(struct gradient2),
	.begin = gradient2_begin, .window = gradient2_window, .hear = gradient2_hear };
