/* SPDX-License-Identifier: ISC */
/* The lines of master.cf that attach hints to a Postfix's queue manager. */
#ifndef CTL_POSTFIX_LINES_H
#define CTL_POSTFIX_LINES_H

#include <stdio.h>

#include "ctl/postfix_site.h"

#define POSTFIX_HINT_SERVICE	"postern-hint"

/* Writes them; `hints` is the hints file, `mta` the name of the mta. */
void postfix_lines_write(FILE *out, const struct postfix_site *site,
    const char *hints, const char *mta);

/* How the site has them now. */
enum attachment {
	ATTACHED_NO,
	ATTACHED_YES,
	ATTACHED_OUTDATED,	/* the site's own settings are others by now */
};
enum attachment postfix_attachment(const struct postfix_site *site);

#endif
