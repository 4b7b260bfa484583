/* SPDX-License-Identifier: ISC */
/*
 * A role's end of its link to the supervisor for commands on a Postfix
 * (wire/link/mta_order.h): a socket of datagrams, role_context.mta_fd.  Nothing here
 * waits.  One thread.
 */
#ifndef FRONT_MTA_LINK_H
#define FRONT_MTA_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/link/mta_order.h"

struct mta_link {
	int fd;			/* -1: there is none; poll it for reading */
};

/* Asks.  False: not now, as there is no link or it is full. */
bool mta_link_ask(struct mta_link *link, enum mta_verb verb, unsigned mta,
    uint64_t generation, const char *queue_id);

enum mta_news { MTA_NO_NEWS, MTA_OUTCOME, MTA_OUTPUT, MTA_LINK_ENDED };

/* What the supervisor says next.  MTA_OUTPUT: what `postqueue -j` of
 * outcome->mta says, to be read from *output_fd (non-blocking; the caller's) until
 * its end; the command's MTA_OUTCOME comes when it has ended.  MTA_LINK_ENDED: the
 * supervisor will not answer any more: mta_link_close. */
enum mta_news mta_link_next(struct mta_link *link, struct mta_outcome *outcome,
    int *output_fd);

void mta_link_close(struct mta_link *link);

#endif
