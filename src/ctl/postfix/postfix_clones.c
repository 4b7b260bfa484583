/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Writes clones of transports, the lanes of a Postfix among them, and tells whether
 *          they are there.
 * MODEL    One list of what a clone has, as it would be written, for both.  Values are
 *          written as they stand, $names and all.
 * ERRORS   None; fprintf's are the caller's.
 * THREADS  One.
 */
#include "ctl/postfix/postfix_clones.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"

#define CACHE		"smtp_connection_cache_on_demand"
#define CACHE_ALWAYS	"smtp_connection_cache_destinations"
#define WORD_MAX	4096
#define PROCESSES	6	/* the word of a service's line */

typedef void setting_call(void *context, const char *name, const char *value);

/* --- what a clone has ---------------------------------------------------------------- */

/* Does the clone have a value of its own?  One that is a failure wide would be suspended by
 * the first. */
static bool own_parameter(const char *name, uint32_t width) {
	return (strcmp(name, "initial_destination_concurrency") == 0 ||
	    strncmp(name, "destination_concurrency_", 24) == 0) &&
	    (width == 1 || strstr(name, "cohort") == NULL);
}

/* The settings of its own queues, of the queue manager.  Those of a transport that is not the
 * site's own are not known here. */
static void each_parameter(const struct postfix_clone *clone, setting_call *each,
    void *context) {
	bool is_known = strcmp(clone->original, clone->site->clone) == 0;
	char name[160], number[16];

	snprintf(number, sizeof(number), "%u", clone->width);
	for (const struct postfix_parameter *p = postfix_parameters; p->name != NULL; p++) {
		const char *value = is_known ?
		    postfix_transport_value(clone->site->settings, clone->original, p) : NULL;

		if (own_parameter(p->name, clone->width))
			value = strstr(p->name, "feedback") != NULL ||
			    strstr(p->name, "cohort") != NULL ? "0" : number;
		snprintf(name, sizeof(name), "%s_%s", clone->service, p->name);
		if (value != NULL)
			each(context, name, value);
	}
}

struct copying {
	enum clone_caching caching;
	setting_call *each;
	void *context;
};

static void copy_option(void *context, const char *name, const char *value) {
	const struct copying *copying = context;
	bool is_cache = strcmp(name, CACHE) == 0 || strcmp(name, CACHE_ALWAYS) == 0;

	if (strcmp(name, "syslog_name") != 0 &&
	    (!is_cache || copying->caching == CACHING_AS_THERE))
		copying->each(copying->context, name, value == NULL ? "" : value);
}

/* The options of its service. */
static void each_option(const struct postfix_clone *clone, setting_call *each, void *context) {
	const struct postfix_settings *settings = clone->site->settings;
	const char *always = postfix_value(settings, clone->original, CACHE_ALWAYS, false);
	struct copying copying = { clone->caching, each, context };
	char syslog_name[256] = "";

	postfix_overrides_each(settings, clone->original, copy_option, &copying);
	(void)text_append(syslog_name, sizeof(syslog_name), 0, "%s/%s", clone->syslog_name,
	    clone->log_name);
	each(context, "syslog_name", syslog_name);
	if (clone->caching == CACHING_ALWAYS)
		each(context, CACHE_ALWAYS, "static:all");
	if (clone->caching == CACHING_NONE)
		each(context, CACHE, "no");
	if (clone->caching == CACHING_NONE && always != NULL && *always != '\0')
		each(context, CACHE_ALWAYS, "");
}

/* --- written ------------------------------------------------------------------------ */

void postfix_clone_write_option(FILE *out, const char *name, const char *value) {
	if (value[0] != '\0' && strpbrk(value, " \t,{") == NULL)
		fprintf(out, "  -o %s=%s\n", name, value);
	else
		fprintf(out, "  -o { %s = %s }\n", name, value);
}

static void write_one(void *context, const char *name, const char *value) {
	postfix_clone_write_option(context, name, value);
}

void postfix_clone_write_options(FILE *out, const struct postfix_clone *clone) {
	each_parameter(clone, write_one, out);
}

/* The next word of a service's line behind number *at that is none of an option; false: its
 * end. */
static bool next_word(const char *line, unsigned *at, char word[WORD_MAX]) {
	while (postfix_service_word(line, ++*at, word, WORD_MAX)) {
		if (*at <= 7 || strcmp(word, "-o") != 0)
			return true;
		++*at;
	}
	return false;
}

void postfix_service_write(FILE *out, const char *line, const char *name, const char *processes) {
	char word[WORD_MAX];

	fprintf(out, "%s", name);
	for (unsigned at = 0; next_word(line, &at, word);)
		fprintf(out, " %s", at == PROCESSES && *processes != '\0' ? processes : word);
	putc('\n', out);
}

void postfix_clone_write_service(FILE *out, const struct postfix_clone *clone) {
	postfix_service_write(out, clone->line, clone->service, clone->processes);
	each_option(clone, write_one, out);
}

/* --- there already? ------------------------------------------------------------------- */

struct comparing {
	const struct postfix_settings *settings;
	const char *service;
	unsigned count;
	bool differs;
};

/* A value that is set twice counts as it was set last; so do ours. */
static void compare_one(void *context, const char *name, const char *value) {
	struct comparing *comparing = context;
	const char *there = postfix_override(comparing->settings, comparing->service, name,
	    true);

	comparing->count++;
	if (there == NULL || strcmp(there, value) != 0)
		comparing->differs = true;
}

static void count_one(void *context, const char *name, const char *value) {
	unsigned *count = context;

	(void)name;
	(void)value;
	++*count;
}

/* Is the line as it would be written, but for name and options? */
static bool is_same_service(const struct postfix_clone *clone, const char *line) {
	char word[WORD_MAX], other[WORD_MAX];
	unsigned i = 0, j = 0;

	for (;;) {
		bool more = next_word(line, &i, word), other_more = next_word(clone->line, &j, other);

		if (!more || !other_more)
			return more == other_more;
		if (strcmp(word, i == PROCESSES && clone->processes[0] != '\0' ?
		    clone->processes : other) != 0)
			return false;
	}
}

static bool is_as_written(const struct postfix_clone *clone, const char *line) {
	struct comparing comparing = { .settings = clone->site->settings, .service = "qmgr" };
	unsigned options = 0;

	each_parameter(clone, compare_one, &comparing);
	comparing.service = clone->service;
	comparing.count = 0;
	each_option(clone, compare_one, &comparing);
	postfix_overrides_each(clone->site->settings, clone->service, count_one, &options);
	return !comparing.differs && options == comparing.count && is_same_service(clone, line);
}

/* The socket that master(8) makes for a service that it knows. */
static bool is_served(const struct postfix_clone *clone) {
	const char *directory = postfix_main(clone->site->settings, "queue_directory", false);
	struct stat status;
	char path[4096] = "";

	(void)text_append(path, sizeof(path), 0, "%s/private/%s",
	    directory == NULL ? "" : directory, clone->service);
	return lstat(path, &status) == 0 && S_ISSOCK(status.st_mode);
}

enum clone_state postfix_clone_state(const struct postfix_clone *clone) {
	const char *line = postfix_service(clone->site->settings, clone->service);

	if (line == NULL || clone->line == NULL)
		return CLONE_ABSENT;
	if (postfix_service_count(clone->site->settings, clone->service) > 1)
		return CLONE_TWICE;
	if (!is_as_written(clone, line))
		return CLONE_OUTDATED;
	return is_served(clone) ? CLONE_THERE : CLONE_WAITS;
}

bool postfix_clones_of_smtp(const char *line) {
	char program[128];
	const char *slash;

	if (line == NULL || !postfix_service_word(line, 7, program, sizeof(program)))
		return false;
	slash = strrchr(program, '/');
	return strcmp(slash == NULL ? program : slash + 1, "smtp") == 0;
}

/* --- lanes --------------------------------------------------------------------------- */

const char *postfix_lanes_doubt(const struct postfix_site *site) {
	const char *line = postfix_service(site->settings, site->clone), *limit;
	char name[128] = "", program[128];

	if (line == NULL || !postfix_service_word(line, 7, program, sizeof(program)))
		return "master.cf has no such service";
	if (!postfix_clones_of_smtp(line))
		return "its program is not smtp";
	(void)text_append(name, sizeof(name), 0, "%s_destination_recipient_limit",
	    site->clone);
	limit = postfix_value(site->settings, "qmgr", name, false);
	if (limit != NULL && strcmp(limit, "1") == 0)
		return "with its destination_recipient_limit of 1, each recipient is a "
		    "separate destination";
	return NULL;
}

/* What a lane makes of the original's connection cache. */
static enum clone_caching caching_of(const struct postfix_lanes *lanes, uint16_t width) {
	const struct postfix_site *site = lanes->site;
	const char *demand = postfix_value(site->settings, site->clone, CACHE, false);
	const char *always = postfix_value(site->settings, site->clone, CACHE_ALWAYS, false);
	bool is_wide = lanes->cache_from != 0 && width >= lanes->cache_from;

	if ((always == NULL || *always == '\0') && demand != NULL && strcmp(demand, "no") == 0)
		return CACHING_AS_THERE;
	return is_wide ? CACHING_ALWAYS : CACHING_NONE;
}

void postfix_lane(const struct postfix_lanes *lanes, uint32_t i, struct postfix_clone *out) {
	const struct postfix_site *site = lanes->site;

	*out = (struct postfix_clone){ .site = site, .original = site->clone,
		.line = postfix_service(site->settings, site->clone), .log_name = out->service,
		.syslog_name = lanes->syslog_name, .width = lanes->widths[i],
		.caching = caching_of(lanes, lanes->widths[i]) };
	snprintf(out->service, sizeof(out->service), "lane%u%s%s", lanes->widths[i],
	    lanes->transport[0] != '\0' ? "-" : "", lanes->transport);
}

bool postfix_lanes_have(const struct postfix_lanes *lanes, const char *name) {
	struct postfix_clone lane;

	for (uint32_t i = 0; i < lanes->count; i++) {
		postfix_lane(lanes, i, &lane);
		if (strncmp(name, lane.service, strlen(lane.service)) == 0 &&
		    name[strlen(lane.service)] == '_')
			return true;
	}
	return false;
}
