/* SPDX-License-Identifier: ISC */
/*
 * Windows and providers out of a generation: the innermost group that gives a
 * parameter wins.  Called for each delivery result, so nothing is copied but what
 * is given.  Nothing here allocates, locks or changes anything: any thread.
 */
#include <string.h>

#include "base/text.h"
#include "config/generation/generation.h"
#include "config/generation/generation_internal.h"
#include "policy/limit/class.h"

/* The first element of destinations[] that has this name, by whatever transport, or NULL. */
static const struct generation_destinations *find_destinations(const struct generation *g,
    const char *full, size_t full_length) {
	size_t prefix = generation_transport_prefix(full, full_length);
	const char *name = full + prefix;
	size_t length = full_length - prefix;
	const char *end = length > 0 && *name == '[' ? memchr(name, ']', length) : NULL;
	struct address address;
	bool known = end != NULL && address_parse(name, (size_t)(end - name) + 1, &address);
	uint32_t mask;

	if (g->destinations_index == 0)
		return NULL;
	mask = class_index_match((const char *)g + g->destinations_index,
	    known ? &address : NULL, name, length);
	if (mask >= g->destinations_mask_count)
		return NULL;
	return (const struct generation_destinations *)generation_at(g, g->destinations) +
	    generation_number_of(g, g->destinations_masks, mask);
}

const char *generation_destination_name(const struct generation *g, uint32_t number) {
	return number >= g->destinations_mask_count ? "" :
	    generation_text_of(g, g->destinations_names, number);
}

/* What the group at `offset` gives. */
static void apply_window(const struct generation *g, uint32_t offset, struct window_settings *out,
    bool *debug) {
	const struct generation_window *window = generation_at(g, offset);

	if (offset == 0)
		return;
#define X(symbol, name, field, read) \
	if ((window->given >> WINDOW_PARAMETER_##symbol & 1) != 0) \
		out->field = window->settings.field;
	WINDOW_PARAMETERS(X)
#undef X
	if ((window->given >> WINDOW_PARAMETER_DEBUG & 1) != 0)
		*debug = window->debug;
}

bool generation_window_is_sound(const struct generation *g, uint32_t offset) {
	struct window_settings settings = window_defaults;
	bool debug;

	apply_window(g, offset, &settings, &debug);
	return window_settings_are_sound(&settings);
}

bool generation_has_paces(const struct generation *g) {
	const struct generation_destinations *list = generation_at(g, g->destinations);

	for (uint32_t i = 0; i < g->destinations_count; i++)
		if (list[i].pace.count > 0)
			return true;
	return false;
}

bool generation_pace_is_sound(const struct rate_limit *limit) {
	struct pace_settings settings = pace_defaults;

	settings.limit = *limit;
	return pace_settings_are_sound(&settings);
}

/* own: of destinations[], or NULL. */
static bool window_of(const struct generation *g, unsigned mta,
    const struct generation_destinations *own, uint32_t provider, struct window_settings *out) {
	bool debug = g->window.debug;

	*out = g->window.settings;
	if (mta < g->mta_count && g->mtas[mta].transport != 0)
		apply_window(g, g->mtas[g->mtas[mta].parent].window, out, &debug);
	if (mta < g->mta_count)
		apply_window(g, g->mtas[mta].window, out, &debug);
	if (provider < g->provider_count) {
		const struct generation_provider *site = generation_provider(g, provider);

		apply_window(g, site->window, out, &debug);
		if (site->ceiling != 0 && (out->limit == 0 || out->limit > site->ceiling))
			out->limit = site->ceiling;
	}
	if (own != NULL)
		apply_window(g, own->window, out, &debug);
	return debug;
}

bool generation_window_settings(const struct generation *g, unsigned mta,
    const char *destination, size_t length, uint32_t provider, struct window_settings *out) {
	return window_of(g, mta, find_destinations(g, destination, length), provider, out);
}

bool generation_settings(const struct generation *g, unsigned mta, const char *destination,
    size_t length, uint32_t provider, struct window_settings *out, struct pace_settings *pace,
    bool *is_paced) {
	const struct generation_destinations *own = find_destinations(g, destination, length);
	uint32_t slow = provider < g->provider_count ? generation_provider(g, provider)->pace : 0;

	if (slow == 0)
		slow = g->common_pace;
	memcpy(pace, slow != 0 ? generation_at(g, slow) : &pace_defaults, sizeof(*pace));
	if (own != NULL)
		pace->limit = own->pace;
	*is_paced = slow != 0 || pace->limit.count > 0;
	return window_of(g, mta, own, provider, out);
}

static void add_source(const struct generation *g, const char *what, uint32_t offset,
    struct generation_window_source *out, unsigned *count) {
	const struct generation_window *window = generation_at(g, offset);

	if (offset != 0)
		out[(*count)++] = (struct generation_window_source){ what,
		    generation_text(g, window->file), window->line };
}

unsigned generation_window_sources(const struct generation *g, unsigned mta,
    const char *destination, size_t length, uint32_t provider,
    struct generation_window_source out[GENERATION_WINDOW_SOURCES]) {
	const struct generation_destinations *own = find_destinations(g, destination, length);
	unsigned count = 0;

	if (own != NULL)
		out[count++] = (struct generation_window_source){ "destinations",
		    generation_text(g, own->file), own->line };
	if (provider < g->provider_count) {
		const struct generation_provider *site = generation_provider(g, provider);

		if (site->window != 0 || site->ceiling != 0)
			out[count++] = (struct generation_window_source){ "provider",
			    generation_text(g, site->file), site->line };
	}
	if (mta < g->mta_count && g->mtas[mta].transport != 0) {
		add_source(g, "transport", g->mtas[mta].window, out, &count);
		mta = g->mtas[mta].parent;
	}
	if (mta < g->mta_count)
		add_source(g, "mta", g->mtas[mta].window, out, &count);
	out[count++] = (struct generation_window_source){ "window",
	    generation_text(g, g->window.file), g->window.line };
	return count;
}

void generation_window_sources_text(const struct generation *g, unsigned mta,
    const char *destination, uint32_t provider, char *out, size_t size) {
	struct generation_window_source sources[GENERATION_WINDOW_SOURCES];
	unsigned count = generation_window_sources(g, mta, destination, strlen(destination),
	    provider, sources);
	size_t length = 0;

	out[0] = '\0';
	for (unsigned i = 0; i < count; i++) {
		length = text_append(out, size, length, "%s%s", i > 0 ? ", " : "",
		    sources[i].line != 0 ? sources[i].what : "defaults");
		if (sources[i].line != 0)
			length = text_append(out, size, length, " %s:%u", sources[i].file,
			    sources[i].line);
	}
}

uint32_t generation_match_provider(const struct generation *g,
    const char *relay_name, size_t length, const struct address *relay) {
	uint32_t mask;

	if (g->provider_index == 0)
		return GENERATION_NO_PROVIDER;
	mask = class_index_match((const char *)g + g->provider_index, relay, relay_name, length);
	return mask < g->provider_mask_count ? generation_number_of(g, g->provider_masks, mask) :
	    GENERATION_NO_PROVIDER;
}

uint32_t generation_find_provider(const struct generation *g, const char *name,
    size_t length) {
	for (uint32_t i = 0; i < g->provider_count; i++) {
		const char *own = generation_text(g, generation_provider(g, i)->name);

		if (strlen(own) == length && memcmp(own, name, length) == 0)
			return i;
	}
	return GENERATION_NO_PROVIDER;
}

uint32_t generation_window_provider(const struct generation *g, const char *name) {
	static const char prefix[] = "provider:";

	name += generation_transport_prefix(name, strlen(name));
	if (strncmp(name, prefix, sizeof(prefix) - 1) != 0)
		return GENERATION_NO_PROVIDER;
	name += sizeof(prefix) - 1;
	return generation_find_provider(g, name, strlen(name));
}

const struct generation_provider *generation_provider(const struct generation *g,
    uint32_t index) {
	return (const struct generation_provider *)generation_at(g, g->providers) + index;
}

const struct generation_reply_rule *generation_reply_rule(const struct generation *g,
    uint32_t index) {
	return (const struct generation_reply_rule *)generation_at(g, g->reply_rules) + index;
}

const struct pace_settings *generation_rule_pace(const struct generation *g,
    const struct generation_reply_rule *rule) {
	return rule->pace == 0 ? NULL : generation_at(g, rule->pace);
}
