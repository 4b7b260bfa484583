/* SPDX-License-Identifier: ISC */
/*
 * The adaptive limiter of failsafe-go: the 90th percentile of a recent window beside its slow
 * mean gives a queue, limit (1 - long / short).  Above beta the limit falls by log10(limit);
 * so it does where all places are taken while throughput falls as more are in flight, or
 * does not grow though durations do; below alpha it rises.  alpha is 3 and beta 6 times
 * log10(limit), which is 1 at least.  The limit stays within five times what was in flight.
 * Scaled: a window is 10 to 60 s and 20 samples, for 1 to 30 s and 50.  Refusals are no
 * samples (they are "dropped").
 */
#include <math.h>

#include "tests/sim/laws/law.h"
#include "tests/sim/laws/samples.h"
#include "tests/sim/laws/series.h"

#define WINDOW_LEAST_NS	(10 * LAW_SECOND)
#define WINDOW_MOST_NS	(60 * LAW_SECOND)
#define WINDOW_SAMPLES	20
#define LONG_WINDOWS	10
#define IN_FLIGHT_TIMES	5

struct failsafe {
	double limit, long_ns;
	struct samples recent;
	struct series throughputs, durations;	/* by what was in flight */
	int64_t next_ns;
};

static void failsafe_begin(void *state) {
	((struct failsafe *)state)->limit = LAW_INITIAL;
}

static uint32_t failsafe_window(const void *state, int64_t now_ns) {
	(void)now_ns;
	return law_whole(((const struct failsafe *)state)->limit);
}

/* Throughput says that more in flight does not help. */
static bool failsafe_is_overloaded(const struct failsafe *law) {
	double throughput = series_correlation(&law->throughputs);
	double duration = series_correlation(&law->durations);

	return throughput < 0 || (throughput < 0.3 && duration > 0.5) ||
	    (series_variation(&law->throughputs) < 0.2 && duration > 0.5);
}

static void failsafe_update(struct failsafe *law, double short_ns) {
	double step = fmax(1, log10(law->limit)), most = law->recent.most, queue;
	bool is_full = most >= floor(law->limit);

	law->long_ns = law->long_ns <= 0 ? short_ns :
	    law->long_ns + (short_ns - law->long_ns) * 2 / (LONG_WINDOWS + 1);
	queue = ceil(law->limit * (1 - law->long_ns / short_ns));
	series_add(&law->throughputs, most, most / short_ns);
	series_add(&law->durations, most, short_ns);
	if (queue > 6 * step || (is_full && failsafe_is_overloaded(law)))
		law->limit -= step;
	else if (queue < 3 * step)
		law->limit += step;
	if (law->limit > most * IN_FLIGHT_TIMES)
		law->limit -= 2 * step;
	law->limit = law_within(law->limit);
}

static void failsafe_hear(void *state, const struct law_result *result, int64_t now_ns) {
	struct failsafe *law = state;

	if (law_accepts(result))
		samples_add(&law->recent, (double)(result->end_ns - result->start_ns), result->level);
	if (law->recent.count < WINDOW_SAMPLES || now_ns < law->next_ns)
		return;
	failsafe_update(law, samples_quantile(&law->recent, 0.9));
	law->next_ns = now_ns + (int64_t)fmin(fmax(law->recent.ns[0] * 2, WINDOW_LEAST_NS),
	    WINDOW_MOST_NS);
	law->recent = (struct samples){ .count = 0 };
}

const struct law law_failsafe = { .name = "failsafe", .source = "failsafe-go, adaptivelimiter",
	.bytes = sizeof(struct failsafe), .begin = failsafe_begin, .window = failsafe_window,
	.hear = failsafe_hear };
