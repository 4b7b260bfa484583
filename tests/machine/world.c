/* SPDX-License-Identifier: ISC */
/*
 * One run: a segment, its roles and the world around them; chaos, then quiet, then the end of
 * all sessions, and quiet again.
 */
#include "tests/machine/world.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/journal/journal_restore.h"
#include "segment/file/internal.h"
#include "tests/machine/mail.h"
#include "tests/machine/nodes.h"
#include "tests/machine/orders.h"
#include "tests/machine/senders.h"

#define QUIET_NS NS_PER_SECOND		/* after this all that is counted is what there is */
#define ADOPT_NS NS_PER_SECOND		/* and after this one who failed open, by two dumps */
#define WELL_NS (12 * NS_PER_SECOND)	/* by then who was stopped or killed is at work again */
#define RELEASE_NS (2 * NS_PER_SECOND)	/* after this all is resumed */
#define MAIL_NS (40 * NS_PER_SECOND)	/* after this all mail is delivered, */
#define MAIL_QUIET_NS (25 * NS_PER_SECOND)	/* and after this no lane is taken for used */
#define WALL_NS (INT64_C(1800000000) * NS_PER_SECOND)

static struct {
	struct plan plan;
	struct draws draws;
	int64_t wall_offset_ns, passed_ns;
	uint64_t digest;
	const struct generation *generation;
	bool tells, is_calm;
	int report_fd;
} world;

struct draws *world_draws(void) {
	return &world.draws;
}

int64_t world_wall_offset_ns(void) {
	return WALL_NS + world.wall_offset_ns;
}

void world_log(const char *format, ...) {
	char line[256];
	va_list list;
	int length = snprintf(line, sizeof(line), "%.9f ", (double)fibers_now_ns() / 1e9);

	va_start(list, format);
	vsnprintf(line + length, sizeof(line) - (size_t)length, format, list);
	va_end(list);
	for (const char *at = line; *at != '\0'; at++)
		world.digest = (world.digest ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
	if (world.tells)
		puts(line);
}

uint64_t world_digest(void) {
	return world.digest;
}

const struct plan *world_plan(void) {
	return &world.plan;
}

void world_fail(const char *property, const char *format, ...) {
	char text[200];
	va_list list;

	va_start(list, format);
	vsnprintf(text, sizeof(text), format, list);
	va_end(list);
	fflush(stdout);
	dprintf(world.report_fd, "%s %s\n", property, text);
	_exit(WORLD_FAILED);
}

static void log_line(void *context, const char *line) {
	(void)context;
	world_log("log: %s", line);
}

static void step_wall(void *argument) {
	int64_t step_ns = draw_scale(&world.draws, NS_PER_MS, 3600 * NS_PER_SECOND);

	(void)argument;
	world.wall_offset_ns += draw_below(&world.draws, 2) == 0 ? step_ns : -step_ns;
	world_log("the wall clock steps");
}

static void tell_news(void *context, const struct journal_news *news) {
	(void)context;
	if (news->kind == JOURNAL_NEWS_DAMAGED)
		world_fail("journal", "room %d: %llu places are damaged", (int)news->room,
		    (unsigned long long)news->lost);
	world_log("journal: news %d of room %d, %llu destinations, %llu logs", (int)news->kind,
	    (int)news->room, (unsigned long long)news->destinations,
	    (unsigned long long)news->logs);
}

const struct journal_listener journal_tells = { tell_news, NULL };

/* As role/run/prepare_begin.c. */
static void restore(struct segment *segment) {
	const struct generation *generation;
	struct engine *engine;
	struct diag diag;
	bool all = false;

	if (engine_open(&engine, segment, segment_role_place(ROLE_KEEPER, 0), &diag) != 0)
		world_fail("prepare", "%s", diag.text);
	generation = engine_pin(engine);
	all = engine_journal_restore(engine, generation, &journal_tells, clock_now_ns(),
	    clock_wall_ns());
	if (!all)
		world_fail("restore", "not all could be read");
	segment_has_learned(segment, all);
	engine_unpin(engine, generation);
}

/* Returns the state's file. */
static int prepare(enum segment_origin origin, bool damaged, struct segment **segment) {
	const struct generation *generation = world.generation;
	struct generation *copy = malloc(generation->bytes);
	struct segment_report report;
	struct diag diag;
	int fd = -1;

	MUST(copy != NULL);
	memcpy(copy, generation, generation->bytes);
	if (segment_prepare(segment, copy, getuid(), getgid(), 1, damaged, &report, &diag) != 0 ||
	    segment_publish(*segment, copy, &diag) != 0 ||
	    (fd = segment_open_file(generation_text(generation, generation->state_path), getuid(),
		&diag)) < 0)
		world_fail("prepare", "%s", diag.text);
	if (report.origin != origin)
		world_fail("adopt", "%s", report.reason);
	check_begin(*segment, copy);
	nodes_main_is(*segment, copy, origin != SEGMENT_ADOPTED);
	check_mail_begin(*segment, origin != SEGMENT_ADOPTED);
	if (segment_is_unlearned(*segment))
		restore(*segment);
	return fd;
}

/* PATH.sessions; of a run without one: nothing. */
static void read_saved(char *text, size_t size) {
	char path[128];
	ssize_t length = 0;
	int fd;

	snprintf(path, sizeof(path), "%s.sessions",
	    generation_text(world.generation, world.generation->state_path));
	if ((fd = open(path, O_RDONLY | O_CLOEXEC)) >= 0) {
		length = read(fd, text, size - 1);
		close(fd);
	}
	text[length > 0 ? length : 0] = '\0';
}

static void make_journal(void) {
	static const char *const rooms[] = { "", "/feed", "/keeper" };
	char path[160];

	for (unsigned i = 0; i < sizeof(rooms) / sizeof(rooms[0]); i++) {
		snprintf(path, sizeof(path), "%s%s", generation_text(world.generation,
		    world.generation->journal.path), rooms[i]);
		MUST(mkdir(path, 0700) == 0);
	}
}

/* The machine crashes: /run is gone, and of the disk what was not synced, or not. */
static void lose_state(void) {
	const char *path = generation_text(world.generation, world.generation->state_path);
	char sessions[128];

	snprintf(sessions, sizeof(sessions), "%s.sessions", path);
	MUST(unlink(path) == 0);
	(void)unlink(sessions);
	disks_crash(&world.draws);
}

/* As after a crash of the supervisor: its roles die with it, and the state is adopted; or made anew
 * from what it held and the sessions as they were saved, as roles died of it; or it is gone with
 * the machine, and what was learned comes out of the journal. */
static void restart(void *argument) {
	static const char *const how[] = { "", ", and the state is damaged", ", and it is gone" };
	uint32_t kind = draw_below(&world.draws, plan_has_mail(&world.plan) ? 3 : 2);
	const struct segment *before = roles_segment();
	struct segment *segment;
	char saved[16384];
	int fd;

	(void)argument;
	if (world.is_calm)
		return;
	read_saved(saved, sizeof(saved));
	world_log("all restart%s", how[kind]);
	roles_end();
	if (kind == 2) {
		lose_state();
		saved[0] = '\0';
	}
	fd = prepare(kind == 0 ? SEGMENT_ADOPTED : kind == 1 ? SEGMENT_REBUILT : SEGMENT_MADE, kind == 1,
	    &segment);
	if (kind > 0) {
		kept_restored(before, segment);
		check_law_begins();
		tcps_are_lost(saved, world.generation);
		senders_are_lost();
		orders_are_lost(segment);
	}
	roles_reopen(segment, fd);
}

/* Runs until all is well, and then for `quiet_ns`. */
static void settle(const char *what, int64_t quiet_ns) {
	int64_t end_ns = fibers_now_ns() + WELL_NS;

	while (!roles_are_well() || !servers_are_quiet()) {
		if (fibers_now_ns() >= end_ns)
			world_fail("progress", "%s: %s", what, roles_are_well() ?
			    "a question was not answered" : "a role is not at work");
		fibers_run(fibers_now_ns() + 10 * NS_PER_MS);
	}
	fibers_run(fibers_now_ns() + quiet_ns);
}

static void release(void) {
	int64_t end_ns = fibers_now_ns() + RELEASE_NS;

	if (!plan_has_mail(&world.plan))
		return;
	orders_check(roles_segment(), generation_text(world.generation,
	    world.generation->state_path));
	while (!orders_release()) {
		if (fibers_now_ns() >= end_ns)
			world_fail("orders", "not all is resumed");
		fibers_run(fibers_now_ns() + 100 * NS_PER_MS);
	}
}

/* Nothing stands in its way any more. */
static void deliver(void) {
	int64_t end_ns = fibers_now_ns() + MAIL_NS;

	while (!mail_is_done() || !senders_are_done()) {
		if (fibers_now_ns() >= end_ns && !senders_are_done())
			senders_stuck(roles_segment(), senders_undone());
		if (fibers_now_ns() >= end_ns)
			mail_stuck("after the last session");
		fibers_run(fibers_now_ns() + 100 * NS_PER_MS);
	}
	if (plan_has_mail(&world.plan))
		fibers_run(fibers_now_ns() + MAIL_QUIET_NS);
}

static void run_phases(void) {
	const char *path = generation_text(world.generation, world.generation->state_path);

	fibers_run(fibers_now_ns() + world.plan.spread * NS_PER_MS + NS_PER_MS);
	world.is_calm = true;
	fibers_calm();
	roles_calm();
	kernel_calm();
	servers_calm();
	mail_calm();
	senders_calm();
	orders_calm();
	nodes_calm();
	world_log("calm");
	settle("after the chaos", QUIET_NS);
	check_quiet(false);
	fibers_run(fibers_now_ns() + ADOPT_NS);
	check_quiet(true);
	servers_finish();
	fibers_run(fibers_now_ns() + 200 * NS_PER_MS);
	servers_leave();
	settle("after the last session", QUIET_NS);
	release();
	deliver();
	check_end();
	check_quiet(true);
	if (plan_has_mail(&world.plan))
		check_mail(path);
	check_canaries();
	if (plan_has_mail(&world.plan))
		orders_outlive_keeper(path);
	nodes_finish();
}

void world_run(const struct plan *plan, const struct generation *generation, bool tells,
    int report_fd) {
	const char *path = generation_text(generation, generation->state_path);
	struct segment *segment;
	int fd;

	world.plan = *plan;
	world.draws.state = plan->seed ^ UINT64_C(0x3071d);
	world.digest = UINT64_C(0xcbf29ce484222325);
	world.tells = tells;
	world.report_fd = report_fd;
	world.generation = plan->nodes > 0 ? nodes_configured(0) : generation;
	log_redirect(log_line, NULL);
	fibers_begin(&world.plan);
	make_journal();
	fd = prepare(SEGMENT_MADE, false, &segment);
	kernel_begin(plan);
	roles_begin(plan, segment, fd, path);
	servers_begin(plan);
	mail_begin(plan);
	senders_begin(plan);
	orders_begin(plan);
	nodes_begin(plan);
	for (uint32_t i = 0; i < plan->steps; i++)
		timer_at(fibers_now_ns() + draw_scale(&world.draws, 1000, plan->spread * NS_PER_MS),
		    step_wall, NULL);
	for (uint32_t i = 0; i < plan->restarts; i++)
		timer_at(fibers_now_ns() + (draw_below(&world.draws, 2) == 0 ?
		    draw_scale(&world.draws, 1000, plan->spread * NS_PER_MS) :
		    (int64_t)draw_below(&world.draws, plan->spread * 1000) * 1000), restart, NULL);
	run_phases();
	fflush(stdout);
	dprintf(report_fd, "ok %016" PRIx64 "\n", world.digest);
	_exit(0);
}
