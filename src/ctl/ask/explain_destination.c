/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  posternctl explain destination.
 * MODEL    The daemon answers, as it alone knows the counts and the relays that
 *          were seen.  When it is away, the configuration file tells which class
 *          the destination's own name would meet.
 * THREADS  One.
 */
#include <string.h>
#include <sysexits.h>

#include "base/text.h"
#include "ctl/ask/explain.h"
#include "ctl/act/state.h"
#include "policy/window/window.h"
#include "view/status_mtas.h"
#include "view/view.h"

#define COUNT_OF(array)	(sizeof(array) / sizeof((array)[0]))

/* Order of the columns and values below. */
enum explained {
	EXPLAINED_SOURCE, EXPLAINED_DESTINATION, EXPLAINED_CLASS,
	EXPLAINED_RULE, EXPLAINED_FILE, EXPLAINED_LINE, EXPLAINED_FOUND_BY,
	EXPLAINED_RELAY, EXPLAINED_RELAY_NAME, EXPLAINED_VERDICT,
	EXPLAINED_REASON, EXPLAINED_COUNT, EXPLAINED_LIMIT, EXPLAINED_OPEN,
	EXPLAINED_SESSIONS, EXPLAINED_INBOUND,
	EXPLAINED_SESSIONS_IN_FORCE, EXPLAINED_INBOUND_IN_FORCE, EXPLAINED_LEASE, EXPLAINED_OBSERVED,
	EXPLAINED_TEXT, EXPLAINED_OWNER, EXPLAINED_LAW, EXPLAINED_SETTINGS,
	EXPLAINED_STATE, EXPLAINED_WINDOW, EXPLAINED_CEILING, EXPLAINED_IN_FLIGHT,
	EXPLAINED_UNTIL, EXPLAINED_ID, EXPLAINED_WHY, EXPLAINED_SUCCESS, EXPLAINED_FAILURE,
	EXPLAINED_FAIL_COHORTS, EXPLAINED_STOPPED_BY, EXPLAINED_CANARY,
	EXPLAINED_SHARE, EXPLAINED_NODE, EXPLAINED_ORIGIN, EXPLAINED_LAST_REASON,
	EXPLAINED_WINDOW_ANSWER, EXPLAINED_WINDOW_OBSERVED, EXPLAINED_ENFORCED,
	EXPLAINED_NOT_ENFORCED,
	EXPLAINED_HINT_MTA, EXPLAINED_HINT, EXPLAINED_DOUBT,
	EXPLAINED_DOUBT_TEXT, EXPLAINED_HINT_ANSWER, EXPLAINED_NOTE,
	EXPLAINED_VALUES
};
_Static_assert(EXPLAINED_VALUES <= EXPLAIN_VALUES_MAX, "they fit");

static const struct column columns[EXPLAINED_VALUES] = {
	[EXPLAINED_SOURCE] = { "source", COLUMN_TEXT },
	[EXPLAINED_DESTINATION] = { "destination", COLUMN_TEXT },
	[EXPLAINED_CLASS] = { "class", COLUMN_TEXT },
	[EXPLAINED_RULE] = { "rule", COLUMN_TEXT },
	[EXPLAINED_FILE] = { "file", COLUMN_TEXT },
	[EXPLAINED_LINE] = { "line", COLUMN_NUMBER },
	[EXPLAINED_FOUND_BY] = { "found_by", COLUMN_TEXT },
	[EXPLAINED_RELAY] = { "relay", COLUMN_TEXT },
	[EXPLAINED_RELAY_NAME] = { "relay_name", COLUMN_TEXT },
	[EXPLAINED_VERDICT] = { "verdict", COLUMN_TEXT },
	[EXPLAINED_REASON] = { "reason", COLUMN_TEXT },
	[EXPLAINED_COUNT] = { "count", COLUMN_NUMBER },
	[EXPLAINED_LIMIT] = { "limit", COLUMN_NUMBER },
	[EXPLAINED_OPEN] = { "open", COLUMN_NUMBER },
	[EXPLAINED_SESSIONS] = { "hold_at", COLUMN_NUMBER },
	[EXPLAINED_INBOUND] = { "refuse_at", COLUMN_NUMBER },
	[EXPLAINED_SESSIONS_IN_FORCE] = { "sessions_in_force", COLUMN_NUMBER },
	[EXPLAINED_INBOUND_IN_FORCE] = { "inbound_in_force", COLUMN_NUMBER },
	[EXPLAINED_LEASE] = { "lease", COLUMN_TEXT },
	[EXPLAINED_OBSERVED] = { "observed", COLUMN_TRUTH },
	[EXPLAINED_TEXT] = { "text", COLUMN_TEXT },
	[EXPLAINED_OWNER] = { "owner", COLUMN_TEXT },
	[EXPLAINED_LAW] = { "law", COLUMN_TEXT },
	[EXPLAINED_SETTINGS] = { "settings", COLUMN_TEXT },
	[EXPLAINED_STATE] = { "state", COLUMN_TEXT },
	[EXPLAINED_WINDOW] = { "window", COLUMN_NUMBER },
	[EXPLAINED_CEILING] = { "ceiling", COLUMN_NUMBER },
	[EXPLAINED_IN_FLIGHT] = { "in_flight", COLUMN_NUMBER },
	[EXPLAINED_UNTIL] = { "until", COLUMN_SECONDS },
	[EXPLAINED_ID] = { "id", COLUMN_TEXT },
	[EXPLAINED_WHY] = { "why", COLUMN_TEXT },
	[EXPLAINED_SUCCESS] = { "success", COLUMN_DECIMAL },
	[EXPLAINED_FAILURE] = { "failure", COLUMN_DECIMAL },
	[EXPLAINED_FAIL_COHORTS] = { "fail_cohorts", COLUMN_DECIMAL },
	[EXPLAINED_STOPPED_BY] = { "stopped_by", COLUMN_TEXT },
	[EXPLAINED_CANARY] = { "canary", COLUMN_TEXT },
	[EXPLAINED_SHARE] = { "share", COLUMN_NUMBER },
	[EXPLAINED_NODE] = { "node", COLUMN_TEXT },
	[EXPLAINED_ORIGIN] = { "origin_id", COLUMN_TEXT },
	[EXPLAINED_LAST_REASON] = { "last_reason", COLUMN_TEXT },
	[EXPLAINED_WINDOW_ANSWER] = { "window_answer", COLUMN_TEXT },
	[EXPLAINED_WINDOW_OBSERVED] = { "window_observed", COLUMN_TRUTH },
	[EXPLAINED_ENFORCED] = { "enforced", COLUMN_TRUTH },
	[EXPLAINED_NOT_ENFORCED] = { "not_enforced", COLUMN_TEXT },
	[EXPLAINED_HINT_MTA] = { "hint_mta", COLUMN_TEXT },
	[EXPLAINED_HINT] = { "hint", COLUMN_TEXT },
	[EXPLAINED_DOUBT] = { "doubt", COLUMN_TEXT },
	[EXPLAINED_DOUBT_TEXT] = { "doubt_text", COLUMN_TEXT },
	[EXPLAINED_HINT_ANSWER] = { "hint_answer", COLUMN_TEXT },
	[EXPLAINED_NOTE] = { "note", COLUMN_TEXT },
};

/* The parameters of a window of its own: which relays it has is not known. */
static void explain_settings(const struct generation *g, const char *destination,
    struct value *values, char *text, size_t size) {
	struct generation_window_source sources[GENERATION_WINDOW_SOURCES];
	unsigned mta = generation_window_mta(g, destination, strlen(destination), 0);
	struct window_settings settings;
	unsigned count = generation_window_sources(g, mta, destination,
	    strlen(destination), GENERATION_NO_PROVIDER, sources);
	size_t length = 0;

	text[0] = '\0';
	for (unsigned i = 0; i < count; i++) {
		length = text_append(text, size, length, "%s%s", i > 0 ? ", " : "",
		    sources[i].line != 0 ? sources[i].what : "defaults");
		if (sources[i].line != 0)
			length = text_append(text, size, length, " %s:%u",
			    sources[i].file, sources[i].line);
	}
	(void)generation_window_settings(g, mta, destination, strlen(destination),
	    GENERATION_NO_PROVIDER, &settings);
	values[EXPLAINED_LAW] = value_text(window_law_word(settings.law));
	values[EXPLAINED_SETTINGS] = value_text(text);
}

static void explain_locally(struct explanation *explanation,
    const struct generation *g, const char *destination) {
	struct value values[EXPLAINED_VALUES];
	char settings[2048];
	struct address literal;
	bool by_address = address_parse(destination, strlen(destination),
	    &literal);
	uint32_t rule = generation_match_outbound(g,
	    by_address ? &literal : NULL, by_address ? NULL : destination,
	    by_address ? 0 : strlen(destination));

	for (size_t i = 0; i < EXPLAINED_VALUES; i++)
		values[i] = value_unknown();
	values[EXPLAINED_SOURCE] = value_text("configuration");
	values[EXPLAINED_DESTINATION] = value_text(destination);
	values[EXPLAINED_FOUND_BY] = value_text(rule == CLASS_NO_RULE ? "none" :
	    by_address ? "address" : "domain");
	if (rule == CLASS_NO_RULE) {
		values[EXPLAINED_VERDICT] = value_text("admit");
		values[EXPLAINED_REASON] = explain_reason_word(REASON_NO_CLASS);
		values[EXPLAINED_TEXT] = explain_reason_text(REASON_NO_CLASS);
	} else {
		const struct generation_rule *r = generation_rule(g, rule);
		const struct generation_class *class =
		    generation_class(g, r->class_index);

		values[EXPLAINED_CLASS] = value_text(generation_text(g, class->name));
		values[EXPLAINED_RULE] = value_text(generation_text(g, r->text));
		values[EXPLAINED_FILE] = value_text(generation_text(g, r->file));
		values[EXPLAINED_LINE] = value_number(r->line);
		values[EXPLAINED_SESSIONS] = value_limit(class->limits.sessions);
		values[EXPLAINED_INBOUND] = value_limit(class->limits.inbound);
	}
	explain_settings(g, destination, values, settings, sizeof(settings));
	explain_write(explanation, values);
}

/* Without the log nothing is learned of any destination. */
static const char *unread_logs(const struct ctl *ctl, struct places *places, char *note,
    size_t size) {
	struct view view;
	struct diag ignored;
	size_t length = 0;

	if (state_is_asked_for(ctl) && state_ask_place(places, &ignored) != 0)
		return NULL;
	if (view_open(&view, places->state, &ignored) == 0)
		length = status_mtas_unread(&view, note, size);
	view_close(&view);
	return length > 0 ? note : NULL;
}

int command_EXPLAIN_DESTINATION(struct ctl *ctl) {
	const char *name = ctl->arguments[0];
	char destination[MASK_NAME_MAX + 1];
	const struct control_field fields[] = {
		{ "command", "explain destination" },
		{ "destination", destination },
	};
	char note[1024];
	struct explanation explanation = { .writer = &ctl->writer,
		.columns = columns, .column_count = COUNT_OF(columns) };
	size_t length = text_bare_host(&name, strlen(name));
	struct places places;
	int result;

	if (length == 0 || !text_copy(destination, sizeof(destination), name,
		length))
		return ctl_usage(COMMAND_EXPLAIN_DESTINATION,
		    "a destination must have 1 to %d characters", MASK_NAME_MAX);
	for (size_t i = 0; i < length; i++)
		if (destination[i] <= ' ' || destination[i] > '~')
			return ctl_usage(COMMAND_EXPLAIN_DESTINATION,
			    "a destination must be printable ASCII without spaces");
	result = places_find(ctl, &places);
	if (result == EX_OK) {
		explanation.note = unread_logs(ctl, &places, note, sizeof(note));
		result = explain_ask(&places, &explanation, fields,
		    COUNT_OF(fields));
	}
	if (result == EXPLAIN_AWAY) {
		explain_locally(&explanation, places.generation, destination);
		result = EX_UNAVAILABLE;
	}
	places_free(&places);
	return result;
}
