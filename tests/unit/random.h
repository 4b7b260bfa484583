/* SPDX-License-Identifier: ISC */
/* Numbers for property tests: splitmix64, and a seed that is printed at the start.  A suite
 * does not depend on chance: it takes the same numbers each time, others with SEED in the
 * environment (tests/soak).  TEST_SEED repeats one run of a test that has several. */
#ifndef TESTS_UNIT_RANDOM_H
#define TESTS_UNIT_RANDOM_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct random {
	uint64_t state;
};

static inline uint64_t random_next(struct random *random) {
	uint64_t z = random->state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* 0 .. below - 1 */
static inline uint32_t random_below(struct random *random, uint32_t below) {
	return (uint32_t)(random_next(random) % below);
}

static inline uint64_t random_seed(void) {
	const char *wanted = getenv("TEST_SEED");

	if (wanted == NULL)
		wanted = getenv("SEED");
	return wanted != NULL ? strtoull(wanted, NULL, 10) : 20260101;
}

static inline struct random random_seeded(const char *test) {
	uint64_t seed = random_seed();

	printf("# %s: TEST_SEED=%" PRIu64 "\n", test, seed);
	return (struct random){ seed };
}

#endif
