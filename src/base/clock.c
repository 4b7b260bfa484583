/* SPDX-License-Identifier: ISC */
/* The two clocks.  Neither call can fail on Linux; both are served without a
 * system call.  Any thread. */
#include "base/clock.h"

#include <time.h>

#include "base/diag.h"

int64_t clock_now_ns(void)
{
	struct timespec ts;

	MUST(clock_gettime(CLOCK_BOOTTIME, &ts) == 0);
	return (int64_t)ts.tv_sec * NS_PER_SECOND + (int64_t)ts.tv_nsec;
}

int64_t clock_wall_s(void)
{
	struct timespec ts;

	MUST(clock_gettime(CLOCK_REALTIME, &ts) == 0);
	return (int64_t)ts.tv_sec;
}
