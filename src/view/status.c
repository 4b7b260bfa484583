/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The whole daemon at a glance: posternctl status.
 * MODEL    Everything but the observe settings and the file's name comes from the
 *          segment; those come from the published configuration.
 * THREADS  One.
 */
#include "view/status.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "view/cluster.h"
#include "view/destinations.h"
#include "view/health.h"
#include "view/status_mtas.h"
#include "view/verdict.h"

#define COUNT_OF(array)	(sizeof(array) / sizeof((array)[0]))

static struct value age_of(const struct generation *generation) {
	int64_t now_s = clock_wall_s();

	if (generation == NULL || generation->loaded_wall_s <= 0 ||
	    generation->loaded_wall_s > now_s)
		return value_unknown();
	return value_number((uint64_t)(now_s - generation->loaded_wall_s));
}

uint64_t view_sites_changed(const struct view *view) {
	const struct generation *g = view->generation;
	uint64_t count = 0;

	for (uint32_t i = 0; g != NULL && i < g->mta_count; i++)
		count += g->mtas[i].transport == 0 && g->mtas[i].site_changed != 0;
	return count;
}

static struct value observe_value(uint8_t observe) {
	return value_toned_if(value_truth(observe != 0), observe != 0, TONE_WARN);
}

static void write_summary(struct writer *writer, const struct view *view) {
	const struct reader_status *status = &view->status;
	const struct generation *g = view->generation;
	const char *health = health_word(view);
	struct cluster_told told;

	(void)reader_cluster(view->reader, &told);
	writer_member(writer, "health", COLUMN_TEXT, value_toned(value_text(health),
	    strcmp(health, "live") == 0 ? TONE_GOOD : TONE_BAD));
	writer_number_if(writer, "pid", status->supervisor_pid > 0,
	    (uint64_t)status->supervisor_pid);
	writer_seconds(writer, "uptime", value_since(status->now_ns, status->health ==
	    READER_LIVE ? status->started_ns : 0));
	writer_seconds(writer, "heartbeat_age", value_since(status->now_ns,
	    status->heartbeat_ns));
	writer_number(writer, "generation", status->generation);
	writer_text(writer, "configuration", g == NULL ? NULL : generation_text(g, g->file));
	writer_seconds(writer, "configuration_age", age_of(g));
	writer_text(writer, "state", view->path);
	writer_seconds(writer, "state_age", value_since(status->now_ns, status->created_ns));
	writer_member(writer, "state_bytes", COLUMN_BYTES, value_number(status->file_bytes));
	writer_member(writer, "gate", COLUMN_TEXT, value_toned_if(value_text(status->gate_shut ?
	    "shut" : "open"), status->gate_shut, TONE_BAD));
	writer_seconds(writer, "gate_age", value_since(status->now_ns, status->gate_since_ns));
	writer_member(writer, "queue", COLUMN_TEXT, value_toned_if(value_text(
	    status_queue_word(view)), status->queue_away_ns != 0 ||
	    (g != NULL && generation_drive_is_refused(g)), TONE_BAD));
	writer_seconds(writer, "queue_away", value_since(status->now_ns,
	    status->queue_away_ns));
	writer_text(writer, "confined", g == NULL || g->confined[0] == '\0' ? NULL :
	    g->confined);
	writer_member(writer, "cluster", COLUMN_TEXT, view_cluster_state(view, &told));
	writer_seconds(writer, "cluster_age", value_since(status->now_ns, told.since_ns));
	writer_member(writer, "observe", COLUMN_TRUTH, g == NULL ? value_unknown() :
	    observe_value(g->observe));
	writer_member(writer, "outbound_observe", COLUMN_TRUTH, g == NULL ? value_unknown() :
	    observe_value(g->outbound_observe));
	writer_member(writer, "sites_changed", COLUMN_NUMBER, value_toned_if(value_number_if(
	    g != NULL, view_sites_changed(view)), view_sites_changed(view) > 0, TONE_WARN));
	writer_member(writer, "unproven", COLUMN_NUMBER, value_counted(status->unproven));
}

static void write_stopped(struct writer *writer, const struct view *view) {
	struct view_stopped stopped = view_stopped(view);
	char text[ENFORCEMENT_TEXT_MAX];

	writer_member(writer, "destinations_suspended", COLUMN_NUMBER,
	    value_counted(stopped.suspended));
	writer_member(writer, "destinations_held", COLUMN_NUMBER, value_counted(stopped.held));
	writer_member(writer, "classes_held", COLUMN_NUMBER, value_counted(stopped.classes));
	writer_member(writer, "recipients_held", COLUMN_NUMBER,
	    value_counted(stopped.recipients));
	writer_number(writer, "would_suspend", stopped.would_suspend);
	writer_number(writer, "would_hold", stopped.would_hold);
	writer_text(writer, "not_enforced", stopped.lacking.kind == ENFORCEMENT_APPLIED ? NULL :
	    enforcement_text(stopped.lacking.kind, stopped.lacking.mta, text));
}

/* The classes whose observe switch is on. */
static void write_observing(struct writer *writer, const struct view *view) {
	static const char *const names[] = { "observe_classes", "observe_clients",
		"observe_outbound" };
	const struct generation *g = view->generation;

	for (unsigned which = 0; which < COUNT_OF(names); which++) {
		writer_values_begin(writer, names[which]);
		for (uint32_t i = 0; g != NULL && i < g->class_count; i++) {
			const struct generation_class *class = generation_class(g, i);
			const bool on[] = { class->observe != 0,
				class->client_observe && class->has_client_limit,
				class->outbound_observe != 0 };

			if (on[which])
				writer_value(writer, COLUMN_TEXT,
				    value_text(generation_text(g, class->name)));
		}
		writer_values_end(writer);
	}
}

unsigned view_tables(const struct reader_status *status, struct view_table out[VIEW_TABLES]) {
	const struct view_table tables[VIEW_TABLES] = {
		{ "sessions", status->sessions_size, status->sessions_used },
		{ "clients", status->clients_size, status->clients_used },
		{ "classes", status->records_size, status->records_used },
		{ "destinations", status->destinations_size, status->destinations_used },
		{ "relays", status->relays_size, status->relays_used },
		{ "flights", status->flights_size, status->flights_used },
		{ "recipients", status->recipients_size, status->recipients_used },
		{ "accounts", status->accounts_size, status->accounts_used },
	};

	memcpy(out, tables, sizeof(tables));
	return VIEW_TABLES - (status->accounts_size == 0);
}

static void table_row(void *context, struct writer *writer, const void *item) {
	const struct view_table *table = item;

	(void)context;
	writer_text(writer, "table", table->name);
	writer_number(writer, "size", table->size);
	writer_member(writer, "used", COLUMN_NUMBER, value_toned_if(value_number(table->used),
	    table->used > 0 && table->used * 10 >= table->size * 9,
	    table->used >= table->size ? TONE_BAD : TONE_WARN));
}

static void write_tables(struct writer *writer, const struct reader_status *status) {
	struct view_table tables[VIEW_TABLES];
	unsigned count = view_tables(status, tables);

	writer_table(writer, &(const struct table){ .name = "tables", .row = table_row,
	    .items = tables, .count = count, .each = sizeof(tables[0]) });
}

static const char *sandbox_words(uint32_t sandbox) {
	if ((sandbox & ROLE_SANDBOX_LOG) != 0)
		return "log";
	if ((sandbox & ROLE_SANDBOX_CALLS) == 0)
		return (sandbox & ROLE_SANDBOX_FILES) == 0 ? "none" : "files";
	return (sandbox & ROLE_SANDBOX_FILES) == 0 ? "calls" : "calls+files";
}

static void role_row(void *context, struct writer *writer, const void *item) {
	const struct view *view = context;
	const struct reader_role *role = item;
	int64_t now_ns = view->status.now_ns;
	bool away = role->pid <= 0;
	char name[VIEW_ROLE_NAME_MAX];

	writer_member(writer, "role", COLUMN_TEXT, value_toned_if(value_text(view_role_name(role,
	    name)), away, TONE_BAD));
	writer_number_if(writer, "pid", !away, (uint64_t)role->pid);
	writer_seconds(writer, "uptime", away ? value_unknown() : value_since(now_ns,
	    role->started_ns));
	/* its start is no heartbeat: it may have opened nothing yet */
	writer_seconds(writer, "heartbeat_age", value_since(now_ns, role->heartbeat_ns >
	    role->started_ns ? role->heartbeat_ns : 0));
	writer_member(writer, "restarts", COLUMN_NUMBER, value_counted(role->restarts));
	writer_member(writer, "generation", COLUMN_NUMBER, value_toned_if(value_number(
	    role->generation), health_role_is_behind(view, role), TONE_BAD));
	writer_text(writer, "sandbox", away ? NULL : sandbox_words(role->sandbox));
}

unsigned view_roles(const struct view *view, struct reader_role out[SEGMENT_ROLES_MAX]) {
	unsigned count = 0;

	while (count < SEGMENT_ROLES_MAX && reader_role(view->reader, count, &out[count]))
		count++;
	return count;
}

static void write_roles(struct writer *writer, const struct view *view) {
	struct reader_role roles[SEGMENT_ROLES_MAX];
	unsigned count = view_roles(view, roles);

	writer_table(writer, &(const struct table){ .name = "roles", .row = role_row,
	    .context = (void *)(uintptr_t)view, .items = roles, .count = count,
	    .each = sizeof(roles[0]) });
}

/* The supervisor makes the directories, and logs why one cannot be made. */
static const char *journal_error(int error) {
	return error == ENOENT || error == ENOTDIR ?
	    "its directory is missing or cannot be created: see the log" : strerror(error);
}

static void journal_row(void *context, struct writer *writer, const void *item) {
	const struct reader_status *status = context;
	unsigned number = *(const unsigned *)item;
	const struct reader_journal *journal = &status->journals[number];
	bool failed = journal->fares == JOURNAL_FARES_ILL, of_queue = number == JOURNAL_ROOM_QUEUE;

	writer_text(writer, "directory", generation_journal_word((enum journal_room)number));
	writer_member(writer, "state", COLUMN_TEXT, value_toned_if(value_text(failed ? "failed" :
	    "written"), failed, TONE_BAD));
	writer_text(writer, "error", failed ? journal_error(journal->error) : NULL);
	writer_seconds(writer, "age", value_since(status->now_ns, journal->since_ns));
	writer_number(writer, "files", journal->files);
	writer_member(writer, "bytes", COLUMN_BYTES, value_number(journal->bytes));
	writer_number(writer, "records", journal->records);
	writer_number(writer, "syncs", journal->syncs);
	writer_member(writer, "lost", COLUMN_NUMBER, value_counted(journal->lost));
	writer_number_if(writer, "messages", of_queue, journal->messages);
	writer_number_if(writer, "waiting", of_queue, journal->waiting);
}

static void journal_rows(void *context, struct writer *writer) {
	const struct reader_status *status = context;

	for (unsigned i = 0; i < JOURNAL_ROOMS; i++)
		if (status->journals[i].fares != JOURNAL_FARES_NONE)
			writer_row(writer, &i);
}

static void write_journal(struct writer *writer, const struct reader_status *status) {
	writer_table(writer, &(const struct table){ .name = "journal", .row = journal_row,
	    .rows = journal_rows, .context = (void *)(uintptr_t)status });
}

/* Counters of what should not be. */
static bool is_bad_news(enum counter counter) {
	switch (counter) {
	case COUNTER_FAULTS: case COUNTER_UNTRACKED: case COUNTER_REPAIRS:
	case COUNTER_ROLE_RESTARTS: case COUNTER_RELOADS_REFUSED: case COUNTER_NOTES_LOST:
	case COUNTER_BAD_POLICY_REQUESTS: case COUNTER_BAD_MAP_REQUESTS:
	case COUNTER_BAD_CONTROL_FRAMES: case COUNTER_WITNESS_ERRORS: case COUNTER_FEED_LOST:
	case COUNTER_FEED_WRONG_CLOCKS: case COUNTER_ALERT_FAILURES:
	case COUNTER_QUEUE_FILES_BAD: case COUNTER_JOURNAL_FAILURES: case COUNTER_JOURNAL_LOST:
	case COUNTER_JOURNAL_DAMAGED: case COUNTER_CLUSTER_ERRORS:
		return true;
	default:
		return false;
	}
}

/* For people those that have counted anything, unless they want all. */
static void write_counters(struct writer *writer, const struct reader_status *status,
    bool all) {
	static const char *const names[COUNTER_COUNT] = {
#define COUNTER(symbol, name, text) name,
#include "defs/counters.def"
#undef COUNTER
	};
	bool others = false;

	writer_object_begin(writer, "counters");
	for (unsigned i = 0; i < COUNTER_COUNT; i++) {
		uint64_t count = status->counters[i];

		if (!all && !writer->json && count == 0)
			others = true;
		else
			writer_member(writer, names[i], COLUMN_NUMBER,
			    is_bad_news((enum counter)i) ? value_counted(count) :
			    value_number(count));
	}
	if (others)
		writer_number(writer, "others", 0);
	writer_object_end(writer);
}

void view_status_write(struct view *view, struct writer *writer, bool all) {
	struct view_verdict verdict;

	view_verdict(view, &verdict);
	writer_object_begin(writer, NULL);
	view_verdict_write(&verdict, writer);
	write_summary(writer, view);
	write_observing(writer, view);
	write_stopped(writer, view);
	status_mtas_write(writer, view);
	write_tables(writer, &view->status);
	write_roles(writer, view);
	write_journal(writer, &view->status);
	write_counters(writer, &view->status, all);
	writer_object_end(writer);
}
