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
#include "ctl/explain.h"

#define COUNT_OF(array)	(sizeof(array) / sizeof((array)[0]))

/* Order of the columns and values below. */
enum explained {
	EXPLAINED_SOURCE, EXPLAINED_DESTINATION, EXPLAINED_CLASS,
	EXPLAINED_RULE, EXPLAINED_FILE, EXPLAINED_LINE, EXPLAINED_FOUND_BY,
	EXPLAINED_RELAY, EXPLAINED_RELAY_NAME, EXPLAINED_VERDICT,
	EXPLAINED_REASON, EXPLAINED_COUNT, EXPLAINED_LIMIT, EXPLAINED_OPEN,
	EXPLAINED_SESSIONS, EXPLAINED_INBOUND, EXPLAINED_OBSERVED,
	EXPLAINED_TEXT, EXPLAINED_HINT_MTA, EXPLAINED_HINT, EXPLAINED_DOUBT,
	EXPLAINED_DOUBT_TEXT, EXPLAINED_HINT_ANSWER,
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
	[EXPLAINED_SESSIONS] = { "sessions", COLUMN_NUMBER },
	[EXPLAINED_INBOUND] = { "inbound", COLUMN_NUMBER },
	[EXPLAINED_OBSERVED] = { "observed", COLUMN_TRUTH },
	[EXPLAINED_TEXT] = { "text", COLUMN_TEXT },
	[EXPLAINED_HINT_MTA] = { "hint_mta", COLUMN_TEXT },
	[EXPLAINED_HINT] = { "hint", COLUMN_TEXT },
	[EXPLAINED_DOUBT] = { "doubt", COLUMN_TEXT },
	[EXPLAINED_DOUBT_TEXT] = { "doubt_text", COLUMN_TEXT },
	[EXPLAINED_HINT_ANSWER] = { "hint_answer", COLUMN_TEXT },
};

static void explain_locally(struct explanation *explanation,
    const struct generation *g, const char *destination) {
	struct value values[EXPLAINED_VALUES];
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
	explain_write(explanation, values);
}

int command_EXPLAIN_DESTINATION(struct ctl *ctl) {
	const char *name = ctl->arguments[0];
	char destination[MASK_NAME_MAX + 1];
	const struct control_field fields[] = {
		{ "command", "explain destination" },
		{ "destination", destination },
	};
	struct explanation explanation = { .writer = &ctl->writer,
		.columns = columns, .column_count = COUNT_OF(columns) };
	size_t length = text_bare_host(&name, strlen(name));
	struct places places;
	int result;

	if (length == 0 || !text_copy(destination, sizeof(destination), name,
		length))
		return ctl_usage(COMMAND_EXPLAIN_DESTINATION,
		    "a destination has 1 to %d characters", MASK_NAME_MAX);
	result = places_find(ctl, &places);
	if (result == EX_OK)
		result = explain_ask(&places, &explanation, fields,
		    COUNT_OF(fields));
	if (result == EXPLAIN_AWAY) {
		explain_locally(&explanation, places.generation, destination);
		result = EX_OK;
	}
	places_free(&places);
	return result;
}
