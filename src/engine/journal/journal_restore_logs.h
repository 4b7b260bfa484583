/* SPDX-License-Identifier: ISC */
/* How far the logs were read, as the groups of feed/ tell it: the last whole one counts. */
#ifndef ENGINE_JOURNAL_RESTORE_LOGS_H
#define ENGINE_JOURNAL_RESTORE_LOGS_H

#include "engine/engine.h"
#include "journal/record.h"

struct restored_logs {
	struct journal_log_position next[SEGMENT_LOG_FILES];	/* of the group that is read */
	struct journal_log_position last[SEGMENT_LOG_FILES];	/* of the last whole one */
	unsigned next_count, last_count;
	bool known;			/* there was one */
};

void restored_logs_add(struct restored_logs *logs, const struct journal_log_position *position);
/* A group begins: what was added since the last end counts for none. */
void restored_logs_begin(struct restored_logs *logs);
void restored_logs_end(struct restored_logs *logs);

/* Puts them into the segment, in place of what it knows; returns how many.  `boot_ns`: what
 * was written before, by the wall clock, is of another boot: then the number of a file
 * system may be another one, and is looked up anew. */
unsigned restored_logs_put(const struct restored_logs *logs, struct engine *engine,
    const struct generation *generation, int64_t boot_ns);

#endif
