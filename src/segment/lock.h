/* SPDX-License-Identifier: ISC */
/* Robust, process-shared mutexes that are not waited for beyond 50 ms. */
#ifndef SEGMENT_LOCK_H
#define SEGMENT_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

enum lock_result {
	LOCK_HELD,
	LOCK_INHERITED,		/* held; its owner died: repair, then lock_repaired */
	LOCK_TIMED_OUT,		/* not held: the state counts as unusable */
};

void lock_init(pthread_mutex_t *mutex);

/* Waits 50 ms at most; not at all within a second after somebody waited in
 * vain (*stuck_until_ns), so that one stopped process does not make every
 * question cost 50 ms.  Whoever gets it ends that second. */
enum lock_result lock_take(pthread_mutex_t *mutex,
    _Atomic int64_t *stuck_until_ns, int64_t now_ns);

/* After LOCK_INHERITED, once what the mutex guards is whole again. */
void lock_repaired(pthread_mutex_t *mutex);
void lock_give(pthread_mutex_t *mutex);

#endif
