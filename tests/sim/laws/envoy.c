/* SPDX-License-Identifier: ISC */
/*
 * The gradient controller of Envoy's adaptive concurrency filter: gradient = (minRTT + 25 %) /
 * sampleRTT, limit = gradient limit + sqrt(limit).  minRTT is measured by running 3 at a time
 * for some requests, each interval and when the limit was at its least for five windows.
 * Scaled from requests to deliveries: windows of 10 s for 100 ms, an interval of 600 s for
 * 60 s, 10 requests for 50.  Samples are medians.  Refusals are no samples.
 */
#include <math.h>

#include "tests/sim/laws/law.h"
#include "tests/sim/laws/samples.h"

#define WINDOW_NS	(10 * LAW_SECOND)
#define INTERVAL_NS	(600 * LAW_SECOND)
#define LEAST_CONCURRENCY	3
#define LEAST_SAMPLES	10
#define LEAST_WINDOWS	5

struct envoy {
	double limit, least_ns;
	struct samples samples;
	uint32_t at_least;
	bool measures;		/* minRTT */
	int64_t next_ns, interval_ns;
};

static void envoy_begin(void *state) {
	struct envoy *envoy = state;

	envoy->limit = LAW_INITIAL;
	envoy->measures = true;
}

static uint32_t envoy_window(const void *state, int64_t now_ns) {
	const struct envoy *envoy = state;

	(void)now_ns;
	return envoy->measures ? LEAST_CONCURRENCY : law_whole(envoy->limit);
}

static void envoy_measured(struct envoy *envoy, int64_t now_ns) {
	envoy->least_ns = samples_quantile(&envoy->samples, 0.5);
	envoy->measures = false;
	envoy->at_least = 0;
	envoy->samples.count = 0;
	envoy->next_ns = now_ns + WINDOW_NS;
	envoy->interval_ns = now_ns + INTERVAL_NS;
}

static void envoy_sample(struct envoy *envoy, int64_t now_ns) {
	envoy->next_ns = now_ns + WINDOW_NS;
	if (envoy->samples.count > 0) {
		double gradient = envoy->least_ns * 1.25 / samples_quantile(&envoy->samples, 0.5);

		gradient = fmax(0.5, fmin(2, gradient));
		envoy->limit = law_within(gradient * envoy->limit + sqrt(envoy->limit));
		envoy->at_least = envoy->limit <= LEAST_CONCURRENCY ? envoy->at_least + 1 : 0;
		envoy->samples.count = 0;
	}
	envoy->measures = now_ns >= envoy->interval_ns || envoy->at_least >= LEAST_WINDOWS;
}

static void envoy_hear(void *state, const struct law_result *result, int64_t now_ns) {
	struct envoy *envoy = state;

	if (law_accepts(result))
		samples_add(&envoy->samples, (double)(result->end_ns - result->start_ns), result->level);
	if (envoy->measures) {
		if (envoy->samples.count >= LEAST_SAMPLES)
			envoy_measured(envoy, now_ns);
	} else if (now_ns >= envoy->next_ns) {
		envoy_sample(envoy, now_ns);
	}
}

const struct law law_envoy = { .name = "envoy",
	.source = "Envoy, adaptive concurrency filter, gradient controller",
	.bytes = sizeof(struct envoy), .begin = envoy_begin, .window = envoy_window,
	.hear = envoy_hear };
