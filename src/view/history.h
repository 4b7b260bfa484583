/* SPDX-License-Identifier: ISC */
/* The last 24 hours (segment/history.h), for posternctl history and the page. */
#ifndef VIEW_HISTORY_H
#define VIEW_HISTORY_H

#include "segment/decision/history.h"
#include "view/view.h"

/* Which series, how many minutes of it up to now, and how many of them to a row. */
struct view_history_want {
	enum history_kind kind;		/* SESSIONS: both totals */
	const char *name;		/* class or destination; totals: "" */
	unsigned minutes, step;
};

/* Now, or the last minute that may be known. */
uint32_t view_history_minute(void);

/* A table of rows, the oldest first: time, gap, mark (started, restarted: a worker), and the
 * values of the kind; counts are sums, the rest is the most of the row.  -1: there is no such
 * series, or it cannot be read. */
int view_history_write(struct history *history, uint32_t minute,
    const struct view_history_want *want, struct writer *writer);

/* The same as an object of JSON for plots: {"minute":, "step":, "columns":[...], "marks":[...],
 * "rows":[[...], ...]}; a gap is a row null. */
int view_history_plot(struct history *history, uint32_t minute,
    const struct view_history_want *want, FILE *out);

/* An object of JSON: of each series of the kind, its name and its first value (open, in flight)
 * of the last `minutes`, the oldest first, with null for what is not known. */
int view_history_sparks(struct history *history, uint32_t minute, enum history_kind kind,
    unsigned minutes, FILE *out);

#endif
