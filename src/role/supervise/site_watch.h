/* SPDX-License-Identifier: ISC */
/* Mail servers' own settings, as posternctl postfix-lanes has read them: are they still
 * those? */
#ifndef ROLE_SITE_WATCH_H
#define ROLE_SITE_WATCH_H

struct generation;
struct supervisor;

/* Looks at all the files, and publishes what it found: a site that has changed gets no
 * hints until it is read again.  Each second. */
void site_watch_turn(struct supervisor *supervisor);

/* Logs where two generations differ in that. */
void site_watch_published(const struct generation *before, const struct generation *now);

#endif
