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

/* Postfix sites that have no hints until posternctl postfix-lanes has read them again. */
static struct value sites_changed(const struct generation *generation) {
	uint64_t count = 0;

	if (generation == NULL)
		return value_unknown();
	for (uint32_t i = 0; i < generation->mta_count; i++)
		count += generation->mtas[i].transport == 0 &&
		    generation->mtas[i].site_changed != 0;
	return value_toned_if(value_number(count), count > 0, TONE_WARN);
}

static struct value observe_value(uint8_t observe) {
	return value_toned_if(value_truth(observe != 0), observe != 0, TONE_WARN);
}

static void write_summary(struct writer *writer, const struct view *view) {
	static const struct column columns[] = {
		{ "health", COLUMN_TEXT },
		{ "pid", COLUMN_NUMBER },
		{ "uptime", COLUMN_SECONDS },
		{ "heartbeat_age", COLUMN_SECONDS },
		{ "generation", COLUMN_NUMBER },
		{ "configuration", COLUMN_TEXT },
		{ "configuration_age", COLUMN_SECONDS },
		{ "state", COLUMN_TEXT },
		{ "state_age", COLUMN_SECONDS },
		{ "state_bytes", COLUMN_BYTES },
		{ "gate", COLUMN_TEXT },
		{ "gate_age", COLUMN_SECONDS },
		{ "queue", COLUMN_TEXT },
		{ "queue_away", COLUMN_SECONDS },
		{ "confined", COLUMN_TEXT },
		{ "cluster", COLUMN_TEXT },
		{ "cluster_age", COLUMN_SECONDS },
		{ "observe", COLUMN_TRUTH },
		{ "outbound_observe", COLUMN_TRUTH },
		{ "sites_changed", COLUMN_NUMBER },
		{ "unproven", COLUMN_NUMBER },
	};
	const struct reader_status *status = &view->status;
	const struct generation *g = view->generation;
	struct cluster_told told;
	bool whole = reader_cluster(view->reader, &told);
	const char *health = health_word(view);
	const struct value values[] = {
		value_toned(value_text(health),
		    strcmp(health, "live") == 0 ? TONE_GOOD : TONE_BAD),
		status->supervisor_pid > 0 ?
		    value_number((uint64_t)status->supervisor_pid) : value_unknown(),
		status->health == READER_LIVE ?
		    value_since(status->now_ns, status->started_ns) : value_unknown(),
		value_since(status->now_ns, status->heartbeat_ns),
		value_number(status->generation),
		value_text(g == NULL ? NULL : generation_text(g, g->file)),
		age_of(g),
		value_text(view->path),
		value_since(status->now_ns, status->created_ns),
		value_number(status->file_bytes),
		value_toned_if(value_text(status->gate_shut ? "shut" : "open"),
		    status->gate_shut, TONE_BAD),
		value_since(status->now_ns, status->gate_since_ns),
		value_toned_if(value_text(status_queue_word(view)), status->queue_away_ns != 0 ||
		    (g != NULL && generation_drive_is_refused(g)), TONE_BAD),
		value_since(status->now_ns, status->queue_away_ns),
		value_text(g == NULL || g->confined[0] == '\0' ? NULL : g->confined),
		view_cluster_state(view, &told),
		value_since(status->now_ns, told.since_ns),
		g == NULL ? value_unknown() : observe_value(g->observe),
		g == NULL ? value_unknown() : observe_value(g->outbound_observe),
		sites_changed(g),
		value_toned_if(value_number(status->unproven), status->unproven > 0, TONE_WARN),
	};

	(void)whole;
	writer_members(writer, columns, values, COUNT_OF(columns));
}

static void count_stopped(void *context, const struct destination_window *one) {
	static const char prefix[] = "class:";
	struct view_stopped *stopped = context;
	const struct window *window = &one->state.window;
	struct enforcement enforcement;
	bool stops = window->state == WINDOW_DEAD || window->state == WINDOW_HELD;
	bool is_class = strncmp(one->name, prefix, sizeof(prefix) - 1) == 0;

	if (!one->state.begun)
		return;
	stops = stops && window->until_ns > stopped->now_ns;
	if (stops) {
		enforcement = view_enforcement(stopped->view, one->name, one->mta_bits);
		if (enforcement.kind != ENFORCEMENT_APPLIED) {
			*(window->state == WINDOW_DEAD ? &stopped->would_suspend :
			    &stopped->would_hold) += 1;
			stopped->lacking = enforcement;
			return;
		}
	}
	if (!is_class && stops && window->state == WINDOW_DEAD) {
		(void)text_append(stopped->suspended_name, sizeof(stopped->suspended_name), 0,
		    "%s", one->name);
		stopped->suspended_event = one->event;
	}
	if (is_class)
		stopped->classes += stops;
	else if (stops && window->state == WINDOW_DEAD)
		stopped->suspended++;
	else if (stops)
		stopped->held++;
	else if (window->ceiling != 0)
		stopped->limited++;
	else
		stopped->open++;
}

struct view_stopped view_stopped(const struct view *view) {
	struct view_stopped stopped = { .now_ns = view->status.now_ns, .view = view,
		.lacking = view_enforcement(view, "", 0) };

	if (stopped.lacking.kind == ENFORCEMENT_APPLIED)
		stopped.recipients = view->status.recipients_used;
	else
		stopped.would_hold = view->status.recipients_used;
	if (stopped.would_hold == 0)
		stopped.lacking = (struct enforcement){ ENFORCEMENT_APPLIED, "" };
	(void)reader_windows(view->reader, count_stopped, &stopped);
	return stopped;
}

static struct value stopped_value(uint64_t count) {
	return value_toned_if(value_number(count), count > 0, TONE_WARN);
}

static void write_stopped(struct writer *writer, const struct view *view) {
	static const struct column columns[] = {
		{ "destinations_suspended", COLUMN_NUMBER },
		{ "destinations_held", COLUMN_NUMBER },
		{ "classes_held", COLUMN_NUMBER },
		{ "recipients_held", COLUMN_NUMBER },
		{ "would_suspend", COLUMN_NUMBER },
		{ "would_hold", COLUMN_NUMBER },
		{ "not_enforced", COLUMN_TEXT },
	};
	char text[ENFORCEMENT_TEXT_MAX];
	struct view_stopped stopped = view_stopped(view);

	writer_members(writer, columns, (const struct value[]){
		stopped_value(stopped.suspended), stopped_value(stopped.held),
		stopped_value(stopped.classes), stopped_value(stopped.recipients),
		value_number(stopped.would_suspend), value_number(stopped.would_hold),
		value_text(stopped.lacking.kind == ENFORCEMENT_APPLIED ? NULL : enforcement_text(
		    stopped.lacking.kind, stopped.lacking.mta, text)) },
	    COUNT_OF(columns));
}

enum observed { OBSERVE_CLASS, OBSERVE_CLIENT, OBSERVE_OUTBOUND };

/* Walks the classes whose observe switch is on. */
struct observing {
	const struct generation *generation;
	uint32_t next;
	unsigned which;		/* enum observed */
};

static const char *next_observing(void *context) {
	struct observing *walk = context;

	while (walk->generation != NULL && walk->next < walk->generation->class_count) {
		const struct generation_class *class =
		    generation_class(walk->generation, walk->next++);
		bool on = walk->which == OBSERVE_CLASS ? class->observe :
		    walk->which == OBSERVE_CLIENT ?
		    class->client_observe && class->has_client_limit :
		    class->outbound_observe;

		if (on)
			return generation_text(walk->generation, class->name);
	}
	return NULL;
}

static void write_observing(struct writer *writer, const struct view *view) {
	static const char *const names[] = {
		[OBSERVE_CLASS] = "observe_classes",
		[OBSERVE_CLIENT] = "observe_clients",
		[OBSERVE_OUTBOUND] = "observe_outbound",
	};

	for (unsigned i = 0; i < COUNT_OF(names); i++) {
		struct observing walk = { .generation = view->generation,
			.which = i };

		writer_strings(writer, names[i], next_observing, &walk);
	}
}

static void table_rows(void *context, struct writer *writer) {
	const struct reader_status *status = context;
	struct value rows[][3] = {
		{ value_text("sessions"), value_number(status->sessions_size),
		    value_number(status->sessions_used) },
		{ value_text("clients"), value_number(status->clients_size),
		    value_number(status->clients_used) },
		{ value_text("classes"), value_number(status->records_size),
		    value_number(status->records_used) },
		{ value_text("destinations"), value_number(status->destinations_size),
		    value_number(status->destinations_used) },
		{ value_text("relays"), value_number(status->relays_size),
		    value_number(status->relays_used) },
		{ value_text("flights"), value_number(status->flights_size),
		    value_number(status->flights_used) },
		{ value_text("recipients"), value_number(status->recipients_size),
		    value_number(status->recipients_used) },
		{ value_text("accounts"), value_number(status->accounts_size),
		    value_number(status->accounts_used) },
	};

	for (unsigned i = 0; i < COUNT_OF(rows); i++) {
		uint64_t size = rows[i][1].number, used = rows[i][2].number;

		/* there are no accounts */
		if (size == 0)
			continue;
		rows[i][2] = value_toned_if(rows[i][2], used > 0 && used * 10 >= size * 9,
		    used >= size ? TONE_BAD : TONE_WARN);
		writer_row(writer, rows[i]);
	}
}

static void write_tables(struct writer *writer, const struct reader_status *status) {
	static const struct column columns[] = {
		{ "table", COLUMN_TEXT },
		{ "size", COLUMN_NUMBER },
		{ "used", COLUMN_NUMBER },
	};

	writer_table(writer, "tables", columns, COUNT_OF(columns), table_rows,
	    (void *)(uintptr_t)status);
}

static const char *sandbox_words(uint32_t sandbox) {
	if ((sandbox & ROLE_SANDBOX_LOG) != 0)
		return "log";
	if ((sandbox & ROLE_SANDBOX_CALLS) == 0)
		return (sandbox & ROLE_SANDBOX_FILES) == 0 ? "none" : "files";
	return (sandbox & ROLE_SANDBOX_FILES) == 0 ? "calls" : "calls+files";
}

static void role_rows(void *context, struct writer *writer) {
	const struct view *view = context;
	int64_t now_ns = view->status.now_ns;
	struct reader_role role;
	char name[VIEW_ROLE_NAME_MAX];

	for (uint32_t i = 0; reader_role(view->reader, i, &role); i++) {
		bool away = role.pid <= 0;
		const struct value values[] = {
			value_toned_if(value_text(view_role_name(&role, name)), away, TONE_BAD),
			away ? value_unknown() : value_number((uint64_t)role.pid),
			away ? value_unknown() : value_since(now_ns, role.started_ns),
			/* its start is no heartbeat: it may have opened nothing yet */
			role.heartbeat_ns > role.started_ns ?
			    value_since(now_ns, role.heartbeat_ns) : value_unknown(),
			value_toned_if(value_number(role.restarts), role.restarts > 0, TONE_WARN),
			value_toned_if(value_number(role.generation),
			    health_role_is_behind(view, &role), TONE_BAD),
			away ? value_unknown() : value_text(sandbox_words(role.sandbox)),
		};

		writer_row(writer, values);
	}
}

static void write_roles(struct writer *writer, const struct view *view) {
	static const struct column columns[] = {
		{ "role", COLUMN_TEXT },
		{ "pid", COLUMN_NUMBER },
		{ "uptime", COLUMN_SECONDS },
		{ "heartbeat_age", COLUMN_SECONDS },
		{ "restarts", COLUMN_NUMBER },
		{ "generation", COLUMN_NUMBER },
		{ "sandbox", COLUMN_TEXT },
	};

	writer_table(writer, "roles", columns, COUNT_OF(columns), role_rows,
	    (void *)(uintptr_t)view);
}

/* The supervisor makes the directories, and logs why one cannot be made. */
static const char *journal_error(int error) {
	return error == ENOENT || error == ENOTDIR ?
	    "its directory is missing or cannot be created: see the log" : strerror(error);
}

static void journal_rows(void *context, struct writer *writer) {
	const struct reader_status *status = context;

	for (unsigned i = 0; i < JOURNAL_ROOMS; i++) {
		const struct reader_journal *journal = &status->journals[i];
		bool failed = journal->fares == JOURNAL_FARES_ILL;
		const struct value values[] = {
			value_text(generation_journal_word((enum journal_room)i)),
			value_toned_if(value_text(failed ? "failed" : "written"), failed,
			    TONE_BAD),
			value_text(failed ? journal_error(journal->error) : NULL),
			value_since(status->now_ns, journal->since_ns),
			value_number(journal->files),
			value_number(journal->bytes),
			value_number(journal->records),
			value_number(journal->syncs),
			value_toned_if(value_number(journal->lost), journal->lost > 0, TONE_WARN),
			i == JOURNAL_ROOM_QUEUE ? value_number(journal->messages) :
			    value_unknown(),
			i == JOURNAL_ROOM_QUEUE ? value_number(journal->waiting) :
			    value_unknown(),
		};

		if (journal->fares != JOURNAL_FARES_NONE)
			writer_row(writer, values);
	}
}

static void write_journal(struct writer *writer, const struct reader_status *status) {
	static const struct column columns[] = {
		{ "directory", COLUMN_TEXT },
		{ "state", COLUMN_TEXT },
		{ "error", COLUMN_TEXT },
		{ "age", COLUMN_SECONDS },
		{ "files", COLUMN_NUMBER },
		{ "bytes", COLUMN_BYTES },
		{ "records", COLUMN_NUMBER },
		{ "syncs", COLUMN_NUMBER },
		{ "lost", COLUMN_NUMBER },
		{ "messages", COLUMN_NUMBER },
		{ "waiting", COLUMN_NUMBER },
	};

	writer_table(writer, "journal", columns, COUNT_OF(columns), journal_rows,
	    (void *)(uintptr_t)status);
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
	static const struct column columns[COUNTER_COUNT] = {
#define COUNTER(symbol, name, text) { name, COLUMN_NUMBER },
#include "defs/counters.def"
#undef COUNTER
	};
	static const struct column others = { "others", COLUMN_NUMBER };
	unsigned shown = 0;

	writer_object_begin(writer, "counters");
	for (unsigned i = 0; i < COUNTER_COUNT; i++) {
		struct value value = value_toned_if(value_number(status->counters[i]),
		    status->counters[i] > 0 && is_bad_news((enum counter)i), TONE_WARN);

		if (!all && !writer->json && value.number == 0)
			continue;
		writer_members(writer, &columns[i], &value, 1);
		shown++;
	}
	if (shown < COUNTER_COUNT)
		writer_members(writer, &others, &(const struct value){ .known = true }, 1);
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
