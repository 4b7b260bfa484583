/* SPDX-License-Identifier: ISC */
/*
 * What lies in the segment of outbound deliveries: slots of destinations, relays and
 * recipients that are held, what stands beside each shard of destinations, and
 * deliveries in flight.  Part of segment/file/layout.h.
 */
#ifndef SEGMENT_LAYOUT_DESTINATIONS_H
#define SEGMENT_LAYOUT_DESTINATIONS_H

#include <stdatomic.h>
#include <stdint.h>

#include "policy/limit/address.h"
#include "policy/window/pace.h"
#include "policy/window/window.h"

#define SEGMENT_SHARDS_MAX	64
#define SEGMENT_NAME_MAX	80
#define SEGMENT_REASON_MAX	160
#define RECIPIENT_MAX		152

/* A destination, a relay, or a recipient: the first word of its slot. */
struct learned_control {
	uint8_t used;			/* 0: the slot is free */
	uint8_t relay_count;		/* destinations only, as all up to `serial` */
	uint8_t relay_order;		/* places, two bits each: most recent first, free ones last */
	uint8_t cloned_by;		/* bit i: seen from mta i, transport that its lanes clone */
	uint8_t other_by;		/* bit i: by another transport of mta i */
	uint8_t reserved;
	uint16_t serial;		/* rises with each change of this word */
};
_Static_assert(sizeof(struct learned_control) == 8, "one word");

#define DESTINATION_PLACES	3	/* of relays */

/* The second word of such a slot: when it was seen (tenths of seconds), and for
 * destinations a number that is odd while their state changes. */
#define SEEN_DS(word)		((uint32_t)(word))
#define SEEN_SEQUENCE(word)	((uint32_t)((word) >> 32))
#define SEEN_WORD(sequence, ds)	((uint64_t)(sequence) << 32 | (uint32_t)(ds))

/* What is kept beside a destination's window, in words that change one by one. */
struct destination_words {
	uint64_t ok_failed;		/* 32 bits each, the first the lowest */
	uint64_t held_reason_flags;	/* 32, 24 (in the shard's part of the arena; 0: none), 8 */
	uint64_t flights_running_resumed; /* in flight, connected, running: 12 each; 28
					 * (tenths of seconds; 0: never) */
	uint64_t origin;		/* 40: offset; 24: of what log (0: none) */
};
_Static_assert(sizeof(struct destination_words) == 32, "four words");

/* What was learned of a destination, in words: as with sessions, the control word is
 * stored last, in one piece, and names all that is to be believed; but of kept, window and
 * pace, which change under the sequence in `seen`.  What a hint needs lies before what a
 * window needs. */
struct destination {
	struct learned_control control;
	uint64_t seen;
	struct address relays[DESTINATION_PLACES];
	char name[SEGMENT_NAME_MAX];	/* lower case, no dot at its end; NULs behind it */
	struct destination_words kept;
	struct window window;		/* zeros: none */
	struct pace pace;
};
_Static_assert(sizeof(struct destination) == 256, "four cache lines");

/* The name under which an address was reached.  128 bytes. */
struct relay {
	struct learned_control control;
	uint64_t seen;
	struct address address;
	char name[SEGMENT_NAME_MAX];
	uint64_t reserved[2];
};
_Static_assert(sizeof(struct relay) == 128, "two cache lines");

/* A recipient that is held. */
struct recipient {
	struct learned_control control;
	uint64_t seen;			/* held since */
	int64_t until_ns;
	uint64_t rule;			/* its number, or RECIPIENT_NO_RULE */
	char address[RECIPIENT_MAX];	/* lower case; NULs behind it */
	char reason[SEGMENT_REASON_MAX];
	uint64_t event;			/* id of what it is held by (decisions.h), or 0 */
};
_Static_assert(sizeof(struct recipient) == 352, "whole words");

/* Beside each shard of destinations. */
#define STATE_WORDS \
	((sizeof(struct destination_words) + sizeof(struct window) + sizeof(struct pace)) / 8)
struct state_shard {
	_Atomic uint64_t undo_slot;	/* 1 + the slot that is being changed; 0: none is */
	_Atomic uint64_t undo[STATE_WORDS]; /* kept, window and pace as they were */
	_Atomic uint32_t reason_hand;	/* where the search for a place goes on */
	uint32_t reserved;
};
_Static_assert(sizeof(struct state_shard) == 128, "two cache lines");

/* A text of the arena. */
#define REASON_WORDS (SEGMENT_REASON_MAX / 8)
struct reason_text {
	_Atomic uint32_t sequence;	/* odd while it is written */
	_Atomic uint32_t owner;		/* 1 + slot in the shard; 0: free */
	_Atomic uint64_t event;		/* id of what the destination is held by (decisions.h) */
	_Atomic uint64_t text[REASON_WORDS]; /* NULs behind it */
};

enum flight_state { FLIGHT_FREE, FLIGHT_CLAIMED, FLIGHT_RUNNING };
/* The first word of a flight: names its destination, and makes it count. */
struct flight_control {
	uint32_t slot;			/* within the shard */
	uint8_t shard;
	uint8_t state;			/* enum flight_state */
	uint16_t serial;		/* rises with each use */
};
_Static_assert(sizeof(struct flight_control) == 8, "one word");
_Static_assert(SEGMENT_SHARDS_MAX <= UINT8_MAX, "a shard fits");

/* A delivery in flight. */
struct flight {
	_Atomic uint64_t control;
	_Atomic uint64_t process;	/* pid */
	_Atomic uint64_t start_ticks;
	_Atomic uint64_t started_ns;
	_Atomic uint64_t queue_hash;
	_Atomic uint64_t attempt;	/* key of its last attempt */
	_Atomic uint64_t level;		/* 16 bits; canary, connected; from bit 32 16 of rank */
	uint64_t reserved;
};
_Static_assert(sizeof(struct flight) == 64, "a cache line");

/* At what level a message went: a place that is written without a lock.  What is
 * half of one and half of another has no right key. */
struct attempt {
	_Atomic uint64_t key;		/* combined with data by exclusive or */
	_Atomic uint64_t data;
};
#define ATTEMPT_PLACES	4		/* a cache line */

#endif
