/* SPDX-License-Identifier: ISC */
/*
 * A queue in virtual time, kept three ways: as a file for each message, as one log with a
 * runner for each retry interval, and as a log for each interval
 * (contrib/documents.md).  The logs are those of journal/queue/messages.h.  What a file
 * for each message costs is counted by rule: a message that comes is written and synced, with
 * its directory; each attempt reads it; each delivery is written and synced; what is deferred
 * is written.  Files of the messages' text are the same in all, and left out.
 */
#ifndef LAB_SIMULATE_QUEUE_H
#define LAB_SIMULATE_QUEUE_H

#include "journal/queue/messages.h"
#include "journal/storage_memory.h"

#define QUEUED_MESSAGES_MAX	1000000u
#define QUEUED_RECIPIENTS_MAX	4000000u
#define QUEUED_LOGS_MAX		MESSAGES_INTERVALS_MAX

struct queue_simulation {
	uint32_t messages, per_second;	/* so many come, in even steps */
	uint32_t recipients;		/* of each, each at a destination of its own */
	uint32_t attempts;		/* then those left are returned */
	uint32_t processes;		/* messages that are delivered at a time */
	int64_t delivery_ns;		/* of one message */
	double deferred;		/* share of deliveries that are deferred, each time */
};

struct queue_cost {
	struct storage_counts disk;
	uint64_t restart_bytes;		/* read by a start when the last message has come */
	uint64_t memory_bytes;		/* most, of an index */
};

struct queue_result {
	struct queue_cost files, logs;
	uint64_t delivered, returned;	/* recipients */
	uint64_t attempts, written_anew;
	int64_t duration_ns;
};

void simulate_queue_defaults(struct queue_simulation *simulation);
/* How many logs there are where each retry interval has one. */
unsigned simulate_queue_logs(void);

/* With so many logs (1, or simulate_queue_logs()), one in each storage.  `in_memory`: the
 * storages are of journal_storage_memory, and counted; else costs of logs are 0.  False: no
 * memory, or a journal that does not open.  Nothing is random but by a fixed seed. */
bool simulate_queue(const struct queue_simulation *simulation,
    struct journal_storage *const storages[], unsigned logs, bool in_memory,
    struct queue_result *result);

#endif
