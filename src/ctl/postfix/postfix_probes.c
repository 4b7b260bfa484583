/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The lanes for address verification probes.
 * MODEL    Which transports there are to be cloned, the resolver's settings tell.
 * ERRORS   None; fprintf's are the caller's.
 * THREADS  One.
 */
#include "ctl/postfix/postfix_probes.h"

#include <string.h>

#include "base/text.h"

#define KINDS		2
#define WORD_MAX	4096
#define PROCESSES	6	/* the word of a service's line */

static const struct {
	const char *setting, *service, *log_name;
} kinds[KINDS] = {
	{ "address_verify_default_transport", POSTFIX_PROBES, "probe" },
	{ "address_verify_relay_transport", POSTFIX_PROBES "-relay", "probe-relay" },
};

/* A transport that probes are sent by. */
struct lane {
	struct postfix_clone clone;
	char original[80];
	const char *behind;		/* what stands behind it: "", ":nexthop" */
	bool is_own;			/* no other kind has it, too */
};

/* False: its program is not smtp, or there is none. */
static bool find_original(const struct postfix_site *site, unsigned kind, struct lane *lane) {
	const char *value = postfix_value(site->settings, site->resolver, kinds[kind].setting,
	    false);
	size_t length = value == NULL ? 0 : strcspn(value, ":");

	if (value == NULL || !text_copy(lane->original, sizeof(lane->original), value, length))
		return false;
	lane->behind = value + length;
	return postfix_clones_of_smtp(postfix_service(site->settings, lane->original));
}

/* Its number of processes: never more than the original's. */
static void limit_processes(const struct postfix_probes *probes, struct postfix_clone *clone) {
	char word[16];
	uint32_t number;

	if (!postfix_service_word(clone->line, PROCESSES, word, sizeof(word)))
		word[0] = '\0';
	if (probes->total != 0 && (!text_to_u32(word, strlen(word), UINT32_MAX, &number) ||
		number == 0 || number >= probes->total))
		snprintf(clone->processes, sizeof(clone->processes), "%u", probes->total);
}

/* The lane of a kind of probes. */
static bool find_lane(const struct postfix_probes *probes, unsigned kind, struct lane *lane) {
	const struct postfix_site *site = probes->site;
	struct lane first;

	if (!find_original(site, kind, lane))
		return false;
	lane->is_own = kind == 0 || !find_original(site, 0, &first) ||
	    strcmp(first.original, lane->original) != 0;
	if (!lane->is_own)
		kind = 0;
	lane->clone = (struct postfix_clone){ .site = site, .original = lane->original,
		.line = postfix_service(site->settings, lane->original),
		.syslog_name = probes->syslog_name, .log_name = kinds[kind].log_name,
		.width = probes->width, .caching = CACHING_NONE };
	snprintf(lane->clone.service, sizeof(lane->clone.service), "%s", kinds[kind].service);
	limit_processes(probes, &lane->clone);
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

/* --- written ------------------------------------------------------------------------ */

static void write_clones(FILE *out, const struct postfix_probes *probes,
    void (*write)(FILE *out, const struct postfix_clone *clone)) {
	struct lane lane;

	for (unsigned kind = 0; kind < KINDS; kind++)
		if (find_lane(probes, kind, &lane) && lane.is_own)
			write(out, &lane.clone);
}

void postfix_probes_write_options(FILE *out, const struct postfix_probes *probes) {
	write_clones(out, probes, postfix_clone_write_options);
}

void postfix_probes_write_services(FILE *out, const struct postfix_probes *probes) {
	write_clones(out, probes, postfix_clone_write_service);
}

/* What the resolver's setting becomes. */
static void transport_of(const struct lane *lane, char out[WORD_MAX]) {
	out[0] = '\0';
	(void)text_append(out, WORD_MAX, 0, "%s%s", lane->clone.service, lane->behind);
}

void postfix_probes_write_resolver(FILE *out, const struct postfix_probes *probes) {
	char value[WORD_MAX];
	struct lane lane;

	for (unsigned kind = 0; kind < KINDS; kind++) {
		if (!find_lane(probes, kind, &lane))
			continue;
		transport_of(&lane, value);
		postfix_clone_write_option(out, kinds[kind].setting, value);
	}
}

/* --- there already? ------------------------------------------------------------------- */

static enum clone_state kind_state(const struct postfix_probes *probes, unsigned kind,
    const struct lane *lane) {
	enum clone_state state = postfix_clone_state(&lane->clone);
	const char *there = postfix_override(probes->site->settings, POSTFIX_RESOLVER,
	    kinds[kind].setting, true);
	char value[WORD_MAX];

	transport_of(lane, value);
	if (there == NULL)
		return CLONE_ABSENT;
	return strcmp(there, value) != 0 && state > CLONE_OUTDATED ? CLONE_OUTDATED : state;
}

enum clone_state postfix_probes_state(const struct postfix_probes *probes) {
	enum clone_state worst = CLONE_THERE;
	struct lane lane;

	for (unsigned kind = 0; kind < KINDS; kind++) {
		enum clone_state state;

		if (!find_lane(probes, kind, &lane))
			continue;
		state = kind_state(probes, kind, &lane);
		if (state < worst)
			worst = state;
	}
	return worst;
}
