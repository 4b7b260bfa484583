/* SPDX-License-Identifier: ISC */
/* What only tests look at. */
#ifndef TESTS_UNIT_JOB_LOOK_H
#define TESTS_UNIT_JOB_LOOK_H

#include "policy/schedule/job_internal.h"

/* A message's part for a queue; zeros: none. */
static inline struct job_peer job_part(const struct job_board *board, uint32_t message,
    uint32_t queue) {
	static const struct job_peer none;
	uint32_t i = job_find(board, message, job_queue_at(board, queue)->transport);
	uint32_t peer = i == JOB_NONE ? JOB_NONE : job_peer_find(board, i, queue);

	return peer == JOB_NONE ? none : *job_peer_at(board, peer);
}

/* The message whose job gets the free slots of the transport; JOB_NONE: none. */
static inline uint32_t pool_next_unread(const struct job_board *board, uint32_t transport) {
	uint32_t i = job_transport_at(board, transport)->next_unread;

	return i == JOB_NONE ? JOB_NONE : job_at(board, i)->message;
}

#endif
