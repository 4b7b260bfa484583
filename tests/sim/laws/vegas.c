/* SPDX-License-Identifier: ISC */
/*
 * Vegas for requests, as the library concurrency-limits documents it: the queue at the far end
 * is limit (1 - rtt_least / rtt).  Below alpha the limit grows by log10(limit), below
 * log10(limit) by beta; above beta, and where a request was refused, it falls by log10(limit).
 * alpha is 3 and beta 6 times log10(limit), which is 1 at least.  The least rtt is measured
 * anew after about 30 times the limit's number of samples.
 */
#include <math.h>

#include "tests/sim/laws/law.h"

#define PROBE_TIMES	30

struct vegas {
	double limit, least_ns;
	uint32_t samples;	/* since the least one was measured anew */
};

static void vegas_begin(void *state) {
	((struct vegas *)state)->limit = LAW_INITIAL;
}

static uint32_t vegas_window(const void *state, int64_t now_ns) {
	(void)now_ns;
	return law_whole(((const struct vegas *)state)->limit);
}

static double vegas_next(const struct vegas *vegas, const struct law_result *result, double rtt_ns) {
	double log = fmax(1, log10(vegas->limit));
	double queue = ceil(vegas->limit * (1 - vegas->least_ns / rtt_ns));

	if (!law_accepts(result) || queue > 6 * log)
		return vegas->limit - log;
	if (2 * (result->in_flight + 1) < vegas->limit)
		return vegas->limit;
	if (queue <= log)
		return vegas->limit + 6 * log;
	return queue < 3 * log ? vegas->limit + log : vegas->limit;
}

static void vegas_hear(void *state, const struct law_result *result, int64_t now_ns) {
	struct vegas *vegas = state;
	double rtt_ns = (double)(result->end_ns - result->start_ns);

	(void)now_ns;
	if (rtt_ns <= 0 || (!result->answered && !law_accepts(result)))
		rtt_ns = fmax(rtt_ns, 1);
	if (law_accepts(result)) {
		if (++vegas->samples > PROBE_TIMES * vegas->limit) {
			vegas->samples = 0;
			vegas->least_ns = rtt_ns;
			return;
		}
		if (vegas->least_ns <= 0 || rtt_ns < vegas->least_ns) {
			vegas->least_ns = rtt_ns;
			return;
		}
	}
	vegas->limit = law_within(vegas_next(vegas, result, rtt_ns));
}

const struct law law_vegas = { .name = "vegas", .source = "Netflix concurrency-limits, VegasLimit",
	.bytes = sizeof(struct vegas), .begin = vegas_begin, .window = vegas_window,
	.hear = vegas_hear };
