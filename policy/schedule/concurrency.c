/* SPDX-License-Identifier: ISC */
/* How many workers a message may have (concurrency.h). */
#include "policy/schedule/concurrency.h"

bool concurrency_allows(uint32_t most, uint32_t scale, uint32_t concurrency,
    uint32_t free_workers) {
	return concurrency < most || concurrency < (uint64_t)scale * free_workers;
}
