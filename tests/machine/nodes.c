/* SPDX-License-Identifier: ISC */
#include "tests/machine/nodes_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "segment/file/internal.h"
#include "tests/machine/network.h"

#define FULL_NS		(16 * NS_PER_SECOND)	/* Redis is tried again each 7.5 s, and begins with 2.25 s */
#define PEAK_NS		(3 * NS_PER_SECOND)
#define STAY_NS		(800 * NS_PER_MS)
#define ONE_NS		(STAY_NS + 1700 * NS_PER_MS)	/* less than a second after the last has gone */
#define ONE_PEAK_NS	NS_PER_SECOND
#define LAST_NS		(3 * NS_PER_SECOND)

const char nodes_classes[] =
    "classes = ( "
    "{ name = \"a\"; match = [ \"*.a\" ]; hold_at = 9; refuse_at = 7; scope = \"cluster\"; }, "
    "{ name = \"b\"; match = [ \"*.b\" ]; hold_at = 2; refuse_at = 2; action = \"defer\"; }, "
    "{ name = \"all\"; match = [ \"*\" ]; hold_at = 12; refuse_at = 12; scope = \"cluster\"; "
    "  client = { sessions = 2; ipv4 = 32; }; } );";

static struct {
	const struct plan *plan;
	struct draws draws;
	struct node nodes[NODES_MAX];
	unsigned acting;		/* that the world is busy with */
	bool calm;
	bool drifts;			/* all clocks do, for and against */
	int64_t calm_ns;
} all;

/* --- clocks --------------------------------------------------------------------------- */

int64_t nodes_clock_of(unsigned number) {
	const struct node *node = &all.nodes[number];
	int64_t gone_ns = fibers_now_ns() - node->since_ns;

	if (number == 0)
		return fibers_now_ns();
	return node->clock_ns + gone_ns + gone_ns / 1000 * node->ppm / 1000;
}

int64_t nodes_clock_ns(void) {
	const struct process *process = process_current();

	return nodes_clock_of(process == NULL ? all.acting : process->node);
}

int64_t nodes_world_ns(unsigned number, int64_t clock_ns) {
	int64_t left_ns;

	if (clock_ns == INT64_MAX || number == 0)
		return clock_ns;
	left_ns = clock_ns - nodes_clock_of(number);
	return left_ns <= 0 ? fibers_now_ns() :
	    fibers_now_ns() + left_ns - left_ns / 1000 * all.nodes[number].ppm / 1000 +
	    left_ns / 200 + 1;
}

static void set_clock(struct node *node, int64_t clock_ns) {
	static const int64_t drifts[] = { 0, 50, 20000, 45000 };
	int64_t most = drifts[all.drifts ? 3 : draw_below(&all.draws, 4)];

	node->clock_ns = clock_ns;
	node->since_ns = fibers_now_ns();
	/* as far apart as chronyd may set them while it corrects the time */
	node->ppm = (all.drifts ? node->number == 1 : draw_below(&all.draws, 2) == 0) ? most : -most;
}

/* --- life ------------------------------------------------------------------------------------ */

static void member_start(void *argument) {
	static const char *const names[NODES_MAX][MEMBERS] = { { "" },
		{ "n1.cluster", "n1.worker.0", "n1.worker.1" },
		{ "n2.cluster", "n2.worker.0", "n2.worker.1" } };
	struct member *member = argument;

	if (!member->node->up || member->process.alive)
		return;
	member->start++;
	member->inbox = NULL;
	member->process.node = (uint8_t)member->node->number;
	world_log("%s starts", names[member->node->number][member->number]);
	process_start(&member->process, names[member->node->number][member->number], node_member_main,
	    member);
}

void nodes_member_died(struct process *process) {
	struct member *member = process->own;
	struct node *node = member->node;

	world_log("%s died", process->name);
	for (unsigned i = 0; i < VISITS_MAX; i++)
		if (node->visits[i].asked == member && node->visits[i].start == member->start)
			node->visits[i].used = false;
	timer_at(fibers_now_ns() + draw_scale(&all.draws, NS_PER_MS, 600 * NS_PER_MS), member_start,
	    member);
}

/* A new boot: nothing is left of the one before. */
static void node_up(void *argument) {
	struct node *node = argument;
	const char *path = generation_text(node->configured, node->configured->state_path);
	struct segment_report report;
	struct diag diag;

	if (node->up)
		return;
	set_clock(node, draw_scale(&all.draws, NS_PER_SECOND, 1000000 * NS_PER_SECOND));
	all.acting = node->number;
	node->generation = malloc(node->configured->bytes);
	MUST(node->generation != NULL);
	memcpy(node->generation, node->configured, node->configured->bytes);
	if (segment_prepare(&node->segment, node->generation, getuid(), getgid(), 1, false, &report,
		&diag) != 0 || segment_publish(node->segment, node->generation, &diag) != 0 ||
	    (node->fd = segment_open_file(path, getuid(), &diag)) < 0)
		world_fail("prepare", "node %u: %s", node->number, diag.text);
	all.acting = 0;
	node->up = true;
	world_log("node %u is up", node->number);
	for (unsigned i = 0; i < MEMBERS; i++)
		member_start(&node->members[i]);
}

static void kill_all(struct node *node) {
	for (unsigned i = 0; i < MEMBERS; i++)
		process_kill(&node->members[i].process);
}

static void node_down(struct node *node) {
	if (!node->up)
		return;
	node->up = false;
	world_log("node %u goes down", node->number);
	kill_all(node);
	memset(node->visits, 0, sizeof(node->visits));
	close(node->fd);
	MUST(unlink(generation_text(node->configured, node->configured->state_path)) == 0);
	check_nodes_lost(node->number);
	timer_at(fibers_now_ns() + draw_scale(&all.draws, 100 * NS_PER_MS, 5 * NS_PER_SECOND),
	    node_up, node);
}

static void fall(void *argument) {
	struct node *node = &all.nodes[1 + draw_below(&all.draws, all.plan->nodes)];
	struct member *member = &node->members[draw_below(&all.draws, 2) == 0 ? 0 :
	    draw_below(&all.draws, MEMBERS)];
	uint64_t after = (uint64_t)draw_scale(&all.draws, 1, 4000);

	(void)argument;
	if (all.calm || !node->up)
		return;
	switch (draw_below(&all.draws, 8)) {
	case 0:
		node_down(node);
		break;
	case 1:
		world_log("node %u: all die", node->number);
		kill_all(node);
		break;
	case 2:
		set_clock(node, nodes_clock_of(node->number));
		break;
	case 3:
	case 4:
		member->process.stops_after = after;
		member->process.stops_ns = draw_scale(&all.draws, 10 * NS_PER_MS, 6 * NS_PER_SECOND);
		break;
	default:
		member->process.struck_in_lock = draw_below(&all.draws, 2) == 0;
		member->process.dies_after = after;
	}
}

/* --- who wants to be let in -------------------------------------------------------------------- */

static void send_order(struct member *member, struct order order) {
	struct order *copy = malloc(sizeof(*copy)), **last = &member->inbox;

	MUST(copy != NULL);
	*copy = order;
	copy->next = NULL;
	while (*last != NULL)
		last = &(*last)->next;
	*last = copy;
	process_wake(&member->process);
}

static struct member *some_worker(struct node *node) {
	struct member *member = &node->members[1 + draw_below(&all.draws, WORKERS)];

	if (!member->process.alive)
		member = &node->members[member->number == 1 ? 2 : 1];
	return member->process.alive ? member : NULL;
}

struct ending {
	struct visit *visit;
	struct node *node;
	uint32_t number;
};

static void visit_end(void *argument) {
	struct ending *ending = argument;
	struct visit *visit = ending->visit;
	struct member *member = some_worker(ending->node);

	if (visit->used && visit->number == ending->number) {
		visit->used = false;
		/* else it is seen when one comes back */
		if (member != NULL)
			send_order(member, (struct order){ .ref = visit->ref });
	}
	free(ending);
}

void node_visit_ends(struct node *node, struct visit *visit) {
	struct ending *ending = malloc(sizeof(*ending));

	MUST(ending != NULL);
	*ending = (struct ending){ visit, node, visit->number };
	timer_at(fibers_now_ns() + draw_scale(&all.draws, all.calm ? node->stay_ns / 2 : NS_PER_MS,
	    node->stay_ns), visit_end, ending);
}

static void come(struct node *node) {
	struct member *member = some_worker(node);
	unsigned i = 0;

	while (i < VISITS_MAX && node->visits[i].used)
		i++;
	if (i == VISITS_MAX || member == NULL)
		return;
	node->visits[i] = (struct visit){ .used = true, .number = ++node->next_visit,
		.port = (uint16_t)(1024 + node->next_visit % 60000),
		.class_index = draw_below(&all.draws, 2) * 2, .asked = member,
		.start = member->start };
	send_order(member, (struct order){ .visit = &node->visits[i],
	    .number = node->visits[i].number });
}

static void visitors(void *argument) {
	struct node *node = argument;

	if (node->up && node->pause_ns > 0)
		come(node);
	timer_at(fibers_now_ns() + (node->pause_ns == 0 ? 100 * NS_PER_MS :
	    draw_scale(&all.draws, node->pause_ns / 16, node->pause_ns)), visitors, node);
}

static void change_mood(void *argument) {
	static const int64_t pauses[] = { 0, 1000, 200, 50, 16 };
	struct node *node = argument;

	if (all.calm)
		return;
	node->pause_ns = pauses[draw_below(&all.draws, 5)] * NS_PER_MS;
	node->stay_ns = draw_scale(&all.draws, 20 * NS_PER_MS, 4 * NS_PER_SECOND);
	timer_at(fibers_now_ns() + draw_scale(&all.draws, 200 * NS_PER_MS, 5 * NS_PER_SECOND),
	    change_mood, node);
}

/* --- the world's --------------------------------------------------------------------------------- */

void nodes_configure(unsigned node, const struct generation *generation) {
	all.nodes[node].configured = generation;
}

const struct generation *nodes_configured(unsigned node) {
	return all.nodes[node].configured;
}

void nodes_settings(unsigned node, const char *directory, const char *mtas, char *out,
    size_t size) {
	snprintf(out, size, "%scluster = { redis = \"unix:%s/redis\"; node = \"n%u\"; nodes = %u; "
	    "lease = \"" NODES_LEASE "\"; };\n", mtas, directory, node, NODES_MAX);
}

void nodes_main_is(struct segment *segment, const struct generation *generation, bool anew) {
	all.nodes[0].segment = segment;
	all.nodes[0].generation = (struct generation *)(uintptr_t)generation;
	all.nodes[0].up = true;
	if (anew)
		check_nodes_lost(0);
}

uint32_t nodes_open(unsigned number, uint32_t class_index) {
	const struct node *node = &all.nodes[number];
	uint32_t count = 0;

	if (number == 0)
		return check_open(class_index);
	for (unsigned i = 0; i < VISITS_MAX; i++)
		count += node->visits[i].used && node->visits[i].admitted &&
		    node->visits[i].class_index == class_index;
	return count;
}

struct segment *nodes_segment(unsigned node) {
	return all.nodes[node].up ? all.nodes[node].segment : NULL;
}

const struct generation *nodes_generation(unsigned node) {
	return all.nodes[node].generation;
}

static void tick(void *argument) {
	check_nodes_tick();
	timer_at(fibers_now_ns() + 20 * NS_PER_MS, tick, argument);
}

void nodes_begin(const struct plan *plan) {
	int64_t most_ns = plan->spread * NS_PER_MS;

	all.plan = plan;
	all.draws.state = plan->seed ^ UINT64_C(0x40de5);
	all.drifts = draw_below(&all.draws, 3) == 0;
	if (plan->nodes == 0)
		return;
	network_begin(plan);
	check_nodes_begin(plan);
	for (unsigned i = 1; i <= plan->nodes; i++) {
		struct node *node = &all.nodes[i];

		node->number = i;
		for (unsigned k = 0; k < MEMBERS; k++) {
			node->members[k].node = node;
			node->members[k].number = k;
		}
		node_up(node);
		change_mood(node);
		visitors(node);
	}
	for (uint32_t i = 0; i < plan->falls; i++)
		timer_at(fibers_now_ns() + 1000 + (int64_t)(draw(&all.draws) % (uint64_t)most_ns),
		    fall, NULL);
	tick(NULL);
}

void nodes_calm(void) {
	if (all.plan->nodes == 0)
		return;
	all.calm = true;
	all.calm_ns = fibers_now_ns();
	network_calm();
	for (unsigned i = 1; i <= all.plan->nodes; i++) {
		node_up(&all.nodes[i]);
		all.nodes[i].pause_ns = 40 * NS_PER_MS;
		all.nodes[i].stay_ns = STAY_NS;
	}
}

void nodes_finish(void) {
	int64_t full_ns = all.calm_ns + FULL_NS;

	if (all.plan->nodes == 0)
		return;
	if (fibers_now_ns() < full_ns - PEAK_NS)
		fibers_run(full_ns - PEAK_NS);
	check_nodes_watch();
	fibers_run(fibers_now_ns() + PEAK_NS);
	check_nodes_full();
	for (unsigned i = 2; i <= all.plan->nodes; i++)
		all.nodes[i].pause_ns = 0;
	fibers_run(fibers_now_ns() + ONE_NS - ONE_PEAK_NS);
	check_nodes_watch();
	fibers_run(fibers_now_ns() + ONE_PEAK_NS);
	check_nodes_one(1);
	all.nodes[1].pause_ns = 0;
	fibers_run(fibers_now_ns() + LAST_NS);
	check_nodes_end();
}
