/* SPDX-License-Identifier: ISC */
/* The journal of queue_world.h's queue, in a directory of its own. */
#ifndef TESTS_QUEUE_WORLD_JOURNAL_H
#define TESTS_QUEUE_WORLD_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/queue/queue_journal.h"

/* Worlds that are opened from now on have one; at first as the program was compiled. */
extern bool world_has_journal;
/* What is added to the wall clock, which else goes as the world's. */
extern int64_t world_wall_ns;

/* An errno: nothing can be written; or, world_disk_is_gone, not even read. */
extern int world_disk_error;
extern bool world_disk_is_gone;

/* Of a new queue; the first time in an empty directory. */
void world_journal_open(struct queue *queue, int64_t now_ns);
/* The directory is gone. */
void world_journal_remove(void);
/* Its files are removed underneath. */
void world_journal_empty(void);
const char *world_journal_path(void);

struct queue_journal_view {
	bool is_there;		/* there is a journal */
	bool is_degraded;	/* its disk fails: nothing is written */
	bool is_known;		/* all of it was read since the start */
	uint64_t messages;	/* in it */
	uint64_t more;		/* those that are in no memory: they come when they are due */
};
struct queue_journal_view world_journal(void);
/* What waits there and not in memory. */
void world_each_in_journal(bool (*each)(void *context, const struct queue_row *row),
    void *context);
/* As posternctl lists them: of memory and journal. */
void world_each_destination(bool (*each)(void *context,
    const struct queue_destination_row *row), void *context);

#endif
