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
#include "base/pace_text.h"
#include "base/text.h"
#include "view/classes.h"
#include "view/decided_line.h"
#include "view/destination_page.h"
#include "view/shell_word.h"

#define COUNT_OF(array)	(sizeof(array) / sizeof((array)[0]))
#define COMMAND_MAX	512
#define SESSIONS_SHOWN	50
#define CAUSES_SHOWN	30

/* --- commands ------------------------------------------------------------------------------ */

/* A name that no shell takes as it is has no command. */
static void put_command(struct writer *writer, const char *verb, const char *name,
    const char *options) {
	char command[COMMAND_MAX];

	if (shell_command(verb, name, options, command, sizeof(command)))
		writer_value(writer, COLUMN_TEXT, value_text(command));
}

/* --- limits ----------------------------------------------------------------------------------- */

static void put_limit(struct writer *writer, const char *limit, const char *file, uint32_t line,
    const char *format, ...) __attribute__((format(printf, 5, 6)));

static void put_limit(struct writer *writer, const char *limit, const char *file, uint32_t line,
    const char *format, ...) {
	char value[96];
	va_list arguments;

	va_start(arguments, format);
	(void)vsnprintf(value, sizeof(value), format, arguments);
	va_end(arguments);
	writer_row_begin(writer);
	writer_text(writer, "limit", limit);
	writer_text(writer, "value", value);
	writer_text(writer, "file", line == 0 ? NULL : file);
	writer_number_if(writer, "line", line != 0, line);
	writer_row_end(writer);
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

	writer_list_begin(writer, "limits");
	for (size_t i = 0; i < COUNT_OF(all); i++) {
		const struct generation_place *place = &class->places[all[i].place];

		if (all[i].value != NULL)
			put_limit(writer, all[i].name, generation_text(g, place->file), place->line,
			    "%s", all[i].value);
	}
	put_limit(writer, "(class)", generation_text(g, class->file), class->line, "written here");
	writer_list_end(writer);
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
	char binds[160];

	if (class == UINT32_MAX || !view_class_find(view, name, &found) || found.removed)
		return false;
	say_class_binds(&found, binds, sizeof(binds));
	writer_object_begin(writer, NULL);
	writer_text(writer, "name", name);
	writer_text(writer, "binds", binds);
	class_limits_write(g, generation_class(g, class), writer);
	writer_values_begin(writer, "commands");
	put_command(writer, "sessions --class", name, "");
	put_command(writer, "tail --class", name, "");
	put_command(writer, "history --class", name, " --since 24h");
	put_command(writer, "hold --class", name, " --for 1h");
	writer_values_end(writer);
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

static void say_destination_binds(const struct view_destination *one, char *out,
    size_t size) {
	bool stops = view_destination_stops(one);
	char why[ENFORCEMENT_TEXT_MAX], pace[PACE_TEXT_MAX];

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
	else if (one->in_flight < one->window && one->pace_wait_ns > 0)
		(void)text_append(out, size, 0, "the pace: %s",
		    pace_text(one->pace.interval_ns, pace));
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

/* That of the settings, and a lower one. */
static void put_pace(struct writer *writer, const struct view_destination *shown) {
	char text[PACE_TEXT_MAX];

	if (shown->pace_limit_ns != 0)
		put_limit(writer, "pace", "", 0, "%s", pace_text(shown->pace_limit_ns, text));
	if (shown->pace.is_learned)
		put_limit(writer, shown->pace_by_hand ? "pace (manual)" : "pace (learned)", "", 0, "%s",
		    pace_text(shown->pace.interval_ns, text));
}

static void put_settings(struct writer *writer, const struct generation *g,
    const struct destination_window *one) {
	struct generation_window_source sources[GENERATION_WINDOW_SOURCES];
	unsigned mta = generation_window_mta(g, one->name, strlen(one->name), one->mta_bits);
	uint32_t provider = generation_window_provider(g, one->name);
	unsigned count = generation_window_sources(g, mta, one->name, strlen(one->name),
	    provider, sources);
	struct window_settings settings;

	(void)generation_window_settings(g, mta, one->name, strlen(one->name), provider,
	    &settings);
	put_limit(writer, "window.law", "", 0, "%s", window_law_word(settings.law));
	put_limit(writer, "window.initial", "", 0, "%u", settings.initial);
	if (settings.limit != 0)
		put_limit(writer, "window.limit", "", 0, "%u", settings.limit);
	for (unsigned i = 0; i < count; i++)
		put_limit(writer, "(settings)", sources[i].file, sources[i].line, "%s",
		    sources[i].line == 0 ? "defaults" : sources[i].what);
}

/* Its row is on the page already. */
static void destination_write(const struct view *view, const struct destination_window *one,
    struct writer *writer) {
	const struct view_destination shown = view_destination_of(view, one);
	bool stops = view_destination_stops(&shown);
	char binds[256], id[DECISION_ID_MAX] = "";

	say_destination_binds(&shown, binds, sizeof(binds));
	if (stops && one->event != 0)
		(void)decision_id_text(one->event, id);
	writer_object_begin(writer, NULL);
	writer_text(writer, "name", one->name);
	writer_text(writer, "effect", shown.begun ? view_destination_effect(&shown) : NULL);
	writer_text(writer, "binds", binds);
	writer_text_if(writer, "id", id);
	writer_list_begin(writer, "limits");
	if (view->generation != NULL)
		put_settings(writer, view->generation, one);
	put_pace(writer, &shown);
	writer_list_end(writer);
	writer_values_begin(writer, "commands");
	if (id[0] != '\0')
		put_command(writer, "why", id, "");
	put_command(writer, "explain destination", one->name, "");
	if (stops)
		put_command(writer, "resume", one->name, "");
	else
		put_command(writer, "suspend", one->name, " --for 1h");
	put_command(writer, "history", one->name, " --since 24h");
	writer_values_end(writer);
	writer_object_end(writer);
}

bool detail_destination_write(const struct view *view, const char *name,
    struct writer *writer) {
	struct destination_search search = { .name = name };

	if (view_class_of(name) == NULL)
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
	const struct view *view = context;
	const struct session *one = item;
	char name[SEGMENT_NAME_MAX + 1];

	writer_text(writer, "class", reader_class_name(view->reader, one->control.class_record,
	    name));
	writer_text(writer, "state", view_session_state(one));
	writer_number(writer, "client_port", one->client_port);
	writer_number(writer, "port", one->server_port);
	writer_seconds(writer, "age", value_since_ds(view, one->opened_ds));
}

bool detail_client_write(const struct view *view, const char *address,
    struct writer *writer) {
	struct client_search *search = calloc(1, sizeof(*search));

	if (search == NULL || !address_parse(address, strlen(address), &search->address)) {
		free(search);
		return false;
	}
	(void)reader_sessions(view->reader, look_at_session, search);
	writer_object_begin(writer, NULL);
	writer_text(writer, "name", address);
	writer_number(writer, "sessions_found", search->found);
	writer_table(writer, &(const struct table){ .name = "sessions", .row = session_row,
	    .context = (void *)(uintptr_t)view, .items = search->list, .count = search->count,
	    .each = sizeof(search->list[0]) });
	writer_values_begin(writer, "commands");
	put_command(writer, "explain session", address, "");
	put_command(writer, "tail --address", address, "");
	writer_values_end(writer);
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

static void put_decision_commands(struct writer *writer, const struct decided *d,
    const char *id) {
	const char *name = decided_text(d, DECIDED_NAME);
	bool is_class = (d->flags & DECIDED_IS_CLASS) != 0;

	put_command(writer, "why", id, "");
	if (d->kind == DECIDED_SUSPENDED)
		put_command(writer, "resume", name, "");
	if (d->kind == DECIDED_BY_HAND && *name != '\0')
		put_command(writer, is_class ? "resume --class" : "resume", name, "");
	if (decided_text(d, DECIDED_WINDOW_OF)[0] != '\0')
		put_command(writer, "explain destination", decided_text(d, DECIDED_WINDOW_OF),
		    "");
	if (decided_text(d, DECIDED_CLASS)[0] != '\0')
		put_command(writer, "sessions --class", decided_text(d, DECIDED_CLASS), "");
}

bool detail_decision_write(const struct view *view, struct history *history, const char *id,
    struct writer *writer) {
	struct decision_search search;
	struct causes causes = { view, history, 0 };
	uint64_t number;

	if (!decision_id_parse(id, strlen(id), &number) ||
	    !find_decision(view, history, number, &search))
		return false;
	causes.first = search.found.decided.cause;
	writer_object_begin(writer, NULL);
	/* recipients' addresses are for those alone who may read the state file */
	decided_write(&(const struct decided_shown){ .d = &search.found.decided,
	    .wall_ns = search.found.wall_ns, .is_public = true }, DECIDED_FOR_TAIL, writer,
	    writer_member);
	view_decided_table(writer, "because", cause_rows, &causes);
	writer_values_begin(writer, "commands");
	put_decision_commands(writer, &search.found.decided, id);
	writer_values_end(writer);
	writer_object_end(writer);
	return true;
}
