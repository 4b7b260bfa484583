/* SPDX-License-Identifier: ISC */
/* Decisions out of the rings of the state file, copied and put in the order of their times.
 * One thread. */
#ifndef VIEW_DECIDED_BATCH_H
#define VIEW_DECIDED_BATCH_H

#include "segment/reader.h"

struct decided_batch {
	bool (*wants)(const void *context, const struct decided *decided);	/* NULL: all */
	const void *context;
	size_t most;			/* of a ring at once, the last ones; 0: all */
	struct decided *list;		/* the caller frees it */
	size_t count, size;
	size_t begun, taken;		/* of the ring that is read: where in the list, how many */
	bool no_memory;
};

/* Adds those of both rings: all, or what the cursors have not passed (as
 * reader_decisions_follow). */
void decided_batch_read(struct decided_batch *batch, const struct segment *reader);
void decided_batch_follow(struct decided_batch *batch, const struct segment *reader,
    struct decisions_cursor cursors[DECIDED_RINGS], int64_t now_ns, uint64_t *lost);

void decided_batch_sort(struct decided_batch *batch, bool newest_first);

#endif
