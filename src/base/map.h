/* SPDX-License-Identifier: ISC */
/*
 * Keyed hashes to what has them, in a process's own memory.  A few may have one hash: the
 * caller compares names, or takes 64 keyed bits for the name.  Zeroed memory is an empty map.
 */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include <stdbool.h>
#include <stdint.h>

#define MAP_NONE	UINT32_MAX

struct map_cell {
	uint64_t hash;		/* 0: free; a hash of 0 counts as 1 */
	union {
		uint32_t index;
		int64_t time_ns;
		void *item;
	};
};

/* `cells` may be walked: those with a hash are used. */
struct map {
	struct map_cell *cells;
	uint32_t size, count;
};

/* Room for `count` in all: until then map_add does not fail.  False: no memory. */
bool map_reserve(struct map *map, uint32_t count);
void map_free(struct map *map);
/* None is left; the room is. */
void map_clear(struct map *map);

/* Cells stay where they are until the next map_add or map_remove. */

/* The first with this hash, or NULL; and the next one. */
struct map_cell *map_find(const struct map *map, uint64_t hash);
struct map_cell *map_next(const struct map *map, const struct map_cell *cell);
/* The one with this index, or NULL. */
struct map_cell *map_find_index(const struct map *map, uint64_t hash, uint32_t index);

/* One more with this hash, for the caller to fill.  NULL: no memory. */
struct map_cell *map_add(struct map *map, uint64_t hash);
/* The one with this hash, else a new one. */
struct map_cell *map_set(struct map *map, uint64_t hash);

/* Another one may stand in the cell afterwards. */
void map_remove(struct map *map, struct map_cell *cell);

/* The same of an item; false: no memory. */
bool map_add_item(struct map *map, uint64_t hash, void *item);
void map_remove_item(struct map *map, uint64_t hash, const void *item);

/* Where one hash has one index: that index, or MAP_NONE; it is set, or false: no memory; and
 * there is none any more. */
uint32_t map_index(const struct map *map, uint64_t hash);
bool map_set_index(struct map *map, uint64_t hash, uint32_t index);
void map_remove_hash(struct map *map, uint64_t hash);

/* Where a search for it begins, for prefetching.  Of a map with room. */
static inline const struct map_cell *map_home(const struct map *map, uint64_t hash) {
	return &map->cells[(uint32_t)hash & (map->size - 1)];
}

#endif
