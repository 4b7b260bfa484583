/* SPDX-License-Identifier: ISC */
/*
 * The auto-tuner of Cinnamon (Uber 2023): Vegas whose target latency is taken anew from time
 * to time.  An interval's latency is the median of its samples, smoothed.  Where the target was
 * taken anew at a limit that is too high, both would drift up: so the limit falls while fewer
 * in flight went with more throughput (their covariance is negative).  Scaled: an interval is
 * 10 s, the target holds for 60 of them.
 */
#include <math.h>

#include "tests/sim/laws/law.h"
#include "tests/sim/laws/samples.h"
#include "tests/sim/laws/series.h"

#define INTERVAL_NS	(10 * LAW_SECOND)
#define TARGET_INTERVALS	60
#define SMOOTHING	0.5
#define SHRINK		0.9

struct cinnamon {
	double limit, target_ns, smooth_ns;
	struct samples recent;
	struct series throughputs;	/* by what was in flight */
	uint32_t intervals;	/* since the target was taken */
	int64_t next_ns;
};

static void cinnamon_begin(void *state) {
	struct cinnamon *law = state;

	law->limit = LAW_INITIAL;
	law->throughputs.size = 20;
}

static uint32_t cinnamon_window(const void *state, int64_t now_ns) {
	(void)now_ns;
	return law_whole(((const struct cinnamon *)state)->limit);
}

static void cinnamon_interval(struct cinnamon *law) {
	double median_ns = samples_quantile(&law->recent, 0.5), log = fmax(1, log10(law->limit));
	double queue;

	law->smooth_ns = law->smooth_ns <= 0 ? median_ns :
	    law->smooth_ns + (median_ns - law->smooth_ns) * SMOOTHING;
	series_add(&law->throughputs, law->recent.most, law->recent.count);
	if (law->target_ns <= 0 || law->intervals++ >= TARGET_INTERVALS) {
		law->target_ns = law->smooth_ns;
		law->intervals = 0;
	}
	queue = law->limit * (1 - law->target_ns / law->smooth_ns);
	if (series_covariance(law->throughputs.x, law->throughputs.y, law->throughputs.count) < 0)
		law->limit *= SHRINK;
	else if (queue > 6 * log)
		law->limit -= log;
	else if (queue < 3 * log && 2 * law->recent.most >= law->limit)
		law->limit += log;
	law->limit = law_within(law->limit);
}

static void cinnamon_hear(void *state, const struct law_result *result, int64_t now_ns) {
	struct cinnamon *law = state;

	if (law_accepts(result))
		samples_add(&law->recent, (double)(result->end_ns - result->start_ns), result->level);
	if (now_ns < law->next_ns || law->recent.count == 0)
		return;
	cinnamon_interval(law);
	law->next_ns = now_ns + INTERVAL_NS;
	law->recent = (struct samples){ .count = 0 };
}

const struct law law_cinnamon = { .name = "cinnamon",
	.source = "Uber, Cinnamon auto-tuner: adaptive concurrency in the wild",
	.bytes = sizeof(struct cinnamon), .begin = cinnamon_begin, .window = cinnamon_window,
	.hear = cinnamon_hear };
