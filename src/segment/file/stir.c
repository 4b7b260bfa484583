/* SPDX-License-Identifier: ISC */
/*
 * MODEL    A futex that processes share: the file's, as the mapping may lie anywhere.  Of those
 *          that find it at rest one makes the system call.
 * ERRORS   A kernel without futexes leaves the keeper its heartbeat.
 * THREADS  Any; segment_await_stir: the keeper's one.
 */
#include "segment/file/stir.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_futex
#define SYS_futex SYS_futex_time64	/* none of ours has a time */
#endif
#define REFUSED_WAIT_MS	1000

void segment_stir_keeper(struct segment_header *header) {
	uint32_t rests = STIR_RESTS;
	int kept = errno;

	if (atomic_compare_exchange_strong(&header->stir, &rests, 0))
		(void)syscall(SYS_futex, &header->stir, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
	errno = kept;
}

void segment_await_stir(struct segment_header *header) {
	atomic_store(&header->stir, STIR_RESTS);
	while (atomic_load(&header->stir) == STIR_RESTS) {
		if (syscall(SYS_futex, &header->stir, FUTEX_WAIT, STIR_RESTS, NULL, NULL, 0) != 0 &&
		    errno != EAGAIN && errno != EINTR)
			(void)poll(NULL, 0, REFUSED_WAIT_MS);
	}
}
