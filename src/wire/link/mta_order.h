/* SPDX-License-Identifier: ISC */
/*
 * What roles ask the supervisor to run as root on a Postfix, and what became of it: a datagram
 * each, of a fixed size, sans I/O.
 *
 *	MTA_REQUEUE	postqueue -c DIR -i ID
 *	MTA_LIST	postqueue -c DIR -j
 *	MTA_RELOAD	postfix -c DIR reload
 *
 * What the list says comes as a pipe that is sent along with an outcome (is_output) before
 * that of its end.
 *
 * Only numbers and a queue id of letters and digits pass; the supervisor takes
 * programs and directories from its configuration.
 */
#ifndef WIRE_MTA_ORDER_H
#define WIRE_MTA_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MTA_ORDER_ID_MAX	31

enum mta_verb { MTA_REQUEUE, MTA_LIST, MTA_RELOAD, MTA_VERB_COUNT };
/* "requeue", "list", "reload-mta" */
const char *mta_verb_word(enum mta_verb verb);

struct mta_order {
	uint32_t verb;		/* enum mta_verb */
	uint32_t mta;		/* of the generation */
	uint64_t generation;	/* its number: of another one nothing is run */
	char queue_id[MTA_ORDER_ID_MAX + 1];	/* REQUEUE */
};

/* The exit code of the command, or one of these: */
#define MTA_NOT_RUN	(-1)	/* refused, or it could not be started */
#define MTA_TOO_SOON	(-2)	/* the rate does not allow it now */
#define MTA_KILLED	(-3)	/* it took too long, or died of a signal */
struct mta_outcome {
	uint32_t verb;		/* enum mta_verb */
	uint32_t mta;
	int32_t code;
	uint32_t is_output;	/* 1: it is about the list's pipe; code says nothing */
	char queue_id[MTA_ORDER_ID_MAX + 1];
};

/* Is it a queue id of Postfix: 6 to 31 letters and digits? */
bool mta_queue_id_is_sound(const char *text, size_t length);

/* Is the datagram one?  False: *why is static text. */
bool mta_order_read(const void *data, size_t length, struct mta_order *order,
    const char **why);
bool mta_outcome_read(const void *data, size_t length, struct mta_outcome *outcome,
    const char **why);

#endif
