/* SPDX-License-Identifier: ISC */
/* Metrics of source addresses that are warmed up, and of their mail to each provider. */
#include <inttypes.h>

#include "view/metrics_internal.h"
#include "view/sources.h"

struct source_scrape {
	struct scrape *scrape;
	enum metrics_source_value which;
};

static bool value_of(const struct view_source *source, enum metrics_source_value which,
    uint64_t *out) {
	bool binds = source->left != UINT32_MAX;

	switch (which) {
	case METRICS_SOURCE_NUMBER:
		*out = source->warm.number;
		return binds;
	case METRICS_SOURCE_LEFT:
		*out = source->left;
		return binds;
	case METRICS_SOURCE_SENT:
		*out = source->is_over ? 0 : source->warm.sent;
		return true;
	case METRICS_SOURCE_THROTTLED:
		*out = source->is_over ? 0 : source->throttled;
		return true;
	}
	return false;
}

static void put(void *context, const struct view_source *source) {
	const struct source_scrape *all = context;
	uint64_t value;

	if (!value_of(source, all->which, &value))
		return;
	metrics_sample(all->scrape, "", (const char *const[]){ source->source, source->provider }, 2);
	fprintf(all->scrape->out, "%" PRIu64 "\n", value);
}

void metrics_sources(struct scrape *scrape, enum metrics_source_value which) {
	view_sources_each(scrape->view, NULL, put, &(struct source_scrape){ scrape, which });
}
