/* SPDX-License-Identifier: ISC */
/*
 * Classes, their masks, and the exempt list.  What the indexes need is made
 * here; coverage.c builds them and finds masks that can never match.
 */
#include "config/classes/classes.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/reply_text.h"
#include "config/classes/mask_set.h"

#define UNLIMITED LIMIT_NONE

static bool has(const config_setting_t *group, const char *path) {
	return compilation_member(group, path) != NULL;
}

static void check_burst(struct class_work *w, const config_setting_t *group, const char *name) {
	if (has(group, "burst") && !has(group, "rate"))
		complain(w->c, compilation_member(group, "burst"), "class %s: burst needs a rate",
		    name);
}

static void compile_text(struct class_work *w, const config_setting_t *group,
    struct generation_class *class, const char *name) {
	const config_setting_t *where = compilation_member(group, "classes[].text");
	const char *text = block_at(&w->c->block, class->text);
	struct setting_value value;
	char why[256];

	compilation_value(group, "classes[].retry", &value);
	class->retry_s = (uint32_t)((value.number + NS_PER_SECOND - 1) / NS_PER_SECOND);
	/* most have the same text; equal ones have equal offsets */
	if (class->text == 0 || (class->text == w->good_text && strlen(name) <= w->good_name))
		return;
	if (!reply_text_check(text, why, sizeof(why))) {
		complain(w->c, where, "class %s: text: %s", name, why);
	} else if (reply_text_longest(text, strlen(name)) > REPLY_TEXT_SIZE - 1) {
		complain(w->c, where, "class %s: text can exceed %d characters after "
		    "substitution of its placeholders", name, REPLY_TEXT_SIZE - 1);
	} else {
		w->good_text = class->text;
		w->good_name = strlen(name);
	}
}

static void note_place(struct class_work *w, struct generation_class *class,
    enum generation_class_place which, const config_setting_t *setting) {
	if (setting != NULL)
		class->places[which].file = compilation_place(w->c, setting,
		    &class->places[which].line);
}

/* Of sessions and inbound each stands for the other where that is not given. */
static void note_places(struct class_work *w, const config_setting_t *group,
    const config_setting_t *client, struct generation_class *class) {
	const config_setting_t *sessions = compilation_member(group, "classes[].hold_at");
	const config_setting_t *inbound = compilation_member(group, "classes[].refuse_at");

	note_place(w, class, CLASS_AT_SESSIONS, sessions != NULL ? sessions : inbound);
	note_place(w, class, CLASS_AT_INBOUND, inbound != NULL ? inbound : sessions);
	note_place(w, class, CLASS_AT_RATE, compilation_member(group, "classes[].rate"));
	note_place(w, class, CLASS_AT_CLIENT_SESSIONS,
	    compilation_member(client, "classes[].client.sessions"));
	note_place(w, class, CLASS_AT_CLIENT_RATE,
	    compilation_member(client, "classes[].client.rate"));
}

/* Of recipients, messages or bytes (accounts.c). */
static bool class_has_quotas(const config_setting_t *group, const config_setting_t *client) {
	static const char *const names[] = { "recipients", "messages", "bytes" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (has(group, names[i]) || has(client, names[i]))
			return true;
	return false;
}

static void compile_limits(struct class_work *w, const config_setting_t *group,
    const config_setting_t *client, struct generation_class *class, const char *name) {
	struct limits *limits = &class->limits;

	if (!has(group, "classes[].hold_at"))
		limits->sessions = limits->inbound;
	if (!has(group, "classes[].refuse_at"))
		limits->inbound = limits->sessions;
	check_burst(w, group, name);
	check_burst(w, client, name);
	class->has_client_limit = limits->client_sessions != UNLIMITED ||
	    limits->client_rate.count > 0;
	class->has_quotas = class_has_quotas(group, client);

	if (client != NULL && !has(client, "classes[].client.sessions") &&
	    !has(client, "classes[].client.rate") && !class_has_quotas(NULL, client))
		note(w->c, client, "class %s: client sets no limit; set sessions or rate",
		    name);
	if (limits->sessions != UNLIMITED && limits->inbound != UNLIMITED &&
	    limits->inbound > limits->sessions)
		note(w->c, compilation_member(group, "classes[].refuse_at"),
		    "class %s: refuse_at (%u) is above hold_at (%u): valid but unusual; "
		    "outbound connections are held first",
		    name, limits->inbound, limits->sessions);
	if (limits->client_sessions != UNLIMITED && limits->inbound != UNLIMITED &&
	    limits->client_sessions > limits->inbound)
		note(w->c, compilation_member(client, "classes[].client.sessions"),
		    "class %s: client.sessions (%u) is above refuse_at (%u): one client can fill "
		    "the class", name, limits->client_sessions, limits->inbound);
	if (!has(group, "classes[].hold_at") && !has(group, "classes[].refuse_at") &&
	    !has(group, "classes[].rate") && !has(client, "classes[].client.sessions") &&
	    !has(client, "classes[].client.rate") && !class->has_quotas)
		note(w->c, group, "class %s sets no limit (hold_at, refuse_at, rate, client); "
		    "its sessions are only counted", name);
}

static void note_observe(struct class_work *w, const config_setting_t *group,
    const config_setting_t *client, struct generation_class *class) {
	const config_t *config = &w->c->config;
	const config_setting_t *own = compilation_member(group, "classes[].observe");
	const config_setting_t *of_client =
	    compilation_member(client, "classes[].client.observe");
	const config_setting_t *outbound = config_lookup(config, "outbound.observe");

	if (own == NULL)
		own = config_lookup(config, "observe");
	note_place(w, class, CLASS_AT_OBSERVE, own);
	note_place(w, class, CLASS_AT_CLIENT_OBSERVE, of_client != NULL ? of_client : own);
	note_place(w, class, CLASS_AT_OUTBOUND_OBSERVE, outbound != NULL ? outbound : own);
}

/* Of the switches the innermost one that is given wins. */
static void store_class(struct class_work *w, const config_setting_t *group,
    const config_setting_t *client, struct generation_class *class) {
	const struct generation *header = compilation_header(w->c);
	bool observe = header->observe, outbound = header->outbound_observe;

	class->record = GENERATION_NO_RECORD;
	class->limits = (struct limits){ .sessions = UNLIMITED, .inbound = UNLIMITED,
		.client_sessions = UNLIMITED };
	class->observe = observe;
	compilation_store(w->c, BOOK_MAIN, "classes[]", group, class);
	class->client_observe = class->observe;
	compilation_store(w->c, BOOK_MAIN, "classes[].client", client, class);
	class->outbound_observe = config_lookup(&w->c->config, "outbound.observe") ?
	    outbound : class->observe;
}

static void compile_ports(struct class_work *w, const config_setting_t *group,
    struct generation_class *class, const char *name) {
	const config_setting_t *ports = compilation_member(group, "classes[].ports");
	unsigned count = compilation_element_count(group, "classes[].ports");

	class->any_port = ports == NULL;
	if (ports == NULL)
		return;
	if (count == 0)
		complain(w->c, ports, "class %s: ports is empty; omit it for all ports", name);
	class->ports = block_reserve(&w->c->block, count * sizeof(uint16_t));
	if (class->ports != 0)
		(void)compilation_numbers(group, "classes[].ports",
		    block_at(&w->c->block, class->ports), &class->port_count, count);
}

static void compile_class(struct class_work *w, uint32_t index, const config_setting_t *group) {
	struct compilation *c = w->c;
	struct generation_class *class = &w->classes[index];
	const config_setting_t *client = compilation_member(group, "classes[].client");
	const config_setting_t *match = compilation_member(group, "classes[].match");
	char name[2 * GENERATION_CLASS_NAME_MAX] = "?";

	if (client != NULL && !config_setting_is_group(client))
		client = NULL;
	w->groups[index] = group;
	store_class(w, group, client, class);
	class->file = compilation_place(c, group, &class->line);
	if (class->name != 0) {
		const char *text = block_at(&c->block, class->name);

		log_quote(name, sizeof(name), text, strlen(text));
		if (strcmp(text, "-") == 0)
			complain(c, group, "class name - is reserved: it means no class");
	} else if (!has(group, "classes[].name")) {
		complain(c, group, "a class has no name");
	}
	compilation_check_unique(c, group, "class", class->name);
	compile_text(w, group, class, name);
	if (class->action == CLASS_ACTION_DEFER &&
	    generation_has_listener(compilation_header(c), LISTENER_MILTER))
		note(c, compilation_member(group, "classes[].action"),
		    "class %s: action \"defer\" means 421 for sessions reported by milter, "
		    "because milter asks at connect only", name);
	compile_limits(w, group, client, class, name);
	note_places(w, group, client, class);
	compile_cluster_scope(c, group, class, name);
	note_observe(w, group, client, class);
	compile_ports(w, group, class, name);
	if (match == NULL || setting_element_count(match) == 0)
		complain(c, match ? match : group, "class %s has no masks; set match", name);
	else
		mask_set_read(c, &w->set, match, "classes.match", index, mask_read);
}

static bool begin_work(struct class_work *w, uint32_t classes) {
	w->classes = calloc((size_t)classes + 1, sizeof(*w->classes));
	w->groups = calloc((size_t)classes + 1, sizeof(*w->groups));
	if (w->classes != NULL && w->groups != NULL)
		return true;
	w->c->block.failed = true;
	return false;
}

static void end_work(struct class_work *w) {
	free(w->classes);
	free(w->groups);
	free(w->rules);
	mask_set_free(&w->set);
}

/* Where each mask is written. */
static void find_rules(struct class_work *w) {
	w->rules = calloc((size_t)w->set.count + 1, sizeof(*w->rules));
	w->c->block.failed |= w->rules == NULL;
	for (uint32_t i = 0; i < w->set.count && !w->c->block.failed; i++) {
		const config_setting_t *place = w->set.places[i];
		struct generation_rule *rule = &w->rules[i];

		rule->class_index = w->set.owners[i];
		rule->file = compilation_place(w->c, place, &rule->line);
		rule->text = block_text(&w->c->block, config_setting_get_string(place));
	}
}

static void compile_list(struct compilation *c, const config_setting_t *list) {
	struct class_work w = { .c = c };
	const config_setting_t *group;

	if (!begin_work(&w, compilation_length(list))) {
		end_work(&w);
		return;
	}
	for (unsigned at = 0; (group = compilation_next_group(list, &at)) != NULL;)
		compile_class(&w, w.class_count++, group);
	if (w.class_count > compilation_header(c)->record_count)
		complain(c, list, "%u classes, but state.classes is %u", w.class_count,
		    compilation_header(c)->record_count);
	find_rules(&w);
	if (!c->block.failed)
		build_indexes(&w);
	end_work(&w);
}

static void compile_exempt(struct compilation *c) {
	const config_setting_t *exempt = config_lookup(&c->config, "exempt");
	struct mask_set set = { .count = 0 };
	uint32_t index;

	if (exempt == NULL || config_setting_is_group(exempt))
		return;
	mask_set_read(c, &set, exempt, "exempt", 0, mask_read);
	compile_gate_exempt(c, &set);
	for (uint32_t i = 0; i < set.count; i++)
		if (set.masks[i].mask.kind == MASK_ALL)
			note(c, set.places[i], "exempt: \"*\" exempts every client");
	index = mask_index_store(&c->block, set.masks, set.count);
	if (!c->block.failed)
		compilation_header(c)->exempt_index = index;
	mask_set_free(&set);
}

void compile_classes(struct compilation *c) {
	const config_setting_t *list = config_lookup(&c->config, "classes");

	compile_exempt(c);
	compile_gate_command(c);
	if (c->block.failed)
		return;
	if (list == NULL)
		complain(c, NULL, "classes is missing: no sessions are counted");
	else if (config_setting_is_list(list) && config_setting_length(list) > 0)
		compile_list(c, list);
	else if (config_setting_is_list(list) || config_setting_is_array(list))
		note(c, list, "classes is empty: no sessions are counted");
}
