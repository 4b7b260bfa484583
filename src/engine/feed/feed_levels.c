/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Levels of attempts that a log tells of only when they have ended.
 * MODEL    One struct level for each destination that mail goes to these days: a table
 *          by hash, which gives up what is idle.  Room for attempts grows by fours, within
 *          a bound for one destination, and by a quarter of what is left for all: however
 *          many are large, others find room.  It shrinks again when it is not used.
 * ERRORS   Without room levels are not known: results count for cohorts alone.
 * THREADS  One.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/map.h"
#include "engine/feed/feed_internal.h"

#define DESTINATIONS_MAX	32768
#define ENTRIES_FIRST		16
#define ENTRIES_MAX		16384		/* of one destination: 512 KB */
/* 32 MB for all, half of it for what each has from the start */
#define ENTRIES_GROWN_MAX	(1u << 19)
_Static_assert(ENTRIES_FIRST * DESTINATIONS_MAX == ENTRIES_GROWN_MAX, "halves");
#define IDLE_NS			(60 * NS_PER_SECOND)
#define LOOKS_MAX		64
#define LOOK_AGAIN_NS		NS_PER_MS	/* after a look that found nobody idle */
#define SWEEP			256	/* cells that a turn looks at */
#define SHRINK			16	/* of so many entries less than one is in use */

struct feed_table *feed_table_open(void) {
	struct feed_table *table = calloc(1, sizeof(*table));

	if (table != NULL && !map_reserve(&table->by_hash, DESTINATIONS_MAX))
		feed_table_close(&table);
	return table;
}

static void destination_free(struct feed_table *table, struct feed_destination *destination) {
	table->entries -= destination->level.capacity;
	free(destination->level.entries);
	free(destination);
}

void feed_table_close(struct feed_table **table) {
	if (*table == NULL)
		return;
	for (uint32_t i = 0; i < (*table)->by_hash.size; i++)
		if ((*table)->by_hash.cells[i].hash != 0)
			destination_free(*table, (*table)->by_hash.cells[i].item);
	map_free(&(*table)->by_hash);
	free(*table);
	*table = NULL;
}

uint32_t feed_table_entries(const struct feed_table *table) {
	return table->entries;
}

static bool feed_is_idle(const struct feed_destination *destination, int64_t now_ns) {
	return !destination->waiting && now_ns - destination->used_ns >= IDLE_NS;
}

/* Gives up the idle of the next few, `most` at most.  False: none of them is. */
static bool give_up(struct feed_table *table, unsigned looks, unsigned most, int64_t now_ns) {
	unsigned given_up = 0;

	for (unsigned i = 0; i < looks && given_up < most; i++) {
		struct map_cell *cell = &table->by_hash.cells[table->hand];

		if (cell->hash != 0 && feed_is_idle(cell->item, now_ns)) {
			destination_free(table, cell->item);
			map_remove(&table->by_hash, cell);	/* another may stand there now */
			given_up++;
		} else {
			table->hand = (table->hand + 1) % table->by_hash.size;
		}
	}
	return given_up > 0;
}

/* Room for one more, from what is idle.  Where nobody is, each line that needs room would
 * look at as many in vain. */
static bool make_room(struct feed_table *table, int64_t now_ns) {
	if (now_ns >= table->in_vain_ns && now_ns - table->in_vain_ns < LOOK_AGAIN_NS)
		return false;
	if (give_up(table, LOOKS_MAX, 1, now_ns))
		return true;
	table->in_vain_ns = now_ns;
	return false;
}

void feed_table_sweep(struct feed_table *table, int64_t now_ns) {
	(void)give_up(table, SWEEP, SWEEP, now_ns);
}

struct feed_destination *feed_destination_make(struct feed_table *table, uint64_t hash,
    const struct window_owner *owner, int64_t now_ns) {
	struct feed_destination *new;
	struct level_entry *entries;

	if (table->by_hash.count >= DESTINATIONS_MAX && !make_room(table, now_ns))
		return NULL;
	new = calloc(1, sizeof(*new));
	entries = calloc(ENTRIES_FIRST, sizeof(*entries));
	if (new == NULL || entries == NULL) {
		free(new);
		free(entries);
		return NULL;
	}
	new->hash = hash;
	new->owner = *owner;
	level_begin(&new->level, entries, ENTRIES_FIRST);
	map_add(&table->by_hash, hash)->item = new;
	table->entries += ENTRIES_FIRST;
	return new;
}

void feed_destination_near(const struct feed_table *table, uint64_t hash) {
	__builtin_prefetch(map_home(&table->by_hash, hash));
}

const struct feed_destination *feed_destination_likely(const struct feed_table *table,
    uint64_t hash) {
	const struct map_cell *cell = map_home(&table->by_hash, hash);
	const struct feed_destination *found = cell->hash == hash ? cell->item : NULL;

	for (size_t at = 0; found != NULL && at < sizeof(*found); at += 64)
		__builtin_prefetch((const char *)found + at);
	return found;
}

static bool move(struct feed_table *table, struct level *level, uint32_t capacity) {
	struct level_entry *old = level->entries;
	struct level_entry *entries = calloc(capacity, sizeof(*entries));

	if (entries == NULL)
		return false;
	table->entries += capacity - level->capacity;
	level_move(level, entries, capacity);
	free(old);
	return true;
}

void feed_level_grow(struct feed_table *table, struct level *level) {
	uint32_t capacity = 4 * level->capacity;
	uint32_t grown = table->entries - ENTRIES_FIRST * table->by_hash.count;

	if (capacity <= ENTRIES_MAX &&
	    capacity - level->capacity <= (ENTRIES_GROWN_MAX - grown) / 4)
		(void)move(table, level, capacity);
}

void feed_shrink(struct feed_memory *memory, struct feed_destination *destination) {
	struct level *level = &destination->level;

	if (level->capacity > ENTRIES_FIRST && level_count(level) < level->capacity / SHRINK)
		(void)move(memory->table, level, level->capacity / 4);
}

uint32_t feed_places(const struct feed_destination *destination, int64_t now_ns) {
	uint32_t places = level_places(&destination->level, level_known_ns(&destination->level, now_ns));

	/* how many there were is known later */
	return places == 0 && now_ns < destination->kept_ns ? 1 : places;
}
