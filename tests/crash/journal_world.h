/* SPDX-License-Identifier: ISC */
/*
 * A disk, a journal of messages upon it, its owner (who puts, starts and finishes messages
 * by chance) and the oracle.  The owner of a world that was made by a crash knows nothing.
 */
#ifndef TESTS_CRASH_JOURNAL_WORLD_H
#define TESTS_CRASH_JOURNAL_WORLD_H

#include "journal/log.h"
#include "journal/queue/messages.h"
#include "tests/crash/disk.h"
#include "tests/crash/journal_oracle.h"
#include "tests/unit/random.h"

#define WORLD_TRACE 48

enum world_status { WORLD_NONE, WORLD_WAITING, WORLD_HELD, WORLD_WORKING };

enum world_disk_fault { WORLD_NO_FAULT, WORLD_FULL, WORLD_READ_ONLY, WORLD_WRITE_ERROR,
	WORLD_SHORT_WRITE, WORLD_SYNC_ERROR, WORLD_NAMES_ERROR, WORLD_READ_ERROR,
	WORLD_NO_REMOVAL, WORLD_REMOVED, WORLD_FAULTS };

struct world_kind {
	uint32_t file_size;
	unsigned messages;	/* at most ORACLE_MESSAGES */
	int64_t sync_delay_ns, envelope_delay_ns, positions_ns;
	bool sync_names_too;
	bool faults;		/* the disk fails now and then */
};

struct world {
	struct world_kind kind;
	struct disk *disk;
	struct journal_storage *storage;
	struct messages *messages;
	struct journal_log *log;	/* theirs */
	struct oracle oracle;
	uint8_t status[ORACLE_MESSAGES];
	int64_t due_ns[ORACLE_MESSAGES];	/* of its envelope */
	struct random random;
	int64_t wall_ns, now_ns;	/* two clocks: a boot begins the second anew */
	bool failed;		/* told on standard error */
	bool renew;		/* asked for */
	bool excused;		/* the disk failed, or may fail yet: nothing need be written */
	bool robbed;		/* files were removed: what had been may be there again */
	bool damaged;		/* records were: mixtures of what had been */
	uint64_t renewals, faults;
	enum world_disk_fault fault;
	int64_t fault_until_ns;
	uint64_t unreadable_before;	/* the fault */

	/* a look */
	bool shown[ORACLE_MESSAGES];
	struct oracle_state found[ORACLE_MESSAGES];
	/* a look through the directories: those that are not there */
	bool missing[ORACLE_MESSAGES];

	char trace[WORLD_TRACE][96];	/* what was done last */
	unsigned traced;
};

/* On this disk, which the world then owns; `oracle' is copied (NULL: an empty journal). */
void world_open(struct world *world, const struct world_kind *kind, struct disk *disk,
    const struct oracle *oracle, uint64_t seed, int64_t wall_ns);
void world_close(struct world *world);

/* The owner does something. */
void world_step(struct world *world);

/* Recovers, and compares all that is there with the oracle.  False: one does not fit the
 * other, and that was told. */
bool world_recover(struct world *world);
/* Every message that waits for no more than a time is given within it. */
void world_drain(struct world *world);
/* Writes and syncs all: then nothing but the newest state is allowed. */
void world_sync(struct world *world);
/* All records that a disk has, on standard error. */
void world_dump(struct disk *disk);
/* What it did last, on standard error. */
void world_print_trace(const struct world *world);
/* What was found is what was acknowledged from now on; or (`safe' is false: only the process
 * had died) once it was synced. */
void world_settle(struct world *world, bool safe);

/* Of a kind with faults: for disk->fault, and what a step does besides. */
int world_fault(void *world, const struct disk_step *step);
void world_fault_step(struct world *world);

/* Some of it could not be read for so long that it was given up. */
bool world_gave_up(const struct world *world);

/* A start upon a disk that fails for some seconds: before world_open, and after it.  Nothing
 * of what the disk has may be lost by it. */
struct bad_start {
	const char *what;
	enum disk_act act;
	int error;
	unsigned from, count, seen;	/* so many of these acts fail, behind so many */
	unsigned fails;			/* count, as it was begun */
	bool full;
};
void world_bad_start(struct bad_start *start, struct disk *disk, struct random *random);
void world_bad_end(struct bad_start *start, struct world *world);

bool world_knows(struct world *world, unsigned message);
void world_put_again(struct world *world, unsigned message);
void world_fail(struct world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
#endif
