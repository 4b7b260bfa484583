/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The segment's file in huge pages.
 * MODEL    MADV_COLLAPSE (Linux 6.1) makes huge pages of a tmpfs that was not mounted for them.
 *          A process has them as such where its mapping begins at a multiple of their size.
 * ERRORS   None: what has no huge page has small ones.
 * THREADS  Any.
 */
#include "segment/pages.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE	25
#endif

#define HUGE_BYTES	((size_t)2 << 20)
/* Processors remember the addresses of so many small pages that a smaller one has little use of
 * them. */
#define WORTH_BYTES	((size_t)64 << 20)
/* At once: each call has all processors put their lists of pages in order first. */
#define PART_BYTES	((size_t)32 << 20)
/* What the kernel may take for a part: where it has to move others' pages to find room it takes
 * longer, and the rest stays in small ones. */
#define PART_NS		(200 * NS_PER_MS)

void *segment_map(int fd, size_t bytes, int access) {
	size_t page = (size_t)sysconf(_SC_PAGESIZE), whole;
	void *reserved, *mapping;
	uintptr_t first, at;

	if (bytes < WORTH_BYTES || bytes > SIZE_MAX - 2 * HUGE_BYTES)
		return mmap(NULL, bytes, access, MAP_SHARED, fd, 0);
	whole = (bytes + page - 1) / page * page;
	reserved = mmap(NULL, whole + HUGE_BYTES, PROT_NONE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (reserved == MAP_FAILED)
		return mmap(NULL, bytes, access, MAP_SHARED, fd, 0);
	first = (uintptr_t)reserved;
	at = (first + HUGE_BYTES - 1) / HUGE_BYTES * HUGE_BYTES;
	mapping = mmap((void *)at, bytes, access, MAP_SHARED | MAP_FIXED, fd, 0);
	if (mapping == MAP_FAILED) {
		int error = errno;

		munmap(reserved, whole + HUGE_BYTES);
		errno = error;
		return MAP_FAILED;
	}
	if (at > first)
		munmap(reserved, at - first);
	if (at < first + HUGE_BYTES)
		munmap((void *)(at + whole), first + HUGE_BYTES - at);
	return mapping;
}

void segment_make_huge(void *mapping, size_t bytes) {
	int64_t began_ns = clock_thread_cpu_ns(), before_ns;
	char *part = mapping;

	if (bytes < WORTH_BYTES)
		return;
	do {
		size_t size = bytes < PART_BYTES ? bytes / HUGE_BYTES * HUGE_BYTES : PART_BYTES;

		before_ns = began_ns;
		if (size == 0 || madvise(part, size, MADV_COLLAPSE) != 0)
			return;
		part += size;
		bytes -= size;
		began_ns = clock_thread_cpu_ns();
	} while (began_ns - before_ns < PART_NS);
}
