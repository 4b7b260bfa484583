/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The tables of what was learned, read without locks; adopted and carried.
 * MODEL    A copy is whole when its control word did not change meanwhile, nor, for
 *          kinds that are sequenced, the sequence in word 1.
 * ERRORS   What changes all the time is told as torn, and left to the caller.
 * THREADS  Readers: any, of any process.  The rest: who prepares the segment.
 */
#include "segment/destination/learned.h"

#include <string.h>

#include "segment/file/lock.h"

#define READ_TRIES	100

static void copy_words(const _Atomic uint64_t *slot, uint64_t *copy, uint32_t from,
    uint32_t to) {
	for (uint32_t i = from; i < to; i++)
		copy[i] = RELAXED(slot[i]);
}

/* key: what it is to have, which need not be copied then; NULL: any. */
static enum learned_copied copy_slot(const struct learned *table,
    const _Atomic uint64_t *slot, const uint64_t *key, uint64_t *copy) {
	const struct learned_kind *kind = table->kind;
	uint32_t key_end = kind->key_at + kind->key_words;

	for (unsigned tries = 0; tries < READ_TRIES; tries++) {
		struct learned_control control = learned_load_control(slot);
		bool is_it = true;

		if (!control.used)
			return LEARNED_NOTHING;
		memcpy(copy, &control, sizeof(control));
		copy[1] = atomic_load_explicit(&slot[1], memory_order_acquire);
		copy_words(slot, copy, 2, kind->key_at);
		if (key == NULL)
			copy_words(slot, copy, kind->key_at, key_end);
		else
			is_it = learned_has_key(table, slot, key);
		copy_words(slot, copy, key_end, kind->copied_words);
		atomic_thread_fence(memory_order_acquire);
		if (RELAXED(slot[0]) != copy[0])
			continue;
		if (!is_it)
			return LEARNED_NOTHING;
		if (!kind->is_sequenced || (SEEN_SEQUENCE(copy[1]) % 2 == 0 &&
			SEEN_SEQUENCE(RELAXED(slot[1])) == SEEN_SEQUENCE(copy[1])))
			return LEARNED_COPIED;
	}
	return LEARNED_TORN;
}

enum learned_copied learned_copy(const struct learned *table, uint32_t shard,
    uint32_t number, uint64_t *copy) {
	return copy_slot(table, learned_slot(table, shard, number), NULL, copy);
}

static enum learned_copied look_once(const struct learned *table,
    const struct learned_key *key, uint64_t *copy, uint32_t *number) {
	const struct learned_kind *kind = table->kind;
	enum learned_copied result = LEARNED_NOTHING;
	struct learned_walk walk;
	uint32_t found;

	learned_walk_begin(key->hash, &walk);
	while ((found = learned_walk_next(table, key->shard, key->hash, &walk)) !=
	    SEGMENT_NO_SLOT) {
		enum learned_copied copied = copy_slot(table,
		    learned_slot(table, key->shard, found), key->words, copy);

		if (copied == LEARNED_COPIED) {
			memcpy(copy + kind->key_at, key->words,
			    kind->key_words * sizeof(key->words[0]));
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

bool learned_get(const struct learned *table, const void *key, void *out) {
	uint64_t copy[LEARNED_WORDS_MAX];
	struct learned_key aimed;
	uint32_t number;

	memcpy(aimed.words, key, table->kind->key_words * sizeof(aimed.words[0]));
	learned_aim(table, table->kind->key_words, &aimed);
	if (learned_look(table, &aimed, copy, &number) != LEARNED_COPIED)
		return false;
	memcpy(out, copy, table->kind->copied_words * sizeof(copy[0]));
	return true;
}

bool learned_each(const struct learned *table, struct learned_cursor *at, uint64_t *copy) {
	for (; at->shard < table->place->shards; at->shard++, at->next = 0) {
		uint32_t number;

		while ((number = learned_next(table, at->shard, at->next)) != SEGMENT_NO_SLOT) {
			enum learned_copied copied = learned_copy(table, at->shard, number, copy);

			at->next = number + 1;
			if (copied == LEARNED_COPIED)
				return true;
			at->torn += copied == LEARNED_TORN;
		}
	}
	return false;
}

void learned_mark_all(const struct learned *table, uint64_t offset) {
	for (uint32_t shard = 0; shard < table->place->shards; shard++)
		for (uint32_t i = learned_next(table, shard, 0); i != SEGMENT_NO_SLOT;
		     i = learned_next(table, shard, i + 1))
			learned_mark(table, offset, shard, i);
}

bool learned_next_marked(const struct learned *table, uint64_t offset, enum learned_follow how,
    struct learned_follower *at, uint32_t *shard, uint32_t *number, uint64_t *copy) {
	uint32_t of_shard = learned_set_words(table->place), words = table->place->shards * of_shard;
	_Atomic uint64_t *set = learned_set_word(table, offset, 0, 0);
	enum learned_copied copied;

	for (;;) {
		while (at->bits == 0 && at->word < words) {
			at->bits = RELAXED(set[at->word]);
			if (at->bits != 0 && how == LEARNED_TAKE)
				at->bits = atomic_exchange_explicit(&set[at->word], 0,
				    memory_order_seq_cst);
			at->word++;
		}
		if (at->bits == 0)
			break;
		*shard = (at->word - 1) / of_shard;
		*number = (at->word - 1) % of_shard * 64 + (uint32_t)__builtin_ctzll(at->bits);
		at->bits &= at->bits - 1;
		if (*number >= table->place->per_shard)
			continue;
		copied = learned_copy(table, *shard, *number, copy);
		if (copied == LEARNED_COPIED)
			return true;
		if (copied == LEARNED_TORN && how == LEARNED_TAKE)
			learned_mark(table, offset, *shard, *number);
		at->torn += copied == LEARNED_TORN;
	}
	at->word = 0;
	return false;
}

/* What has no tag cannot be found; but one that stood there would be again, once tags are mended. */
static void free_untagged(const struct learned *table, uint32_t number) {
	static const struct learned_control free_slot;

	for (uint32_t i = 0; i < table->place->per_shard; i++) {
		_Atomic uint64_t *slot = learned_slot(table, number, i);

		if (!learned_has_tag(table, number, i) && learned_load_control(slot).used)
			learned_store_control(slot, free_slot);
	}
}

static void scrub_shard(const struct learned *table, uint32_t number,
    uint32_t now_ds) {
	struct shard *shard = &table->shards[number];
	uint32_t used = 0;

	lock_reset(&shard->lock);
	atomic_store(&shard->seq, 0);
	shard->hand = 0;
	free_untagged(table, number);
	for (uint32_t i = learned_next(table, number, 0); i != SEGMENT_NO_SLOT;
	     i = learned_next(table, number, i + 1)) {
		_Atomic uint64_t *slot = learned_slot(table, number, i);

		if (!learned_retag(table, number, i))
			continue;
		used++;
		if (SEEN_DS(RELAXED(slot[1])) > now_ds)
			atomic_store(&slot[1], SEEN_WORD(
			    SEEN_SEQUENCE(RELAXED(slot[1])), now_ds));
	}
	atomic_store(&shard->used, used);
}

void learned_scrub(const struct learned *table, uint32_t now_ds) {
	for (uint32_t i = 0; i < table->place->shards; i++)
		scrub_shard(table, i, now_ds);
}

static void carry_one(const struct learned *to, uint64_t *words) {
	struct learned_key key;

	memcpy(key.words, words + to->kind->key_at,
	    to->kind->key_words * sizeof(key.words[0]));
	learned_aim(to, to->kind->key_words, &key);
	if (!learned_lock(to, &key, 0))
		return;
	words[1] = 0;
	if (learned_find(to, &key) == NULL)
		(void)learned_add(to, &key, 0, words);
	learned_unlock(to, &key);
}

struct carrying {
	const struct learned_kind *kind;
	const struct segment *from, *to;
	struct learned table;	/* of `to` */
	bool first;		/* those that are, or all others */
};

static void carry_slot(const struct carrying *carrying, const _Atomic uint64_t *slot) {
	const struct learned_kind *kind = carrying->kind;
	uint64_t words[LEARNED_WORDS_MAX];

	if (!learned_load_control(slot).used)
		return;
	copy_words(slot, words, 0, kind->slot_words);
	if ((kind->is_first != NULL && kind->is_first(words)) != carrying->first)
		return;
	if (kind->move != NULL)
		kind->move(carrying->from, carrying->to, words);
	carry_one(&carrying->table, words);
}

void learned_carry(const struct learned_kind *kind, const struct segment *from,
    const struct segment *to) {
	struct learned old = learned_table(from, kind);
	struct carrying carrying = { kind, from, to, learned_table(to, kind), true };

	if (!learned_is_there(&carrying.table))
		return;
	for (unsigned turn = 0; turn < 2; turn++, carrying.first = false)
		for (uint32_t shard = 0; shard < old.place->shards; shard++)
			for (uint32_t i = learned_next(&old, shard, 0); i != SEGMENT_NO_SLOT;
			     i = learned_next(&old, shard, i + 1))
				carry_slot(&carrying, learned_slot(&old, shard, i));
}

uint64_t learned_used(const struct learned *table) {
	uint64_t used = 0;

	for (uint32_t i = 0; i < table->place->shards; i++)
		used += RELAXED(table->shards[i].used);
	return used;
}
