/* SPDX-License-Identifier: ISC */
/* Source addresses that are warmed up: where each stands, and for whom. */
#ifndef VIEW_SOURCES_H
#define VIEW_SOURCES_H

#include "policy/window/warm.h"
#include "view/view.h"

/* One source, or its mail to one provider. */
struct view_source {
	const char *source, *transport, *over;	/* over "": mail waits */
	const char *provider;		/* of providers.conf, "others", or "all": the source's whole mail */
	uint32_t steps;			/* of its plan */
	struct warm_view warm;
	bool is_over;			/* the day has ended: the next message begins another */
	uint32_t left;			/* UINT32_MAX: no number binds */
	uint32_t released;		/* so many of these postern-lookup can use at once */
	uint32_t answered, throttled;	/* in that day */
};

/* Calls `each` for all that have sent, and for one at least of each source, in the order of the
 * configuration.  `only`: of the source of this name alone, or NULL. */
void view_sources_each(const struct view *view, const char *only,
    void (*each)(void *context, const struct view_source *), void *context);

/* Is there one of that name? */
bool view_source_is_known(const struct view *view, const char *name);

/* "sending", "used", "early", "ready", "warm" */
const char *view_source_state(const struct view_source *source);

/* The table; `name` as of writer_table. */
void view_sources_write(const struct view *view, const char *only, struct writer *writer,
    const char *name);

#endif
