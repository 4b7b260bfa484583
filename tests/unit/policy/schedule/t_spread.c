/* SPDX-License-Identifier: ISC */
/* Destinations of a message over places. */
#include "tests/unit/test.h"
#include "policy/schedule/spread.h"

static struct spread spread;

static int set_up(void **state) {
	memset(&spread, 0, sizeof(spread));
	return 0;
}

/* The first has none; 41 % 40 + 1 = 2, and 81 % 40 + 1 is 2, too: the next that is free. */
TEST_IN(set_up, NULL, the_first_has_none_and_others_go_where_their_hash_says) {
	assert_int_equal(spread_place(&spread, 7, 40), 0);
	assert_int_equal(spread_place(&spread, 41, 40), 2);
	assert_int_equal(spread_place(&spread, 81, 40), 3);
	assert_int_equal(spread_place(&spread, 39, 40), 40);
	assert_int_equal(spread_place(&spread, 79, 40), 1);
	/* again the same */
	assert_int_equal(spread_place(&spread, 81, 40), 3);
	assert_int_equal(spread_place(&spread, 7, 40), 0);
	assert_int_equal(spread.count, 5);
}

/* 41 destinations, 40 places and the usual one: nobody shares, whatever their hashes are. */
TEST_IN(set_up, NULL, each_has_a_place_of_its_own) {
	bool taken[41] = { false };

	for (uint64_t i = 0; i <= 40; i++) {
		uint32_t place = spread_place(&spread, i * i * UINT64_C(0x9e3779b97f4a7c15), 40);

		assert_in_range(place, 0, 40);
		assert_false(taken[place]);
		taken[place] = true;
	}
}

/* Where all are taken the hash decides; and where no more can be remembered, again and again. */
TEST_IN(set_up, NULL, more_than_there_are_share) {
	for (uint64_t i = 0; i < 5; i++)
		(void)spread_place(&spread, i, 4);
	assert_int_equal(spread_place(&spread, 102, 4), 3);
	for (uint64_t i = 0; i < 200; i++)
		(void)spread_place(&spread, 1000 + i, 4);
	assert_int_equal(spread.count, SPREAD_MOST);
	assert_int_equal(spread_place(&spread, 999999, 4), 4);
	assert_int_equal(spread_place(&spread, 999999, 4), 4);
	assert_int_equal(spread_place(&spread, 2, 4), 3);
}

TEST_IN(set_up, NULL, without_places_all_is_as_usual) {
	for (uint64_t i = 0; i < 5; i++)
		assert_int_equal(spread_place(&spread, i, 0), 0);
	assert_int_equal(spread.count, 0);
}
