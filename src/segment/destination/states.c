/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The window of each destination, and what is kept beside it.
 * MODEL    Fourteen words of the slot (kept, window and pace) change as one: what they were
 *          is written to the shard's undo record, then its mark, then the
 *          sequence in `seen` becomes odd, the words, the sequence even again, and
 *          last the mark is taken away.  Readers, who take no lock, go by the sequence.
 *          A copy is whole when its sequence is even and stayed (learned_keep.c).
 * ERRORS   Whoever inherits a shard's mutex puts back what an undo record with a
 *          mark says (states_keep.c).
 * THREADS  Any, of any process.
 */
#include "segment/destination/states.h"

#include <string.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "segment/destination/destination_table.h"
#include "segment/file/name.h"
#include "segment/destination/reasons.h"
#include "segment/destination/shared.h"

#define NEW_ORDER	0x24	/* of relays: places 0, 1, 2 */
#define OFFSET_BITS	40
#define OFFSET_MOST	((UINT64_C(1) << OFFSET_BITS) - 1)

const struct learned_kind destination_state_kind = {
	.place_at = offsetof(struct segment_header, destinations),
	.slot_words = sizeof(struct destination) / 8,
	.key_at = offsetof(struct destination, name) / 8,
	.key_words = NAME_WORDS,
	.text_at = 0,
	.copied_words = sizeof(struct destination) / 8,
	.is_sequenced = true,
	.evicted = COUNTER_DESTINATIONS_EVICTED,
	.is_sound = destination_is_sound,
	.worth = destination_worth,
	.fetch = destination_fetch,
	.fetch_beside = states_fetch_bits,
	.repair = destination_repair,
	.forgotten = destination_forgotten,
	.move = states_move,
};

struct learned destination_state_table(const struct segment *segment) {
	return learned_table(segment, &destination_state_kind);
}

static struct state_shard *shard_of(const struct learned *table, uint32_t shard) {
	return (struct state_shard *)(void *)((char *)table->header +
	    table->header->states_offset) + shard;
}

/* --- marks, for those who follow ---------------------------------------------- */

void states_fetch_bits(const struct learned *table, uint32_t shard, uint32_t number) {
	for (unsigned i = 0; i < STATE_SETS; i++)
		__builtin_prefetch(learned_set_word(table, table->header->state_sets[i], shard,
		    number));
}

void states_mark_changed(const struct learned *table, uint32_t shard, uint32_t number) {
	learned_mark(table, table->header->state_sets[STATES_CHANGED], shard, number);
	learned_mark(table, table->header->state_sets[STATES_UNSHARED], shard, number);
	atomic_fetch_add_explicit(&table->header->states_version, 1, memory_order_release);
	FAILPOINT();
}

void states_mark_unkept(const struct learned *table, uint32_t shard, uint32_t number) {
	learned_mark(table, table->header->state_sets[STATES_UNKEPT], shard, number);
	FAILPOINT();
}

void states_mark_timed(const struct learned *table, uint32_t shard, uint32_t number,
    bool is_timed) {
	_Atomic uint64_t *bits = learned_set_word(table, table->header->state_sets[STATES_TIMED],
	    shard, number);
	uint64_t bit = UINT64_C(1) << number % 64;

	/* under the shard's mutex: nobody else changes these */
	STORE(*bits, is_timed ? RELAXED(*bits) | bit : RELAXED(*bits) & ~bit);
	FAILPOINT();
}

/* --- changing ---------------------------------------------------------------- */

bool states_aim(struct segment *segment, const char *name, size_t length,
    struct state_lock *lock) {
	uint32_t count;

	lock->segment = segment;
	lock->table = destination_state_table(segment);
	lock->slot = lock->likely = NULL;
	lock->is_expected = false;
	count = name_fold(name, length, lock->key.words);
	if (count == 0) {
		segment_count(segment, COUNTER_NAMES_UNUSABLE, 1);
		return false;
	}
	learned_aim(&lock->table, count, &lock->key);
	return true;
}

bool states_key(struct segment *segment, const char *name, size_t length,
    struct state_key *out) {
	uint32_t count = name_fold(name, length, out->name);

	if (count == 0) {
		segment_count(segment, COUNTER_NAMES_UNUSABLE, 1);
		return false;
	}
	out->hash = name_hash(&segment->header->key, out->name, count);
	out->place = 0;
	out->is_expected = false;
	return true;
}

static inline bool is_place(const struct learned *table, uint32_t place) {
	return place > 0 && place <= table->place->per_shard;
}

void states_expect(const struct segment *segment, struct state_key keys[], size_t count) {
	struct learned table = destination_state_table(segment);
	uint64_t hashes[STATES_EXPECTED] = { 0 };
	uint32_t places[STATES_EXPECTED];

	if (count > STATES_EXPECTED)
		count = STATES_EXPECTED;
	for (size_t i = 0; i < count; i++) {
		hashes[i] = keys[i].hash;
		places[i] = is_place(&table, keys[i].place) ? keys[i].place : 0;
	}
	learned_expect(&table, hashes, places, count);
	for (size_t i = 0; i < count; i++) {
		keys[i].place = places[i];
		keys[i].is_expected = true;
	}
}

uint32_t states_place(const struct state_lock *lock) {
	return destination_number(&lock->table, lock->key.shard, lock->slot) + 1;
}

static void raise_versions(struct segment_header *header) {
	atomic_fetch_add_explicit(&header->destinations_version, 1,
	    memory_order_release);
	atomic_fetch_add_explicit(&header->states_version, 1,
	    memory_order_release);
}

/* Nothing is known of it but its name. */
static bool make_slot(struct state_lock *lock) {
	struct destination d = { .control = { .used = 1,
		.relay_order = NEW_ORDER },
		.seen = segment_ds(lock->segment, lock->now_ns) };

	memcpy(d.name, lock->key.words, sizeof(d.name));
	lock->slot = learned_add(&lock->table, &lock->key, SEEN_DS(d.seen), &d);
	if (lock->slot == NULL) {
		segment_count(lock->segment, COUNTER_DESTINATIONS_FULL, 1);
		return false;
	}
	raise_versions(lock->segment->header);
	return true;
}

static void state_load(struct state_lock *lock) {
	for (unsigned i = 0; i < STATE_WORDS; i++)
		lock->words[i] = RELAXED(lock->slot[KEPT_AT + i]);
	state_decode(lock->words, RELAXED(lock->slot[1]),
	    lock->segment->header->created_ns, &lock->state);
	if (state_make_sound(&lock->state))
		segment_count(lock->segment, COUNTER_WINDOWS_BEGUN_ANEW, 1);
	lock->reason = NULL;
	lock->event = 0;
	lock->origin = (struct state_origin){ 0, 0 };
	lock->raw_origin = 0;
}

enum states_locked states_lock_slot(struct state_lock *lock, int64_t now_ns,
    enum states_create create) {
	_Atomic uint64_t *likely = lock->likely;

	if (likely == NULL && !lock->is_expected)
		likely = learned_approach(&lock->table, &lock->key);
	lock->now_ns = now_ns;
	if (!learned_lock(&lock->table, &lock->key, now_ns)) {
		segment_count(lock->segment, COUNTER_NOTES_LOST, 1);
		return STATES_BUSY;
	}
	lock->slot = learned_find_at(&lock->table, &lock->key, likely);
	lock->is_new = lock->slot == NULL;
	if (lock->is_new && (create == STATES_KNOWN_ONLY || !make_slot(lock))) {
		learned_unlock(&lock->table, &lock->key);
		return create == STATES_KNOWN_ONLY ? STATES_UNKNOWN : STATES_FULL;
	}
	return STATES_HELD;
}

enum states_locked states_lock(struct state_lock *lock, int64_t now_ns,
    enum states_create create) {
	enum states_locked locked = states_lock_slot(lock, now_ns, create);

	if (locked == STATES_HELD)
		state_load(lock);
	return locked;
}

enum states_locked states_lock_at(struct state_lock *lock, struct segment *segment,
    const struct state_key *key, int64_t now_ns, enum states_create create) {
	enum states_locked locked;

	lock->segment = segment;
	lock->table = destination_state_table(segment);
	lock->slot = lock->likely = NULL;
	lock->is_expected = key->is_expected;
	memcpy(lock->key.words, key->name, sizeof(key->name));
	lock->key.hash = key->hash;
	lock->key.shard = learned_shard(&lock->table, key->hash);
	if (is_place(&lock->table, key->place))
		lock->likely = learned_slot(&lock->table, lock->key.shard,
		    key->place - 1);
	else if (!key->is_expected)
		learned_aim_hash(&lock->table, key->hash, &lock->key);
	locked = states_lock_slot(lock, now_ns, create);
	if (locked == STATES_HELD)
		state_load(lock);
	return locked;
}

/* Which of the logs: two of a host hardly share it. */
static uint64_t log_bits(uint64_t log) {
	uint64_t bits = (log * UINT64_C(0x9e3779b97f4a7c15)) >> OFFSET_BITS;

	return log == 0 ? 0 : bits == 0 ? 1 : bits;
}

bool states_was_applied(const struct state_lock *lock,
    const struct state_origin *origin) {
	uint64_t word = lock->words[KEPT_WORDS - 1];

	return origin->log != 0 && word >> OFFSET_BITS == log_bits(origin->log) &&
	    origin->offset <= (word & OFFSET_MOST) &&
	    origin->offset < OFFSET_MOST;
}

static uint64_t origin_word(const struct state_lock *lock) {
	if (lock->raw_origin != 0)
		return lock->raw_origin;
	if (lock->origin.log == 0 || lock->origin.offset >= OFFSET_MOST)
		return lock->words[KEPT_WORDS - 1];
	return log_bits(lock->origin.log) << OFFSET_BITS | lock->origin.offset;
}

/* What is to stand in the slot. */
static void encode(const struct state_lock *lock, uint32_t reason, uint64_t words[STATE_WORDS]) {
	memcpy(words, lock->words, sizeof(lock->words));
	state_encode(&lock->state, lock->segment->header->created_ns, words);
	/* flights.c alone counts */
	words[FLIGHTS_AT] = (words[FLIGHTS_AT] & ~FLIGHTS_MASK) |
	    (lock->words[FLIGHTS_AT] & FLIGHTS_MASK);
	words[KEPT_WORDS - 1] = origin_word(lock);
	words[1] = (words[1] & ~UINT64_C(0x00ffffff00000000)) |
	    (uint64_t)reason << 32;
}

/* Would a hint be another one? */
static bool change_matters(const uint64_t was[STATE_WORDS],
    const uint64_t now[STATE_WORDS]) {
	struct window a, b;
	struct pace pace_was, pace_now;

	memcpy(&a, was + KEPT_WORDS, sizeof(a));
	memcpy(&b, now + KEPT_WORDS, sizeof(b));
	memcpy(&pace_was, was + KEPT_WORDS + WINDOW_WORDS, sizeof(pace_was));
	memcpy(&pace_now, now + KEPT_WORDS + WINDOW_WORDS, sizeof(pace_now));
	return was[1] >> 32 != now[1] >> 32 || a.state != b.state ||
	    a.concurrency != b.concurrency || a.ceiling != b.ceiling ||
	    a.until_ns != b.until_ns || a.canary_ns != b.canary_ns ||
	    a.canary_out != b.canary_out || RESUMED_OF(was) != RESUMED_OF(now) ||
	    pace_differs(&pace_was, &pace_now);
}

static void set_seen(struct state_lock *lock, uint32_t sequence) {
	/* seq_begin and seq_end of segment/file/internal.h, for half a word */
	if (sequence % 2 == 0)
		atomic_thread_fence(memory_order_release);
	STORE(lock->slot[1], SEEN_WORD(sequence,
	    segment_ds(lock->segment, lock->now_ns)));
	if (sequence % 2 != 0)
		atomic_thread_fence(memory_order_release);
	FAILPOINT();
}

void states_store(struct state_lock *lock) {
	struct state_shard *shard = shard_of(&lock->table, lock->key.shard);
	uint32_t number = destination_number(&lock->table, lock->key.shard, lock->slot);
	uint32_t was = REASON_OF(lock->words), reason = lock->reason == NULL && lock->event == 0 ?
	    was : reasons_put(&lock->table, lock->key.shard, number, was, lock->reason,
	    lock->event);
	/* odd from here on, also where any role wrote another number */
	uint32_t sequence = (SEEN_SEQUENCE(RELAXED(lock->slot[1])) + 1) | 1;
	uint64_t words[STATE_WORDS];

	encode(lock, reason, words);
	if (memcmp(words, lock->words, sizeof(words)) != 0) {
		for (unsigned i = 0; i < STATE_WORDS; i++) {
			STORE(shard->undo[i], lock->words[i]);
			FAILPOINT();
		}
		atomic_store_explicit(&shard->undo_slot, 1 + (uint64_t)number,
		    memory_order_release);
		FAILPOINT();
		set_seen(lock, sequence);
		for (unsigned i = 0; i < STATE_WORDS; i++) {
			if (words[i] == lock->words[i])
				continue;
			STORE(lock->slot[KEPT_AT + i], words[i]);
			FAILPOINT();
		}
		set_seen(lock, sequence + 1);
		states_mark_unkept(&lock->table, lock->key.shard, number);
		if (change_matters(lock->words, words)) {
			states_mark_timed(&lock->table, lock->key.shard, number,
			    states_is_timed(words + KEPT_WORDS));
			states_mark_changed(&lock->table, lock->key.shard, number);
		}
		atomic_store_explicit(&shard->undo_slot, 0, memory_order_release);
		FAILPOINT();
	}
	if (was != reason && was != 0)
		reasons_free(&lock->table, lock->key.shard, number, was);
	memcpy(lock->words, words, sizeof(words));
	lock->reason = NULL;
	lock->event = 0;
}

void states_touch(struct state_lock *lock) {
	states_mark_changed(&lock->table, lock->key.shard,
	    destination_number(&lock->table, lock->key.shard, lock->slot));
}

void states_unlock(struct state_lock *lock) {
	learned_unlock(&lock->table, &lock->key);
}

void states_set_flights(_Atomic uint64_t *slot, uint16_t in_flight,
    uint16_t connected) {
	_Atomic uint64_t *word = &slot[KEPT_AT + FLIGHTS_AT];

	/* one word: whole, whoever reads it */
	STORE(*word, (RELAXED(*word) & ~FLIGHTS_MASK) | in_flight |
	    (uint64_t)connected << 12);
	FAILPOINT();
}

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

	if (!learned_lock(table, key, clock_now_ns()))
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

unsigned states_each(const struct segment *segment,
    void (*each)(void *context, const struct destination_window *),
    void *context) {
	struct learned table = destination_state_table(segment);
	struct learned_cursor at = { .torn = 0 };
	uint64_t copy[LEARNED_WORDS_MAX];

	while (learned_each(&table, &at, copy)) {
		struct destination_window window;

		decode_slot(segment, &table, at.shard, at.next - 1, copy, &window);
		each(context, &window);
	}
	return at.torn;
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
