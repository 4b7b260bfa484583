/* SPDX-License-Identifier: ISC */
/* What must hold of limits that several machines share, whatever happens. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "engine/cluster/shares.h"
#include "segment/file/internal.h"
#include "tests/machine/network.h"
#include "tests/machine/role.h"

#define CLASSES	3
#define PAST	16	/* shares of a node that are remembered */

/* What a node might use, until the next of these stands in its segment. */
struct usable {
	int64_t from_ns, until_ns;	/* by its clock */
	uint32_t base, extra;
};

struct watched_class {
	struct usable past[PAST];
	uint32_t count;			/* ever */
	bool excused;			/* it has more open than it may use: by an end of its share */
	/* since it is watched: */
	uint32_t peak;			/* the most open, */
	uint32_t granted;		/* and leased; of node 0: by all */
};

static struct {
	const struct plan *plan;
	struct watched_class classes[NODES_MAX][CLASSES];
} all;

bool __wrap_shares_grant(struct engine *engine, const struct generation *generation,
    uint32_t class_index, struct share_pools leased, struct share_pools most, int64_t until_ns,
    int64_t now_ns);
bool __real_shares_grant(struct engine *engine, const struct generation *generation,
    uint32_t class_index, struct share_pools leased, struct share_pools most, int64_t until_ns,
    int64_t now_ns);
bool __wrap_shares_lower(struct engine *engine, const struct generation *generation,
    uint32_t class_index, struct share_pools to, int64_t now_ns, struct share_pools *held);
bool __real_shares_lower(struct engine *engine, const struct generation *generation,
    uint32_t class_index, struct share_pools to, int64_t now_ns, struct share_pools *held);

static const struct generation_class *class_of(unsigned node, uint32_t class_index) {
	return generation_class(nodes_generation(node), class_index);
}

static bool is_shared(uint32_t class_index) {
	return class_of(0, class_index)->shared;
}

static struct share_pools whole_of(uint32_t class_index) {
	const struct limits *limits = &class_of(0, class_index)->limits;

	return share_pools_of(limits->sessions, limits->inbound);
}

static const char *class_name(uint32_t class_index) {
	return generation_text(nodes_generation(0), class_of(0, class_index)->name);
}

static const struct class_record *record_of(unsigned node, uint32_t class_index) {
	return &nodes_segment(node)->records[class_of(node, class_index)->record];
}

/* --- what a node may use ---------------------------------------------------------------- */

/* By its segment, now. */
static struct share_pools usable_now(unsigned node, uint32_t class_index) {
	const struct generation_class *class = class_of(node, class_index);
	const struct class_record *record = record_of(node, class_index);
	struct share_pools usable = { class->fixed_base, class->fixed_extra };

	if (nodes_clock_of(node) < record->share_until_ns) {
		usable.base += record->share[0];
		usable.extra += record->share[1];
	}
	return usable;
}

static uint32_t lesser(uint32_t a, uint32_t b) {
	return a < b ? a : b;
}

/* It stands there when from_ns says so. */
static struct usable *remember(unsigned node, uint32_t class_index, struct share_pools leased,
    struct share_pools most, int64_t until_ns) {
	struct watched_class *class = &all.classes[node][class_index];
	struct usable *usable = &class->past[class->count++ % PAST];

	*usable = (struct usable){ INT64_MAX, until_ns, lesser(leased.base, most.base),
		lesser(leased.extra, most.extra) };
	return usable;
}

/* The most that it might use at any time since then. */
static uint32_t most_usable(unsigned node, uint32_t class_index, bool small, int64_t since_ns) {
	const struct generation_class *fixed = class_of(node, class_index);
	const struct watched_class *class = &all.classes[node][class_index];
	int64_t next_ns = INT64_MAX;
	uint32_t most = 0;

	for (uint32_t i = 0; i < class->count && i < PAST && next_ns >= since_ns; i++) {
		const struct usable *usable = &class->past[(class->count - 1 - i) % PAST];
		uint32_t leased = usable->base + (small ? 0 : usable->extra);

		next_ns = usable->from_ns;
		if (usable->until_ns > since_ns && leased > most)
			most = leased;
	}
	return most + fixed->fixed_base + (small ? 0 : fixed->fixed_extra);
}

bool __wrap_shares_grant(struct engine *engine, const struct generation *generation,
    uint32_t class_index, struct share_pools leased, struct share_pools most, int64_t until_ns,
    int64_t now_ns) {
	unsigned node = process_current()->node;
	struct usable *usable;
	bool done;

	check_nodes();
	usable = remember(node, class_index, leased, most, until_ns);
	world_log("node %u, %s: %u+%u of %u+%u for %lld ms", node, class_name(class_index), leased.base,
	    leased.extra, most.base, most.extra, (long long)((until_ns - now_ns) / NS_PER_MS));
	done = __real_shares_grant(engine, generation, class_index, leased, most, until_ns, now_ns);
	if (done)
		usable->from_ns = nodes_clock_ns();
	check_nodes();
	return done;
}

bool __wrap_shares_lower(struct engine *engine, const struct generation *generation,
    uint32_t class_index, struct share_pools to, int64_t now_ns, struct share_pools *held) {
	unsigned node = process_current()->node;
	const struct class_record *record = record_of(node, class_index);
	bool done;

	check_nodes();
	done = __real_shares_lower(engine, generation, class_index, to, now_ns, held);
	if (done)
		remember(node, class_index, *held, (struct share_pools){ record->share_most[0],
		    record->share_most[1] }, record->share_until_ns)->from_ns = nodes_clock_ns();
	check_nodes();
	return done;
}

/* --- at any time -------------------------------------------------------------------------- */

/* All of a limit that anybody may use. */
static void check_sum(uint32_t class_index) {
	struct share_pools whole = whole_of(class_index), sum = { 0, 0 };

	for (unsigned i = 0; i <= all.plan->nodes; i++) {
		struct share_pools usable;

		if (nodes_segment(i) == NULL)
			continue;
		usable = usable_now(i, class_index);
		sum.base += usable.base;
		sum.extra += usable.extra;
	}
	if (sum.base > whole.base || sum.base + sum.extra > whole.base + whole.extra)
		world_fail("shares", "class %s: nodes may use %u+%u of %u+%u",
		    class_name(class_index), sum.base, sum.extra, whole.base, whole.extra);
}

/* More than its share a node has open only where that ended. */
static void check_overhang(unsigned node, uint32_t class_index) {
	struct watched_class *class = &all.classes[node][class_index];
	const struct class_record *record = record_of(node, class_index);
	struct share_pools usable = usable_now(node, class_index);
	uint32_t open = nodes_open(node, class_index);

	if (open > class->peak)
		class->peak = open;
	if (open <= usable.base + usable.extra)
		class->excused = false;
	else if (nodes_clock_of(node) >= record->share_until_ns)
		class->excused = true;
	else if (!class->excused && (record->seq & 1) == 0)
		world_fail("overhang", "node %u, class %s: %u open, %u+%u may be", node,
		    class_name(class_index), open, usable.base, usable.extra);
}

/* What Redis has recorded. */
struct granted {
	uint32_t of[NODES_MAX], need[NODES_MAX], sum, places;
};

static struct granted granted_of(const char *kind, uint32_t class_index) {
	const struct lease_data *lease = redis_lease();
	struct granted granted = { .sum = 0 };
	char name[LEASE_NAME];

	snprintf(name, sizeof(name), "%s:%s", kind, class_name(class_index));
	for (unsigned i = 0; lease != NULL && i < lease->pool_count; i++) {
		const struct lease_pool *pool = &lease->pools[i];

		for (unsigned k = 0; strcmp(pool->name, name) == 0 && k < pool->count; k++) {
			const struct lease_part *part = &pool->parts[k];
			const struct lease_node *node = &lease->nodes[part->slot];
			unsigned number = (unsigned)(node->name[1] - '0');

			if (!node->used || !node->alive || node->life != part->life)
				continue;
			granted.of[number] = (uint32_t)part->granted;
			granted.need[number] = (uint32_t)part->need;
			granted.sum += (uint32_t)part->granted;
			granted.places = (uint32_t)(part->limit - NODES_MAX * part->fixed);
		}
	}
	return granted;
}

/* Where a place is given back before another node takes it, no one moment tells. */
static void watch(uint32_t class_index) {
	struct granted granted = granted_of("b", class_index);

	for (unsigned i = 0; i <= all.plan->nodes; i++) {
		uint32_t *most = &all.classes[i][class_index].granted;
		uint32_t now = i == 0 ? granted.sum : granted.of[i];

		if (now > *most)
			*most = now;
	}
}

void check_nodes_tick(void) {
	check_nodes();
	for (uint32_t c = 0; c < CLASSES; c++)
		if (is_shared(c))
			watch(c);
}

void check_nodes(void) {
	for (uint32_t c = 0; c < CLASSES; c++) {
		if (!is_shared(c))
			continue;
		check_sum(c);
		for (unsigned i = 0; i <= all.plan->nodes; i++)
			if (nodes_segment(i) != NULL)
				check_overhang(i, c);
	}
}

void check_nodes_begin(const struct plan *plan) {
	all.plan = plan;
}

void check_nodes_lost(unsigned node) {
	for (uint32_t c = 0; c < CLASSES; c++) {
		struct watched_class *class = &all.classes[node][c];

		class->count = 0;
		class->excused = true;
	}
}

void check_nodes_admitted(unsigned node, uint32_t class_index, bool inbound, int64_t asked_ns) {
	const struct limits *limits = &class_of(0, class_index)->limits;
	uint32_t open = nodes_open(node, class_index), most;
	bool small = (inbound ? limits->inbound : limits->sessions) <=
	    (inbound ? limits->sessions : limits->inbound);
	uint32_t total = 0, excused = 0;

	if (all.plan == NULL || !is_shared(class_index))
		return;
	most = most_usable(node, class_index, small && limits->inbound != limits->sessions,
	    asked_ns);
	world_log("node %u, %s: admitted, %u of %u", node, class_name(class_index), open, most);
	if (open > most)
		world_fail("expired", "node %u, class %s: one is admitted as %u are open, of %u",
		    node, class_name(class_index), open, most);
	check_nodes();
	for (unsigned i = 0; i <= all.plan->nodes; i++) {
		total += nodes_open(i, class_index);
		if (nodes_segment(i) != NULL && all.classes[i][class_index].excused)
			excused += nodes_open(i, class_index);
	}
	if (total - excused > (limits->inbound > limits->sessions ? limits->inbound :
	    limits->sessions))
		world_fail("nodes", "class %s: %u are open on all nodes", class_name(class_index),
		    total);
}

/* --- when all is well again ------------------------------------------------------------------- */

void check_nodes_watch(void) {
	for (unsigned i = 0; i < NODES_MAX; i++)
		for (uint32_t c = 0; c < CLASSES; c++)
			all.classes[i][c].peak = all.classes[i][c].granted = 0;
}

static void say(const char *what, uint32_t class_index, const struct granted *granted) {
	world_log("%s: %s: %u %u %u of %u, need %u %u %u, peaks %u %u %u", what,
	    class_name(class_index), granted->of[0], granted->of[1], granted->of[2],
	    granted->places, granted->need[0], granted->need[1], granted->need[2],
	    all.classes[0][class_index].peak, all.classes[1][class_index].peak,
	    all.classes[2][class_index].peak);
}

static void fail_full(const char *what, uint32_t class_index, const struct granted *granted) {
	world_fail(what, "class %s: %u %u %u of %u places are leased, the most open were %u %u %u",
	    class_name(class_index), granted->of[0], granted->of[1], granted->of[2],
	    granted->places, all.classes[0][class_index].peak, all.classes[1][class_index].peak,
	    all.classes[2][class_index].peak);
}

void check_nodes_full(void) {
	for (uint32_t c = 0; c < CLASSES; c++) {
		struct granted granted;

		if (!is_shared(c))
			continue;
		granted = granted_of("b", c);
		say("full", c, &granted);
		if (all.classes[0][c].granted != granted.places)
			fail_full("idle", c, &granted);
		for (unsigned i = 1; i <= all.plan->nodes; i++) {
			if (all.classes[i][c].peak + 1 < class_of(i, c)->fixed_base +
			    all.classes[i][c].granted)
				fail_full("unused", c, &granted);
			if (all.classes[i][c].granted < granted.places / (all.plan->nodes +
			    (all.classes[0][c].peak > 0)))
				fail_full("unfair", c, &granted);
		}
	}
}

void check_nodes_one(unsigned node) {
	for (uint32_t c = 0; c < CLASSES; c++) {
		struct granted granted;

		if (!is_shared(c))
			continue;
		granted = granted_of("b", c);
		say("one", c, &granted);
		if (all.classes[node][c].granted + all.classes[0][c].peak < granted.places)
			fail_full("starved", c, &granted);
	}
}

void check_nodes_end(void) {
	for (unsigned i = 1; i <= all.plan->nodes; i++)
		for (uint32_t c = 0; c < CLASSES; c++)
			if (record_of(i, c)->open != 0)
				world_fail("nodes", "node %u, class %s: %u are open", i,
				    class_name(c), record_of(i, c)->open);
}
