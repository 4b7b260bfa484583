/* SPDX-License-Identifier: ISC */
/* Numbers for property tests: splitmix64, and a seed that a failed run can be
 * repeated with (TEST_SEED in the environment; printed at the start). */
#ifndef TESTS_UNIT_RANDOM_H
#define TESTS_UNIT_RANDOM_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct random {
	uint64_t state;
};

static inline uint64_t random_next(struct random *random)
{
	uint64_t z = random->state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* 0 .. below - 1 */
static inline uint32_t random_below(struct random *random, uint32_t below)
{
	return (uint32_t)(random_next(random) % below);
}

static inline struct random random_seeded(const char *test)
{
	const char *wanted = getenv("TEST_SEED");
	struct timespec now;
	uint64_t seed;

	clock_gettime(CLOCK_REALTIME, &now);
	seed = wanted != NULL ? strtoull(wanted, NULL, 10) :
	    (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	printf("# %s: TEST_SEED=%" PRIu64 "\n", test, seed);
	return (struct random){ seed };
}

#endif
