/* SPDX-License-Identifier: ISC */
/* Metrics of accounts: of entries of the configuration, and of the few logins that matter most. */
#include "base/account_text.h"
#include "segment/account/accounts.h"
#include "view/accounts.h"
#include "view/metrics_internal.h"
#include "view/view.h"

#ifdef WITH_ACCOUNTS
static const char *const words[QUOTA_KINDS] = { [QUOTA_RECIPIENTS] = "recipients",
	[QUOTA_MESSAGES] = "messages", [QUOTA_KIB] = "kib" };

static void sample_limit(struct scrape *s, const char *of, const struct quota_limit *limit) {
	char window[ACCOUNT_WINDOW_TEXT];

	metrics_sample(s, "", (const char *const[]){ of, words[limit->kind % QUOTA_KINDS],
	    account_window_text(limit->period_s, window) }, 3);
}

static void write_group(struct scrape *s, const struct generation_account *entry, bool of_limit) {
	const struct generation *g = s->view->generation;
	const char *name = generation_text(g, entry->name);
	struct quota_counter counters[GENERATION_QUOTA_COUNTERS] = { { .key = 0 } };
	struct quota_limit limits[GENERATION_QUOTAS_MAX];
	unsigned count = generation_account_pool(g, entry, limits, NULL);

	if (count > 0)
		(void)accounts_pool(s->view->reader, name, counters);
	for (unsigned i = 0; i < count; i++) {
		const struct quota_counter *counter = quota_find(counters,
		    GENERATION_QUOTA_COUNTERS, &limits[i]);
		uint64_t used = counter == NULL ? 0 :
		    quota_used(counter, s->view->status.now_ns);

		sample_limit(s, name, &limits[i]);
		fprintf(s->out, "%llu\n", (unsigned long long)(of_limit ? limits[i].most : used));
	}
}

void metrics_account_groups(struct scrape *s, bool of_limit) {
	const struct generation *g = s->view->generation;

	for (uint32_t i = 0; g != NULL && i < g->accounts.count; i++)
		write_group(s, generation_account(g, i), of_limit);
}

/* Those that accounts_named allows, and no more. */
void metrics_account_names(struct scrape *s, bool of_share) {
	const struct view_accounts_top *top = view_accounts_top(s->view);

	for (unsigned i = 0; top != NULL && i < top->count &&
	     i < s->view->generation->accounts_named; i++) {
		const struct view_account_row *row = &top->rows[i];

		if (!of_share && row->is_held)
			metrics_number_of(s, row->login, 1);
		if (!of_share || row->limit.most == 0)
			continue;
		sample_limit(s, row->login, &row->limit);
		fprintf(s->out, "%.3f\n", (double)row->used / row->limit.most);
	}
}

void metrics_accounts_held(struct scrape *s) {
	const struct view_accounts_top *top = view_accounts_top(s->view);

	if (top != NULL)
		metrics_number_of(s, NULL, top->held);
}
#else
void metrics_account_groups(struct scrape *s, bool of_limit) {
	(void)s, (void)of_limit;
}

void metrics_account_names(struct scrape *s, bool of_share) {
	(void)s, (void)of_share;
}

void metrics_accounts_held(struct scrape *s) {
	(void)s;
}
#endif
