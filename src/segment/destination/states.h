/* SPDX-License-Identifier: ISC */
/*
 * The window of each destination, and what is kept beside it: counts, deliveries in
 * flight, what was done by hand, the last reason (DESIGN sections 4, 7 and 10).  It
 * stands in the destination's slot; destinations are named as destinations.h says
 * ("example.com", "provider:google", "[127.0.0.1]:10024").
 *
 * A change is a transaction under the shard's robust mutex:
 *
 *	struct state_lock lock;
 *
 *	if (states_aim(segment, name, length, &lock) &&
 *	    states_lock(&lock, now_ns, STATES_CREATE) == STATES_HELD) {
 *		... look at lock.state and change it: nothing but policy/ ...
 *		states_store(&lock);		or not: then nothing happened
 *		states_unlock(&lock);
 *	}
 *
 * Inside: no system call, no log, no second state_lock.  Whoever dies in the
 * middle leaves the old state or the new one.  Readers take no lock.  Times are those
 * of base/clock.h (ns of CLOCK_BOOTTIME).
 */
#ifndef SEGMENT_STATES_H
#define SEGMENT_STATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "segment/destination/destinations.h"
#include "segment/destination/learned.h"

struct segment;

/* Where an event stood: what log (any number that tells one from another, 0: it has
 * no place) and the offset of its line's end. */
struct state_origin {
	uint64_t log;
	uint64_t offset;
};

/* --- changing ---------------------------------------------------------------- */

/* A destination's name as the segment looks for it, worked out once for whoever comes
 * again. */
struct state_key {
	uint64_t name[SEGMENT_NAME_MAX / 8];	/* lower case, zeros behind */
	uint64_t hash;		/* of it: the same in all processes, for one segment's life */
	uint32_t place;		/* where it was last (states_place), 0: not known */
	bool is_expected;	/* states_expect had it fetched */
};

struct state_lock {
	struct segment *segment;
	struct learned table;
	struct learned_key key;
	int64_t now_ns;
	_Atomic uint64_t *likely;	/* where it probably is, or NULL */
	bool is_expected;		/* and that was fetched, if there is any */
	_Atomic uint64_t *slot;
	uint64_t words[STATE_WORDS];	/* what stands in it */
	bool is_new;			/* nothing was known of it but by CREATE */
	struct destination_state state;	/* for the caller to change */
	struct state_origin origin;	/* of the event: stored with it, unless log is 0 */
	uint64_t raw_origin;		/* for segment/: as destination_window has it */
	const char *reason;		/* NULL: as it was; "": none; else the new one */
	uint64_t event;			/* 0: as it was; else the id of what it is held by now */
};

/* Works out where the destination lies and has memory fetched meanwhile; nothing is
 * held.  False: no name that can be remembered (counted). */
bool states_aim(struct segment *segment, const char *name, size_t length,
    struct state_lock *lock);

/* Its key, for states_lock_at.  False: as above. */
bool states_key(struct segment *segment, const char *name, size_t length,
    struct state_key *out);

/* These are going to be locked, noted or found soon: has them fetched, as many at once as
 * the processor can, where each alone would wait for memory twice.  Of use where there
 * are many destinations, for whoever knows the next few lines of a log.  STATES_EXPECTED
 * of them at most are looked at; their keys tell it. */
#define STATES_EXPECTED	LEARNED_EXPECTED
void states_expect(const struct segment *segment, struct state_key keys[], size_t count);

/* Of what is held: for state_key.place. */
uint32_t states_place(const struct state_lock *lock);

enum states_create { STATES_KNOWN_ONLY, STATES_CREATE };
enum states_locked {
	STATES_HELD,
	STATES_UNKNOWN,		/* KNOWN_ONLY, and it is not known */
	STATES_FULL,		/* CREATE, and no room: all that were looked at are held by
				 * hand or have deliveries in flight (counted) */
	STATES_BUSY,		/* not to be had within 50 ms (counted) */
};
/* Held only where it says STATES_HELD; state is filled then, reason is NULL, event and
 * origin are zero.  A window that makes no sense is shown as none (counted: window_begin it). */
enum states_locked states_lock(struct state_lock *lock, int64_t now_ns,
    enum states_create create);
/* The same without aiming at it before. */
enum states_locked states_lock_at(struct state_lock *lock, struct segment *segment,
    const struct state_key *key, int64_t now_ns, enum states_create create);

/* Was an event at or behind this place of the same log applied?  Then this one was, too. */
bool states_was_applied(const struct state_lock *lock,
    const struct state_origin *origin);

/* Inside: what is seen of a delivery there, as destinations_note but for the name of the
 * relay (relays_note).  It stands at once. */
void states_note(struct state_lock *lock, const struct delivery_seen *seen);

/* Stores state, origin, reason and event as one (the event has room where the reason has).
 * Reasons are cut at SEGMENT_REASON_MAX bytes; '?' stands for what is not printable ASCII. */
void states_store(struct state_lock *lock);
void states_unlock(struct state_lock *lock);

/* --- reading: any thread, no lock --------------------------------------------- */

/* False: not known, or it changes all the time.  It waits for the shard's lock only where
 * a copy stays torn, as its writer sleeps or died: so never inside a state_lock. */
bool states_find(const struct segment *segment, const char *name, size_t length,
    struct destination_window *out);

/* --- following changes --------------------------------------------------------- */

/* Rises with each change of a state, a window's size or ceiling, a pace in force, an end of a
 * suspension, a canary, a flag, or a reason: of whatever a hint is made from (not with counts, tokens and
 * deliveries in flight). */
uint64_t states_version(const struct segment *segment);

/* The next destination of the set behind *at (zeros at the begin), as it is by now.  STATES_CHANGED
 * and STATES_UNSHARED: of which that happened since it was taken out last, by whatever process;
 * STATES_UNKEPT: of which anything was stored; STATES_TIMED: which is dead or held, or has a canary
 * out.  False: there is none, and *at is before the first again, but for the count of those that
 * change all the time, which stay.  Whatever was stored before a pass began was found at its end.
 * Each set has one follower on a host, which begins with all of them.  A pass takes about 10 us at
 * 1,000,000 destinations besides what it finds. */
bool states_next(const struct segment *segment, enum state_set set, struct learned_follower *at,
    struct destination_window *out);
/* All of them are in the set again. */
void states_mark_all(struct segment *segment, enum state_set set);

/* What is held tells followers that it changed, though nothing in its own words did: its
 * share.  Inside a state_lock. */
void states_touch(struct state_lock *lock);

#endif
