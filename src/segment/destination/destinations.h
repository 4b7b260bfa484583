/* SPDX-License-Identifier: ISC */
/*
 * What was seen of outbound deliveries: for each destination (a recipient
 * domain) the relays that took its mail last, and for each relay address the
 * name under which it was reached.  Learned from the MTAs' logs and from
 * Sendmail's questions; a hint for classes and never a route.
 *
 * Names are stored in lower case without a trailing dot, at most
 * SEGMENT_NAME_MAX bytes (longer ones, and those with blanks or control characters,
 * are not remembered: counted).  A full table gives up the entry that was noted
 * longest ago of a few that it looks at (counted).  Writers take the shard's robust
 * mutex (50 ms at most); readers take none.
 */
#ifndef SEGMENT_DESTINATIONS_H
#define SEGMENT_DESTINATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/limit/address.h"
#include "policy/window/pace.h"
#include "policy/window/window.h"
#include "segment/file/layout.h"
#include "segment/destination/shared.h"

struct segment;

#define DESTINATION_RELAYS	3	/* most recent first */

/* One destination, copied whole. */
struct destination_seen {
	char name[SEGMENT_NAME_MAX + 1];
	struct address relays[DESTINATION_RELAYS];
	uint8_t relay_count;
	/* Bit i: a delivery was seen from mta number i of the generation, by the
	 * transport that its lanes clone. */
	uint8_t cloned_by;
	/* Bit i: one was seen from mta i by any other transport. */
	uint8_t other_by;
	int64_t seen_ns;		/* the last time; of segment_ds resolution */
};

/* Flags: what an administrator did.  A destination with any of them is never given
 * up for another. */
#define DESTINATION_HELD	0x01	/* of segment/ alone: its window says so
					 * (window_is_by_hand) */
#define DESTINATION_CEILING	0x02	/* its ceiling was set by hand */
#define DESTINATION_PACE	0x04	/* its pace was: results do not change it */
#define DESTINATION_BY_HAND	0x07	/* all of these; the other bits are of the caller */
#define DESTINATION_FLAGS	0xff

/* All that is known of a destination but its relays. */
struct destination_state {
	/* Without one: all zeros, and begun is false.  Whoever changes it says
	 * window_begin and sets begun. */
	struct window window;
	bool begun;
	struct pace pace;		/* with or without a window */
	uint8_t flags;			/* DESTINATION_* */
	uint16_t in_flight;		/* exact: flights.h counts; not to be changed here */
	uint16_t connected;		/* those of them that have a connection; the same */
	uint16_t running;		/* as rebuilt from a log: whoever reads it tells (4095 at
					 * most) */
	uint32_t ok, failed, held;	/* deliveries: taken; not taken; kept by us */
	int64_t resumed_ns;		/* the last time by hand, rounded up to 0.1 s; 0: never */
	int64_t seen_ns;		/* a delivery, or a change; 0.1 s */
};

/* The same with its name and the last reason, as readers get it. */
struct destination_window {
	char name[SEGMENT_NAME_MAX + 1];
	uint32_t number;		/* of its slot: the same while it is known */
	uint64_t origin;		/* of the event applied last; for segment/ only */
	struct destination_state state;
	uint64_t event;			/* id of what it was held by last (decisions.h); 0: not known */
	uint8_t mta_bits;		/* bit i: a delivery was seen from mta i */
	struct shared_seen shared;	/* what a cluster says of it */
	char reason[SEGMENT_REASON_MAX + 1];	/* "": none, or it had to make room */
};

/* What relays_expect found out of a relay: the hash of its address, and where it is.  Zeros:
 * nothing, or not there. */
struct relay_key {
	uint64_t hash;
	uint32_t place;
};

/* A delivery to `name` went to this relay (unknown address: to none).  `mta` is a
 * number of the generation (8 and above: not known); `cloned`: by the transport
 * that its lanes clone.  Also notes the relay's name (NULL: not known).  False: not
 * all of it was remembered. */
struct delivery_seen {
	const char *name;
	size_t name_length;
	struct address relay;
	struct relay_key relay_key;	/* as relays_expect gave it */
	const char *relay_name;
	size_t relay_name_length;
	uint8_t mta;
	bool cloned;
};
bool destinations_note(struct segment *segment, const struct delivery_seen *seen,
    int64_t now_ns);
/* The name of its relay alone, where both are known. */
bool relays_note(struct segment *segment, const struct delivery_seen *seen,
    int64_t now_ns);

/* The names of these relays are going to be noted or found soon: has them fetched, as
 * states_expect does with destinations.  RELAYS_EXPECTED at most.  keys: room for as many. */
#define RELAYS_EXPECTED	32
void relays_expect(const struct segment *segment, const struct address relays[],
    struct relay_key keys[], size_t count);

/* Copies what is known of a destination; false: nothing, or it changes all the
 * time.  Any thread, no lock. */
bool destinations_find(const struct segment *segment, const char *name,
    size_t name_length, struct destination_seen *out);

/* The name of a relay, in `out` (without it: ""); false: not known. */
bool relays_find(const struct segment *segment, const struct address *address,
    char out[SEGMENT_NAME_MAX + 1]);

/* Every destination, without locks; returns how many changed all the time. */
unsigned destinations_each(const struct segment *segment,
    void (*each)(void *context, const struct destination_seen *), void *context);

/* The same with their windows (states.h), and but for relays. */
unsigned states_each(const struct segment *segment,
    void (*each)(void *context, const struct destination_window *), void *context);

/* The one of this number (destination_window.number); false: it is none, or changes all the
 * time. */
bool states_at(const struct segment *segment, uint32_t number, struct destination_window *out);

/* Rises with each change that a list of destinations made earlier would not
 * show: a new one, one given up, a relay that it did not have, another transport,
 * another name of a relay.  It does not rise when known relays only change their
 * order, as those of many destinations do with each delivery: make the list anew
 * from time to time too. */
uint64_t destinations_version(const struct segment *segment);

/* How many destinations and relays are known. */
void destinations_used(const struct segment *segment, uint64_t *destinations,
    uint64_t *relays);

/* --- for segment/ only ----------------------------------------------------- */

/* Number `mta` means another mail server from now on: nobody saw a delivery of it. */
void destinations_forget_mta(struct segment *segment, unsigned mta,
    int64_t now_ns);

#endif
