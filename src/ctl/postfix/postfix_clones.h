/* SPDX-License-Identifier: ISC */
/*
 * Lanes: full clones of a Postfix transport with a fixed concurrency each, laneN (DESIGN
 * section 11).  What the original has, master.cf's options and main.cf's settings of
 * the transport, each of them has; then its own:
 *
 * The lanes of a further transport (mta[].transports[]) are laneN-TRANSPORT.
 *
 *	syslog_name			SYSLOG_NAME/laneN: tells the lane in the log
 *	initial and limit		N, and no feedback: it stays at N
 *	failed_cohort_limit		0 for the lane of 1: else one refusal would suspend it
 *	connection cache		for all mail, and not on demand: so a delivery always
 *					takes what is cached, and those that are idle never
 *					come on top of the width (on demand, a burst after
 *					a pause does not: measured, 12 for a window of 7).
 *					A lane that keeps none loses its place to a canary
 *					or to an idle connection of another one between two
 *					messages (measured: the lane of 1 was refused 58
 *					times in a second).  None below mta.cache_from;
 *					where the original has none, none
 *
 * The settings of the lanes are options of the queue manager, which alone reads them.
 */
#ifndef CTL_POSTFIX_CLONES_H
#define CTL_POSTFIX_CLONES_H

#include <stdint.h>
#include <stdio.h>

#include "ctl/postfix/postfix_site.h"

/* A clone of a transport: a service of its own, with settings of its own in the queue manager. */
struct postfix_clone {
	const struct postfix_site *site;
	const char *original;		/* the transport */
	const char *line;		/* its service, or NULL: there is none */
	char service[64];		/* the clone's */
	char processes[16];		/* of its line; "": as the original */
	const char *syslog_name, *log_name;	/* of the mta, and of this one below it */
	uint32_t width;			/* its concurrency */
	/* What it makes of the original's connection cache. */
	enum clone_caching {
		CACHING_AS_THERE,	/* it has none */
		CACHING_NONE,
		CACHING_ALWAYS,
	} caching;
};

/* "  -o NAME=VALUE" lines: one, those for the queue manager; and the service. */
void postfix_clone_write_option(FILE *out, const char *name, const char *value);
void postfix_clone_write_options(FILE *out, const struct postfix_clone *clone);
void postfix_clone_write_service(FILE *out, const struct postfix_clone *clone);

/* The line of a service under `name` without its -o options: columns, program, and such arguments
 * as -v; with so many processes ("": as it has). */
void postfix_service_write(FILE *out, const char *line, const char *name, const char *processes);

/* How the site has it now. */
enum clone_state {
	CLONE_ABSENT,
	CLONE_OUTDATED,		/* there, and not as it would be written */
	CLONE_TWICE,		/* there more than once: which one counts? */
	CLONE_WAITS,		/* Postfix has not been reloaded since */
	CLONE_THERE,
};
enum clone_state postfix_clone_state(const struct postfix_clone *clone);

/* Is it the line of a service whose program is smtp? */
bool postfix_clones_of_smtp(const char *line);

/* --- lanes -------------------------------------------------------------------------- */

struct postfix_lanes {
	const struct postfix_site *site;
	const uint16_t *widths;
	uint32_t count;
	const char *syslog_name;	/* of the mta */
	const char *transport;		/* whose lanes are laneN-TRANSPORT; "": laneN */
	uint32_t cache_from;		/* lanes as wide as this cache connections; 0: none */
};

/* Why the site's transport cannot have lanes, or NULL. */
const char *postfix_lanes_doubt(const struct postfix_site *site);

/* Lane `i`; it points into *out. */
void postfix_lane(const struct postfix_lanes *lanes, uint32_t i, struct postfix_clone *out);
/* Is this a setting of one of the lanes? */
bool postfix_lanes_have(const struct postfix_lanes *lanes, const char *name);

#endif
