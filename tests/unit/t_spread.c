/* SPDX-License-Identifier: ISC */
/* Destinations of a message over places. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "policy/spread.h"

static struct spread spread;

static int set_up(void **state) {
	(void)state;
	memset(&spread, 0, sizeof(spread));
	return 0;
}

/* The first has none; 41 % 40 + 1 = 2, and 81 % 40 + 1 is 2, too: the next that is free. */
static void the_first_has_none_and_others_go_where_their_hash_says(void **state) {
	(void)state;
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
static void each_has_a_place_of_its_own(void **state) {
	bool taken[41] = { false };

	(void)state;
	for (uint64_t i = 0; i <= 40; i++) {
		uint32_t place = spread_place(&spread, i * i * UINT64_C(0x9e3779b97f4a7c15), 40);

		assert_in_range(place, 0, 40);
		assert_false(taken[place]);
		taken[place] = true;
	}
}

/* Where all are taken the hash decides; and where no more can be remembered, again and again. */
static void more_than_there_are_share(void **state) {
	(void)state;
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

static void without_places_all_is_as_usual(void **state) {
	(void)state;
	for (uint64_t i = 0; i < 5; i++)
		assert_int_equal(spread_place(&spread, i, 0), 0);
	assert_int_equal(spread.count, 0);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(the_first_has_none_and_others_go_where_their_hash_says, set_up),
		cmocka_unit_test_setup(each_has_a_place_of_its_own, set_up),
		cmocka_unit_test_setup(more_than_there_are_share, set_up),
		cmocka_unit_test_setup(without_places_all_is_as_usual, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
