/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The places of the roles in the header: who lives, since when, and
 *          when nobody did (the gaps that adoption asks about).
 * THREADS  Each role writes its own; a death is noted by its successor or by the keeper,
 *          whichever is first.
 */
#include "segment/file/internal.h"

#include <stdint.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/diag.h"
#include "segment/onlooker.h"
#include "segment/file/stir.h"

#define GAPS_APART_NS	(2 * NS_PER_SECOND)

unsigned segment_role_place(enum role_kind kind, unsigned number) {
	static const unsigned single[ROLE_KINDS] = { [ROLE_KEEPER] = 0, [ROLE_FEED] = 1,
		[ROLE_QUEUE] = 2, [ROLE_METRICS] = 3, [ROLE_CLUSTER] = 4 };
	unsigned place = kind == ROLE_POLICY ? SEGMENT_ROLES_SINGLE + number :
	    kind == ROLE_MILTER ? SEGMENT_ROLES_MAX - 1 - number : single[kind];

	MUST(place < SEGMENT_ROLES_MAX);
	return place;
}

void segment_role_forget(struct segment *segment, unsigned place) {
	struct role_record *role = &segment->header->roles[place];

	atomic_store(&role->kind, ROLE_NONE);
	atomic_store(&role->number, 0);
	atomic_store(&role->pid, 0);
	atomic_store(&role->incarnation, 0);
	atomic_store(&role->heartbeat_ns, 0);
	atomic_store(&role->started_ns, 0);
	atomic_store(&role->generation, 0);
	atomic_store(&role->gap_begin_ns, 0);
	atomic_store(&role->gap_end_ns, 0);
	atomic_store(&role->restarts, 0);
	atomic_store(&role->sandbox, 0);
}

/* From the last heartbeat on.  A gap that has just ended goes on: what began in
 * it may not have been adopted yet. */
static void begin_gap(struct role_record *role) {
	int64_t last_ns = segment_time_ns(&role->heartbeat_ns);
	int64_t end_ns = segment_time_ns(&role->gap_end_ns);

	if (atomic_load(&role->gap_end_ns) == INT64_MAX)
		return;
	if (end_ns == 0 || last_ns - end_ns > GAPS_APART_NS)
		atomic_store(&role->gap_begin_ns, last_ns);
	atomic_store(&role->gap_end_ns, INT64_MAX);
}

bool segment_role_died(struct segment *segment, unsigned place, pid_t pid) {
	struct role_record *role = &segment->header->roles[place];
	uint32_t incarnation = atomic_load(&role->incarnation);
	int32_t expected = pid;

	/* its successor may be doing the same */
	if (pid == 0 || !atomic_compare_exchange_strong(&role->pid, &expected, 0))
		return false;
	segment->begun[place].kind = ROLE_NONE;
	begin_gap(role);
	(void)atomic_compare_exchange_strong(&role->incarnation, &incarnation, 0);
	atomic_fetch_add(&role->restarts, 1);
	segment_stir(segment->header);
	return true;
}

struct role_record *segment_role(const struct segment *segment, unsigned place) {
	return segment->onlooker != NULL ? &segment->onlooker->role :
	    &segment->header->roles[place];
}

static void begin_role(struct segment *segment, enum role_kind kind, unsigned number,
    pid_t pid, int64_t now_ns) {
	unsigned place = segment_role_place(kind, number);
	struct role_record *role = &segment->header->roles[place];
	uint32_t incarnation;

	if (segment_role_died(segment, place, atomic_load(&role->pid)))
		segment_count(segment, COUNTER_ROLE_RESTARTS, 1);
	do {
		incarnation = 1 + atomic_fetch_add(
		    &segment->header->next_incarnation, 1);
	} while ((incarnation & UINT16_MAX) == 0);
	/* an outage goes on until the successor's first heartbeat */
	if (atomic_load(&role->heartbeat_ns) != 0)
		begin_gap(role);
	atomic_store(&role->number, number);
	atomic_store(&role->kind, (uint32_t)kind);
	atomic_store(&role->incarnation, incarnation & UINT16_MAX);
	atomic_store(&role->sandbox, 0);
	atomic_store(&role->started_ns, now_ns);
	atomic_store(&role->heartbeat_ns, now_ns);
	atomic_store(&role->pid, pid);
	segment->begun[place] = (struct role_begun){ (uint32_t)kind, number, pid,
		incarnation & UINT16_MAX };
}

/* Whoever counts by it, or shows it, would take the role for dead, or for another. */
static void restore_role(struct role_record *role, const struct role_begun *begun) {
	if (atomic_load(&role->kind) == begun->kind && atomic_load(&role->number) ==
		begun->number && atomic_load(&role->pid) == begun->pid &&
	    atomic_load(&role->incarnation) == begun->incarnation)
		return;
	atomic_store(&role->kind, begun->kind);
	atomic_store(&role->number, begun->number);
	atomic_store(&role->incarnation, begun->incarnation);
	atomic_store(&role->pid, begun->pid);
}

void segment_role_starting(struct segment *segment, enum role_kind kind, unsigned number,
    int64_t now_ns) {
	/* an onlooker's is the keeper's to write */
	if (segment->onlooker == NULL)
		begin_role(segment, kind, number, getpid(), now_ns);
}

void segment_metrics_started(struct segment *segment, pid_t pid, int64_t started_ns) {
	begin_role(segment, ROLE_METRICS, 0, pid, started_ns);
}

void segment_roles_missed(struct segment *segment) {
	for (unsigned place = 0; place < SEGMENT_ROLES_MAX; place++) {
		struct role_record *role = &segment->header->roles[place];

		if (atomic_load(&role->kind) != ROLE_NONE)
			continue;
		atomic_store(&role->gap_begin_ns, segment->header->created_ns);
		atomic_store(&role->gap_end_ns, INT64_MAX);
	}
}

void segment_count_some(struct segment *segment, enum counter counter, uint64_t amount) {
	segment_count(segment, counter, amount);
}

void segment_beat(struct segment *segment, int64_t now_ns) {
	if (segment->onlooker != NULL)
		return;
	for (unsigned place = 0; place < SEGMENT_ROLES_MAX; place++)
		if (segment->begun[place].kind != ROLE_NONE)
			restore_role(&segment->header->roles[place], &segment->begun[place]);
	atomic_store(&segment->header->heartbeat_ns, now_ns);
}

struct listener_record *segment_listener(const struct segment *segment,
    uint8_t listener, uint16_t port) {
	uint32_t key = UINT32_C(1) << 31 | (uint32_t)listener << 16 | port;
	uint32_t at = (port * 31u + listener) % SEGMENT_LISTENERS;

	for (unsigned tries = 0; tries < SEGMENT_LISTENERS; tries++) {
		struct listener_record *record =
		    &segment->header->listeners[at];
		uint32_t there = 0;

		if (RELAXED(record->key) == key ||
		    atomic_compare_exchange_strong(&record->key, &there, key) || there == key)
			return record;
		at = (at + 1) % SEGMENT_LISTENERS;
	}
	return NULL;
}
