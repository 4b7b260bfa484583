/* SPDX-License-Identifier: ISC */
/* Stolen logins: the laws by hand-computed numbers and by chance. */
#include <math.h>

#include "tests/unit/test.h"
#include "policy/limit/health.h"
#include "tests/unit/random.h"

#define NS_PER_SECOND	INT64_C(1000000000)
#define MINUTE	(60 * NS_PER_SECOND)
#define HOUR	(60 * MINUTE)

/* --- distinct ----------------------------------------------------------------------------- */

TEST(exact_up_to_64) {
	struct distinct set = { .period_s = 0 };
	int64_t now = 100 * HOUR;

	for (uint64_t i = 1; i <= 64; i++)
		for (unsigned twice = 0; twice < 2; twice++) {
			distinct_add(&set, i * UINT64_C(0x9e3779b97f4a7c15), 3600, now);
			assert_int_equal(distinct_count(&set, 3600, now), i);
		}
	/* a twelfth is 5 minutes: they count for 60 and at most 65 */
	assert_int_equal(distinct_count(&set, 3600, now + HOUR), 64);
	assert_int_equal(distinct_count(&set, 3600, now + 65 * MINUTE), 0);
	/* seen again it counts on */
	distinct_add(&set, UINT64_C(0x9e3779b97f4a7c15), 3600, now + HOUR);
	assert_int_equal(distinct_count(&set, 3600, now + 65 * MINUTE), 1);
	/* and there is room again */
	for (uint64_t i = 100; i < 163; i++)
		distinct_add(&set, i, 3600, now + 65 * MINUTE);
	assert_int_equal(distinct_count(&set, 3600, now + 65 * MINUTE), 64);
	assert_int_equal(distinct_count(&set, 60, now), 0);
}

/* 6.5 % is the standard error: of 200 sets nearly all are within three times that. */
TEST(estimates_are_near) {
	static const unsigned sizes[] = { 65, 100, 300, 1000, 10000 };
	struct random random = random_seeded("estimates_are_near");

	for (unsigned s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		double squares = 0, sum = 0;

		for (unsigned run = 0; run < 200; run++) {
			struct distinct set = { .period_s = 0 };
			double error;

			for (unsigned i = 0; i < sizes[s]; i++)
				distinct_add(&set, random_next(&random), 3600, 100 * HOUR);
			error = distinct_count(&set, 3600, 100 * HOUR) / (double)sizes[s] - 1;
			assert_true(fabs(error) < 0.26);
			squares += error * error;
			sum += error;
			/* of the period before it counts still, then nothing does */
			assert_true(distinct_count(&set, 3600, 101 * HOUR) > 0);
			assert_int_equal(distinct_count(&set, 3600, 102 * HOUR), 0);
		}
		assert_true(squares / 200 < 0.075 * 0.075);
		assert_true(fabs(sum / 200) < 0.02);
	}
}

/* --- health ------------------------------------------------------------------------------- */

static const struct health_limits usual = { .unknown = 15, .unknown_period_s = 3600,
	.failed_percent = 20, .of = 20, .networks = 8, .networks_period_s = 3600 };

static enum health_verdict verdict_of(const struct health *health, int64_t now) {
	struct health_counts counts = health_count(health, &usual, now);

	return health_judge(&counts, &usual);
}

/* A number alone, and a share alone, are not enough. */
TEST(a_number_and_a_share) {
	struct health health = { .at_ns = 0 };
	struct health_counts counts;
	int64_t now = 100 * HOUR;

	/* 15 of 15: fewer than 20 results */
	for (uint64_t i = 0; i < 15; i++)
		health_note_result(&health, &usual, 1, true, true, i, now);
	assert_int_equal(verdict_of(&health, now), HEALTH_GOOD);
	for (unsigned i = 0; i < 5; i++)
		health_note_result(&health, &usual, 1, false, false, 0, now);
	assert_int_equal(verdict_of(&health, now), HEALTH_UNKNOWN);
	/* 15 of 76 are less than a fifth */
	health_note_result(&health, &usual, 56, false, false, 0, now);
	assert_int_equal(verdict_of(&health, now), HEALTH_GOOD);
	counts = health_count(&health, &usual, now);
	assert_true(counts.results == 76 && counts.failed == 15);
	/* half of it an hour later, an eighth after three */
	counts = health_count(&health, &usual, now + HOUR);
	assert_true(fabs(counts.results - 38) < 0.01 && fabs(counts.failed - 7.5) < 0.01);
	counts = health_count(&health, &usual, now + 3 * HOUR);
	assert_true(fabs(counts.results - 9.5) < 0.01 && counts.unknown == 0);
	counts = health_count(&health, &usual, now + HOUR / 2);
	assert_true(fabs(counts.results - 53.74) < 0.02);
	/* the same recipient again and again is one */
	health = (struct health){ .at_ns = 0 };
	for (unsigned i = 0; i < 100; i++)
		health_note_result(&health, &usual, 1, true, true, 7, now);
	assert_int_equal(verdict_of(&health, now), HEALTH_GOOD);
	for (uint64_t i = 0; i < 9; i++) {
		assert_int_equal(verdict_of(&health, now), HEALTH_GOOD);
		health_note_network(&health, &usual, i, now);
	}
	assert_int_equal(verdict_of(&health, now), HEALTH_NETWORKS);
}

/* A month of honest mail: 1,000 logins of 1 to 40 recipients a day, of which 1.5 % are mistyped;
 * a list of 2,000 each day, 3 % of it dead, always the same; one that is cleaned up, 8 %. */
TEST(honest_mail_is_left_alone) {
	struct random random = random_seeded("honest_mail_is_left_alone");
	static struct health people[1000], lists[2];
	static const unsigned dead_permille[2] = { 30, 80 };

	for (int64_t day = 0; day < 30; day++) {
		for (unsigned i = 0; i < 1000; i++) {
			int64_t now = (day + 1) * 24 * HOUR + random_below(&random, 8) * HOUR;

			for (unsigned left = 1 + random_below(&random, 40); left > 0; left--) {
				bool typo = random_below(&random, 1000) < 15;

				now += random_below(&random, 10) * MINUTE;
				health_note_result(&people[i], &usual, 1, typo, typo,
				    random_next(&random), now);
				assert_int_equal(verdict_of(&people[i], now), HEALTH_GOOD);
			}
		}
		for (unsigned list = 0; list < 2; list++)
			for (uint64_t to = 0; to < 2000; to++) {
				int64_t now = (day + 1) * 24 * HOUR +
				    (int64_t)to * (NS_PER_SECOND / 10);
				bool dead = (to * 2654435761u >> 7) % 1000 < dead_permille[list];

				health_note_result(&lists[list], &usual, 1, dead, dead, to, now);
				assert_int_equal(verdict_of(&lists[list], now), HEALTH_GOOD);
			}
	}
}

/* 30 % unknown: found at the 15th failure, or at the 20th result. */
TEST(a_bad_list_is_found) {
	struct random random = random_seeded("a_bad_list_is_found");
	unsigned later = 0;

	for (unsigned run = 0; run < 1000; run++) {
		struct health health = { .at_ns = 0 };
		unsigned failed = 0, results = 0;

		while (verdict_of(&health, 100 * HOUR) == HEALTH_GOOD) {
			bool bad = random_below(&random, 10) < 3;

			failed += bad;
			results++;
			health_note_result(&health, &usual, 1, bad, bad, random_next(&random),
			    100 * HOUR);
			assert_true(results < 1000);
		}
		assert_true(failed >= 15);
		later += failed > 15;
	}
	/* by chance a few have a smaller share at the 15th */
	assert_true(later <= 20);
}
