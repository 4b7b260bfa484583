/* SPDX-License-Identifier: ISC */
/* posternctl postfix-lanes, in parts: what it found, the site's file, and what it reports. */
#ifndef CTL_POSTFIX_LANES_H
#define CTL_POSTFIX_LANES_H

#include "ctl/cli/ctl.h"
#include "ctl/postfix/postfix_clones.h"
#include "ctl/postfix/postfix_probes.h"

struct lanes {
	struct ctl *ctl;
	struct places places;
	struct generation *generation;	/* NULL: it has mistakes, or was not compiled */
	const struct generation_mta *mta;
	const char *mta_name, *site_path;
	struct postfix_settings *settings;
	struct postfix_site site;
	struct postfix_lanes clones;
	const char *no_clones;		/* why there are none, or NULL */
	enum clone_state states[GENERATION_LANES_MAX];
	struct postfix_probes probes;
	const char *no_probes;		/* why they have no lane, or NULL */
	enum clone_state probe_state;
	char *lines;			/* of master.cf, or NULL: there are none */
	bool reloaded;
	/* Those of mta[].transports[]: of each mta, mta_name, settings, site, clones, no_clones
	 * and states are its own. */
	struct lanes *further;
	unsigned further_count;
};

/* Is it there?  Mail must never be told a lane that is not. */
bool lanes_usable(const struct lanes *lanes, uint32_t i);
bool lanes_has_probes(const struct lanes *lanes);

/* postfix_sources.c: may mail go by a transport of sources, or of `over`?  Else `out` says why not. */
#define LANES_SOURCE_TEXT	256
bool lanes_source_fault(const struct lanes *lanes, const char *transport, bool is_source,
    char out[LANES_SOURCE_TEXT]);
void lanes_complain_of_sources(const struct lanes *lanes);
void lanes_write_sources(struct writer *writer, const struct lanes *lanes);

/* postfix_site_file.c: writes lanes->site_path.  0, or -1 with *diag. */
int lanes_write_site(const struct lanes *lanes, struct diag *diag);

/* postfix_report.c: for programs an object; for people the lines, and complaints. */
void lanes_report(const struct lanes *lanes);

#endif
