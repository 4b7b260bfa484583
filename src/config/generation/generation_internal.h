/* SPDX-License-Identifier: ISC */
/* What stands at an offset, and whether it lies inside; the parameters of a window, as its
 * groups in the configuration give them. */
#ifndef CONFIG_GENERATION_GENERATION_INTERNAL_H
#define CONFIG_GENERATION_GENERATION_INTERNAL_H

#include "config/generation/generation.h"

static inline const void *generation_at(const struct generation *g, uint32_t offset) {
	return (const char *)g + offset;
}

/* One of an array of numbers, or of texts. */
static inline uint32_t generation_number_of(const struct generation *g, uint32_t array,
    uint32_t place) {
	return ((const uint32_t *)generation_at(g, array))[place];
}

static inline const char *generation_text_of(const struct generation *g, uint32_t array,
    uint32_t place) {
	return generation_text(g, generation_number_of(g, array, place));
}

static inline bool array_fits(const struct generation *g, uint32_t offset, uint64_t count,
    size_t size, size_t alignment) {
	return count == 0 || (offset >= sizeof(*g) && offset % alignment == 0 &&
	    offset < g->bytes && count <= (g->bytes - offset) / size);
}

/* symbol, last word of its path, field of struct window_settings, how it is read
 * out of a struct setting_value */
#define WINDOW_PARAMETERS(X) \
	X(LAW, "law", law, (enum window_law)value.number) \
	X(INITIAL, "initial_destination_concurrency", initial, (uint32_t)value.number) \
	X(LIMIT, "destination_concurrency_limit", limit, (uint32_t)value.number) \
	X(POSITIVE, "destination_concurrency_positive_feedback", positive, value.feedback) \
	X(NEGATIVE, "destination_concurrency_negative_feedback", negative, value.feedback) \
	X(COHORTS, "destination_concurrency_failed_cohort_limit", failed_cohort_limit, \
	    (double)value.number) \
	X(SUSPEND, "suspend", suspend_ns, value.number) \
	X(CANARY, "canary", canary_least_ns, value.number) \
	X(CANARY_MOST, "canary_most", canary_most_ns, value.number) \
	X(BELIEVE, "believe", believe_ns, value.number) \
	X(BELIEVE_REFUSALS, "believe_refusals", believe_refusals, (uint32_t)value.number) \
	X(SCOPE, "scope", shared, value.number != 0)
#define WINDOW_DEBUG_NAME "destination_concurrency_feedback_debug"

/* Bits of generation_window.given. */
enum window_parameter {
#define X(symbol, name, field, read) WINDOW_PARAMETER_##symbol,
	WINDOW_PARAMETERS(X)
#undef X
	WINDOW_PARAMETER_DEBUG,
	WINDOW_PARAMETER_COUNT
};

#endif
