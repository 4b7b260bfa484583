/* SPDX-License-Identifier: ISC */
/*
 * Is a login stolen?  What its mail does says so: many different recipients that do not exist,
 * and a large part of its deliveries that fail, both at once; or too many networks that it is
 * used from.  A number alone would hold a large list with a few dead addresses, a share alone
 * somebody who mistypes one of two.
 *
 * Results count half after each period of `unknown`.  Pure.
 */
#ifndef POLICY_LIMIT_HEALTH_H
#define POLICY_LIMIT_HEALTH_H

#include "policy/limit/distinct.h"

struct health_limits {
	uint32_t unknown;		/* so many are too many; 0: any number may be */
	uint32_t unknown_period_s;
	uint32_t failed_percent;
	uint32_t of;			/* results, at least */
	uint32_t networks;		/* more are too many; 0: any number may be */
	uint32_t networks_period_s;
};

/* All zero: nothing is known. */
struct health {
	struct distinct unknown, networks;
	double results, failed;		/* as of at_ns */
	int64_t at_ns;
};

/* What holds at a time. */
struct health_counts {
	uint32_t unknown, networks;
	double results, failed;
};

enum health_verdict { HEALTH_GOOD, HEALTH_UNKNOWN, HEALTH_NETWORKS };

/* Final results of so many recipients, all the same; `recipient`: hash of the first. */
void health_note_result(struct health *health, const struct health_limits *limits,
    uint32_t recipients, bool is_failed, bool is_unknown, uint64_t recipient, int64_t now_ns);
/* So many that were accepted were not the final ones. */
void health_take_back(struct health *health, const struct health_limits *limits,
    uint32_t recipients, int64_t now_ns);
void health_note_network(struct health *health, const struct health_limits *limits,
    uint64_t network, int64_t now_ns);

struct health_counts health_count(const struct health *health,
    const struct health_limits *limits, int64_t now_ns);
enum health_verdict health_judge(const struct health_counts *counts,
    const struct health_limits *limits);

#endif
