/* SPDX-License-Identifier: ISC */
/* Apart from the clock itself, which tests replace. */
#include <time.h>

#include "base/clock.h"

void clock_pause(int64_t ns) {
	const struct timespec pause = { .tv_sec = (time_t)(ns / NS_PER_SECOND),
		.tv_nsec = (long)(ns % NS_PER_SECOND) };

	(void)nanosleep(&pause, NULL);
}
