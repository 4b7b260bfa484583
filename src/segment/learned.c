/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The tables of what was learned.
 * MODEL    A shard's slots are linked in its index or chained in its free list (by
 *          word 1).  An index only ever gets and loses single places while readers
 *          walk it, so that they never miss an entry that stays; only whoever
 *          inherits a mutex makes it anew, with the shard's sequence odd.
 * ERRORS   Whoever inherits a shard's mutex, or finds that index, free list and slots do
 *          not fit together, as any role can write to them, makes index and free list from
 *          the control words, which are never torn.
 * THREADS  Any, of any process.
 */
#include "segment/learned.h"

#include <string.h>

#include "base/failpoint.h"
#include "segment/lock.h"
#include "segment/name.h"
#include "segment/stir.h"

#define LOOKED_AT	32	/* for a place, where all are taken */
#define LOOKED_AT_MOST	256	/* where none of them is to be given up */

#define RELAXED(word)	atomic_load_explicit(&(word), memory_order_relaxed)
#define LINE_WORDS	8

void learned_bind(struct learned *table, struct segment_header *header,
    void *mapping, const struct table_place *place,
    const struct learned_kind *kind) {
	char *base = mapping;

	table->kind = kind;
	table->header = header;
	table->place = place;
	table->shards = (void *)(base + place->shards_offset);
	table->lines = (void *)(base + place->lines_offset);
	table->words = (void *)(base + place->slots_offset);
}

uint32_t learned_number(const struct learned *table, const struct learned_key *key,
    const _Atomic uint64_t *slot) {
	return (uint32_t)((size_t)(slot - learned_slot(table, key->shard, 0)) /
	    table->kind->slot_words);
}

uint64_t learned_hash(const struct learned *table, const uint64_t *words) {
	return name_hash(&table->header->key, words, table->kind->key_words);
}

void learned_aim_hash(const struct learned *table, uint64_t hash, struct learned_key *key) {
	struct index index;

	key->hash = hash;
	key->shard = (uint32_t)hash & (table->place->shards - 1);
	index = learned_index(table, key->shard);
	index_prefetch(&index, hash);
}

void learned_aim(const struct learned *table, struct learned_key *key) {
	learned_aim_hash(table, learned_hash(table, key->words), key);
}

void learned_fetch(const struct learned *table, const _Atomic uint64_t *slot) {
	for (uint32_t i = 0; i < table->kind->slot_words; i += LINE_WORDS)
		__builtin_prefetch(&slot[i]);
}

/* Text that ends within a word is equal when that word is. */
static bool ends_within(uint64_t word) {
	return ((const char *)&word)[sizeof(word) - 1] == '\0';
}

static bool has_key(const struct learned *table, const _Atomic uint64_t *slot,
    const uint64_t *key) {
	const struct learned_kind *kind = table->kind;

	for (uint32_t i = 0; i < kind->key_words; i++) {
		if (RELAXED(slot[kind->key_at + i]) != key[i])
			return false;
		if (i >= kind->text_at && ends_within(key[i]))
			return true;
	}
	return true;
}

_Atomic uint64_t *learned_likely(const struct learned *table,
    const struct learned_key *key) {
	struct index index = learned_index(table, key->shard);
	struct index_walk walk;
	uint32_t found;

	index_walk_begin(&index, key->hash, &walk);
	do
		found = index_walk_next(&index, &walk);
	while (found != SEGMENT_NO_SLOT && found >= table->place->per_shard);
	return found == SEGMENT_NO_SLOT ? NULL :
	    learned_slot(table, key->shard, found);
}

_Atomic uint64_t *learned_approach(const struct learned *table,
    const struct learned_key *key) {
	_Atomic uint64_t *slot = learned_likely(table, key);

	if (slot != NULL)
		learned_fetch(table, slot);
	return slot;
}

/* What a new entry of the shard is going to be written to, or NULL. */
static const _Atomic uint64_t *next_free(const struct learned *table, uint32_t shard) {
	uint32_t slot = __atomic_load_n(&table->shards[shard].free_head, __ATOMIC_RELAXED);

	if (slot == SEGMENT_NO_SLOT)
		slot = RELAXED(table->shards[shard].high_water);
	return slot < table->place->per_shard ? learned_slot(table, shard, slot) : NULL;
}

/* Step by step for all, so that nothing but the next step waits for a step. */
void learned_expect(const struct learned *table, const uint64_t hashes[],
    const _Atomic uint64_t *slots[], size_t count) {
	struct learned_key key;

	for (size_t i = 0; i < count; i++) {
		if (slots[i] == NULL)
			learned_aim_hash(table, hashes[i], &key);
	}
	for (size_t i = 0; i < count; i++) {
		if (slots[i] != NULL)
			continue;
		key.hash = hashes[i];
		key.shard = (uint32_t)key.hash & (table->place->shards - 1);
		slots[i] = learned_likely(table, &key);
		if (slots[i] == NULL)
			slots[i] = next_free(table, key.shard);
	}
	/* a page's address first, where that is not known either */
	for (size_t i = 0; i < count; i++) {
		if (slots[i] != NULL)
			__builtin_prefetch(&slots[i][0]);
	}
	for (size_t i = 0; i < count; i++) {
		if (slots[i] != NULL)
			learned_fetch(table, slots[i]);
	}
}

_Atomic uint64_t *learned_find_at(const struct learned *table,
    const struct learned_key *key, _Atomic uint64_t *likely) {
	if (likely != NULL && learned_load_control(likely).used &&
	    has_key(table, likely, key->words))
		return likely;
	return learned_find(table, key);
}

void learned_store_control(_Atomic uint64_t *slot,
    struct learned_control control) {
	uint64_t word;

	control.serial = (uint16_t)(learned_load_control(slot).serial + 1);
	memcpy(&word, &control, sizeof(word));
	FAILPOINT();
	atomic_store_explicit(slot, word, memory_order_release);
	FAILPOINT();
}

void learned_store(_Atomic uint64_t *slot, const uint64_t *words, uint32_t from,
    uint32_t to) {
	/* whoever sees these sees the control word before them too */
	atomic_thread_fence(memory_order_release);
	for (uint32_t i = from; i < to; i++) {
		atomic_store_explicit(&slot[i], words[i], memory_order_relaxed);
		FAILPOINT();
	}
}

static void load_key(const struct learned *table, const _Atomic uint64_t *slot,
    uint64_t *key) {
	for (uint32_t i = 0; i < table->kind->key_words; i++)
		key[i] = RELAXED(slot[table->kind->key_at + i]);
}

static void free_push(const struct learned *table, uint32_t shard,
    uint32_t slot) {
	atomic_store_explicit(&learned_slot(table, shard, slot)[1],
	    table->shards[shard].free_head, memory_order_relaxed);
	FAILPOINT();
	table->shards[shard].free_head = slot;
	FAILPOINT();
}

static uint32_t find_slot(const struct learned *table, uint32_t shard,
    uint64_t hash, const uint64_t *key) {
	struct index index = learned_index(table, shard);
	struct index_walk walk;
	uint32_t found;

	index_walk_begin(&index, hash, &walk);
	while ((found = index_walk_next(&index, &walk)) != SEGMENT_NO_SLOT) {
		const _Atomic uint64_t *slot = learned_slot(table, shard, found);

		learned_fetch(table, slot);
		if (learned_load_control(slot).used && has_key(table, slot, key))
			return found;
	}
	return SEGMENT_NO_SLOT;
}

uint32_t learned_high_water(const struct learned *table, uint32_t shard) {
	uint32_t high = RELAXED(table->shards[shard].high_water);
	uint32_t all = table->place->per_shard;

	return high < all ? high : all;
}

/* Index and free list from the control words. */
void learned_rebuild(const struct learned *table, uint32_t number) {
	static const struct learned_control free_slot;
	struct shard *shard = &table->shards[number];
	struct index index = learned_index(table, number);
	uint32_t used = 0;

	seq_begin(&shard->seq);
	index_clear(&index);
	shard->free_head = SEGMENT_NO_SLOT;
	for (uint32_t i = learned_high_water(table, number); i-- > 0;) {
		_Atomic uint64_t *slot = learned_slot(table, number, i);
		uint64_t key[LEARNED_KEY_MAX], hash;

		if (learned_load_control(slot).used) {
			load_key(table, slot, key);
			hash = learned_hash(table, key);
			if (find_slot(table, number, hash, key) ==
				SEGMENT_NO_SLOT &&
			    index_insert(&index, hash, i)) {
				used++;
				continue;
			}
			/* only where others wrote there is one twice */
			learned_store_control(slot, free_slot);
		}
		free_push(table, number, i);
	}
	atomic_store_explicit(&shard->used, used, memory_order_relaxed);
	seq_end(&shard->seq);
}

static void mend(const struct learned *table, uint32_t shard) {
	if (table->kind->repair != NULL)
		table->kind->repair(table, shard);
	learned_rebuild(table, shard);
	atomic_fetch_add_explicit(&table->header->counters[COUNTER_REPAIRS], 1,
	    memory_order_relaxed);
	/* a change that nobody announced may be among them */
	atomic_fetch_add_explicit(&table->header->destinations_version, 1,
	    memory_order_release);
	atomic_fetch_add_explicit(&table->header->states_version, 1,
	    memory_order_release);
}

bool learned_lock(const struct learned *table, const struct learned_key *key,
    int64_t now_ns) {
	struct shard *shard = &table->shards[key->shard];

	switch (lock_acquire(&shard->lock, now_ns)) {
	case LOCK_HELD:
		return true;
	case LOCK_INHERITED:
		mend(table, key->shard);
		return true;
	case LOCK_TIMED_OUT:
		break;
	}
	return false;
}

void learned_unlock(const struct learned *table, const struct learned_key *key) {
	struct shard *shard = &table->shards[key->shard];

	/* whoever sees it sees what changed (saved.c) */
	atomic_store_explicit(&shard->given, 1 + RELAXED(shard->given), memory_order_release);
	lock_release(&shard->lock);
	segment_stir(table->header);
}

_Atomic uint64_t *learned_find(const struct learned *table,
    const struct learned_key *key) {
	uint32_t slot = find_slot(table, key->shard, key->hash, key->words);

	return slot == SEGMENT_NO_SLOT ? NULL : learned_slot(table, key->shard, slot);
}

static void forget(const struct learned *table, uint32_t shard, uint32_t number) {
	static const struct learned_control free_slot;
	_Atomic uint64_t *slot = learned_slot(table, shard, number);
	struct index index = learned_index(table, shard);
	uint64_t key[LEARNED_KEY_MAX];

	load_key(table, slot, key);
	learned_store_control(slot, free_slot);
	if (index_remove(&index, learned_hash(table, key), number)) {
		free_push(table, shard, number);
		guarded_add(&table->shards[shard].used, UINT32_MAX);
	} else {
		mend(table, shard);
	}
	if (table->kind->forgotten != NULL)
		table->kind->forgotten(table, shard, number);
}

void learned_forget(const struct learned *table, const struct learned_key *key,
    _Atomic uint64_t *slot) {
	forget(table, key->shard, learned_number(table, key, slot));
}

static uint64_t worth_of(const struct learned *table, uint32_t shard, uint32_t number,
    uint32_t now_ds) {
	const _Atomic uint64_t *slot = learned_slot(table, shard, number);

	/* the spare one; beyond the high water an adopted file may hold anything */
	if (number >= learned_high_water(table, shard) || !learned_load_control(slot).used)
		return LEARNED_NEVER;
	if (table->kind->worth != NULL)
		return table->kind->worth(slot, now_ds);
	return SEEN_DS(RELAXED(slot[1]));
}

static void fetch_some(const struct learned *table, uint32_t shard, uint32_t at) {
	uint32_t count = table->place->per_shard;

	for (uint32_t i = 0; i < LOOKED_AT && i < count; i++) {
		at = at + 1 < count ? at + 1 : 0;
		if (table->kind->fetch != NULL)
			table->kind->fetch(learned_slot(table, shard, at));
	}
}

/* All are taken, but for a spare one: gives up the one that is worth least among the next few.
 * Never all are looked at: that would be each note's cost where there are many.  Where more
 * are free any role wrote otherwise. */
static bool evict(const struct learned *table, uint32_t shard, uint32_t now_ds) {
	uint32_t count = table->place->per_shard;
	uint32_t at = table->shards[shard].hand % count, least = at, unused = 0;
	uint64_t least_worth = LEARNED_NEVER;

	fetch_some(table, shard, at);
	for (uint32_t i = 0; i < count && (i < LOOKED_AT ||
	    (least_worth == LEARNED_NEVER && i < LOOKED_AT_MOST)); i++) {
		uint64_t worth;

		at = at + 1 < count ? at + 1 : 0;
		unused += !learned_load_control(learned_slot(table, shard, at)).used;
		worth = worth_of(table, shard, at, now_ds);
		if (worth < least_worth) {
			least = at;
			least_worth = worth;
		}
	}
	table->shards[shard].hand = at;
	if (unused > table->kind->has_spare) {
		mend(table, shard);
		return true;
	}
	if (least_worth == LEARNED_NEVER)
		return false;
	forget(table, shard, least);
	atomic_fetch_add_explicit(&table->header->counters[table->kind->evicted],
	    1, memory_order_relaxed);
	return true;
}

static bool has_room(const struct learned *table, uint32_t number) {
	const struct shard *shard = &table->shards[number];
	uint32_t all = table->place->per_shard;

	if (table->kind->has_spare && all > 1 && RELAXED(shard->used) >= all - 1)
		return false;
	return shard->free_head != SEGMENT_NO_SLOT ||
	    learned_high_water(table, number) < all;
}

/* A free slot of the shard, in no list.  SEGMENT_NO_SLOT: there is none, or the list names one
 * that is not. */
static uint32_t take_slot(const struct learned *table, uint32_t number) {
	static const struct learned_control free_slot;
	struct shard *shard = &table->shards[number];
	uint32_t all = table->place->per_shard, high = learned_high_water(table, number);
	uint32_t slot = __atomic_load_n(&shard->free_head, __ATOMIC_RELAXED);

	if (slot == SEGMENT_NO_SLOT ? high >= all : slot >= high ||
	    learned_load_control(learned_slot(table, number, slot)).used)
		return SEGMENT_NO_SLOT;
	if (slot != SEGMENT_NO_SLOT) {
		shard->free_head =
		    (uint32_t)RELAXED(learned_slot(table, number, slot)[1]);
		FAILPOINT();
		return slot;
	}
	/* an adopted file may hold anything up there */
	learned_store_control(learned_slot(table, number, high), free_slot);
	atomic_store_explicit(&shard->high_water, high + 1, memory_order_relaxed);
	FAILPOINT();
	return high;
}

static _Atomic uint64_t *try_take(const struct learned *table,
    const struct learned_key *key) {
	uint32_t slot = take_slot(table, key->shard);
	struct index index = learned_index(table, key->shard);

	/* there are more places than slots */
	if (slot == SEGMENT_NO_SLOT || !index_insert(&index, key->hash, slot))
		return NULL;
	guarded_add(&table->shards[key->shard].used, 1);
	return learned_slot(table, key->shard, slot);
}

/* NULL: there is none. */
static _Atomic uint64_t *take(const struct learned *table, const struct learned_key *key) {
	_Atomic uint64_t *slot = try_take(table, key);

	if (slot != NULL)
		return slot;
	mend(table, key->shard);
	return try_take(table, key);
}

_Atomic uint64_t *learned_take(const struct learned *table,
    const struct learned_key *key, uint32_t now_ds) {
	if (!has_room(table, key->shard) && !evict(table, key->shard, now_ds))
		return NULL;
	return take(table, key);
}

_Atomic uint64_t *learned_take_spare(const struct learned *table,
    const struct learned_key *key) {
	if (table->shards[key->shard].free_head == SEGMENT_NO_SLOT &&
	    learned_high_water(table, key->shard) >= table->place->per_shard)
		return NULL;
	return take(table, key);
}

void learned_change_begin(const struct learned *table,
    const struct learned_key *key) {
	seq_begin(&table->shards[key->shard].seq);
	FAILPOINT();
}

void learned_change_end(const struct learned *table,
    const struct learned_key *key) {
	FAILPOINT();
	seq_end(&table->shards[key->shard].seq);
}
