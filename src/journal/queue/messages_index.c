/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Which messages the log knows, and where their envelopes stand.
 * MODEL    256 tables by the key's first byte, each open-addressed with linear probing; the
 *          slot grows with the key, so that a table of any size will do: they grow by an
 *          eighth, and one that grows holds up nobody.  24 bytes an entry, 28 to 32 with room.
 * ERRORS   No memory: NULL.
 * THREADS  One.
 */
#include <stdlib.h>
#include <string.h>

#include "journal/queue/messages_internal.h"

#define SIZE_LEAST	16u

uint32_t messages_fold(uint64_t stamp) {
	return (uint32_t)(stamp ^ stamp >> 32);
}

static struct shard *shard_of(struct messages *m, uint64_t key) {
	return &m->shards[key >> 56];
}

static uint32_t home_of(const struct shard *shard, uint64_t key) {
	return (uint32_t)((key & UINT32_MAX) * shard->size >> 32);
}

struct entry *messages_index_find(struct messages *m, uint64_t key) {
	struct shard *shard = shard_of(m, key);

	if (shard->count == 0)
		return NULL;
	for (uint32_t i = home_of(shard, key);; i = i + 1 == shard->size ? 0 : i + 1) {
		if (shard->entries[i].key == key)
			return &shard->entries[i];
		if (shard->entries[i].key == 0)
			return NULL;
	}
}

static struct entry *place_in(struct shard *shard, uint64_t key) {
	uint32_t i = home_of(shard, key);

	while (shard->entries[i].key != 0)
		i = i + 1 == shard->size ? 0 : i + 1;
	shard->count++;
	return &shard->entries[i];
}

/* `gone`: with those that are GONE, too. */
static bool shard_rebuild(struct messages *m, struct shard *shard, uint32_t size, bool gone) {
	struct shard new = { .size = size };

	new.entries = calloc(size, sizeof(*new.entries));
	if (new.entries == NULL)
		return false;
	for (uint32_t i = 0; i < shard->size; i++)
		if (shard->entries[i].key != 0 && (gone || shard->entries[i].state != ENTRY_GONE))
			*place_in(&new, shard->entries[i].key) = shard->entries[i];
	m->totals.index_bytes += (uint64_t)size * sizeof(*new.entries);
	m->totals.index_bytes -= (uint64_t)shard->size * sizeof(*new.entries);
	free(shard->entries);
	*shard = new;
	return true;
}

struct entry *messages_index_make(struct messages *m, uint64_t key) {
	struct entry *entry = messages_index_find(m, key);
	struct shard *shard = shard_of(m, key);

	if (entry != NULL)
		return entry;
	/* six in seven at most are taken; one stays free at least */
	if ((uint64_t)(shard->count + 1) * 7 > (uint64_t)shard->size * 6 &&
	    !shard_rebuild(m, shard, shard->size + shard->size / 8 + SIZE_LEAST, true) &&
	    shard->count + 1 >= shard->size)
		return NULL;
	entry = place_in(shard, key);
	*entry = (struct entry){ .key = key, .state = ENTRY_NEW, .seen = m->epoch };
	m->by_state[ENTRY_NEW]++;
	return entry;
}

/* What follows it in its row moves up, where that is nearer to its home. */
void messages_index_remove(struct messages *m, struct entry *entry) {
	struct shard *shard = shard_of(m, entry->key);
	uint32_t hole = (uint32_t)(entry - shard->entries), i = hole;

	m->by_state[entry->state]--;
	for (;;) {
		uint32_t wanted, gap, away;

		i = i + 1 == shard->size ? 0 : i + 1;
		if (shard->entries[i].key == 0)
			break;
		wanted = home_of(shard, shard->entries[i].key);
		gap = i >= hole ? i - hole : i + shard->size - hole;
		away = i >= wanted ? i - wanted : i + shard->size - wanted;
		if (away >= gap) {
			shard->entries[hole] = shard->entries[i];
			hole = i;
		}
	}
	shard->entries[hole] = (struct entry){ .key = 0 };
	shard->count--;
	if (shard->size > 4 * SIZE_LEAST && shard->count < shard->size / 4)
		(void)shard_rebuild(m, shard, shard->size / 2, true);
}

void messages_index_sweep(struct messages *m, uint32_t number) {
	struct shard *shard = &m->shards[number];
	uint32_t gone = 0, left;

	for (uint32_t i = 0; i < shard->size; i++)
		gone += shard->entries[i].key != 0 && shard->entries[i].state == ENTRY_GONE;
	left = shard->count - gone;
	if (gone > 0 && shard_rebuild(m, shard, left + left / 4 + SIZE_LEAST, false))
		m->by_state[ENTRY_GONE] -= gone;
}

void messages_set_state(struct messages *m, struct entry *entry, enum entry_state state) {
	m->by_state[entry->state]--;
	entry->state = (uint8_t)state;
	m->by_state[state]++;
}

void messages_index_clear(struct messages *m) {
	for (unsigned i = 0; i < SHARDS; i++)
		free(m->shards[i].entries);
	memset(m->shards, 0, sizeof(m->shards));
	memset(m->by_state, 0, sizeof(m->by_state));
	m->totals.index_bytes = 0;
}
