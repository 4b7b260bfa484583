/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  posternctl postfix-lanes: reads a Postfix site, notes for the daemon what
 *          its settings leave to hints, and writes the lines for master.cf.
 * MODEL    The site's file is complete under its name or not there; then a daemon that
 *          runs is asked to reload.  Nothing of Postfix is changed.
 * ERRORS   A site that leaves no room for hints is told so: EX_UNAVAILABLE, and its
 *          file says the same to the daemon.
 * THREADS  One.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "base/file_stamp.h"
#include "base/text.h"
#include "ctl/act/control_client.h"
#include "ctl/postfix/postfix_lanes.h"
#include "ctl/postfix/postfix_lines.h"
#include "segment/reader.h"

#define RELOAD_TIMEOUT_MS	60000

/* --- which mta ------------------------------------------------------------- */

static int find_mta(struct lanes *lanes) {
	const struct generation *g = lanes->generation;
	const char *wanted = lanes->ctl->argument_count > 0 ?
	    lanes->ctl->arguments[0] : NULL;
	unsigned found = 0;

	if (g == NULL) {
		ctl_complain("%s has errors; run \"posternctl check\" to list them",
		    lanes->ctl->config_path);
		return EX_CONFIG;
	}
	for (uint32_t i = 0; i < g->mta_count; i++) {
		const char *name = generation_text(g, g->mtas[i].name);

		if (g->mtas[i].kind != MTA_POSTFIX || g->mtas[i].transport != 0 ||
		    (wanted != NULL && strcmp(wanted, name) != 0))
			continue;
		lanes->mta = &g->mtas[i];
		lanes->mta_name = name;
		found++;
	}
	if (found == 1) {
		lanes->site_path = generation_text(g, lanes->mta->site);
		return EX_OK;
	}
	if (found > 1)
		return ctl_usage(COMMAND_POSTFIX_LANES, "missing MTA name: there are %u of "
		    "kind postfix", found);
	ctl_complain("%s: no mta of kind postfix%s%s", lanes->ctl->config_path,
	    wanted == NULL ? "" : " is named ", wanted == NULL ? "" : wanted);
	return EX_CONFIG;
}

/* --- the destinations that are known --------------------------------------- */

struct known {
	struct site_list names;
	struct diag *diag;
	bool failed;
};

static void take_name(void *context, const struct destination_seen *seen) {
	struct known *known = context;

	/* keys for postmap stand one a line */
	if (!known->failed && strpbrk(seen->name, " \t\r\n") == NULL)
		known->failed = site_add(&known->names, seen->name, known->diag) == NULL;
}

/* The same tables and more are those of the clone. */
static int ask_further(struct lanes *lanes, const struct site_list *names, struct diag *diag) {
	for (unsigned i = 0; i < lanes->further_count; i++)
		if (lanes->further[i].site.refusal[0] == '\0' &&
		    postfix_site_ask(&lanes->further[i].site, names, diag) != 0)
			return -1;
	return 0;
}

static int ask_tables(struct lanes *lanes, struct diag *diag) {
	struct known known = { .diag = diag };
	struct segment *reader;
	int result;

	if (lanes->site.tables.count == 0 || lanes->site.refusal[0] != '\0')
		return 0;
	if (reader_open(&reader, lanes->places.state, diag) == 0) {
		(void)destinations_each(reader, take_name, &known);
		segment_unmap(&reader);
	} else {
		ctl_complain("%s", diag->text);
	}
	result = known.failed ? -1 : postfix_site_ask(&lanes->site, &known.names, diag);
	if (result == 0)
		result = ask_further(lanes, &known.names, diag);
	site_list_free(&known.names);
	return result;
}

/* --- the lanes --------------------------------------------------------------- */

static void look_at_lanes(struct lanes *lanes) {
	const struct generation *g = lanes->generation;
	struct postfix_clone lane;

	lanes->clones = (struct postfix_lanes){ .site = &lanes->site,
		.widths = lanes->mta->lanes, .count = lanes->mta->lane_count,
		.syslog_name = generation_text(g, lanes->mta->syslog_name),
		.transport = generation_text(g, lanes->mta->transport),
		.cache_from = lanes->mta->cache_from };
	lanes->no_clones = lanes->site.refusal[0] != '\0' ? lanes->site.refusal_text :
	    postfix_lanes_doubt(&lanes->site);
	if (lanes->no_clones != NULL)
		lanes->clones.count = 0;
	for (uint32_t i = 0; i < lanes->clones.count; i++) {
		postfix_lane(&lanes->clones, i, &lane);
		lanes->states[i] = postfix_clone_state(&lane);
	}
}

/* Behind look_at_lanes. */
static void look_at_probes(struct lanes *lanes) {
	lanes->probes = (struct postfix_probes){ .site = &lanes->site,
		.width = lanes->mta->probes, .total = lanes->mta->probes_total,
		.syslog_name = lanes->clones.syslog_name };
	lanes->no_probes = lanes->site.refusal[0] != '\0' ? lanes->site.refusal_text :
	    lanes->probes.width == 0 ? "mta.probes is 0" : postfix_probes_doubt(&lanes->site);
	if (lanes->no_probes == NULL)
		lanes->probe_state = postfix_probes_state(&lanes->probes);
	if (lanes->probe_state > CLONE_OUTDATED && !postfix_lines_ask_for_probes(&lanes->site))
		lanes->probe_state = CLONE_OUTDATED;
}

bool lanes_has_probes(const struct lanes *lanes) {
	return lanes->no_probes == NULL && lanes->probe_state == CLONE_THERE &&
	    postfix_attachment(&lanes->site) != ATTACHED_NO;
}

bool lanes_usable(const struct lanes *lanes, uint32_t i) {
	return lanes->states[i] == CLONE_THERE &&
	    postfix_attachment(&lanes->site) != ATTACHED_NO;
}

/* A daemon that is away reads the file when it comes. */
static void ask_for_reload(struct lanes *lanes) {
	static const struct control_field request = { "command", "reload" };
	struct control_reply reply;
	struct diag diag;

	if (control_ask(lanes->places.control, &request, 1, RELOAD_TIMEOUT_MS, NULL,
		NULL, &reply, &diag) != 0)
		ctl_complain("cannot notify the daemon: %s", diag.text);
	else if (reply.exit != EX_OK)
		ctl_complain("the daemon did not reload: %s", reply.error);
	else
		lanes->reloaded = true;
}

/* --- what is told ---------------------------------------------------------- */

static int make_lines(struct lanes *lanes) {
	const struct generation *g = lanes->generation;
	const struct postfix_lanes *groups[1 + GENERATION_MTAS_MAX] = { &lanes->clones };
	char hints[PATH_MAX + 8];
	struct postfix_use use = { .hints = hints, .mta = lanes->mta_name,
		.site = lanes->site_path, .group = generation_text(g, g->hints_group),
		.lanes = groups, .lane_groups = 1,
		.probes = lanes->no_probes == NULL ? &lanes->probes : NULL };
	size_t length;
	FILE *out;

	for (unsigned i = 0; i < lanes->further_count; i++)
		groups[use.lane_groups++] = &lanes->further[i].clones;

	if (lanes->site.refusal[0] != '\0')
		return EX_OK;
	out = open_memstream(&lanes->lines, &length);
	if (out == NULL) {
		ctl_complain("no memory");
		return EX_OSERR;
	}
	snprintf(hints, sizeof(hints), "%s.hints", lanes->places.state);
	postfix_lines_write(out, &lanes->site, &use);
	fclose(out);
	return EX_OK;
}

static const char *settings_path(const struct lanes *lanes, int number,
    char path[PATH_MAX]) {
	(void)text_append(path, PATH_MAX, 0, "%s/%s", generation_text(
	    lanes->generation, lanes->mta->config_directory),
	    number == 0 ? "main.cf" : "master.cf");
	return path;
}

/* main.cf and master.cf, as they were before postconf read them. */
static int watch_settings(struct lanes *lanes, const uint64_t stamps[2], struct diag *diag) {
	for (int i = 0; i < 2; i++) {
		char path[PATH_MAX] = "";

		settings_path(lanes, i, path);
		if (postfix_site_watch(&lanes->site, path, stamps[i], diag) != 0)
			return -1;
	}
	return 0;
}

/* Of each transport: what its own mail server is, and its names. */
static int find_further(struct lanes *lanes, struct diag *diag) {
	const struct generation *g = lanes->generation;

	lanes->further = calloc(GENERATION_MTAS_MAX, sizeof(*lanes->further));
	if (lanes->further == NULL)
		return diag_set(diag, errno, "no memory");
	for (uint32_t i = 0; i < g->mta_count; i++)
		if (g->mtas[i].transport != 0 && &g->mtas[g->mtas[i].parent] == lanes->mta)
			lanes->further[lanes->further_count++] = (struct lanes){
				.ctl = lanes->ctl, .places = lanes->places,
				.generation = lanes->generation, .mta = &g->mtas[i],
				.mta_name = generation_text(g, g->mtas[i].name) };
	return 0;
}

static int read_sites(struct lanes *lanes, struct diag *diag) {
	const struct generation *g = lanes->generation;
	const char *transports[POSTFIX_TRANSPORTS_MAX] = { generation_text(g,
		lanes->mta->clone) };
	unsigned count = 1;

	if (find_further(lanes, diag) != 0)
		return -1;
	for (unsigned i = 0; i < lanes->further_count; i++)
		transports[count++] = generation_text(g, lanes->further[i].mta->transport);
	if (postfix_settings_read(&lanes->settings,
		generation_text(g, lanes->mta->config_directory), transports, count, diag) != 0 ||
	    postfix_site_read(&lanes->site, lanes->settings, transports[0], false, diag) != 0)
		return -1;
	for (unsigned i = 0; i < lanes->further_count; i++) {
		lanes->further[i].settings = lanes->settings;
		if (postfix_site_read(&lanes->further[i].site, lanes->settings,
			transports[i + 1], true, diag) != 0)
			return -1;
	}
	return 0;
}

static int lanes_run(struct lanes *lanes) {
	uint64_t stamps[2];
	char path[PATH_MAX];
	struct diag diag;
	int code;

	for (int i = 0; i < 2; i++)
		stamps[i] = file_stamp(settings_path(lanes, i, path));
	if (read_sites(lanes, &diag) != 0 || watch_settings(lanes, stamps, &diag) != 0 ||
	    ask_tables(lanes, &diag) != 0) {
		ctl_complain("%s", diag.text);
		return EX_UNAVAILABLE;
	}
	look_at_lanes(lanes);
	for (unsigned i = 0; i < lanes->further_count; i++)
		look_at_lanes(&lanes->further[i]);
	look_at_probes(lanes);
	if (!lanes->ctl->dry_run && lanes_write_site(lanes, &diag) != 0) {
		code = ctl_fail(&diag);
		return code == EX_OSERR || code == EX_UNAVAILABLE ? EX_CANTCREAT : code;
	}
	if (!lanes->ctl->dry_run)
		ask_for_reload(lanes);
	code = make_lines(lanes);
	if (code != EX_OK)
		return code;
	lanes_report(lanes);
	return lanes->site.refusal[0] == '\0' ? EX_OK : EX_UNAVAILABLE;
}

int command_POSTFIX_LANES(struct ctl *ctl) {
	struct lanes lanes = { .ctl = ctl };
	int code = places_find(ctl, &lanes.places);

	if (code == EX_OK)
		lanes.generation = places_compile(&lanes.places);
	if (code == EX_OK)
		code = find_mta(&lanes);
	if (code == EX_OK)
		code = lanes_run(&lanes);
	for (unsigned i = 0; i < lanes.further_count; i++)
		postfix_site_free(&lanes.further[i].site);
	free(lanes.further);
	postfix_site_free(&lanes.site);
	postfix_settings_free(&lanes.settings);
	free(lanes.generation);
	free(lanes.lines);
	return code;
}
