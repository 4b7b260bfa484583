/* SPDX-License-Identifier: ISC */
/* Levels rebuilt from a log: by hand, and against the truth of random deliveries. */
#include "tests/unit/test.h"
#include "policy/window/level.h"
#include "tests/unit/random.h"

#define MS	INT64_C(1000000)
#define SECOND	(1000 * MS)
#define ROOM	64

static struct level_entry room[ROOM];

static bool add(struct level *level, uint64_t tag, int64_t start_ms, int64_t end_ms,
    bool accepted, int64_t now_ms) {
	struct level_attempt attempt = { .start_ns = start_ms * MS, .end_ns = end_ms * MS,
		.tag = tag, .accepted = accepted };

	return level_add(level, &attempt, now_ms * MS);
}

static void next(struct level *level, int64_t now_ms, uint64_t tag, uint32_t wanted) {
	struct level_verdict verdict;

	assert_true(level_next(level, now_ms * MS, &verdict));
	assert_int_equal(verdict.tag, tag);
	assert_int_equal(verdict.level, wanted);
}

static void nothing_due(struct level *level, int64_t now_ms) {
	struct level_verdict verdict;

	assert_false(level_next(level, now_ms * MS, &verdict));
}

/* Three deliveries of 2 s, a refusal while all three run, one after the first: told in
 * the order of their ends, judged in the order of their starts, 2 s, a quarter of that
 * and 50 ms after each (reports without delay count as 1 ns). */
TEST(in_the_order_of_starts) {
	struct level level;

	level_begin(&level, room, ROOM);
	assert_true(level_due_ns(&level) == INT64_MAX);
	assert_true(add(&level, 4, 500, 550, false, 550));
	nothing_due(&level, 5000);	/* how long deliveries take is not known yet */
	assert_true(add(&level, 1, 100, 2100, true, 2100));
	assert_true(level_due_ns(&level) == 100 * MS + 2550 * MS + 1);
	assert_true(add(&level, 2, 200, 2200, true, 2200));
	assert_true(add(&level, 3, 300, 2300, true, 2300));
	assert_int_equal(level_count(&level), 4);
	assert_int_equal(level_in_flight(&level, 350 * MS), 3);
	nothing_due(&level, 2640);
	next(&level, 2651, 1, 1);
	nothing_due(&level, 2740);
	next(&level, 2751, 2, 2);
	next(&level, 3051, 3, 3);
	next(&level, 3051, 4, 4);
	nothing_due(&level, 100000);
	/* The first made room for it. */
	assert_true(add(&level, 5, 2100, 4100, true, 4100));
	next(&level, 6000, 5, 3);
	assert_int_equal(level_in_flight(&level, level.swept_ns), 3);
	assert_int_equal(level_in_flight(&level, 2250 * MS), 2);
}

/* Refused attempts take no place, nor do those that have ended. */
TEST(who_takes_a_place) {
	struct level level;

	level_begin(&level, room, ROOM);
	assert_true(add(&level, 1, 0, 1000, true, 1000));
	assert_true(add(&level, 2, 10, 900, false, 1000));
	assert_true(add(&level, 3, 20, 910, false, 1000));
	assert_true(add(&level, 4, 1500, 2500, true, 2500));
	next(&level, 9000, 1, 1);
	next(&level, 9000, 2, 2);
	next(&level, 9000, 3, 2);
	next(&level, 9000, 4, 1);
}

/* Of two starts in doubt the accepted one was first and the refused one last; an end in
 * doubt was before. */
TEST(rounded_starts) {
	struct level_attempt attempts[] = {
		{ .start_ns = 0, .end_ns = 2000 * MS, .accepted = true },
		{ .start_ns = 1000 * MS, .end_ns = 3000 * MS, .accepted = true },
		{ .start_ns = 1020 * MS, .end_ns = 3020 * MS, .accepted = true },
		{ .start_ns = 1010 * MS, .end_ns = 1060 * MS, .accepted = false },
		{ .start_ns = 1980 * MS, .end_ns = 4000 * MS, .accepted = true },
		{ .start_ns = 1990 * MS, .end_ns = 2090 * MS, .accepted = false },
	};
	struct level level;

	level_begin(&level, room, ROOM);
	for (size_t i = 0; i < 6; i++) {
		attempts[i].tag = i;
		attempts[i].slack_ns = 50 * MS;
		assert_true(level_add(&level, &attempts[i], 4000 * MS));
	}
	next(&level, 99000, 0, 1);
	next(&level, 99000, 1, 2);
	next(&level, 99000, 3, 4);	/* behind 0, 1 and 2 */
	next(&level, 99000, 2, 2);	/* behind 0, before 1 */
	next(&level, 99000, 4, 3);	/* 0 has just ended */
	next(&level, 99000, 5, 4);	/* so for this one, behind 1, 2 and 4 */
}

/* Three deliveries by connections that are kept for 2 s: who is refused when they have
 * ended may be the fourth, or the first. */
TEST(connections_that_are_kept) {
	struct level_attempt attempt = { .accepted = true, .kept = true };
	struct level_verdict verdict;
	struct level level;

	for (int kept = 0; kept < 2; kept++) {
		level_begin(&level, room, ROOM);
		for (int64_t i = 1; i <= 5; i++) {
			static const int64_t starts[] = { 0, 0, 10, 20, 3500, 8500 };

			attempt.tag = (uint64_t)i;
			attempt.accepted = i <= 3;
			attempt.kept = attempt.accepted && kept != 0;
			attempt.start_ns = starts[i] * MS;
			attempt.end_ns = attempt.start_ns + (i <= 3 ? 2000 : 50) * MS;
			assert_true(level_add(&level, &attempt, attempt.end_ns));
		}
		for (unsigned i = 1; i <= 5; i++) {
			assert_true(level_next(&level, 99 * SECOND, &verdict));
			assert_int_equal(verdict.tag, i);
			assert_int_equal(verdict.level, i <= 3 ? i : 1);
			assert_int_equal(verdict.most, i == 4 && kept ? 4 : verdict.level);
			if (i == 3) {
				assert_int_equal(level_places(&level, 1000 * MS), 3);
				assert_int_equal(level_places(&level, 3900 * MS), kept ? 3 : 0);
				assert_int_equal(level_places(&level, 4021 * MS), 0);
			}
			if (i == 4 && kept) {
				assert_int_equal(level_heard(&verdict, 0), 4);
				assert_int_equal(level_heard(&verdict, 3), 0);
				assert_int_equal(level_heard(&verdict, 4), 4);
			}
		}
	}
}

TEST(slack_of_two_digits) {
	assert_true(level_slack(0) == 5 * MS);		/* 0.00 */
	assert_true(level_slack(990) == 5 * MS);	/* 0.99 */
	assert_true(level_slack(1000) == 50 * MS);	/* 1.0 */
	assert_true(level_slack(9900) == 50 * MS);
	assert_true(level_slack(10000) == 500 * MS);	/* 10 */
	assert_true(level_slack(120000) == 5 * SECOND);	/* 120 */
	assert_true(level_slack(INT64_MAX) > 0);
	assert_true(level_slack(-1) == 5 * MS);
}

/* Mail that started at 100 s, give or take 5 ms, had waited 1.5 s: one decimal, half of it is
 * 50 ms; and 20 s, which may be 500 ms more. */
TEST(when_it_was_given) {
	assert_true(level_given_ns(100 * SECOND, 5 * MS, 1500) == 98445 * MS);
	assert_true(level_given_ns(100 * SECOND, 5 * MS, 20000) == 79495 * MS);
	assert_true(level_given_ns(100 * SECOND, 0, 0) == 99995 * MS);
	/* the log does not tell, or nonsense */
	assert_true(level_given_ns(100 * SECOND, 5 * MS, -1) == 0);
	assert_true(level_given_ns(100 * SECOND, 5 * MS, INT64_MAX) == 0);
	assert_true(level_given_ns(INT64_MIN, INT64_MAX, INT64_MAX / MS / 4) < 0);
}

TEST(memory_that_is_full) {
	struct level_entry little[4], more[8];
	struct level level;

	level_begin(&level, little, 4);
	for (uint64_t i = 0; i < 4; i++)
		assert_true(add(&level, i, (int64_t)i * 10, 1000 + (int64_t)i, true, 1010));
	assert_false(add(&level, 9, 50, 1500, true, 1500));
	assert_int_equal(level.lost, 1);
	level_move(&level, more, 8);
	assert_true(add(&level, 5, 60, 100, false, 1500));
	assert_true(add(&level, 6, 70, 1600, true, 1600));
	assert_true(add(&level, 7, 1600, 1650, false, 1650));
	for (uint64_t i = 0; i < 4; i++)
		next(&level, 9000, i, (uint32_t)i + 1);
	next(&level, 9000, 5, 0);	/* one of five or six: who knows */
	next(&level, 9000, 6, 5);	/* at least */
	next(&level, 9000, 7, 1);	/* the lost one is over */
	/* Room again, once all that counted has ended. */
	assert_true(level_count(&level) <= 5);
	for (int64_t i = 0; i < 6; i++)
		assert_true(add(&level, 10, 9000 + i, 9500, true, 9500));
	/* Nothing but refusals. */
	level_begin(&level, little, 4);
	for (uint64_t i = 0; i < 4; i++)
		assert_true(add(&level, i, 0, 10, false, 10));
	assert_false(add(&level, 4, 0, 10, false, 10));
	next(&level, 20000, 0, 1);
	assert_true(add(&level, 4, 0, 10, false, 20000));
}

/* All room is of those that have their verdict: nothing new would ever make any. */
TEST(a_memory_that_was_full_has_room_again) {
	struct level_entry memory[8];
	struct level level;
	struct level_verdict verdict;
	struct level_attempt attempt = { .accepted = true };

	level_begin(&level, memory, 8);
	for (unsigned i = 0; i < 8; i++) {
		attempt.start_ns = i;
		attempt.end_ns = SECOND;
		assert_true(level_add(&level, &attempt, SECOND));
	}
	while (level_next(&level, 60 * SECOND, &verdict))
		;
	for (unsigned i = 60; i < 64; i++) {
		attempt.start_ns = i * SECOND - SECOND;
		attempt.end_ns = i * SECOND;
		assert_true(level_add(&level, &attempt, i * SECOND));
	}
	assert_int_equal(level.lost, 0);
}

TEST(wrong_times) {
	struct level_attempt wild = { .start_ns = INT64_MIN, .end_ns = INT64_MAX,
		.slack_ns = INT64_MAX, .accepted = true };
	struct level_verdict verdict;
	struct level level;

	level_begin(&level, room, ROOM);
	assert_true(add(&level, 1, 5000, 4000, true, 6000));
	assert_true(add(&level, 2, 9000, 9100, true, 6000));
	for (int i = 0; i < 8; i++) {
		assert_true(level_add(&level, &wild, i % 2 == 0 ? INT64_MAX : INT64_MIN));
		wild.accepted = !wild.accepted;
	}
	(void)level_in_flight(&level, INT64_MIN);
	while (level_next(&level, INT64_MAX, &verdict))
		assert_true(verdict.level <= 11);
	assert_true(level_due_ns(&level) == INT64_MAX);
}

/* Read after the verdict of one that began later. */
TEST(a_straggler) {
	struct level level;

	level_begin(&level, room, ROOM);
	assert_true(add(&level, 1, 0, 2000, true, 2000));
	assert_true(add(&level, 2, 1500, 3500, true, 3500));
	next(&level, 9000, 1, 1);
	next(&level, 9000, 2, 2);
	assert_true(add(&level, 3, 1400, 9000, true, 9000));
	next(&level, 99000, 3, 2);	/* a little too late */
	assert_true(add(&level, 4, 100, 9000, true, 9000));
	next(&level, 99000, 4, 0);	/* too late to know */
	assert_true(add(&level, 5, 3600, 5600, true, 9000));
	next(&level, 99000, 5, 3);	/* but they count: 3 and 4 */
}

/* --- random deliveries --------------------------------------------------------------- */

#define ATTEMPTS	3000

struct truth {
	int64_t start_ns, end_ns, read_ns;
	uint32_t level;
	bool accepted, told;
};

static struct truth truths[ATTEMPTS];

/* A client that keeps `window` under way at a server that takes `limit`; deliveries of
 * 1.6 to 2 s, read up to 100 ms late. */
static void deliver(struct random *random, uint32_t window, uint32_t limit) {
	int64_t now = 0;

	for (int i = 0; i < ATTEMPTS; i++) {
		uint32_t under_way = 0, accepted = 0;
		int64_t soonest = INT64_MAX;

		for (int j = i > 2000 ? i - 2000 : 0; j < i; j++)
			if (truths[j].end_ns > now) {
				under_way++;
				accepted += truths[j].accepted;
				soonest = truths[j].end_ns < soonest ? truths[j].end_ns :
				    soonest;
			}
		if (under_way >= window) {
			now = soonest;
			i--;
			continue;
		}
		truths[i] = (struct truth){ .start_ns = now, .level = accepted + 1,
			.accepted = accepted < limit };
		truths[i].end_ns = now + (truths[i].accepted ?
		    1600 + random_below(random, 400) : 50) * MS;
		truths[i].read_ns = truths[i].end_ns + random_below(random, 100) * MS;
		now += random_below(random, 3) * MS + 1;
	}
}

static int by_reading(const void *a, const void *b) {
	const struct truth *x = &truths[*(const int *)a], *y = &truths[*(const int *)b];

	return (x->read_ns > y->read_ns) - (x->read_ns < y->read_ns);
}

TEST(against_the_truth) {
	struct random random = random_seeded("against_the_truth");
	static struct level_entry entries[2048];
	static int order[ATTEMPTS];

	for (int world = 0; world < 6; world++) {
		uint32_t limit = 1 + random_below(&random, 30), told = 0, wrong = 0;
		struct level_verdict verdict;
		struct level level;

		deliver(&random, limit + random_below(&random, 3), limit);
		for (int i = 0; i < ATTEMPTS; i++)
			order[i] = i;
		qsort(order, ATTEMPTS, sizeof(order[0]), by_reading);
		level_begin(&level, entries, 2048);
		for (int i = 0; i <= ATTEMPTS; i++) {
			int64_t now = i < ATTEMPTS ? truths[order[i]].read_ns : INT64_MAX;

			if (i < ATTEMPTS) {
				struct truth *t = &truths[order[i]];
				struct level_attempt attempt = { .start_ns = t->start_ns,
					.end_ns = t->end_ns, .accepted = t->accepted,
					.tag = (uint64_t)order[i] };

				assert_true(level_add(&level, &attempt, now));
			}
			while (level_next(&level, now, &verdict)) {
				struct truth *t = &truths[verdict.tag];

				assert_false(t->told);
				assert_int_equal(verdict.accepted, t->accepted);
				t->told = true;
				told++;
				assert_true(verdict.level <= t->level);
				wrong += verdict.level != t->level;
			}
		}
		assert_int_equal(told, ATTEMPTS);
		/* The wait is for 29 of 30 deliveries and reports: what both exceed is
		 * rare, and then a level is one too low. */
		assert_true(wrong < ATTEMPTS / 50);
		assert_int_equal(level.lost, 0);
	}
}

/* --- the same by looking at everything -------------------------------------------------- */

struct told {
	struct level_attempt attempt;
	bool is_told;
};

static bool covers(const struct level_attempt *other, const struct level_attempt *one) {
	int64_t both = one->slack_ns + other->slack_ns;

	return other->accepted && other->end_ns > one->start_ns + one->slack_ns &&
	    other->start_ns + (one->accepted ? both : -both) <= one->start_ns;
}

/* Of those that were added so far. */
static uint32_t naive_level(const struct told *list, int count, int at) {
	const struct level_attempt *one = &list[at].attempt;
	uint32_t level = 1;

	for (int i = 0; i < count; i++) {
		const struct level_attempt *other = &list[i].attempt;

		if (i == at || (!list[i].is_told && (one->accepted ||
			other->start_ns - SECOND - one->slack_ns > one->start_ns)))
			continue;
		level += covers(other, one);
	}
	return level;
}

static int64_t some_duration(struct random *random, int world) {
	static const uint32_t most_ms[] = { 40, 900, 3000, 30000, 200000, 12000 };

	return (1 + random_below(random, most_ms[world % 6])) * MS;
}

/* Any durations, slacks and delays, refusals and stragglers, in little memory that is
 * moved: as counted by looking at all. */
TEST(as_looking_at_all) {
	struct random random = random_seeded("as_looking_at_all");
	static struct told list[ATTEMPTS];
	uint32_t exact = 0;

	for (int world = 0; world < 12; world++) {
		uint32_t capacity = 16, late = random_below(&random, 2) * 3000 + 1;
		struct level_entry *entries = malloc(capacity * sizeof(*entries));
		struct level_verdict verdict;
		int64_t now = 0, swept = INT64_MIN;
		struct level level;

		level_begin(&level, entries, capacity);
		for (int i = 0; i < 2000; i++) {
			struct level_attempt *a = &list[i].attempt;
			int64_t took = some_duration(&random, world);

			now += random_below(&random, 40) * MS;
			*a = (struct level_attempt){ .tag = (uint64_t)i,
				.end_ns = now - random_below(&random, late) * MS,
				.accepted = random_below(&random, 4) > 0 };
			a->start_ns = a->end_ns - (a->accepted ? took : took / 50);
			a->slack_ns = level_slack((a->end_ns - a->start_ns) / MS);
			list[i].is_told = false;
			if (level_count(&level) == capacity) {
				struct level_entry *more = malloc(2 * capacity * sizeof(*more));

				level_move(&level, more, capacity *= 2);
				free(entries);
				entries = more;
			}
			assert_true(level_add(&level, a, now));
			while (level_next(&level, now, &verdict)) {
				int at = (int)verdict.tag;
				uint32_t naive = naive_level(list, i + 1, at);

				/* what it forgot may have counted for those out of order */
				if (verdict.start_ns >= swept)
					assert_int_equal(verdict.level, naive);
				else
					assert_true(verdict.level <= naive);
				exact += verdict.level == naive;
				list[at].is_told = true;
				swept = verdict.start_ns > swept ? verdict.start_ns : swept;
			}
			assert_true(level_count(&level) <= capacity);
		}
		free(entries);
	}
	assert_true(exact > 10000);
}
