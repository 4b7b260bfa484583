/* SPDX-License-Identifier: ISC */
/*
 * Source addresses that are warmed up, out of sources[].  The law is policy/window/warm.h.
 *
 * Runs after the mail servers: a source is a transport of a Postfix, and none that has lanes.
 */
#include <string.h>
#include <strings.h>

#include "base/log.h"
#include "base/text.h"
#include "config/read/compilation.h"

static const char wait_word[] = "wait";

static bool has_only(const char *name, bool with_point) {
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz"
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
	size_t length = strspn(name, letters);

	return name[length] == '\0' && *name != '-' && *name != '.' &&
	    (with_point || strchr(name, '.') == NULL);
}

static const char *text_at(const struct compilation *c, uint32_t text) {
	return text == 0 ? "" : block_at(&c->block, text);
}

/* --- names -------------------------------------------------------------------------------- */

static void check_name(struct compilation *c, const config_setting_t *group,
    const struct generation_source *source) {
	const config_setting_t *where = compilation_member(group, "sources[].name");
	char quoted[128];

	if (source->name == 0) {
		if (where == NULL)
			complain(c, group, "sources: a source has no name");
		return;
	}
	if (!has_only(text_at(c, source->name), true))
		complain(c, where, "sources.name: %s may only have letters, digits, point, hyphen "
		    "and underscore, and cannot start with point or hyphen",
		    log_sentence(quoted, sizeof(quoted), text_at(c, source->name)));
	compilation_check_unique(c, group, "source", source->name);
}

/* What Postfix calls so is none of the site's transports. */
static bool check_transport_word(struct compilation *c, const config_setting_t *where,
    const char *setting, const char *name) {
	static const char *const taken[] = { "retry", "error", "discard", NULL };
	char quoted[128];

	(void)log_sentence(quoted, sizeof(quoted), name);
	if (!has_only(name, false)) {
		complain(c, where, "sources.%s: %s may only have letters, digits, hyphen and "
		    "underscore, and cannot start with hyphen", setting, quoted);
		return false;
	}
	for (unsigned i = 0; taken[i] != NULL; i++)
		if (strcasecmp(name, taken[i]) == 0) {
			complain(c, where, "sources.%s: a transport cannot have the name %s", setting,
			    quoted);
			return false;
		}
	return true;
}

/* Lanes are of these. */
static void check_no_lanes(struct compilation *c, const config_setting_t *where,
    const char *name) {
	const struct generation *header = compilation_header(c);
	char quoted[128];

	(void)log_sentence(quoted, sizeof(quoted), name);
	for (uint32_t i = 0; i < header->mta_count; i++) {
		const struct generation_mta *mta = &header->mtas[i];

		if (mta->kind != MTA_POSTFIX || strcmp(text_at(c, mta->clone), name) != 0)
			continue;
		if (mta->transport == 0)
			complain(c, where, "sources.transport: %s is mta.clone; use a clone of it with "
			    "its own address", quoted);
		else
			complain(c, where, "sources.transport: %s is also in mta.transports", quoted);
		return;
	}
}

static void check_transport(struct compilation *c, const config_setting_t *group,
    const struct generation_source *source, const struct generation_source *before,
    uint32_t count) {
	const config_setting_t *where = compilation_member(group, "sources[].transport");
	const char *name;
	char quoted[128];

	if (source->transport == 0) {
		if (where == NULL)
			complain(c, group, "sources: a source has no transport");
		return;
	}
	name = text_at(c, source->transport);
	if (strcmp(name, wait_word) == 0)
		complain(c, where, "sources.transport: a transport cannot have the name wait");
	else if (check_transport_word(c, where, "transport", name))
		check_no_lanes(c, where, name);
	for (uint32_t i = 0; i < count; i++)
		if (before[i].transport != 0 && strcmp(text_at(c, before[i].transport), name) == 0) {
			complain(c, where, "sources.transport: source %s has transport %s, too",
			    text_at(c, before[i].name), log_sentence(quoted, sizeof(quoted), name));
			return;
		}
}

/* The block says "" where mail waits. */
static void check_over(struct compilation *c, const config_setting_t *group,
    struct generation_source *source) {
	const config_setting_t *where = compilation_member(group, "sources[].over");
	const char *name = source->over == 0 ? wait_word : text_at(c, source->over);

	if (strcmp(name, wait_word) == 0)
		source->over = 0;
	else
		(void)check_transport_word(c, where, "over", name);
}

/* --- the plan ----------------------------------------------------------------------------- */

static void read_plan(struct compilation *c, const config_setting_t *group,
    const config_setting_t *warm, struct warm_settings *out) {
	static const char path[] = "sources[].warm.plan";
	const config_setting_t *where = compilation_member(warm, path);
	unsigned count = compilation_element_count(warm, path);
	struct setting_value value;

	if (count == 0) {
		complain(c, where != NULL ? where : warm != NULL ? warm : group,
		    "sources: a source has no plan; set warm.plan");
		return;
	}
	if (count > WARM_STEPS_MAX) {
		complain(c, where, "sources.warm.plan: more than %d numbers", WARM_STEPS_MAX);
		return;
	}
	for (unsigned i = 0; i < count && compilation_element(warm, path, i, &value); i++) {
		uint32_t number = (uint32_t)value.number;

		if (i > 0 && number <= out->plan[i - 1]) {
			complain(c, setting_element(where, i), "sources.warm.plan: the numbers must "
			    "rise, but %u comes after %u", number, out->plan[i - 1]);
			return;
		}
		out->plan[i] = number;
		out->steps = i + 1;
	}
}

static bool read_share(struct compilation *c, const config_setting_t *group, const char *path,
    const char *spoken, double least, double *out) {
	struct setting_value value;
	char quoted[128];
	bool given = compilation_value(group, path, &value);

	if (text_to_share(value.text, out) && *out >= least)
		return given;
	complain(c, compilation_member(group, path), "sources.warm.%s: \"%s\" is not a share such "
	    "as \"10%%\", %s", spoken, log_sentence(quoted, sizeof(quoted), value.text),
	    least > 0 ? "above 0%" : "up to 100%");
	*out = -1;
	return given;
}

static void read_shares(struct compilation *c, const config_setting_t *warm,
    struct warm_settings *out) {
	const config_setting_t *grow = compilation_member(warm, "sources[].warm.grow_if");
	const config_setting_t *back = compilation_member(warm, "sources[].warm.back_if");
	static const double above_zero = 1e-9;
	bool given;

	(void)read_share(c, grow, "sources[].warm.grow_if.used", "grow_if.used", 0,
	    &out->grow_used);
	given = read_share(c, grow, "sources[].warm.grow_if.throttled", "grow_if.throttled",
	    above_zero, &out->grow_throttled);
	given |= read_share(c, back, "sources[].warm.back_if.throttled", "back_if.throttled",
	    above_zero, &out->back_throttled);
	if (given && out->grow_throttled > 0 && out->back_throttled > 0 &&
	    out->grow_throttled > out->back_throttled)
		complain(c, compilation_member(grow, "throttled") != NULL ? grow : back,
		    "sources.warm: grow_if.throttled is above back_if.throttled");
}

/* --- the list ------------------------------------------------------------------------------ */

static void read_source(struct compilation *c, const config_setting_t *group,
    struct generation_source *list, uint32_t count) {
	const config_setting_t *warm = compilation_member(group, "sources[].warm");
	struct generation_source *source = &list[count];
	bool is_warm_wrong = warm != NULL && !config_setting_is_group(warm);

	if (is_warm_wrong)
		warm = NULL;
	*source = (struct generation_source){ .name = 0 };
	(void)compilation_place(c, group, &source->line);
	compilation_store(c, BOOK_MAIN, "sources[]", group, source);
	compilation_store(c, BOOK_MAIN, "sources[].warm", warm, source);
	if (c->block.failed)
		return;
	check_name(c, group, source);
	check_transport(c, group, source, list, count);
	check_over(c, group, source);
	if (warm != NULL || !is_warm_wrong)
		read_plan(c, group, warm, &source->warm);
	read_shares(c, warm, &source->warm);
}

/* What only some sources say. */
static void check_list(struct compilation *c, const config_setting_t *groups,
    const struct generation_source *list, uint32_t count) {
	const config_setting_t *group;
	uint32_t number = 0;

	for (unsigned at = 0; number < count &&
	     (group = compilation_next_group(groups, &at)) != NULL; number++) {
		const config_setting_t *where = compilation_member(group, "sources[].over");

		for (uint32_t i = 0; i < count; i++)
			if (list[number].over != 0 && list[i].transport != 0 &&
			    strcmp(text_at(c, list[number].over), text_at(c, list[i].transport)) == 0)
				complain(c, where, "sources.over: %s is the transport of source %s; mail "
				    "above its number cannot go by it",
				    text_at(c, list[number].over), text_at(c, list[i].name));
		if (number + 1 < count && where != NULL)
			note(c, where, "sources.over has no effect: only the last source of the list "
			    "uses it");
	}
}

static void check_surroundings(struct compilation *c, const config_setting_t *groups) {
	const struct generation *header = compilation_header(c);
	bool has_postfix = false;

	for (uint32_t i = 0; i < header->mta_count; i++)
		has_postfix |= header->mtas[i].kind == MTA_POSTFIX;
	if (!has_postfix)
		complain(c, groups, "sources: needs an entry of mta with the kind postfix");
	if (*text_at(c, header->hints_group) == '\0')
		complain(c, groups, "sources: needs hints.group, in which postern-lookup counts what "
		    "it sends");
}

void compile_sources(struct compilation *c) {
	const config_setting_t *groups = config_lookup(&c->config, "sources"), *group;
	struct generation_source list[GENERATION_SOURCES_MAX];
	uint32_t count = 0, offset;

	for (unsigned at = 0; (group = compilation_next_group(groups, &at)) != NULL;) {
		if (count == GENERATION_SOURCES_MAX) {
			complain(c, group, "sources: more than %d sources", GENERATION_SOURCES_MAX);
			break;
		}
		read_source(c, group, list, count++);
		if (c->block.failed)
			return;
	}
	if (count == 0)
		return;
#ifndef WITH_PACE
	complain(c, groups, "sources: this posternd was built without paces");
#endif
	check_list(c, groups, list, count);
	check_surroundings(c, groups);
	offset = block_store(&c->block, list, count * sizeof(*list));
	if (c->block.failed)
		return;
	compilation_header(c)->sources = offset;
	compilation_header(c)->source_count = count;
}
