/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Writes the lanes of a Postfix, and tells whether they are there.
 * MODEL    One list of what a lane has, as it would be written, for both.  Values are
 *          written as they stand, $names and all.
 * ERRORS   None; fprintf's are the caller's.
 * THREADS  One.
 */
#include "ctl/postfix/postfix_clones.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"
#include "ctl/postfix/postfix_lines.h"

#define CACHE		"smtp_connection_cache_on_demand"
#define CACHE_ALWAYS	"smtp_connection_cache_destinations"
#define WORD_MAX	4096
#define LANE_NAME_MAX	64

typedef void setting_call(void *context, const char *name, const char *value);

static void name_of(const struct postfix_lanes *lanes, uint16_t width, char out[LANE_NAME_MAX]) {
	snprintf(out, LANE_NAME_MAX, "lane%u%s%s", width, lanes->transport[0] != '\0' ? "-" : "",
	    lanes->transport);
}

const char *postfix_clones_doubt(const struct postfix_site *site) {
	const char *line = postfix_service(site->settings, site->clone), *limit, *slash;
	char name[128] = "", program[128];

	if (line == NULL || !postfix_service_word(line, 7, program, sizeof(program)))
		return "master.cf has no such service";
	slash = strrchr(program, '/');
	if (strcmp(slash == NULL ? program : slash + 1, "smtp") != 0)
		return "its program is not smtp";
	(void)text_append(name, sizeof(name), 0, "%s_destination_recipient_limit",
	    site->clone);
	limit = postfix_value(site->settings, "qmgr", name, false);
	if (limit != NULL && strcmp(limit, "1") == 0)
		return "with its destination_recipient_limit of 1, each recipient is a "
		    "separate destination";
	return NULL;
}

/* --- what a lane has ---------------------------------------------------------------- */

/* Does the lane have a value of its own? */
static bool own_parameter(const char *name, uint16_t width) {
	static const char *const all[] = { "initial_destination_concurrency",
		"destination_concurrency_limit", "destination_concurrency_positive_feedback",
		"destination_concurrency_negative_feedback" };

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (strcmp(name, all[i]) == 0)
			return true;
	return width == 1 &&
	    strcmp(name, "destination_concurrency_failed_cohort_limit") == 0;
}

/* The settings of its own queues, of the queue manager. */
static void each_parameter(const struct postfix_lanes *lanes, uint16_t width,
    setting_call *each, void *context) {
	const struct postfix_site *site = lanes->site;
	char lane[LANE_NAME_MAX], name[160], number[8];

	name_of(lanes, width, lane);
	snprintf(number, sizeof(number), "%u", width);
	for (const struct postfix_parameter *p = postfix_parameters; p->name != NULL; p++) {
		const char *value = postfix_transport_value(site->settings, site->clone, p);

		if (own_parameter(p->name, width))
			value = strstr(p->name, "feedback") != NULL ||
			    strstr(p->name, "cohort") != NULL ? "0" : number;
		snprintf(name, sizeof(name), "%s_%s", lane, p->name);
		if (value != NULL)
			each(context, name, value);
	}
}

/* What a lane makes of the original's connection cache. */
enum caching {
	CACHING_AS_THERE,	/* it has none */
	CACHING_NONE,
	CACHING_ALWAYS,
};

static enum caching caching_of(const struct postfix_lanes *lanes, uint16_t width) {
	const struct postfix_site *site = lanes->site;
	const char *demand = postfix_value(site->settings, site->clone, CACHE, false);
	const char *always = postfix_value(site->settings, site->clone, CACHE_ALWAYS, false);
	bool is_wide = lanes->cache_from != 0 && width >= lanes->cache_from;

	if ((always == NULL || *always == '\0') && demand != NULL && strcmp(demand, "no") == 0)
		return CACHING_AS_THERE;
	return is_wide ? CACHING_ALWAYS : CACHING_NONE;
}

struct copying {
	enum caching caching;
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
static void each_option(const struct postfix_lanes *lanes, uint16_t width,
    setting_call *each, void *context) {
	const struct postfix_site *site = lanes->site;
	const char *always = postfix_value(site->settings, site->clone, CACHE_ALWAYS, false);
	struct copying copying = { caching_of(lanes, width), each, context };
	char lane[LANE_NAME_MAX], syslog_name[256] = "";

	name_of(lanes, width, lane);
	postfix_overrides_each(site->settings, site->clone, copy_option, &copying);
	(void)text_append(syslog_name, sizeof(syslog_name), 0, "%s/%s", lanes->syslog_name, lane);
	each(context, "syslog_name", syslog_name);
	if (copying.caching == CACHING_ALWAYS)
		each(context, CACHE_ALWAYS, "static:all");
	if (copying.caching == CACHING_NONE)
		each(context, CACHE, "no");
	if (copying.caching == CACHING_NONE && always != NULL && *always != '\0')
		each(context, CACHE_ALWAYS, "");
}

/* --- written ------------------------------------------------------------------------ */

static void write_one(void *context, const char *name, const char *value) {
	postfix_lines_option(context, name, value);
}

void postfix_clones_write_options(FILE *out, const struct postfix_lanes *lanes) {
	for (uint32_t i = 0; i < lanes->count; i++)
		each_parameter(lanes, lanes->widths[i], write_one, out);
}

void postfix_clones_write_services(FILE *out, const struct postfix_lanes *lanes) {
	const char *line = postfix_service(lanes->site->settings, lanes->site->clone);
	char name[LANE_NAME_MAX];

	for (uint32_t i = 0; i < lanes->count; i++) {
		name_of(lanes, lanes->widths[i], name);
		postfix_lines_service(out, line, name);
		each_option(lanes, lanes->widths[i], write_one, out);
	}
}

bool postfix_clones_has(const struct postfix_lanes *lanes, const char *name) {
	char prefix[LANE_NAME_MAX];

	for (uint32_t i = 0; i < lanes->count; i++) {
		name_of(lanes, lanes->widths[i], prefix);
		if (strncmp(name, prefix, strlen(prefix)) == 0 && name[strlen(prefix)] == '_')
			return true;
	}
	return false;
}

/* --- there already? ------------------------------------------------------------------- */

struct comparing {
	const struct postfix_site *site;
	const char *service;
	unsigned count;
	bool differs;
};

/* A value that is set twice counts as it was set last; so do ours. */
static void compare_one(void *context, const char *name, const char *value) {
	struct comparing *comparing = context;
	const char *there = postfix_override(comparing->site->settings,
	    comparing->service, name, true);

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

bool postfix_clones_same_service(const char *line, const char *other, unsigned but) {
	char word[WORD_MAX], twin[WORD_MAX];
	unsigned i = 1, j = 1;

	for (;;) {
		bool more, twin_more;

		while ((more = postfix_service_word(line, i++, word, sizeof(word))) && i > 8 &&
		    strcmp(word, "-o") == 0)
			i++;
		while ((twin_more = postfix_service_word(other, j++, twin, sizeof(twin))) &&
		    j > 8 && strcmp(twin, "-o") == 0)
			j++;
		if (!more || !twin_more || (strcmp(word, twin) != 0 && i - 1 != but))
			return !more && !twin_more;
	}
}

/* The socket that master(8) makes for a service that it knows. */
bool postfix_clones_is_served(const struct postfix_site *site, const char *name) {
	const char *directory = postfix_main(site->settings, "queue_directory", false);
	struct stat status;
	char path[4096] = "";

	(void)text_append(path, sizeof(path), 0, "%s/private/%s",
	    directory == NULL ? "" : directory, name);
	return lstat(path, &status) == 0 && S_ISSOCK(status.st_mode);
}

enum clone_state postfix_clone_state(const struct postfix_lanes *lanes, uint16_t width) {
	struct comparing comparing = { .site = lanes->site };
	const char *line, *original;
	unsigned options = 0;
	char name[LANE_NAME_MAX];

	name_of(lanes, width, name);
	line = postfix_service(lanes->site->settings, name);
	original = postfix_service(lanes->site->settings, lanes->site->clone);
	if (line == NULL || original == NULL)
		return CLONE_ABSENT;
	if (postfix_service_count(lanes->site->settings, name) > 1)
		return CLONE_TWICE;
	comparing.service = "qmgr";
	each_parameter(lanes, width, compare_one, &comparing);
	comparing.service = name;
	comparing.count = 0;
	each_option(lanes, width, compare_one, &comparing);
	postfix_overrides_each(lanes->site->settings, name, count_one, &options);
	if (comparing.differs || options != comparing.count || !postfix_clones_same_service(line, original, 0))
		return CLONE_OUTDATED;
	return postfix_clones_is_served(lanes->site, name) ? CLONE_THERE : CLONE_WAITS;
}
