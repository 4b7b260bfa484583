/* SPDX-License-Identifier: ISC */
/* A site, and states of destinations in it, for the tests of segment/destination/states.h. */
#ifndef TESTS_STATES_SITE_H
#define TESTS_STATES_SITE_H

#include "tests/unit/check.h"

#include "base/clock.h"
#include "segment/destination/flights.h"
#include "segment/destination/recipients.h"
#include "tests/unit/own_site.h"
#include "tests/unit/segment/destination/states_forget.h"

#define CLASSES "classes = ( { name = \"all\"; match = [ \"*\" ]; hold_at = 10; } );"
#define MTAS(a, b) "mta = ( { name = \"" a "\"; }, { name = \"" b "\"; " \
	"syslog_name = \"second\"; } );"

static inline enum states_locked lock_it(const char *name, enum states_create create,
    struct state_lock *lock) {
	assert_true(states_aim(site.segment, name, strlen(name), lock));
	return states_lock(lock, clock_now_ns(), create);
}

static inline void store_it(struct state_lock *lock) {
	states_store(lock);
	states_unlock(lock);
}

static inline void begin(const char *name, uint16_t ceiling, const char *reason) {
	struct state_lock lock;

	assert_int_equal(lock_it(name, STATES_CREATE, &lock), STATES_HELD);
	if (!lock.state.begun)
		window_begin(&lock.state.window, &window_defaults);
	lock.state.begun = true;
	lock.state.window.ceiling = ceiling;
	lock.state.window.state = ceiling == 0 ? WINDOW_OPEN : WINDOW_LIMITED;
	lock.reason = reason;
	store_it(&lock);
}

static inline void set_flags(const char *name, uint8_t flags) {
	struct state_lock lock;

	assert_int_equal(lock_it(name, STATES_CREATE, &lock), STATES_HELD);
	lock.state.flags = flags;
	store_it(&lock);
}

static inline bool is_another(void *context, const struct flight_process *process) {
	const struct flight_process *ended = context;

	return process->pid != ended->pid || process->start_ticks != ended->start_ticks;
}

/* All flights of a process that ended: how many. */
static inline unsigned end_process(struct flight_process process) {
	uint32_t next = 0;

	return flights_sweep(site.segment, &next, UINT32_MAX, is_another, &process,
	    clock_now_ns());
}

static inline bool find(const char *name, struct destination_window *out) {
	return states_find(site.segment, name, strlen(name), out);
}

static inline void note(const char *name) {
	struct delivery_seen seen = { .name = name, .name_length = strlen(name) };

	(void)destinations_note(site.segment, &seen, clock_now_ns());
}

#endif
