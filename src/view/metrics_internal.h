/* SPDX-License-Identifier: ISC */
/* What the files of the metrics share. */
#ifndef VIEW_METRICS_INTERNAL_H
#define VIEW_METRICS_INTERNAL_H

#include "view/classes.h"
#include "view/destinations.h"
#include "view/metrics.h"
#include "view/status.h"

/* What is read once for all metrics. */
struct scrape {
	FILE *out;
	const char *metric;		/* that is being written, and the names of its labels */
	const char *labels;
	struct view *view;
	int64_t wall_ns;
	struct view_classes classes;
	struct view_stopped stopped;
	const char **names;		/* of destinations that are configured, sorted */
	size_t name_count;
	struct view_choice choice;	/* of those alone */
	struct view_destinations destinations;
};

/* --- the text format (metrics_text.c) ----------------------------------------- */

void metrics_begin(struct scrape *scrape, const char *name, const char *type,
    const char *text);
/* The name of a sample and the values of its labels, of which a bucket has one more, "le"; its
 * value and the line's end follow. */
void metrics_sample(struct scrape *scrape, const char *suffix, const char *const *values,
    size_t count);
/* of NULL: without a label. */
void metrics_number_of(struct scrape *scrape, const char *of, uint64_t value);
void metrics_ns(FILE *out, int64_t ns);
void metrics_seconds_of(struct scrape *scrape, const char *of, int64_t ns);

/* --- accounts (metrics_accounts.c) ---------------------------------------------- */

void metrics_account_groups(struct scrape *scrape, bool of_limit);
void metrics_accounts_held(struct scrape *scrape);
/* Of the few logins that matter most. */
void metrics_account_names(struct scrape *scrape, bool of_share);

/* --- sources that are warmed up (metrics_sources.c) -------------------------------- */

enum metrics_source_value { METRICS_SOURCE_NUMBER, METRICS_SOURCE_SENT, METRICS_SOURCE_LEFT,
	METRICS_SOURCE_THROTTLED };
void metrics_sources(struct scrape *scrape, enum metrics_source_value which);

/* --- how long mail takes (metrics_delays.c) ---------------------------------------- */

void metrics_delays(struct scrape *scrape);
void metrics_waiting(struct scrape *scrape);

#endif
