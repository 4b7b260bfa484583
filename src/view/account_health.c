/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What the mail of a login does, as posternctl account shows it.
 * MODEL    Out of the state, held against the settings in force.  Commands are those of the mail
 *          server that has the message; without one that is known there are none.
 * ERRORS   None.
 * THREADS  One.
 */
#include <string.h>

#include "base/clock.h"
#include "base/login.h"
#include "base/text.h"
#include "segment/account/account_health.h"
#include "view/accounts.h"

#define QUEUED_SHOWN	1000
#define COMMAND_MAX	512

/* A network alone is noted with the login. */
static uint32_t networks_of(const struct view *view, const struct health_limits *limits,
    const struct account *account, const struct health_counts *counts) {
	int64_t seen_s = (int64_t)value_since_ds(view, SEEN_DS(account->seen)).number;

	return counts->networks == 0 && account->network != 0 &&
	    seen_s < limits->networks_period_s ? 1 : counts->networks;
}

static void write_health(const struct view *view, struct writer *writer,
    const struct generation_account *entry, const struct account *account) {
	const struct login_key login = { { account->key[0], account->key[1] } };
	const struct health_limits *limits = &entry->health;
	struct health_counts counts = { .unknown = 0 };
	bool of_results = limits->unknown != 0, of_networks = limits->networks != 0;
	struct account_health health;
	uint32_t percent = 0;

	if (account_health_find(view->reader, &login, &health))
		counts = health_count(&health.health, limits, view->status.now_ns);
	if (counts.results > 0)
		percent = (uint32_t)(counts.failed * 100 / counts.results + 0.5);
	writer_number_if(writer, "unknown_recipients", of_results, counts.unknown);
	writer_number_if(writer, "unknown_limit", of_results, limits->unknown);
	writer_number_if(writer, "results", of_results, (uint32_t)(counts.results + 0.5));
	writer_number_if(writer, "failed", of_results, (uint32_t)(counts.failed + 0.5));
	writer_number_if(writer, "failed_percent", of_results, percent);
	writer_number_if(writer, "failed_percent_limit", of_results, limits->failed_percent);
	writer_number_if(writer, "networks", of_networks, networks_of(view, limits, account,
	    &counts));
	writer_number_if(writer, "networks_limit", of_networks, limits->networks);
}

/* --- messages ------------------------------------------------------------------------ */

struct queued_shown {
	const struct view *view;
	struct writer *writer;
	const struct account *account;
	unsigned count;
};

/* NULL: not known, as after it was renamed, or behind a filter with several mail servers. */
static const struct generation_mta *mta_of(const struct generation *g, uint32_t mta) {
	const char *only = generation_only_mta(g);

	if (mta == ACCOUNT_QUEUED_ANY && only != NULL)
		mta = account_queued_mta(only);
	for (unsigned i = 0; i < g->mta_count; i++)
		if (account_queued_mta(generation_text(g, g->mtas[i].name)) == mta)
			return &g->mtas[i];
	return NULL;
}

/* "postsuper -c DIRECTORY -h ID"; NULL: there is none, or it could act on the message of another
 * mail server. */
static const char *command_for(const struct generation *g, const struct generation_mta *mta,
    const char *id, bool removes, char out[COMMAND_MAX]) {
	const char *directory;
	size_t length = 0;

	/* "postsuper -d ALL" is another command */
	if ((mta == NULL && g->mta_count > 0) || strcmp(id, "ALL") == 0)
		return NULL;
	if (mta != NULL && mta->kind != MTA_POSTFIX) {
		if (removes)
			return NULL;
		(void)text_append(out, COMMAND_MAX, 0, "sendmail -Qpostern -qI%s", id);
		return out;
	}
	directory = mta == NULL ? "" : generation_text(g, mta->config_directory);
	length = text_append(out, COMMAND_MAX, length, "postsuper ");
	if (*directory != '\0' && strcmp(directory, "/etc/postfix") != 0)
		length = text_append(out, COMMAND_MAX, length, "-c %s ", directory);
	(void)text_append(out, COMMAND_MAX, length, "%s %s", removes ? "-d" : "-h", id);
	return out;
}

static void queued_row(void *context, struct writer *writer, const void *item) {
	const struct queued_shown *shown = context;
	const struct generation *g = shown->view->generation;
	const struct account_queued *queued = item;
	const struct generation_mta *mta = mta_of(g, queued->mta);
	char id[ACCOUNT_QUEUE_ID + 1], hold[COMMAND_MAX], removal[COMMAND_MAX];

	text_copy(id, sizeof(id), queued->queue_id, strnlen(queued->queue_id, ACCOUNT_QUEUE_ID));
	writer_text(writer, "queue_id", id);
	writer_seconds(writer, "age", value_since_ds(shown->view, SEEN_DS(queued->seen)));
	writer_number_if(writer, "recipients", queued->recipients != 0, queued->recipients);
	writer_text(writer, "hold", command_for(g, mta, id, false, hold));
	writer_text(writer, "remove", command_for(g, mta, id, true, removal));
}

static void write_queued(void *context, const void *entry) {
	const struct account_queued *queued = entry;
	struct queued_shown *shown = context;

	if (memcmp(queued->login, shown->account->key, sizeof(queued->login)) == 0 &&
	    shown->count++ < QUEUED_SHOWN)
		writer_row(shown->writer, queued);
}

static void queued_rows(void *context, struct writer *writer) {
	struct queued_shown *shown = context;

	(void)writer;
	shown->count = 0;
	(void)accounts_each(shown->view->reader, &account_queued_kind, write_queued, shown);
}

void view_account_health_write(const struct view *view, struct writer *writer,
    const struct generation_account *entry, const struct account *account) {
	struct queued_shown shown = { .view = view, .writer = writer, .account = account };

	if (entry->health.unknown == 0 && entry->health.networks == 0)
		return;
	write_health(view, writer, entry, account);
	if (entry->health_action != ACCOUNT_HEALTH_NONE)
		writer_table(writer, &(const struct table){ .name = "queued",
		    .row = queued_row, .rows = queued_rows, .context = &shown });
}
