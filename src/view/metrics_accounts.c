/* SPDX-License-Identifier: ISC */
/* Metrics of accounts: of entries of the configuration, and of the few logins that matter most. */
#include "base/account_text.h"
#include "view/accounts.h"
#include "view/metrics_internal.h"
#include "view/view.h"

#ifdef WITH_ACCOUNTS
static const char *const words[QUOTA_KINDS] = { [QUOTA_RECIPIENTS] = "recipients",
	[QUOTA_MESSAGES] = "messages", [QUOTA_KIB] = "kib" };

static void write_group(struct scrape *s, const struct generation_account *entry, bool of_limit) {
	const struct generation *g = s->view->generation;
	struct quota_counter counters[GENERATION_QUOTA_COUNTERS] = { { .key = 0 } };
	struct quota_limit limits[GENERATION_QUOTAS_MAX];
	unsigned count = generation_account_pool(g, entry, limits);

	if (count > 0)
		(void)reader_account_pool(s->view->reader, generation_text(g, entry->name), counters);
	for (unsigned i = 0; i < count; i++) {
		const struct quota_counter *counter = quota_find(counters,
		    GENERATION_QUOTA_COUNTERS, &limits[i]);
		char window[ACCOUNT_WINDOW_TEXT];
		const struct label labels[] = {
			{ "account", generation_text(g, entry->name) },
			{ "what", words[limits[i].kind % QUOTA_KINDS] },
			{ "window", account_window_text(limits[i].period_s, window) } };
		uint64_t used = counter == NULL ? 0 :
		    quota_used(counter, scrape_status(s)->now_ns);

		metrics_sample(s, "", labels, 3);
		fprintf(s->out, "%llu\n", (unsigned long long)(of_limit ? limits[i].most : used));
	}
}

static void write_groups(struct scrape *s, bool of_limit) {
	const struct generation *g = s->view->generation;

	for (uint32_t i = 0; g != NULL && i < g->accounts.count; i++)
		write_group(s, generation_account(g, i), of_limit);
}

/* Those that accounts_named allows, and no more. */
static void write_named(struct scrape *s, void (*write)(struct scrape *s,
    const struct view_account_row *row)) {
	const struct view_accounts_top *top = view_accounts_top(s->view);

	for (unsigned i = 0; top != NULL && i < top->count &&
	     i < s->view->generation->accounts_named; i++)
		write(s, &top->rows[i]);
}

static void write_share(struct scrape *s, const struct view_account_row *row) {
	char window[ACCOUNT_WINDOW_TEXT];
	const struct label labels[] = { { "login", row->login },
		{ "what", words[row->limit.kind % QUOTA_KINDS] },
		{ "window", account_window_text(row->limit.period_s, window) } };

	if (row->limit.most == 0)
		return;
	metrics_sample(s, "", labels, 3);
	fprintf(s->out, "%.3f\n", (double)row->used / row->limit.most);
}

static void write_held(struct scrape *s, const struct view_account_row *row) {
	if (row->is_held)
		metrics_number_of(s, "login", row->login, 1);
}
#endif

void metric_ACCOUNTS_HELD_NOW(struct scrape *s) {
#ifdef WITH_ACCOUNTS
	const struct view_accounts_top *top = view_accounts_top(s->view);

	if (top != NULL)
		metrics_number(s, top->held);
#else
	(void)s;
#endif
}

void metric_ACCOUNT_USED_RATIO(struct scrape *s) {
#ifdef WITH_ACCOUNTS
	write_named(s, write_share);
#else
	(void)s;
#endif
}

void metric_ACCOUNT_HELD(struct scrape *s) {
#ifdef WITH_ACCOUNTS
	write_named(s, write_held);
#else
	(void)s;
#endif
}

void metric_ACCOUNTS(struct scrape *s) {
	if (scrape_status(s)->accounts_size > 0)
		metrics_number(s, scrape_status(s)->accounts_used);
}

void metric_ACCOUNT_GROUP_USED(struct scrape *s) {
#ifdef WITH_ACCOUNTS
	write_groups(s, false);
#else
	(void)s;
#endif
}

void metric_ACCOUNT_GROUP_LIMIT(struct scrape *s) {
#ifdef WITH_ACCOUNTS
	write_groups(s, true);
#else
	(void)s;
#endif
}
