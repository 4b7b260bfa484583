/* SPDX-License-Identifier: ISC */
/*
 * What people are told of, as the supervisor sees it: in the segment (what became of
 * destinations, the gate, faults, the journal) and in what happens to roles.
 */
#ifndef ROLE_ALERT_WATCH_H
#define ROLE_ALERT_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "segment/decisions.h"
#include "segment/layout.h"

struct child;
struct supervisor;

struct alert_watch {
	struct decisions_cursor events;
	uint64_t faults;		/* as many were told of */
	bool gate_shut;
	bool queue_away;
	uint32_t cluster_ill;		/* 0; or what of the cluster was told of */
	bool journal_ill[SEGMENT_JOURNALS];
};

/* What happened before is not told any more; what is wrong still is. */
void alert_watch_begin(struct supervisor *supervisor);

/* Looks, a bounded part of what there may be. */
void alert_watch_turn(struct supervisor *supervisor, int64_t now_ns);

/* A role died by itself, or as we killed it. */
void alert_watch_died(struct supervisor *supervisor, const struct child *child, int status,
    int64_t now_ns);

#endif
