/* SPDX-License-Identifier: ISC */
/* What the files of the metrics share. */
#ifndef VIEW_METRICS_INTERNAL_H
#define VIEW_METRICS_INTERNAL_H

#include "view/destinations.h"
#include "view/metrics.h"
#include "view/status.h"

#define LABELS_MAX 2

/* What is read once for all metrics. */
struct scrape {
	FILE *out;
	const char *metric;		/* that is being written */
	struct view *view;
	int64_t wall_ns;
	struct reader_class *classes;
	size_t class_count, class_size;
	struct reader_role roles[SEGMENT_ROLES_MAX];
	size_t role_count;
	struct view_stopped stopped;
	const char **names;		/* of destinations that are configured, sorted */
	size_t name_count;
	struct view_choice choice;	/* of those alone */
	struct view_destinations destinations;
};

static inline const struct reader_status *scrape_status(const struct scrape *scrape) {
	return &scrape->view->status;
}

/* --- the text format (metrics_text.c) ----------------------------------------- */

struct label {
	const char *name;
	const char *value;
};

void metrics_begin(struct scrape *scrape, const char *name, const char *type,
    const char *text);
/* The name and labels of a sample; its value and the line's end follow. */
void metrics_sample(struct scrape *scrape, const char *suffix, const struct label *labels,
    size_t count);
void metrics_number(struct scrape *scrape, uint64_t value);
void metrics_number_of(struct scrape *scrape, const char *label, const char *of,
    uint64_t value);
void metrics_ns(FILE *out, int64_t ns);
void metrics_seconds(struct scrape *scrape, int64_t ns);
void metrics_seconds_of(struct scrape *scrape, const char *label, const char *of, int64_t ns);

/* --- each of metrics.def (metrics.c, metrics_lists.c) ------------------------------- */

#define METRIC(symbol, name, type, text) void metric_##symbol(struct scrape *scrape);
#include "defs/metrics.def"
#undef METRIC

/* What its rows are made of.  -1: no memory. */
int metrics_read_classes(struct scrape *scrape);
int metrics_read_destinations(struct scrape *scrape);

#endif
