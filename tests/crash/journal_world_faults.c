/* SPDX-License-Identifier: ISC */
/* A disk that fails for a while, below a journal that goes on. */
#include "tests/crash/journal_world.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"

#define NOTICED_NS	(12 * NS_PER_SECOND)	/* all files are looked for each ten seconds */

int world_fault(void *context, const struct disk_step *step) {
	struct world *world = context;
	bool often = random_below(&world->random, 2) == 0;

	switch (world->fault) {
	case WORLD_READ_ONLY:
		return step->act == DISK_CREATE || step->act == DISK_WRITE ||
		    step->act == DISK_TRUNCATE || step->act == DISK_UNLINK ||
		    (step->act == DISK_OPEN && step->length == 1) ? EROFS : 0;
	case WORLD_WRITE_ERROR:
		return step->act == DISK_WRITE && often ? EIO : 0;
	case WORLD_SHORT_WRITE:
		return step->act == DISK_WRITE && often ? EINTR : 0;
	case WORLD_SYNC_ERROR:
		return step->act == DISK_SYNC && often ? EIO : 0;
	case WORLD_NAMES_ERROR:
		return step->act == DISK_SYNC_NAMES && often ? EIO : 0;
	case WORLD_READ_ERROR:
		return step->act == DISK_READ && often ? EIO : 0;
	case WORLD_NO_REMOVAL:
		return step->act == DISK_UNLINK && often ? EACCES : 0;
	default:
		return 0;
	}
}

struct removal {
	struct world *world;
	char names[32][DISK_NAME_MAX];
	unsigned count;
	bool all;
};

static bool note_name(void *context, const char *name) {
	struct removal *removal = context;

	if (removal->count < 32 && (removal->all ||
		random_below(&removal->world->random, 3) == 0))
		strncpy(removal->names[removal->count++], name, DISK_NAME_MAX - 1);
	return true;
}

static void remove_files(struct world *world) {
	struct removal removal = { .world = world,
		.all = random_below(&world->random, 4) == 0 };

	(void)disk_list(world->disk, note_name, &removal);
	for (unsigned i = 0; i < removal.count; i++)
		disk_remove(world->disk, removal.names[i]);
}

/* What is not known any more is read from its directory again. */
static bool all_known(struct world *world) {
	bool all = true;

	for (unsigned i = 0; i < world->kind.messages; i++)
		if (world->status[i] != WORLD_NONE && !world_knows(world, i)) {
			world_put_again(world, i);
			all = false;
		}
	return all;
}

static void calm_down(struct world *world) {
	if (world->now_ns < world->fault_until_ns + NOTICED_NS || world->renew ||
	    messages_is_degraded(world->messages) || !messages_is_indexed(world->messages) ||
	    journal_log_synced(messages_log(world->messages)) != journal_log_last(world->log) ||
	    !all_known(world))
		return;
	for (unsigned i = 0; i < ORACLE_MESSAGES; i++) {
		struct oracle_state newest = oracle_newest(&world->oracle, i);

		oracle_settle(&world->oracle, i, &newest);
	}
	world->excused = world->robbed = false;
}

static uint64_t unreadable(const struct world *world) {
	struct messages_totals totals;

	messages_count(world->messages, &totals);
	return totals.unreadable;
}

bool world_gave_up(const struct world *world) {
	return world->robbed || unreadable(world) != world->unreadable_before;
}

void world_fault_step(struct world *world) {
	if (world->fault != WORLD_NO_FAULT) {
		if (world->now_ns < world->fault_until_ns)
			return;
		world->fault = WORLD_NO_FAULT;
		world->disk->capacity = DISK_UNLIMITED;
		world->fault_until_ns = world->now_ns;
	}
	if (world->excused) {
		calm_down(world);
		return;
	}
	if (random_below(&world->random, 150) != 0)
		return;
	world->faults++;
	world->excused = true;
	world->unreadable_before = unreadable(world);
	world->fault = 1 + random_below(&world->random, WORLD_FAULTS - 1);
	world->fault_until_ns = world->now_ns +
	    random_below(&world->random, 8000) * NS_PER_MS;
	if (world->fault == WORLD_FULL)
		world->disk->capacity = disk_used(world->disk) +
		    random_below(&world->random, 3000);
	if (world->fault == WORLD_REMOVED)
		remove_files(world);
	world->robbed = world->fault == WORLD_REMOVED;
}

/* --- starts upon a bad disk ------------------------------------------------------------ */

static int bad_disk(void *context, const struct disk_step *step) {
	struct bad_start *start = context;
	bool changes = step->act == DISK_CREATE || step->act == DISK_WRITE ||
	    step->act == DISK_UNLINK || (step->act == DISK_OPEN && step->length == 1);

	if (start->error == EROFS ? !changes : step->act != start->act)
		return 0;
	start->seen++;
	return start->seen > start->from && start->seen - start->from <= start->count ?
	    start->error : 0;
}

void world_bad_start(struct bad_start *start, struct disk *disk, struct random *random) {
	static const struct bad_start ways[] = {
		{ .what = "full", .full = true },
		{ .what = "no more files", .act = DISK_CREATE, .error = ENOSPC },
		{ .what = "read-only", .error = EROFS },
		{ .what = "locked by another", .act = DISK_LOCK, .error = EAGAIN },
		{ .what = "no list", .act = DISK_LIST, .error = EMFILE },
		{ .what = "half a list", .act = DISK_LIST, .error = EINTR },
		{ .what = "reads fail", .act = DISK_READ, .error = EIO },
		{ .what = "opening fails", .act = DISK_OPEN, .error = EMFILE },
		{ .what = "writes fail", .act = DISK_WRITE, .error = EIO },
		{ .what = "syncs fail", .act = DISK_SYNC, .error = EIO },
	};

	*start = ways[random_below(random, sizeof(ways) / sizeof(ways[0]))];
	start->from = random_below(random, 2) * random_below(random, 6);
	start->count = random_below(random, 2) == 0 ? UINT32_MAX : 1 + random_below(random, 2);
	start->fails = start->count;
	disk->context = start;
	if (start->full)
		disk->capacity = disk_used(disk);
	else
		disk->fault = bad_disk;
}

void world_bad_end(struct bad_start *start, struct world *world) {
	for (unsigned i = 0; i < 30; i++) {
		world->now_ns += 100 * NS_PER_MS;
		(void)messages_turn(world->messages, world->wall_ns, world->now_ns);
	}
	start->count = 0;
	world->disk->fault = NULL;
	world->disk->capacity = DISK_UNLIMITED;
	for (unsigned i = 0; i < 1000 && messages_is_degraded(world->messages); i++) {
		world->now_ns += 100 * NS_PER_MS;
		(void)messages_turn(world->messages, world->wall_ns, world->now_ns);
	}
	if (messages_is_degraded(world->messages))
		world_fail(world, "the disk is good again, the journal is not");
}
