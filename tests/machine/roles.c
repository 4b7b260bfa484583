/* SPDX-License-Identifier: ISC */
/*
 * The roles: the real code behind mains that are shorter than those of role/run, as there are no
 * sockets; and a supervisor, that starts again who has died.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "segment/file/layout.h"
#include "segment/file/segment.h"
#include "tests/machine/mail.h"
#include "tests/machine/nodes.h"
#include "tests/machine/role.h"
#include "tests/machine/senders.h"

#define ROLES_MAX 9
#define HUNG_NS (4 * NS_PER_SECOND)
#define LOCK_TOUCHES 60			/* of a transaction, about */
#define AWAY_PART 8			/* one of so many is not started again for long */
#define BEGIN_NS (50 * NS_PER_MS)	/* no outage is known of who has never been at work */

static struct {
	const struct plan *plan;
	struct draws draws;
	struct role roles[ROLES_MAX];
	unsigned count;
	int segment_fd;
	const char *path;
	struct segment *segment;	/* the world's */
	bool calm, keeper_is_gone;
} all;

/* --- messages --------------------------------------------------------------------- */

static void role_send(struct role *role, struct message message) {
	struct message *copy = malloc(sizeof(*copy)), **last = &role->inbox;

	MUST(copy != NULL);
	*copy = message;
	copy->next = NULL;
	while (*last != NULL)
		last = &(*last)->next;
	*last = copy;
	process_wake(&role->process);
}

bool role_next(struct role *role, struct message *message) {
	struct message *first = role->inbox;

	if (first == NULL)
		return false;
	*message = *first;
	role->inbox = first->next;
	free(first);
	return true;
}

bool link_lives(const struct policy_link *link) {
	return link->role != NULL && link->role->process.alive && link->role->start == link->start;
}

uint8_t listener_of(const struct generation *generation, uint8_t kind) {
	for (uint8_t i = 0; i < generation->listener_count; i++)
		if (generation->listeners[i].kind == kind)
			return i;
	return 0;
}

bool role_connect(struct policy_link *link, bool milter, struct draws *draws) {
	unsigned first = draw_below(draws, all.count);

	for (unsigned i = 0; i < all.count; i++) {
		struct role *role = &all.roles[(first + i) % all.count];

		if (role->kind != (milter ? ROLE_MILTER : ROLE_POLICY) || !role->process.alive)
			continue;
		link->role = role;
		link->start = role->start;
		link->socket = socket_open();
		return true;
	}
	return false;
}

void role_ask(struct policy_link *link, const char *request) {
	role_send(link->role, (struct message){ .link = link, .request = strdup(request) });
}

void role_end_link(struct policy_link *link) {
	socket_close(link->socket);
	if (link_lives(link))
		role_send(link->role, (struct message){ .link = link });
}

void keeper_hear(void) {
	role_send(&all.roles[0], (struct message){ .pid = 0 });
}

void keeper_order(unsigned domain, int verb) {
	if (all.roles[0].process.alive)
		role_send(&all.roles[0], (struct message){ .place = domain, .pid = verb,
		    .request = strdup("order") });
}

/* The last two, where there is mail. */
static struct role *role_of(enum role_kind kind) {
	for (unsigned i = 0; i < all.count; i++)
		if (all.roles[i].kind == kind)
			return &all.roles[i];
	return NULL;
}

void feed_hear(void) {
	process_wake(&role_of(ROLE_FEED)->process);
}

bool lookup_ask(unsigned number, uint32_t question, const char *address) {
	struct role *lookup = role_of(NO_ROLE);

	if (!lookup->process.alive)
		return false;
	role_send(lookup, (struct message){ .place = number, .pid = (int32_t)question,
	    .request = strdup(address) });
	return true;
}

/* --- the supervisor -------------------------------------------------------------------- */

/* As role_begin. */
static void role_main(void *argument) {
	struct process *process = argument;
	struct role *role = process->own;
	struct diag diag;
	int fd;

	role->state_path = all.path;
	if (role->kind == NO_ROLE)
		lookup_main(role);
	fd = dup(all.segment_fd);
	if (segment_attach(&role->segment, fd, all.path, &diag) != 0)
		world_fail("attach", "%s: %s", process->name, diag.text);
	fiber_watch(segment_header(role->segment), segment_header(role->segment)->bytes);
	segment_role_starting(role->segment, role->kind, role->number, clock_now_ns());
	if (engine_open(&role->engine, role->segment, role->place, &diag) != 0)
		world_fail("open", "%s: %s", process->name, diag.text);
	if (role->kind == ROLE_KEEPER)
		keeper_main(role);
	else if (role->kind == ROLE_MILTER)
		milter_main(role);
	else if (role->kind == ROLE_FEED)
		feed_main(role);
	else if (role->kind == ROLE_CLUSTER)
		cluster_main(role);
	else
		policy_main(role);
}

static void role_start(void *argument) {
	struct role *role = argument;
	static const char *const names[] = { "policy.0", "policy.1", "policy.2", "milter.0",
		"milter.1" };
	const char *name = role->kind == ROLE_KEEPER ? "keeper" : role->kind == ROLE_FEED ? "feed" :
	    role->kind == NO_ROLE ? "lookup" : role->kind == ROLE_CLUSTER ? "cluster" :
	    names[role->number + (role->kind == ROLE_MILTER ? 3 : 0)];

	if (all.keeper_is_gone && role->kind == ROLE_KEEPER)
		return;
	role->start++;
	role->inbox = NULL;
	world_log("%s starts", name);
	process_start(&role->process, name, role_main, role);
}

struct news {
	struct role *role;
	uint32_t start;
	int32_t pid;
};

static void tell_servers(void *argument) {
	struct news *news = argument;

	servers_lose(news->role, news->start);
	senders_lose(news->role, news->start);
}

static void tell_keeper(void *argument) {
	const struct news *news = argument;

	if (all.roles[0].process.alive && news->role->kind != NO_ROLE)
		role_send(&all.roles[0], (struct message){ .place = news->role->place,
		    .pid = news->pid });
}

static void role_died(struct process *process) {
	struct role *role = process->own;
	int64_t now_ns = fibers_now_ns();
	struct news *news;

	if (process->node > 0) {
		nodes_member_died(process);
		return;
	}
	news = malloc(sizeof(*news));
	MUST(news != NULL);
	*news = (struct news){ role, role->start, process->pid };
	world_log("%s died", process->name);
	if (role->kind == NO_ROLE)
		mail_lookup_lost();
	timer_at(now_ns + draw_scale(&all.draws, 1000, NS_PER_MS), tell_servers, news);
	timer_at(now_ns + draw_scale(&all.draws, 1000, 20 * NS_PER_MS), tell_keeper, news);
	timer_at(now_ns + draw_scale(&all.draws, NS_PER_MS, draw_below(&all.draws, AWAY_PART) == 0 ?
	    3 * NS_PER_SECOND : 600 * NS_PER_MS), role_start, role);
}

static void supervise(void *argument) {
	const struct role_record *records = segment_header(all.segment)->roles;

	for (unsigned i = 0; i < all.count; i++) {
		struct role *role = &all.roles[i];
		const struct role_record *record = &records[role->place];

		if (role->kind != NO_ROLE && role->process.alive && record->pid == role->process.pid &&
		    fibers_now_ns() - record->heartbeat_ns > HUNG_NS) {
			world_log("%s hangs", role->process.name);
			process_kill(&role->process);
		}
	}
	timer_at(fibers_now_ns() + NS_PER_SECOND / 4, supervise, argument);
}

static void strike_one(struct role *role, bool dies) {
	uint64_t after = (uint64_t)draw_scale(&all.draws, 1, 4000);

	if (all.calm || !role->process.alive)
		return;
	role->process.struck_in_lock = draw_below(&all.draws, 2) == 0;
	role->process.lock_touches = draw_below(&all.draws, LOCK_TOUCHES);
	if (dies) {
		role->process.dies_after = after;
		return;
	}
	role->process.stops_after = after;
	role->process.stops_ns = draw_scale(&all.draws, 10 * NS_PER_MS, 6 * NS_PER_SECOND);
}

/* Now and then one is stopped meanwhile, so that who takes a lock of the dead may meet another that
 * is not to be had. */
static void strike(void *argument) {
	strike_one(&all.roles[draw_below(&all.draws, all.count)], argument != NULL);
	if (draw_below(&all.draws, 4) == 0)
		strike_one(&all.roles[draw_below(&all.draws, all.count)], false);
}

void roles_end(void) {
	for (unsigned i = 0; i < all.count; i++)
		process_kill(&all.roles[i].process);
}

void roles_reopen(struct segment *segment, int fd) {
	close(all.segment_fd);
	all.segment = segment;
	all.segment_fd = fd;
}

bool roles_stand_still(void) {
	for (unsigned i = 0; i < all.count; i++)
		if (all.roles[i].process.stopped_until_ns > fibers_now_ns())
			return true;
	return false;
}

struct segment *roles_segment(void) {
	return all.segment;
}

void roles_lose_keeper(void) {
	all.keeper_is_gone = true;
	process_kill(&all.roles[0].process);
}

void roles_calm(void) {
	all.calm = true;
}

bool roles_were_at_work(void) {
	const struct role_record *records = segment_header(all.segment)->roles;

	for (unsigned i = 0; i < all.count; i++)
		if ((all.roles[i].kind == ROLE_POLICY || all.roles[i].kind == ROLE_MILTER) &&
		    records[all.roles[i].place].heartbeat_ns == 0)
			return false;
	return true;
}

bool roles_are_well(void) {
	const struct role_record *records = segment_header(all.segment)->roles;

	for (unsigned i = 0; i < all.count; i++) {
		const struct role *role = &all.roles[i];
		const struct role_record *record = &records[role->place];

		if (!role->process.alive || role->process.stopped_until_ns > fibers_now_ns())
			return false;
		if (role->kind != NO_ROLE && (record->pid != role->process.pid || record->gap_end_ns == INT64_MAX ||
		    fibers_now_ns() - record->heartbeat_ns > 2 * BEAT_NS))
			return false;
	}
	return true;
}

void roles_begin(const struct plan *plan, struct segment *segment, int fd, const char *path) {
	int64_t now_ns = fibers_now_ns();

	all.plan = plan;
	all.draws.state = plan->seed ^ UINT64_C(0x7011);
	all.segment = segment;
	all.segment_fd = fd;
	all.path = path;
	all.count = 1 + plan->policies + plan->milters;
	if (plan_has_mail(plan)) {
		all.roles[all.count++].kind = ROLE_FEED;
		all.roles[all.count++].kind = NO_ROLE;
	}
	if (plan->nodes > 0)
		all.roles[all.count++].kind = ROLE_CLUSTER;
	for (unsigned i = 0; i < all.count; i++) {
		struct role *role = &all.roles[i];

		if (i < 1 + plan->policies + plan->milters) {
			role->kind = i == 0 ? ROLE_KEEPER : i <= plan->policies ? ROLE_POLICY :
			    ROLE_MILTER;
			role->number = i == 0 ? 0 : i <= plan->policies ? i - 1 :
			    i - 1 - plan->policies;
		}
		if (role->kind != NO_ROLE)
			role->place = segment_role_place(role->kind, role->number);
		role_start(role);
	}
	processes_on_death(role_died);
	supervise(NULL);
	fibers_run(now_ns + BEGIN_NS);
	for (uint32_t i = 0; i < plan->kills + plan->stops; i++)
		timer_at(fibers_now_ns() + draw_scale(&all.draws, 1000,
		    plan->spread * NS_PER_MS + NS_PER_MS),
		    strike, i < plan->kills ? &all : NULL);
}
