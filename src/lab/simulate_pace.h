/* SPDX-License-Identifier: ISC */
/*
 * A site that counts messages per time, in virtual time, and a sender whose pace a law governs:
 * ours (policy/window/pace.h), or one that other mail servers use.  Nothing is random but by the
 * seed.
 */
#ifndef LAB_SIMULATE_PACE_H
#define LAB_SIMULATE_PACE_H

#include <stdbool.h>
#include <stdint.h>

#include "lab/options.h"
#include "lab/pace_laws.h"

#define PACED_CHANGES_MAX	16
#define PACED_LIMIT_MAX		1000000

enum paced_window { PACED_SLIDING, PACED_FIXED };

struct paced_site {
	struct timed_count limits[PACED_CHANGES_MAX];	/* by time, the first at 0 */
	uint32_t limit_count;
	int64_t per_ns;
	enum paced_window window;
	bool counts_attempts;	/* refused ones, too */
	double penalty;		/* share of the limit after a refusal, */
	int64_t forgive_ns;	/* until there was none for so long */
};

/* What the state was at a time, for --every. */
struct paced_state {
	int64_t at_ns, interval_ns, proven_ns;	/* 0: none */
	uint64_t delivered, refused;
};

struct pace_simulation {
	struct paced_rules rules;
	struct paced_site site;
	uint32_t messages;	/* that wait at the start */
	uint32_t arrivals;	/* in an hour, at even distances */
	uint32_t concurrency;
	int64_t service_ns, refusal_ns, report_ns;
	double jitter;
	int64_t retry_ns, retry_most_ns;	/* of a refused message; doubles */
	int64_t for_ns, after_ns;	/* figures begin at after_ns */
	uint64_t seed;
	int64_t every_ns;	/* 0: never; of PACED_SLOW alone */
	void (*show)(void *context, const struct paced_state *state);
	void *context;
};

/* From after_ns on. */
struct pace_simulation_result {
	uint64_t attempts, refused, delivered;
	uint64_t early_refused;		/* before */
	int64_t duration_ns;		/* until all were delivered, or the end */
	double possible;		/* that the site would have taken, of those that there were */
};

void simulate_pace_defaults(struct pace_simulation *simulation);
void simulate_pace(const struct pace_simulation *simulation, enum paced_law law,
    struct pace_simulation_result *result);

#endif
