/* SPDX-License-Identifier: ISC */
/* The notes' allowed_new_worker (contrib/documents.md).  Pure. */
#ifndef POLICY_CONCURRENCY_H
#define POLICY_CONCURRENCY_H

#include <stdbool.h>
#include <stdint.h>

/* May a message that has `concurrency` workers have one more?  `most` in any case, and `scale`
 * times the free ones. */
static inline bool concurrency_allows(uint32_t most, uint32_t scale, uint32_t concurrency,
    uint32_t free_workers) {
	return concurrency < most || concurrency < (uint64_t)scale * free_workers;
}

#endif
