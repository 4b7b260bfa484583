/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Large pages for the tables that each question looks at in random places.
 * MODEL    madvise(MADV_COLLAPSE) copies what stands in many pages of a tmpfs to a large one,
 *          whatever the settings of the system (Linux 6.1).  Who has the file mapped at a fit
 *          address (segment_attach) gets the large page when it touches it next.
 * ERRORS   None: without them all is as before, and slower.
 * THREADS  Any.
 */
#include <errno.h>
#include <sys/mman.h>

#include "segment/file/internal.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

bool segment_enlarge_pages(const struct segment *segment, uint64_t *done) {
	const struct segment_header *header = segment->header;
	uint64_t end = header->bytes, at = SEGMENT_LARGE_PAGE;

	/* the first one has the header, of which this process has pages of its own */
	if (*done > at)
		at = *done;
	if (at + SEGMENT_LARGE_PAGE > end)
		return false;
	*done = at + SEGMENT_LARGE_PAGE;
	return madvise((char *)segment->header + at, SEGMENT_LARGE_PAGE, MADV_COLLAPSE) == 0 ||
	    errno != EINVAL;
}
