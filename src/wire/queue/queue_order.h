/* SPDX-License-Identifier: ISC */
/*
 * What the queue role and the supervisor say to each other: a datagram each, sans I/O, as long
 * as its ids are many.
 *
 *	QUEUE_ORDER_OPEN	a queue file
 *	QUEUE_ORDER_RUN		sendmail -qf -qIID -qIID ...
 *
 * The role asks as much as it likes at a time.  Only numbers, and queue ids of letters and
 * digits, pass; the supervisor takes the program, its user and the directories from its
 * configuration.
 */
#ifndef WIRE_QUEUE_ORDER_H
#define WIRE_QUEUE_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/subprocess.h"
#include "wire/queue/sendmail_queue_file.h"

#define QUEUE_ORDER_IDS_MAX	64	/* of one run */
/* Sendmail's own CheckpointInterval: with a larger one more is delivered twice when a run is
 * killed than Sendmail itself would. */
#define QUEUE_CHECKPOINT_MOST	1000

/* The last of either datagram. */
struct queue_order_ids {
	uint32_t count;
	char list[QUEUE_ORDER_IDS_MAX][SENDMAIL_QUEUE_ID_MAX + 1];
};
/* False: it is no id, or there are too many. */
bool queue_order_add_id(struct queue_order_ids *ids, const char *id);

enum queue_verb { QUEUE_ORDER_OPEN, QUEUE_ORDER_RUN };

struct queue_order {
	uint64_t generation;	/* RUN: of another one nothing is run */
	uint32_t verb;		/* enum queue_verb */
	uint32_t directory;	/* of the role's table */
	uint32_t ticket;	/* the answer has it */
	uint32_t brief;		/* RUN: 1: short time limits for connecting */
	uint32_t checkpoint;	/* RUN: its files are written after so many recipients, 1 to
				 * QUEUE_CHECKPOINT_MOST */
	struct queue_order_ids ids;	/* OPEN: one */
};

enum queue_news {
	QUEUE_OPENED,		/* ticket; error: errno, or 0 with the descriptor sent along */
	QUEUE_STARTED,		/* ticket, pid; error: errno, or 0 */
	QUEUE_ENDED,		/* pid, how, number */
	QUEUE_LIVES,		/* started for an earlier role: pid, directory, ids */
	QUEUE_AGAIN,		/* the role is to end: directories are to be opened anew */
	QUEUE_NEWS_COUNT
};

struct queue_tell {
	uint32_t news;		/* enum queue_news */
	uint32_t ticket;
	uint32_t pid;
	uint32_t error;
	uint32_t directory;
	uint32_t how;		/* enum subprocess_how */
	uint32_t number;	/* exit code, signal or errno */
	struct queue_order_ids ids;
};

/* The datagram's length. */
size_t queue_order_length(const struct queue_order *order);
size_t queue_tell_length(const struct queue_tell *tell);

/* Is the datagram one?  False: *why is static text. */
bool queue_order_read(const void *data, size_t length, struct queue_order *order,
    const char **why);
bool queue_tell_read(const void *data, size_t length, struct queue_tell *tell,
    const char **why);

#endif
