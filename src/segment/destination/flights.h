/* SPDX-License-Identifier: ISC */
/*
 * Deliveries in flight, of mail servers that ask before they connect (Sendmail): which
 * process holds a place at which destination, and at what level each message went
 * there.  A process holds its place until it ends, as its connections may be cached.
 *
 *	flight	process x destination: counted in the destination's in_flight
 *	attempt	queue id x destination: level and canary, for whoever reads the log;
 *		known until 60 s after the process went on to another message or ended
 *
 * Places are taken inside a state_lock (states.h), so that a limit is kept exactly.
 * in_flight equals the flights after any death.  There are as many flights as
 * an eighth of state.sessions (256 to 65536); where all are taken, a delivery goes on
 * without (counted, and in no in_flight).
 */
#ifndef SEGMENT_FLIGHTS_H
#define SEGMENT_FLIGHTS_H

#include <stdbool.h>
#include <stdint.h>

#include "segment/destination/states.h"

/* A delivering process: base/process.h's pid and start_ticks. */
struct flight_process {
	int32_t pid;
	uint64_t start_ticks;
};

struct flight_ref {
	uint32_t number;	/* 0: none */
	uint32_t serial;
};

#define FLIGHT_PLACES	4096
struct flight_attempt {
	uint64_t queue_hash;	/* flights_queue_hash; 0: no queue id was told */
	uint16_t level;		/* one more than the others that have a connection there */
	uint16_t rank;		/* places taken there when it took its own, that one too */
	bool canary;
	bool connected;		/* this message has one; set by flights_connect */
	uint16_t place;		/* for flights.c: where the flight is, modulo FLIGHT_PLACES */
};

/* The same in all processes, for one segment's life. */
uint64_t flights_queue_hash(const struct segment *segment, const char *queue_id,
    size_t length);

/* --- inside a state_lock ------------------------------------------------------ */

/* Takes a place for the process: lock->state.in_flight rises at once, here and in the
 * segment (whether states_store follows or not).  False: there is no flight left
 * (counted); *ref is none then. */
bool flights_take(struct state_lock *lock, const struct flight_process *process,
    const struct flight_attempt *attempt, struct flight_ref *ref);

/* The process holds that place already and goes on with another message.  False: the
 * ref is no flight of this process at this destination. */
bool flights_again(struct state_lock *lock, const struct flight_process *process,
    const struct flight_attempt *attempt, const struct flight_ref *ref);

/* How many others have a connection there: those whose flights_connect was told.  `ref`
 * may be none. */
uint32_t flights_others_connected(const struct state_lock *lock,
    const struct flight_process *process, const struct flight_ref *ref);

/* The process has a connection there, and keeps it while it has the place; the attempt is
 * of the level that it had then.  False: as flights_again. */
bool flights_connect(struct state_lock *lock, const struct flight_process *process,
    const struct flight_attempt *attempt, const struct flight_ref *ref);

/* Has the process that place still?  It may have been ended by a result. */
bool flights_holds(const struct state_lock *lock, const struct flight_process *process,
    const struct flight_ref *ref);

/* --- anywhere else ---------------------------------------------------------------- */

/* Gives the place back.  False: it was not that one's any more, or the lock was not to
 * be had (then flights_sweep does it). */
bool flights_end(struct segment *segment, const struct flight_ref *ref,
    int64_t now_ns);

/* The message failed at the destination before there was a connection: the process has
 * none there.  Its place is free, unless it has gone on with another message.  False:
 * there is no such place, or the lock was not to be had. */
bool flights_end_attempt(struct segment *segment, const char *destination, size_t length,
    uint64_t queue_hash, int64_t now_ns);

/* Gives back those of processes that `is_alive` denies, of `looks` places from *next on,
 * which moves behind them (round and round, whatever it was).  It is called without a
 * lock, once for each flight.  Returns how many. */
unsigned flights_sweep(struct segment *segment, uint32_t *next, uint32_t looks,
    bool (*is_alive)(void *context, const struct flight_process *), void *context,
    int64_t now_ns);

/* At what level did this message go to this destination?  False: not known (any
 * more). */
bool flights_find_attempt(const struct segment *segment, const char *destination,
    size_t length, uint64_t queue_hash, int64_t now_ns, struct flight_attempt *out);

struct flight_seen {
	struct flight_ref ref;
	struct flight_process process;
	char destination[SEGMENT_NAME_MAX + 1];
	struct flight_attempt attempt;	/* the last one */
	int64_t started_ns;
};
/* Every flight, without locks; those that end meanwhile may be missed. */
void flights_each(const struct segment *segment,
    void (*each)(void *context, const struct flight_seen *), void *context);

/* The same for those of one process: looks at a few hundred places. */
void flights_each_of(const struct segment *segment,
    const struct flight_process *process,
    void (*each)(void *context, const struct flight_seen *), void *context);

/* How many there are and may be. */
void flights_used(const struct segment *segment, uint32_t *used, uint32_t *size);

#endif
