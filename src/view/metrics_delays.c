/* SPDX-License-Identifier: ISC */
/* Metrics of how long mail takes, and of what waits. */
#include <inttypes.h>

#include "segment/file/delays.h"
#include "view/metrics_internal.h"

static void put(struct scrape *s, const char *provider, const struct delays *delays) {
	const char *labels[] = { provider, "+Inf" };
	uint64_t count = 0;
	char bound[32];

	for (unsigned i = 0; i < DELAY_BUCKETS; i++) {
		count += delays->buckets[i];
		if (i + 1 < DELAY_BUCKETS)
			snprintf(bound, sizeof(bound), "%" PRId64, delay_bounds_s[i]);
		labels[1] = i + 1 < DELAY_BUCKETS ? bound : "+Inf";
		metrics_sample(s, "_bucket", labels, 2);
		fprintf(s->out, "%" PRIu64 "\n", count);
	}
	metrics_sample(s, "_sum", labels, 1);
	fprintf(s->out, "%" PRIu64 ".%03" PRIu64 "\n", delays->sum_ms / 1000, delays->sum_ms % 1000);
	metrics_sample(s, "_count", labels, 1);
	fprintf(s->out, "%" PRIu64 "\n", delays->count);
}

void metrics_delays(struct scrape *scrape) {
	const struct generation *g = scrape->view->generation;
	struct delays delays;

	(void)delays_read(scrape->view->reader, 0, DELAY_OTHER, &delays);
	put(scrape, DELAY_OTHER, &delays);
	for (uint32_t i = 0; g != NULL && i < g->provider_count; i++) {
		const char *provider = generation_text(g, generation_provider(g, i)->name);
		uint32_t row = delay_row(g, i);

		if (row != 0 && delays_read(scrape->view->reader, row, provider, &delays) &&
		    delays.count > 0)
			put(scrape, provider, &delays);
	}
}

void metrics_waiting(struct scrape *scrape) {
	for (unsigned i = 0; i < WAITING_KINDS; i++)
		metrics_seconds_of(scrape, waiting_word((enum waiting_kind)i),
		    waiting_age_ns(scrape->view->reader, (enum waiting_kind)i,
		    scrape->view->status.now_ns));
}
