/* SPDX-License-Identifier: ISC */
/*
 * What the queue role and the supervisor say to each other: one control frame
 * (wire/link/control_frame.h) a datagram, sans I/O.
 *
 * The role asks, as much as it likes at a time:
 *	open=qfID directory=N ticket=T			a queue file
 *	run=ID,ID... directory=N ticket=T generation=G brief=0|1 checkpoint=N
 *							sendmail -qf -qIID -qIID ...
 * The supervisor says:
 *	opened=T error=E	E: errno, or 0 with the descriptor sent along
 *	started=T pid=P error=E	E: errno, or 0
 *	ended=P exit=N | signal=N | error=E	E: errno, it could not be executed
 *	lives=P directory=N ids=ID,ID...	started for an earlier role
 *	again=1			the role is to end: directories are to be opened anew
 *
 * Only numbers, and queue ids of letters and digits, pass; the supervisor takes the
 * program, its user and the directories from its configuration.
 */
#ifndef WIRE_QUEUE_ORDER_H
#define WIRE_QUEUE_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/queue/sendmail_queue_file.h"

#define QUEUE_ORDER_MAX		4096	/* bytes of a datagram */
#define QUEUE_ORDER_IDS_MAX	64	/* of one run */
/* Sendmail's own CheckpointInterval: with a larger one more is delivered twice when a run is
 * killed than Sendmail itself would. */
#define QUEUE_CHECKPOINT_MOST	1000

struct queue_order_ids {
	unsigned count;
	char list[QUEUE_ORDER_IDS_MAX][SENDMAIL_QUEUE_ID_MAX + 1];
};
/* False: it is no id, or there are too many. */
bool queue_order_add_id(struct queue_order_ids *ids, const char *id);

enum queue_verb { QUEUE_ORDER_OPEN, QUEUE_ORDER_RUN };

struct queue_order {
	enum queue_verb verb;
	uint32_t directory;	/* of the role's table */
	uint32_t ticket;	/* the answer has it */
	uint64_t generation;	/* RUN: of another one nothing is run */
	bool brief;		/* RUN: short time limits for connecting */
	uint32_t checkpoint;	/* RUN: its files are written after so many recipients, 1 to
				 * QUEUE_CHECKPOINT_MOST */
	struct queue_order_ids ids;	/* OPEN: one */
};

enum queue_news {
	QUEUE_OPENED,		/* ticket, error */
	QUEUE_STARTED,		/* ticket, pid, error */
	QUEUE_ENDED,		/* pid, how, number */
	QUEUE_LIVES,		/* pid, directory, ids */
	QUEUE_AGAIN,
};
enum queue_end { QUEUE_END_EXIT, QUEUE_END_SIGNAL, QUEUE_END_NOT_RUN };

struct queue_tell {
	enum queue_news news;
	uint32_t ticket;
	uint32_t pid;
	uint32_t error;
	uint32_t directory;
	enum queue_end how;
	uint32_t number;	/* exit code, signal or errno */
	struct queue_order_ids ids;
};

/* The datagram's length. */
size_t queue_order_write(const struct queue_order *order, char out[QUEUE_ORDER_MAX]);
size_t queue_tell_write(const struct queue_tell *tell, char out[QUEUE_ORDER_MAX]);

/* `data` is changed.  False: *why is static text. */
bool queue_order_parse(char *data, size_t length, struct queue_order *order,
    const char **why);
bool queue_tell_parse(char *data, size_t length, struct queue_tell *tell, const char **why);

#endif
