/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The window of each destination, and what is kept beside it.
 * MODEL    Twelve words of the slot (kept and window) change as one: what they were
 *          is written to the shard's undo record, then its mark, then the
 *          sequence in `seen` becomes odd, the words, the sequence even again, and
 *          last the mark is taken away.  Readers go by the sequence.
 * ERRORS   Whoever inherits a shard's mutex puts back what an undo record with a
 *          mark says (states_keep.c).
 * THREADS  Any, of any process.
 */
#include "segment/states.h"

#include <string.h>

#include "base/failpoint.h"
#include "segment/destination_table.h"
#include "segment/name.h"
#include "segment/reasons.h"

#define RELAXED(word)	atomic_load_explicit(&(word), memory_order_relaxed)
#define STORE(word, value) \
	atomic_store_explicit(&(word), value, memory_order_relaxed)

#define DS_NS		INT64_C(100000000)
#define OFFSET_BITS	40
#define OFFSET_MOST	((UINT64_C(1) << OFFSET_BITS) - 1)

_Static_assert(STATE_WORDS == KEPT_WORDS + WINDOW_WORDS, "both");

const struct learned_kind destination_state_kind = {
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
	.repair = destination_repair,
	.forgotten = destination_forgotten,
};

struct learned destination_state_table(const struct segment *segment) {
	struct learned table;

	learned_bind(&table, segment->header, segment->header,
	    &segment->header->destinations, &destination_state_kind);
	return table;
}

static struct state_shard *shard_of(const struct learned *table, uint32_t shard) {
	return (struct state_shard *)(void *)((char *)table->header +
	    table->header->states_offset) + shard;
}

/* --- words ------------------------------------------------------------------- */

/* Word i of kept and window. */
static size_t word_at(unsigned i) {
	return i < KEPT_WORDS ? KEPT_AT + i : WINDOW_AT + i - KEPT_WORDS;
}

static void decode(const uint64_t words[STATE_WORDS], uint64_t seen,
    int64_t created_ns, struct destination_state *out) {
	uint32_t resumed_ds = RESUMED_OF(words);

	memcpy(&out->window, words + KEPT_WORDS, sizeof(out->window));
	out->begun = out->window.concurrency != 0;
	out->flags = FLAGS_OF(words);
	out->in_flight = IN_FLIGHT_OF(words);
	out->connected = CONNECTED_OF(words);
	out->running = RUNNING_OF(words);
	out->ok = OK_OF(words);
	out->failed = FAILED_OF(words);
	out->held = HELD_OF(words);
	out->resumed_ns = resumed_ds == 0 ? 0 :
	    created_ns + resumed_ds * DS_NS;
	out->seen_ns = created_ns + SEEN_DS(seen) * DS_NS;
}

static uint32_t resumed_ds(int64_t resumed_ns, int64_t created_ns) {
	int64_t ds;

	if (resumed_ns <= 0)
		return 0;
	ds = (resumed_ns - created_ns + DS_NS - 1) / DS_NS;
	return ds < 1 ? 1 : ds > RESUMED_MOST ? RESUMED_MOST : (uint32_t)ds;
}

/* All but reason and origin. */
static void encode(const struct destination_state *state, int64_t created_ns,
    uint64_t words[STATE_WORDS]) {
	words[0] = state->ok | (uint64_t)state->failed << 32;
	words[1] = state->held | (words[1] & UINT64_C(0x00ffffff00000000)) |
	    (uint64_t)state->flags << 56;
	words[2] = state->in_flight | (uint64_t)state->connected << 12 |
	    (uint64_t)(state->running < FLIGHTS_MOST ? state->running :
		FLIGHTS_MOST) << 24 |
	    (uint64_t)resumed_ds(state->resumed_ns, created_ns) << RESUMED_SHIFT;
	if (state->begun)
		memcpy(words + KEPT_WORDS, &state->window, sizeof(state->window));
	else
		memset(words + KEPT_WORDS, 0, sizeof(state->window));
}

static bool is_begun(const struct window *window) {
	static const struct window none;

	return memcmp(window, &none, sizeof(none)) != 0;
}

/* A window that makes no sense is none.  True: that had to be done. */
static bool make_sound(struct destination_state *state) {
	if (is_begun(&state->window) && window_is_sound(&state->window))
		return false;
	state->begun = false;
	if (!is_begun(&state->window))
		return false;
	memset(&state->window, 0, sizeof(state->window));
	return true;
}

/* --- changing ---------------------------------------------------------------- */

bool states_aim(struct segment *segment, const char *name, size_t length,
    struct state_lock *lock) {
	lock->segment = segment;
	lock->table = destination_state_table(segment);
	lock->slot = NULL;
	if (!name_fold(name, length, lock->key.words)) {
		segment_count(segment, COUNTER_NAMES_UNUSABLE, 1);
		return false;
	}
	learned_aim(&lock->table, &lock->key);
	return true;
}

static _Atomic uint64_t *bits_of(const struct learned *table, uint64_t offset,
    uint32_t shard, uint32_t number) {
	return (_Atomic uint64_t *)(void *)((char *)table->header + offset) +
	    (size_t)shard * table->header->bits_per_shard + number / 64;
}

void states_tell(const struct learned *table, uint32_t shard, uint32_t number) {
	struct segment_header *header = table->header;

	atomic_fetch_or_explicit(bits_of(table, header->changed_offset, shard,
	    number), UINT64_C(1) << number % 64, memory_order_release);
	atomic_fetch_add_explicit(&header->states_version, 1,
	    memory_order_release);
	FAILPOINT();
}

bool states_is_timed(const uint64_t *words) {
	struct window window;

	memcpy(&window, words, sizeof(window));
	return window.state == WINDOW_DEAD || window.state == WINDOW_HELD ||
	    window.canary_out;
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

static void raise_versions(struct segment_header *header) {
	atomic_fetch_add_explicit(&header->destinations_version, 1,
	    memory_order_release);
	atomic_fetch_add_explicit(&header->states_version, 1,
	    memory_order_release);
}

/* Nothing is known of it but its name. */
static bool make_slot(struct state_lock *lock) {
	struct destination d = { .control = { .used = 1,
		.relay_order = DESTINATION_NEW_ORDER },
		.seen = segment_ds(lock->segment, lock->now_ns) };
	uint64_t words[sizeof(d) / 8];

	lock->slot = learned_take(&lock->table, &lock->key, SEEN_DS(d.seen));
	if (lock->slot == NULL) {
		segment_count(lock->segment, COUNTER_DESTINATIONS_FULL, 1);
		return false;
	}
	memcpy(d.name, lock->key.words, sizeof(d.name));
	memcpy(words, &d, sizeof(d));
	learned_store(lock->slot, words, 1, sizeof(d) / 8);
	learned_store_control(lock->slot, d.control);
	raise_versions(lock->segment->header);
	return true;
}

static void load(struct state_lock *lock) {
	for (unsigned i = 0; i < STATE_WORDS; i++)
		lock->words[i] = RELAXED(lock->slot[word_at(i)]);
	decode(lock->words, RELAXED(lock->slot[1]),
	    lock->segment->header->created_ns, &lock->state);
	if (make_sound(&lock->state))
		segment_count(lock->segment, COUNTER_WINDOWS_BEGUN_ANEW, 1);
	lock->reason = NULL;
	lock->origin = (struct state_origin){ 0, 0 };
	lock->raw_origin = 0;
}

enum states_locked states_lock(struct state_lock *lock, int64_t now_ns,
    enum states_create create) {
	_Atomic uint64_t *likely = learned_approach(&lock->table, &lock->key);

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
	load(lock);
	return STATES_HELD;
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

/* Would a hint be another one? */
static bool matters(const uint64_t was[STATE_WORDS],
    const uint64_t now[STATE_WORDS]) {
	struct window a, b;

	memcpy(&a, was + KEPT_WORDS, sizeof(a));
	memcpy(&b, now + KEPT_WORDS, sizeof(b));
	return was[1] >> 32 != now[1] >> 32 || a.state != b.state ||
	    a.concurrency != b.concurrency || a.ceiling != b.ceiling ||
	    a.until_ns != b.until_ns || a.canary_ns != b.canary_ns ||
	    a.canary_out != b.canary_out || RESUMED_OF(was) != RESUMED_OF(now);
}

static void set_seen(struct state_lock *lock, uint32_t sequence) {
	/* seq_begin and seq_end of segment/internal.h, for half a word */
	if (sequence % 2 == 0)
		atomic_thread_fence(memory_order_release);
	STORE(lock->slot[1], SEEN_WORD(sequence,
	    segment_ds(lock->segment, lock->now_ns)));
	if (sequence % 2 != 0)
		atomic_thread_fence(memory_order_release);
	FAILPOINT();
}

/* All of it, or nothing. */
static void commit(struct state_lock *lock, const uint64_t words[STATE_WORDS]) {
	struct state_shard *shard = shard_of(&lock->table, lock->key.shard);
	uint32_t sequence = SEEN_SEQUENCE(RELAXED(lock->slot[1]));
	uint32_t number = destination_number(&lock->table,
	    lock->key.shard, lock->slot);

	for (unsigned i = 0; i < STATE_WORDS; i++) {
		STORE(shard->undo[i], lock->words[i]);
		FAILPOINT();
	}
	atomic_store_explicit(&shard->undo_slot, 1 + (uint64_t)number,
	    memory_order_release);
	FAILPOINT();
	set_seen(lock, sequence + 1);
	for (unsigned i = 0; i < STATE_WORDS; i++) {
		if (words[i] == lock->words[i])
			continue;
		STORE(lock->slot[word_at(i)], words[i]);
		FAILPOINT();
	}
	set_seen(lock, sequence + 2);
	if (matters(lock->words, words)) {
		states_mark_timed(&lock->table, lock->key.shard, number,
		    states_is_timed(words + KEPT_WORDS));
		states_tell(&lock->table, lock->key.shard, number);
	}
	atomic_store_explicit(&shard->undo_slot, 0, memory_order_release);
	FAILPOINT();
}

void states_store(struct state_lock *lock) {
	uint32_t number = destination_number(&lock->table,
	    lock->key.shard, lock->slot);
	uint32_t reason = REASON_OF(lock->words), was = reason;
	uint64_t words[STATE_WORDS];

	memcpy(words, lock->words, sizeof(words));
	encode(&lock->state, lock->segment->header->created_ns, words);
	/* flights.c alone counts */
	words[FLIGHTS_AT] = (words[FLIGHTS_AT] & ~FLIGHTS_MASK) |
	    (lock->words[FLIGHTS_AT] & FLIGHTS_MASK);
	words[KEPT_WORDS - 1] = origin_word(lock);
	if (lock->reason != NULL)
		reason = reasons_put(&lock->table, lock->key.shard, number, was,
		    lock->reason);
	words[1] = (words[1] & ~UINT64_C(0x00ffffff00000000)) |
	    (uint64_t)reason << 32;
	if (memcmp(words, lock->words, sizeof(words)) != 0)
		commit(lock, words);
	if (was != reason && was != 0)
		reasons_free(&lock->table, lock->key.shard, number, was);
	memcpy(lock->words, words, sizeof(words));
	lock->reason = NULL;
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

bool states_forget(struct segment *segment, const char *name, size_t length,
    int64_t now_ns) {
	struct state_lock lock;

	if (!states_aim(segment, name, length, &lock) ||
	    states_lock(&lock, now_ns, STATES_KNOWN_ONLY) != STATES_HELD)
		return false;
	if (lock.state.in_flight == 0) {
		learned_forget(&lock.table, &lock.key, lock.slot);
		raise_versions(segment->header);
	} else {
		lock.state = (struct destination_state){ .begun = false };
		lock.reason = "";
		states_store(&lock);
	}
	states_unlock(&lock);
	return true;
}

/* --- reading ------------------------------------------------------------------ */

/* The text that the copy names: none, where the slot names another one meanwhile. */
static void decode_reason(const struct learned *table, const void *mapping,
    uint32_t shard, uint32_t number, const uint64_t *copy,
    char out[SEGMENT_REASON_MAX + 1]) {
	const _Atomic uint64_t *slot = learned_slot(table, shard, number);

	reasons_get(table->header, mapping, shard, number,
	    REASON_OF(copy + KEPT_AT), out);
	atomic_thread_fence(memory_order_acquire);
	if (RELAXED(slot[0]) != copy[0] ||
	    REASON_OF(copy + KEPT_AT) != (RELAXED(slot[KEPT_AT + 1]) >> 32 &
		0xffffff))
		out[0] = '\0';
}

/* copy: of the whole slot */
static void decode_slot(const struct learned *table, const void *mapping,
    uint32_t shard, uint32_t number, const uint64_t *copy,
    struct destination_window *out) {
	uint64_t words[STATE_WORDS];

	for (unsigned i = 0; i < STATE_WORDS; i++)
		words[i] = copy[word_at(i)];
	memcpy(out->name, copy + offsetof(struct destination, name) / 8,
	    SEGMENT_NAME_MAX);
	out->name[SEGMENT_NAME_MAX] = '\0';
	out->origin = words[KEPT_WORDS - 1];
	out->number = shard * table->place->per_shard + number;
	decode(words, copy[1], table->header->created_ns, &out->state);
	(void)make_sound(&out->state);
	decode_reason(table, mapping, shard, number, copy, out->reason);
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
	uint32_t number = 0;

	if (!name_fold(name, length, key.words))
		return false;
	learned_aim(&table, &key);
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

unsigned states_each(const struct segment *segment,
    void (*each)(void *context, const struct destination_window *),
    void *context) {
	return states_each_in(segment->header, segment->header, each, context);
}

/* --- following ------------------------------------------------------------------ */

uint64_t states_version(const struct segment *segment) {
	return atomic_load_explicit(&segment->header->states_version,
	    memory_order_acquire);
}

/* One that has bit `bit` of a word. */
static unsigned follow(const struct learned *table, const struct visit *visit,
    uint32_t shard, uint32_t number) {
	uint64_t copy[LEARNED_WORDS_MAX];

	if (number >= table->place->per_shard)
		return 0;
	switch (learned_copy(table, shard, number, copy)) {
	case LEARNED_COPIED:
		visit_one((void *)(uintptr_t)visit, shard, number, copy);
		return 1;
	case LEARNED_TORN:
		states_tell(table, shard, number);
		break;
	case LEARNED_NOTHING:
		break;
	}
	return 0;
}

unsigned states_changed(struct segment *segment,
    void (*each)(void *context, const struct destination_window *),
    void *context) {
	struct segment_header *header = segment->header;
	struct learned table = destination_state_table(segment);
	struct visit visit = { each, context, &table, header };
	unsigned told = 0;

	for (uint32_t i = 0; i < table.place->shards * header->bits_per_shard;
	     i++) {
		uint32_t shard = i / header->bits_per_shard;
		uint32_t first = i % header->bits_per_shard * 64;
		_Atomic uint64_t *word = bits_of(&table, header->changed_offset,
		    shard, first);
		uint64_t bits;

		if (RELAXED(*word) == 0)
			continue;
		bits = atomic_exchange_explicit(word, 0, memory_order_acquire);
		for (; bits != 0; bits &= bits - 1)
			told += follow(&table, &visit, shard,
			    first + (uint32_t)__builtin_ctzll(bits));
	}
	return told;
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
