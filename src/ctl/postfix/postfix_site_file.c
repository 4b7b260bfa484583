/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Writes the site's file (config/generation/site_file.h).
 * MODEL    It is complete under its name or not there.
 * ERRORS   diag.
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
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "config/read/read_file.h"
#include "ctl/postfix/postfix_lanes.h"

#define MASTER_CF_MAX		((size_t)1 << 20)
#define POSTFIX_SETUP		"postern-postfix-setup"

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

/* Did postern-postfix-setup put the lines into master.cf?  It says so there. */
static bool is_by_setup(const struct lanes *lanes) {
	const char *directory = generation_text(lanes->generation,
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
	for (size_t i = 0; i < site->routes.count; i++) {
		const struct site_entry *route = &site->routes.entries[i];

		if (route->next_hop[0] == '\0')
			fprintf(file, "own %s\n", route->name);
		else
			fprintf(file, "route %s %s\n", route->name, route->next_hop);
	}
	for (size_t i = 0; i < site->exclusions.count; i++)
		fprintf(file, "exclude %s %s\n", site->exclusions.entries[i].name,
		    site->exclusions.entries[i].setting.name);
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
		if (lanes_usable(lanes, i))
			fprintf(file, "lane %u\n", lanes->clones.widths[i]);
}

/* Without a route none of its mail is known: then the rest would be in vain. */
static void write_further(FILE *file, const struct lanes *lanes) {
	fprintf(file, "transport %s\n", lanes->site.clone);
	write_clone(file, lanes);
	write_lanes(file, lanes);
	if (lanes->site.routes.count > 0)
		write_routes(file, &lanes->site);
}

/* A transport that is not in master.cf would keep its mail queued: its name is root's, too. */
static void write_sources(FILE *file, const struct lanes *lanes) {
	const struct generation *g = lanes->generation;

	for (uint32_t i = 0; i < g->source_count; i++) {
		const struct generation_source *source = generation_source(g, i);
		const char *transport = generation_text(g, source->transport);
		const char *over = generation_text(g, source->over);
		char why[LANES_SOURCE_TEXT];

		if (!lanes_source_fault(lanes, transport, true, why))
			fprintf(file, "source %s\n", transport);
		if (over[0] != '\0' && strcmp(over, lanes->site.clone) != 0 &&
		    !lanes_source_fault(lanes, over, false, why))
			fprintf(file, "source %s\n", over);
	}
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
	if (lanes_has_probes(lanes))
		fprintf(file, "probes %u\n", lanes->probes.width);
	else if (lanes->no_probes != NULL)
		fprintf(file, "no-probes %s\n", lanes->no_probes);
	for (size_t i = 0; i < site->watches.count; i++)
		fprintf(file, "watch %016" PRIx64 " %s\n", site->watches.entries[i].stamp,
		    site->watches.entries[i].name);
	write_sources(file, lanes);
	write_routes(file, site);
	if (site->tables.count > 0)
		fputs("only-listed\n", file);
	for (size_t i = 0; i < site->listed.count; i++)
		fprintf(file, "list %s\n", site->listed.entries[i].name);
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

int lanes_write_site(const struct lanes *lanes, struct diag *diag) {
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
