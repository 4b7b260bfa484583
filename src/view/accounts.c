/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Accounts, as posternctl shows them.
 * MODEL    Logins are copied out of the state, and held against the settings in force.
 * ERRORS   None.
 * THREADS  One.
 */
#include "view/accounts.h"

#include <stdlib.h>
#include <string.h>

#include "base/account_text.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/decision_id.h"
#include "base/login.h"
#include "base/order.h"
#include "base/text.h"
#include "segment/account/accounts.h"
#include "view/shell_word.h"

#define COUNT_OF(array)	(sizeof(array) / sizeof((array)[0]))
#define PLACE_MAX	512
#define COMMAND_MAX	1200

static const char *const kind_words[QUOTA_KINDS] = {
	[QUOTA_RECIPIENTS] = "recipients", [QUOTA_MESSAGES] = "messages", [QUOTA_KIB] = "KiB",
};

#define LATELY_NS	(600 * NS_PER_SECOND)

bool view_accounts_are_full(const struct view *view) {
	return view->status.accounts_full_ns != 0 &&
	    view->status.now_ns - view->status.accounts_full_ns < LATELY_NS;
}

/* One login and its rules. */
struct looked {
	struct account account;
	struct account_rules rules;
	bool is_known;		/* in the state */
	bool has_rules, is_new;
	int64_t now_ns;
};

static void find_new(const struct view *view, struct looked *looked) {
	int64_t now_s = looked->now_ns / NS_PER_SECOND;

	looked->is_new = generation_account_is_new(looked->rules.account, looked->is_known ?
	    looked->account.first_s : now_s, accounts_since_s(view->reader), now_s);
	if (!looked->is_new)
		account_rules_leave_out_new(&looked->rules);
}

/* Of a login as somebody wrote it. */
static void find_rules(const struct view *view, const char *login, struct looked *looked) {
	size_t length = strlen(login);
	char folded[LOGIN_MAX];
	struct login_key key;

	if (view->generation == NULL || !login_fold(login, length, folded))
		return;
	key = login_key(folded, length);
	looked->has_rules = generation_account_rules(view->generation, folded, length, &key,
	    true, &looked->rules);
	if (looked->has_rules)
		find_new(view, looked);
}

/* Of a login as it is kept. */
static void find_rules_kept(const struct view *view, const char *name, struct looked *looked) {
	const struct login_key key = { { looked->account.key[0], looked->account.key[1] } };

	looked->has_rules = view->generation != NULL && generation_account_rules_kept(
	    view->generation, name, &key, looked->account.entry, true, &looked->rules);
	if (looked->has_rules)
		find_new(view, looked);
}

static uint64_t used_of(struct quota_counter counters[], const struct quota_limit *limit,
    int64_t now_ns) {
	const struct quota_counter *counter = quota_find(counters, GENERATION_QUOTA_COUNTERS,
	    limit);

	return counter == NULL ? 0 : quota_used(counter, now_ns);
}

/* Hardly anything fits: of bytes the last ones are never used. */
static bool is_full(uint64_t used, uint32_t most) {
	return most != 0 && used * 100 >= (uint64_t)most * 99;
}

static uint64_t wait_s(struct quota_counter counters[], const struct quota_limit *limit,
    int64_t now_ns) {
	const struct quota_counter *counter = quota_find(counters, GENERATION_QUOTA_COUNTERS,
	    limit);
	int64_t wait_ns = counter == NULL ? 0 : quota_wait_ns(counter, limit->most, 1, now_ns);

	return (uint64_t)((wait_ns + NS_PER_SECOND - 1) / NS_PER_SECOND);
}

/* --- all of them --------------------------------------------------------------------- */

struct listing {
	const struct view *view;
	const struct view_accounts_choice *choice;
	struct view_account_row *list;
	size_t count, size;
	bool no_memory;
};

/* Is a larger part of the limit used than of the other? */
static bool is_more(uint64_t used, uint32_t most, uint64_t other_used, uint32_t other_most) {
	return other_most == 0 || used * other_most > other_used * most;
}

static void find_tightest(struct looked *looked, struct view_account_row *out) {
	for (unsigned i = 0; looked->has_rules && i < looked->rules.count; i++) {
		const struct quota_limit *limit = &looked->rules.limits[i];
		uint64_t used = used_of(looked->account.counters, limit, looked->now_ns);

		if (!is_more(used, limit->most, out->used, out->limit.most))
			continue;
		out->limit = *limit;
		out->used = used;
		out->free_s = wait_s(looked->account.counters, limit, looked->now_ns);
	}
}

static void make_row(const struct view *view, const struct account *account,
    struct view_account_row *row) {
	struct looked looked = { .account = *account, .is_known = true,
		.now_ns = view->status.now_ns };

	*row = (struct view_account_row){ .accepted = account->accepted,
		.refused = account->refused, .is_held = account->held_by != 0 };
	text_copy(row->login, sizeof(row->login), account->name,
	    strnlen(account->name, ACCOUNT_NAME_MAX));
	find_rules_kept(view, row->login, &looked);
	row->entry = looked.has_rules ? looked.rules.account->name : 0;
	row->seen_s = value_since_ds(view, SEEN_DS(account->seen)).number;
	find_tightest(&looked, row);
}

static void list_account(void *context, const void *account) {
	struct listing *listing = context;
	struct view_account_row one;

	make_row(listing->view, account, &one);
	if ((listing->choice->over && !one.is_held && !is_full(one.used, one.limit.most)) ||
	    (listing->choice->pattern != NULL &&
		strstr(one.login, listing->choice->pattern) == NULL))
		return;
	listing->no_memory |= !array_grow(&listing->list, &listing->size, listing->count,
	    sizeof(one));
	if (!listing->no_memory)
		listing->list[listing->count++] = one;
}

static int by_use(const struct view_account_row *left, const struct view_account_row *right) {
	if (left->limit.most != 0 &&
	    is_more(left->used, left->limit.most, right->used, right->limit.most))
		return -1;
	if (right->limit.most != 0 &&
	    is_more(right->used, right->limit.most, left->used, left->limit.most))
		return 1;
	return strcmp(left->login, right->login);
}

/* The greater ones come first, and equal ones by use. */
static double weight_of(const struct view_account_row *one, enum view_accounts_order order) {
	switch (order) {
	case ACCOUNTS_BY_REFUSED:
		return (double)one->refused;
	case ACCOUNTS_BY_ACCEPTED:
		return (double)one->accepted;
	case ACCOUNTS_BY_SEEN:
		return -(double)one->seen_s;
	default:
		return 0;
	}
}

static int by_choice(const void *a, const void *b, void *context) {
	const struct view_account_row *left = a, *right = b;
	const struct view_accounts_choice *choice = context;

	return choice->order == ACCOUNTS_BY_LOGIN ? strcmp(left->login, right->login) :
	    order_then(ORDER(weight_of(right, choice->order), weight_of(left, choice->order)),
	    by_use(left, right));
}

bool view_accounts_order(const char *word, enum view_accounts_order *out) {
	static const char *const words[] = { [ACCOUNTS_BY_USE] = "used",
		[ACCOUNTS_BY_REFUSED] = "refused", [ACCOUNTS_BY_ACCEPTED] = "accepted",
		[ACCOUNTS_BY_SEEN] = "seen", [ACCOUNTS_BY_LOGIN] = "login" };

	for (unsigned i = 0; i < COUNT_OF(words); i++)
		if (strcmp(word, words[i]) == 0) {
			*out = (enum view_accounts_order)i;
			return true;
		}
	return false;
}

static void account_row(void *context, struct writer *writer, const void *item) {
	const struct view *view = context;
	const struct view_account_row *one = item;
	bool limited = one->limit.most != 0;
	char window[ACCOUNT_WINDOW_TEXT];

	writer_text(writer, "login", one->login);
	writer_text(writer, "account", one->entry == 0 ? NULL :
	    generation_text(view->generation, one->entry));
	writer_member(writer, "used", COLUMN_NUMBER, value_toned_if(value_number_if(limited,
	    one->used), is_full(one->used, one->limit.most), TONE_WARN));
	writer_number_if(writer, "limit", limited, one->limit.most);
	writer_text(writer, "what", limited ? kind_words[one->limit.kind] : NULL);
	writer_text(writer, "window", limited ? account_window_text(one->limit.period_s, window) :
	    NULL);
	writer_seconds(writer, "free_in", value_number_if(limited, one->free_s));
	writer_number(writer, "accepted", one->accepted);
	writer_number(writer, "refused", one->refused);
	writer_member(writer, "held", COLUMN_TRUTH, value_toned_if(value_truth(one->is_held),
	    one->is_held, TONE_BAD));
	writer_seconds(writer, "seen", value_number(one->seen_s));
}

static void write_rows(const struct view *view, const struct view_account_row *rows,
    size_t count, struct writer *writer) {
	writer_table(writer, &(const struct table){ .row = account_row,
	    .context = (void *)(uintptr_t)view, .items = rows, .count = count,
	    .each = sizeof(*rows) });
}

int view_accounts_write(const struct view *view, struct writer *writer,
    const struct view_accounts_choice *choice, unsigned *torn) {
	struct listing listing = { .view = view, .choice = choice };

	*torn = accounts_each(view->reader, &account_kind, list_account, &listing);
	if (listing.count > 1)
		qsort_r(listing.list, listing.count, sizeof(*listing.list), by_choice,
		    (void *)(uintptr_t)choice);
	if (!listing.no_memory)
		write_rows(view, listing.list, listing.count, writer);
	free(listing.list);
	return listing.no_memory ? -1 : 0;
}

/* --- those that matter most ---------------------------------------------------------- */

#define TOP_SHARE	10	/* a tenth of the time at most */
#define TOP_AGAIN_NS	NS_PER_SECOND

static int by_trouble(const struct view_account_row *left, const struct view_account_row *right) {
	return left->is_held != right->is_held ? right->is_held - left->is_held :
	    by_use(left, right);
}

static void rank_account(void *context, const void *entry) {
	const struct account *account = entry;
	struct view *view = context;
	struct view_accounts_top *top = view->accounts;
	int64_t guard_ns = view->status.created_ns + account->guard_ds * (NS_PER_SECOND / 10);
	struct view_account_row row;
	unsigned at;

	/* most are neither: their rules need not be looked for */
	if (account->held_by == 0 && guard_ns <= view->status.now_ns)
		return;
	make_row(view, account, &row);
	top->held += row.is_held;
	top->full += !row.is_held && is_full(row.used, row.limit.most);
	if (top->count == COUNT_OF(top->rows) &&
	    by_trouble(&row, &top->rows[top->count - 1]) >= 0)
		return;
	at = top->count < COUNT_OF(top->rows) ? top->count++ : top->count - 1;
	for (; at > 0 && by_trouble(&row, &top->rows[at - 1]) < 0; at--)
		top->rows[at] = top->rows[at - 1];
	top->rows[at] = row;
}

const struct view_accounts_top *view_accounts_top(struct view *view) {
	int64_t now_ns = clock_now_ns();
	struct view_accounts_top *top;

	if (view->generation == NULL || view->generation->accounts.count == 0)
		return NULL;
	if (view->accounts == NULL)
		view->accounts = calloc(1, sizeof(*view->accounts));
	top = view->accounts;
	if (top == NULL || (top->made_ns != 0 &&
	    now_ns - top->made_ns < TOP_AGAIN_NS + TOP_SHARE * top->took_ns))
		return top;
	*top = (struct view_accounts_top){ .made_ns = now_ns };
	(void)accounts_each(view->reader, &account_kind, rank_account, view);
	top->took_ns = clock_now_ns() - now_ns;
	return top;
}

void view_accounts_top_write(const struct view *view, const struct view_accounts_top *top,
    unsigned most, struct writer *writer) {
	write_rows(view, top->rows, top->count < most ? top->count : most, writer);
}

/* --- one of them ------------------------------------------------------------------------ */

struct limit_shown {
	const char *of, *file;
	uint32_t line, period_s;
	unsigned kind;			/* enum quota_kind */
	uint64_t used, most, free_s;
};

struct limits_shown {
	const struct view *view;
	struct looked *looked;
	struct quota_counter pool[GENERATION_QUOTA_COUNTERS];
};

static void limit_row(void *context, struct writer *writer, const void *item) {
	const struct limit_shown *shown = item;
	char window[ACCOUNT_WINDOW_TEXT], place[PLACE_MAX] = "";

	(void)context;
	text_append(place, sizeof(place), 0, "%s:%u", shown->file == NULL ? "" : shown->file,
	    shown->line);
	writer_text(writer, "of", shown->of);
	writer_text(writer, "what", kind_words[shown->kind]);
	writer_text(writer, "window", account_window_text(shown->period_s, window));
	writer_member(writer, "used", COLUMN_NUMBER, value_toned_if(value_number(shown->used),
	    shown->used >= shown->most, TONE_WARN));
	writer_number(writer, "limit", shown->most);
	writer_seconds(writer, "free_in", value_number(shown->free_s));
	writer_text(writer, "place", place);
}

static void write_limit(struct writer *writer, struct quota_counter counters[],
    const struct quota_limit *limit, const char *of, const char *file, uint32_t line,
    int64_t now_ns) {
	writer_row(writer, &(const struct limit_shown){ .of = of, .file = file, .line = line,
	    .period_s = limit->period_s, .kind = limit->kind % QUOTA_KINDS,
	    .used = used_of(counters, limit, now_ns), .most = limit->most,
	    .free_s = wait_s(counters, limit, now_ns) });
}

static void write_limits(void *context, struct writer *writer) {
	struct limits_shown *shown = context;
	const struct generation *g = shown->view->generation;
	struct account_rules *rules = &shown->looked->rules;
	const char *file = generation_text(g, rules->account->file);
	struct quota_limit pool[GENERATION_QUOTAS_MAX];
	uint32_t lines[GENERATION_QUOTAS_MAX];
	unsigned count = generation_account_pool(g, rules->account, pool, lines);

	for (unsigned i = 0; i < rules->count; i++)
		write_limit(writer, shown->looked->account.counters, &rules->limits[i],
		    rules->is_override[i] ? "override" : rules->is_new[i] ? "new" : "each",
		    rules->is_override[i] ? generation_text(g, g->accounts.overrides_file) :
		    file, rules->lines[i], shown->looked->now_ns);
	for (unsigned i = 0; i < count; i++)
		write_limit(writer, shown->pool, &pool[i], "all", file, lines[i],
		    shown->looked->now_ns);
}

/* It found no room, or would find none. */
static bool is_uncounted(const struct view *view, const struct looked *looked) {
	return !looked->is_known && view_accounts_are_full(view);
}

static void write_account(const struct view *view, struct writer *writer, const char *login,
    const struct looked *looked) {
	const struct generation *g = view->generation;
	const struct account_rules *rules = &looked->rules;
	const struct generation_account *entry = rules->account;
	uint64_t held_by = looked->account.held_by;
	char id[DECISION_ID_MAX];

	writer_text(writer, "login", login);
	writer_text(writer, "account", generation_text(g, entry->name));
	writer_text(writer, "pattern", generation_login_pattern_text(g, rules->pattern));
	writer_text(writer, "file", generation_text(g, entry->file));
	writer_number(writer, "line", entry->line);
	writer_number_if(writer, "override_line", rules->override_line != 0,
	    rules->override_line);
	writer_truth(writer, "new", looked->is_new);
	writer_truth(writer, "known", looked->is_known);
	writer_truth(writer, "uncounted", is_uncounted(view, looked));
	writer_number_if(writer, "recipients_per_message", rules->per_message != 0,
	    rules->per_message);
	writer_text(writer, "action", entry->action == ACCOUNT_ACTION_REJECT ? "reject" :
	    "defer");
	writer_truth(writer, "observe", entry->observe != 0);
	writer_number(writer, "accepted", looked->account.accepted);
	writer_number(writer, "refused", looked->account.refused);
	writer_member(writer, "held_by", COLUMN_TEXT, value_toned_if(value_text(held_by == 0 ?
	    NULL : decision_id_text(held_by, id)), held_by != 0, TONE_BAD));
}

static const char *refusal_word(const struct generation_account *entry) {
	return entry->observe != 0 ? "accept (observe mode)" :
	    entry->action == ACCOUNT_ACTION_REJECT ? "550" : "450";
}

/* The verdict, and the limit that is in the way (NULL: none; `otherwise` is). */
static void write_verdict(struct writer *writer, const char *verdict,
    const struct quota_limit *limit, const struct quota_refusal *refusal, const char *otherwise,
    const char *undo) {
	bool over = refusal != NULL;
	char window[ACCOUNT_WINDOW_TEXT];

	writer_text(writer, "verdict", verdict);
	writer_number_if(writer, "used", over, over ? refusal->used : 0);
	writer_number_if(writer, "limit", over, over ? limit->most : 0);
	writer_text(writer, "what", over ? kind_words[limit->kind] : otherwise);
	writer_text(writer, "window", over ? account_window_text(limit->period_s, window) : NULL);
	writer_seconds(writer, "retry", !over || refusal->wait_ns == INT64_MAX ? value_unknown() :
	    value_number((uint64_t)((refusal->wait_ns + NS_PER_SECOND - 1) / NS_PER_SECOND)));
	writer_text(writer, "undo", undo);
}

/* What the next recipient would be answered. */
static void write_answer(const struct view *view, struct writer *writer, const char *login,
    struct limits_shown *shown) {
	const struct quota_amounts next = { { 1, 1, 1 } };
	struct looked *looked = shown->looked;
	struct quota_limit pool[GENERATION_QUOTAS_MAX];
	const struct generation_account *entry = looked->rules.account;
	unsigned count = generation_account_pool(view->generation, entry, pool, NULL);
	bool is_held = looked->account.held_by != 0;
	struct quota_refusal own, all;
	char command[COMMAND_MAX];
	/* what ends it, for a shell; NULL: no shell would read the login right */
	const char *undo = shell_command(is_held ? "resume account" : "forget account", login, "",
	    command, sizeof(command)) ? command : NULL;
	bool own_allows = quota_allows(looked->account.counters, GENERATION_QUOTA_COUNTERS,
	    looked->rules.limits, looked->rules.count, &next, looked->now_ns, &own);
	bool all_allow = quota_allows(shown->pool, GENERATION_QUOTA_COUNTERS, pool, count, &next,
	    looked->now_ns, &all);

	if (!is_held && own_allows && all_allow)
		write_verdict(writer, is_uncounted(view, looked) ? "accept (uncounted)" :
		    "accept", NULL, NULL, NULL, NULL);
	else if (is_held)
		write_verdict(writer, refusal_word(entry), NULL, NULL, "held", undo);
	/* the counts of all are not the login's to forget */
	else if (!all_allow && (own_allows || all.wait_ns > own.wait_ns))
		write_verdict(writer, refusal_word(entry), &pool[all.limit], &all, NULL, NULL);
	else
		write_verdict(writer, refusal_word(entry), &looked->rules.limits[own.limit], &own,
		    NULL, undo);
}

bool view_account_write(const struct view *view, struct writer *writer, const char *login,
    bool explain) {
	struct looked looked = { .now_ns = view->status.now_ns };
	struct limits_shown shown = { .view = view, .looked = &looked };
	size_t length = strlen(login);
	char folded[LOGIN_MAX];
	struct login_key key;

	if (login_fold(login, length, folded)) {
		key = login_key(folded, length);
		memcpy(looked.account.key, key.words, sizeof(key.words));
		looked.is_known = accounts_find(view->reader, &key, &looked.account);
	}
	find_rules(view, login, &looked);
	if (!looked.has_rules)
		return false;
	(void)accounts_pool(view->reader, generation_text(view->generation,
	    looked.rules.account->name), shown.pool);
	writer_object_begin(writer, NULL);
	write_account(view, writer, login, &looked);
	if (explain)
		write_answer(view, writer, login, &shown);
	else
		writer_table(writer, &(const struct table){ .name = "limits", .row = limit_row,
		    .rows = write_limits, .context = &shown });
	if (!explain)
		view_account_health_write(view, writer, looked.rules.account, &looked.account);
	writer_object_end(writer);
	return true;
}
