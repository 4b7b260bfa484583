/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Keeping the states of destinations: which are worth most, what is put back
 *          after a death, what is believed of another file.
 * MODEL    states.c tells the order of stores that is undone here.  Repairs may be
 *          cut off by another death, and are then done again from their start.
 * THREADS  Repairs: whoever inherits a shard's mutex.  The rest: who prepares the segment.
 */
#include "segment/destination/states.h"

#include <string.h>

#include "base/failpoint.h"
#include "segment/destination/destination_table.h"
#include "segment/destination/reasons.h"

#define RECENT_DS	36000	/* an hour */
#define LONG_AGO_NS	(INT64_C(3600) * 10 * DS_NS)

/* --- worth --------------------------------------------------------------------- */

void destination_fetch(const _Atomic uint64_t *slot) {
	__builtin_prefetch(&slot[0]);
	__builtin_prefetch(&slot[KEPT_AT]);
	__builtin_prefetch(&slot[PACE_AT]);
}

static bool has_learned_pace(const _Atomic uint64_t *slot) {
	const struct pace pace = { { RELAXED(slot[PACE_AT]), RELAXED(slot[PACE_AT + 1]) } };

	return pace_is_learned(&pace);
}

static struct window window_of(const _Atomic uint64_t *slot) {
	uint64_t words[WINDOW_WORDS];
	struct window window;

	for (unsigned i = 0; i < WINDOW_WORDS; i++)
		words[i] = RELAXED(slot[WINDOW_AT + i]);
	memcpy(&window, words, sizeof(window));
	return window;
}

/* Rank, then age: never what is held by hand or in flight; dead; with a ceiling or a learned
 * pace of the last hour; with an older one; all others. */
uint64_t destination_worth(const _Atomic uint64_t *slot, uint32_t now_ds) {
	uint64_t kept[KEPT_WORDS] = { 0, RELAXED(slot[KEPT_AT + 1]),
		RELAXED(slot[KEPT_AT + 2]), 0 };
	struct window window = window_of(slot);
	uint32_t seen_ds = SEEN_DS(RELAXED(slot[1]));
	uint64_t rank = 0;

	if ((FLAGS_OF(kept) & DESTINATION_BY_HAND) != 0 || IN_FLIGHT_OF(kept) != 0 ||
	    window.state == WINDOW_HELD)
		return LEARNED_NEVER;
	if (window.state == WINDOW_DEAD)
		return WORTH_DEAD | seen_ds;
	if (window.ceiling != 0 || has_learned_pace(slot))
		rank = seen_ds < now_ds && now_ds - seen_ds > RECENT_DS ? 1 : 2;
	return rank << 32 | seen_ds;
}

void destination_forgotten(const struct learned *table, uint32_t shard,
    uint32_t slot) {
	uint64_t kept[2] = { 0,
		RELAXED(learned_slot(table, shard, slot)[KEPT_AT + 1]) };

	reasons_free(table, shard, slot, REASON_OF(kept));
}

/* --- repair --------------------------------------------------------------------- */

static void set_sequence(_Atomic uint64_t *slot, uint32_t sequence) {
	uint64_t seen = RELAXED(slot[1]);

	atomic_thread_fence(memory_order_release);
	STORE(slot[1], SEEN_WORD(sequence, SEEN_DS(seen)));
	atomic_thread_fence(memory_order_release);
	FAILPOINT();
}

static void mark_time(const struct learned *table, uint32_t shard,
    uint32_t number) {
	struct window window = window_of(learned_slot(table, shard, number));
	uint64_t words[WINDOW_WORDS];

	memcpy(words, &window, sizeof(words));
	states_mark_timed(table, shard, number, states_is_timed(words));
}

/* A change that was not finished never was. */
static void shard_undo(const struct learned *table, uint32_t shard) {
	struct state_shard *state = (struct state_shard *)(void *)(
	    (char *)table->header + table->header->states_offset) + shard;
	uint64_t mark = RELAXED(state->undo_slot);
	_Atomic uint64_t *slot;

	if (mark != 0 && mark <= table->place->per_shard) {
		slot = learned_slot(table, shard, (uint32_t)mark - 1);
		set_sequence(slot, SEEN_SEQUENCE(RELAXED(slot[1])) | 1);
		for (unsigned i = 0; i < STATE_WORDS; i++) {
			STORE(slot[i < KEPT_WORDS ? KEPT_AT + i :
			    WINDOW_AT + i - KEPT_WORDS], RELAXED(state->undo[i]));
			FAILPOINT();
		}
		set_sequence(slot, SEEN_SEQUENCE(RELAXED(slot[1])) + 1);
		mark_time(table, shard, (uint32_t)mark - 1);
		states_mark_unkept(table, shard, (uint32_t)mark - 1);
		states_mark_changed(table, shard, (uint32_t)mark - 1);
	}
	atomic_store_explicit(&state->undo_slot, 0, memory_order_release);
	FAILPOINT();
}

void destination_repair(const struct learned *table, uint32_t shard) {
	shard_undo(table, shard);
	reasons_repair(table, shard);
	flights_repair(table, shard);
}

/* --- another file ----------------------------------------------------------------- */

static bool is_window(const struct window *window) {
	static const struct window none;

	return memcmp(window, &none, sizeof(none)) == 0 ||
	    window_is_sound(window);
}

static void scrub_slot(struct segment *segment, _Atomic uint64_t *slot,
    uint32_t now_ds) {
	struct window window = window_of(slot);
	uint64_t kept[KEPT_WORDS];

	for (unsigned i = 0; i < KEPT_WORDS; i++)
		kept[i] = RELAXED(slot[KEPT_AT + i]);
	if (SEEN_SEQUENCE(RELAXED(slot[1])) % 2 != 0)
		set_sequence(slot, SEEN_SEQUENCE(RELAXED(slot[1])) + 1);
	/* what ran by a log that nobody reads now is not known to run; rounded up, it is
	 * resumed later than now by one at most */
	STORE(slot[KEPT_AT + FLIGHTS_AT], (kept[FLIGHTS_AT] & FLIGHTS_MASK) |
	    (RESUMED_OF(kept) > now_ds + 1 ? (uint64_t)now_ds + 1 :
		(uint64_t)RESUMED_OF(kept)) << RESUMED_SHIFT);
	if (is_window(&window))
		return;
	segment_count(segment, COUNTER_WINDOWS_BEGUN_ANEW, 1);
	for (unsigned i = 0; i < WINDOW_WORDS; i++)
		STORE(slot[WINDOW_AT + i], 0);
}

void states_scrub(struct segment *segment, int64_t now_ns) {
	struct learned table = destination_state_table(segment);
	uint32_t now_ds = segment_ds(segment, now_ns);

	flights_scrub(segment);
	for (uint32_t shard = 0; shard < table.place->shards; shard++) {
		destination_repair(&table, shard);
		reasons_scrub(&table, shard);
		for (uint32_t i = learned_next(&table, shard, 0); i != SEGMENT_NO_SLOT;
		     i = learned_next(&table, shard, i + 1)) {
			_Atomic uint64_t *slot = learned_slot(&table, shard, i);

			if (!learned_load_control(slot).used)
				continue;
			scrub_slot(segment, slot, now_ds);
			mark_time(&table, shard, i);
		}
	}
}

void states_move(const struct segment *from, const struct segment *to, uint64_t *words) {
	int64_t was_ns = from->header->created_ns, is_ns = to->header->created_ns;
	uint64_t *kept = words + KEPT_AT, resumed = RESUMED_OF(kept);

	/* what was done before the segment was made was done as that began */
	if (resumed != 0)
		resumed = was_ns + (int64_t)resumed * DS_NS < is_ns - LONG_AGO_NS ?
		    0 : 1;
	kept[1] &= ~UINT64_C(0x00ffffff00000000);
	kept[FLIGHTS_AT] = resumed << RESUMED_SHIFT;
}

static void carry_reason(void *context, const struct destination_window *window) {
	struct segment *to = context;
	struct state_lock lock;

	if ((window->reason[0] == '\0' && window->event == 0) ||
	    !states_aim(to, window->name, strlen(window->name), &lock) ||
	    states_lock(&lock, to->header->created_ns, STATES_KNOWN_ONLY) !=
		STATES_HELD)
		return;
	lock.reason = window->reason;
	lock.event = window->event;
	states_store(&lock);
	states_unlock(&lock);
}

void states_carry(const struct segment *from, struct segment *to) {
	struct learned table = destination_state_table(to);

	for (uint32_t shard = 0; shard < table.place->shards; shard++) {
		for (uint32_t i = learned_next(&table, shard, 0); i != SEGMENT_NO_SLOT;
		     i = learned_next(&table, shard, i + 1))
			mark_time(&table, shard, i);
	}
	(void)states_each(from, carry_reason, to);
	flights_carry(from, to);
}
