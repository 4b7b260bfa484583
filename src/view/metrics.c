/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Metrics out of the state file.
 * MODEL    A row of metrics.def has all of a metric, its samples too, so that none can be
 *          written that is not declared, nor declared and not written.
 * ERRORS   No memory.  Rows that could not be read consistently are left out.
 * THREADS  One.
 */
#include "view/metrics.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "segment/cluster/cluster_told.h"
#include "segment/file/timings.h"
#include "view/health.h"
#include "view/metrics_internal.h"
#include "view/status_mtas.h"
#include "view/verdict.h"

#ifndef PACKAGE_VERSION
#define PACKAGE_VERSION "unknown"
#endif

/* --- what they are made of ------------------------------------------------------------ */

/* A class of that name twice, removed and configured anew, would be one metric twice. */
static void drop_removed_twins(struct view_classes *classes) {
	size_t kept = 0;

	for (size_t i = 0; i < classes->count; i++) {
		bool twin = false;

		for (size_t k = 0; classes->list[i].removed && k < classes->count; k++)
			twin |= k != i &&
			    strcmp(classes->list[k].name, classes->list[i].name) == 0 &&
			    (!classes->list[k].removed || k < i);
		if (!twin)
			classes->list[kept++] = classes->list[i];
	}
	classes->count = kept;
}

static int compare_names(const void *a, const void *b) {
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool is_configured(const void *context, const char *name) {
	const struct scrape *scrape = context;

	/* the judge makes such names of configured providers alone */
	if (generation_window_provider(scrape->view->generation, name) != GENERATION_NO_PROVIDER)
		return true;
	name += generation_transport_prefix(name, strlen(name));
	return scrape->name_count > 0 && bsearch(&name, scrape->names, scrape->name_count,
	    sizeof(name), compare_names) != NULL;
}

static int read_destinations(struct scrape *scrape) {
	const struct generation *g = scrape->view->generation;

	scrape->choice = (struct view_choice){ .wants = is_configured, .context = scrape,
		.no_recipients = true };
	if (g == NULL)
		return 0;
	scrape->names = calloc((size_t)g->destinations_mask_count + 1, sizeof(*scrape->names));
	if (scrape->names == NULL)
		return -1;
	for (uint32_t i = 0; i < g->destinations_mask_count; i++) {
		const char *name = generation_destination_name(g, i);

		if (*name != '\0')
			scrape->names[scrape->name_count++] = name;
	}
	qsort(scrape->names, scrape->name_count, sizeof(*scrape->names), compare_names);
	return view_destinations_gather(scrape->view, &scrape->choice,
	    &scrape->destinations);
}

/* --- samples ---------------------------------------------------------------------------- */

/* A time of this boot as one since 1970. */
static int64_t scrape_wall(const struct scrape *scrape, int64_t then_ns) {
	return scrape->wall_ns - (scrape->view->status.now_ns - then_ns);
}

static void write_durations(struct scrape *s) {
	for (unsigned kind = 0; kind < TIMING_KINDS; kind++) {
		const char *labels[] = { timing_word((enum timing_kind)kind), "+Inf" };
		struct reader_timing timing;
		uint64_t count = 0;
		char bound[32];

		reader_timing(s->view->reader, (enum timing_kind)kind, &timing);
		for (unsigned i = 0; i < TIMING_BUCKETS; i++) {
			count += timing.buckets[i];
			if (i + 1 < TIMING_BUCKETS)
				snprintf(bound, sizeof(bound), "%g",
				    (double)timing_bounds_ns[i] / NS_PER_SECOND);
			labels[1] = i + 1 < TIMING_BUCKETS ? bound : "+Inf";
			metrics_sample(s, "_bucket", labels, 2);
			fprintf(s->out, "%" PRIu64 "\n", count);
		}
		metrics_sample(s, "_sum", labels, 1);
		metrics_ns(s->out, timing.sum_ns > INT64_MAX ? INT64_MAX : (int64_t)timing.sum_ns);
		metrics_sample(s, "_count", labels, 1);
		fprintf(s->out, "%" PRIu64 "\n", timing.count);
	}
}

static void write_directions(struct scrape *s, const char *class, uint64_t inbound,
    uint64_t outbound) {
	metrics_sample(s, "", (const char *const[]){ class, "inbound" }, 2);
	fprintf(s->out, "%" PRIu64 "\n", inbound);
	metrics_sample(s, "", (const char *const[]){ class, "outbound" }, 2);
	fprintf(s->out, "%" PRIu64 "\n", outbound);
}

static uint32_t class_inbound(const struct reader_class *class) {
	return class->open_inbound <= class->open ? class->open_inbound : class->open;
}

static bool is_stopped(const struct scrape *s, const struct view_destination *one) {
	return view_destination_stops(one) && one->enforcement.kind == ENFORCEMENT_APPLIED &&
	    one->until_ns > s->view->status.now_ns;
}

#define NUMBER(value)	metrics_number_of(s, NULL, (uint64_t)(value))
#define SECONDS(ns)	metrics_seconds_of(s, NULL, ns)
#define NUMBER_OF(name, value)	metrics_number_of(s, name, (uint64_t)(value))
#define SECONDS_OF(name, ns)	metrics_seconds_of(s, name, ns)
#define EACH_TABLE(value) \
	for (unsigned i = 0; i < table_count; i++) \
		NUMBER_OF(tables[i].name, tables[i].value)
#define EACH_ROLE(...) \
	for (unsigned i = 0; i < role_count; i++) { \
		const struct reader_role *role = &roles[i]; \
\
		(void)view_role_name(role, name); \
		__VA_ARGS__; \
	}
#define EACH_CLASS(...) \
	for (size_t i = 0; i < s->classes.count; i++) { \
		const struct reader_class *c = &s->classes.list[i]; \
\
		__VA_ARGS__; \
	}
#define EACH_SHARE(value) \
	EACH_CLASS(if (view_class_share(s->view, c, &share)) NUMBER_OF(c->name, value))
#define EACH_DESTINATION(...) \
	for (size_t i = 0; i < view_destinations_count(&s->destinations); i++) { \
		const struct view_destination d = view_destination_at(&s->destinations, i); \
\
		if (d.has_window) \
			__VA_ARGS__; \
	}
#define EACH_MTA(...) \
	for (uint32_t i = 0; g != NULL && i < g->mta_count; i++) { \
		const char *mta = generation_text(g, g->mtas[i].name); \
\
		__VA_ARGS__; \
	}
#define EACH_LOG(sample) \
	EACH_MTA(struct view_log log = view_log(s->view->reader, \
	    generation_text(g, g->mtas[i].log)); if (log.known) sample)
#define EACH_JOURNAL(value) \
	for (unsigned i = 0; i < JOURNAL_ROOMS; i++) { \
		const struct reader_journal *journal = &status->journals[i]; \
\
		if (journal->fares != JOURNAL_FARES_NONE) \
			NUMBER_OF(generation_journal_word((enum journal_room)i), value); \
	}

static void write_metrics(struct scrape *s) {
	const struct reader_status *status = &s->view->status;
	const struct generation *g = s->view->generation;
	bool drives = g != NULL && generation_drives(g);
	struct reader_role roles[SEGMENT_ROLES_MAX];
	unsigned role_count = view_roles(s->view, roles);
	struct view_table tables[VIEW_TABLES];
	unsigned table_count = view_tables(status, tables);
	struct cluster_told told;
	bool has_cluster = reader_cluster(s->view->reader, &told) && g != NULL &&
	    generation_has_cluster(g);
	char name[VIEW_ROLE_NAME_MAX];
	struct view_share share;

#define METRIC(samples, name, type, text) \
	metrics_begin(s, name, type, text); \
	samples;
#include "defs/metrics.def"
#undef METRIC
#define COUNTER(symbol, name, text) \
	metrics_begin(s, "postern_" name "_total", "counter", text); \
	NUMBER(status->counters[COUNTER_##symbol]);
#include "defs/counters.def"
#undef COUNTER
}

int metrics_write(struct view *view, FILE *out) {
	struct scrape scrape = { .out = out, .view = view, .wall_ns = clock_wall_ns() };
	int result = -1;

	scrape.stopped = view_stopped(view);
	if (view_classes_read(view, &scrape.classes))
		result = read_destinations(&scrape);
	if (result == 0) {
		drop_removed_twins(&scrape.classes);
		write_metrics(&scrape);
	} else {
		errno = ENOMEM;
	}
	view_destinations_free(&scrape.destinations);
	free(scrape.names);
	free(scrape.classes.list);
	return result;
}
