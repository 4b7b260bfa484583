/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  All about one thing.
 * MODEL    Rows are those of the lists; what binds is the limit that the next session or
 *          delivery would meet first.
 * ERRORS   What is not there: false.
 * THREADS  One.
 */
#include "view/detail.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/decision_id.h"
#include "base/text.h"
#include "view/classes.h"
#include "view/decided_line.h"
#include "view/destination_page.h"
#include "view/shell_word.h"

#define COUNT_OF(array)	(sizeof(array) / sizeof((array)[0]))
#define COMMANDS_MOST	6
#define COMMAND_MAX	512
#define SESSIONS_SHOWN	50
#define CAUSES_SHOWN	30

/* --- commands ------------------------------------------------------------------------------ */

struct commands {
	char list[COMMANDS_MOST][COMMAND_MAX];
	unsigned count;
};

/* A name that no shell takes as it is has no command. */
static void add_command(struct commands *commands, const char *verb, const char *name,
    const char *options) {
	if (commands->count < COMMANDS_MOST && shell_command(verb, name, options,
	    commands->list[commands->count], COMMAND_MAX))
		commands->count++;
}

static void write_commands(struct writer *writer, const struct commands *commands) {
	writer_values_begin(writer, "commands");
	for (unsigned i = 0; i < commands->count; i++)
		writer_value(writer, COLUMN_TEXT, value_text(commands->list[i]));
	writer_values_end(writer);
}

/* --- limits ----------------------------------------------------------------------------------- */

struct limit_row {
	const char *limit;
	char value[96];
	const char *file;
	uint32_t line;
};

struct limit_list {
	struct limit_row rows[16];
	unsigned count;
};

static void limit_row(void *context, struct writer *writer, const void *item) {
	const struct limit_row *row = item;

	(void)context;
	writer_text(writer, "limit", row->limit);
	writer_text(writer, "value", row->value);
	writer_text(writer, "file", row->line == 0 ? NULL : row->file);
	writer_number_if(writer, "line", row->line != 0, row->line);
}

static void write_limits(struct writer *writer, const struct limit_list *list) {
	writer_table(writer, &(const struct table){ .name = "limits", .row = limit_row,
	    .items = list->rows, .count = list->count, .each = sizeof(list->rows[0]) });
}

static void add_limit(struct limit_list *list, const char *limit, const char *file,
    uint32_t line, const char *format, ...) __attribute__((format(printf, 5, 6)));

static void add_limit(struct limit_list *list, const char *limit, const char *file,
    uint32_t line, const char *format, ...) {
	struct limit_row *row = &list->rows[list->count < COUNT_OF(list->rows) ? list->count++ :
	    COUNT_OF(list->rows) - 1];
	va_list arguments;

	*row = (struct limit_row){ .limit = limit, .file = file, .line = line };
	va_start(arguments, format);
	(void)vsnprintf(row->value, sizeof(row->value), format, arguments);
	va_end(arguments);
}

/* --- a class ------------------------------------------------------------------------------------ */

static const char *limit_text(uint32_t limit, char out[32]) {
	(void)snprintf(out, 32, "%u", limit);
	return limit == LIMIT_NONE ? NULL : out;
}

static const char *rate_text(const struct rate_limit *rate, char out[32]) {
	(void)snprintf(out, 32, "%u in %" PRId64 " s", (unsigned)rate->count,
	    rate->period_ns / NS_PER_SECOND);
	return rate->period_ns > 0 ? out : NULL;
}

static void class_limits_write(const struct generation *g,
    const struct generation_class *class, struct writer *writer) {
	const struct limits *limits = &class->limits;
	char texts[5][32];
	const struct {
		const char *name;
		enum generation_class_place place;
		const char *value;	/* NULL: there is none */
	} all[] = {
		{ "hold_at", CLASS_AT_SESSIONS, limit_text(limits->sessions, texts[0]) },
		{ "refuse_at", CLASS_AT_INBOUND, limit_text(limits->inbound, texts[1]) },
		{ "rate", CLASS_AT_RATE, rate_text(&limits->rate, texts[2]) },
		{ "client.sessions", CLASS_AT_CLIENT_SESSIONS,
		    limit_text(limits->client_sessions, texts[3]) },
		{ "client.rate", CLASS_AT_CLIENT_RATE, rate_text(&limits->client_rate, texts[4]) },
		{ "observe", CLASS_AT_OBSERVE, class->observe ? "true" : NULL },
	};
	struct limit_list list = { .count = 0 };

	for (size_t i = 0; i < COUNT_OF(all); i++) {
		const struct generation_place *place = &class->places[all[i].place];

		if (all[i].value != NULL)
			add_limit(&list, all[i].name, generation_text(g, place->file), place->line,
			    "%s", all[i].value);
	}
	add_limit(&list, "(class)", generation_text(g, class->file), class->line, "written here");
	write_limits(writer, &list);
}

static void say_class_binds(const struct reader_class *class, char *out, size_t size) {
	const char *would = class->observe ? " (observe mode: it is let in)" : "";

	if (class->inbound != LIMIT_NONE && class->open >= class->inbound)
		(void)text_append(out, size, 0, "refuse_at: %u of %u sessions are open; the next "
		    "client is refused%s", class->open, class->inbound, would);
	else if (class->sessions != LIMIT_NONE && class->open >= class->sessions)
		(void)text_append(out, size, 0, "hold_at: %u of %u sessions are open; outbound mail "
		    "waits", class->open, class->sessions);
	else if (class->refusing > 0)
		(void)text_append(out, size, 0, "a rate or a limit of single clients: see the "
		    "decisions");
	else if (class->inbound != LIMIT_NONE)
		(void)text_append(out, size, 0, "nothing: %u more inbound sessions fit",
		    class->inbound - class->open);
	else
		(void)text_append(out, size, 0, "nothing");
}

bool detail_class_write(const struct view *view, const char *name, struct writer *writer) {
	const struct generation *g = view->generation;
	uint32_t class = g == NULL ? UINT32_MAX : generation_find_class(g, name);
	struct reader_class found;
	struct commands commands = { .count = 0 };
	char binds[160];

	if (class == UINT32_MAX || !view_class_find(view, name, &found) || found.removed)
		return false;
	say_class_binds(&found, binds, sizeof(binds));
	add_command(&commands, "sessions --class", name, "");
	add_command(&commands, "tail --class", name, "");
	add_command(&commands, "history --class", name, " --since 24h");
	add_command(&commands, "hold --class", name, " --for 1h");
	writer_object_begin(writer, NULL);
	writer_text(writer, "name", name);
	writer_text(writer, "binds", binds);
	class_limits_write(g, generation_class(g, class), writer);
	write_commands(writer, &commands);
	writer_object_end(writer);
	return true;
}

/* --- a destination ------------------------------------------------------------------------------- */

struct destination_search {
	const char *name;
	struct destination_window window;
	bool found;
};

static void look_at_window(void *context, const struct destination_window *one) {
	struct destination_search *search = context;

	if (strcmp(one->name, search->name) == 0) {
		search->window = *one;
		search->found = true;
	}
}

static void take_shown(void *context, const struct view_destination *one) {
	*(struct view_destination *)context = *one;
}

static void say_destination_binds(const struct view_destination *one, char *out,
    size_t size) {
	bool stops = view_destination_stops(one);
	char why[ENFORCEMENT_TEXT_MAX];

	if (stops && one->enforcement.kind != ENFORCEMENT_APPLIED)
		(void)text_append(out, size, 0, "nothing: %s (%s)", view_destination_effect(one),
		    enforcement_text(one->enforcement.kind, one->enforcement.mta, why));
	else if (stops)
		(void)text_append(out, size, 0, "%s%s%s", view_destination_effect(one),
		    one->by == DECIDED_BY_NOBODY ? "" : " by ", one->by == DECIDED_BY_RULE ?
		    "a provider rule" : one->by == DECIDED_BY_HAND_OF ? "an administrator" :
		    one->by == DECIDED_BY_OTHERS ? "another node" :
		    one->by == DECIDED_BY_COHORTS ? "too many failures in a row" : "");
	else if (!one->has_window)
		(void)text_append(out, size, 0, "nothing");
	else if (one->in_flight < one->window)
		(void)text_append(out, size, 0, "nothing: %u more deliveries may start",
		    one->window - one->in_flight);
	else
		(void)text_append(out, size, 0, "%s: %u of %u deliveries run",
		    one->share != UINT32_MAX && one->share <= one->window ?
		    "this node's share" : one->ceiling == 0 || one->ceiling > one->window ?
		    "the window" : one->ceiling_slow ?
		    "the ceiling, above which deliveries are slow" : "the ceiling",
		    one->in_flight, one->window);
}

static void add_settings(const struct generation *g, const struct destination_window *one,
    struct limit_list *list) {
	struct generation_window_source sources[GENERATION_WINDOW_SOURCES];
	unsigned mta = generation_window_mta(g, one->name, strlen(one->name), one->mta_bits);
	uint32_t provider = generation_window_provider(g, one->name);
	unsigned count = generation_window_sources(g, mta, one->name, strlen(one->name),
	    provider, sources);
	struct window_settings settings;

	(void)generation_window_settings(g, mta, one->name, strlen(one->name), provider,
	    &settings);
	add_limit(list, "window.law", "", 0, "%s", window_law_word(settings.law));
	add_limit(list, "window.initial", "", 0, "%u", settings.initial);
	if (settings.limit != 0)
		add_limit(list, "window.limit", "", 0, "%u", settings.limit);
	for (unsigned i = 0; i < count; i++)
		add_limit(list, "(settings)", sources[i].file, sources[i].line, "%s",
		    sources[i].line == 0 ? "defaults" : sources[i].what);
}

/* Its row is on the page already. */
static void destination_write(const struct view *view, const struct destination_window *one,
    struct writer *writer) {
	const struct view_choice none = { .no_recipients = true };
	struct view_destinations all = { .view = view, .windows = {
		.list = (char *)(uintptr_t)one, .each = sizeof(*one), .count = 1,
		.choice = &none } };
	struct view_destination shown = { .name = "" };
	struct commands commands = { .count = 0 };
	struct limit_list list = { .count = 0 };
	char binds[256], id[DECISION_ID_MAX];
	bool stops;

	view_destinations_each(&all, take_shown, &shown);
	stops = view_destination_stops(&shown);
	say_destination_binds(&shown, binds, sizeof(binds));
	if (view->generation != NULL)
		add_settings(view->generation, one, &list);
	if (stops && one->event != 0)
		add_command(&commands, "why", decision_id_text(one->event, id), "");
	add_command(&commands, "explain destination", one->name, "");
	if (stops)
		add_command(&commands, "resume", one->name, "");
	else
		add_command(&commands, "suspend", one->name, " --for 1h");
	add_command(&commands, "history", one->name, " --since 24h");
	writer_object_begin(writer, NULL);
	writer_text(writer, "name", one->name);
	writer_text(writer, "effect", shown.begun ? view_destination_effect(&shown) : NULL);
	writer_text(writer, "binds", binds);
	writer_text(writer, "id", stops && one->event != 0 ? decision_id_text(one->event, id) :
	    NULL);
	write_limits(writer, &list);
	write_commands(writer, &commands);
	writer_object_end(writer);
}

bool detail_destination_write(const struct view *view, const char *name,
    struct writer *writer) {
	struct destination_search search = { .name = name };

	if (strncmp(name, "class:", 6) != 0)
		(void)states_each(view->reader, look_at_window, &search);
	if (search.found)
		destination_write(view, &search.window, writer);
	return search.found;
}

/* --- a client ------------------------------------------------------------------------------------- */

struct client_search {
	struct address address;
	struct session list[SESSIONS_SHOWN];
	size_t count;
	uint64_t found;
};

static void look_at_session(void *context, const struct session *session) {
	struct client_search *search = context;

	if (session->control.direction != SESSION_INBOUND ||
	    memcmp(&session->client, &search->address, sizeof(search->address)) != 0)
		return;
	search->found++;
	if (search->count < SESSIONS_SHOWN)
		search->list[search->count++] = *session;
}

static void session_row(void *context, struct writer *writer, const void *item) {
	static const char *const states[SESSION_STATES] = { "free", "open", "deferred",
		"uncounted", "refused" };
	const struct view *view = context;
	const struct session *one = item;
	char name[SEGMENT_NAME_MAX + 1];

	writer_text(writer, "class", reader_class_name(view->reader, one->control.class_record,
	    name));
	writer_text(writer, "state", one->control.state < SESSION_STATES ?
	    states[one->control.state] : NULL);
	writer_number(writer, "client_port", one->client_port);
	writer_number(writer, "port", one->server_port);
	writer_seconds(writer, "age", value_since(view->status.now_ns, view->status.created_ns +
	    one->opened_ds * (NS_PER_SECOND / 10)));
}

bool detail_client_write(const struct view *view, const char *address,
    struct writer *writer) {
	struct client_search *search = calloc(1, sizeof(*search));
	struct commands commands = { .count = 0 };

	if (search == NULL || !address_parse(address, strlen(address), &search->address)) {
		free(search);
		return false;
	}
	(void)reader_sessions(view->reader, look_at_session, search);
	add_command(&commands, "explain session", address, "");
	add_command(&commands, "tail --address", address, "");
	writer_object_begin(writer, NULL);
	writer_text(writer, "name", address);
	writer_number(writer, "sessions_found", search->found);
	writer_table(writer, &(const struct table){ .name = "sessions", .row = session_row,
	    .context = (void *)(uintptr_t)view, .items = search->list, .count = search->count,
	    .each = sizeof(search->list[0]) });
	write_commands(writer, &commands);
	writer_object_end(writer);
	free(search);
	return true;
}

/* --- a decision ---------------------------------------------------------------------------------- */

struct decision_search {
	uint64_t id;
	struct history_change found;
	bool is_found;
};

static void look_at_change(void *context, const struct history_change *change) {
	struct decision_search *search = context;

	if (change->decided.id != search->id)
		return;
	search->found = *change;
	search->is_found = true;
}

static bool find_decision(const struct view *view, struct history *history, uint64_t id,
    struct decision_search *out) {
	int64_t now_ns, wall_ns;

	*out = (struct decision_search){ .id = id };
	clock_pair(&now_ns, &wall_ns);
	out->is_found = decisions_find(view->reader, id, &out->found.decided);
	if (out->is_found)
		out->found.wall_ns = wall_ns - (now_ns - out->found.decided.at_ns);
	else if (history != NULL)
		history_changes(history, look_at_change, out);
	return out->is_found && (out->found.decided.flags & DECIDED_IS_RECIPIENT) == 0;
}

struct causes {
	const struct view *view;
	struct history *history;
	uint64_t first;
};

/* The last one first. */
static void cause_rows(void *context, struct writer *writer) {
	const struct causes *causes = context;
	struct decision_search search;
	uint64_t id = causes->first;

	for (unsigned i = 0; i < CAUSES_SHOWN && id != 0 &&
	     find_decision(causes->view, causes->history, id, &search); i++) {
		view_decided_row(writer, &search.found.decided, search.found.wall_ns);
		/* each is older: no ring of them, whoever wrote them */
		if (search.found.decided.cause >= id && search.found.decided.cause % DECIDED_RINGS ==
		    id % DECIDED_RINGS)
			break;
		id = search.found.decided.cause;
	}
}

static void decision_commands(const struct decided *d, const char *id,
    struct commands *commands) {
	const char *name = decided_text(d, DECIDED_NAME);
	bool is_class = (d->flags & DECIDED_IS_CLASS) != 0;

	add_command(commands, "why", id, "");
	if (d->kind == DECIDED_SUSPENDED)
		add_command(commands, "resume", name, "");
	if (d->kind == DECIDED_BY_HAND && *name != '\0')
		add_command(commands, is_class ? "resume --class" : "resume", name, "");
	if (decided_text(d, DECIDED_WINDOW_OF)[0] != '\0')
		add_command(commands, "explain destination", decided_text(d, DECIDED_WINDOW_OF),
		    "");
	if (decided_text(d, DECIDED_CLASS)[0] != '\0')
		add_command(commands, "sessions --class", decided_text(d, DECIDED_CLASS), "");
}

bool detail_decision_write(const struct view *view, struct history *history, const char *id,
    struct writer *writer) {
	struct decision_search search;
	struct commands commands = { .count = 0 };
	struct causes causes = { view, history, 0 };
	uint64_t number;

	if (!decision_id_parse(id, strlen(id), &number) ||
	    !find_decision(view, history, number, &search))
		return false;
	causes.first = search.found.decided.cause;
	decision_commands(&search.found.decided, id, &commands);
	writer_object_begin(writer, NULL);
	/* recipients' addresses are for those alone who may read the state file */
	decided_write(&(const struct decided_shown){ .d = &search.found.decided,
	    .wall_ns = search.found.wall_ns, .is_public = true }, DECIDED_FOR_TAIL, writer,
	    writer_member);
	view_decided_table(writer, "because", cause_rows, &causes);
	write_commands(writer, &commands);
	writer_object_end(writer);
	return true;
}
