/* SPDX-License-Identifier: ISC */
/* Quotas: numbers worked out by hand, and the law against an exact model under virtual time. */
#include "tests/unit/test.h"
#include "policy/limit/quota.h"
#include "tests/unit/random.h"

#define SECOND	INT64_C(1000000000)
#define MINUTE	(60 * SECOND)
#define HOUR	(60 * MINUTE)

static const struct quota_limit five_a_minute = { 60, 5, QUOTA_RECIPIENTS };

static struct quota_counter counter_of(const struct quota_limit *limit) {
	return (struct quota_counter){ .key = quota_key(limit) };
}

/* A twelfth of a minute is 5 s: what is counted at second 2 counts in 0 ... 65. */
TEST(five_a_minute_by_hand) {
	struct quota_counter counter = counter_of(&five_a_minute);

	quota_add(&counter, 2, 2 * SECOND);
	quota_add(&counter, 3, 7 * SECOND);
	assert_int_equal(quota_used(&counter, 7 * SECOND), 5);
	assert_int_equal(quota_wait_ns(&counter, 5, 1, 7 * SECOND), 58 * SECOND);
	assert_int_equal(quota_wait_ns(&counter, 5, 2, 7 * SECOND), 58 * SECOND);
	assert_int_equal(quota_wait_ns(&counter, 5, 3, 7 * SECOND), 63 * SECOND);
	assert_int_equal(quota_wait_ns(&counter, 5, 5, 7 * SECOND), 63 * SECOND);
	assert_true(quota_wait_ns(&counter, 5, 6, 7 * SECOND) == INT64_MAX);
	assert_int_equal(quota_used(&counter, 65 * SECOND - 1), 5);
	assert_int_equal(quota_used(&counter, 65 * SECOND), 3);
	assert_int_equal(quota_wait_ns(&counter, 5, 2, 65 * SECOND), 0);
	quota_add(&counter, 2, 65 * SECOND);
	assert_int_equal(quota_used(&counter, 70 * SECOND), 2);
	assert_int_equal(quota_used(&counter, 130 * SECOND - 1), 2);
	assert_int_equal(quota_used(&counter, 130 * SECOND), 0);
	/* long after, and a free counter */
	quota_add(&counter, 4, 100 * HOUR);
	assert_int_equal(quota_used(&counter, 100 * HOUR), 4);
	counter.key = 0;
	assert_int_equal(quota_used(&counter, 100 * HOUR), 0);
	assert_int_equal(quota_wait_ns(&counter, 5, 5, 100 * HOUR), 0);
}

/* By another clock, at another phase: it counts for as long as it would have. */
TEST(restored_by_another_clock) {
	struct random random = random_seeded("restored_by_another_clock");
	struct quota_counter counter = counter_of(&five_a_minute), restored;
	uint32_t newest_first[QUOTA_BUCKETS];

	for (unsigned run = 0; run < 2000; run++) {
		int64_t now = 1000 * SECOND + random_below(&random, 1000000) * (SECOND / 1000);
		/* a boot that is younger than what is counted, too */
		int64_t other = random_below(&random, 200) * SECOND / 3, step = now - other;
		struct quota_counter before;

		counter = counter_of(&five_a_minute);
		for (unsigned i = 0; i < 20; i++)
			quota_add(&counter, 1 + random_below(&random, 9),
			    now - (20 - i) * 4 * SECOND);
		before = counter;
		for (uint32_t i = 0; i < QUOTA_BUCKETS; i++)
			newest_first[i] = counter.buckets[(counter.part + QUOTA_BUCKETS - i) %
			    QUOTA_BUCKETS];
		quota_restore(&restored, counter.key, newest_first,
		    quota_end_ns(&counter) - step, other);
		assert_true(restored.phase_ms < 5000);
		for (int64_t later = 0; later < 90 * SECOND; later += 70 * SECOND / 100) {
			uint64_t was = quota_used(&before, now + later);

			assert_true(quota_used(&restored, other + later) >= was);
			/* at most a ms longer */
			assert_true(quota_used(&restored, other + later + SECOND / 1000) <= was ||
			    quota_used(&before, now + later + SECOND / 1000) < was);
		}
		/* and goes on as ever */
		quota_add(&restored, 3, other + 30 * SECOND);
		quota_add(&before, 3, now + 30 * SECOND);
		assert_true(quota_used(&restored, other + 89 * SECOND) >=
		    quota_used(&before, now + 89 * SECOND));
		assert_true(quota_used(&restored, other + 89 * SECOND) >= 3);
		assert_int_equal(quota_used(&restored, other + 96 * SECOND), 0);
	}
	/* an end that lies ahead is none of ours: it counts from now */
	quota_restore(&restored, counter.key, newest_first, 1000000 * SECOND, 10 * SECOND);
	assert_true(quota_used(&restored, 69 * SECOND) >= newest_first[0]);
	assert_int_equal(quota_used(&restored, 81 * SECOND), 0);
}

TEST(what_is_taken_off) {
	struct quota_counter counter = counter_of(&five_a_minute);

	/* of a transaction that began at 2 s: 1 then, 2 more at 12 s; beside it 3 at 13 s */
	quota_add(&counter, 1, 2 * SECOND);
	quota_add(&counter, 2, 12 * SECOND);
	quota_add(&counter, 3, 13 * SECOND);
	quota_take_off(&counter, 3, 2 * SECOND, 20 * SECOND);
	assert_int_equal(quota_used(&counter, 20 * SECOND), 3);
	/* the 3 of another one count until 75 s */
	assert_int_equal(quota_used(&counter, 75 * SECOND - 1), 3);
	assert_int_equal(quota_used(&counter, 75 * SECOND), 0);
	/* more than there is, of long ago, of the future */
	quota_add(&counter, 3, 200 * SECOND);
	quota_take_off(&counter, 1, 135 * SECOND, 201 * SECOND);
	assert_int_equal(quota_used(&counter, 201 * SECOND), 3);
	quota_take_off(&counter, 1, 140 * SECOND, 201 * SECOND);
	assert_int_equal(quota_used(&counter, 201 * SECOND), 2);
	quota_take_off(&counter, 1, 500 * SECOND, 201 * SECOND);
	assert_int_equal(quota_used(&counter, 201 * SECOND), 1);
	quota_take_off(&counter, 100, 200 * SECOND, 201 * SECOND);
	assert_int_equal(quota_used(&counter, 201 * SECOND), 0);
}

TEST(clocks_that_differ) {
	struct quota_counter counter = counter_of(&five_a_minute);

	/* a second behind: counts as the newest */
	quota_add(&counter, 1, 100 * SECOND);
	quota_add(&counter, 1, 99 * SECOND);
	assert_int_equal(quota_used(&counter, 99 * SECOND), 2);
	assert_int_equal(quota_used(&counter, 165 * SECOND - 1), 2);
	assert_int_equal(quota_used(&counter, 165 * SECOND), 0);
	/* a state of another clock: all of it counts as if it were of now */
	quota_add(&counter, 4, 1000 * HOUR);
	assert_int_equal(quota_used(&counter, 10 * SECOND), 4);
	quota_add(&counter, 1, 10 * SECOND);
	assert_int_equal(quota_used(&counter, 75 * SECOND - 1), 5);
	assert_int_equal(quota_used(&counter, 75 * SECOND), 0);
	counter.part = UINT32_MAX;
	memset(counter.buckets, 0xff, sizeof(counter.buckets));
	quota_add(&counter, 7, 10 * SECOND);
	assert_int_equal(quota_used(&counter, 10 * SECOND), UINT32_MAX);
}

/* 3/1m and 10/1h of recipients, 2/1m of messages, 100/1m of KiB. */
static const struct quota_limit several[] = {
	{ 60, 3, QUOTA_RECIPIENTS }, { 3600, 10, QUOTA_RECIPIENTS }, { 60, 2, QUOTA_MESSAGES },
	{ 60, 100, QUOTA_KIB },
};
#define SEVERAL 4

TEST(all_or_nothing) {
	struct quota_counter counters[SEVERAL] = { { .key = 0 } };
	struct quota_amounts one = { { 1, 0, 0 } }, message = { { 0, 1, 60 } };
	struct quota_refusal refusal;

	assert_true(quota_prepare(counters, SEVERAL, several, SEVERAL));
	for (unsigned i = 0; i < 3; i++) {
		assert_true(quota_allows(counters, SEVERAL, several, SEVERAL, &one,
		    HOUR, &refusal));
		quota_charge(counters, SEVERAL, &one, HOUR);
	}
	assert_false(quota_allows(counters, SEVERAL, several, SEVERAL, &one, HOUR,
	    &refusal));
	assert_int_equal(refusal.limit, 0);
	assert_int_equal(refusal.used, 3);
	assert_int_equal(refusal.wait_ns, 65 * SECOND);
	/* 10 within the hour: that one is in the way longest (65 minutes from its first) */
	for (unsigned minute = 2; minute <= 6; minute += 2) {
		struct quota_amounts some = { { minute == 6 ? 1 : 3, 0, 0 } };

		assert_true(quota_allows(counters, SEVERAL, several, SEVERAL, &some,
		    HOUR + minute * MINUTE, &refusal));
		quota_charge(counters, SEVERAL, &some, HOUR + minute * MINUTE);
	}
	assert_false(quota_allows(counters, SEVERAL, several, SEVERAL, &one,
	    HOUR + 6 * MINUTE, &refusal));
	assert_int_equal(refusal.limit, 1);
	assert_int_equal(refusal.used, 10);
	assert_int_equal(refusal.wait_ns, 59 * MINUTE);
	/* other kinds are others' */
	assert_true(quota_allows(counters, SEVERAL, several, SEVERAL, &message,
	    HOUR + 6 * MINUTE, &refusal));
	quota_charge(counters, SEVERAL, &message, HOUR + 6 * MINUTE);
	assert_false(quota_allows(counters, SEVERAL, several, SEVERAL, &message,
	    HOUR + 6 * MINUTE, &refusal));
	assert_int_equal(refusal.limit, 3);
	quota_give_back(counters, SEVERAL, &message, HOUR + 6 * MINUTE, HOUR + 6 * MINUTE);
	assert_true(quota_allows(counters, SEVERAL, several, SEVERAL, &message,
	    HOUR + 6 * MINUTE, &refusal));
	message.of[QUOTA_KIB] = 101;
	assert_false(quota_allows(counters, SEVERAL, several, SEVERAL, &message,
	    HOUR + 6 * MINUTE, &refusal));
	assert_true(refusal.wait_ns == INT64_MAX);
}

TEST(limits_change) {
	static const struct quota_limit other[] = {
		{ 60, 1, QUOTA_RECIPIENTS }, { 60, 2, QUOTA_RECIPIENTS },
		{ 86400, 7, QUOTA_RECIPIENTS },
	};
	struct quota_counter counters[SEVERAL] = { { .key = 0 } };
	struct quota_amounts one = { { 1, 1, 1 } };

	assert_true(quota_prepare(counters, SEVERAL, several, SEVERAL));
	quota_charge(counters, SEVERAL, &one, HOUR);
	/* two limits of one counter, which keeps its count; another one takes a free place */
	assert_true(quota_prepare(counters, SEVERAL, other, 3));
	assert_int_equal(quota_used(quota_find(counters, SEVERAL, &other[0]), HOUR), 1);
	assert_ptr_equal(quota_find(counters, SEVERAL, &other[0]),
	    quota_find(counters, SEVERAL, &other[1]));
	assert_int_equal(quota_used(quota_find(counters, SEVERAL, &other[2]), HOUR), 0);
	assert_false(quota_prepare(counters, 1, several, SEVERAL));
}

TEST(half_of_a_limit) {
	struct quota_counter counters[SEVERAL] = { { .key = 0 } };
	struct quota_amounts one = { { 1, 0, 0 } }, four = { { 4, 0, 0 } };

	assert_true(quota_prepare(counters, SEVERAL, several, SEVERAL));
	quota_charge(counters, SEVERAL, &one, HOUR);
	assert_int_equal(quota_half_ns(counters, SEVERAL, several, SEVERAL, HOUR), 0);
	quota_charge(counters, SEVERAL, &one, HOUR);
	assert_int_equal(quota_half_ns(counters, SEVERAL, several, SEVERAL, HOUR),
	    65 * SECOND);
	quota_charge(counters, SEVERAL, &four, HOUR);
	assert_int_equal(quota_half_ns(counters, SEVERAL, several, SEVERAL, HOUR),
	    65 * MINUTE);
}

/* --- against an exact model --------------------------------------------------- */

#define EVENTS	3000

struct history {
	int64_t times[EVENTS];
	uint32_t amounts[EVENTS];
	unsigned count;
};

/* What was counted in (from, to]. */
static uint64_t exact(const struct history *history, int64_t from_ns, int64_t to_ns) {
	uint64_t sum = 0;

	for (unsigned i = history->count; i-- > 0 && history->times[i] > from_ns;)
		if (history->times[i] <= to_ns)
			sum += history->amounts[i];
	return sum;
}

static void check_refusal(const struct quota_counter *counter, const struct quota_limit *limit,
    const struct history *history, uint32_t amount, int64_t now_ns) {
	int64_t period_ns = limit->period_s * SECOND;
	int64_t wait_ns = quota_wait_ns(counter, limit->most, amount, now_ns);

	/* of the period and a twelfth more, and the 12 ns that this is rounded by */
	assert_true(exact(history, now_ns - period_ns - period_ns / 12 - 13, now_ns) +
	    amount > limit->most);
	if (wait_ns == INT64_MAX)
		return;
	assert_int_equal(quota_wait_ns(counter, limit->most, amount, now_ns + wait_ns), 0);
	assert_true(quota_wait_ns(counter, limit->most, amount, now_ns + wait_ns - 1) > 0);
}

static int64_t random_step(struct random *random, int64_t period_ns) {
	switch (random_below(random, 4)) {
	case 0:
		return 1 + random_below(random, 1000);
	case 1:
		return random_below(random, 1000) * (period_ns / 1000);
	case 2:
		return period_ns / 12 * random_below(random, 14);
	default:
		return random_below(random, 100) * (period_ns / 3000);
	}
}

TEST(never_more_in_any_window) {
	static const uint32_t periods[] = { 60, 61, 3600, 86400, 100000 };
	struct random random = random_seeded("never_more_in_any_window");
	static struct history history;
	unsigned refused = 0;

	for (unsigned run = 0; run < 40; run++) {
		struct quota_limit limit = { periods[run % 5], 1 + random_below(&random, 50),
			QUOTA_RECIPIENTS };
		struct quota_counter counter = counter_of(&limit);
		int64_t period_ns = limit.period_s * SECOND, now_ns = HOUR;

		history.count = 0;
		while (history.count < EVENTS) {
			uint32_t amount = 1 + random_below(&random, 1 + limit.most / 4);

			now_ns += random_step(&random, period_ns) / limit.most;
			if (quota_wait_ns(&counter, limit.most, amount, now_ns) > 0) {
				check_refusal(&counter, &limit, &history, amount, now_ns);
				refused++;
				continue;
			}
			quota_add(&counter, amount, now_ns);
			history.times[history.count] = now_ns;
			history.amounts[history.count++] = amount;
			assert_true(exact(&history, now_ns - period_ns, now_ns) <=
			    limit.most);
		}
	}
	assert_true(refused > 1000);
}

/* Transactions that end otherwise have what they added taken off: others never count less. */
TEST(nothing_is_taken_from_others) {
	struct random random = random_seeded("nothing_is_taken_from_others");
	static struct history history;
	struct quota_limit limit = { 3600, 40, QUOTA_RECIPIENTS };
	int64_t period_ns = limit.period_s * SECOND;

	for (unsigned run = 0; run < 20; run++) {
		struct quota_counter counter = counter_of(&limit);
		struct { int64_t since_ns; uint32_t amount; } open[4] = { { 0, 0 } };
		int64_t now_ns = HOUR;

		history.count = 0;
		while (history.count < EVENTS) {
			unsigned i = random_below(&random, 4);

			now_ns += random_step(&random, period_ns) / 40;
			if (random_below(&random, 8) == 0) {
				quota_take_off(&counter, open[i].amount, open[i].since_ns,
				    now_ns);
				open[i].amount = 0;
			} else if (random_below(&random, 8) == 0) {
				/* it ends well: all of it counts from its end at the latest */
				open[i].amount = 0;
			} else if (quota_wait_ns(&counter, limit.most, 1, now_ns) == 0) {
				quota_add(&counter, 1, now_ns);
				if (random_below(&random, 2) == 0) {
					history.times[history.count] = now_ns;
					history.amounts[history.count++] = 1;
				} else if (open[i].amount++ == 0) {
					open[i].since_ns = now_ns;
				}
				assert_true(exact(&history, now_ns - period_ns, now_ns) <=
				    limit.most);
			}
			assert_true(quota_used(&counter, now_ns) >=
			    exact(&history, now_ns - period_ns, now_ns));
		}
	}
}
