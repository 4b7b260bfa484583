/* SPDX-License-Identifier: ISC */
/* Rates: numbers worked out by hand, and properties under virtual time. */
#include "tests/unit/test.h"
#include "policy/limit/rate.h"
#include "tests/unit/random.h"

#define MS	INT64_C(1000000)
#define SECOND	INT64_C(1000000000)
#define MINUTE	(60 * SECOND)

static struct rate_limit rate(uint32_t count, int64_t period_ns) {
	return (struct rate_limit){ .period_ns = period_ns, .count = count };
}

/* Admits if it may; returns whether it did. */
static bool take(const struct rate_limit *limit, int64_t *tat, int64_t now) {
	bool allowed = rate_allows(limit, *tat, now);

	assert_int_equal(allowed, rate_wait_ns(limit, *tat, now) == 0);
	if (limit->count > 0)
		assert_int_equal(allowed,
		    rate_count(limit, *tat, now) < rate_burst(limit));
	if (allowed)
		*tat = rate_after(limit, *tat, now);
	return allowed;
}

/* 3/1m: 20 s an event. */
TEST(three_a_minute) {
	struct rate_limit limit = rate(3, MINUTE);
	int64_t now = 1000 * SECOND, tat = 0;

	assert_int_equal(rate_count(&limit, tat, now), 0);
	assert_true(take(&limit, &tat, now));
	assert_int_equal(tat, 1020 * SECOND);
	assert_true(take(&limit, &tat, now));
	assert_true(take(&limit, &tat, now));
	assert_int_equal(tat, 1060 * SECOND);
	assert_int_equal(rate_count(&limit, tat, now), 3);
	assert_false(take(&limit, &tat, now));
	assert_int_equal(rate_wait_ns(&limit, tat, now), 20 * SECOND);
	assert_int_equal(rate_wait_ns(&limit, tat, 1007 * SECOND), 13 * SECOND);
	assert_false(take(&limit, &tat, 1020 * SECOND - 1));
	assert_true(take(&limit, &tat, 1020 * SECOND));
	assert_int_equal(tat, 1080 * SECOND);
	assert_false(take(&limit, &tat, 1020 * SECOND));
	/* One place after 20 s of quiet, two after 40, three after 60. */
	assert_int_equal(rate_count(&limit, tat, 1059 * SECOND), 2);
	assert_true(take(&limit, &tat, 1060 * SECOND));
	assert_true(take(&limit, &tat, 1060 * SECOND));
	assert_false(take(&limit, &tat, 1060 * SECOND));
	/* After long quiet the burst is whole again, and no more. */
	for (int i = 0; i < 3; i++)
		assert_true(take(&limit, &tat, 5000 * SECOND));
	assert_false(take(&limit, &tat, 5000 * SECOND));
}

/* "60/1m": a burst of 60, then one a second. */
TEST(sixty_a_minute) {
	struct rate_limit limit = rate(60, MINUTE);
	int64_t now = MINUTE, tat = 0;

	for (int i = 0; i < 60; i++)
		assert_true(take(&limit, &tat, now));
	for (int i = 1; i < 500; i++) {
		assert_false(take(&limit, &tat, now + i * SECOND - 1));
		assert_true(take(&limit, &tat, now + i * SECOND));
	}
}

/* 6/1m with a bucket of 2: ten seconds a token. */
TEST(a_small_bucket) {
	struct rate_limit limit = { .period_ns = MINUTE, .count = 6, .burst = 2 };
	int64_t now = 1000 * SECOND, tat = 0;

	assert_true(take(&limit, &tat, now));
	assert_true(take(&limit, &tat, now));
	assert_int_equal(tat, 1020 * SECOND);
	assert_int_equal(rate_count(&limit, tat, now), 2);
	assert_false(take(&limit, &tat, now));
	assert_int_equal(rate_wait_ns(&limit, tat, now), 10 * SECOND);
	for (int i = 1; i < 100; i++) {
		assert_false(take(&limit, &tat, now + i * 10 * SECOND - 1));
		assert_true(take(&limit, &tat, now + i * 10 * SECOND));
	}
	/* A minute of quiet fills it with 2, not with 6. */
	now = 5000 * SECOND;
	assert_true(take(&limit, &tat, now));
	assert_true(take(&limit, &tat, now));
	assert_false(take(&limit, &tat, now));
}

/* 6/1m with a bucket of 10: it takes 100 s to fill. */
TEST(a_large_bucket) {
	struct rate_limit limit = { .period_ns = MINUTE, .count = 6, .burst = 10 };
	int64_t now = 1000 * SECOND, tat = 0;

	for (int i = 0; i < 10; i++)
		assert_true(take(&limit, &tat, now));
	assert_int_equal(tat, 1100 * SECOND);
	assert_false(take(&limit, &tat, now));
	assert_int_equal(rate_wait_ns(&limit, tat, now), 10 * SECOND);
	/* After a minute there are 6 tokens, 40 s later 4 more. */
	for (int i = 0; i < 6; i++)
		assert_true(take(&limit, &tat, 1060 * SECOND));
	assert_false(take(&limit, &tat, 1060 * SECOND));
	for (int i = 0; i < 4; i++)
		assert_true(take(&limit, &tat, 1100 * SECOND));
	assert_false(take(&limit, &tat, 1100 * SECOND));
	/* A full bucket's time ahead is no other clock's. */
	assert_false(rate_allows(&limit, 1100 * SECOND + 100 * SECOND, 1100 * SECOND));
}

/* A bucket of one: evenly spread, from the first event on. */
TEST(a_bucket_of_one) {
	struct rate_limit limit = { .period_ns = SECOND, .count = 5, .burst = 1 };
	int64_t tat = 0;

	for (int i = 0; i < 50; i++) {
		assert_true(take(&limit, &tat, SECOND + i * 200 * MS));
		assert_false(take(&limit, &tat, SECOND + i * 200 * MS + 199 * MS));
	}
}

TEST(no_limit) {
	struct rate_limit none = rate(0, MINUTE), timeless = rate(5, 0);
	int64_t tat = 7;

	for (int i = 0; i < 100; i++) {
		assert_true(take(&none, &tat, 50));
		assert_int_equal(tat, 7);
		assert_true(rate_allows(&timeless, INT64_MAX, 0));
	}
	assert_int_equal(rate_count(&none, INT64_MAX, 0), 0);
}

/* Just after boot the clock is small; the first burst is whole all the same. */
TEST(at_time_zero) {
	struct rate_limit limit = rate(2, MINUTE);
	int64_t tat = 0;

	assert_true(take(&limit, &tat, 0));
	assert_true(take(&limit, &tat, 0));
	assert_false(take(&limit, &tat, 0));
	assert_true(take(&limit, &tat, 30 * SECOND));
}

/* A state that this limit cannot have made counts as never seen: 1/1h became
 * 60/1m by a reload.  One a little ahead (a clock read before a lock was waited
 * for) is taken as it is. */
TEST(a_state_out_of_reach) {
	struct rate_limit limit = rate(60, MINUTE);
	int64_t now = 10 * MINUTE;

	assert_true(rate_allows(&limit, now + 60 * MINUTE, now));
	assert_int_equal(rate_after(&limit, now + 60 * MINUTE, now), now + SECOND);
	assert_true(rate_allows(&limit, INT64_MAX, now));
	assert_true(rate_allows(&limit, INT64_MAX, INT64_MIN));
	assert_false(rate_allows(&limit, now + MINUTE + 50 * MS, now));
	assert_int_equal(rate_wait_ns(&limit, now + MINUTE + 50 * MS, now),
	    SECOND + 50 * MS);
	assert_true(rate_allows(&limit, INT64_MIN, now));
	assert_int_equal(rate_after(&limit, 0, INT64_MAX - 5), INT64_MAX);
}

/* Let in by observe: refusals are as many as they would be if enforced. */
TEST(observed_events_change_nothing) {
	struct rate_limit limit = rate(4, MINUTE);
	int64_t now = 10 * MINUTE, enforced = 0, observed = 0;

	for (int i = 0; i < 1000; i++) {
		bool allowed = rate_allows(&limit, observed, now + i * SECOND);

		observed = rate_after(&limit, observed, now + i * SECOND);
		assert_int_equal(take(&limit, &enforced, now + i * SECOND), allowed);
		assert_int_equal(observed, enforced);
	}
}

TEST(extreme_limits) {
	static const struct {
		uint32_t count;
		int64_t period;
	} cases[] = {
		{ UINT32_MAX, 1 }, { UINT32_MAX, SECOND }, { UINT32_MAX, INT64_MAX },
		{ 1, INT64_MAX }, { 1, 1 }, { 2, INT64_MAX }, { 1, 365 * 86400 * SECOND },
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct rate_limit limit = rate(cases[i].count, cases[i].period);
		int64_t tat = 0, now = SECOND;

		assert_true(take(&limit, &tat, now));
		if (limit.count == 1) {
			assert_false(take(&limit, &tat, now));
			assert_true(take(&limit, &tat, now + rate_wait_ns(&limit, tat, now)));
		} else {
			assert_true(take(&limit, &tat, now));
		}
	}
}

/* Arrivals of every temper, some hundred of them within the last period kept: the
 * bucket and what flows into it, no more. */
TEST(never_more_than_the_bucket_and_its_inflow) {
	struct random random = random_seeded("never_more_than_the_bucket_and_its_inflow");
	static int64_t admitted[20000];

	for (int round = 0; round < 300; round++) {
		uint32_t count = 1 + random_below(&random, random_below(&random, 2) ? 8 : 300);
		int64_t period = random_below(&random, 3) == 0 ?
		    1 + random_below(&random, 5000) :
		    (int64_t)(random_next(&random) % (uint64_t)MINUTE) + 1;
		struct rate_limit limit = { .period_ns = period, .count = count,
		    .burst = random_below(&random, 2) ? 0 : 1 + random_below(&random, 3 * count) };
		int64_t now = (int64_t)(random_next(&random) % (uint64_t)MINUTE), tat = 0;
		size_t first = 0, last = 0;
		uint32_t burst = 1 + random_below(&random, 4 * count);
		uint64_t pause = (uint64_t)period / count * (1 + random_below(&random, 4)) / 2 + 1;

		for (int i = 0; i < 20000; i++) {
			if (random_below(&random, burst) == 0)
				now += (int64_t)(random_next(&random) % pause);
			if (random_below(&random, 5000) == 0)
				now += 2 * period;
			if (!take(&limit, &tat, now))
				continue;
			admitted[last++] = now;
			while (admitted[first] < now - period)
				first++;
			assert_true(last - first <= (size_t)count + rate_burst(&limit));
		}
	}
}

/* Events at the limit's own rate pass, and so they do after any burst that was
 * admitted or refused before, once the line is free. */
TEST(the_steady_rate_is_never_refused) {
	struct random random = random_seeded("the_steady_rate_is_never_refused");

	for (int round = 0; round < 300; round++) {
		uint32_t count = 1 + random_below(&random, 30000);
		int64_t period = SECOND + (int64_t)(random_next(&random) % (uint64_t)MINUTE);
		struct rate_limit limit = { .period_ns = period, .count = count,
		    .burst = random_below(&random, 2) ? 0 : 1 + random_below(&random, count) };
		int64_t begin = (int64_t)(random_next(&random) % (uint64_t)MINUTE), tat = 0;
		uint32_t burst = random_below(&random, 2 * count);

		for (uint32_t i = 0; i < burst; i++)
			(void)take(&limit, &tat, begin);
		begin += period;
		for (int64_t i = 0; i < 3000; i++) {
			assert_true(take(&limit, &tat, begin + period * i / count));
		}
	}
}

/* And a flood gets just the limit's rate through, in the long run. */
TEST(a_flood_gets_the_rate) {
	struct rate_limit limit = rate(100, 10 * SECOND);
	int64_t tat = 0, admitted = 0;

	for (int64_t now = 0; now < 1000 * SECOND; now += 3 * MS)
		admitted += take(&limit, &tat, now);
	/* The burst of 100, then 10 a second, the questions 3 ms apart. */
	assert_in_range(admitted, 9900, 10100);
}
