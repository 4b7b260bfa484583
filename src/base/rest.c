/* SPDX-License-Identifier: ISC */
/*
 * MODEL: whoever comes from a look that found nothing decides under the mutex whether to rest,
 * so that no stir falls between.
 */
#include "base/rest.h"

#include <stdatomic.h>
#include <time.h>

#include "base/clock.h"

void rest_init(struct rest *rest, int64_t now_ns) {
	pthread_condattr_t attributes;

	pthread_mutex_init(&rest->mutex, NULL);
	pthread_condattr_init(&attributes);
	(void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&rest->stirred, &attributes);
	pthread_condattr_destroy(&attributes);
	atomic_store(&rest->stirred_ns, now_ns);
}

void rest_stir(struct rest *rest, int64_t now_ns) {
	pthread_mutex_lock(&rest->mutex);
	atomic_store(&rest->stirred_ns, now_ns);
	pthread_cond_broadcast(&rest->stirred);
	pthread_mutex_unlock(&rest->mutex);
}

bool rest_is_lively(const struct rest *rest, int64_t now_ns) {
	return now_ns - atomic_load(&rest->stirred_ns) < REST_LIVELY_NS;
}

/* True: it was lively, and did not rest. */
static bool rest_was_lively(struct rest *rest, int64_t most_ns) {
	struct timespec end;
	bool lively;

	(void)clock_gettime(CLOCK_MONOTONIC, &end);
	most_ns += end.tv_nsec;
	end.tv_sec += (time_t)(most_ns / NS_PER_SECOND);
	end.tv_nsec = (long)(most_ns % NS_PER_SECOND);
	pthread_mutex_lock(&rest->mutex);
	lively = rest_is_lively(rest, clock_now_ns());
	while (!lively && pthread_cond_timedwait(&rest->stirred, &rest->mutex, &end) == 0 &&
	    !rest_is_lively(rest, clock_now_ns()))
		;
	pthread_mutex_unlock(&rest->mutex);
	return lively;
}

void rest_take(struct rest *rest, int64_t turn_ns, int64_t most_ns) {
	if (rest_was_lively(rest, most_ns))
		clock_pause(turn_ns);
}
