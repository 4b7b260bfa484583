/* SPDX-License-Identifier: ISC */
#include "tests/unit/test.h"
#include "base/map.h"

/* Strangers choose names. */
TEST(maps_hold_no_more_than_is_in_use) {
	struct map map = { .size = 0 };
	uint64_t hash = 1, hashes[100];

	for (unsigned i = 0; i < 100000; i++) {
		uint64_t old = hashes[i % 100];

		if (i >= 100) {
			assert_int_equal(map_index(&map, old), i - 100);
			map_remove_hash(&map, old);
			assert_int_equal(map_index(&map, old), MAP_NONE);
		}
		map_remove_hash(&map, hash ^ 77);
		/* many have the same place */
		hash = hash * UINT64_C(6364136223846793005) + 1;
		hashes[i % 100] = hash = (hash & ~UINT64_C(0xf8)) | 1;
		assert_true(map_set_index(&map, hash, i));
		for (unsigned j = 0; j < 100 && i >= 100; j += 7)
			assert_true(map_index(&map, hashes[j]) + 100 > i);
	}
	assert_int_equal(map.count, 100);
	assert_int_equal(map.size, 256);
	map_free(&map);
}

/* Several of one hash, among others in the same row. */
TEST(several_have_one_hash) {
	struct map map = { .size = 0 };
	struct map_cell *cell;
	unsigned sum = 0;

	assert_null(map_find(&map, 5));
	for (uint32_t i = 0; i < 30; i++) {
		cell = map_add(&map, 5 + 64 * (i % 3));
		assert_non_null(cell);
		cell->index = i;
	}
	for (cell = map_find(&map, 69); cell != NULL; cell = map_next(&map, cell))
		sum += cell->index;
	assert_int_equal(sum, 1 + 4 + 7 + 10 + 13 + 16 + 19 + 22 + 25 + 28);
	assert_null(map_find_index(&map, 69, 2));
	map_remove(&map, map_find_index(&map, 69, 13));
	assert_null(map_find_index(&map, 69, 13));
	for (uint32_t i = 0; i < 30; i++)
		if (i != 13)
			assert_int_equal(map_find_index(&map, 5 + 64 * (i % 3), i)->index, i);
	map_clear(&map);
	assert_null(map_find(&map, 5));
	assert_true(map_set_index(&map, 0, 7));
	assert_int_equal(map_index(&map, 0), 7);
	map_free(&map);
}

TEST(reserved_room_is_there) {
	struct map map = { .size = 0 };
	const struct map_cell *cells;

	assert_true(map_reserve(&map, 1000));
	cells = map.cells;
	for (uint32_t i = 0; i < 1000; i++)
		assert_true(map_set_index(&map, i * UINT64_C(0x9e3779b97f4a7c15), i));
	assert_ptr_equal(map.cells, cells);
	assert_ptr_equal(map_home(&map, 0), cells);
	map_free(&map);
}
