/* SPDX-License-Identifier: ISC */
/*
 * The file of providers: which relays are one site, and what its replies mean.
 *
 * Model: a file of its own with its own table of settings (defs/providers.def),
 * compiled into the same block, with the same report.  Patterns are compiled here
 * only to see whether they are some.  Errors: messages with file and line, sorted
 * behind those of the main file.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/log.h"
#include "base/pattern.h"
#include "base/text.h"
#include "config/classes/mask_set.h"

#define RULES_MAX	10000
#define COUNT_MAX	1000	/* of a threshold */
#define BEHIND_MAIN	(1u << 30)
#define PROVIDERS_FILE	"providers.conf"

struct providers_work {
	struct compilation *c;
	struct mask_set relays;
	struct generation_provider *providers;
	const config_setting_t **groups;	/* of each provider */
	uint32_t provider_count;
	struct generation_reply_rule *rules;
	uint32_t rule_count;
	size_t rule_room;
};

static const struct setting *row_of(const char *path) {
	return setting_find_in(BOOK_PROVIDERS, path);
}

static bool value_of(const config_setting_t *group, const char *path,
    struct setting_value *out) {
	return compilation_value_of(row_of(path), group, out);
}

/* --- replies ----------------------------------------------------------------- */

/* "site-failure|..." of the row: the class whose word it is. */
static uint8_t class_of(int64_t place) {
	static const char *const words[] = {
#define RESULT(symbol, word, text) [RESULT_##symbol] = word,
#include "defs/results.def"
#undef RESULT
	};
	const char *word = row_of("replies[].class")->allowed;

	while (place-- > 0)
		word = strchr(word, '|') + 1;
	for (uint8_t i = 0; i < RESULT_CLASS_COUNT; i++)
		if (strcspn(word, "|") == strlen(words[i]) &&
		    memcmp(word, words[i], strlen(words[i])) == 0)
			return i;
	return RESULT_RCPT_TEMPORARY;
}

static uint64_t identity_of(const char *provider, const char *pattern) {
	return text_hash(0, provider, strlen(provider)) * 31 + text_hash(0, pattern, strlen(pattern));
}

static void check_pattern(struct compilation *c, const config_setting_t *group,
    const char *pattern) {
	struct pattern *compiled;
	char why[160], quoted[128];
	size_t at;

	if (pattern_compile(&compiled, pattern, false, why, sizeof(why), &at) == 0) {
		pattern_free(&compiled);
		return;
	}
	complain(c, compilation_member(group, "match"), "replies.match: \"%s\" is not a valid "
	    "pattern: %s, at character %zu", log_sentence(quoted, sizeof(quoted), pattern),
	    why, at + 1);
}

/* What an action takes, and what it does not. */
static void check_action(struct compilation *c, const config_setting_t *group,
    const struct generation_reply_rule *rule) {
	const config_setting_t *ceiling = compilation_member(group, "ceiling");
	const config_setting_t *time = compilation_member(group, "for");
	const config_setting_t *threshold = compilation_member(group, "threshold");

	if (rule->action == REPLY_ACTION_CEILING && ceiling == NULL)
		complain(c, group, "replies: action \"ceiling\" needs ceiling = NUMBER");
	if (rule->action != REPLY_ACTION_CEILING && ceiling != NULL)
		complain(c, ceiling, "replies.ceiling is for action \"ceiling\" only");
	if (time != NULL && (rule->action == REPLY_ACTION_NONE ||
	    rule->action == REPLY_ACTION_ALERT || rule->action == REPLY_ACTION_SLOW))
		complain(c, time, "replies.for is for the actions ceiling, suspend and "
		    "hold-recipient only");
	if (threshold != NULL && rule->action == REPLY_ACTION_NONE)
		complain(c, threshold, "replies.threshold needs an action");
	if (threshold != NULL && rule->count > COUNT_MAX)
		complain(c, threshold, "replies.threshold: more than %d replies", COUNT_MAX);
	if (compilation_member(group, "class") == NULL &&
	    compilation_member(group, "action") == NULL)
		note(c, group, "replies: this rule only exempts its matches from later rules; "
		    "set class or action");
}

static void read_rule(struct providers_work *w, const config_setting_t *group,
    uint32_t provider, const char *provider_name) {
	struct compilation *c = w->c;
	struct generation_reply_rule *rule = &w->rules[w->rule_count];
	struct setting_value value;

	*rule = (struct generation_reply_rule){ .provider = provider, .count = 1 };
	rule->file = compilation_place(c, group, &rule->line);
	compilation_store(c, BOOK_PROVIDERS, "replies[]", group, rule);
	rule->has_class = value_of(group, "replies[].class", &value);
	if (rule->has_class)
		rule->class = class_of(value.number);
	if (value_of(group, "replies[].threshold", &value) && value.number > 1) {
		rule->count = (uint32_t)value.number;
		rule->period_ns = value.period_ns;
	}
	check_action(c, group, rule);
	compile_slow(c, group, rule);
	if (rule->pattern != 0) {
		const char *pattern = block_at(&c->block, rule->pattern);

		check_pattern(c, group, pattern);
		rule->identity = identity_of(provider_name, pattern);
		w->rule_count++;
	} else if (compilation_member(group, "match") == NULL) {
		complain(c, group, "replies: a rule has no pattern; set match");
	}
}

static void read_rules(struct providers_work *w, const config_setting_t *list,
    uint32_t provider, const char *provider_name) {
	const config_setting_t *group;

	if (compilation_length(list) > RULES_MAX - w->rule_count) {
		complain(w->c, list, "replies: more than %d rules in all", RULES_MAX);
		return;
	}
	for (unsigned at = 0; !w->c->block.failed &&
	     (group = compilation_next_group(list, &at)) != NULL;) {
		if (array_grow(&w->rules, &w->rule_room, w->rule_count, sizeof(*w->rules)))
			read_rule(w, group, provider, provider_name);
		else
			w->c->block.failed = true;
	}
}

/* By it the pace rises and is looked at, whichever rule lowered it. */
static uint32_t first_pace(const struct providers_work *w, uint32_t first) {
	for (uint32_t i = first; i < w->rule_count; i++)
		if (w->rules[i].pace != 0)
			return w->rules[i].pace;
	return 0;
}

/* --- providers ------------------------------------------------------------- */

static bool relay_mask(struct compilation *c, const config_setting_t *place, const char *what,
    const char *text, struct mask *mask) {
	if (!mask_read(c, place, what, text, mask))
		return false;
	if (mask->kind == MASK_ALL)
		complain(c, place, "%s: \"*\" would make all sites one provider", what);
	return mask->kind != MASK_ALL;
}

static void read_relays(struct providers_work *w, const config_setting_t *group,
    uint32_t provider) {
	const config_setting_t *relays = compilation_member(group, "relays");

	if (relays == NULL || setting_element_count(relays) == 0)
		complain(w->c, relays ? relays : group, "providers: a provider has no relays, "
		    "so it never matches; set relays");
	else
		mask_set_read(w->c, &w->relays, relays, "providers.relays", provider, relay_mask);
}

static bool is_name(const char *name) {
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789.-_";

	return name[strspn(name, letters)] == '\0' && *name != '.' && *name != '-';
}

static void check_name(struct providers_work *w, const config_setting_t *group,
    const struct generation_provider *provider) {
	struct compilation *c = w->c;
	const char *name = block_at(&c->block, provider->name);
	char quoted[128];

	if (provider->name == 0) {
		if (compilation_member(group, "name") == NULL)
			complain(c, group, "providers: a provider has no name");
		return;
	}
	log_quote(quoted, sizeof(quoted), name, strlen(name));
	if (!is_name(name))
		complain(c, compilation_member(group, "name"), "providers.name: %s may only "
		    "have lower-case letters, digits, point, hyphen and underscore, and cannot "
		    "start with point or hyphen", quoted);
	compilation_check_unique(c, group, "provider", provider->name);
}

static void read_provider(struct providers_work *w, const config_setting_t *group) {
	struct compilation *c = w->c;
	uint32_t number = w->provider_count;
	struct generation_provider *provider = &w->providers[number];
	char name[64 + 1] = "";

	memset(provider, 0, sizeof(*provider));
	provider->file = compilation_place(c, group, &provider->line);
	compilation_store(c, BOOK_PROVIDERS, "providers[]", group, provider);
	check_name(w, group, provider);
	if (provider->name != 0)
		text_copy(name, sizeof(name), block_at(&c->block, provider->name),
		    strlen(block_at(&c->block, provider->name)));
	w->groups[number] = group;
	w->provider_count++;
	read_relays(w, group, number);
	provider->window = compile_window_group(c, compilation_member(group, "window"));
	provider->rules = w->rule_count;
	read_rules(w, compilation_member(group, "replies"), number, name);
	provider->rule_count = w->rule_count - provider->rules;
	provider->pace = first_pace(w, provider->rules);
}

/* --- the whole ------------------------------------------------------------ */

static void keep_all(struct providers_work *w, uint32_t common_rules) {
	struct compilation *c = w->c;
	uint32_t index, masks, providers, rules;
	struct generation *header;

	mask_set_keep(c, &w->relays, &index, &masks);
	providers = block_store(&c->block, w->providers, w->provider_count * sizeof(*w->providers));
	rules = block_store(&c->block, w->rules, w->rule_count * sizeof(*w->rules));
	if (c->block.failed)
		return;
	header = compilation_header(c);
	header->providers = providers;
	header->provider_count = w->provider_count;
	header->provider_index = index;
	header->provider_masks = masks;
	header->provider_mask_count = w->relays.count;
	header->reply_rules = rules;
	header->reply_rule_count = w->rule_count;
	header->common_rules = common_rules;
	header->common_pace = first_pace(w, common_rules);
	mask_set_note_taken(c, &w->relays, index, "providers.relays");
}

static void compile_file(struct compilation *c) {
	const config_setting_t *list = config_lookup(&c->config, "providers"), *group;
	struct providers_work w = { .c = c };
	uint32_t length = compilation_length(list), common;

	if (config_lookup(&c->config, "version") == NULL)
		note(c, NULL, "version = 1; is missing: assuming version 1");
	w.providers = calloc((size_t)length + 1, sizeof(*w.providers));
	w.groups = calloc((size_t)length + 1, sizeof(*w.groups));
	if (w.providers == NULL || w.groups == NULL)
		c->block.failed = true;
	for (unsigned at = 0; !c->block.failed &&
	     (group = compilation_next_group(list, &at)) != NULL;)
		read_provider(&w, group);
	common = w.rule_count;
	if (!c->block.failed)
		read_rules(&w, config_lookup(&c->config, "replies"), GENERATION_NO_PROVIDER, "");
	if (!c->block.failed)
		keep_all(&w, common);
	mask_set_free(&w.relays);
	free(w.providers);
	free(w.groups);
	free(w.rules);
}

/* Parses and compiles what source_read_* read; the block and the report are lent. */
static void compile_source(struct compilation *c, struct source *source) {
	struct compilation own = { .source = *source, .report = c->report, .block = c->block };

	if (compilation_parse(&own, BOOK_PROVIDERS))
		compile_file(&own);
	config_destroy(&own.config);
	map_free(&own.names);
	c->report = own.report;
	c->block = own.block;
}

static void read_source(struct compilation *c, const char *path) {
	size_t before = c->report.messages->count;
	struct source source;
	uint32_t name;

	if (c->providers_text != NULL)
		source_read_text(&source, c->providers_text, path, &c->report);
	else
		source_read_file(&source, path, &c->report);
	if (source.usable)
		compile_source(c, &source);
	source_free(&source);
	for (size_t i = before; i < c->report.messages->count; i++)
		c->report.messages->list[i].order += BEHIND_MAIN;
	name = block_text(&c->block, path);
	if (!c->block.failed)
		compilation_header(c)->providers_file = name;
}

void compile_providers(struct compilation *c) {
	const config_setting_t *setting = config_lookup(&c->config, "providers");
	const char *main_file = c->source.file_count > 0 ? c->source.files[0] : "";
	const char *slash = strrchr(main_file, '/');
	struct setting_value value;
	char path[4096 + sizeof(PROVIDERS_FILE)];
	char quoted[256];

	if (c->providers_text != NULL) {
		read_source(c, c->providers_name);
		return;
	}
	if (!c->reads_files)
		return;
	if (compilation_value(config_root_setting(&c->config), "providers", &value)) {
		text_copy(path, sizeof(path), value.text, strlen(value.text));
	} else if (setting != NULL) {
		return;		/* check.c has said so */
	} else {
		text_append(path, sizeof(path), 0, "%.*s" PROVIDERS_FILE,
		    slash == NULL ? 0 : (int)(slash - main_file) + 1, main_file);
	}
	log_quote(quoted, sizeof(quoted), path, strlen(path));
	if (access(path, F_OK) == 0)
		read_source(c, path);
	else if (setting != NULL)
		complain(c, setting, "providers: %s cannot be read: %s", quoted, strerror(errno));
	else if (compilation_header(c)->mta_count > 0)
		note(c, NULL, "%s does not exist: there are no providers and no reply rules",
		    quoted);
}
