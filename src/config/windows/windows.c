/* SPDX-License-Identifier: ISC */
/*
 * The parameters of windows: for all (window), for a mail server (mta[].window), a
 * provider, and single destinations (destinations[]).  Each group keeps which of
 * them it gives; generation_windows.c puts them together.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "config/classes/mask_set.h"
#include "config/generation/generation_internal.h"

/* Which are given in `group`; the others get their defaults. */
static void read_window(const config_setting_t *group, struct generation_window *out) {
	struct setting_value value;

	memset(out, 0, sizeof(*out));
#define X(symbol, name, field, read) \
	if (compilation_value(group, "window." name, &value)) \
		out->given |= 1u << WINDOW_PARAMETER_##symbol; \
	out->settings.field = read;
	WINDOW_PARAMETERS(X)
#undef X
	if (compilation_value(group, "window." WINDOW_DEBUG_NAME, &value))
		out->given |= 1u << WINDOW_PARAMETER_DEBUG;
	out->debug = (uint8_t)value.number;
}

static bool gives(const struct generation_window *window, enum window_parameter parameter) {
	return (window->given >> parameter & 1) != 0;
}

static void check_scope(struct compilation *c, const config_setting_t *group,
    const struct generation_window *window) {
	const config_setting_t *where = compilation_member(group, "window.scope");

	if (!gives(window, WINDOW_PARAMETER_SCOPE) || !window->settings.shared ||
	    c->block.failed)
		return;
	/* the group may stand in a file of providers */
	if (compilation_header(c)->cluster.line == 0)
		complain(c, where, "window: scope \"cluster\" needs the group cluster");
	else if (gives(window, WINDOW_PARAMETER_LIMIT) && window->settings.limit == 0)
		note(c, where, "window.scope: destination_concurrency_limit is 0: only learned "
		    "ceilings are divided");
}

static bool has_laws(const config_setting_t *list) {
	const config_setting_t *group;

	for (unsigned at = 0; (group = compilation_next_group(list, &at)) != NULL;)
		if (compilation_member(compilation_member(group, "window"), "law") != NULL ||
		    has_laws(compilation_member(group, "mta[].transports")))
			return true;
	return false;
}

/* Does a group of one of these lists give a law of its own? */
static bool has_other_laws(const struct compilation *c) {
	return has_laws(config_lookup(&c->config, "mta")) ||
	    has_laws(config_lookup(&c->config, "destinations"));
}

/* What the law of the group, where it is certain, makes no use of. */
static void note_ignored(struct compilation *c, const config_setting_t *group,
    const struct generation_window *window) {
	static const struct {
		enum window_parameter parameter;
		bool of_probe;
		const char *name;
	} parameters[] = {
		{ WINDOW_PARAMETER_POSITIVE, false, "destination_concurrency_positive_feedback" },
		{ WINDOW_PARAMETER_NEGATIVE, false, "destination_concurrency_negative_feedback" },
		{ WINDOW_PARAMETER_CANARY, true, "canary" },
		{ WINDOW_PARAMETER_CANARY_MOST, true, "canary_most" },
		{ WINDOW_PARAMETER_BELIEVE, true, "believe" },
		{ WINDOW_PARAMETER_BELIEVE_REFUSALS, true, "believe_refusals" },
	};
	bool of_probe = window->settings.law == WINDOW_LAW_PROBE;

	if (!gives(window, WINDOW_PARAMETER_LAW) && (has_other_laws(c) ||
	    group != config_lookup(&c->config, "window")))
		return;
	for (size_t i = 0; i < sizeof(parameters) / sizeof(parameters[0]); i++)
		if (parameters[i].of_probe != of_probe && gives(window, parameters[i].parameter))
			note(c, compilation_member(group, parameters[i].name), "window.%s has no "
			    "effect: law %s does not use it", parameters[i].name,
			    window_law_word(window->settings.law));
}

/* What one group says against itself. */
static void check_window(struct compilation *c, const config_setting_t *group,
    const struct generation_window *window) {
	const struct window_settings *s = &window->settings;

	if ((gives(window, WINDOW_PARAMETER_CANARY) ||
	    gives(window, WINDOW_PARAMETER_CANARY_MOST)) &&
	    s->canary_least_ns > s->canary_most_ns)
		complain(c, group, "window.canary is longer than window.canary_most");
	if (gives(window, WINDOW_PARAMETER_INITIAL) && gives(window, WINDOW_PARAMETER_LIMIT) &&
	    s->limit != 0 && s->initial > s->limit)
		note(c, group, "window.initial_destination_concurrency (%u) is above "
		    "destination_concurrency_limit (%u), which takes precedence",
		    s->initial, s->limit);
	note_ignored(c, group, window);
	check_scope(c, group, window);
}

void compile_windows(struct compilation *c) {
	const config_setting_t *group = config_lookup(&c->config, "window");
	struct generation_window window;

	if (group != NULL && !config_setting_is_group(group))
		group = NULL;
	read_window(group, &window);
	if (group != NULL) {
		check_window(c, group, &window);
		window.file = compilation_place(c, group, &window.line);
	}
	if (!c->block.failed)
		compilation_header(c)->window = window;
}

uint32_t compile_window_group(struct compilation *c, const config_setting_t *group) {
	struct generation_window window;

	if (group == NULL || !config_setting_is_group(group))
		return 0;
	read_window(group, &window);
	check_window(c, group, &window);
	if (window.given == 0)
		return 0;
	window.file = compilation_place(c, group, &window.line);
	return block_store(&c->block, &window, sizeof(window));
}

/* --- destinations[] ------------------------------------------------------- */

static const char provider_word[] = "provider:";

/* "provider:NAME": a name like any other, of a provider that exists. */
static bool provider_mask(struct compilation *c, const config_setting_t *place,
    const char *text, struct mask *mask) {
	const struct generation *header = compilation_header(c);
	const char *name = text + sizeof(provider_word) - 1;
	char quoted[128];

	if (generation_find_provider(header, name, strlen(name)) == GENERATION_NO_PROVIDER) {
		complain(c, place, "destinations.match: unknown provider %s%s%s",
		    log_quote(quoted, sizeof(quoted), name, strlen(name)),
		    header->providers_file ? " in " : ": no providers file was read",
		    generation_text(header, header->providers_file));
		return false;
	}
	*mask = (struct mask){ .kind = MASK_NAME, .name = text, .name_length = strlen(text) };
	return true;
}

/* "[ADDRESS]:PORT", spelled as the judge spells a fixed relay. */
static bool relay_mask(struct compilation *c, const config_setting_t *place,
    const char *text, const char *end, struct mask *mask) {
	struct address address;
	char spelled[ADDRESS_TEXT_MAX];
	char quoted[128];
	uint32_t port;
	size_t length;

	log_quote(quoted, sizeof(quoted), text, strlen(text));
	if (!address_parse(text, (size_t)(end - text) + 1, &address) ||
	    !text_to_u32(end + 2, strlen(end + 2), 65535, &port) || port == 0) {
		complain(c, place, "destinations.match: \"%s\" is not a relay such as "
		    "\"[192.0.2.1]:10024\"", quoted);
		return false;
	}
	length = address_format(&address, spelled);
	if ((size_t)(end - text) != length + 1 || memcmp(text + 1, spelled, length) != 0 ||
	    end[2] == '0') {
		complain(c, place, "destinations.match: \"%s\" must be written [%s]:%u", quoted,
		    spelled, port);
		return false;
	}
	*mask = (struct mask){ .kind = MASK_NAME, .name = text, .name_length = strlen(text) };
	return true;
}

static bool destination_mask(struct compilation *c, const config_setting_t *place,
    const char *what, const char *text, struct mask *mask) {
	const char *end = *text == '[' ? strstr(text, "]:") : NULL;

	if (strncmp(text, provider_word, sizeof(provider_word) - 1) == 0)
		return provider_mask(c, place, text, mask);
	if (end != NULL)
		return relay_mask(c, place, text, end, mask);
	return mask_read(c, place, what, text, mask);
}

static void add_destinations(struct compilation *c, struct mask_set *set,
    const config_setting_t *group, uint32_t owner) {
	const config_setting_t *match = compilation_member(group, "destinations[].match");

	if (match == NULL || setting_element_count(match) == 0)
		complain(c, match ? match : group, "destinations: a group has no masks; set "
		    "match");
	else
		mask_set_read(c, set, match, "destinations.match", owner, destination_mask);
}

static struct generation_destinations compile_group(struct compilation *c,
    const config_setting_t *group) {
	struct generation_destinations out = { .window = 0 };

	out.file = compilation_place(c, group, &out.line);
	compilation_store(c, BOOK_MAIN, "destinations[]", group, &out);
	compile_pace(c, group, &out.pace);
	out.window = compile_window_group(c, compilation_member(group, "destinations[].window"));
	if (out.window == 0 && compilation_member(group, "pace") == NULL && !c->block.failed)
		note(c, group, "destinations: a group sets nothing; set window or pace");
	return out;
}

static void keep_destinations(struct compilation *c, const struct mask_set *set,
    const struct generation_destinations *list, uint32_t count) {
	uint32_t index, masks, names, offset = block_store(&c->block, list,
	    count * sizeof(*list));
	struct generation *header;

	mask_set_keep(c, set, &index, &masks);
	names = mask_names_store(&c->block, set->masks, set->count, GENERATION_DESTINATION_MAX);
	if (c->block.failed)
		return;
	header = compilation_header(c);
	header->destinations = offset;
	header->destinations_count = count;
	header->destinations_index = index;
	header->destinations_masks = masks;
	header->destinations_names = names;
	header->destinations_mask_count = set->count;
	mask_set_note_taken(c, set, index, "destinations.match");
}

void compile_destinations(struct compilation *c) {
	const config_setting_t *groups = config_lookup(&c->config, "destinations"), *group;
	uint32_t count = 0;
	struct generation_destinations *list;
	struct mask_set set = { .count = 0 };

	if (compilation_length(groups) == 0)
		return;
	list = calloc(compilation_length(groups), sizeof(*list));
	if (list == NULL)
		c->block.failed = true;
	for (unsigned at = 0; !c->block.failed &&
	     (group = compilation_next_group(groups, &at)) != NULL;) {
		add_destinations(c, &set, group, count);
		list[count++] = compile_group(c, group);
	}
	if (count > 0 && !c->block.failed)
		keep_destinations(c, &set, list, count);
	mask_set_free(&set);
	free(list);
}
