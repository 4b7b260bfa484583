/* SPDX-License-Identifier: ISC */
/*
 * Reading a generation's block.  Nothing here allocates, locks or changes
 * anything: any thread, any process that has it mapped.
 */
#include "config/generation/generation.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "base/file_stamp.h"
#include "base/sd_log.h"
#include "config/generation/generation_internal.h"

static const uint64_t declared =
#include "config/generation_layout.inc"
    ;

uint64_t generation_layout(void) {
	/* padding, byte order */
	return declared ^ sizeof(struct generation) << 32 ^ sizeof(struct generation_mta) << 16 ^
	    UINT64_C(0x0102030405060708);
}

static bool index_fits(const struct generation *g, uint32_t offset) {
	return offset == 0 || (array_fits(g, offset, 1, 8, 8) &&
	    class_index_is_sound((const char *)g + offset, (size_t)(g->bytes - offset)));
}

static bool header_fits(const struct generation *g) {
	bool good = window_settings_are_sound(&g->window.settings) &&
	    g->listener_count <= GENERATION_LISTENERS_MAX &&
	    g->port_count <= GENERATION_PORTS_MAX &&
	    g->witness_port_count <= GENERATION_PORTS_MAX &&
	    g->netns_count <= sizeof(g->netns) / sizeof(g->netns[0]) &&
	    g->gate_word_count < sizeof(g->gate_words) / sizeof(g->gate_words[0]) &&
	    g->alert.word_count < GENERATION_COMMAND_WORDS &&
	    index_fits(g, g->other_index) && index_fits(g, g->outbound_index) &&
	    index_fits(g, g->exempt_index);

	for (uint32_t i = 0; good && i < g->port_count; i++)
		good = index_fits(g, g->port_index[i]);
	return good;
}

static bool classes_fit(const struct generation *g) {
	if (!array_fits(g, g->classes, g->class_count, sizeof(struct generation_class), 8) ||
	    !array_fits(g, g->rules, g->rule_count, sizeof(struct generation_rule), 4))
		return false;
	for (uint32_t i = 0; i < g->class_count; i++) {
		const struct generation_class *class = generation_class(g, i);

		if (!array_fits(g, class->ports, class->port_count, sizeof(uint16_t), 2))
			return false;
	}
	for (uint32_t i = 0; i < g->rule_count; i++)
		if (generation_rule(g, i)->class_index >= g->class_count)
			return false;
	return true;
}

static bool window_fits(const struct generation *g, uint32_t offset) {
	return offset == 0 || (array_fits(g, offset, 1, sizeof(struct generation_window), 8) &&
	    generation_window_is_sound(g, offset));
}

/* The numbers of an array lie below `limit`. */
static bool numbers_fit(const struct generation *g, uint32_t offset, uint32_t count,
    uint32_t limit) {
	const uint32_t *numbers = generation_at(g, offset);

	if (!array_fits(g, offset, count, sizeof(*numbers), 4))
		return false;
	for (uint32_t i = 0; i < count; i++)
		if (numbers[i] >= limit)
			return false;
	return true;
}

static bool pace_fits(const struct generation *g, uint32_t offset) {
	const struct pace_settings *pace = generation_at(g, offset);

	return offset == 0 || (array_fits(g, offset, 1, sizeof(*pace), 8) &&
	    pace_settings_are_sound(pace) && pace->limit.count == 0);
}

static bool reply_rules_fit(const struct generation *g) {
	if (!array_fits(g, g->reply_rules, g->reply_rule_count,
	    sizeof(struct generation_reply_rule), 8) || g->common_rules > g->reply_rule_count)
		return false;
	for (uint32_t i = 0; i < g->reply_rule_count; i++) {
		const struct generation_reply_rule *rule = generation_reply_rule(g, i);

		if ((rule->provider != GENERATION_NO_PROVIDER &&
		    rule->provider >= g->provider_count) || rule->class >= RESULT_CLASS_COUNT ||
		    (rule->action == REPLY_ACTION_SLOW) != (rule->pace != 0) ||
		    !pace_fits(g, rule->pace))
			return false;
	}
	return true;
}

static bool providers_fit(const struct generation *g) {
	if (!index_fits(g, g->provider_index) ||
	    !array_fits(g, g->providers, g->provider_count,
	    sizeof(struct generation_provider), 4) ||
	    !numbers_fit(g, g->provider_masks, g->provider_mask_count, g->provider_count) ||
	    !pace_fits(g, g->common_pace))
		return false;
	for (uint32_t i = 0; i < g->provider_count; i++) {
		const struct generation_provider *provider = generation_provider(g, i);

		if (!window_fits(g, provider->window) || !pace_fits(g, provider->pace) ||
		    provider->rules > g->reply_rule_count ||
		    provider->rule_count > g->reply_rule_count - provider->rules)
			return false;
	}
	return reply_rules_fit(g);
}

/* Offsets of texts, each of which generation_text makes sure of. */
static bool texts_fit(const struct generation *g, uint32_t texts, uint32_t count) {
	return array_fits(g, texts, count, sizeof(uint32_t), 4);
}

static bool windows_fit(const struct generation *g) {
	const struct generation_destinations *list;

	if (!index_fits(g, g->destinations_index) ||
	    !array_fits(g, g->destinations, g->destinations_count, sizeof(*list), 8) ||
	    !numbers_fit(g, g->destinations_masks, g->destinations_mask_count,
	    g->destinations_count) ||
	    !texts_fit(g, g->destinations_names, g->destinations_mask_count))
		return false;
	list = generation_at(g, g->destinations);
	for (uint32_t i = 0; i < g->destinations_count; i++)
		if (!window_fits(g, list[i].window) || !generation_pace_is_sound(&list[i].pace))
			return false;
	return true;
}

static bool mta_fits(const struct generation *g, const struct generation_mta *mta) {
	return (mta->transport == 0 || (mta->parent < g->mta_count &&
	    g->mtas[mta->parent].transport == 0)) && window_fits(g, mta->window) &&
	    mta->port_count <= GENERATION_PORTS_MAX &&
	    mta->log_uid_count <= GENERATION_LOG_UIDS_MAX &&
	    index_fits(g, mta->site_excluded_index) && index_fits(g, mta->site_listed_index) &&
	    texts_fit(g, mta->site_reasons, mta->site_excluded_count) &&
	    mta->lane_count <= GENERATION_LANES_MAX && index_fits(g, mta->site_route_index) &&
	    texts_fit(g, mta->site_routes, mta->site_route_count) &&
	    (mta->site_route_names == 0 ||
	    texts_fit(g, mta->site_route_names, mta->site_route_count)) &&
	    texts_fit(g, mta->site_watches, mta->site_watch_count) &&
	    texts_fit(g, mta->site_sources, mta->site_source_count) &&
	    mta->site_changed <= mta->site_watch_count &&
	    mta->queue_count <= GENERATION_QUEUES_MAX;
}

static bool mtas_fit(const struct generation *g) {
	if (g->mta_count > GENERATION_MTAS_MAX || g->remote_port_count > GENERATION_PORTS_MAX)
		return false;
	for (uint32_t i = 0; i < g->mta_count; i++)
		if (!mta_fits(g, &g->mtas[i]))
			return false;
	return true;
}

static bool accounts_fit(const struct generation *g) {
#ifdef WITH_ACCOUNTS
	return generation_accounts_fit(g);
#else
	return g->accounts.count == 0;
#endif
}

static bool sources_fit(const struct generation *g) {
	if (g->source_count > GENERATION_SOURCES_MAX || !array_fits(g, g->sources,
	    g->source_count, sizeof(struct generation_source), 8))
		return false;
	for (uint32_t i = 0; i < g->source_count; i++) {
		const struct generation_source *source = generation_source(g, i);

		if (!warm_settings_are_sound(&source->warm) ||
		    strlen(generation_text(g, source->name)) > GENERATION_SOURCE_NAME_MAX ||
		    strlen(generation_text(g, source->transport)) > GENERATION_SOURCE_NAME_MAX ||
		    strlen(generation_text(g, source->over)) > GENERATION_SOURCE_NAME_MAX)
			return false;
	}
	return true;
}

int generation_verify(const void *block, size_t bytes, struct diag *diag) {
	const struct generation *g = block;

	if (bytes < sizeof(*g))
		return diag_set(diag, 0, "the configuration block is only %zu bytes long", bytes);
	if (g->magic != GENERATION_MAGIC)
		return diag_set(diag, 0, "this is not a configuration block");
	if (g->layout != generation_layout())
		return diag_set(diag, 0, "another build wrote the configuration block");
	if (g->bytes != bytes)
		return diag_set(diag, 0, "the configuration block has %zu bytes instead of "
		    "%llu",
		    bytes, (unsigned long long)g->bytes);
	if (((const char *)block)[bytes - 1] != '\0' || !header_fits(g) || !classes_fit(g) ||
	    !mtas_fit(g) || !windows_fit(g) || !providers_fit(g) || !accounts_fit(g) ||
	    !sources_fit(g))
		return diag_set(diag, 0, "the configuration block points outside itself, or has settings out of bounds");
	return 0;
}

static uint32_t match(const struct generation *g, uint32_t index,
    const struct address *address, const char *name, size_t name_length) {
	if (index == 0)
		return CLASS_NO_RULE;
	return class_index_match((const char *)g + index, address, name, name_length);
}

/* A number of rules[]: any may stand in the index. */
static uint32_t match_rule(const struct generation *g, uint32_t index,
    const struct address *address, const char *name, size_t name_length) {
	uint32_t rule = match(g, index, address, name, name_length);

	return rule < g->rule_count ? rule : CLASS_NO_RULE;
}

uint32_t generation_match_inbound(const struct generation *g, uint16_t port,
    const struct address *client, const char *name, size_t name_length) {
	uint32_t index = g->other_index;

	for (uint32_t i = 0; i < g->port_count; i++)
		if (g->ports[i] == port) {
			index = g->port_index[i];
			break;
		}
	return match_rule(g, index, client, name, name_length);
}

uint32_t generation_match_outbound(const struct generation *g,
    const struct address *server, const char *name, size_t name_length) {
	return match_rule(g, g->outbound_index, server, name, name_length);
}

bool generation_is_exempt(const struct generation *g,
    const struct address *client, const char *name, size_t name_length) {
	return match(g, g->exempt_index, client, name, name_length) != CLASS_NO_RULE;
}

bool generation_site_routes(const struct generation *g, const struct generation_mta *mta,
    const char *domain, size_t length) {
	return match(g, mta->site_route_index, NULL, domain, length) < mta->site_route_count;
}

bool generation_site_excludes(const struct generation *g,
    const struct generation_mta *mta, const char *domain, size_t length,
    const char **reason) {
	uint32_t rule = match(g, mta->site_excluded_index, NULL, domain, length);

	if (rule == CLASS_NO_RULE && (mta->transport == 0 ||
	    generation_site_routes(g, mta, domain, length)))
		return false;
	if (reason != NULL)
		*reason = rule < mta->site_excluded_count ?
		    generation_text_of(g, mta->site_reasons, rule) : "";
	return true;
}

const char *generation_site_listed(const struct generation *g, unsigned mta, uint32_t number) {
	const struct generation_mta *row = &g->mtas[mta];
	const char *name = row->site_route_names == 0 ? "" :
	    generation_text_of(g, row->site_route_names, number);
	size_t length = strlen(name);

	return *name != '\0' && *generation_text_of(g, row->site_routes, number) != '\0' &&
	    match(g, row->site_route_index, NULL, name, length) == number &&
	    !generation_site_excludes(g, row, name, length, NULL) ? name : "";
}

const char *generation_site_next_hop(const struct generation *g,
    const struct generation_mta *mta, const char *domain, size_t length) {
	uint32_t rule = match(g, mta->site_route_index, NULL, domain, length);

	if (rule == CLASS_NO_RULE || rule >= mta->site_route_count)
		return mta->transport != 0 ? "" : generation_text(g, mta->relayhost);
	return generation_text_of(g, mta->site_routes, rule);
}

/* "0123456789abcdef /etc/postfix/main.cf"; site.c has made sure of it. */
const char *generation_site_watch(const struct generation *g,
    const struct generation_mta *mta, uint32_t number, uint64_t *stamp) {
	const char *text = generation_text_of(g, mta->site_watches, number);
	char *end;

	*stamp = strtoull(text, &end, 16);
	return *end == ' ' ? end + 1 : end;
}

uint32_t generation_site_changed(const struct generation *g,
    const struct generation_mta *mta) {
	for (uint32_t i = 0; i < mta->site_watch_count; i++) {
		uint64_t stamp;
		const char *path = generation_site_watch(g, mta, i, &stamp);

		if (file_stamp(path) != stamp)
			return i + 1;
	}
	return 0;
}

bool generation_site_lists(const struct generation *g,
    const struct generation_mta *mta, const char *domain, size_t length) {
	return mta->site_only_listed == 0 ||
	    match(g, mta->site_listed_index, NULL, domain, length) != CLASS_NO_RULE;
}

const char *generation_journal_word(enum journal_room room) {
	static const char *const words[JOURNAL_ROOMS] = {
#define JOURNAL(symbol, word) word,
#include "defs/journals.def"
#undef JOURNAL
	};

	return words[room];
}

bool generation_journal_directory(const struct generation *g, enum journal_room room,
    char *out) {
	const char *path = generation_text(g, g->journal.path);

	out[0] = '\0';
	return *path != '\0' && snprintf(out, PATH_MAX, "%s/%s", path,
	    generation_journal_word(room)) < PATH_MAX;
}

static bool is_to_drive(const struct generation *g) {
	for (uint32_t i = 0; i < g->mta_count; i++)
		if (g->mtas[i].drive != 0)
			return true;
	return false;
}

bool generation_logs_as(const struct generation_mta *mta, uint32_t uid) {
	for (uint32_t i = 0; i < mta->log_uid_count; i++)
		if (mta->log_uids[i] == uid)
			return true;
	return uid == 0;
}

bool generation_has_listener(const struct generation *g, enum listener_kind kind) {
	for (uint32_t i = 0; i < g->listener_count; i++)
		if (g->listeners[i].kind == kind)
			return true;
	return false;
}

bool generation_is_fed(const struct generation *g) {
	return generation_has_listener(g, LISTENER_SYSLOG) ||
	    generation_has_listener(g, LISTENER_EVENTS);
}

bool generation_reads_sd_journal(const struct generation *g) {
	for (uint32_t i = 0; i < g->mta_count; i++)
		if (sd_log_is(generation_text(g, g->mtas[i].log)))
			return true;
	return false;
}

bool generation_drives(const struct generation *g) {
	return g->confined[0] == '\0' && is_to_drive(g);
}

bool generation_drive_is_refused(const struct generation *g) {
	return g->confined[0] != '\0' && is_to_drive(g);
}

int generation_log_facility(const struct generation *g) {
	/* the words of log.facility, in their order */
	static const int facilities[] = {
		LOG_MAIL, LOG_DAEMON, LOG_AUTH, LOG_USER, LOG_LOCAL0, LOG_LOCAL1, LOG_LOCAL2,
		LOG_LOCAL3, LOG_LOCAL4, LOG_LOCAL5, LOG_LOCAL6, LOG_LOCAL7,
	};

	if (g->log_facility >= sizeof(facilities) / sizeof(facilities[0]))
		return LOG_MAIL;
	return facilities[g->log_facility];
}

uint32_t generation_find_class(const struct generation *g, const char *name) {
	for (uint32_t i = 0; i < g->class_count; i++)
		if (strcmp(generation_text(g, generation_class(g, i)->name), name) == 0)
			return i;
	return UINT32_MAX;
}
