/* SPDX-License-Identifier: ISC */
/* What destinations.c, states.c and flights.c share of the table of destinations.
 * Where a lock is spoken of it is the shard's mutex. */
#ifndef SEGMENT_DESTINATION_TABLE_H
#define SEGMENT_DESTINATION_TABLE_H

#include "segment/destination/destinations.h"
#include "segment/destination/learned.h"
#include "segment/destination/states.h"

#define KEPT_AT		(offsetof(struct destination, kept) / 8)
#define WINDOW_AT	(offsetof(struct destination, window) / 8)
#define KEPT_WORDS	(sizeof(struct destination_words) / 8)
#define WINDOW_WORDS	(sizeof(struct window) / 8)
#define PACE_AT		(offsetof(struct destination, pace) / 8)
_Static_assert(WINDOW_AT == KEPT_AT + KEPT_WORDS && PACE_AT == WINDOW_AT + WINDOW_WORDS,
    "STATE_WORDS in one piece");

/* What stands in the words of kept. */
#define OK_OF(w)	((uint32_t)(w)[0])
#define FAILED_OF(w)	((uint32_t)((w)[0] >> 32))
#define HELD_OF(w)	((uint32_t)(w)[1])
#define REASON_OF(w)	((uint32_t)((w)[1] >> 32) & 0xffffff)
#define FLAGS_OF(w)	((uint8_t)((w)[1] >> 56))
#define FLIGHTS_AT	2	/* the word of in_flight */
#define FLIGHTS_MOST	0xfffU	/* of in_flight, connected and running: 12 bits each */
#define FLIGHTS_MASK	UINT64_C(0xffffff)	/* in_flight and connected */
#define IN_FLIGHT_OF(w)	((uint16_t)((w)[FLIGHTS_AT] & FLIGHTS_MOST))
#define CONNECTED_OF(w)	((uint16_t)((w)[FLIGHTS_AT] >> 12 & FLIGHTS_MOST))
#define RUNNING_OF(w)	((uint16_t)((w)[FLIGHTS_AT] >> 24 & FLIGHTS_MOST))
#define RESUMED_OF(w)	((uint32_t)((w)[FLIGHTS_AT] >> RESUMED_SHIFT))
#define RESUMED_SHIFT	36
#define RESUMED_MOST	((UINT32_C(1) << 28) - 1)	/* tenths of seconds: 310 days */

/* For the kinds of table. */
bool destination_is_sound(const uint64_t *words);
uint64_t destination_worth(const _Atomic uint64_t *slot, uint32_t now_ds);
void destination_fetch(const _Atomic uint64_t *slot);
void destination_repair(const struct learned *table, uint32_t shard);
void destination_forgotten(const struct learned *table, uint32_t shard,
    uint32_t slot);

/* A destination that is dead, held or the like is worth that much or more. */
#define WORTH_DEAD	(UINT64_C(3) << 32)

/* The second is as destinations.c's own, but with window, and whole. */
extern const struct learned_kind relay_kind, destination_state_kind;
struct learned destination_state_table(const struct segment *segment);

/* learned_number, where the size of a slot is known: no division. */
static inline uint32_t destination_number(const struct learned *table, uint32_t shard,
    const _Atomic uint64_t *slot) {
	return (uint32_t)((size_t)(slot - table->words) /
	    (sizeof(struct destination) / 8)) - shard * table->place->per_shard;
}

/* As states_lock, for states_note alone: the state is not looked at. */
enum states_locked states_lock_slot(struct state_lock *lock, int64_t now_ns,
    enum states_create create);

/* --- the words of kept and window (states_words.c) ----------------------------- */

void state_decode(const uint64_t words[STATE_WORDS], uint64_t seen, int64_t created_ns,
    struct destination_state *out);
/* All but reason and origin. */
void state_encode(const struct destination_state *state, int64_t created_ns,
    uint64_t words[STATE_WORDS]);
/* A window that makes no sense is none.  True: that had to be done. */
bool state_make_sound(struct destination_state *state);

/* Has the bits of the next three fetched. */
void states_fetch_bits(const struct learned *table, uint32_t shard, uint32_t number);

/* Puts it into the sets of STATES_CHANGED and _UNSHARED, and raises the version. */
void states_mark_changed(const struct learned *table, uint32_t shard, uint32_t number);

/* Is it dead, held, or a canary out?  Then it is in the set.  words: of the
 * window. */
bool states_is_timed(const uint64_t *words);
void states_mark_timed(const struct learned *table, uint32_t shard, uint32_t number,
    bool is_timed);

/* After it was changed. */
void states_mark_unkept(const struct learned *table, uint32_t shard, uint32_t number);

/* Counts the deliveries in flight of a slot anew, and those of them that have a
 * connection: under the lock. */
void states_set_flights(_Atomic uint64_t *slot, uint16_t in_flight, uint16_t connected);

/* Flights whose claim was never finished, and in_flight of each slot: under the lock of
 * a shard that was inherited. */
void flights_repair(const struct learned *table, uint32_t shard);

/* --- who prepares the segment, while nobody else has it ---------------------- */

/* What stands beside the slots, and flights: after learned_scrub. */
void states_scrub(struct segment *segment, int64_t now_ns);
void states_move(const struct segment *from, const struct segment *to, uint64_t *words);
/* The same as states_scrub, after learned_carry. */
void states_carry(const struct segment *from, struct segment *to);
void flights_scrub(struct segment *segment);
void flights_carry(const struct segment *from, struct segment *to);

#endif
