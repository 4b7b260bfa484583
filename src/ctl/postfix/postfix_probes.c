/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Writes the lanes for address verification probes, and tells whether they are
 *          there.
 * MODEL    As postfix_clones.c: one list of what a lane has, as it would be written, for
 *          both.  Which transports there are to be cloned, the resolver's settings tell.
 * ERRORS   None; fprintf's are the caller's.
 * THREADS  One.
 */
#include "ctl/postfix/postfix_probes.h"

#include <string.h>

#include "base/text.h"
#include "ctl/postfix/postfix_lines.h"

#define CACHE		"smtp_connection_cache_on_demand"
#define CACHE_ALWAYS	"smtp_connection_cache_destinations"
#define KINDS		2
#define WORD_MAX	4096
#define PROCESSES	6	/* the word of a service's line */

typedef void setting_call(void *context, const char *name, const char *value);

static const struct {
	const char *setting, *service, *log_name;
} kinds[KINDS] = {
	{ "address_verify_default_transport", POSTFIX_PROBES, "probe" },
	{ "address_verify_relay_transport", POSTFIX_PROBES "-relay", "probe-relay" },
};

/* A transport that probes are sent by. */
struct lane {
	const struct postfix_site *site;
	char original[80];
	const char *line;		/* its service */
	const char *behind;		/* what stands behind it: "", ":nexthop" */
	const char *service, *log_name;	/* of the clone */
};

/* False: its program is not smtp, or there is none. */
static bool find_original(const struct postfix_site *site, unsigned kind, struct lane *lane) {
	const char *value = postfix_value(site->settings, site->resolver, kinds[kind].setting,
	    false);
	char program[128];
	const char *slash;
	size_t length;

	if (value == NULL)
		return false;
	length = strcspn(value, ":");
	*lane = (struct lane){ .site = site, .behind = value + length,
		.service = kinds[kind].service, .log_name = kinds[kind].log_name };
	if (!text_copy(lane->original, sizeof(lane->original), value, length))
		return false;
	lane->line = postfix_service(site->settings, lane->original);
	if (lane->line == NULL ||
	    !postfix_service_word(lane->line, 7, program, sizeof(program)))
		return false;
	slash = strrchr(program, '/');
	return strcmp(slash == NULL ? program : slash + 1, "smtp") == 0;
}

/* The lane of a kind of probes; *is_own: no other kind has it, too. */
static bool find_lane(const struct postfix_site *site, unsigned kind, struct lane *lane,
    bool *is_own) {
	struct lane first;

	*is_own = true;
	if (!find_original(site, kind, lane))
		return false;
	if (kind > 0 && find_original(site, 0, &first) &&
	    strcmp(first.original, lane->original) == 0) {
		lane->service = first.service;
		lane->log_name = first.log_name;
		*is_own = false;
	}
	return true;
}

const char *postfix_probes_doubt(const struct postfix_site *site) {
	struct lane lane;

	return find_original(site, 0, &lane) ? NULL :
	    "the program of address_verify_default_transport is not smtp";
}

bool postfix_probes_has(const char *name) {
	return strncmp(name, POSTFIX_PROBES, strlen(POSTFIX_PROBES)) == 0;
}

bool postfix_probes_sets(const struct postfix_site *site, const char *name) {
	struct lane lane;

	for (unsigned kind = 0; kind < KINDS; kind++)
		if (strcmp(kinds[kind].setting, name) == 0)
			return find_original(site, kind, &lane);
	return false;
}

/* --- what a lane has ---------------------------------------------------------------- */

/* Does the lane have a value of its own?  One that is a failure wide would be suspended by
 * the first. */
static bool own_parameter(const char *name, uint32_t width) {
	return strcmp(name, "initial_destination_concurrency") == 0 ||
	    strncmp(name, "destination_concurrency_", 24) == 0 ?
	    width == 1 || strstr(name, "cohort") == NULL : false;
}

/* The settings of its queues, of the queue manager.  Those of a transport that is not the
 * one that mail's lanes clone are not known here: a probe has one recipient, and needs none. */
static void each_parameter(const struct postfix_probes *probes, const struct lane *lane,
    setting_call *each, void *context) {
	bool is_clone = strcmp(lane->original, probes->site->clone) == 0;
	char name[160], number[16];

	snprintf(number, sizeof(number), "%u", probes->width);
	for (const struct postfix_parameter *p = postfix_parameters; p->name != NULL; p++) {
		const char *value = is_clone ?
		    postfix_transport_value(probes->site->settings, lane->original, p) : NULL;

		if (own_parameter(p->name, probes->width))
			value = strstr(p->name, "feedback") != NULL ||
			    strstr(p->name, "cohort") != NULL ? "0" : number;
		snprintf(name, sizeof(name), "%s_%s", lane->service, p->name);
		if (value != NULL)
			each(context, name, value);
	}
}

struct copying {
	setting_call *each;
	void *context;
};

static void copy_option(void *context, const char *name, const char *value) {
	const struct copying *copying = context;

	if (strcmp(name, "syslog_name") != 0 && strcmp(name, CACHE) != 0 &&
	    strcmp(name, CACHE_ALWAYS) != 0)
		copying->each(copying->context, name, value == NULL ? "" : value);
}

/* The options of its service. */
static void each_option(const struct postfix_probes *probes, const struct lane *lane,
    setting_call *each, void *context) {
	const struct postfix_settings *settings = probes->site->settings;
	const char *always = postfix_value(settings, lane->original, CACHE_ALWAYS, false);
	struct copying copying = { each, context };
	char syslog_name[256] = "";

	postfix_overrides_each(settings, lane->original, copy_option, &copying);
	(void)text_append(syslog_name, sizeof(syslog_name), 0, "%s/%s", probes->syslog_name,
	    lane->log_name);
	each(context, "syslog_name", syslog_name);
	each(context, CACHE, "no");
	if (always != NULL && *always != '\0')
		each(context, CACHE_ALWAYS, "");
}

/* Its number of processes: never more than the original's. */
static void processes_of(const struct postfix_probes *probes, const struct lane *lane,
    char out[16]) {
	char word[16];
	uint32_t number;

	if (!postfix_service_word(lane->line, PROCESSES, word, sizeof(word)))
		word[0] = '\0';
	if (probes->total == 0 || (text_to_u32(word, strlen(word), UINT32_MAX, &number) &&
		number != 0 && number < probes->total))
		snprintf(out, 16, "%s", word);
	else
		snprintf(out, 16, "%u", probes->total);
}

/* --- written ------------------------------------------------------------------------ */

static void write_one(void *context, const char *name, const char *value) {
	postfix_lines_option(context, name, value);
}

void postfix_probes_write_options(FILE *out, const struct postfix_probes *probes) {
	struct lane lane;
	bool is_own;

	for (unsigned kind = 0; kind < KINDS; kind++)
		if (find_lane(probes->site, kind, &lane, &is_own) && is_own)
			each_parameter(probes, &lane, write_one, out);
}

/* What the resolver's setting becomes. */
static void transport_of(const struct lane *lane, char out[WORD_MAX]) {
	out[0] = '\0';
	(void)text_append(out, WORD_MAX, 0, "%s%s", lane->service, lane->behind);
}

void postfix_probes_write_resolver(FILE *out, const struct postfix_probes *probes) {
	char value[WORD_MAX];
	struct lane lane;
	bool is_own;

	for (unsigned kind = 0; kind < KINDS; kind++) {
		if (!find_lane(probes->site, kind, &lane, &is_own))
			continue;
		transport_of(&lane, value);
		postfix_lines_option(out, kinds[kind].setting, value);
	}
}

static void write_service(FILE *out, const struct postfix_probes *probes,
    const struct lane *lane) {
	char word[WORD_MAX], processes[16];

	processes_of(probes, lane, processes);
	fprintf(out, "%s", lane->service);
	for (unsigned i = 1; postfix_service_word(lane->line, i, word, sizeof(word)); i++) {
		if (i > 7 && strcmp(word, "-o") == 0)
			i++;
		else
			fprintf(out, " %s", i == PROCESSES ? processes : word);
	}
	putc('\n', out);
	each_option(probes, lane, write_one, out);
}

void postfix_probes_write_services(FILE *out, const struct postfix_probes *probes) {
	struct lane lane;
	bool is_own;

	for (unsigned kind = 0; kind < KINDS; kind++)
		if (find_lane(probes->site, kind, &lane, &is_own) && is_own)
			write_service(out, probes, &lane);
}

/* --- there already? ------------------------------------------------------------------- */

struct comparing {
	const struct postfix_settings *settings;
	const char *service;
	unsigned count;
	bool differs;
};

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

static bool is_same(const struct postfix_probes *probes, const struct lane *lane,
    const char *line) {
	struct comparing comparing = { .settings = probes->site->settings,
		.service = "qmgr" };
	char word[16], processes[16];
	unsigned options = 0;

	each_parameter(probes, lane, compare_one, &comparing);
	comparing.service = lane->service;
	comparing.count = 0;
	each_option(probes, lane, compare_one, &comparing);
	postfix_overrides_each(probes->site->settings, lane->service, count_one, &options);
	processes_of(probes, lane, processes);
	return !comparing.differs && options == comparing.count &&
	    postfix_service_word(line, PROCESSES, word, sizeof(word)) &&
	    strcmp(word, processes) == 0 &&
	    postfix_clones_same_service(line, lane->line, PROCESSES);
}

static enum clone_state state_of(const struct postfix_probes *probes, const struct lane *lane) {
	const struct postfix_settings *settings = probes->site->settings;
	const char *line = postfix_service(settings, lane->service);

	if (line == NULL)
		return CLONE_ABSENT;
	if (postfix_service_count(settings, lane->service) > 1)
		return CLONE_TWICE;
	if (!is_same(probes, lane, line))
		return CLONE_OUTDATED;
	return postfix_clones_is_served(probes->site, lane->service) ? CLONE_THERE :
	    CLONE_WAITS;
}

enum clone_state postfix_probes_state(const struct postfix_probes *probes) {
	const struct postfix_site *site = probes->site;
	enum clone_state worst = CLONE_THERE, state;
	char value[WORD_MAX];
	struct lane lane;
	bool is_own;

	for (unsigned kind = 0; kind < KINDS; kind++) {
		const char *there;

		if (!find_lane(site, kind, &lane, &is_own))
			continue;
		state = state_of(probes, &lane);
		there = postfix_override(site->settings, POSTFIX_RESOLVER,
		    kinds[kind].setting, true);
		transport_of(&lane, value);
		if (there == NULL)
			state = CLONE_ABSENT;
		else if (strcmp(there, value) != 0 && state > CLONE_OUTDATED)
			state = CLONE_OUTDATED;
		if (state < worst)
			worst = state;
	}
	return worst > CLONE_OUTDATED && !postfix_lines_ask_for_probes(site) ? CLONE_OUTDATED :
	    worst;
}
