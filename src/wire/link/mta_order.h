/* SPDX-License-Identifier: ISC */
/*
 * What roles ask the supervisor to run as root on a Postfix, and what became of
 * it: one control frame (wire/link/control_frame.h) a datagram, sans I/O.
 *
 *	command=requeue mta=N generation=G id=QUEUE-ID	postqueue -c DIR -i ID
 *	command=list mta=N generation=G			postqueue -c DIR -j
 *	command=reload-mta mta=N generation=G		postfix -c DIR reload
 *	done=WORD mta=N exit=N [id=QUEUE-ID]		the answer to each
 *	done=WORD mta=N failed=WORD [id=QUEUE-ID]	not-run, too-soon, killed
 *
 * What the list says comes as a pipe that is sent along with a datagram
 *	output=list mta=N
 * before it.
 *
 * Only numbers and a queue id of letters and digits pass; the supervisor takes
 * programs and directories from its configuration.
 */
#ifndef WIRE_MTA_ORDER_H
#define WIRE_MTA_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MTA_ORDER_MAX		256	/* bytes of a datagram */
#define MTA_ORDER_ID_MAX	31

enum mta_verb { MTA_REQUEUE, MTA_LIST, MTA_RELOAD, MTA_VERB_COUNT };
/* "requeue", "list", "reload-mta" */
const char *mta_verb_word(enum mta_verb verb);

struct mta_order {
	enum mta_verb verb;
	unsigned mta;		/* of the generation */
	uint64_t generation;	/* its number: of another one nothing is run */
	char queue_id[MTA_ORDER_ID_MAX + 1];	/* REQUEUE */
};

/* The exit code of the command, or one of these: */
#define MTA_NOT_RUN	(-1)	/* refused, or it could not be started */
#define MTA_TOO_SOON	(-2)	/* the rate does not allow it now */
#define MTA_KILLED	(-3)	/* it took too long, or died of a signal */
struct mta_outcome {
	enum mta_verb verb;
	unsigned mta;
	int code;
	char queue_id[MTA_ORDER_ID_MAX + 1];
};

/* Is it a queue id of Postfix: 6 to 31 letters and digits? */
bool mta_queue_id_is_sound(const char *text, size_t length);

/* The datagram's length. */
size_t mta_order_write(const struct mta_order *order, char out[MTA_ORDER_MAX]);
size_t mta_output_write(unsigned mta, char out[MTA_ORDER_MAX]);
size_t mta_outcome_write(const struct mta_outcome *outcome, char out[MTA_ORDER_MAX]);

/* `data` is changed.  False: *why is static text. */
bool mta_order_parse(char *data, size_t length, struct mta_order *order, const char **why);
/* *is_output: it is about the list's pipe; of *outcome only verb and mta are set. */
bool mta_outcome_parse(char *data, size_t length, struct mta_outcome *outcome,
    bool *is_output, const char **why);

#endif
