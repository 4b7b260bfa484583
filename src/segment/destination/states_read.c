/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The window of each destination, for those who only look, or follow.
 * MODEL    A copy is whole when its sequence is even and stayed (learned_keep.c).  Who
 *          follows has a bit for each destination that changed.
 * THREADS  Any, of any process.
 */
#include "segment/destination/states.h"

#include <string.h>

#include "segment/destination/destination_table.h"
#include "segment/file/name.h"
#include "segment/destination/reasons.h"
#include "segment/destination/shared.h"

/* --- reading ------------------------------------------------------------------ */

/* The text that the copy names: none, where the slot names another one meanwhile. */
static void decode_reason(const struct learned *table, uint32_t shard, uint32_t number, const uint64_t *copy,
    char out[SEGMENT_REASON_MAX + 1], uint64_t *event) {
	const _Atomic uint64_t *slot = learned_slot(table, shard, number);

	reasons_get(table->header, shard, number, REASON_OF(copy + KEPT_AT), out, event);
	atomic_thread_fence(memory_order_acquire);
	if (RELAXED(slot[0]) != copy[0] ||
	    REASON_OF(copy + KEPT_AT) != (RELAXED(slot[KEPT_AT + 1]) >> 32 &
		0xffffff)) {
		out[0] = '\0';
		*event = 0;
	}
}

/* copy: of the whole slot */
static void decode_slot(const struct segment *segment, const struct learned *table,
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
	decode_reason(table, shard, number, copy, out->reason, &out->event);
	memcpy(&control, copy, sizeof(control));
	out->mta_bits = (uint8_t)(control.cloned_by | control.other_by);
	out->shared = (struct shared_seen){ .known = false };
	if (shared_is_used(segment))
		(void)shared_find(segment, name_hash(&table->header->key,
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
	decode_slot(segment, &table, key.shard, number, copy, out);
	return true;
}

struct visit {
	void (*each)(void *context, const struct destination_window *);
	void *context;
	const struct segment *segment;
	struct learned table;
};

static void visit_one(void *context, uint32_t shard, uint32_t number,
    const uint64_t *copy) {
	const struct visit *visit = context;
	struct destination_window window;

	decode_slot(visit->segment, &visit->table, shard, number, copy, &window);
	visit->each(visit->context, &window);
}

unsigned states_each(const struct segment *segment,
    void (*each)(void *context, const struct destination_window *),
    void *context) {
	struct visit visit = { each, context, segment, destination_state_table(segment) };

	return learned_each(&visit.table, visit_one, &visit);
}

bool states_at(const struct segment *segment, uint32_t number, struct destination_window *out) {
	struct learned table = destination_state_table(segment);
	uint32_t shard = number / table.place->per_shard;
	uint64_t copy[LEARNED_WORDS_MAX];

	number %= table.place->per_shard;
	if (shard >= table.place->shards ||
	    learned_copy(&table, shard, number, copy) != LEARNED_COPIED)
		return false;
	decode_slot(segment, &table, shard, number, copy, out);
	return true;
}

/* --- following ------------------------------------------------------------------ */

uint64_t states_version(const struct segment *segment) {
	return atomic_load_explicit(&segment->header->states_version,
	    memory_order_acquire);
}

bool states_next(const struct segment *segment, enum state_set set, struct learned_follower *at,
    struct destination_window *out) {
	struct learned table = destination_state_table(segment);
	enum learned_follow how = set == STATES_TIMED ? LEARNED_LOOK : LEARNED_TAKE;
	uint64_t copy[LEARNED_WORDS_MAX];
	uint32_t shard, number;

	do {
		if (!learned_next_marked(&table, segment->header->state_sets[set], how, at, &shard,
		    &number, copy))
			return false;
	} while (set == STATES_TIMED && !states_is_timed(copy + WINDOW_AT));
	decode_slot(segment, &table, shard, number, copy, out);
	return true;
}

void states_mark_all(struct segment *segment, enum state_set set) {
	struct learned table = destination_state_table(segment);

	learned_mark_all(&table, segment->header->state_sets[set]);
}
