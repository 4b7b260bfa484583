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
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/file_stamp.h"
#include "base/text.h"
#include "config/read/read_file.h"
#include "config/mta/relayhost.h"
#include "ctl/act/control_client.h"
#include "ctl/cli/ctl.h"
#include "ctl/postfix/postfix_clones.h"
#include "ctl/postfix/postfix_lines.h"
#include "ctl/postfix/postfix_probes.h"
#include "ctl/postfix/postfix_settings.h"
#include "ctl/postfix/postfix_site.h"
#include "segment/reader.h"

#define COUNT_OF(array)		(sizeof(array) / sizeof((array)[0]))
#define RELOAD_TIMEOUT_MS	60000
#define MASTER_CF_MAX		((size_t)1 << 20)
#define POSTFIX_SETUP		"postern-postfix-setup"

struct lanes {
	struct ctl *ctl;
	struct places places;
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

/* --- which mta ------------------------------------------------------------- */

static int find_mta(struct lanes *lanes) {
	const struct generation *g = lanes->places.generation;
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

struct names {
	char **list;
	size_t count, size;
	bool failed;
};

static void take_name(void *context, const struct destination_seen *seen) {
	struct names *names = context;

	/* keys for postmap stand one a line */
	if (names->failed || strpbrk(seen->name, " \t\r\n") != NULL)
		return;
	if (!array_grow(&names->list, &names->size, names->count, sizeof(*names->list)) ||
	    (names->list[names->count] = strdup(seen->name)) == NULL)
		names->failed = true;
	else
		names->count++;
}

/* The same tables and more are those of the clone. */
static int ask_further(struct lanes *lanes, const struct names *names, struct diag *diag) {
	for (unsigned i = 0; i < lanes->further_count; i++)
		if (lanes->further[i].site.refusal[0] == '\0' && postfix_site_ask(
		    &lanes->further[i].site, names->list, names->count, diag) != 0)
			return -1;
	return 0;
}

static int ask_tables(struct lanes *lanes, struct diag *diag) {
	struct names names = { .list = NULL };
	struct segment *reader;
	int result = 0;

	if (lanes->site.table_count == 0 || lanes->site.refusal[0] != '\0')
		return 0;
	if (reader_open(&reader, lanes->places.state, diag) == 0) {
		(void)destinations_each(reader, take_name, &names);
		segment_unmap(&reader);
	} else {
		ctl_complain("%s", diag->text);
	}
	if (names.failed)
		result = diag_set(diag, ENOMEM, "no memory");
	else
		result = postfix_site_ask(&lanes->site, names.list, names.count, diag);
	if (result == 0)
		result = ask_further(lanes, &names, diag);
	for (size_t i = 0; i < names.count; i++)
		free(names.list[i]);
	free(names.list);
	return result;
}

/* --- the lanes --------------------------------------------------------------- */

static void look_at_lanes(struct lanes *lanes) {
	const struct generation *g = lanes->places.generation;
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

static bool has_probes(const struct lanes *lanes) {
	return lanes->no_probes == NULL && lanes->probe_state == CLONE_THERE &&
	    postfix_attachment(&lanes->site) != ATTACHED_NO;
}

/* Mail must never be told a lane that is not there. */
static bool is_usable(const struct lanes *lanes, uint32_t i) {
	return lanes->states[i] == CLONE_THERE &&
	    postfix_attachment(&lanes->site) != ATTACHED_NO;
}

/* A number among the clone's settings, as it is in force; "": there is none. */
static const char *clone_value(const struct lanes *lanes, const char *parameter) {
	char name[160] = "";
	const char *value;

	(void)text_append(name, sizeof(name), 0, "%s_%s", lanes->site.clone, parameter);
	value = postfix_value(lanes->settings, "qmgr", name, false);
	return value == NULL ? "" : value;
}

/* In thousandths; what cannot be read is Postfix's default. */
static unsigned failed_cohorts(const struct lanes *lanes) {
	const char *value = clone_value(lanes, "destination_concurrency_failed_cohort_limit");
	char *end;
	double number = strtod(value, &end);

	return end == value || *end != '\0' || !(number >= 0 && number < 1e6) ? 1000 :
	    (unsigned)(number * 1000 + 0.5);
}

/* Postfix's times are seconds where no unit stands behind. */
static long long backoff_s(const struct lanes *lanes) {
	const char *value = postfix_value(lanes->settings, "qmgr", "minimal_backoff_time",
	    false);
	char text[32] = "";
	int64_t ns;

	(void)text_append(text, sizeof(text), 0, "%s%s", value == NULL ? "" : value,
	    value != NULL && value[strspn(value, "0123456789")] == '\0' ? "s" : "");
	return text_to_duration_ns(text, &ns) && ns >= 0 && ns / NS_PER_SECOND < INT32_MAX ?
	    (long long)(ns / NS_PER_SECOND) : 300;
}

/* --- the site's file ------------------------------------------------------- */

/* Did postern-postfix-setup put the lines into master.cf?  It says so there. */
static bool is_by_setup(const struct lanes *lanes) {
	const char *directory = generation_text(lanes->places.generation,
	    lanes->mta->config_directory);
	char path[PATH_MAX];
	size_t length;
	char *text;
	bool found;

	(void)text_append(path, sizeof(path), 0, "%s/master.cf", directory);
	text = read_file(path, MASTER_CF_MAX, &length);
	found = text != NULL && strstr(text, "\n# by " POSTFIX_SETUP ".") != NULL;
	free(text);
	return found;
}

static void write_routes(FILE *file, const struct postfix_site *site) {
	for (size_t i = 0; i < site->route_count; i++)
		if (site->routes[i].next_hop[0] == '\0')
			fprintf(file, "own %s\n", site->routes[i].mask);
		else
			fprintf(file, "route %s %s\n", site->routes[i].mask,
			    site->routes[i].next_hop);
	for (size_t i = 0; i < site->exclusion_count; i++)
		fprintf(file, "exclude %s %s\n", site->exclusions[i].mask,
		    site->exclusions[i].setting);
}

static void write_clone(FILE *file, const struct lanes *lanes) {
	const struct postfix_site *site = &lanes->site;

	if (site->program[0] != '\0')
		fprintf(file, "clone-program %s\n", site->program);
	fprintf(file, "clone-limit %lu\nclone-cohorts %u\nclone-backoff %lld\n",
	    strtoul(clone_value(lanes, "destination_concurrency_limit"), NULL, 10) & INT32_MAX,
	    failed_cohorts(lanes), backoff_s(lanes));
	if (site->refusal[0] != '\0')
		fprintf(file, "refuse %s %s\n", site->refusal, site->refusal_text);
}

static void write_lanes(FILE *file, const struct lanes *lanes) {
	for (uint32_t i = 0; i < lanes->clones.count; i++)
		if (is_usable(lanes, i))
			fprintf(file, "lane %u\n", lanes->clones.widths[i]);
}

/* Without a route none of its mail is known: then the rest would be in vain. */
static void write_further(FILE *file, const struct lanes *lanes) {
	fprintf(file, "transport %s\n", lanes->site.clone);
	write_clone(file, lanes);
	write_lanes(file, lanes);
	if (lanes->site.route_count > 0)
		write_routes(file, &lanes->site);
}

static void write_facts(FILE *file, const struct lanes *lanes) {
	const struct postfix_site *site = &lanes->site;
	time_t now = time(NULL);
	struct tm tm;
	char made[32];

	strftime(made, sizeof(made), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
	fprintf(file, "postern-site 1\n# Written by posternctl postfix-lanes.\n"
	    "mta %s\nmade %s\n", lanes->mta_name, made);
	write_clone(file, lanes);
	if (site->relayhost[0] != '\0')
		fprintf(file, "relayhost %s\n", site->relayhost);
	if (is_by_setup(lanes))
		fputs("by-setup\n", file);
	write_lanes(file, lanes);
	if (has_probes(lanes))
		fprintf(file, "probes %u\n", lanes->probes.width);
	else if (lanes->no_probes != NULL)
		fprintf(file, "no-probes %s\n", lanes->no_probes);
	for (size_t i = 0; i < site->watch_count; i++)
		fprintf(file, "watch %016" PRIx64 " %s\n", site->watches[i].stamp,
		    site->watches[i].path);
	write_routes(file, site);
	if (site->table_count > 0)
		fputs("only-listed\n", file);
	for (size_t i = 0; i < site->listed_count; i++)
		fprintf(file, "list %s\n", site->listed[i]);
	for (unsigned i = 0; i < lanes->further_count; i++)
		write_further(file, &lanes->further[i]);
}

static int make_directory(const char *path, struct diag *diag) {
	char copy[PATH_MAX];
	const char *directory;

	if (!text_copy(copy, sizeof(copy), path, strlen(path)))
		return diag_set(diag, ENAMETOOLONG, "%s", path);
	directory = dirname(copy);
	/* postern-lookup reads there, whatever our umask is */
	if (mkdir(directory, 0755) == 0)
		(void)chmod(directory, 0755);
	else if (errno != EEXIST)
		return diag_set(diag, errno, "cannot create directory %s", directory);
	return 0;
}

static int write_site(const struct lanes *lanes, struct diag *diag) {
	char temporary[PATH_MAX + 8];
	FILE *file = NULL;
	bool good;
	int fd;

	if (make_directory(lanes->site_path, diag) != 0)
		return -1;
	snprintf(temporary, sizeof(temporary), "%s.new", lanes->site_path);
	(void)unlink(temporary);
	fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd >= 0)
		file = fdopen(fd, "w");
	if (file == NULL)
		return diag_set(diag, errno, "cannot create %s", temporary);
	write_facts(file, lanes);
	good = fchmod(fd, 0644) == 0 && fflush(file) == 0 && ferror(file) == 0 &&
	    fsync(fd) == 0;
	good = fclose(file) == 0 && good;
	if (good && rename(temporary, lanes->site_path) == 0)
		return 0;
	diag_set(diag, errno, "cannot write %s", lanes->site_path);
	unlink(temporary);
	return -1;
}

/* A daemon that is away reads the file when it comes. */
static void reload(struct lanes *lanes) {
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
	const struct generation *g = lanes->places.generation;
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

static void write_exclusions(struct writer *writer, const struct postfix_site *site) {
	writer_list_begin(writer, "excluded");
	for (size_t i = 0; i < site->exclusion_count; i++) {
		writer_row_begin(writer);
		writer_text(writer, "mask", site->exclusions[i].mask);
		writer_text(writer, "setting", site->exclusions[i].setting);
		writer_row_end(writer);
	}
	writer_list_end(writer);
}

static void write_site_routes(struct writer *writer, const struct lanes *lanes) {
	const struct postfix_site *site = &lanes->site;

	for (size_t i = 0; i < site->route_count; i++) {
		writer_row_begin(writer);
		writer_text(writer, "mask", site->routes[i].mask);
		writer_text_if(writer, "next_hop", site->routes[i].next_hop);
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
		writer_truth(writer, "used", is_usable(lanes, i));
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

static void write_asked(struct writer *writer, const struct postfix_site *site) {
	writer_list_begin(writer, "asked");
	for (size_t i = 0; i < site->table_count; i++) {
		writer_row_begin(writer);
		writer_text(writer, "table", site->tables[i].name);
		writer_text(writer, "setting", site->tables[i].setting);
		writer_row_end(writer);
	}
	writer_list_end(writer);
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

static void tell_programs(const struct lanes *lanes) {
	const struct postfix_site *site = &lanes->site;
	struct writer *writer = &lanes->ctl->writer;

	writer_object_begin(writer, NULL);
	writer_text(writer, "mta", lanes->mta_name);
	writer_text(writer, "config_directory", postfix_directory(lanes->settings));
	writer_text(writer, "clone", site->clone);
	writer_text_if(writer, "clone_program", site->program);
	writer_text_if(writer, "relayhost", site->relayhost);
	put_refusal(writer, lanes, true);
	writer_truth(writer, "only_listed", site->table_count > 0);
	writer_number(writer, "listed", site->listed_count);
	writer_text(writer, "attached", attachments[postfix_attachment(site)]);
	writer_text(writer, "site", lanes->site_path);
	writer_text(writer, "probes", lanes->no_probes != NULL ? NULL :
	    clone_states[lanes->probe_state]);
	writer_text(writer, "no_probes", lanes->no_probes);
	writer_truth(writer, "reloaded", lanes->reloaded);
	writer_text(writer, "lines", lanes->lines);
	write_exclusions(writer, site);
	write_each(writer, "routed", lanes, true, write_site_routes);
	write_each(writer, "transports", lanes, false, write_transport);
	write_each(writer, "lanes", lanes, true, write_site_lanes);
	write_asked(writer, site);
	writer_object_end(writer);
}

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
static void tell_people_of_twins(const struct lanes *lanes) {
	static const char *const names[] = { "qmgr", POSTFIX_RESOLVER, POSTFIX_HINT_SERVICE };

	for (size_t i = 0; i < COUNT_OF(names); i++) {
		unsigned count = postfix_service_count(lanes->settings, names[i]);

		if (count > 1)
			ctl_complain("%s: master.cf has %s %u times and Postfix uses the last "
			    "one; keep only the one printed here", lanes->mta_name,
			    names[i], count);
	}
}

static void tell_people_of_lanes(const struct lanes *lanes) {
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

static void tell_people_of_further(const struct lanes *lanes) {
	const struct postfix_site *site = &lanes->site;

	if (site->refusal[0] != '\0')
		ctl_complain("%s: no hints for this transport: %s", lanes->mta_name,
		    site->refusal_text);
	else if (site->route_count == 0)
		ctl_complain("%s: no domain uses this transport: neither transport_maps nor "
		    "relay_domains (relay_transport) names it", lanes->mta_name);
	tell_people_of_lanes(lanes);
}

static void tell_people_of_probes(const struct lanes *lanes) {
	if (lanes->site.refusal[0] != '\0' || lanes->probes.width == 0 || has_probes(lanes) ||
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
static void tell_people(const struct lanes *lanes) {
	const struct postfix_site *site = &lanes->site;
	char text[1024];

	if (lanes->lines != NULL)
		fputs(lanes->lines, lanes->ctl->writer.out);
	else
		ctl_complain("%s: no hints for this Postfix: %s", lanes->mta_name,
		    site->refusal_text);
	for (size_t i = 0; i < site->table_count; i++)
		ctl_complain("%s: the entries of %s cannot be listed: hints apply to the %zu "
		    "destinations known so far; run this command again regularly",
		    site->tables[i].setting, site->tables[i].name, site->listed_count);
	tell_people_of_twins(lanes);
	tell_people_of_lanes(lanes);
	for (unsigned i = 0; i < lanes->further_count; i++)
		tell_people_of_further(&lanes->further[i]);
	tell_people_of_probes(lanes);
	if (relayhost_fault(site->relayhost, lanes->mta, text, sizeof(text)))
		ctl_complain("%s: %s", lanes->mta_name, text);
	if (lanes->lines == NULL && postfix_attachment(site) != ATTACHED_NO)
		ctl_complain("master.cf has lines of Postern; remove them and restore its own "
		    "qmgr line; until then mail uses the transport_maps in them");
	else if (postfix_attachment(site) == ATTACHED_OUTDATED)
		ctl_complain("master.cf has lines from an earlier run; replace them: mail "
		    "still uses the earlier settings");
}

static const char *settings_path(const struct lanes *lanes, int number,
    char path[PATH_MAX]) {
	(void)text_append(path, PATH_MAX, 0, "%s/%s", generation_text(
	    lanes->places.generation, lanes->mta->config_directory),
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
	const struct generation *g = lanes->places.generation;

	lanes->further = calloc(GENERATION_MTAS_MAX, sizeof(*lanes->further));
	if (lanes->further == NULL)
		return diag_set(diag, errno, "no memory");
	for (uint32_t i = 0; i < g->mta_count; i++)
		if (g->mtas[i].transport != 0 && &g->mtas[g->mtas[i].parent] == lanes->mta)
			lanes->further[lanes->further_count++] = (struct lanes){
				.ctl = lanes->ctl, .places = lanes->places,
				.mta = &g->mtas[i],
				.mta_name = generation_text(g, g->mtas[i].name) };
	return 0;
}

static int read_sites(struct lanes *lanes, struct diag *diag) {
	const struct generation *g = lanes->places.generation;
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

static int do_it(struct lanes *lanes) {
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
	if (!lanes->ctl->dry_run && write_site(lanes, &diag) != 0) {
		code = ctl_fail(&diag);
		return code == EX_OSERR || code == EX_UNAVAILABLE ? EX_CANTCREAT : code;
	}
	if (!lanes->ctl->dry_run)
		reload(lanes);
	code = make_lines(lanes);
	if (code != EX_OK)
		return code;
	if (lanes->ctl->writer.json)
		tell_programs(lanes);
	else
		tell_people(lanes);
	return lanes->site.refusal[0] == '\0' ? EX_OK : EX_UNAVAILABLE;
}

int command_POSTFIX_LANES(struct ctl *ctl) {
	struct lanes lanes = { .ctl = ctl };
	int code = places_find(ctl, &lanes.places);

	if (code == EX_OK)
		(void)places_compile(&lanes.places);
	if (code == EX_OK)
		code = find_mta(&lanes);
	if (code == EX_OK)
		code = do_it(&lanes);
	for (unsigned i = 0; i < lanes.further_count; i++)
		postfix_site_free(&lanes.further[i].site);
	free(lanes.further);
	postfix_site_free(&lanes.site);
	postfix_settings_free(&lanes.settings);
	places_free(&lanes.places);
	free(lanes.lines);
	return code;
}
