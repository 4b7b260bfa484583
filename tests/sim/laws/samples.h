/* SPDX-License-Identifier: ISC */
/* Durations of one interval, of which a quantile is wanted.  Zeroed: none. */
#ifndef TESTS_SIM_LAWS_SAMPLES_H
#define TESTS_SIM_LAWS_SAMPLES_H

#include <stdint.h>
#include <stdlib.h>

#define SAMPLES_MAX	256

struct samples {
	double ns[SAMPLES_MAX];
	uint32_t count;
	uint32_t most;		/* in flight at once */
};

static inline void samples_add(struct samples *samples, double ns, uint32_t in_flight) {
	if (samples->count < SAMPLES_MAX)
		samples->ns[samples->count++] = ns;
	if (in_flight > samples->most)
		samples->most = in_flight;
}

static inline int samples_compare(const void *a, const void *b) {
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Of one at least; sorts them. */
static inline double samples_quantile(struct samples *samples, double share) {
	qsort(samples->ns, samples->count, sizeof(samples->ns[0]), samples_compare);
	return samples->ns[(uint32_t)((double)(samples->count - 1) * share)];
}

#endif
