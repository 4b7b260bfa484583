/* SPDX-License-Identifier: ISC */
/* What the files share that count for sources: whose state is whose. */
#ifndef ENGINE_DESTINATION_SOURCES_INTERNAL_H
#define ENGINE_DESTINATION_SOURCES_INTERNAL_H

#include "config/generation/generation.h"
#include "segment/hints/given.h"
#include "segment/hints/sources.h"

uint64_t engine_source_key(const struct generation *generation, uint32_t number,
    uint32_t provider);

#endif
