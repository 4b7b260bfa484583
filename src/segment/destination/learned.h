/* SPDX-License-Identifier: ISC */
/*
 * The tables of what may be forgotten: destinations, relays, recipients that are held, clients,
 * logins.
 * Sharded, of fixed size, each entry one that may be forgotten.  Where both buckets of a
 * key are full (tags.h), one of them gives up what is worth least.
 *
 * Slots are 64-bit words; word 0 is a struct learned_control, word 1 a SEEN_WORD.
 * Whoever stands inside learned_lock changes them: first the words that the control
 * word in force does not name, then the control word.  So whoever dies leaves the old
 * entry, the new one, or a free slot.  Readers take no lock:
 * the serial of the control word tells them of a change.  For segment/ only.
 */
#ifndef SEGMENT_LEARNED_H
#define SEGMENT_LEARNED_H

#include <stdbool.h>
#include <stdint.h>

#include "segment/file/internal.h"
#include "segment/destination/tags.h"

#define LEARNED_WORDS_MAX	(sizeof(struct account_health) / 8)
#define LEARNED_KEY_MAX		(RECIPIENT_MAX / 8 + 1)
#define LEARNED_NEVER		UINT64_MAX
_Static_assert(sizeof(struct account_health) >= sizeof(struct account) &&
    sizeof(struct account) >= sizeof(struct recipient) &&
    sizeof(struct recipient) >= sizeof(struct destination), "the largest");

#define WORD_OF(type, member)	(offsetof(struct type, member) / 8)

struct learned;

/* What tells one table from the other. */
struct learned_kind {
	size_t place_at;	/* of its struct table_place in the header */
	uint32_t slot_words;
	uint32_t key_at;	/* first word of the key, padded with zeros */
	uint32_t key_words;
	uint32_t text_at;	/* first of them that is text; key_words: none */
	bool is_hashed;		/* the key's first word is a keyed hash of all of it */
	uint32_t copied_words;	/* that readers want: the first ones */
	bool is_sequenced;	/* readers want what changes under SEEN_SEQUENCE, too */
	bool has_spare;		/* a place of each bucket stays free for learned_take_spare */
	enum counter evicted;
	/* What it is worth to keep an entry: whoever has to make room looks at a few.
	 * NULL: the younger, the more.  LEARNED_NEVER: never given up. */
	uint64_t (*worth)(const _Atomic uint64_t *slot, uint32_t now_ds);
	/* Has what `worth` reads fetched. */
	void (*fetch)(const _Atomic uint64_t *slot);
	/* Has what stands beside a slot fetched; or NULL. */
	void (*fetch_beside)(const struct learned *table, uint32_t shard, uint32_t number);
	/* Whoever inherits a mutex calls it when the slots in use have their tags again, and before
	 * what stands beside them is believed; or NULL. */
	void (*repair)(const struct learned *table, uint32_t shard);
	/* An entry was given up. */
	void (*forgotten)(const struct learned *table, uint32_t shard, uint32_t slot);
	/* Does a slot in use say something that our code could have written?  NULL: whatever it says. */
	bool (*is_sound)(const uint64_t *words);
	/* Makes of its words what is true in another segment; NULL: the same. */
	void (*move)(const struct segment *from, const struct segment *to, uint64_t *words);
	/* Is it moved before others, as a smaller table may have no room for all?  NULL: none is. */
	bool (*is_first)(const uint64_t *words);
};

struct learned {
	const struct learned_kind *kind;
	struct segment_header *header;
	const struct table_place *place;
	struct shard *shards;
	struct tag_line *tags;
	_Atomic uint64_t *words;
};

/* A key, its hash, and the shard where it lies. */
struct learned_key {
	uint64_t words[LEARNED_KEY_MAX];
	uint64_t hash;
	uint32_t shard;
};

/* The table of that kind.  Of a segment that has none (accounts) nothing but learned_is_there may
 * be asked. */
static inline struct learned learned_table(const struct segment *segment,
    const struct learned_kind *kind) {
	char *base = (char *)segment->header;
	const struct table_place *place = (const void *)(base + kind->place_at);

	return (struct learned){
		.kind = kind,
		.header = segment->header,
		.place = place,
		.shards = (void *)(base + place->shards_offset),
		.tags = (void *)(base + place->tags_offset),
		.words = (void *)(base + place->slots_offset),
	};
}

static inline bool learned_is_there(const struct learned *table) {
	return table->place->shards != 0;
}

static inline uint32_t learned_shard(const struct learned *table, uint64_t hash) {
	return (uint32_t)hash & (table->place->shards - 1);
}
/* Fills hash and shard from words, of which those behind the first `count` are zeros; has fetched
 * meanwhile what is going to be needed. */
void learned_aim(const struct learned *table, uint32_t count, struct learned_key *key);
/* The same, where the hash is known, as learned_expect wanted it. */
void learned_aim_hash(const struct learned *table, uint64_t hash, struct learned_key *key);
/* Has fetched what readers want of the slot, all its lines at once. */
void learned_fetch(const struct learned *table, const _Atomic uint64_t *slot);
/* Where the entry of hash and shard is, unless another one has the same tag, which has it
 * fetched; NULL: not known.  Without a lock. */
_Atomic uint64_t *learned_approach(const struct learned *table,
    const struct learned_key *key);

/* Has fetched what many keys are going to need, as many at once as the processor can, where each
 * alone would wait for memory twice.  places[i]: 1 + the number of the entry's slot, or 0: not
 * known; those are looked for, and 0 stays where there is none.  LEARNED_EXPECTED at most. */
#define LEARNED_EXPECTED	32
void learned_expect(const struct learned *table, const uint64_t hashes[], uint32_t places[],
    size_t count);

/* --- writers ----------------------------------------------------------------- */

/* False: the shard's mutex was not to be had within 50 ms; nothing is held. */
bool learned_lock(const struct learned *table, const struct learned_key *key,
    int64_t now_ns);
/* Gives each place the tag of its key again: whoever holds the mutex found what does not fit. */
void learned_mend(const struct learned *table, uint32_t shard);
void learned_unlock(const struct learned *table, const struct learned_key *key);

/* Its words, or NULL: not known. */
_Atomic uint64_t *learned_find(const struct learned *table,
    const struct learned_key *key);

/* The same; looks first where learned_approach said. */
_Atomic uint64_t *learned_find_at(const struct learned *table,
    const struct learned_key *key, _Atomic uint64_t *likely);

/* A free slot that has the key's tag, in the bucket of its entry `old`, which is to be given up when the new one
 * is written: whoever dies between leaves both, and one of them stays.  NULL: there is no
 * free place. */
_Atomic uint64_t *learned_take_spare(const struct learned *table,
    const struct learned_key *key, const _Atomic uint64_t *old);

/* Gives up an entry that learned_find found. */
void learned_forget(const struct learned *table, const struct learned_key *key,
    _Atomic uint64_t *slot);

/* Its number within the shard, and back. */
uint32_t learned_number(const struct learned *table, const struct learned_key *key,
    const _Atomic uint64_t *slot);
static inline _Atomic uint64_t *learned_slot(const struct learned *table, uint32_t shard,
    uint32_t number) {
	return table->words +
	    ((size_t)shard * table->place->per_shard + number) * table->kind->slot_words;
}

/* Stores words from ... to - 1 that the control word in force does not name. */
void learned_store(_Atomic uint64_t *slot, const uint64_t *words, uint32_t from,
    uint32_t to);
/* Stores the control word with the next serial. */
void learned_store_control(_Atomic uint64_t *slot, struct learned_control control);
static inline struct learned_control learned_load_control(const _Atomic uint64_t *slot) {
	uint64_t word = atomic_load_explicit(slot, memory_order_acquire);
	struct learned_control control;

	__builtin_memcpy(&control, &word, sizeof(control));
	return control;
}

/* Both: the slot, which is free, says all that `entry` does. */
void learned_store_entry(const struct learned *table, _Atomic uint64_t *slot,
    const void *entry);
/* In a free slot.  NULL: all that it could have are never given up, or some role spoils the
 * shard right now. */
_Atomic uint64_t *learned_add(const struct learned *table, const struct learned_key *key,
    uint32_t now_ds, const void *entry);
/* The same in the place of the key's entry, which is free meanwhile: readers look again. */
void learned_overwrite(const struct learned *table, const struct learned_key *key,
    _Atomic uint64_t *slot, const void *entry);

/* Between these two, readers that find nothing try again. */
void learned_change_begin(const struct learned *table,
    const struct learned_key *key);
void learned_change_end(const struct learned *table, const struct learned_key *key);

/* --- readers: any process, no lock ------------------------------------------- */

enum learned_copied {
	LEARNED_COPIED,
	LEARNED_NOTHING,
	LEARNED_TORN,		/* it changes all the time, or its writer died */
};
enum learned_copied learned_look(const struct learned *table,
    const struct learned_key *key, uint64_t *copy, uint32_t *number);
/* The same of a table whose entries are copied whole, by the words of the key alone.  False: it is
 * not there, or torn. */
bool learned_get(const struct learned *table, const void *key, void *out);
/* Slot `number` of the shard. */
enum learned_copied learned_copy(const struct learned *table, uint32_t shard,
    uint32_t number, uint64_t *copy);

/* Where a walk over entries is: zeros at the begin. */
struct learned_cursor {
	uint32_t shard, next;	/* the entry that was copied last is number next - 1 of the shard */
	unsigned torn;		/* so many changed all the time, so far */
};
/* Copies the next entry of the table; false: there was none any more. */
bool learned_each(const struct learned *table, struct learned_cursor *at, uint64_t *copy);

/* The next slot of the shard from number `from` on whose place has a tag, or SEGMENT_NO_SLOT:
 * those that can hold anything, without a look at the others' memory. */
uint32_t learned_next(const struct learned *table, uint32_t shard, uint32_t from);

/* --- sets of entries ----------------------------------------------------------- */

/* Beside a table may lie sets, each with a bit for each slot, at `offset` of the mapping: so many
 * 64-bit words for a shard. */
static inline uint32_t learned_set_words(const struct table_place *place) {
	return (place->per_shard + 63) / 64;
}
static inline _Atomic uint64_t *learned_set_word(const struct learned *table, uint64_t offset,
    uint32_t shard, uint32_t number) {
	return (_Atomic uint64_t *)(void *)((char *)table->header + offset) +
	    (size_t)shard * learned_set_words(table->place) + number / 64;
}
/* Not looked at first: as a full barrier it is what keeps a change before it. */
static inline void learned_mark(const struct learned *table, uint64_t offset, uint32_t shard,
    uint32_t number) {
	atomic_fetch_or_explicit(learned_set_word(table, offset, shard, number),
	    UINT64_C(1) << number % 64, memory_order_seq_cst);
}
void learned_mark_all(const struct learned *table, uint64_t offset);

/* A copy of the next entry of the set behind *at, which is taken out of it (TAKE); those that change
 * all the time stay, and are counted.  False: there is none, and *at is before the first again. */
struct learned_follower {	/* zeros at the begin */
	uint64_t bits;		/* of the word before, that are left */
	uint32_t word;		/* the next one */
	unsigned torn;		/* so far */
};
enum learned_follow { LEARNED_LOOK, LEARNED_TAKE };
bool learned_next_marked(const struct learned *table, uint64_t offset, enum learned_follow how,
    struct learned_follower *at, uint32_t *shard, uint32_t *number, uint64_t *copy);

/* A walk over the slots whose tags fit a hash. */
struct learned_walk {
	uint32_t fitting;	/* places of the bucket, as bits, that are left to look at */
	uint32_t first;		/* number of its first slot */
	uint32_t choice;	/* of the next bucket */
	uint16_t tag;
};
static inline const struct tag_line *learned_tags(const struct learned *table,
    uint32_t shard, uint32_t bucket) {
	return &table->tags[(size_t)shard * table->place->buckets_per_shard + bucket];
}
/* As bits: a bucket's places that have the tag. */
static inline uint32_t learned_fitting(const struct learned *table, uint32_t shard,
    uint32_t bucket, uint16_t tag) {
	return tags_fitting(learned_tags(table, shard, bucket), tag) &
	    UINT32_MAX >> (TAG_PLACES - table->place->places_per_bucket);
}
static inline bool learned_has_tag(const struct learned *table, uint32_t shard,
    uint32_t number) {
	uint32_t places = table->place->places_per_bucket;

	return (learned_fitting(table, shard, number / places, TAG_FREE) >> number % places &
	    1) == 0;
}

static inline void learned_walk_begin(uint64_t hash, struct learned_walk *walk) {
	*walk = (struct learned_walk){ .tag = tags_of_hash(hash) };
}
/* The next candidate, or SEGMENT_NO_SLOT. */
static inline uint32_t learned_walk_next(const struct learned *table, uint32_t shard,
    uint64_t hash, struct learned_walk *walk) {
	uint32_t at;

	while (walk->fitting == 0) {
		uint32_t bucket;

		if (walk->choice == TAGS_CHOICES)
			return SEGMENT_NO_SLOT;
		bucket = tags_bucket(hash, walk->choice++, table->place->buckets_per_shard);
		walk->first = bucket * table->place->places_per_bucket;
		walk->fitting = learned_fitting(table, shard, bucket, walk->tag);
	}
	at = (uint32_t)__builtin_ctz(walk->fitting);
	walk->fitting &= walk->fitting - 1;
	return walk->first + at;
}

/* For learned_keep.c. */
uint64_t learned_hash(const struct learned *table, const uint64_t *words);
bool learned_has_key(const struct learned *table, const _Atomic uint64_t *slot,
    const uint64_t *key);
/* Gives the slot's place the tag of its key, or frees both: it says nothing that our code could
 * have written there, or another slot has the key. */
bool learned_retag(const struct learned *table, uint32_t shard, uint32_t number);

/* --- who prepares the segment, while nobody else has it ---------------------- */

/* Checks every slot that has a tag, and derives the rest anew.  No entry is younger than now_ds
 * then. */
void learned_scrub(const struct learned *table, uint32_t now_ds);

/* Notes in `to` what `from` knows, as seen when `to` was made; nobody uses either. */
void learned_carry(const struct learned_kind *kind, const struct segment *from,
    const struct segment *to);

/* How many are known. */
uint64_t learned_used(const struct learned *table);

#endif
