/* SPDX-License-Identifier: ISC */
/* The clocks.  None can fail on Linux; those of boot and wall time are served
 * without a system call.  Any thread. */
#include "base/clock.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void clock_read(clockid_t clock, struct timespec *out) {
	if (clock_gettime(clock, out) != 0)
		abort();
}

int64_t clock_now_ns(void) {
	struct timespec ts;

	clock_read(CLOCK_BOOTTIME, &ts);
	return (int64_t)ts.tv_sec * NS_PER_SECOND + (int64_t)ts.tv_nsec;
}

int64_t clock_coarse_ns(void) {
	struct timespec ts;

	clock_read(CLOCK_MONOTONIC_COARSE, &ts);
	return (int64_t)ts.tv_sec * NS_PER_SECOND + (int64_t)ts.tv_nsec;
}

int64_t clock_thread_cpu_ns(void) {
	struct timespec ts;

	clock_read(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (int64_t)ts.tv_sec * NS_PER_SECOND + (int64_t)ts.tv_nsec;
}

int64_t clock_wall_s(void) {
	struct timespec ts;

	clock_read(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec;
}

int64_t clock_wall_ns(void) {
	struct timespec ts;

	clock_read(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * NS_PER_SECOND + ts.tv_nsec;
}

int64_t clock_wall_ms(void) {
	struct timespec ts;

	clock_read(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * 1000 + (int64_t)ts.tv_nsec / NS_PER_MS;
}

#define PAIR_APART_NS	(2 * NS_PER_MS / 1000)
#define PAIR_TRIES	20

void clock_pair(int64_t *now_ns, int64_t *wall_ns) {
	int64_t narrowest_ns = INT64_MAX;

	for (int i = 0; i < PAIR_TRIES && narrowest_ns > PAIR_APART_NS; i++) {
		int64_t before_ns = clock_now_ns(), between_ns = clock_wall_ns();
		int64_t apart_ns = clock_now_ns() - before_ns;

		if (apart_ns >= narrowest_ns)
			continue;
		narrowest_ns = apart_ns;
		*now_ns = before_ns + apart_ns / 2;
		*wall_ns = between_ns;
	}
}

bool clock_boot_id(char out[CLOCK_BOOT_ID]) {
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t length;

	memset(out, 0, CLOCK_BOOT_ID);
	if (fd < 0)
		return false;
	length = read(fd, out, 36);
	close(fd);
	return length == 36;
}
