/* SPDX-License-Identifier: ISC */
/* The lines of master.cf that attach hints to a Postfix's queue manager. */
#ifndef CTL_POSTFIX_LINES_H
#define CTL_POSTFIX_LINES_H

#include <stdbool.h>
#include <stdio.h>

#include "ctl/postfix/postfix_site.h"

#define POSTFIX_HINT_SERVICE	"postern-hint"

struct postfix_lanes;
struct postfix_probes;

/* Who the lines are for. */
struct postfix_use {
	const char *hints;		/* the hints file */
	const char *group;		/* that may read it, or "" */
	const char *mta;		/* its name */
	const char *site;		/* its site's file */
	const struct postfix_lanes *const *lanes;	/* of each transport, those with none as well */
	unsigned lane_groups;
	const struct postfix_probes *probes;	/* or NULL: no lane for probes */
};
void postfix_lines_write(FILE *out, const struct postfix_site *site,
    const struct postfix_use *use);

/* How the site has them now. */
enum attachment {
	ATTACHED_NO,
	ATTACHED_YES,
	ATTACHED_OUTDATED,	/* the site's own settings are others by now */
};
enum attachment postfix_attachment(const struct postfix_site *site);
/* Do its probes ask our map, behind the site's own? */
bool postfix_lines_ask_for_probes(const struct postfix_site *site);

#endif
