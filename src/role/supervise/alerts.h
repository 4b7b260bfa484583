/* SPDX-License-Identifier: ISC */
/*
 * Telling people (alert.command): which alerts are told, when, and the commands that tell
 * them.  No shell sees anything; every fact is one argument or one variable, of printable
 * ASCII.  They run as the daemon's user, a few at a time, each killed when its time is over.
 */
#ifndef ROLE_ALERTS_H
#define ROLE_ALERTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/siphash.h"
#include "base/subprocess.h"
#include "config/generation/generation.h"
#include "role/run/alert.h"

#define ALERTS_WAITING_MAX	32
#define ALERTS_OWN_MAX	8	/* more, for those of the supervisor */
#define ALERTS_AT_ONCE_MAX	16	/* as alert.processes allows */
#define ALERTS_REMEMBERED	512

struct child;
struct supervisor;

struct alerts {
	_Atomic uint64_t *counters;	/* the caller's: enum counter */
	struct alert waiting[ALERTS_WAITING_MAX + ALERTS_OWN_MAX];	/* a ring */
	unsigned first, count;
	struct alert_run {
		struct subprocess child;
		enum alert_kind kind;
	} running[ALERTS_AT_ONCE_MAX];
	struct siphash_key key;
	struct alert_told {
		enum alert_kind kind;
		uint64_t hash;		/* of the subject */
		int64_t told_ns;	/* 0: a free place */
	} remembered[ALERTS_REMEMBERED];
	int64_t rate_tat_ns, own_tat_ns;	/* of the keeper's, and of ours */
	uint64_t left_out;		/* since the last one that was told */
};

void alerts_init(struct alerts *alerts, _Atomic uint64_t *counters);

/* Would this one be told now as far as alert.interval goes?  For whoever can wait. */
bool alerts_due(const struct alerts *alerts, const struct generation *generation,
    enum alert_kind kind, const char *subject, int64_t now_ns);

/* One of the keeper's.  It is told as soon as there is a place, or left out and counted.  Nothing waits. */
void alerts_tell(struct alerts *alerts, const struct generation *generation,
    const struct alert *alert, int64_t now_ns);

/* A role died by itself, or as we killed it: no number of the keeper's alerts leaves it out. */
void alerts_tell_death(struct supervisor *supervisor, const struct child *child, int status,
    int64_t now_ns);

/* Starts what waits; never waits. */
void alerts_turn(struct supervisor *supervisor, int64_t now_ns);

#endif
