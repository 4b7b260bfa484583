/* SPDX-License-Identifier: ISC */
/* What posternctl postfix-lanes reports. */
#include <stdio.h>

#include "config/mta/relayhost.h"
#include "ctl/postfix/postfix_lanes.h"
#include "ctl/postfix/postfix_lines.h"

#define COUNT_OF(array)		(sizeof(array) / sizeof((array)[0]))

/* --- for programs ---------------------------------------------------------- */

/* Each with the setting that it stands in. */
static void write_entries(struct writer *writer, const char *name, const char *column,
    const struct site_list *list) {
	writer_list_begin(writer, name);
	for (size_t i = 0; i < list->count; i++) {
		writer_row_begin(writer);
		writer_text(writer, column, list->entries[i].name);
		writer_text(writer, "setting", list->entries[i].setting.name);
		writer_row_end(writer);
	}
	writer_list_end(writer);
}

static void write_site_routes(struct writer *writer, const struct lanes *lanes) {
	const struct postfix_site *site = &lanes->site;

	for (size_t i = 0; i < site->routes.count; i++) {
		writer_row_begin(writer);
		writer_text(writer, "mask", site->routes.entries[i].name);
		writer_text_if(writer, "next_hop", site->routes.entries[i].next_hop);
		writer_text(writer, "transport", site->clone);
		writer_row_end(writer);
	}
}

static const char *const clone_states[] = { [CLONE_ABSENT] = "no",
	[CLONE_OUTDATED] = "outdated", [CLONE_TWICE] = "twice", [CLONE_WAITS] = "waits for a reload",
	[CLONE_THERE] = "yes" };

static void write_site_lanes(struct writer *writer, const struct lanes *lanes) {
	struct postfix_clone lane;

	for (uint32_t i = 0; i < lanes->clones.count; i++) {
		postfix_lane(&lanes->clones, i, &lane);
		writer_row_begin(writer);
		writer_text(writer, "lane", lane.service);
		writer_number(writer, "width", lanes->clones.widths[i]);
		writer_text(writer, "attached", clone_states[lanes->states[i]]);
		writer_truth(writer, "used", lanes_usable(lanes, i));
		writer_row_end(writer);
	}
}

/* What the transport cannot have: lanes, or hints at all. */
static void put_refusal(struct writer *writer, const struct lanes *lanes, bool also_lanes) {
	const struct postfix_site *site = &lanes->site;
	bool refused = site->refusal[0] != '\0';

	writer_text(writer, "no_lanes", refused && !also_lanes ? NULL : lanes->no_clones);
	writer_text(writer, "refused", refused ? site->refusal : NULL);
	writer_text(writer, "text", refused ? site->refusal_text : NULL);
}

static void write_transport(struct writer *writer, const struct lanes *further) {
	writer_row_begin(writer);
	writer_text(writer, "transport", further->site.clone);
	writer_text_if(writer, "clone_program", further->site.program);
	put_refusal(writer, further, false);
	writer_row_end(writer);
}

/* A list with what `write` puts of the mail server itself, and of its further transports. */
static void write_each(struct writer *writer, const char *name, const struct lanes *lanes,
    bool itself, void (*write)(struct writer *writer, const struct lanes *one)) {
	writer_list_begin(writer, name);
	if (itself)
		write(writer, lanes);
	for (unsigned i = 0; i < lanes->further_count; i++)
		write(writer, &lanes->further[i]);
	writer_list_end(writer);
}

static const char *const attachments[] = { [ATTACHED_NO] = "no",
	[ATTACHED_YES] = "yes", [ATTACHED_OUTDATED] = "outdated" };

static void report_programs(const struct lanes *lanes) {
	const struct postfix_site *site = &lanes->site;
	struct writer *writer = &lanes->ctl->writer;

	writer_object_begin(writer, NULL);
	writer_text(writer, "mta", lanes->mta_name);
	writer_text(writer, "config_directory", postfix_directory(lanes->settings));
	writer_text(writer, "clone", site->clone);
	writer_text_if(writer, "clone_program", site->program);
	writer_text_if(writer, "relayhost", site->relayhost);
	put_refusal(writer, lanes, true);
	writer_truth(writer, "only_listed", site->tables.count > 0);
	writer_number(writer, "listed", site->listed.count);
	writer_text(writer, "attached", attachments[postfix_attachment(site)]);
	writer_text(writer, "site", lanes->site_path);
	writer_text(writer, "probes", lanes->no_probes != NULL ? NULL :
	    clone_states[lanes->probe_state]);
	writer_text(writer, "no_probes", lanes->no_probes);
	writer_truth(writer, "reloaded", lanes->reloaded);
	writer_text(writer, "lines", lanes->lines);
	write_entries(writer, "excluded", "mask", &site->exclusions);
	write_each(writer, "routed", lanes, true, write_site_routes);
	write_each(writer, "transports", lanes, false, write_transport);
	lanes_write_sources(writer, lanes);
	write_each(writer, "lanes", lanes, true, write_site_lanes);
	write_entries(writer, "asked", "table", &site->tables);
	writer_object_end(writer);
}

/* --- for people ------------------------------------------------------------ */

static const char *why_unused(enum clone_state state) {
	switch (state) {
	case CLONE_OUTDATED:
		return "it differs from the lines printed here; replace it";
	case CLONE_TWICE:
		return "master.cf has it more than once; keep only the one printed here";
	case CLONE_WAITS:
		return "Postfix has not loaded it; run \"postfix reload\", then this command "
		    "again";
	case CLONE_ABSENT:
	case CLONE_THERE:
		break;
	}
	return NULL;
}

/* Services of ours that stand there more than once, as after lines that were added where
 * they should take others' place. */
static void complain_of_twins(const struct lanes *lanes) {
	static const char *const names[] = { "qmgr", POSTFIX_RESOLVER, POSTFIX_HINT_SERVICE };

	for (size_t i = 0; i < COUNT_OF(names); i++) {
		unsigned count = postfix_service_count(lanes->settings, names[i]);

		if (count > 1)
			ctl_complain("%s: master.cf has %s %u times and Postfix uses the last "
			    "one; keep only the one printed here", lanes->mta_name,
			    names[i], count);
	}
}

static void complain_of_lanes(const struct lanes *lanes) {
	struct postfix_clone lane;

	if (lanes->no_clones != NULL && lanes->site.refusal[0] == '\0')
		ctl_complain("%s: no lanes for the transport %s: %s; mail for suspended "
		    "destinations is held, but windows are not enforced", lanes->mta_name,
		    lanes->site.clone, lanes->no_clones);
	for (uint32_t i = 0; i < lanes->clones.count; i++) {
		postfix_lane(&lanes->clones, i, &lane);
		if (why_unused(lanes->states[i]) != NULL)
			ctl_complain("%s is not used: %s", lane.service,
			    why_unused(lanes->states[i]));
	}
}

static void complain_of_further(const struct lanes *lanes) {
	const struct postfix_site *site = &lanes->site;

	if (site->refusal[0] != '\0')
		ctl_complain("%s: no hints for this transport: %s", lanes->mta_name,
		    site->refusal_text);
	else if (site->routes.count == 0)
		ctl_complain("%s: no domain uses this transport: neither transport_maps nor "
		    "relay_domains (relay_transport) names it", lanes->mta_name);
	complain_of_lanes(lanes);
}

static void complain_of_probes(const struct lanes *lanes) {
	if (lanes->site.refusal[0] != '\0' || lanes->probes.width == 0 || lanes_has_probes(lanes) ||
	    postfix_attachment(&lanes->site) == ATTACHED_NO)
		return;
	ctl_complain("%s: address verification probes have no lane, and suspensions do not "
	    "hold them: %s", lanes->mta_name, lanes->no_probes != NULL ? lanes->no_probes :
	    lanes->probe_state == CLONE_WAITS ? "run \"postfix reload\", then this command again" :
	    lanes->probe_state == CLONE_TWICE ?
	    "master.cf has " POSTFIX_PROBES " more than once; keep only the one printed here" :
	    "replace the lines of Postern in master.cf by those printed here");
}

/* The lines alone go to stdout, ready for master.cf. */
static void report_people(const struct lanes *lanes) {
	const struct postfix_site *site = &lanes->site;
	char text[1024];

	if (lanes->lines != NULL)
		fputs(lanes->lines, lanes->ctl->writer.out);
	else
		ctl_complain("%s: no hints for this Postfix: %s", lanes->mta_name,
		    site->refusal_text);
	for (size_t i = 0; i < site->tables.count; i++)
		ctl_complain("%s: the entries of %s cannot be listed: hints apply to the %zu "
		    "destinations known so far; run this command again regularly",
		    site->tables.entries[i].setting.name, site->tables.entries[i].name, site->listed.count);
	complain_of_twins(lanes);
	complain_of_lanes(lanes);
	for (unsigned i = 0; i < lanes->further_count; i++)
		complain_of_further(&lanes->further[i]);
	complain_of_probes(lanes);
	lanes_complain_of_sources(lanes);
	if (relayhost_fault(site->relayhost, lanes->mta, text, sizeof(text)))
		ctl_complain("%s: %s", lanes->mta_name, text);
	if (lanes->lines == NULL && postfix_attachment(site) != ATTACHED_NO)
		ctl_complain("master.cf has lines of Postern; remove them and restore its own "
		    "qmgr line; until then mail uses the transport_maps in them");
	else if (postfix_attachment(site) == ATTACHED_OUTDATED)
		ctl_complain("master.cf has lines from an earlier run; replace them: mail "
		    "still uses the earlier settings");
}

void lanes_report(const struct lanes *lanes) {
	if (lanes->ctl->writer.json)
		report_programs(lanes);
	else
		report_people(lanes);
}
