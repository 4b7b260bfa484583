/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The window of each destination, for those who only look, or follow.
 * MODEL    A copy is whole when its sequence is even and stayed (learned_keep.c).  Who
 *          follows has a bit for each destination that changed.
 * THREADS  Any, of any process.
 */
#include "segment/destination/states.h"

#include <string.h>

#include "base/failpoint.h"
#include "segment/destination/destination_table.h"
#include "segment/file/name.h"
#include "segment/destination/reasons.h"
#include "segment/destination/shared.h"

#define RELAXED(word)	atomic_load_explicit(&(word), memory_order_relaxed)
#define STORE(word, value) \
	atomic_store_explicit(&(word), value, memory_order_relaxed)

/* --- reading ------------------------------------------------------------------ */

/* The text that the copy names: none, where the slot names another one meanwhile. */
static void decode_reason(const struct learned *table, const void *mapping,
    uint32_t shard, uint32_t number, const uint64_t *copy,
    char out[SEGMENT_REASON_MAX + 1], uint64_t *event) {
	const _Atomic uint64_t *slot = learned_slot(table, shard, number);

	reasons_get(table->header, mapping, shard, number,
	    REASON_OF(copy + KEPT_AT), out, event);
	atomic_thread_fence(memory_order_acquire);
	if (RELAXED(slot[0]) != copy[0] ||
	    REASON_OF(copy + KEPT_AT) != (RELAXED(slot[KEPT_AT + 1]) >> 32 &
		0xffffff)) {
		out[0] = '\0';
		*event = 0;
	}
}

/* copy: of the whole slot */
static void decode_slot(const struct learned *table, const void *mapping,
    uint32_t shard, uint32_t number, const uint64_t *copy,
    struct destination_window *out) {
	const uint64_t *words = copy + KEPT_AT;
	struct learned_control control;

	memcpy(out->name, copy + offsetof(struct destination, name) / 8,
	    SEGMENT_NAME_MAX);
	out->name[SEGMENT_NAME_MAX] = '\0';
	out->origin = words[KEPT_WORDS - 1];
	out->number = shard * table->place->per_shard + number;
	state_decode(words, copy[1], table->header->created_ns, &out->state);
	(void)state_make_sound(&out->state);
	decode_reason(table, mapping, shard, number, copy, out->reason, &out->event);
	memcpy(&control, copy, sizeof(control));
	out->mta_bits = (uint8_t)(control.cloned_by | control.other_by);
	out->shared = (struct shared_seen){ .known = false };
	if (shared_is_used_in(table->header, mapping))
		(void)shared_find_in(table->header, mapping, name_hash(&table->header->key,
		    copy + offsetof(struct destination, name) / 8, NAME_WORDS), &out->shared);
}

/* Its writer sleeps or died: whoever waits for the lock sees it whole. */
static enum learned_copied look_again(const struct learned *table,
    const struct learned_key *key, uint64_t *copy, uint32_t *number) {
	enum learned_copied result = LEARNED_NOTHING;
	const _Atomic uint64_t *slot;

	if (!learned_lock(table, key, 0))
		return LEARNED_TORN;
	slot = learned_find(table, key);
	if (slot != NULL) {
		*number = destination_number(table, key->shard, slot);
		result = learned_copy(table, key->shard, *number, copy);
	}
	learned_unlock(table, key);
	return result;
}

bool states_find(const struct segment *segment, const char *name, size_t length,
    struct destination_window *out) {
	struct learned table = destination_state_table(segment);
	uint64_t copy[LEARNED_WORDS_MAX];
	enum learned_copied found;
	struct learned_key key;
	uint32_t number = 0, count;

	count = name_fold(name, length, key.words);
	if (count == 0)
		return false;
	learned_aim(&table, count, &key);
	found = learned_look(&table, &key, copy, &number);
	if (found == LEARNED_TORN)
		found = look_again(&table, &key, copy, &number);
	if (found != LEARNED_COPIED)
		return false;
	decode_slot(&table, segment->header, key.shard, number, copy, out);
	return true;
}

struct visit {
	void (*each)(void *context, const struct destination_window *);
	void *context;
	const struct learned *table;
	const void *mapping;
};

static void visit_one(void *context, uint32_t shard, uint32_t number,
    const uint64_t *copy) {
	const struct visit *visit = context;
	struct destination_window window;

	decode_slot(visit->table, visit->mapping, shard, number, copy, &window);
	visit->each(visit->context, &window);
}

unsigned states_each_in(const struct segment_header *sizes, const void *mapping,
    void (*each)(void *context, const struct destination_window *),
    void *context) {
	struct learned table;
	struct visit visit = { each, context, &table, mapping };

	/* only read through */
	learned_bind(&table, (struct segment_header *)(uintptr_t)sizes,
	    (void *)(uintptr_t)mapping, &sizes->destinations,
	    &destination_state_kind);
	return learned_each(&table, visit_one, &visit);
}

bool states_at_in(const struct segment_header *sizes, const void *mapping, uint32_t number,
    struct destination_window *out) {
	uint32_t shard = number / sizes->destinations.per_shard;
	uint64_t copy[LEARNED_WORDS_MAX];
	struct learned table;

	learned_bind(&table, (struct segment_header *)(uintptr_t)sizes,
	    (void *)(uintptr_t)mapping, &sizes->destinations, &destination_state_kind);
	number %= sizes->destinations.per_shard;
	if (shard >= sizes->destinations.shards ||
	    learned_copy(&table, shard, number, copy) != LEARNED_COPIED)
		return false;
	decode_slot(&table, mapping, shard, number, copy, out);
	return true;
}

unsigned states_each(const struct segment *segment,
    void (*each)(void *context, const struct destination_window *),
    void *context) {
	return states_each_in(segment->header, segment->header, each, context);
}

/* --- following ------------------------------------------------------------------ */

static _Atomic uint64_t *bits_of(const struct learned *table, uint64_t offset,
    uint32_t shard, uint32_t number) {
	return (_Atomic uint64_t *)(void *)((char *)table->header + offset) +
	    (size_t)shard * table->header->bits_per_shard + number / 64;
}

void states_fetch_bits(const struct learned *table, uint32_t shard, uint32_t number) {
	const struct segment_header *header = table->header;

	__builtin_prefetch(bits_of(table, header->changed_offset, shard, number));
	__builtin_prefetch(bits_of(table, header->unshared_offset, shard, number));
	__builtin_prefetch(bits_of(table, header->unkept_offset, shard, number));
	__builtin_prefetch(bits_of(table, header->timed_offset, shard, number));
}

void states_tell(const struct learned *table, uint32_t shard, uint32_t number) {
	struct segment_header *header = table->header;

	atomic_fetch_or_explicit(bits_of(table, header->changed_offset, shard,
	    number), UINT64_C(1) << number % 64, memory_order_release);
	atomic_fetch_or_explicit(bits_of(table, header->unshared_offset, shard,
	    number), UINT64_C(1) << number % 64, memory_order_release);
	atomic_fetch_add_explicit(&header->states_version, 1,
	    memory_order_release);
	FAILPOINT();
}

static void tell_unshared(const struct learned *table, uint32_t shard, uint32_t number) {
	atomic_fetch_or_explicit(bits_of(table, table->header->unshared_offset, shard,
	    number), UINT64_C(1) << number % 64, memory_order_release);
}

/* Not looked at first: as a full barrier it is what keeps the change before it. */
void states_mark_unkept(const struct learned *table, uint32_t shard, uint32_t number) {
	atomic_fetch_or_explicit(bits_of(table, table->header->unkept_offset, shard,
	    number), UINT64_C(1) << number % 64, memory_order_seq_cst);
	FAILPOINT();
}

void states_mark_timed(const struct learned *table, uint32_t shard, uint32_t number,
    bool is_timed) {
	_Atomic uint64_t *bits = bits_of(table, table->header->timed_offset, shard,
	    number);
	uint64_t bit = UINT64_C(1) << number % 64;

	/* under the shard's mutex: nobody else changes these */
	STORE(*bits, is_timed ? RELAXED(*bits) | bit : RELAXED(*bits) & ~bit);
	FAILPOINT();
}

uint64_t states_version(const struct segment *segment) {
	return atomic_load_explicit(&segment->header->states_version,
	    memory_order_acquire);
}

/* The destination of a bit; one that changes all the time is marked again by `again`. */
static enum learned_copied follow(const struct learned *table, const struct visit *visit,
    uint32_t shard, uint32_t number,
    void (*again)(const struct learned *, uint32_t shard, uint32_t number)) {
	uint64_t copy[LEARNED_WORDS_MAX];
	enum learned_copied copied;

	if (number >= table->place->per_shard)
		return LEARNED_NOTHING;
	copied = learned_copy(table, shard, number, copy);
	if (copied == LEARNED_COPIED)
		visit_one((void *)(uintptr_t)visit, shard, number, copy);
	else if (copied == LEARNED_TORN)
		again(table, shard, number);
	return copied;
}

/* Those that a set of bits names, which is empty then. */
static unsigned follow_all(struct segment *segment, uint64_t offset,
    void (*again)(const struct learned *, uint32_t shard, uint32_t number),
    void (*each)(void *context, const struct destination_window *), void *context) {
	struct segment_header *header = segment->header;
	struct learned table = destination_state_table(segment);
	struct visit visit = { each, context, &table, header };
	unsigned told = 0;

	for (uint32_t i = 0; i < table.place->shards * header->bits_per_shard;
	     i++) {
		uint32_t shard = i / header->bits_per_shard;
		uint32_t first = i % header->bits_per_shard * 64;
		_Atomic uint64_t *word = bits_of(&table, offset, shard, first);
		uint64_t bits;

		if (RELAXED(*word) == 0)
			continue;
		bits = atomic_exchange_explicit(word, 0, memory_order_acquire);
		for (; bits != 0; bits &= bits - 1)
			told += follow(&table, &visit, shard,
			    first + (uint32_t)__builtin_ctzll(bits), again) ==
			    LEARNED_COPIED;
	}
	return told;
}

unsigned states_changed(struct segment *segment,
    void (*each)(void *context, const struct destination_window *),
    void *context) {
	return follow_all(segment, segment->header->changed_offset, states_tell, each,
	    context);
}

unsigned states_unshared(struct segment *segment,
    void (*each)(void *context, const struct destination_window *),
    void *context) {
	return follow_all(segment, segment->header->unshared_offset, tell_unshared, each,
	    context);
}

static void mark_all(struct segment *segment, uint64_t offset) {
	struct learned table = destination_state_table(segment);

	for (uint32_t shard = 0; shard < table.place->shards; shard++) {
		for (uint32_t i = learned_next(&table, shard, 0); i != SEGMENT_NO_SLOT;
		     i = learned_next(&table, shard, i + 1))
			atomic_fetch_or(bits_of(&table, offset, shard, i),
			    UINT64_C(1) << i % 64);
	}
}

void states_unshare_all(struct segment *segment) {
	mark_all(segment, segment->header->unshared_offset);
}

bool states_unkept(struct segment *segment, struct states_unkept *at, unsigned most,
    void (*each)(void *context, const struct destination_window *), void *context) {
	struct segment_header *header = segment->header;
	struct learned table = destination_state_table(segment);
	struct visit visit = { each, context, &table, header };
	uint32_t words = table.place->shards * header->bits_per_shard;
	unsigned told = 0;

	for (; at->word < words && told < most; at->word++) {
		uint32_t shard = at->word / header->bits_per_shard;
		uint32_t first = at->word % header->bits_per_shard * 64;
		_Atomic uint64_t *word = bits_of(&table, header->unkept_offset,
		    shard, first);
		uint64_t bits;

		if (RELAXED(*word) == 0)
			continue;
		bits = atomic_exchange_explicit(word, 0, memory_order_seq_cst);
		for (; bits != 0; bits &= bits - 1, told++)
			at->torn += follow(&table, &visit, shard,
			    first + (uint32_t)__builtin_ctzll(bits),
			    states_mark_unkept) == LEARNED_TORN;
	}
	if (at->word < words)
		return false;
	at->word = 0;
	/* until those that somebody was changing are there too */
	if (at->torn > 0) {
		at->torn = 0;
		return false;
	}
	return true;
}

void states_unkeep_all(struct segment *segment) {
	mark_all(segment, segment->header->unkept_offset);
}

unsigned states_each_timed(const struct segment *segment,
    void (*each)(void *context, const struct destination_window *),
    void *context) {
	const struct segment_header *header = segment->header;
	struct learned table = destination_state_table(segment);
	struct visit visit = { each, context, &table, header };
	uint64_t copy[LEARNED_WORDS_MAX];
	unsigned torn = 0;

	for (uint32_t i = 0; i < table.place->shards * header->bits_per_shard;
	     i++) {
		uint32_t shard = i / header->bits_per_shard;
		uint32_t first = i % header->bits_per_shard * 64;
		uint64_t bits = RELAXED(*bits_of(&table, header->timed_offset,
		    shard, first));

		for (; bits != 0; bits &= bits - 1) {
			uint32_t number = first + (uint32_t)__builtin_ctzll(bits);
			enum learned_copied copied = number >=
			    table.place->per_shard ? LEARNED_NOTHING :
			    learned_copy(&table, shard, number, copy);

			torn += copied == LEARNED_TORN;
			if (copied == LEARNED_COPIED &&
			    states_is_timed(copy + WINDOW_AT))
				visit_one(&visit, shard, number, copy);
		}
	}
	return torn;
}
