/* SPDX-License-Identifier: ISC */
/*
 * Crashes of a journal of messages: owners that put, start, deliver and finish by chance,
 * upon a disk that keeps no more than it must (tests/crash/disk.h); at every write, sync,
 * creation and removal of theirs the machine dies, or the process alone, the journal is
 * opened upon what is left, and what it says is held against what had been acknowledged.
 * Some die once more while they recover; some go on after it, and die then.
 *
 *	journal_points [-n POINTS] [-s SEED] [-p POINT]
 *
 * A failure tells the point: -s SEED -p POINT goes to it alone, and shows the records
 * that the crash left.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/crash/journal_world.h"

#define STEPS		1200	/* of a workload */
#define DEPTH_MAX	2
#define ANY_POINT	UINT64_MAX
#define FIRST_ALL	600	/* points at which everything is tried, at the begin */

static const char *const crash_words[DISK_CRASHES] = { "process killed", "unsynced lost",
	"last write torn", "any of the unsynced lost" };
static const char *const act_words[DISK_ACTS] = { "open", "create", "read", "write",
	"truncate", "sync", "sync of the directory", "unlink", "list", "lock" };

struct run {
	uint64_t seed, wanted, only;
	uint64_t points, crashes[DISK_CRASHES], again, went_on, drained, bad_starts, steps;
	uint64_t acts[DISK_ACTS];
	uint64_t files_begun, files_deleted, marks, syncs, faults, renewals, anew;
	bool failed;
	uint32_t last_unlinked;
};

static struct run run;

/* --- after a crash ----------------------------------------------------------------------- */

/* Dies when so many more boundaries have passed. */
struct trap {
	struct disk *disk, *caught;
	struct random *random;
	enum disk_crash crash;
	unsigned left;
};

static void spring(void *context, const struct disk_step *step) {
	struct trap *trap = context;

	(void)step;
	if (trap->caught == NULL && trap->left-- == 0)
		trap->caught = disk_crash(trap->disk, trap->crash, trap->random);
}

static enum disk_crash some_crash(struct random *random) {
	static const enum disk_crash choice[16] = {
		DISK_CRASH_KEEP, DISK_CRASH_KEEP, DISK_CRASH_DROP, DISK_CRASH_DROP,
		DISK_CRASH_TORN, DISK_CRASH_TORN, DISK_CRASH_TORN, DISK_CRASH_TORN,
		DISK_CRASH_ANY, DISK_CRASH_ANY, DISK_CRASH_ANY, DISK_CRASH_ANY,
		DISK_CRASH_ANY, DISK_CRASH_ANY, DISK_CRASH_ANY, DISK_CRASH_ANY };

	return choice[random_below(random, 16)];
}

static bool survive(const struct world *from, struct disk *image, bool safe,
    struct random *random, unsigned depth);

/* The journal goes on, and the machine dies again. */
static bool go_on(struct world *world, bool safe, struct random *random, unsigned depth) {
	unsigned steps = random_below(random, 60);
	enum disk_crash crash = some_crash(random);

	run.went_on++;
	world_settle(world, safe);
	for (unsigned i = 0; i < steps && !world->failed; i++)
		world_step(world);
	if (world->failed)
		return false;
	if (random_below(random, 8) == 0) {
		world_drain(world);
		run.drained++;
	}
	if (random_below(random, 2) == 0)
		world_sync(world);
	return !world->failed && survive(world, disk_crash(world->disk, crash, random),
	    crash != DISK_CRASH_KEEP, random, depth + 1);
}

/* `safe': all that is on the image stays, whatever comes. */
static bool survive(const struct world *from, struct disk *image, bool safe,
    struct random *random, unsigned depth) {
	static const unsigned traps[] = { 1, 2, 4, 8, 16, 32 };
	struct trap trap = { .disk = image, .random = random, .crash = some_crash(random),
		.left = random_below(random, traps[random_below(random, 6)]) };
	bool goes_on = depth < DEPTH_MAX && random_below(random, 4) == 0, good;
	bool bad = random_below(random, 12) == 0;
	struct bad_start start;
	struct world_kind kind = from->kind;
	struct world world;

	kind.faults = false;
	if (!bad && depth < DEPTH_MAX && random_below(random, 4) == 0) {
		image->boundary = spring;
		image->context = &trap;
	}
	image->capacity = DISK_UNLIMITED;
	if (bad)
		world_bad_start(&start, image, random);
	world_open(&world, &kind, image, &from->oracle, random_next(random),
	    from->wall_ns + random_below(random, 3000) * NS_PER_MS);
	/* what was synced before a fault is there after it, but what was robbed or given up */
	world.excused = from->excused && world_gave_up(from);
	world.robbed = from->robbed;
	if (bad)
		world_bad_end(&start, &world);
	good = world_recover(&world);
	image->boundary = NULL;
	if (good && goes_on)
		good = go_on(&world, safe, random, depth);
	run.bad_starts += bad;
	if (!good) {
		fprintf(stderr, "after the crash (depth %u)%s%s (%u from %u):\n", depth,
		    bad ? ", upon a bad disk: " : "", bad ? start.what : "",
		    bad ? start.fails : 0, bad ? start.from : 0);
		world_print_trace(&world);
	}
	world_close(&world);
	good = good && !world.failed;
	if (trap.caught != NULL && good) {
		run.again++;
		good = survive(from, trap.caught, safe || trap.crash != DISK_CRASH_KEEP, random,
		    depth + 1);
		if (!good)
			fprintf(stderr, "it was the second crash, in recovery: %s\n",
			    crash_words[trap.crash]);
	} else {
		disk_free(trap.caught);
	}
	return good;
}

/* --- the points ------------------------------------------------------------------------------ */

static void point(struct world *world, const struct disk_step *step, enum disk_crash crash) {
	uint64_t number = run.points++;
	struct random random = { run.seed ^ number * UINT64_C(0xd1342543de82ef95) };

	(void)random_next(&random);
	if (run.failed || number >= run.wanted || (run.only != ANY_POINT && number != run.only))
		return;
	run.crashes[crash]++;
	if (survive(world, disk_crash(world->disk, crash, &random), crash != DISK_CRASH_KEEP,
		&random, 0))
		return;
	run.failed = true;
	if (run.only != ANY_POINT) {
		struct random same = { run.seed ^ number * UINT64_C(0xd1342543de82ef95) };
		struct disk *image;

		(void)random_next(&same);
		image = disk_crash(world->disk, crash, &same);
		world_dump(image);
		disk_free(image);
	}
	fprintf(stderr, "point %" PRIu64 " of seed %" PRIu64 ": %s after %s of %s, %" PRIu64
	    " + %zu; before it:\n", number, run.seed, crash_words[crash],
	    act_words[step->act], step->name, step->offset, step->length);
	world_print_trace(world);
}

static bool is_older(void *context, const char *name) {
	uint32_t number = journal_file_number(name);

	if (number != 0 && number < run.last_unlinked)
		*(bool *)context = true;
	return true;
}

static void boundary(void *context, const struct disk_step *step) {
	struct world *world = context;
	struct random random = { run.seed + run.points * 77 };
	bool older = false;

	run.acts[step->act]++;
	if (world->messages != NULL)
		oracle_synced(&world->oracle, journal_log_synced(messages_log(world->messages)));
	/* one with which a bad disk was tried goes at once */
	if (step->act == DISK_UNLINK && !world->excused &&
	    journal_file_number(step->name) != 0) {
		run.last_unlinked = journal_file_number(step->name);
		disk_list(world->disk, is_older, &older);
		if (older)
			world_fail(world, "%s is deleted before an older one", step->name);
	}
	if (run.points < FIRST_ALL) {
		for (unsigned i = 0; i < DISK_CRASHES; i++)
			point(world, step, i);
		point(world, step, DISK_CRASH_ANY);
	} else {
		(void)random_next(&random);
		point(world, step, some_crash(&random));
	}
}

static void workload(uint64_t number) {
	static const uint32_t sizes[] = { 4096, 4096, 8192, 16384 };
	struct random random = { run.seed + number };
	struct journal_log_counts log;
	struct messages_totals totals;
	struct world_kind kind = { .file_size = sizes[random_below(&random, 4)],
		.messages = 8 + random_below(&random, ORACLE_MESSAGES - 7),
		.sync_delay_ns = random_below(&random, 2) * 100 * NS_PER_MS,
		.envelope_delay_ns = random_below(&random, 2) * NS_PER_SECOND,
		.positions_ns = (1 + random_below(&random, 20)) * 100 * NS_PER_MS,
		.sync_names_too = random_below(&random, 4) == 0,
		.faults = number % 4 == 3 };
	struct disk *disk = disk_new();
	struct world world;

	disk->sync_names_too = kind.sync_names_too;
	disk->context = &world;
	memset(&world, 0, sizeof(world));
	run.last_unlinked = 0;
	disk->boundary = boundary;
	world_open(&world, &kind, disk, NULL, random_next(&random), 0);
	if (world_recover(&world))
		world_settle(&world, true);
	if (kind.faults)
		disk->fault = world_fault;
	for (unsigned i = 0; i < STEPS && !run.failed && !world.failed &&
	    run.points < run.wanted; i++) {
		world_step(&world);
		run.steps++;
	}
	disk->boundary = NULL;
	disk->fault = NULL;
	journal_log_count(world.log, &log);
	messages_count(world.messages, &totals);
	run.files_begun += log.files_begun;
	run.files_deleted += log.files_deleted;
	run.marks += log.marks;
	run.syncs += log.syncs;
	run.anew += totals.written_anew;
	run.faults += world.faults;
	run.renewals += world.renewals;
	if (world.failed && !run.failed) {
		run.failed = true;
		fprintf(stderr, "in workload %" PRIu64 " of seed %" PRIu64 ":\n", number, run.seed);
		world_print_trace(&world);
	}
	world_close(&world);
	run.failed = run.failed || world.failed;
}

static void report(void) {
	printf("points %" PRIu64 " (", run.points < run.wanted ? run.points : run.wanted);
	for (unsigned i = 0; i < DISK_CRASHES; i++)
		printf("%s%s %" PRIu64, i > 0 ? ", " : "", crash_words[i], run.crashes[i]);
	printf("), %" PRIu64 " died again in recovery, %" PRIu64 " went on\n", run.again,
	    run.went_on);
	printf("all that waited was given %" PRIu64 " times; %" PRIu64 " began upon a bad disk\n",
	    run.drained, run.bad_starts);
	printf("steps %" PRIu64 ": creations %" PRIu64 ", writes %" PRIu64 ", syncs %" PRIu64
	    ", of the directory %" PRIu64 ", removals %" PRIu64 "; marks %" PRIu64
	    ", files begun %" PRIu64 ", deleted %" PRIu64 ", envelopes written anew %" PRIu64
	    "\n", run.steps, run.acts[DISK_CREATE], run.acts[DISK_WRITE], run.acts[DISK_SYNC],
	    run.acts[DISK_SYNC_NAMES], run.acts[DISK_UNLINK], run.marks, run.files_begun,
	    run.files_deleted, run.anew);
	printf("faults of the disk %" PRIu64 ", renewals %" PRIu64 "\n", run.faults,
	    run.renewals);
	if (!run.failed && run.only == ANY_POINT && run.wanted >= 10000 &&
	    (run.files_deleted == 0 || run.marks == 0 || run.again == 0)) {
		printf("nothing was deleted, or marked: this shows nothing\n");
		run.failed = true;
	}
}

int main(int argc, char **argv) {
	int option;

	run.wanted = 10000;
	run.only = ANY_POINT;
	run.seed = random_seed();
	while ((option = getopt(argc, argv, "n:s:p:")) != -1) {
		switch (option) {
		case 'n': run.wanted = strtoull(optarg, NULL, 10); break;
		case 's': run.seed = strtoull(optarg, NULL, 10); break;
		case 'p': run.only = strtoull(optarg, NULL, 10); break;
		default: return 2;
		}
	}
	printf("seed %" PRIu64 "\n", run.seed);
	fflush(stdout);
	for (uint64_t i = 0; run.points < run.wanted && !run.failed; i++)
		workload(i);
	report();
	printf("%s\n", run.failed ? "FAILED" : "ok");
	return run.failed;
}
