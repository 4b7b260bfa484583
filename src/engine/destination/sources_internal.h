/* SPDX-License-Identifier: ISC */
/* What the files share that count for sources: whose state is whose. */
#ifndef ENGINE_DESTINATION_SOURCES_INTERNAL_H
#define ENGINE_DESTINATION_SOURCES_INTERNAL_H

#include "config/generation/generation.h"
#include "segment/hints/given.h"
#include "segment/hints/sources.h"

/* The row of a provider's mail: the 63 first ones of the configuration have one of their own. */
static inline uint32_t source_row(const struct generation *generation, uint32_t provider) {
	return provider < generation->provider_count && provider < GIVEN_ROWS - 1 ? provider + 1 : 0;
}

static inline uint32_t source_provider(uint32_t row) {
	return row == 0 ? GENERATION_NO_PROVIDER : row - 1;
}

/* How many rows a source has. */
static inline uint32_t source_rows(const struct generation *generation, uint32_t number) {
	if (!generation_source(generation, number)->is_per_provider)
		return 1;
	return generation->provider_count < GIVEN_ROWS - 1 ? generation->provider_count + 1 :
	    GIVEN_ROWS;
}

uint64_t engine_source_key(const struct generation *generation, uint32_t number,
    uint32_t provider);

#endif
