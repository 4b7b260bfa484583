/* SPDX-License-Identifier: ISC */
/*
 * How many recipients are in memory (DESIGN section 9; contrib/documents.md,
 * rows P31 to P39).  At first a message gets
 * message_recipient_minimum slots, and what message_recipient_limit leaves; then each
 * transport gives its recipient_limit slots to the oldest job whose message has unread
 * recipients, and passes on what becomes free; an unread job that preempts another gets half
 * of what is left in the transport's pool and its extra_recipient_limit.  The slots of all
 * jobs of a message count for the message.
 *
 * job_next asks for a batch when a job comes up and recipient_refill_limit slots are free, or
 * any after recipient_refill_delay, or nothing can be taken otherwise.
 *
 * In memory are at most
 *	max(minimum x active_limit + sum(recipient_limit + extra_recipient_limit),
 *	    message_recipient_limit)
 * recipients, and as many by that formula for each transport alone (a message of several
 * transports can lend one's slots to another, though), if batches are no bigger than told here.
 * With qmgr that holds by and large: what is there by message_recipient_limit comes on top of
 * what slots allow.  Here nothing is read, and no message opened, that would break it.
 *
 * The settings stand in policy/schedule/job.h, and so do all rules about memory and threads.
 */
#ifndef POLICY_POOL_H
#define POLICY_POOL_H

#include "policy/schedule/job.h"

/* How many recipients of a new message to read (>= 1; 0 for one that comes back, and has to
 * wait). */
uint32_t pool_first(const struct job_board *board, uint32_t message);

/* How many more of a message that has been read in part (0: none now; with nothing left in
 * memory at least 1). */
uint32_t pool_room(const struct job_board *board, uint32_t message);

/* A transport's slots that are not given out (< 0: so many of its extra pool are). */
int64_t pool_unused(const struct job_board *board, uint32_t transport);

#endif
