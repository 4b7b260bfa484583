/* SPDX-License-Identifier: ISC */
/* A destination is gone, as if it had had to make room, for tests of segment/destination/states.h. */
#ifndef TESTS_STATES_FORGET_H
#define TESTS_STATES_FORGET_H

#include "segment/file/internal.h"
#include "segment/destination/states.h"

/* All but what must stay, the deliveries in flight.  False: it was not known. */
static inline bool forget_destination(struct segment *segment, const char *name, size_t length,
    int64_t now_ns) {
	struct state_lock lock;

	if (!states_aim(segment, name, length, &lock) ||
	    states_lock(&lock, now_ns, STATES_KNOWN_ONLY) != STATES_HELD)
		return false;
	if (lock.state.in_flight == 0) {
		learned_forget(&lock.table, &lock.key, lock.slot);
		atomic_fetch_add(&segment->header->destinations_version, 1);
		atomic_fetch_add(&segment->header->states_version, 1);
	} else {
		lock.state = (struct destination_state){ .begun = false };
		lock.reason = "";
		states_store(&lock);
	}
	states_unlock(&lock);
	return true;
}

#endif
