/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The tables of what was learned.
 * MODEL    A place gets its tag before its slot is written, and loses it after that is
 *          free: so what has no tag is free, and readers never miss an entry that stays.
 * ERRORS   Whoever inherits a shard's mutex, or finds that tags and slots do not fit
 *          together, as any role can write to them, makes the tags from the slots' words,
 *          of which the first is never torn.
 * THREADS  Any, of any process.
 */
#include "segment/destination/learned.h"

#include <string.h>

#include "base/failpoint.h"
#include "segment/file/lock.h"
#include "segment/file/name.h"
#include "segment/file/stir.h"

#define LINE_WORDS	8

uint32_t learned_number(const struct learned *table, const struct learned_key *key,
    const _Atomic uint64_t *slot) {
	return (uint32_t)((size_t)(slot - learned_slot(table, key->shard, 0)) /
	    table->kind->slot_words);
}

/* Behind the first `count` words of the key are zeros. */
static uint64_t hash_of(const struct learned *table, const uint64_t *words, uint32_t count) {
	return table->kind->is_hashed ? words[0] :
	    name_hash(&table->header->key, words, count);
}

uint64_t learned_hash(const struct learned *table, const uint64_t *words) {
	return hash_of(table, words, table->kind->key_words);
}

void learned_aim_hash(const struct learned *table, uint64_t hash, struct learned_key *key) {
	key->hash = hash;
	key->shard = learned_shard(table, hash);
	for (unsigned i = 0; i < TAGS_CHOICES; i++)
		__builtin_prefetch(learned_tags(table, key->shard,
		    tags_bucket(hash, i, table->place->buckets_per_shard)));
}

/* Two of three keys are at home, and the slot then comes while the tags come. */
static void fetch_homes(const struct learned *table, const struct learned_key *key) {
	uint32_t places = table->place->places_per_bucket, home = tags_home(key->hash, places);

	for (unsigned i = 0; i < TAGS_CHOICES; i++) {
		const _Atomic uint64_t *slot = learned_slot(table, key->shard, home + places *
		    tags_bucket(key->hash, i, table->place->buckets_per_shard));

		learned_fetch(table, slot);
	}
}

void learned_aim(const struct learned *table, uint32_t count, struct learned_key *key) {
	learned_aim_hash(table, hash_of(table, key->words, count), key);
	fetch_homes(table, key);
}

void learned_fetch(const struct learned *table, const _Atomic uint64_t *slot) {
	uint32_t last = table->kind->copied_words - 1;

	/* by steps of a line, and the end, which may lie in one more: pairs of words do not, nor
	 * slots that are whole lines */
	for (uint32_t i = 0; i <= last; i += LINE_WORDS)
		__builtin_prefetch(&slot[i]);
	if (last % LINE_WORDS > 1 && table->kind->slot_words % LINE_WORDS != 0)
		__builtin_prefetch(&slot[last]);
}

/* Text that ends within a word is equal when that word is. */
static bool ends_within(uint64_t word) {
	return ((const char *)&word)[sizeof(word) - 1] == '\0';
}

bool learned_has_key(const struct learned *table, const _Atomic uint64_t *slot,
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

_Atomic uint64_t *learned_approach(const struct learned *table,
    const struct learned_key *key) {
	struct learned_walk walk;
	_Atomic uint64_t *slot;
	uint32_t number;

	learned_walk_begin(key->hash, &walk);
	number = learned_walk_next(table, key->shard, key->hash, &walk);
	if (number == SEGMENT_NO_SLOT)
		return NULL;
	slot = learned_slot(table, key->shard, number);
	learned_fetch(table, slot);
	return slot;
}

/* A key's buckets: which places may have it, and which are free, as bits. */
struct spots {
	uint32_t first[TAGS_CHOICES];	/* number of the first slot */
	uint32_t fitting[TAGS_CHOICES], free[TAGS_CHOICES];
};

static void look_at_tags(const struct learned *table, uint32_t shard, uint64_t hash,
    struct spots *out) {
	uint16_t tag = tags_of_hash(hash);

	for (unsigned i = 0; i < TAGS_CHOICES; i++) {
		uint32_t bucket = tags_bucket(hash, i, table->place->buckets_per_shard);

		out->first[i] = bucket * table->place->places_per_bucket;
		out->fitting[i] = learned_fitting(table, shard, bucket, tag);
		out->free[i] = learned_fitting(table, shard, bucket, TAG_FREE);
	}
}

/* Where a new entry is to go: at home in the first bucket or the second, or else into the emptier
 * one.  False: there is no room. */
static bool find_room(const struct learned *table, uint64_t hash, const struct spots *spots,
    uint32_t *number) {
	uint32_t places = table->place->places_per_bucket, home = tags_home(hash, places);
	unsigned best = TAGS_CHOICES;

	for (unsigned i = 0; i < TAGS_CHOICES; i++) {
		uint32_t free = spots->free[i];

		/* a spare one is left */
		if (free == 0 || (table->kind->has_spare && places > 1 && (free & (free - 1)) == 0))
			continue;
		if ((free >> home & 1) != 0) {
			*number = spots->first[i] + home;
			return true;
		}
		if (best == TAGS_CHOICES ||
		    __builtin_popcount(free) > __builtin_popcount(spots->free[best]))
			best = i;
	}
	if (best == TAGS_CHOICES)
		return false;
	*number = spots->first[best] + (uint32_t)__builtin_ctz(spots->free[best]);
	return true;
}

static bool find_place(const struct learned *table, const struct learned_key *key,
    uint32_t *number) {
	struct spots spots;

	look_at_tags(table, key->shard, key->hash, &spots);
	return find_room(table, key->hash, &spots, number);
}

/* Where the entry probably is (*place: 1 + its number), or else is going to be (*place: 0). */
static const _Atomic uint64_t *expected_slot(const struct learned *table, uint64_t hash,
    uint32_t *place) {
	uint32_t shard = learned_shard(table, hash), number = *place - 1;
	struct spots spots;

	if (*place == 0) {
		look_at_tags(table, shard, hash, &spots);
		for (unsigned i = 0; i < TAGS_CHOICES && *place == 0; i++)
			if (spots.fitting[i] != 0)
				*place = 1 + (number = spots.first[i] +
				    (uint32_t)__builtin_ctz(spots.fitting[i]));
		if (*place == 0 && !find_room(table, hash, &spots, &number))
			return NULL;
	}
	if (table->kind->fetch_beside != NULL)
		table->kind->fetch_beside(table, shard, number);
	return learned_slot(table, shard, number);
}

/* What is only prefetched the processor may leave out where it does not have the page's address
 * at hand; and of what is read, in a loop of nothing else, many lines are waited for at once. */
static inline void read_lines(const _Atomic uint64_t *words, uint32_t count) {
	for (uint32_t i = 0; i < count; i += LINE_WORDS)
		(void)RELAXED(words[i]);
	(void)RELAXED(words[count - 1]);
}

/* Step by step for all, so that nothing but the next step waits for a step. */
void learned_expect(const struct learned *table, const uint64_t hashes[],
    uint32_t places[], size_t count) {
	const _Atomic uint64_t *slots[LEARNED_EXPECTED];
	struct learned_key key;

	for (size_t i = 0; i < count; i++) {
		if (places[i] == 0)
			learned_aim_hash(table, hashes[i], &key);
	}
	for (size_t i = 0; i < count; i++)
		slots[i] = expected_slot(table, hashes[i], &places[i]);
	for (size_t i = 0; i < count; i++) {
		if (slots[i] != NULL)
			read_lines(slots[i], table->kind->copied_words);
	}
}

_Atomic uint64_t *learned_find_at(const struct learned *table,
    const struct learned_key *key, _Atomic uint64_t *likely) {
	if (likely != NULL && learned_load_control(likely).used &&
	    learned_has_key(table, likely, key->words))
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
		STORE(slot[i], words[i]);
		FAILPOINT();
	}
}

static uint32_t find_slot(const struct learned *table, uint32_t shard,
    uint64_t hash, const uint64_t *key) {
	struct learned_walk walk;
	uint32_t found;

	learned_walk_begin(hash, &walk);
	while ((found = learned_walk_next(table, shard, hash, &walk)) != SEGMENT_NO_SLOT) {
		const _Atomic uint64_t *slot = learned_slot(table, shard, found);

		learned_fetch(table, slot);
		if (learned_load_control(slot).used && learned_has_key(table, slot, key))
			return found;
	}
	return SEGMENT_NO_SLOT;
}

static uint16_t *tag_at(const struct learned *table, uint32_t shard, uint32_t number) {
	uint32_t places = table->place->places_per_bucket;

	return &table->tags[(size_t)shard * table->place->buckets_per_shard +
	    number / places].tag[number % places];
}

/* Searches read it without the mutex. */
static void set_tag(const struct learned *table, uint32_t shard, uint32_t number,
    uint16_t tag) {
	uint16_t *at = tag_at(table, shard, number);

	/* in a new file nothing is to be written, and no page to be made for it */
	if (__atomic_load_n(at, __ATOMIC_RELAXED) != tag)
		__atomic_store_n(at, tag, __ATOMIC_RELEASE);
	FAILPOINT();
}

uint32_t learned_next(const struct learned *table, uint32_t shard, uint32_t from) {
	uint32_t places = table->place->places_per_bucket;
	uint32_t bucket = from / places, skipped = from % places;

	for (; bucket < table->place->buckets_per_shard; bucket++, skipped = 0) {
		uint32_t taken = ~learned_fitting(table, shard, bucket, TAG_FREE) &
		    UINT32_MAX >> (TAG_PLACES - places) & UINT32_MAX << skipped;

		if (taken != 0)
			return bucket * places + (uint32_t)__builtin_ctz(taken);
	}
	return SEGMENT_NO_SLOT;
}

static bool is_bucket_of(const struct learned *table, uint64_t hash, uint32_t number) {
	uint32_t bucket = number / table->place->places_per_bucket;
	uint32_t buckets = table->place->buckets_per_shard;

	return tags_bucket(hash, 0, buckets) == bucket ||
	    tags_bucket(hash, 1, buckets) == bucket;
}

/* Could our code have written the words of a slot there, with this hash of their key? */
static bool is_sound(const struct learned *table, uint32_t shard, uint32_t number,
    const uint64_t *words, uint64_t hash) {
	const uint64_t *key = words + table->kind->key_at;
	uint32_t other;

	if (learned_shard(table, hash) != shard ||
	    !is_bucket_of(table, hash, number) || (words[0] & 0xff) != 1 ||
	    (table->kind->is_sound != NULL && !table->kind->is_sound(words)))
		return false;
	other = find_slot(table, shard, hash, key);
	return other == SEGMENT_NO_SLOT || other == number;
}

bool learned_retag(const struct learned *table, uint32_t shard, uint32_t number) {
	static const struct learned_control free_slot;
	_Atomic uint64_t *slot = learned_slot(table, shard, number);
	uint64_t words[LEARNED_WORDS_MAX], hash;

	if (!learned_load_control(slot).used) {
		set_tag(table, shard, number, TAG_FREE);
		return false;
	}
	for (uint32_t i = 0; i < table->kind->slot_words; i++)
		words[i] = RELAXED(slot[i]);
	hash = learned_hash(table, words + table->kind->key_at);
	if (!is_sound(table, shard, number, words, hash)) {
		learned_store_control(slot, free_slot);
		set_tag(table, shard, number, TAG_FREE);
		return false;
	}
	set_tag(table, shard, number, tags_of_hash(hash));
	return true;
}

static void retag_all(const struct learned *table, uint32_t number) {
	struct shard *shard = &table->shards[number];
	uint32_t used = 0;

	seq_begin(&shard->seq);
	for (uint32_t i = 0; i < table->place->per_shard; i++)
		used += learned_retag(table, number, i);
	STORE(shard->used, used);
	seq_end(&shard->seq);
}

void learned_mend(const struct learned *table, uint32_t shard) {
	retag_all(table, shard);
	if (table->kind->repair != NULL)
		table->kind->repair(table, shard);
	atomic_fetch_add_explicit(&table->header->counters[COUNTER_REPAIRS], 1,
	    memory_order_relaxed);
	if (table->kind->is_hashed)	/* nobody follows what has no name */
		return;
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
		learned_mend(table, key->shard);
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

static void slot_forget(const struct learned *table, uint32_t shard, uint32_t number) {
	static const struct learned_control free_slot;
	_Atomic uint32_t *used = &table->shards[shard].used;

	learned_store_control(learned_slot(table, shard, number), free_slot);
	set_tag(table, shard, number, TAG_FREE);
	if (RELAXED(*used) == 0)
		learned_mend(table, shard);
	else
		guarded_add(used, UINT32_MAX);
	if (table->kind->forgotten != NULL)
		table->kind->forgotten(table, shard, number);
}

void learned_forget(const struct learned *table, const struct learned_key *key,
    _Atomic uint64_t *slot) {
	slot_forget(table, key->shard, learned_number(table, key, slot));
}

static uint64_t worth_of(const struct learned *table, const _Atomic uint64_t *slot,
    uint32_t now_ds) {
	if (table->kind->worth != NULL)
		return table->kind->worth(slot, now_ds);
	return SEEN_DS(RELAXED(slot[1]));
}

static void fetch_bucket(const struct learned *table, uint32_t shard, uint32_t first) {
	for (uint32_t i = 0; table->kind->fetch != NULL &&
	     i < table->place->places_per_bucket; i++)
		table->kind->fetch(learned_slot(table, shard, first + i));
}

/* The entry of a bucket that is worth least, and what; or SEGMENT_NO_SLOT: none is ever given up. */
static uint32_t least_of_bucket(const struct learned *table, uint32_t shard, uint32_t bucket,
    uint32_t now_ds, uint64_t *least_worth, bool *is_spoiled) {
	uint32_t places = table->place->places_per_bucket, first = bucket * places;
	uint32_t free = learned_fitting(table, shard, bucket, TAG_FREE);
	uint32_t least = SEGMENT_NO_SLOT;

	*least_worth = LEARNED_NEVER;
	fetch_bucket(table, shard, first);
	for (uint32_t i = 0; i < places; i++) {
		const _Atomic uint64_t *slot = learned_slot(table, shard, first + i);
		uint64_t worth;

		if ((free >> i & 1) != 0)
			continue;
		if (!learned_load_control(slot).used) {
			*is_spoiled = true;
			continue;
		}
		worth = worth_of(table, slot, now_ds);
		if (worth < *least_worth) {
			least = first + i;
			*least_worth = worth;
		}
	}
	return least;
}

/* Both buckets are full: gives up the entry of one of them, in turn, that is worth least.  Where
 * none is ever given up it may be one of the other.  Where more are free any role wrote
 * otherwise. */
static bool bucket_evict(const struct learned *table, const struct learned_key *key,
    uint32_t now_ds) {
	uint32_t turn = table->shards[key->shard].hand++, least = SEGMENT_NO_SLOT;
	uint64_t worth = 0;
	bool is_spoiled = false;

	for (uint32_t i = 0; i < TAGS_CHOICES && least == SEGMENT_NO_SLOT; i++) {
		least = least_of_bucket(table, key->shard, tags_bucket(key->hash,
		    (turn + i) % TAGS_CHOICES, table->place->buckets_per_shard), now_ds,
		    &worth, &is_spoiled);
		if (is_spoiled) {
			learned_mend(table, key->shard);
			return true;
		}
	}
	if (least == SEGMENT_NO_SLOT)
		return false;
	slot_forget(table, key->shard, least);
	/* a client at rest is not missed */
	if (worth > 0 || !table->kind->is_hashed)
		atomic_fetch_add_explicit(&table->header->counters[table->kind->evicted],
		    1, memory_order_relaxed);
	return true;
}

/* Gives a free place the key's tag.  NULL: the slot is not free, or the count is wrong. */
static _Atomic uint64_t *take_place(const struct learned *table,
    const struct learned_key *key, uint32_t number) {
	struct shard *shard = &table->shards[key->shard];
	_Atomic uint64_t *slot = learned_slot(table, key->shard, number);

	if (learned_load_control(slot).used ||
	    RELAXED(shard->used) >= table->place->per_shard)
		return NULL;
	set_tag(table, key->shard, number, tags_of_hash(key->hash));
	guarded_add(&shard->used, 1);
	return slot;
}

/* A free slot that has the key's tag; the caller writes it, control word last. */
static _Atomic uint64_t *learned_take(const struct learned *table,
    const struct learned_key *key, uint32_t now_ds) {
	uint32_t number;

	for (unsigned tries = 0; tries < 2; tries++) {
		_Atomic uint64_t *slot;

		if (!find_place(table, key, &number) &&
		    (!bucket_evict(table, key, now_ds) ||
			!find_place(table, key, &number)))
			return NULL;
		slot = take_place(table, key, number);
		if (slot != NULL)
			return slot;
		learned_mend(table, key->shard);
	}
	return NULL;
}

void learned_store_entry(const struct learned *table, _Atomic uint64_t *slot,
    const void *entry) {
	struct learned_control control;
	uint64_t words[LEARNED_WORDS_MAX];

	memcpy(&control, entry, sizeof(control));
	memcpy(words, entry, table->kind->slot_words * sizeof(words[0]));
	learned_store(slot, words, 1, table->kind->slot_words);
	learned_store_control(slot, control);
}

_Atomic uint64_t *learned_add(const struct learned *table, const struct learned_key *key,
    uint32_t now_ds, const void *entry) {
	_Atomic uint64_t *slot = learned_take(table, key, now_ds);

	if (slot != NULL)
		learned_store_entry(table, slot, entry);
	return slot;
}

_Atomic uint64_t *learned_take_spare(const struct learned *table,
    const struct learned_key *key, const _Atomic uint64_t *old) {
	uint32_t places = table->place->places_per_bucket;
	uint32_t bucket = learned_number(table, key, old) / places;
	uint32_t free = learned_fitting(table, key->shard, bucket, TAG_FREE);

	return free == 0 ? NULL : take_place(table, key,
	    bucket * places + (uint32_t)__builtin_ctz(free));
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

void learned_overwrite(const struct learned *table, const struct learned_key *key,
    _Atomic uint64_t *slot, const void *entry) {
	static const struct learned_control free_slot;

	learned_change_begin(table, key);
	learned_store_control(slot, free_slot);
	learned_store_entry(table, slot, entry);
	learned_change_end(table, key);
}
