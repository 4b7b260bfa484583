/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Locks that survive their owner's death and never hang a caller.
 * ERRORS   What cannot happen with a sound mutex (EINVAL, ENOTRECOVERABLE) is a
 *          bug: whoever repairs always says lock_repaired before giving back.
 */
#include "segment/lock.h"

#include <errno.h>
#include <time.h>

#include "base/clock.h"
#include "base/diag.h"
#include "base/tsan.h"

#define LOCK_WAIT_NS	(50 * NS_PER_MS)
#define LOCK_STUCK_NS	NS_PER_SECOND

void lock_init(pthread_mutex_t *mutex) {
	pthread_mutexattr_t attributes;

	MUST(pthread_mutexattr_init(&attributes) == 0);
	MUST(pthread_mutexattr_setpshared(&attributes,
		 PTHREAD_PROCESS_SHARED) == 0);
	MUST(pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST) == 0);
	MUST(pthread_mutex_init(mutex, &attributes) == 0);
	pthread_mutexattr_destroy(&attributes);
}

/* ThreadSanitizer, and other C libraries than glibc, know timedlock, which goes by the
 * wall clock, but not clocklock. */
#if defined(BASE_TSAN) || !defined(__GLIBC__)
#define WAIT_CLOCK CLOCK_REALTIME
#define wait_until(mutex, until) pthread_mutex_timedlock(mutex, until)
#else
#define WAIT_CLOCK CLOCK_MONOTONIC
#define wait_until(mutex, until) \
	pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, until)
#endif

static int wait_a_little(pthread_mutex_t *mutex) {
	struct timespec until;

	clock_gettime(WAIT_CLOCK, &until);
	until.tv_nsec += LOCK_WAIT_NS;
	if (until.tv_nsec >= NS_PER_SECOND) {
		until.tv_nsec -= NS_PER_SECOND;
		until.tv_sec++;
	}
	return wait_until(mutex, &until);
}

enum lock_result lock_take(pthread_mutex_t *mutex,
    _Atomic int64_t *stuck_until_ns, int64_t now_ns) {
	int error = pthread_mutex_trylock(mutex);

	if (error == EBUSY) {
		if (now_ns < atomic_load_explicit(stuck_until_ns,
				 memory_order_relaxed))
			return LOCK_TIMED_OUT;
		error = wait_a_little(mutex);
	}
	if (error == 0 || error == EOWNERDEAD) {
		if (atomic_load_explicit(stuck_until_ns,
			memory_order_relaxed) != 0)
			atomic_store_explicit(stuck_until_ns, 0,
			    memory_order_relaxed);
		return error == 0 ? LOCK_HELD : LOCK_INHERITED;
	}
	MUST(error == ETIMEDOUT);
	atomic_store_explicit(stuck_until_ns, now_ns + LOCK_STUCK_NS,
	    memory_order_relaxed);
	return LOCK_TIMED_OUT;
}

void lock_repaired(pthread_mutex_t *mutex) {
	MUST(pthread_mutex_consistent(mutex) == 0);
}

void lock_give(pthread_mutex_t *mutex) {
	MUST(pthread_mutex_unlock(mutex) == 0);
}
