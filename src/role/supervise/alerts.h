/* SPDX-License-Identifier: ISC */
/*
 * Telling people (alert.command): which alerts are told, when, and the commands that tell
 * them.  No shell sees anything; every fact is one argument or one variable, of printable
 * ASCII.  They run as the daemon's user, a few at a time, each killed when its time is over.
 */
#ifndef ROLE_ALERTS_H
#define ROLE_ALERTS_H

#include <stdbool.h>

#include "role/supervise/supervised.h"

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
