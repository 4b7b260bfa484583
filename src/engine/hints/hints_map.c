/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Hashes to indexes, for the keeper's own memory.
 * MODEL    Open addressing, half full at most; what is taken out leaves no gap, so that
 *          searches stay short however much comes and goes.  The hashes
 *          are keyed ones (strangers choose the names), and taken for the names.
 */
#include <stdlib.h>

#include "engine/hints/hints_internal.h"

#define SIZE_LEAST	64

static uint32_t place_of(const struct hint_map *map, uint64_t hash) {
	uint32_t at = (uint32_t)hash & (map->size - 1);

	while (map->hashes[at] != 0 && map->hashes[at] != hash)
		at = (at + 1) & (map->size - 1);
	return at;
}

static bool grow(struct hint_map *map) {
	struct hint_map larger = { .size = map->size == 0 ? SIZE_LEAST : 2 * map->size,
		.count = map->count };

	larger.hashes = calloc(larger.size, sizeof(*larger.hashes));
	larger.values = calloc(larger.size, sizeof(*larger.values));
	if (larger.hashes == NULL || larger.values == NULL) {
		hint_map_free(&larger);
		return false;
	}
	for (uint32_t i = 0; i < map->size; i++)
		if (map->hashes[i] != 0) {
			uint32_t at = place_of(&larger, map->hashes[i]);

			larger.hashes[at] = map->hashes[i];
			larger.values[at] = map->values[i];
		}
	hint_map_free(map);
	*map = larger;
	return true;
}

bool hint_map_put(struct hint_map *map, uint64_t hash, uint32_t value) {
	uint32_t at;

	if (hash == 0)
		hash = 1;
	if (2 * (map->count + 1) > map->size && !grow(map))
		return false;
	at = place_of(map, hash);
	map->count += map->hashes[at] == 0;
	map->hashes[at] = hash;
	map->values[at] = value;
	return true;
}

uint32_t hint_map_get(const struct hint_map *map, uint64_t hash) {
	uint32_t at;

	if (map->size == 0)
		return NO_INDEX;
	if (hash == 0)
		hash = 1;
	at = place_of(map, hash);
	return map->hashes[at] == 0 ? NO_INDEX : map->values[at];
}

void hint_map_remove(struct hint_map *map, uint64_t hash) {
	uint32_t gap, mask = map->size - 1;

	if (map->size == 0)
		return;
	gap = place_of(map, hash == 0 ? 1 : hash);
	if (map->hashes[gap] == 0)
		return;
	/* those behind that a search would not reach any more move up */
	for (uint32_t at = (gap + 1) & mask; map->hashes[at] != 0; at = (at + 1) & mask) {
		uint32_t home = (uint32_t)map->hashes[at] & mask;

		if (((at - home) & mask) < ((at - gap) & mask))
			continue;
		map->hashes[gap] = map->hashes[at];
		map->values[gap] = map->values[at];
		gap = at;
	}
	map->hashes[gap] = 0;
	map->count--;
}

void hint_map_free(struct hint_map *map) {
	free(map->hashes);
	free(map->values);
	*map = (struct hint_map){ .size = 0 };
}
