/* SPDX-License-Identifier: ISC */
/*
 * System calls as the simulated machine answers them (the linker's --wrap leads here).  In the
 * world, before the machine begins and between fibers, waits are over at once.
 */
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "segment/file/lock.h"
#include "tests/machine/fiber.h"
#include "tests/machine/nodes.h"
#include "tests/machine/senders.h"
#include "tests/machine/world.h"

#define LATE_NS (30 * NS_PER_SECOND)	/* of who was stopped on the way */

#ifndef SYS_futex
#define SYS_futex SYS_futex_time64
#endif

int __wrap_clock_gettime(clockid_t clock, struct timespec *out);
pid_t __wrap_gettid(void);
pid_t __wrap_getpid(void);
ssize_t __wrap_getrandom(void *out, size_t bytes, unsigned flags);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __wrap_nanosleep(const struct timespec *wait, struct timespec *left);
int __wrap_sched_yield(void);
enum lock_result __wrap_lock_acquire(struct lock *lock, int64_t now_ns);
enum lock_result __real_lock_acquire(struct lock *lock, int64_t now_ns);
bool __wrap_process_is_over(pid_t pid, uint64_t start_ticks);
int __wrap_usleep(useconds_t us);
long __wrap_syscall(long number, ...);
long __real_syscall(long number, ...);
bool __wrap_clock_boot_id(char out[CLOCK_BOOT_ID]);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__real_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);

/* The hints file is watched, too, by who writes it and by who reads it. */
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset) {
	void *mapped = __real_mmap(at, bytes, protection, flags, fd, offset);
	char link[40], path[128] = "";

	if (process_current() == NULL || mapped == MAP_FAILED || fd < 0)
		return mapped;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	if (readlink(link, path, sizeof(path) - 1) > 0 && strstr(path, ".hints") != NULL)
		fiber_watch_also(mapped, bytes);
	return mapped;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *out) {
	int64_t ns = clock == CLOCK_THREAD_CPUTIME_ID ? fiber_ran_ns() :
	    nodes_clock_ns() + (clock == CLOCK_REALTIME ? world_wall_offset_ns() : 0);

	out->tv_sec = (time_t)(ns / NS_PER_SECOND);
	out->tv_nsec = (long)(ns % NS_PER_SECOND);
	return 0;
}

bool __wrap_clock_boot_id(char out[CLOCK_BOOT_ID]) {
	memset(out, 0, CLOCK_BOOT_ID);
	memcpy(out, "5eed5eed-5eed-5eed-5eed-5eed5eed5eed", 36);
	return true;
}

pid_t __wrap_gettid(void) {
	return (pid_t)fiber_thread();
}

pid_t __wrap_getpid(void) {
	const struct process *process = process_current();

	return process == NULL ? 1 : process->pid;
}

ssize_t __wrap_getrandom(void *out, size_t bytes, unsigned flags) {
	(void)flags;
	for (size_t i = 0; i < bytes; i++)
		((unsigned char *)out)[i] = (unsigned char)draw(world_draws());
	return (ssize_t)bytes;
}

static void sleep_for(int64_t ns) {
	if (process_current() != NULL)
		fiber_sleep(fibers_now_ns() + ns);
}

/* Ours wait by it, and look at nothing. */
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms) {
	(void)fds, (void)count;
	sleep_for(timeout_ms * NS_PER_MS);
	return 0;
}

int __wrap_nanosleep(const struct timespec *wait, struct timespec *left) {
	(void)left;
	sleep_for(wait->tv_sec * NS_PER_SECOND + wait->tv_nsec);
	return 0;
}

int __wrap_usleep(useconds_t us) {
	sleep_for((int64_t)us * 1000);
	return 0;
}

bool __wrap_process_is_over(pid_t pid, uint64_t start_ticks) {
	(void)start_ticks;
	return sender_is_over((int32_t)pid);
}

/* By a time that is none a lock would be taken from who holds it. */
enum lock_result __wrap_lock_acquire(struct lock *lock, int64_t now_ns) {
	int64_t ago_ns = nodes_clock_ns() - now_ns;

	if (process_current() != NULL && (ago_ns < 0 || ago_ns > LATE_NS))
		world_fail("time", "%s wants a lock as of %lld", process_current()->name,
		    (long long)now_ns);
	return __real_lock_acquire(lock, now_ns);
}

int __wrap_sched_yield(void) {
	sleep_for(NS_PER_MS / 1000);
	return 0;
}

static long futex(const _Atomic uint32_t *word, int operation, uint32_t value,
    const struct timespec *wait) {
	int64_t until_ns = INT64_MAX;

	if (operation == FUTEX_WAKE)
		return fibers_wake((const void *)word, value);
	if (*word != value) {
		errno = EAGAIN;
		return -1;
	}
	if (wait != NULL)
		until_ns = fibers_now_ns() + wait->tv_sec * NS_PER_SECOND + wait->tv_nsec;
	if (process_current() == NULL)
		fibers_pass(NS_PER_MS);
	else if (fiber_wait((const void *)word, until_ns))
		return 0;
	else if ((*word & FUTEX_TID_MASK) == 0 && wait != NULL &&
	    !fibers_pend((const void *)word))
		world_fail("wake", "%s waits for a lock that nobody holds", process_current()->name);
	errno = ETIMEDOUT;
	return -1;
}

long __wrap_syscall(long number, ...) {
	const void *first, *third;
	long second, result = -1;
	uint32_t value;
	va_list list;

	va_start(list, number);
	if (number == SYS_set_robust_list) {
		fiber_set_robust_list(va_arg(list, const void *));
		result = 0;
	} else if (number == SYS_futex) {
		first = va_arg(list, const void *);
		second = va_arg(list, int);
		value = va_arg(list, uint32_t);
		third = second == FUTEX_WAIT ? va_arg(list, const void *) : NULL;
		result = futex(first, (int)second, value, third);
	} else {
		errno = ENOSYS;
	}
	va_end(list);
	return result;
}
