/* SPDX-License-Identifier: ISC */
/* One clock for all state: CLOCK_BOOTTIME, which no admin can set and which
 * counts suspend.  Read once an event and passed down. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#define NS_PER_SECOND	INT64_C(1000000000)
#define NS_PER_MS	INT64_C(1000000)

int64_t clock_now_ns(void);
/* A clock that steps with the kernel's tick (1 to 10 ms), at a fifth of the price: for
 * windows of a second that nothing outside the process is compared with. */
int64_t clock_coarse_ns(void);
/* CPU time of this thread, the kernel's on its behalf included; a system call. */
int64_t clock_thread_cpu_ns(void);
/* Wall time in seconds since 1970: for display and file headers only. */
int64_t clock_wall_s(void);
/* The same in ms: to tell how old what others dated is, never to measure time. */
int64_t clock_wall_ms(void);
/* The same in ns: for what is written down for another boot. */
int64_t clock_wall_ns(void);

/* Both clocks of one moment, to a few microseconds, also where the process is put off between
 * the two looks: so a time reads the same whenever it is converted. */
void clock_pair(int64_t *now_ns, int64_t *wall_ns);

/* Sleeps so long, or until a signal. */
void clock_pause(int64_t ns);

/* Which boot the clock counts from, a text filled up with NULs; false: unknown. */
#define CLOCK_BOOT_ID	40
bool clock_boot_id(char out[CLOCK_BOOT_ID]);

/* A time that another process wrote, within what sums and differences of two times take: the
 * clock begins at 0, and nothing lasts 146 years. */
static inline int64_t clock_bounded_ns(int64_t time_ns) {
	return time_ns < 0 ? 0 : time_ns > INT64_MAX / 2 ? INT64_MAX / 2 : time_ns;
}

#endif
