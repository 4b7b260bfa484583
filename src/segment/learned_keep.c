/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The tables of what was learned, read without locks; adopted and carried.
 * MODEL    A copy is whole when its control word did not change meanwhile, nor, for
 *          kinds that are sequenced, the sequence in word 1.
 * ERRORS   What changes all the time is told as torn, and left to the caller.
 * THREADS  Readers: any, of any process.  The rest: who prepares the segment.
 */
#include "segment/learned.h"

#include <string.h>

#include "segment/lock.h"

#define READ_TRIES	100

#define RELAXED(word)	atomic_load_explicit(&(word), memory_order_relaxed)

enum learned_copied learned_copy(const struct learned *table, uint32_t shard,
    uint32_t number, uint64_t *copy) {
	const _Atomic uint64_t *slot = learned_slot(table, shard, number);
	bool is_sequenced = table->kind->is_sequenced;

	for (unsigned tries = 0; tries < READ_TRIES; tries++) {
		struct learned_control control = learned_load_control(slot);

		if (!control.used)
			return LEARNED_NOTHING;
		memcpy(copy, &control, sizeof(control));
		copy[1] = atomic_load_explicit(&slot[1], memory_order_acquire);
		for (uint32_t i = 2; i < table->kind->copied_words; i++)
			copy[i] = RELAXED(slot[i]);
		atomic_thread_fence(memory_order_acquire);
		if (RELAXED(slot[0]) == copy[0] && (!is_sequenced ||
			(SEEN_SEQUENCE(copy[1]) % 2 == 0 &&
			    SEEN_SEQUENCE(RELAXED(slot[1])) ==
			    SEEN_SEQUENCE(copy[1]))))
			return LEARNED_COPIED;
	}
	return LEARNED_TORN;
}

static enum learned_copied look_once(const struct learned *table,
    const struct learned_key *key, uint64_t *copy, uint32_t *number) {
	const struct learned_kind *kind = table->kind;
	struct index index = learned_index(table, key->shard);
	enum learned_copied result = LEARNED_NOTHING;
	struct index_walk walk;
	uint32_t found;

	index_walk_begin(&index, key->hash, &walk);
	while ((found = index_walk_next(&index, &walk)) != SEGMENT_NO_SLOT) {
		enum learned_copied copied;

		/* whoever writes may just be making the index anew */
		if (found >= table->place->per_shard)
			continue;
		copied = learned_copy(table, key->shard, found, copy);
		if (copied == LEARNED_COPIED && memcmp(copy + kind->key_at,
			key->words, kind->key_words * sizeof(key->words[0])) == 0) {
			*number = found;
			return LEARNED_COPIED;
		}
		/* another one whose tag is the same, or the very one */
		if (copied == LEARNED_TORN)
			result = LEARNED_TORN;
	}
	return result;
}

enum learned_copied learned_look(const struct learned *table,
    const struct learned_key *key, uint64_t *copy, uint32_t *number) {
	const struct shard *shard = &table->shards[key->shard];

	for (unsigned tries = 0; tries < READ_TRIES; tries++) {
		uint32_t before = atomic_load_explicit(&shard->seq,
		    memory_order_acquire);
		enum learned_copied result = look_once(table, key, copy, number);

		if (result != LEARNED_NOTHING)
			return result;
		atomic_thread_fence(memory_order_acquire);
		if (before % 2 == 0 && before == RELAXED(shard->seq))
			return LEARNED_NOTHING;
	}
	return LEARNED_TORN;
}

unsigned learned_each(const struct learned *table, void (*each)(void *context,
    uint32_t shard, uint32_t number, const uint64_t *copy), void *context) {
	unsigned torn = 0;

	for (uint32_t shard = 0; shard < table->place->shards; shard++) {
		uint32_t high = learned_high_water(table, shard);

		for (uint32_t i = 0; i < high; i++) {
			uint64_t copy[LEARNED_WORDS_MAX];

			switch (learned_copy(table, shard, i, copy)) {
			case LEARNED_COPIED:
				each(context, shard, i, copy);
				break;
			case LEARNED_NOTHING:
				break;
			case LEARNED_TORN:
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
	hash = learned_hash(table, words + table->kind->key_at);
	return ((uint32_t)hash & (table->place->shards - 1)) == shard &&
	    table->kind->is_sound(words);
}

static void scrub_shard(const struct learned *table, uint32_t number,
    uint32_t now_ds) {
	static const struct learned_control free_slot;
	struct shard *shard = &table->shards[number];
	uint32_t high = learned_high_water(table, number);

	lock_reset(&shard->lock);
	atomic_store(&shard->seq, 0);
	atomic_store(&shard->high_water, high);
	shard->hand = 0;
	for (uint32_t i = 0; i < high; i++) {
		_Atomic uint64_t *slot = learned_slot(table, number, i);

		if (!learned_load_control(slot).used)
			continue;
		if (!slot_is_ours(table, number, slot))
			learned_store_control(slot, free_slot);
		else if (SEEN_DS(RELAXED(slot[1])) > now_ds)
			atomic_store(&slot[1], SEEN_WORD(
			    SEEN_SEQUENCE(RELAXED(slot[1])), now_ds));
	}
	learned_rebuild(table, number);
}

void learned_scrub(const struct learned *table, uint32_t now_ds) {
	for (uint32_t i = 0; i < table->place->shards; i++)
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
		slot = learned_take(to, &key, 0);
		memcpy(&control, words, sizeof(control));
		words[1] = 0;
		if (slot != NULL) {
			learned_store(slot, words, 1, to->kind->slot_words);
			learned_store_control(slot, control);
		}
	}
	learned_unlock(to, &key);
}

void learned_carry(const struct learned *from, const struct learned *to,
    void (*change)(void *context, uint64_t *words), void *context) {
	for (uint32_t shard = 0; shard < from->place->shards; shard++) {
		uint32_t high = learned_high_water(from, shard);

		for (uint32_t i = 0; i < high; i++) {
			const _Atomic uint64_t *slot = learned_slot(from, shard, i);
			uint64_t words[LEARNED_WORDS_MAX];

			if (!learned_load_control(slot).used)
				continue;
			for (uint32_t w = 0; w < from->kind->slot_words; w++)
				words[w] = RELAXED(slot[w]);
			if (change != NULL)
				change(context, words);
			carry_one(to, words);
		}
	}
}

uint64_t learned_used(const struct learned *table) {
	uint64_t used = 0;

	for (uint32_t i = 0; i < table->place->shards; i++)
		used += RELAXED(table->shards[i].used);
	return used;
}
