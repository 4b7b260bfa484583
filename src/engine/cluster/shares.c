/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Shares of limits that hold for all nodes: decided by, looked at, granted, lowered.
 * MODEL    The record of a class holds what is leased and until when; whoever decides reads
 *          both, and the clock, under the class's mutex.  Growth is written down by the server
 *          before it is stored here, shrinking is stored here before the server is told.
 * ERRORS   A lock that cannot be had changes nothing.
 * THREADS  Deciding and looking: any.  shares_lower, shares_grant: the role `cluster`.
 */
#include "engine/cluster/shares.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "engine/internal.h"
#include "policy/limit/limit.h"
#include "segment/file/name.h"
#include "segment/destination/shared.h"

#define POOL(array, n)	atomic_load_explicit(&(array)[n], memory_order_relaxed)

static struct share_pools fixed_of(const struct generation_class *class) {
	return (struct share_pools){ class->fixed_base, class->fixed_extra };
}

static struct share_pools leased_of(const struct class_record *record) {
	return (struct share_pools){ POOL(record->share, 0), POOL(record->share, 1) };
}

static struct share_pools most_of(const struct class_record *record) {
	return (struct share_pools){ POOL(record->share_most, 0),
		POOL(record->share_most, 1) };
}

static uint32_t lesser(uint32_t a, uint32_t b) {
	return a < b ? a : b;
}

/* What may be in use of both. */
static struct share_pools sum_of(struct share_pools fixed, struct share_pools leased,
    struct share_pools most) {
	return (struct share_pools){ fixed.base + lesser(leased.base, most.base),
		fixed.extra + lesser(leased.extra, most.extra) };
}

static struct share_pools whole_of(const struct generation_class *class) {
	return share_pools_of(class->limits.sessions, class->limits.inbound);
}

/* Alone only after a lease: until then the node may yet be heard. */
static enum share_state state_of(const struct generation *generation,
    const struct class_record *record, int64_t now_ns) {
	int64_t until_ns = atomic_load_explicit(&record->share_until_ns,
	    memory_order_relaxed);
	int64_t since_ns;

	if (now_ns < until_ns)
		return SHARE_LEASED;
	if (generation->cluster.when_unreachable != CLUSTER_ALONE)
		return SHARE_ENDED;
	since_ns = segment_time_ns(&record->share_since_ns);
	return since_ns != 0 && now_ns - since_ns >= generation->cluster.lease_ns ?
	    SHARE_ALONE : SHARE_ENDED;
}

/* --- decisions ---------------------------------------------------------- */

enum lease shares_limits(const struct segment *segment, const struct generation *generation,
    const struct generation_class *class, int64_t now_ns, struct limits *out) {
	const struct class_record *record = &segment->records[class->record];
	struct share_pools usable = fixed_of(class);
	enum share_state state = state_of(generation, record, now_ns);

	switch (state) {
	case SHARE_ALONE:
		usable = whole_of(class);
		break;
	case SHARE_LEASED:
		usable = sum_of(usable, leased_of(record), most_of(record));
		break;
	case SHARE_ENDED:
		break;
	}
	share_limits(&class->limits, usable, out);
	return share_lease(state);
}

/* The lowest configuration of all nodes counts, as long as one is told of it. */
static void whole_limits(const struct segment *segment, const struct generation_class *class,
    int64_t now_ns, struct limits *out) {
	const struct class_record *record = &segment->records[class->record];

	*out = class->limits;
	if (!class->shared || now_ns >= atomic_load_explicit(&record->share_until_ns,
	    memory_order_relaxed))
		return;
	out->inbound = lesser(out->inbound, POOL(record->share_whole, 0));
	out->sessions = lesser(out->sessions, POOL(record->share_whole, 1));
}

/* A question's time was read before its locks were had: that may be long ago. */
static int64_t time_now(int64_t question_ns) {
	int64_t now_ns = clock_now_ns();

	return now_ns > question_ns ? now_ns : question_ns;
}

/* The share speaks against it, or the limit itself: says which. */
static void name_share(const struct segment *segment, const struct generation_class *class,
    bool inbound, enum lease lease, int64_t now_ns, struct decision *decision) {
	uint32_t whole = inbound ? class->limits.inbound : class->limits.sessions;
	enum reason full = inbound ? REASON_CLASS_INBOUND : REASON_CLASS_SESSIONS;
	struct limits limits;

	if (decision->reason != full)
		return;
	if (decision->count >= whole) {
		decision->limit = whole;
		return;
	}
	whole_limits(segment, class, now_ns, &limits);
	decision->reason = REASON_CLASS_SHARE;
	decision->lease = lease;
	decision->whole = inbound ? limits.inbound : limits.sessions;
}

struct decision shares_look_inbound(const struct segment *segment,
    const struct generation *generation, const struct generation_class *class,
    const struct limit_state *state, int64_t now_ns) {
	struct decision decision;
	struct limits limits;
	enum lease lease;

	lease = shares_limits(segment, generation, class, time_now(now_ns), &limits);
	decision = limit_inbound(&limits, state, now_ns);
	name_share(segment, class, true, lease, now_ns, &decision);
	return decision;
}

struct decision shares_look_outbound(const struct segment *segment,
    const struct generation *generation, const struct generation_class *class,
    const struct limit_state *state, bool held, bool same_host, int64_t now_ns) {
	struct decision decision;
	struct limits limits;
	enum lease lease;

	lease = shares_limits(segment, generation, class, time_now(now_ns), &limits);
	decision = limit_outbound(&limits, state, held, same_host);
	name_share(segment, class, false, lease, now_ns, &decision);
	return decision;
}

void shares_wanted(const struct segment *segment, const struct generation_class *class,
    bool inbound) {
	atomic_fetch_add_explicit(&segment->records[class->record].share_wanted[!inbound], 1,
	    memory_order_relaxed);
}

static void count_refused(const struct segment *segment, const struct generation_class *class,
    const struct decision *decision, bool inbound) {
	if (decision->reason == REASON_CLASS_SHARE)
		atomic_fetch_add_explicit(
		    &segment->records[class->record].share_refused[!inbound], 1,
		    memory_order_relaxed);
}

struct decision shares_inbound(const struct segment *segment,
    const struct generation *generation, const struct generation_class *class,
    const struct limit_state *state, int64_t now_ns) {
	struct decision decision = shares_look_inbound(segment, generation, class, state,
	    now_ns);

	count_refused(segment, class, &decision, true);
	return decision;
}

struct decision shares_outbound(const struct segment *segment,
    const struct generation *generation, const struct generation_class *class,
    const struct limit_state *state, bool held, bool same_host, int64_t now_ns) {
	struct decision decision = shares_look_outbound(segment, generation, class, state,
	    held, same_host, now_ns);

	count_refused(segment, class, &decision, false);
	return decision;
}

/* --- the role's side ---------------------------------------------------- */

static bool small_is_inbound(const struct generation_class *class) {
	return class->limits.inbound <= class->limits.sessions;
}

static uint32_t open_small(const struct generation_class *class,
    const struct class_record *record, uint32_t open) {
	uint32_t inbound = atomic_load_explicit(&record->open_inbound,
	    memory_order_relaxed);

	if (inbound > open)	/* read while it changed */
		inbound = open;
	return small_is_inbound(class) ? inbound : open - inbound;
}

static uint64_t demand(const struct class_record *record, bool inbound) {
	return atomic_load_explicit(&record->share_refused[!inbound], memory_order_relaxed) +
	    atomic_load_explicit(&record->share_wanted[!inbound], memory_order_relaxed);
}

bool shares_look(const struct engine *engine, const struct generation *generation,
    uint32_t class_index, int64_t now_ns, struct share_class *out) {
	const struct generation_class *class = generation_class(generation, class_index);
	const struct class_record *record;
	struct share_pools held;
	uint64_t held_sum;

	if (!class->shared || class->record >= engine->segment->header->record_count)
		return false;
	record = &engine->segment->records[class->record];
	*out = (struct share_class){ .class_index = class_index,
		.name = generation_text(generation, class->name),
		.state = state_of(generation, record, now_ns),
		.whole = whole_of(class), .fixed = fixed_of(class),
		.most = most_of(record),
		.until_ns = atomic_load_explicit(&record->share_until_ns,
		    memory_order_relaxed),
		.open = atomic_load_explicit(&record->open, memory_order_relaxed),
		.refused_small = demand(record, small_is_inbound(class)),
		.refused_other = demand(record, !small_is_inbound(class)) };
	out->open_small = open_small(class, record, out->open);
	if (out->state == SHARE_LEASED)
		out->leased = leased_of(record);
	held = sum_of(out->fixed, out->leased, out->leased);
	held_sum = (uint64_t)held.base + held.extra;
	out->overhang = out->state != SHARE_ALONE && out->open > held_sum ?
	    out->open - (uint32_t)held_sum : 0;
	return true;
}

unsigned shares_each(const struct engine *engine, const struct generation *generation,
    int64_t now_ns, void (*each)(void *context, const struct share_class *), void *context) {
	unsigned count = 0;

	for (uint32_t i = 0; i < generation->class_count; i++) {
		struct share_class class;

		if (!generation_class(generation, i)->shared ||
		    !shares_look(engine, generation, i, now_ns, &class))
			continue;
		each(context, &class);
		count++;
	}
	return count;
}

static void store_share(struct class_record *record, struct share_pools leased) {
	atomic_store_explicit(&record->share[0], leased.base, memory_order_relaxed);
	FAILPOINT();
	atomic_store_explicit(&record->share[1], leased.extra, memory_order_relaxed);
	FAILPOINT();
}

bool shares_lower(struct engine *engine, const struct generation *generation,
    uint32_t class_index, struct share_pools to, int64_t now_ns, struct share_pools *held) {
	const struct generation_class *class = generation_class(generation, class_index);
	struct segment *segment = engine->segment;
	struct class_record *record = &segment->records[class->record];
	uint32_t open;

	*held = (struct share_pools){ 0, 0 };
	if (!class->shared || !class_lock_for(segment, class, now_ns))
		return false;
	FAILPOINT();
	open = atomic_load_explicit(&record->open, memory_order_relaxed);
	if (time_now(now_ns) < atomic_load_explicit(&record->share_until_ns,
	    memory_order_relaxed))
		*held = share_least(fixed_of(class), leased_of(record), open,
		    open_small(class, record, open), to);
	seq_begin(&record->seq);
	store_share(record, *held);
	seq_end(&record->seq);
	FAILPOINT();
	class_unlock(segment, (uint16_t)class->record);
	return true;
}

bool shares_grant(struct engine *engine, const struct generation *generation,
    uint32_t class_index, struct share_pools leased, struct share_pools most,
    int64_t until_ns, int64_t now_ns) {
	const struct generation_class *class = generation_class(generation, class_index);
	struct segment *segment = engine->segment;
	struct class_record *record = &segment->records[class->record];
	struct share_pools whole = whole_of(class);

	if (!class->shared || !class_lock_for(segment, class, now_ns))
		return false;
	if (atomic_load(&record->share_since_ns) == 0) {
		class_unlock(segment, (uint16_t)class->record);
		return false;
	}
	FAILPOINT();
	seq_begin(&record->seq);
	atomic_store_explicit(&record->share_most[0], most.base, memory_order_relaxed);
	FAILPOINT();
	atomic_store_explicit(&record->share_most[1], most.extra, memory_order_relaxed);
	FAILPOINT();
	store_share(record, (struct share_pools){ lesser(leased.base, whole.base),
	    lesser(leased.extra, whole.extra) });
	atomic_store_explicit(&record->share_until_ns, until_ns, memory_order_relaxed);
	FAILPOINT();
	seq_end(&record->seq);
	class_unlock(segment, (uint16_t)class->record);
	return true;
}

void shares_told(struct engine *engine, const struct generation *generation,
    uint32_t class_index, struct share_pools whole, int64_t now_ns) {
	const struct generation_class *class = generation_class(generation, class_index);
	struct class_record *record = &engine->segment->records[class->record];
	struct limits limits;

	if (!class->shared || !class_lock_for(engine->segment, class, now_ns))
		return;
	share_limits(&class->limits, whole, &limits);
	atomic_store_explicit(&record->share_whole[0], limits.inbound, memory_order_relaxed);
	atomic_store_explicit(&record->share_whole[1], limits.sessions, memory_order_relaxed);
	class_unlock(engine->segment, (uint16_t)class->record);
}

void shares_whole(const struct engine *engine, const struct generation *generation,
    uint32_t class_index, int64_t now_ns, struct limits *out) {
	whole_limits(engine->segment, generation_class(generation, class_index), now_ns, out);
}

bool shares_any_parted(const struct engine *engine) {
	const struct segment *segment = engine->segment;

	for (uint32_t i = 0; i < segment->header->record_count; i++)
		if (atomic_load_explicit(&segment->records[i].share_parted,
		    memory_order_relaxed) != 0)
			return true;
	return false;
}

unsigned shares_parted(struct engine *engine, int64_t now_ns, struct share_parted *out,
    unsigned most) {
	struct segment *segment = engine->segment;
	unsigned count = 0;

	for (uint32_t i = 0; i < segment->header->record_count && count < most; i++) {
		const struct class_record *record = &segment->records[i];

		if (atomic_load(&record->share_parted) == 0 ||
		    !class_lock(segment, (uint16_t)i, now_ns))
			continue;
		out[count] = (struct share_parted){ .record = (uint16_t)i,
			.number = atomic_load(&record->share_parted) };
		name_copy(record->name, out[count].name);
		count += out[count].number != 0;
		class_unlock(segment, (uint16_t)i);
	}
	return count;
}

void shares_gave_back(struct engine *engine, const struct share_parted *parted) {
	uint64_t number = parted->number;

	(void)atomic_compare_exchange_strong(
	    &engine->segment->records[parted->record].share_parted, &number, 0);
}

void shares_not_alone(struct engine *engine, const struct generation *generation,
    int64_t now_ns) {
	for (uint32_t i = 0; i < generation->class_count; i++) {
		const struct generation_class *class = generation_class(generation, i);
		_Atomic int64_t *since = &engine->segment->records[class->record].share_since_ns;
		int64_t since_ns = atomic_load(since);

		/* 0: it has left the scope meanwhile */
		if (class->shared && since_ns != 0)
			(void)atomic_compare_exchange_strong(since, &since_ns, now_ns);
	}
}

bool shares_are_leased(const struct engine *engine, int64_t now_ns) {
	const struct segment *segment = engine->segment;

	for (uint32_t i = 0; i < segment->header->record_count; i++)
		if (now_ns < atomic_load(&segment->records[i].share_until_ns))
			return true;
	return now_ns < shared_until(segment);
}

const char *shares_instance(const struct engine *engine, char out[SHARES_INSTANCE_MAX]) {
	const struct segment_header *header = engine->segment->header;

	(void)snprintf(out, SHARES_INSTANCE_MAX, "%016" PRIx64,
	    atomic_load(&header->cluster_instance));
	return out;
}
