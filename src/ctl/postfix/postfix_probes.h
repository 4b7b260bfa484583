/* SPDX-License-Identifier: ISC */
/*
 * Lanes for address verification probes (DESIGN section 11; verify(8)).  All probes together
 * are the pseudo-message of the scheduler notes, with limits of its own: a clone of the
 * transport by which the site sends its probes, with a fixed concurrency for each
 * destination, and a process limit for all of them.
 *
 *	postern-probe		of address_verify_default_transport
 *	postern-probe-relay	of address_verify_relay_transport, where that is another one
 *
 * The queue manager's resolver has these in the place of the site's transports; next hops,
 * relayhost and transport_maps stay, so that a probe goes where it went.  Its maps for
 * probes end with ours, which holds those for a suspended site (postern-lookup(8)).
 * Connections are not kept for the next probe: one that is idle would come on top.
 */
#ifndef CTL_POSTFIX_PROBES_H
#define CTL_POSTFIX_PROBES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "ctl/postfix/postfix_clones.h"
#include "ctl/postfix/postfix_site.h"

#define POSTFIX_PROBES	"postern-probe"

struct postfix_probes {
	const struct postfix_site *site;
	uint32_t width;			/* at one destination */
	uint32_t total;			/* processes for all; 0: as the original */
	const char *syslog_name;	/* of the mta */
};

/* Why the site's probes cannot have a lane (static text), or NULL. */
const char *postfix_probes_doubt(const struct postfix_site *site);

/* Is this a setting of a lane for probes?  Does the resolver's setting become another one? */
bool postfix_probes_has(const char *name);
bool postfix_probes_sets(const struct postfix_site *site, const char *name);

/* "  -o NAME=VALUE" lines of the queue manager, and of its resolver; the services. */
void postfix_probes_write_options(FILE *out, const struct postfix_probes *probes);
void postfix_probes_write_resolver(FILE *out, const struct postfix_probes *probes);
void postfix_probes_write_services(FILE *out, const struct postfix_probes *probes);

/* How the site has them now: the worst of all that is needed. */
enum clone_state postfix_probes_state(const struct postfix_probes *probes);

#endif
