/* SPDX-License-Identifier: ISC */
/*
 * When threads of one process look for work.  While somebody has something for them they take
 * short turns; after that they rest until they are stirred, or something is due.
 */
#ifndef BASE_REST_H
#define BASE_REST_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Turns stay short for so long after the last stir. */
#define REST_LIVELY_NS	INT64_C(2000000000)

struct rest {
	pthread_mutex_t mutex;
	pthread_cond_t stirred;
	_Atomic int64_t stirred_ns;	/* the last time */
};

/* It begins as one that was just stirred; for the life of the process. */
void rest_init(struct rest *rest, int64_t now_ns);

/* There is something to do: whoever rests goes on at once.  Any thread. */
void rest_stir(struct rest *rest, int64_t now_ns);

/* Was it stirred within REST_LIVELY_NS? */
bool rest_is_lively(const struct rest *rest, int64_t now_ns);

/* A thread's wait between two looks: a turn of turn_ns while it is lively; else until it is
 * stirred, at most most_ns.  Many threads. */
void rest_take(struct rest *rest, int64_t turn_ns, int64_t most_ns);

#endif
