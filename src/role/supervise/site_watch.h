/* SPDX-License-Identifier: ISC */
/* Mail servers' own settings, as posternctl postfix-lanes has read them: are they still
 * those? */
#ifndef ROLE_SITE_WATCH_H
#define ROLE_SITE_WATCH_H

#include "config/generation/generation.h"

/* Looks at all the files.  What is to be published: the same but for what was found (free()), as
 * a site that has changed gets no hints until it is read again.  NULL: nothing is. */
struct generation *site_watch_look(const struct generation *generation);

/* Logs where two generations differ in that. */
void site_watch_published(const struct generation *before, const struct generation *now);

#endif
