/* SPDX-License-Identifier: ISC */
/*
 * Accounts: quotas per login.  What every value may be check.c has checked already; here is
 * what they mean together.
 */
#include "config/classes/accounts.h"

#include <string.h>

#include "base/account_text.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/login.h"
#include "base/text.h"

#define KIB	1024

const char *const account_kind_names[QUOTA_KINDS] = {
	[QUOTA_RECIPIENTS] = "recipients", [QUOTA_MESSAGES] = "messages", [QUOTA_KIB] = "bytes",
};

const struct setting *account_limit_setting(const char *group, enum quota_kind kind) {
	char path[64] = "";

	text_append(path, sizeof(path), 0, "%s.%s", group, account_kind_names[kind]);
	return setting_find(path);
}

struct quota_limit account_limit(enum quota_kind kind, const struct setting_value *value) {
	uint64_t most = (uint64_t)value->number;

	if (kind == QUOTA_KIB)
		most = most < KIB ? 1 : most / KIB;
	return (struct quota_limit){ .period_s = (uint32_t)(value->period_ns / NS_PER_SECOND),
		.most = (uint32_t)(most > QUOTA_MOST ? QUOTA_MOST : most), .kind = kind };
}

unsigned account_counters(const struct quota_limit limits[], unsigned count) {
	unsigned counters = 0;

	for (unsigned i = 0; i < count; i++) {
		unsigned j = 0;

		while (j < i && quota_key(&limits[j]) != quota_key(&limits[i]))
			j++;
		counters += j == i;
	}
	return counters;
}

struct quota_list {
	struct generation_quota quotas[GENERATION_QUOTAS_MAX];
	uint32_t count;
};

static void read_kind(struct compilation *c, const config_setting_t *group,
    const struct setting *row, enum quota_kind kind, struct quota_list *out) {
	const config_setting_t *setting = compilation_member(group, row->path);
	unsigned count = setting == NULL ? 0 : setting_element_count(setting);

	for (unsigned i = 0; i < count; i++) {
		const config_setting_t *element = setting_element(setting, i);
		struct setting_value value;
		char why[256];

		if (!setting_parse(row, element, &value, why, sizeof(why)))
			continue;	/* check.c has said so */
		if (out->count == GENERATION_QUOTAS_MAX) {
			complain(c, element, "accounts: more than %d limits in one group",
			    GENERATION_QUOTAS_MAX);
			return;
		}
		out->quotas[out->count].limit = account_limit(kind, &value);
		(void)compilation_place(c, element, &out->quotas[out->count++].line);
	}
}

/* `path`: of the group. */
static struct quota_list read_group(struct compilation *c, const config_setting_t *group,
    const char *path) {
	struct quota_list list = { .count = 0 };

	for (enum quota_kind kind = 0; kind < QUOTA_KINDS; kind++)
		read_kind(c, group, account_limit_setting(path, kind), kind, &list);
	return list;
}

struct generation_quotas account_store(struct compilation *c,
    const struct generation_quota quotas[], uint32_t count) {
	uint32_t at = block_store(&c->block, quotas, count * sizeof(quotas[0]));

	return (struct generation_quotas){ .at = at, .count = at == 0 ? 0 : count };
}

static const config_setting_t *group_of(const config_setting_t *entry, const char *path) {
	const config_setting_t *group = compilation_member(entry, path);

	return group != NULL && config_setting_is_group(group) ? group : NULL;
}

/* More counters than a login has room for? */
static void check_counters(struct compilation *c, const config_setting_t *where,
    const struct quota_list *a, const struct quota_list *b, const char *name) {
	struct quota_limit limits[2 * GENERATION_QUOTAS_MAX];
	unsigned count = 0;

	for (uint32_t i = 0; i < a->count; i++)
		limits[count++] = a->quotas[i].limit;
	for (uint32_t i = 0; b != NULL && i < b->count; i++)
		limits[count++] = b->quotas[i].limit;
	if (account_counters(limits, count) > GENERATION_QUOTA_COUNTERS)
		complain(c, where, "account %s: more than %d different windows (a window is what "
		    "is counted and in which time; limits of each and new that agree in both "
		    "share one)", name, GENERATION_QUOTA_COUNTERS);
}

static void compile_limits(struct compilation *c, const config_setting_t *entry,
    struct generation_account *account, const char *name) {
	const config_setting_t *each = group_of(entry, "accounts[].each");
	const config_setting_t *all = group_of(entry, "accounts[].all");
	const config_setting_t *fresh = group_of(entry, "accounts[].new");
	struct quota_list of_each = read_group(c, each, "accounts[].each");
	struct quota_list of_all = read_group(c, all, "accounts[].all");
	struct quota_list of_new = read_group(c, fresh, "accounts[].new");
	struct setting_value value;

	check_counters(c, entry, &of_each, &of_new, name);
	check_counters(c, all == NULL ? entry : all, &of_all, NULL, name);
	account->each = account_store(c, of_each.quotas, of_each.count);
	account->all = account_store(c, of_all.quotas, of_all.count);
	account->fresh = account_store(c, of_new.quotas, of_new.count);
	compilation_value(fresh, "accounts[].new.for", &value);
	account->new_for_s = (uint32_t)(value.number / NS_PER_SECOND);
	compilation_store(c, BOOK_MAIN, "accounts[].each", each, account);
	if (account->per_message != 0)
		(void)compilation_place(c, compilation_member(each,
		    "accounts[].each.recipients_per_message"), &account->per_message_line);
	if (fresh != NULL && of_new.count == 0)
		note(c, fresh, "account %s: new sets no limit; set recipients, messages or "
		    "bytes", name);
	if (of_each.count + of_all.count + of_new.count + account->per_message == 0 &&
	    compilation_member(entry, "accounts[].health") == NULL &&
	    compilation_member(each, "accounts[].each.networks") == NULL)
		note(c, entry, "account %s sets no limit; its logins are only counted", name);
}

/* One "N/TIME"; left alone where there is none. */
static bool read_one(struct compilation *c, const config_setting_t *group, const char *path,
    uint32_t *most, uint32_t *period_s) {
	struct setting_value value;
	unsigned count = compilation_element_count(group, path);

	if (count > 1)
		complain(c, compilation_member(group, path), "%s: only one value is supported", path);
	if (count == 0 || !compilation_element(group, path, 0, &value))
		return false;	/* check.c has said so */
	*most = (uint32_t)value.number;
	*period_s = (uint32_t)(value.period_ns / NS_PER_SECOND);
	return true;
}

static void compile_health(struct compilation *c, const config_setting_t *entry,
    struct generation_account *account, const char *name) {
	const config_setting_t *each = group_of(entry, "accounts[].each");
	const config_setting_t *health = group_of(entry, "accounts[].health");
	struct health_limits *limits = &account->health;
	struct setting_value value;

	if (read_one(c, each, "accounts[].each.networks", &limits->networks,
	    &limits->networks_period_s))
		(void)compilation_place(c, compilation_member(each,
		    "accounts[].each.networks"), &account->networks_line);
	if (health == NULL)
		return;
	(void)compilation_place(c, health, &account->health_line);
	limits->unknown = 15;
	limits->unknown_period_s = 3600;
	(void)read_one(c, health, "accounts[].health.unknown", &limits->unknown,
	    &limits->unknown_period_s);
	compilation_store(c, BOOK_MAIN, "accounts[].health", health, account);
	compilation_value(health, "accounts[].health.action", &value);
	account->health_action = value.number == 1 ? ACCOUNT_HEALTH_ALERT : ACCOUNT_HEALTH_HOLD;
	if (compilation_header(c)->mta_count == 0)
		note(c, health, "account %s: health needs delivery results; configure mta", name);
}

static void check_text(struct compilation *c, const config_setting_t *entry,
    const struct generation_account *account, const char *name) {
	char why[256];

	if (account->text != 0 &&
	    !account_text_check(block_at(&c->block, account->text), why, sizeof(why)))
		complain(c, compilation_member(entry, "accounts[].text"), "account %s: text: %s",
		    name, why);
}

static struct generation_account stored_account(struct compilation *c,
    const config_setting_t *entry) {
	struct generation_account account = { .observe = compilation_header(c)->observe };

	compilation_store(c, BOOK_MAIN, "accounts[]", entry, &account);
	return account;
}

static void compile_free(struct compilation *c, const config_setting_t *entry,
    struct generation_account *account) {
	unsigned count = compilation_element_count(entry, "accounts[].free");
	uint32_t at = count == 0 ? 0 : block_reserve(&c->block, count * sizeof(uint32_t));

	for (unsigned i = 0; i < count && at != 0; i++) {
		struct setting_value value;
		uint32_t text;

		if (!compilation_element(entry, "accounts[].free", i, &value))
			continue;
		if (strchr(value.text, '@') != NULL)
			complain(c, setting_element(compilation_member(entry, "accounts[].free"), i),
			    "accounts.free: \"%s\" must be a domain, not an "
			    "address", value.text);
		text = block_text(&c->block, value.text);
		if (c->block.failed)
			return;
		((uint32_t *)block_at(&c->block, at))[account->free_count++] = text;
	}
	account->free = at;
}

static void compile_pattern(struct compilation *c, const config_setting_t *element,
    uint32_t account, struct generation_login_pattern *pattern) {
	char folded[LOGIN_MAX + 1], quoted[128];
	struct setting_value value;
	const char *star;
	size_t length;
	char why[256];

	if (!setting_parse(setting_find("accounts[].match"), element, &value, why, sizeof(why)))
		return;
	length = strlen(value.text);
	if (!login_fold(value.text, length, folded)) {
		complain(c, element, "accounts.match: a login has 1 to %d bytes", LOGIN_MAX);
		return;
	}
	folded[length] = '\0';
	star = strchr(folded, '*');
	if (star != NULL && strchr(star + 1, '*') != NULL)
		complain(c, element, "accounts.match: \"%s\" has more than one *",
		    log_quote(quoted, sizeof(quoted), value.text, length));
	*pattern = (struct generation_login_pattern){ .account = account,
		.text = block_text(&c->block, folded), .exact = star == NULL,
		.before = (uint32_t)(star == NULL ? length : (size_t)(star - folded)) };
	if (star != NULL)
		pattern->behind = (uint32_t)length - pattern->before - 1;
}

static void compile_match(struct compilation *c, const config_setting_t *entry,
    uint32_t account, const char *name) {
	const config_setting_t *match = compilation_member(entry, "accounts[].match");
	struct generation_accounts *a;
	unsigned count = compilation_element_count(entry, "accounts[].match");

	if (count == 0)
		complain(c, match != NULL ? match : entry, "account %s has no logins; set match",
		    name);
	for (unsigned i = 0; i < count; i++) {
		struct generation_login_pattern pattern = { .exact = 2 };

		compile_pattern(c, setting_element(match, i), account, &pattern);
		if (pattern.exact == 2 || c->block.failed)
			continue;
		a = &compilation_header(c)->accounts;
		((struct generation_login_pattern *)block_at(&c->block,
		    a->patterns))[a->pattern_count++] = pattern;
	}
}

static struct generation_account *account_at(struct compilation *c, uint32_t index) {
	return (struct generation_account *)block_at(&c->block,
	    compilation_header(c)->accounts.accounts) + index;
}

static void compile_entry(struct compilation *c, const config_setting_t *entry, uint32_t index) {
	struct generation_account account = stored_account(c, entry);
	char name[256] = "?";

	account.file = compilation_place(c, entry, &account.line);
	if (account.name != 0) {
		const char *text = block_at(&c->block, account.name);

		log_quote(name, sizeof(name), text, strlen(text));
	} else if (compilation_member(entry, "accounts[].name") == NULL) {
		complain(c, entry, "an entry of accounts has no name");
	}
	compilation_check_unique(c, entry, "account", account.name);
	check_text(c, entry, &account, name);
	compile_limits(c, entry, &account, name);
	compile_health(c, entry, &account, name);
	compile_free(c, entry, &account);
	compile_match(c, entry, index, name);
	if (!c->block.failed)
		*account_at(c, index) = account;
}

/* `more`: entries for classes. */
static bool make_room(struct compilation *c, const config_setting_t *list, unsigned count,
    unsigned more) {
	unsigned patterns = more;
	uint32_t accounts_at, patterns_at;

	for (unsigned i = 0; i < count; i++)
		patterns += compilation_element_count(config_setting_get_elem(list, i),
		    "accounts[].match");
	accounts_at = block_reserve(&c->block, (count + more) *
	    sizeof(struct generation_account));
	patterns_at = block_reserve(&c->block, (patterns + 1) *
	    sizeof(struct generation_login_pattern));
	if (c->block.failed)
		return false;
	compilation_header(c)->accounts.accounts = accounts_at;
	compilation_header(c)->accounts.patterns = patterns_at;
	compilation_header(c)->accounts.count = count + more;
	compilation_header(c)->accounts.class_entries = more;
	return true;
}

/* --- classes ---------------------------------------------------------------------- */

static const struct generation_class *class_at(struct compilation *c, uint32_t index) {
	return (const struct generation_class *)block_at(&c->block,
	    compilation_header(c)->classes) + index;
}

static unsigned class_quotas_count(struct compilation *c) {
	unsigned count = 0;

	for (uint32_t i = 0; i < compilation_header(c)->class_count; i++)
		count += class_at(c, i)->has_quotas != 0;
	return count;
}

/* A class with quotas: an entry for its clients. */
static void compile_class_quota(struct compilation *c, const config_setting_t *group,
    uint32_t class_index, uint32_t index) {
	const config_setting_t *client = group_of(group, "classes[].client");
	struct quota_list of_client = read_group(c, client, "classes[].client");
	struct quota_list of_class = read_group(c, group, "classes[]");
	const struct generation_class *class = class_at(c, class_index);
	struct generation_account account = stored_account(c, NULL);
	char name[LOGIN_MAX], folded[LOGIN_MAX + 2];
	struct generation_login_pattern pattern = { .account = index };
	struct generation_accounts *a;

	account.file = compilation_place(c, group, &account.line);
	snprintf(name, sizeof(name), GENERATION_CLASS_LOGIN "%s",
	    (const char *)block_at(&c->block, class->name));
	check_counters(c, client != NULL ? client : group, &of_client, NULL, name);
	check_counters(c, group, &of_class, NULL, name);
	account.name = block_text(&c->block, name);
	account.each = account_store(c, of_client.quotas, of_client.count);
	account.all = account_store(c, of_class.quotas, of_class.count);
	class = class_at(c, class_index);
	account.observe = client != NULL ? class->client_observe : class->observe;
	account.counts_bounces = 1;
	snprintf(folded, sizeof(folded), "%s:", name);
	pattern.before = (uint32_t)strlen(folded);
	(void)login_fold(folded, pattern.before, folded);
	folded[pattern.before] = '*';
	folded[pattern.before + 1] = '\0';
	pattern.text = block_text(&c->block, folded);
	if (c->block.failed)
		return;
	*account_at(c, index) = account;
	a = &compilation_header(c)->accounts;
	((struct generation_login_pattern *)block_at(&c->block,
	    a->patterns))[a->pattern_count++] = pattern;
}

static void compile_class_quotas(struct compilation *c, uint32_t index) {
	const config_setting_t *classes = config_lookup(&c->config, "classes");

	for (uint32_t i = 0; i < compilation_header(c)->class_count && !c->block.failed; i++)
		if (class_at(c, i)->has_quotas != 0)
			compile_class_quota(c, setting_element(classes, i), i, index++);
}

void compile_accounts(struct compilation *c) {
	const config_setting_t *list = config_lookup(&c->config, "accounts");
	unsigned count = compilation_length(list), more = class_quotas_count(c);

	/* nobody pays for what is not used; a reload that adds the first says so */
	if (count + more == 0)
		compilation_header(c)->account_count = 0;
	if (count + more > GENERATION_ACCOUNTS_MAX) {
		complain(c, list, "accounts: more than %d entries, with classes that limit "
		    "recipients, messages or bytes", GENERATION_ACCOUNTS_MAX);
	} else if (count + more > 0 && make_room(c, list, count, more)) {
		compile_class_quotas(c, count);
		for (unsigned i = 0; i < count && !c->block.failed; i++) {
			const config_setting_t *entry = config_setting_get_elem(list, i);

			if (config_setting_is_group(entry))
				compile_entry(c, entry, i);
		}
	}
	if (!c->block.failed)
		compile_account_overrides(c);
}
