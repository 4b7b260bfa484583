/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The tables of what was learned.
 * MODEL    A shard's slots are linked in its index or chained in its free list (by
 *          word 1).  An index only ever gets and loses single places while readers
 *          walk it, so that they never miss an entry that stays; only whoever
 *          inherits a mutex makes it anew, with the shard's sequence odd.
 * ERRORS   Whoever inherits a shard's mutex rebuilds index and free list from the
 *          control words, which are never torn.
 * THREADS  Any, of any process.
 */
#include "segment/learned.h"

#include <string.h>

#include "base/failpoint.h"
#include "segment/lock.h"

#define READ_TRIES	100
#define LOOKED_AT	32	/* for a place, where all are taken */

#define RELAXED(word)	atomic_load_explicit(&(word), memory_order_relaxed)

void learned_bind(struct learned *table, struct segment_header *header,
    void *mapping, const struct table_place *place,
    const struct learned_kind *kind) {
	char *base = mapping;

	table->kind = kind;
	table->header = header;
	table->shards = (void *)(base + place->shards_offset);
	table->lines = (void *)(base + place->lines_offset);
	table->words = (void *)(base + place->slots_offset);
}

static struct index shard_index(const struct learned *table, uint32_t shard) {
	uint32_t lines = table->header->learned_lines_per_shard;

	return (struct index){
		.lines = table->lines + (size_t)shard * lines,
		.line_count = lines,
	};
}

/* slot: within the shard */
static _Atomic uint64_t *slot_at(const struct learned *table, uint32_t shard,
    uint32_t slot) {
	size_t number = (size_t)shard * table->header->learned_per_shard + slot;

	return table->words + number * table->kind->slot_words;
}

/* Most keys are short: the zeros behind them say nothing. */
static uint64_t key_hash(const struct learned *table, const uint64_t *words) {
	uint32_t count = table->kind->key_words;

	while (count > 1 && words[count - 1] == 0)
		count--;
	return siphash13(&table->header->key, words, count * sizeof(words[0]));
}

void learned_aim(const struct learned *table, struct learned_key *key) {
	struct index index;

	key->hash = key_hash(table, key->words);
	key->shard = (uint32_t)key->hash & (table->header->learned_shards - 1);
	index = shard_index(table, key->shard);
	index_prefetch(&index, key->hash);
}

struct learned_control learned_load_control(const _Atomic uint64_t *slot) {
	uint64_t word = atomic_load_explicit(slot, memory_order_acquire);
	struct learned_control control;

	memcpy(&control, &word, sizeof(control));
	return control;
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

static bool has_key(const struct learned *table, const _Atomic uint64_t *slot,
    const uint64_t *key) {
	const struct learned_kind *kind = table->kind;

	for (uint32_t i = 0; i < kind->key_words; i++) {
		if (RELAXED(slot[kind->key_at + i]) != key[i])
			return false;
	}
	return true;
}

static void load_key(const struct learned *table, const _Atomic uint64_t *slot,
    uint64_t *key) {
	for (uint32_t i = 0; i < table->kind->key_words; i++)
		key[i] = RELAXED(slot[table->kind->key_at + i]);
}

static void free_push(const struct learned *table, uint32_t shard,
    uint32_t slot) {
	atomic_store_explicit(&slot_at(table, shard, slot)[1],
	    table->shards[shard].free_head, memory_order_relaxed);
	FAILPOINT();
	table->shards[shard].free_head = slot;
	FAILPOINT();
}

static uint32_t find_slot(const struct learned *table, uint32_t shard,
    uint64_t hash, const uint64_t *key) {
	struct index index = shard_index(table, shard);
	struct index_walk walk;
	uint32_t found;

	index_walk_begin(&index, hash, &walk);
	while ((found = index_walk_next(&index, &walk)) != SEGMENT_NO_SLOT) {
		const _Atomic uint64_t *slot = slot_at(table, shard, found);

		__builtin_prefetch(&slot[8]);
		if (learned_load_control(slot).used && has_key(table, slot, key))
			return found;
	}
	return SEGMENT_NO_SLOT;
}

static uint32_t high_water(const struct learned *table, uint32_t shard) {
	uint32_t high = RELAXED(table->shards[shard].high_water);
	uint32_t all = table->header->learned_per_shard;

	return high < all ? high : all;
}

/* Index and free list from the control words. */
static void shard_rebuild(const struct learned *table, uint32_t number) {
	static const struct learned_control free_slot;
	struct shard *shard = &table->shards[number];
	struct index index = shard_index(table, number);
	uint32_t used = 0;

	/* odd already where somebody died in here, or in a change */
	if (RELAXED(shard->seq) % 2 == 0)
		seq_begin(&shard->seq);
	index_clear(&index);
	shard->free_head = SEGMENT_NO_SLOT;
	for (uint32_t i = high_water(table, number); i-- > 0;) {
		_Atomic uint64_t *slot = slot_at(table, number, i);
		uint64_t key[LEARNED_KEY_MAX], hash;

		if (learned_load_control(slot).used) {
			load_key(table, slot, key);
			hash = key_hash(table, key);
			if (find_slot(table, number, hash, key) ==
			    SEGMENT_NO_SLOT) {
				MUST(index_insert(&index, hash, i));
				used++;
				continue;
			}
			/* only a file that others wrote has one twice */
			learned_store_control(slot, free_slot);
		}
		free_push(table, number, i);
	}
	atomic_store_explicit(&shard->used, used, memory_order_relaxed);
	seq_end(&shard->seq);
}

bool learned_lock(const struct learned *table, const struct learned_key *key,
    int64_t now_ns) {
	struct shard *shard = &table->shards[key->shard];

	switch (lock_take(&shard->mutex, &shard->stuck_until_ns, now_ns)) {
	case LOCK_HELD:
		return true;
	case LOCK_INHERITED:
		shard_rebuild(table, key->shard);
		atomic_fetch_add_explicit(&table->header->counters[
		    COUNTER_REPAIRS], 1, memory_order_relaxed);
		/* a change that nobody announced may be among them */
		atomic_fetch_add_explicit(&table->header->destinations_version,
		    1, memory_order_release);
		lock_repaired(&shard->mutex);
		return true;
	case LOCK_TIMED_OUT:
		break;
	}
	return false;
}

void learned_unlock(const struct learned *table, const struct learned_key *key) {
	lock_give(&table->shards[key->shard].mutex);
}

_Atomic uint64_t *learned_find(const struct learned *table,
    const struct learned_key *key) {
	uint32_t slot = find_slot(table, key->shard, key->hash, key->words);

	return slot == SEGMENT_NO_SLOT ? NULL : slot_at(table, key->shard, slot);
}

static void forget(const struct learned *table, uint32_t shard, uint32_t number) {
	static const struct learned_control free_slot;
	_Atomic uint64_t *slot = slot_at(table, shard, number);
	struct index index = shard_index(table, shard);
	uint64_t key[LEARNED_KEY_MAX];

	load_key(table, slot, key);
	learned_store_control(slot, free_slot);
	MUST(index_remove(&index, key_hash(table, key), number));
	free_push(table, shard, number);
	guarded_add(&table->shards[shard].used, UINT32_MAX);
}

/* All are taken: gives up the one seen longest ago among the next few.  Never all
 * are looked at: that would be each note's cost where there are many. */
static void evict(const struct learned *table, uint32_t shard) {
	uint32_t count = table->header->learned_per_shard;
	uint32_t at = table->shards[shard].hand % count, oldest = at;
	uint32_t oldest_ds = UINT32_MAX;

	for (uint32_t i = 0; i < LOOKED_AT && i < count; i++) {
		uint32_t seen_ds;

		at = at + 1 < count ? at + 1 : 0;
		seen_ds = (uint32_t)RELAXED(slot_at(table, shard, at)[1]);
		if (i == 0 || seen_ds < oldest_ds) {
			oldest = at;
			oldest_ds = seen_ds;
		}
	}
	table->shards[shard].hand = at;
	forget(table, shard, oldest);
	atomic_fetch_add_explicit(&table->header->counters[table->kind->evicted],
	    1, memory_order_relaxed);
}

/* A free slot of the shard, in no list. */
static uint32_t take_slot(const struct learned *table, uint32_t number) {
	static const struct learned_control free_slot;
	struct shard *shard = &table->shards[number];
	uint32_t high = high_water(table, number), slot;

	if (shard->free_head == SEGMENT_NO_SLOT &&
	    high >= table->header->learned_per_shard)
		evict(table, number);
	slot = shard->free_head;
	if (slot != SEGMENT_NO_SLOT) {
		shard->free_head =
		    (uint32_t)RELAXED(slot_at(table, number, slot)[1]);
		FAILPOINT();
		return slot;
	}
	/* an adopted file may hold anything up there */
	learned_store_control(slot_at(table, number, high), free_slot);
	atomic_store_explicit(&shard->high_water, high + 1, memory_order_relaxed);
	FAILPOINT();
	return high;
}

_Atomic uint64_t *learned_take(const struct learned *table,
    const struct learned_key *key) {
	uint32_t slot = take_slot(table, key->shard);
	struct index index = shard_index(table, key->shard);

	/* there are more places than slots */
	MUST(index_insert(&index, key->hash, slot));
	guarded_add(&table->shards[key->shard].used, 1);
	return slot_at(table, key->shard, slot);
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

enum copied { COPIED, COPIED_NOTHING, COPIED_TORN };

static enum copied copy_slot(const struct learned *table,
    const _Atomic uint64_t *slot, uint64_t *copy) {
	for (unsigned tries = 0; tries < READ_TRIES; tries++) {
		struct learned_control control = learned_load_control(slot);

		if (!control.used)
			return COPIED_NOTHING;
		memcpy(copy, &control, sizeof(control));
		for (uint32_t i = 1; i < table->kind->copied_words; i++)
			copy[i] = RELAXED(slot[i]);
		atomic_thread_fence(memory_order_acquire);
		if (RELAXED(slot[0]) == copy[0])
			return COPIED;
	}
	return COPIED_TORN;
}

static bool look_once(const struct learned *table, const struct learned_key *key,
    uint64_t *copy) {
	const struct learned_kind *kind = table->kind;
	struct index index = shard_index(table, key->shard);
	struct index_walk walk;
	uint32_t found;

	index_walk_begin(&index, key->hash, &walk);
	while ((found = index_walk_next(&index, &walk)) != SEGMENT_NO_SLOT) {
		const _Atomic uint64_t *slot;

		/* whoever writes may just be making the index anew */
		if (found >= table->header->learned_per_shard)
			continue;
		slot = slot_at(table, key->shard, found);
		if (copy_slot(table, slot, copy) == COPIED &&
		    memcmp(copy + kind->key_at, key->words,
			kind->key_words * sizeof(key->words[0])) == 0)
			return true;
	}
	return false;
}

bool learned_look(const struct learned *table, const struct learned_key *key,
    uint64_t *copy) {
	const struct shard *shard = &table->shards[key->shard];

	for (unsigned tries = 0; tries < READ_TRIES; tries++) {
		uint32_t before = atomic_load_explicit(&shard->seq,
		    memory_order_acquire);

		if (look_once(table, key, copy))
			return true;
		atomic_thread_fence(memory_order_acquire);
		if (before % 2 == 0 && before == RELAXED(shard->seq))
			return false;
	}
	return false;
}

unsigned learned_each(const struct learned *table,
    void (*each)(void *context, const uint64_t *copy), void *context) {
	unsigned torn = 0;

	for (uint32_t shard = 0; shard < table->header->learned_shards; shard++) {
		uint32_t high = high_water(table, shard);

		for (uint32_t i = 0; i < high; i++) {
			uint64_t copy[LEARNED_WORDS_MAX];

			switch (copy_slot(table, slot_at(table, shard, i), copy)) {
			case COPIED:
				each(context, copy);
				break;
			case COPIED_NOTHING:
				break;
			case COPIED_TORN:
				torn++;
				break;
			}
		}
	}
	return torn;
}

static bool slot_is_ours(const struct learned *table, uint32_t shard,
    const _Atomic uint64_t *slot) {
	uint64_t words[LEARNED_WORDS_MAX];
	uint64_t hash;

	for (uint32_t i = 0; i < table->kind->slot_words; i++)
		words[i] = RELAXED(slot[i]);
	hash = key_hash(table, words + table->kind->key_at);
	return ((uint32_t)hash & (table->header->learned_shards - 1)) == shard &&
	    table->kind->is_sound(words);
}

static void scrub_shard(const struct learned *table, uint32_t number,
    uint32_t now_ds) {
	static const struct learned_control free_slot;
	struct shard *shard = &table->shards[number];
	uint32_t high = high_water(table, number);

	lock_init(&shard->mutex);
	atomic_store(&shard->seq, 0);
	atomic_store(&shard->stuck_until_ns, 0);
	atomic_store(&shard->high_water, high);
	shard->hand = 0;
	for (uint32_t i = 0; i < high; i++) {
		_Atomic uint64_t *slot = slot_at(table, number, i);

		if (!learned_load_control(slot).used)
			continue;
		if (!slot_is_ours(table, number, slot))
			learned_store_control(slot, free_slot);
		else if (RELAXED(slot[1]) > now_ds)
			atomic_store(&slot[1], now_ds);
	}
	shard_rebuild(table, number);
}

void learned_scrub(const struct learned *table, uint32_t now_ds) {
	for (uint32_t i = 0; i < table->header->learned_shards; i++)
		scrub_shard(table, i, now_ds);
}

static void carry_one(const struct learned *to, uint64_t *words) {
	struct learned_control control;
	struct learned_key key;
	_Atomic uint64_t *slot;

	memcpy(key.words, words + to->kind->key_at,
	    to->kind->key_words * sizeof(key.words[0]));
	learned_aim(to, &key);
	if (!learned_lock(to, &key, 0))
		return;
	if (learned_find(to, &key) == NULL) {
		slot = learned_take(to, &key);
		memcpy(&control, words, sizeof(control));
		words[1] = 0;
		learned_store(slot, words, 1, to->kind->slot_words);
		learned_store_control(slot, control);
	}
	learned_unlock(to, &key);
}

void learned_carry(const struct learned *from, const struct learned *to) {
	for (uint32_t shard = 0; shard < from->header->learned_shards; shard++) {
		uint32_t high = high_water(from, shard);

		for (uint32_t i = 0; i < high; i++) {
			const _Atomic uint64_t *slot = slot_at(from, shard, i);
			uint64_t words[LEARNED_WORDS_MAX];

			if (!learned_load_control(slot).used)
				continue;
			for (uint32_t w = 0; w < from->kind->slot_words; w++)
				words[w] = RELAXED(slot[w]);
			carry_one(to, words);
		}
	}
}

uint64_t learned_used(const struct learned *table) {
	uint64_t used = 0;

	for (uint32_t i = 0; i < table->header->learned_shards; i++)
		used += RELAXED(table->shards[i].used);
	return used;
}
