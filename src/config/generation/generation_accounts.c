/* SPDX-License-Identifier: ISC */
/*
 * Reading the accounts of a generation's block.  Nothing here allocates, locks or changes
 * anything: any thread, any process that has it mapped.
 */
#include "config/generation/account_settings.h"

#include <string.h>

#include "base/login.h"
#include "config/generation/generation_internal.h"

#define ANY_KIND	(-1)

const struct generation_account *generation_account(const struct generation *g, uint32_t index) {
	return (const struct generation_account *)generation_at(g, g->accounts.accounts) + index;
}

static const struct generation_login_pattern *pattern_at(const struct generation *g,
    uint32_t index) {
	return (const struct generation_login_pattern *)generation_at(g, g->accounts.patterns) + index;
}

static bool pattern_matches(const struct generation *g,
    const struct generation_login_pattern *pattern, const char *login, size_t length) {
	const char *text = generation_text(g, pattern->text);

	if (pattern->exact != 0)
		return length == pattern->before && memcmp(text, login, length) == 0;
	return length >= (size_t)pattern->before + pattern->behind &&
	    memcmp(login, text, pattern->before) == 0 &&
	    memcmp(login + length - pattern->behind, text + pattern->before + 1,
		pattern->behind) == 0;
}

uint32_t generation_account_of(const struct generation *g, const char *folded, size_t length,
    uint32_t *pattern) {
	for (uint32_t i = 0; i < g->accounts.pattern_count; i++)
		if (pattern_matches(g, pattern_at(g, i), folded, length)) {
			*pattern = i;
			return pattern_at(g, i)->account;
		}
	return GENERATION_NO_ACCOUNT;
}

const char *generation_login_pattern_text(const struct generation *g, uint32_t pattern) {
	return pattern < g->accounts.pattern_count ?
	    generation_text(g, pattern_at(g, pattern)->text) : "";
}

static const struct generation_override *find_override(const struct generation *g,
    const struct login_key *key) {
	const struct generation_override *places = generation_at(g, g->accounts.overrides);
	uint32_t mask = g->accounts.override_places - 1;

	if (g->accounts.override_places == 0)
		return NULL;
	for (uint32_t i = 0; i <= mask; i++) {
		const struct generation_override *place =
		    &places[(key->words[0] + i) & mask];

		if (place->key == 0)
			return NULL;
		if (place->key == key->words[0])
			return place;
	}
	return NULL;
}

/* Those of the kinds that are in `kinds`. */
static void add_quotas(const struct generation *g, const struct generation_quotas *quotas,
    uint32_t kinds, bool is_override, bool is_new, struct account_rules *rules) {
	const struct generation_quota *list = generation_at(g, quotas->at);

	for (uint32_t i = 0; i < quotas->count && rules->count < GENERATION_QUOTAS_MAX; i++) {
		if ((kinds >> list[i].limit.kind & 1) == 0)
			continue;
		rules->limits[rules->count] = list[i].limit;
		rules->lines[rules->count] = list[i].line;
		rules->is_override[rules->count] = is_override;
		rules->is_new[rules->count++] = is_new;
	}
}

/* Of the entry and the login's override, if it has one. */
static void fill_rules(const struct generation *g, uint32_t index,
    const struct login_key *key, bool is_new, struct account_rules *rules) {
	const struct generation_account *account = generation_account(g, index);
	const struct generation_override *override;
	const struct generation_override_set *set;

	rules->account = account;
	rules->index = index;
	rules->override_line = 0;
	rules->per_message = account->per_message;
	rules->count = 0;
	override = find_override(g, key);
	if (override == NULL) {
		add_quotas(g, &account->each, UINT32_MAX, false, false, rules);
		if (is_new)
			add_quotas(g, &account->fresh, UINT32_MAX, false, true, rules);
		return;
	}
	set = (const struct generation_override_set *)generation_at(g, g->accounts.sets) + override->set;
	rules->override_line = override->line;
	if (set->per_message != UINT32_MAX)
		rules->per_message = set->per_message;
	add_quotas(g, &set->quotas, UINT32_MAX, true, false, rules);
	add_quotas(g, &account->each, ~set->kinds, false, false, rules);
	for (unsigned i = 0; i < rules->count; i++)
		if (rules->is_override[i])
			rules->lines[i] = override->line;
}

bool generation_account_rules(const struct generation *g, const char *folded, size_t length,
    const struct login_key *key, bool is_new, struct account_rules *rules) {
	uint32_t index = generation_account_of(g, folded, length, &rules->pattern);

	if (index == GENERATION_NO_ACCOUNT)
		return false;
	fill_rules(g, index, key, is_new, rules);
	return true;
}

bool generation_account_rules_kept(const struct generation *g, const char *name,
    const struct login_key *key, uint32_t mark, bool is_new, struct account_rules *rules) {
	size_t length = strlen(name);
	char folded[LOGIN_MAX];
	struct login_key whole;

	if (login_fold(name, length, folded)) {
		whole = login_key(folded, length);
		if (memcmp(whole.words, key->words, sizeof(whole.words)) == 0)
			return generation_account_rules(g, folded, length, key, is_new, rules);
	}
	for (uint32_t i = 0; i < g->accounts.count; i++)
		if (generation_account_mark(generation_text(g, generation_account(g, i)->name)) ==
		    mark) {
			rules->pattern = UINT32_MAX;
			fill_rules(g, i, key, is_new, rules);
			return true;
		}
	return false;
}

uint32_t generation_account_mark(const char *name) {
	return (uint32_t)login_key(name, strlen(name)).words[0] | 1;
}

bool generation_account_is_new(const struct generation_account *account, int64_t first_s,
    int64_t since_s, int64_t now_s) {
	/* while the table itself is young nobody can be told from those who were there */
	return account->fresh.count > 0 && first_s <= now_s &&
	    now_s - first_s < account->new_for_s && first_s - since_s >= account->new_for_s;
}

void account_rules_leave_out_new(struct account_rules *rules) {
	unsigned kept = 0;

	for (unsigned i = 0; i < rules->count; i++) {
		if (rules->is_new[i])
			continue;
		rules->limits[kept] = rules->limits[i];
		rules->lines[kept] = rules->lines[i];
		rules->is_override[kept] = rules->is_override[i];
		rules->is_new[kept++] = false;
	}
	rules->count = kept;
}

unsigned generation_account_pool(const struct generation *g,
    const struct generation_account *account, struct quota_limit limits[GENERATION_QUOTAS_MAX],
    uint32_t lines[GENERATION_QUOTAS_MAX]) {
	const struct generation_quota *list = generation_at(g, account->all.at);

	for (uint32_t i = 0; i < account->all.count; i++) {
		limits[i] = list[i].limit;
		if (lines != NULL)
			lines[i] = list[i].line;
	}
	return account->all.count;
}

/* "example.org", "*.example.org" (that one, too), "*". */
static bool domain_matches(const char *mask, const char *domain, size_t length) {
	size_t mask_length = strlen(mask);

	if (strcmp(mask, "*") == 0)
		return true;
	if (strncmp(mask, "*.", 2) != 0)
		return mask_length == length && strncasecmp(mask, domain, length) == 0;
	mask += 2;
	mask_length -= 2;
	return length >= mask_length &&
	    strncasecmp(mask, domain + length - mask_length, mask_length) == 0 &&
	    (length == mask_length || domain[length - mask_length - 1] == '.');
}

/* May the local part name another domain? */
static bool has_route(const char *local, size_t length) {
	for (size_t i = 0; i < length; i++)
		if (strchr("%!@\":", local[i]) != NULL)	/* a NUL, too */
			return true;
	return false;
}

bool generation_account_is_free(const struct generation *g,
    const struct generation_account *account, const char *recipient, size_t length) {
	const uint32_t *masks = generation_at(g, account->free);
	const char *sign = length == 0 ? NULL : memrchr(recipient, '@', length);
	size_t domain_length;

	/* "them%example.com@here", "a!b@here" and quoted ones may go elsewhere from here */
	if (sign == NULL || has_route(recipient, (size_t)(sign - recipient)))
		return false;
	domain_length = length - (size_t)(sign + 1 - recipient);
	if (domain_length > 1 && recipient[length - 1] == '.')	/* mail servers take one off */
		domain_length--;
	for (uint32_t i = 0; i < account->free_count; i++)
		if (domain_matches(generation_text(g, masks[i]), sign + 1, domain_length))
			return true;
	return false;
}

/* --- checking ------------------------------------------------------------------- */

static bool quotas_fit(const struct generation *g, const struct generation_quotas *quotas) {
	const struct generation_quota *list = generation_at(g, quotas->at);

	if (quotas->count > GENERATION_QUOTAS_MAX ||
	    !array_fits(g, quotas->at, quotas->count, sizeof(*list), 4))
		return false;
	for (uint32_t i = 0; i < quotas->count; i++)
		if (list[i].limit.kind >= QUOTA_KINDS || list[i].limit.most > QUOTA_MOST ||
		    list[i].limit.period_s < QUOTA_PERIOD_LEAST_S ||
		    list[i].limit.period_s > QUOTA_PERIOD_MOST_S)
			return false;
	return true;
}

static bool period_fits(uint32_t most, uint32_t period_s) {
	return most == 0 || (period_s >= QUOTA_PERIOD_LEAST_S && period_s <= QUOTA_PERIOD_MOST_S);
}

static bool account_fits(const struct generation *g, const struct generation_account *account) {
	return quotas_fit(g, &account->each) && quotas_fit(g, &account->all) &&
	    quotas_fit(g, &account->fresh) &&
	    array_fits(g, account->free, account->free_count, sizeof(uint32_t), 4) &&
	    period_fits(account->health.unknown, account->health.unknown_period_s) &&
	    period_fits(account->health.networks, account->health.networks_period_s);
}

static bool pattern_fits(const struct generation *g,
    const struct generation_login_pattern *pattern) {
	size_t length;

	if (pattern->account >= g->accounts.count)
		return false;
	length = strlen(generation_text(g, pattern->text));
	if (pattern->exact != 0)
		return pattern->before == length && pattern->behind == 0;
	return pattern->before < length && pattern->behind == length - pattern->before - 1;
}

static bool overrides_fit(const struct generation *g) {
	const struct generation_accounts *a = &g->accounts;
	const struct generation_override *places = generation_at(g, a->overrides);
	const struct generation_override_set *sets = generation_at(g, a->sets);

	if ((a->override_places & (a->override_places - 1)) != 0 ||
	    !array_fits(g, a->overrides, a->override_places, sizeof(*places), 8) ||
	    !array_fits(g, a->sets, a->set_count, sizeof(*sets), 4))
		return false;
	for (uint32_t i = 0; i < a->set_count; i++)
		if (!quotas_fit(g, &sets[i].quotas))
			return false;
	for (uint32_t i = 0; i < a->override_places; i++)
		if (places[i].key != 0 && places[i].set >= a->set_count)
			return false;
	return true;
}

bool generation_accounts_fit(const struct generation *g) {
	const struct generation_accounts *a = &g->accounts;

	if (a->count > GENERATION_ACCOUNTS_MAX ||
	    !array_fits(g, a->accounts, a->count, sizeof(struct generation_account), 4) ||
	    !array_fits(g, a->patterns, a->pattern_count,
	    sizeof(struct generation_login_pattern), 4))
		return false;
	for (uint32_t i = 0; i < a->count; i++)
		if (!account_fits(g, generation_account(g, i)))
			return false;
	for (uint32_t i = 0; i < a->pattern_count; i++)
		if (!pattern_fits(g, pattern_at(g, i)))
			return false;
	return overrides_fit(g);
}

/* The only mail server, of this kind if `kind` is one: its number; GENERATION_MTAS_MAX: there is
 * none, or there are several.  *count: how many. */
static unsigned only_mta(const struct generation *g, int kind, unsigned *count) {
	unsigned found = GENERATION_MTAS_MAX;

	*count = 0;
	for (unsigned i = 0; i < g->mta_count; i++)
		if (g->mtas[i].transport == 0 && (kind == ANY_KIND || g->mtas[i].kind == kind)) {
			found = i;
			++*count;
		}
	return *count == 1 ? found : GENERATION_MTAS_MAX;
}

const char *generation_only_mta(const struct generation *g) {
	unsigned count, only = only_mta(g, ANY_KIND, &count);

	if (count == 0)
		return "";
	return only == GENERATION_MTAS_MAX ? NULL : generation_text(g, g->mtas[only].name);
}

const char *generation_asking_mta(const struct generation *g, unsigned listener) {
	unsigned count, only;

	if (listener >= g->listener_count)
		return NULL;
	if (g->listeners[listener].mta != 0)
		return generation_text(g, g->listeners[listener].mta);
	only = only_mta(g, g->listeners[listener].kind == LISTENER_POLICY ? MTA_POSTFIX :
	    MTA_SENDMAIL, &count);
	return only == GENERATION_MTAS_MAX ? generation_only_mta(g) :
	    generation_text(g, g->mtas[only].name);
}
