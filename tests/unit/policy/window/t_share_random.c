/* SPDX-License-Identifier: ISC */
/* LINT-SIZE: one world for all: three nodes, their clients and the server */
/*
 * Three nodes that ask for a limit of 30 as policy/window/share.h says, in virtual time, with clients
 * that change from node to node: never more than 30 are open (nor more than the smaller limit
 * of its direction), nearly all are used while more are asked for, nobody is starved, a burst
 * at an idle node is let in, and few
 * calls are made.  The server is a small one of the
 * test's own, with a delay; the real one is in tests/mta/test_cluster_lease.py.
 */
#include "tests/unit/test.h"
#include "policy/window/share.h"
#include "tests/unit/random.h"

#define NODES		3
#define LIMIT		30
#define LEASE_MS	15000
#define STEP_MS		10

struct node {
	struct share_seen seen;
	struct share_memory memory;
	struct share_ask asked;
	uint32_t demand, demand_other;	/* clients that would have a session, of each direction */
	uint32_t hold[2];
	int64_t sent_ms, arrives_ms, answered_ms;	/* 0: no call is out */
	uint32_t granted[2], fair[2], others_short, free[2];
	bool tells;			/* the call, should it be short */
	int64_t told_ms, short_ms;	/* when it told so, or will have heard it of another */
	unsigned calls;
};

/* One pool, as the server has it. */
struct pool {
	uint32_t all;			/* leasable */
	uint32_t need[NODES], record[NODES];
};

struct world {
	struct random random;
	struct node nodes[NODES];
	struct pool pools[2];
	int64_t now_ms;
	unsigned often;			/* one in so many sessions ends in a step */
	bool deaf;			/* nodes hear nothing of each other */
	bool sure;			/* what they say is never lost */
};

static uint32_t least_of(uint32_t a, uint32_t b) {
	return a < b ? a : b;
}

/* --- the server ---------------------------------------------------------------------------- */

/* One place after another to whoever has least and needs more. */
static uint32_t fair_part(const struct pool *pool, unsigned number) {
	uint32_t parts[NODES] = { 0 }, rest = pool->all, odd = 0;

	for (;;) {
		uint32_t least = UINT32_MAX;
		unsigned row = 0;

		for (unsigned i = 0; i < NODES; i++)
			if (parts[i] < pool->need[i])
				least = least_of(parts[i], least);
		for (unsigned i = 0; i < NODES; i++)
			row += parts[i] < pool->need[i] && parts[i] == least;
		if (row == 0)
			return pool->all;
		if (row > rest)
			break;
		for (unsigned i = 0; i < NODES; i++)
			if (parts[i] < pool->need[i] && parts[i] == least)
				parts[i]++;
		rest -= row;
	}
	/* Too few for another round: those have them who came first. */
	if (parts[number] >= pool->need[number])
		return parts[number];
	for (unsigned i = 0; i < NODES; i++)
		odd += i != number && parts[i] < pool->need[i] && pool->record[i] > parts[i];
	return parts[number] + (odd < rest ? 1 : 0);
}

static void serve(struct pool *pool, struct node *node, unsigned number, unsigned which) {
	uint32_t need = which == 0 ? node->asked.claim.base : node->asked.claim.extra;
	uint32_t want = which == 0 ? node->asked.want.base : node->asked.want.extra;
	uint32_t hold = node->hold[which], others = 0, lacking = 0, room;

	assert_true(hold <= pool->record[number]);
	need = need > hold ? need : hold;
	pool->need[number] = need;
	for (unsigned i = 0; i < NODES; i++)
		if (i != number) {
			others += pool->record[i];
			lacking += pool->need[i] > pool->record[i] ?
			    pool->need[i] - pool->record[i] : 0;
		}
	node->others_short += lacking;
	node->fair[which] = fair_part(pool, number);
	room = others < pool->all && pool->all - others > hold ? pool->all - others : hold;
	want = lacking == 0 && want > need ? want : need;
	node->granted[which] = least_of(least_of(want, node->fair[which]), room);
	if (node->granted[which] < hold)
		node->granted[which] = hold;
	pool->record[number] = node->granted[which];
	assert_true(others + node->granted[which] <= pool->all);
	node->free[which] = pool->all - others - node->granted[which];
}

/* --- a node ------------------------------------------------------------------------------- */

static void call(struct world *world, struct node *node) {
	node->asked = share_asks(&node->memory, &node->seen);
	node->seen.leased = share_least(node->seen.fixed, node->seen.leased, node->seen.open,
	    node->seen.open_small, node->asked.keep);
	node->hold[0] = node->seen.leased.base;
	node->hold[1] = node->seen.leased.extra;
	node->sent_ms = world->now_ms;
	node->arrives_ms = world->now_ms + random_below(&world->random, 20);
	node->answered_ms = node->arrives_ms + random_below(&world->random, 20);
	node->tells = world->now_ms - node->told_ms >= SHARE_TELL_MS;
	node->calls++;
	share_sent(&node->memory, &node->seen);
}

/* (The server does it a little earlier.) */
static void tell(struct world *world, struct node *node) {
	node->told_ms = world->now_ms;
	for (unsigned i = 0; i < NODES; i++)
		if (world->sure || random_below(&world->random, 10) != 0)
			world->nodes[i].short_ms = world->now_ms + random_below(&world->random, 20);
}

static enum share_news news(const struct world *world, const struct node *node) {
	int64_t ago = world->now_ms - node->short_ms;

	if (world->deaf)
		return SHARE_NEWS_NONE;
	return node->short_ms > node->sent_ms && ago >= 0 && ago < SHARE_NEWS_MS ?
	    SHARE_NEWS_SHORT : SHARE_NEWS_QUIET;
}

static void role(struct world *world, unsigned number) {
	struct node *node = &world->nodes[number];
	bool out = node->answered_ms != 0;

	if (out && node->arrives_ms != 0 && world->now_ms >= node->arrives_ms) {
		node->others_short = 0;
		for (unsigned i = 0; i < 2; i++)
			serve(&world->pools[i], node, number, i);
		node->arrives_ms = 0;
	}
	if (out && world->now_ms >= node->answered_ms && node->arrives_ms == 0) {
		node->seen.leased = (struct share_pools){ node->granted[0], node->granted[1] };
		node->seen.most = (struct share_pools){ node->fair[0], node->fair[1] };
		share_answered(&node->memory, &node->seen, &node->asked, node->seen.leased,
		    node->others_short,
		    (struct share_pools){ node->free[0], node->free[1] });
		if ((node->memory.short_self || node->memory.claimed) && node->tells)
			tell(world, node);
		node->answered_ms = 0;
	}
	if ((world->now_ms + 30 * number) % SHARE_TURN_MS != 0)
		return;
	share_turn(&node->memory, &node->seen, world->now_ms);
	if (node->answered_ms == 0 && share_due(&node->memory, &node->seen, news(world, node),
		node->sent_ms, LEASE_MS, world->now_ms) != SHARE_NOT_DUE)
		call(world, node);
}

static uint32_t places(const struct share_seen *seen, bool small) {
	uint32_t base = seen->fixed.base + least_of(seen->leased.base, seen->most.base);

	return small ? base : base + seen->fixed.extra + least_of(seen->leased.extra,
	    seen->most.extra);
}

static uint32_t some_end(struct world *world, uint32_t open, uint32_t demand) {
	uint32_t ended = open > demand ? open - demand : 0;

	for (uint32_t i = 0; i < open; i++)
		ended += random_below(&world->random, world->often) == 0;
	return least_of(ended, open);
}

/* Sessions end by chance; as many as would have one try, a few a step. */
static void clients(struct world *world, struct node *node) {
	struct share_seen *seen = &node->seen;
	uint32_t small = seen->open_small, other = seen->open - small;

	small -= some_end(world, small, node->demand);
	other -= some_end(world, other, node->demand_other);
	for (unsigned tries = 0; tries < 3; tries++) {
		if (small < node->demand) {
			if (small + other < places(seen, true))
				small++;
			else
				seen->refused_small++;
		}
		if (other < node->demand_other) {
			if (small + other < places(seen, false))
				other++;
			else
				seen->refused_other++;
		}
	}
	seen->open_small = small;
	seen->open = small + other;
}

static void begin(struct world *world, struct share_pools whole, unsigned often) {
	struct share_pools fixed = share_static(whole, NODES, 10);
	struct share_pools leasable = share_leasable(whole, NODES, fixed);

	memset(world->nodes, 0, sizeof(world->nodes));
	memset(world->pools, 0, sizeof(world->pools));
	world->pools[0].all = leasable.base;
	world->pools[1].all = leasable.extra;
	world->now_ms = 1000;
	world->often = often;
	for (unsigned i = 0; i < NODES; i++)
		world->nodes[i].seen = (struct share_seen){ .whole = whole, .fixed = fixed,
			.most = { UINT32_MAX, UINT32_MAX }, .nodes = NODES,
			.alive = world->deaf ? 0 : NODES };
}

/* What came of some time. */
struct run {
	unsigned steps;
	unsigned used;		/* sum over the steps */
	unsigned low;		/* steps with less than 28 */
	uint32_t least;
	uint32_t had[NODES];	/* most that each had open */
	uint32_t small;		/* most of the direction with the smaller limit */
	unsigned calls;
};

static struct run run_for(struct world *world, int64_t ms) {
	struct run run = { .least = UINT32_MAX };
	unsigned before = 0;

	for (unsigned i = 0; i < NODES; i++)
		before += world->nodes[i].calls;
	for (int64_t end = world->now_ms + ms; world->now_ms < end; world->now_ms += STEP_MS) {
		uint32_t open = 0, small = 0;

		for (unsigned i = 0; i < NODES; i++) {
			clients(world, &world->nodes[i]);
			role(world, i);
			open += world->nodes[i].seen.open;
			small += world->nodes[i].seen.open_small;
			if (world->nodes[i].seen.open > run.had[i])
				run.had[i] = world->nodes[i].seen.open;
		}
		assert_true(open <= LIMIT);
		run.steps++;
		run.used += open;
		run.low += open < 28;
		run.least = least_of(open, run.least);
		run.small = small > run.small ? small : run.small;
	}
	for (unsigned i = 0; i < NODES; i++)
		run.calls += world->nodes[i].calls;
	run.calls -= before;
	return run;
}

static void use_up(bool deaf) {
	struct world world = { .random = random_seeded("t_share_random"), .deaf = deaf };
	unsigned low = 0, steps = 0, calls = 0;
	uint64_t used = 0;

	begin(&world, (struct share_pools){ LIMIT, 0 }, 100);
	for (unsigned round = 0; round < 300; round++) {
		struct run run;
		uint32_t all = 0;

		for (unsigned i = 0; i < NODES; i++) {
			struct node *node = &world.nodes[i];

			node->demand = random_below(&world.random, 4) == 0 ? 0 :
			    random_below(&world.random, 4) == 0 ? 50 : random_below(&world.random, 15);
			all += node->demand;
		}
		(void)run_for(&world, 2000);
		run = run_for(&world, 4000);
		for (unsigned i = 0; i < NODES; i++)
			if (world.nodes[i].demand > 0)
				assert_true(run.had[i] > 0);
		if (all <= LIMIT + 4)
			continue;
		low += run.low;
		steps += run.steps;
		used += run.used;
		calls += run.calls;
	}
	printf("# %.2f of 30 used, below 28 in %.2f %% of the time, %.1f calls a second\n",
	    (double)used / steps, 100.0 * low / steps, calls / (steps * STEP_MS / 1000.0));
	assert_true(used >= (uint64_t)steps * 28);
	assert_true(low * 200 <= steps);
}

TEST(a_limit_is_used_up_while_more_is_asked_for) {
	use_up(false);
}

TEST(and_so_it_is_by_nodes_that_do_not_hear_each_other) {
	use_up(true);
}

/* 20 inbound, 30 in all. */
TEST(each_direction_keeps_to_its_limit) {
	struct world world = { .random = random_seeded("t_share_random") };
	unsigned steps = 0;
	uint64_t used = 0;
	uint32_t small = 0;

	begin(&world, share_pools_of(LIMIT, 20), 100);
	for (unsigned round = 0; round < 200; round++) {
		struct run run;
		uint32_t all = 0;

		for (unsigned i = 0; i < NODES; i++) {
			struct node *node = &world.nodes[i];

			node->demand = random_below(&world.random, 3) == 0 ? 0 :
			    random_below(&world.random, 20);
			node->demand_other = random_below(&world.random, 3) == 0 ? 0 :
			    random_below(&world.random, 40);
			all += node->demand_other;
		}
		run = run_for(&world, 2000);
		small = run.small > small ? run.small : small;
		run = run_for(&world, 2000);
		small = run.small > small ? run.small : small;
		assert_true(small <= 20);
		if (all <= LIMIT + 4)
			continue;
		steps += run.steps;
		used += run.used;
	}
	printf("# %.2f of 30 used, at most %u of 20 inbound\n", (double)used / steps, small);
	assert_true(used >= (uint64_t)steps * 27);
	assert_true(small >= 18);
}

TEST(steady_load_costs_few_calls) {
	struct world world = { .random = random_seeded("t_share_random") };
	struct run run;
	unsigned refused = 0;

	begin(&world, (struct share_pools){ LIMIT, 0 }, 50);	/* two sessions a second for each that is open */
	for (unsigned i = 0; i < NODES; i++)
		world.nodes[i].demand = 6;
	(void)run_for(&world, 20000);
	for (unsigned i = 0; i < NODES; i++)
		refused += (unsigned)world.nodes[i].seen.refused_small;
	run = run_for(&world, 100000);
	printf("# %.2f calls a second of three nodes, of %.0f sessions\n", run.calls / 100.0,
	    run.used / (double)run.steps * 2);
	for (unsigned i = 0; i < NODES; i++)
		refused -= (unsigned)world.nodes[i].seen.refused_small;
	assert_int_equal(refused, 0);
	/* renewals each 5 s are 60 of three nodes, and some for what comes and goes by chance */
	assert_true(run.calls <= 150);
}

static unsigned refused_by(const struct world *world, unsigned number) {
	return (unsigned)world->nodes[number].seen.refused_small;
}

TEST(an_idle_node_lets_in_a_burst_and_grows_on) {
	struct world world = { .random = random_seeded("t_share_random") };
	struct run run;

	begin(&world, (struct share_pools){ LIMIT, 0 }, 100000);
	(void)run_for(&world, 20000);
	run = run_for(&world, 100000);
	assert_in_range(run.calls, 57, 63);	/* renewals alone: 100 s / 5 s by three */
	/* 10 = 1 + 27 / 3, all within 40 ms */
	world.nodes[0].demand = 10;
	(void)run_for(&world, 1000);
	assert_int_equal(world.nodes[0].seen.open, 10);
	assert_int_equal(refused_by(&world, 0), 0);
	/* two a second more, of what the others only have */
	while (world.nodes[0].demand < 27) {
		world.nodes[0].demand++;
		(void)run_for(&world, 500);
	}
	printf("# growth from an equal part to 27: %u refused\n", refused_by(&world, 0));
	assert_int_equal(world.nodes[0].seen.open, 27);
	/* unless the word was lost when it began to grow: until it is said again */
	assert_true(refused_by(&world, 0) < 300);
	/* all of them come: of none a place is kept that is not used */
	world.often = 100;
	for (unsigned i = 0; i < NODES; i++)
		world.nodes[i].demand = 20;
	(void)run_for(&world, 2000);
	run = run_for(&world, 4000);
	assert_true(run.used >= run.steps * 28);
	for (unsigned i = 0; i < NODES; i++)
		assert_true(run.had[i] >= 9);
}

/* `count` at once, who stay and, if refused, do not come again: how many were let in. */
static uint32_t come(struct world *world, unsigned number, uint32_t count) {
	struct node *node = &world->nodes[number];
	uint32_t before = node->seen.open;

	for (; count > 0; count--) {
		if (node->seen.open < places(&node->seen, true))
			node->seen.open = ++node->seen.open_small;
		else
			node->seen.refused_small++;
	}
	node->demand = node->seen.open;
	return node->seen.open - before;
}

/* `count` at once at one of three idle machines, of whom so many are let in. */
static void idle_till_a_burst(struct world *world, uint32_t count, uint32_t let_in) {
	begin(world, (struct share_pools){ LIMIT, 0 }, UINT32_MAX);
	(void)run_for(world, 30000 + random_below(&world->random, 5000));
	assert_int_equal(come(world, 0, count), let_in);
}

TEST(after_one_refusal_free_places_are_asked_for_ahead) {
	struct world world = { .random = random_seeded("t_share_random"), .sure = true };

	for (unsigned round = 0; round < 100; round++) {
		idle_till_a_burst(&world, 11, 10);
		/* of the 20 that are free */
		for (unsigned i = 0; i < 12; i++) {
			(void)run_for(&world, 1000);
			assert_int_equal(come(&world, 0, 1), 1);
		}
	}
}

/* It has just given back all that it could spare. */
TEST(and_so_they_are_at_the_other_machines) {
	struct world world = { .random = random_seeded("t_share_random"), .sure = true };

	for (unsigned round = 0; round < 100; round++) {
		unsigned let_in = 0;

		idle_till_a_burst(&world, 11, 10);
		for (unsigned i = 0; i < 10; i++) {
			(void)run_for(&world, 1000);
			let_in += come(&world, 1, 1);
		}
		assert_true(let_in >= 9);
	}
}

/* Each time more than are kept ahead, but never for longer than a share takes to grow. */
TEST(bursts_let_a_share_grow_to_the_limit) {
	struct world world = { .random = random_seeded("t_share_random"), .sure = true };
	unsigned refused = 0;

	for (unsigned round = 0; round < 100; round++) {
		idle_till_a_burst(&world, 4, 4);
		for (unsigned i = 0; i < 8 && world.nodes[0].seen.open < 27; i++) {
			(void)run_for(&world, 1500);
			assert_true(come(&world, 0, 4) >= 1);
		}
		assert_true(world.nodes[0].seen.open >= 24);
		refused += refused_by(&world, 0);
	}
	printf("# four each 1.5 s up to 28: %.1f refused\n", refused / 100.0);
	assert_true(refused <= 1000);
}
