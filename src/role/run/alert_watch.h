/* SPDX-License-Identifier: ISC */
/*
 * What people want to hear of, as it stands in the segment: what became of destinations, the
 * gate, faults, the queue, the journal, the cluster.  The keeper looks; the supervisor runs
 * the command (role/supervise/alerts.h).
 */
#ifndef ROLE_ALERT_WATCH_H
#define ROLE_ALERT_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "role/run/alert.h"
#include "segment/decision/decisions.h"
#include "segment/file/layout.h"

struct alert_watch {
	/* The caller's, set before alert_watch_begin. */
	bool (*found)(void *context, const struct alert *alert);	/* false: not now */
	void *context;
	struct segment *segment;
	struct decisions_cursor events;	/* .next: what was not looked at yet */
	uint64_t faults;		/* as many were reported */
	int64_t faults_ns;		/* when; 0: never */
	bool gate_shut;
	bool queue_away;
	uint32_t cluster_ill;		/* 0; or what of the cluster was reported */
	bool journal_ill[SEGMENT_JOURNALS];
};

/* `from`: events.next of the watch before it; 0: there was none, and what happened before is
 * left out.  What is wrong still is found. */
void alert_watch_begin(struct alert_watch *watch, struct segment *segment, uint64_t from);

/* Looks, a bounded part of what there may be. */
void alert_watch_turn(struct alert_watch *watch, const struct generation *generation,
    int64_t now_ns);

#endif
