/* SPDX-License-Identifier: ISC */
/*
 * A destination in virtual time: one server, one client whose window a law governs, and
 * a queue that never comes back.  Nothing is random but by the seed.
 */
#ifndef LAB_SIMULATE_H
#define LAB_SIMULATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lab/memory.h"
#include "lab/options.h"
#include "policy/window/window.h"

#define SIMULATED_CHANGES_MAX	16

enum simulated_mode { SERVER_REFUSES, SERVER_CONNECT_TIMEOUT, SERVER_GREETING_TIMEOUT,
	SERVER_TARPIT };
enum simulated_levels { LEVELS_KNOWN, LEVELS_LOG, LEVELS_NONE };

struct simulated_changes {
	struct timed_count list[SIMULATED_CHANGES_MAX];	/* by time, the first at 0 */
	uint32_t count;
};

/* What the state was at a time, for --every. */
struct simulated_state {
	int64_t at_ns;
	enum window_state state;
	uint32_t window, ceiling, in_flight;
	uint64_t done, deferred;
};

struct simulation {
	struct window_settings window;
	struct simulated_changes limits;	/* of the server */
	struct simulated_changes ceilings;	/* set by time; 0: forgotten */
	uint64_t deliveries;
	int64_t service_ns, refusal_ns, report_ns;
	int64_t report_every_ns;	/* reports come together, so often; 0: each by itself */
	int64_t obey_ns;	/* the client obeys a window that falls so much later */
	uint32_t arrivals;	/* deliveries that come in a second; 0: all wait at the start */
	uint32_t first_window;	/* until the first report, and obey_ns after it; 0: none */
	int64_t cache_ns;	/* an idle connection is kept so long; 0: none is */
	double jitter, noise;
	uint32_t bad_of;	/* one of so many servers is bad; 0: none */
	enum simulated_mode mode;
	enum simulated_levels levels;
	uint64_t seed;
	int64_t every_ns;	/* a state is kept so often; 0: never */
};

struct simulation_result {
	uint64_t deferred;
	double mean, deviation;	/* in flight just after each start */
	int64_t duration_ns;	/* until the last has ended */
	uint64_t canaries;
	uint32_t most;		/* in flight at a time */
	uint64_t deaths;
	uint32_t window, ceiling;	/* at the end */
	struct memory_rows states;	/* simulated_state; the caller's to free */
};

extern const struct option_table simulate_window_options;	/* of a struct simulation */
void simulate_window_defaults(struct simulation *simulation);

void simulate_window(const struct simulation *simulation, struct simulation_result *result);

#endif
