/* SPDX-License-Identifier: ISC */
/* A disk that fails for a while, below a journal that goes on. */
#include "tests/crash/journal_world.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"

#define NOTICED_NS	(12 * NS_PER_SECOND)	/* files are looked for each ten seconds */

int world_fault(void *context, const struct disk_step *step)
{
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

static bool note_name(void *context, const char *name)
{
	struct removal *removal = context;

	if (removal->count < 32 && (removal->all ||
		random_below(&removal->world->random, 3) == 0))
		strncpy(removal->names[removal->count++], name, DISK_NAME_MAX - 1);
	return true;
}

static void remove_files(struct world *world)
{
	struct removal removal = { .world = world,
		.all = random_below(&world->random, 4) == 0 };

	(void)disk_list(world->disk, note_name, &removal);
	for (unsigned i = 0; i < removal.count; i++)
		disk_remove(world->disk, removal.names[i]);
}

/* What is not known any more is read from its directory again. */
static bool all_known(struct world *world)
{
	bool all = true;

	for (unsigned i = 0; i < world->kind.messages; i++)
		if (world->status[i] != WORLD_NONE && !world_knows(world, i)) {
			world_put_again(world, i);
			all = false;
		}
	return all;
}

static void calm_down(struct world *world)
{
	if (world->now_ns < world->fault_until_ns + NOTICED_NS || world->renew ||
	    messages_is_degraded(world->messages) || !messages_is_indexed(world->messages) ||
	    messages_synced_through(world->messages) != journal_log_last(world->log) ||
	    !all_known(world))
		return;
	for (unsigned i = 0; i < ORACLE_MESSAGES; i++) {
		struct oracle_state newest = oracle_newest(&world->oracle, i);

		oracle_settle(&world->oracle, i, &newest);
	}
	world->excused = world->robbed = false;
}

void world_fault_step(struct world *world)
{
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
