/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Hash maps.
 * MODEL    Open addressing with linear probing, half full at most; what is removed leaves no
 *          gap, so that searches stay short however much comes and goes.
 */
#include "base/map.h"

#include <stdlib.h>
#include <string.h>

#define SIZE_LEAST	64

static uint64_t key_of(uint64_t hash) {
	return hash == 0 ? 1 : hash;
}

static uint32_t after(const struct map *map, uint32_t at) {
	return (at + 1) & (map->size - 1);
}

/* From `at` on, the first with this hash, or the free cell behind them. */
static struct map_cell *map_probe(const struct map *map, uint32_t at, uint64_t key) {
	while (map->cells[at].hash != 0 && map->cells[at].hash != key)
		at = after(map, at);
	return &map->cells[at];
}

static struct map_cell *free_cell(const struct map *map, uint64_t key) {
	uint32_t at = (uint32_t)key & (map->size - 1);

	while (map->cells[at].hash != 0)
		at = after(map, at);
	return &map->cells[at];
}

bool map_reserve(struct map *map, uint32_t count) {
	struct map larger = { .size = map->size < SIZE_LEAST ? SIZE_LEAST : map->size,
		.count = map->count };

	while (larger.size / 2 < count)
		larger.size *= 2;
	if (larger.size == map->size)
		return true;
	larger.cells = calloc(larger.size, sizeof(*larger.cells));
	if (larger.cells == NULL)
		return false;
	for (uint32_t i = 0; i < map->size; i++)
		if (map->cells[i].hash != 0)
			*free_cell(&larger, map->cells[i].hash) = map->cells[i];
	free(map->cells);
	*map = larger;
	return true;
}

void map_free(struct map *map) {
	free(map->cells);
	*map = (struct map){ .size = 0 };
}

void map_clear(struct map *map) {
	if (map->count > 0)
		memset(map->cells, 0, map->size * sizeof(*map->cells));
	map->count = 0;
}

struct map_cell *map_find(const struct map *map, uint64_t hash) {
	struct map_cell *cell;

	if (map->count == 0)
		return NULL;
	cell = map_probe(map, (uint32_t)key_of(hash) & (map->size - 1), key_of(hash));
	return cell->hash == 0 ? NULL : cell;
}

struct map_cell *map_next(const struct map *map, const struct map_cell *cell) {
	struct map_cell *next = map_probe(map, after(map, (uint32_t)(cell - map->cells)), cell->hash);

	return next->hash == 0 ? NULL : next;
}

struct map_cell *map_find_index(const struct map *map, uint64_t hash, uint32_t index) {
	struct map_cell *cell = map_find(map, hash);

	while (cell != NULL && cell->index != index)
		cell = map_next(map, cell);
	return cell;
}

struct map_cell *map_add(struct map *map, uint64_t hash) {
	struct map_cell *cell;

	if (!map_reserve(map, map->count + 1))
		return NULL;
	cell = free_cell(map, key_of(hash));
	cell->hash = key_of(hash);
	map->count++;
	return cell;
}

struct map_cell *map_set(struct map *map, uint64_t hash) {
	struct map_cell *cell = map_find(map, hash);

	return cell != NULL ? cell : map_add(map, hash);
}

void map_remove(struct map *map, struct map_cell *cell) {
	uint32_t mask = map->size - 1, gap = (uint32_t)(cell - map->cells);

	/* those behind that a search would not reach any more move up */
	for (uint32_t at = after(map, gap); map->cells[at].hash != 0; at = after(map, at)) {
		uint32_t home = (uint32_t)map->cells[at].hash & mask;

		if (((at - home) & mask) < ((at - gap) & mask))
			continue;
		map->cells[gap] = map->cells[at];
		gap = at;
	}
	map->cells[gap] = (struct map_cell){ .hash = 0 };
	map->count--;
}

uint32_t map_index(const struct map *map, uint64_t hash) {
	const struct map_cell *cell = map_find(map, hash);

	return cell == NULL ? MAP_NONE : cell->index;
}

bool map_set_index(struct map *map, uint64_t hash, uint32_t index) {
	struct map_cell *cell = map_set(map, hash);

	if (cell != NULL)
		cell->index = index;
	return cell != NULL;
}

void map_remove_hash(struct map *map, uint64_t hash) {
	struct map_cell *cell = map_find(map, hash);

	if (cell != NULL)
		map_remove(map, cell);
}

bool map_add_item(struct map *map, uint64_t hash, void *item) {
	struct map_cell *cell = map_add(map, hash);

	if (cell != NULL)
		cell->item = item;
	return cell != NULL;
}

void map_remove_item(struct map *map, uint64_t hash, const void *item) {
	struct map_cell *cell = map_find(map, hash);

	while (cell->item != item)
		cell = map_next(map, cell);
	map_remove(map, cell);
}
