/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  posternctl explain session.
 * MODEL    The daemon answers, as it alone knows the counts and takes the very
 *          path of a real question.  When it is away, the configuration file tells
 *          class and rule, and everything that hangs on counts is not known.
 * THREADS  One.
 */
#include <string.h>
#include <sysexits.h>

#include "base/text.h"
#include "ctl/ask/explain.h"
#include "view/view.h"

#define COUNT_OF(array)	(sizeof(array) / sizeof((array)[0]))
#define PORT_DEFAULT	25

/* Order of the columns and values below. */
enum explained {
	EXPLAINED_SOURCE, EXPLAINED_ADDRESS, EXPLAINED_NAME, EXPLAINED_PORT,
	EXPLAINED_CLASS, EXPLAINED_RULE, EXPLAINED_FILE, EXPLAINED_LINE,
	EXPLAINED_VERDICT, EXPLAINED_REASON, EXPLAINED_COUNT, EXPLAINED_LIMIT,
	EXPLAINED_OPEN, EXPLAINED_SESSIONS, EXPLAINED_INBOUND,
	EXPLAINED_SESSIONS_IN_FORCE, EXPLAINED_INBOUND_IN_FORCE, EXPLAINED_LEASE,
	EXPLAINED_CLIENT_OPEN, EXPLAINED_CLIENT_SESSIONS,
	EXPLAINED_OBSERVED, EXPLAINED_ANSWER, EXPLAINED_READS_POLICY, EXPLAINED_READS_MILTER,
	EXPLAINED_READS_MAP, EXPLAINED_TEXT,
	EXPLAINED_VALUES
};
_Static_assert(EXPLAINED_VALUES <= EXPLAIN_VALUES_MAX, "they fit");

static const struct column columns[EXPLAINED_VALUES] = {
	[EXPLAINED_SOURCE] = { "source", COLUMN_TEXT },
	[EXPLAINED_ADDRESS] = { "address", COLUMN_TEXT },
	[EXPLAINED_NAME] = { "name", COLUMN_TEXT },
	[EXPLAINED_PORT] = { "port", COLUMN_NUMBER },
	[EXPLAINED_CLASS] = { "class", COLUMN_TEXT },
	[EXPLAINED_RULE] = { "rule", COLUMN_TEXT },
	[EXPLAINED_FILE] = { "file", COLUMN_TEXT },
	[EXPLAINED_LINE] = { "line", COLUMN_NUMBER },
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
	[EXPLAINED_CLIENT_OPEN] = { "client_open", COLUMN_NUMBER },
	[EXPLAINED_CLIENT_SESSIONS] = { "client_sessions", COLUMN_NUMBER },
	[EXPLAINED_OBSERVED] = { "observed", COLUMN_TRUTH },
	[EXPLAINED_ANSWER] = { "answer", COLUMN_TEXT },
	[EXPLAINED_READS_POLICY] = { "client_reads_policy", COLUMN_TEXT },
	[EXPLAINED_READS_MILTER] = { "client_reads_milter", COLUMN_TEXT },
	[EXPLAINED_READS_MAP] = { "client_reads_map", COLUMN_TEXT },
	[EXPLAINED_TEXT] = { "text", COLUMN_TEXT },
};

struct request_words {
	const char *address, *name, *port;
};

static void set_reason(struct value *values, enum reason reason) {
	values[EXPLAINED_VERDICT] = value_text("admit");
	values[EXPLAINED_REASON] = explain_reason_word(reason);
	values[EXPLAINED_TEXT] = explain_reason_text(reason);
}

static void set_rule(struct value *values, const struct generation *g, uint32_t index) {
	const struct generation_rule *rule = generation_rule(g, index);
	const struct generation_class *class = generation_class(g, rule->class_index);
	const struct limits *limits = &class->limits;

	values[EXPLAINED_CLASS] = value_text(generation_text(g, class->name));
	values[EXPLAINED_RULE] = value_text(generation_text(g, rule->text));
	values[EXPLAINED_FILE] = value_text(generation_text(g, rule->file));
	values[EXPLAINED_LINE] = value_number(rule->line);
	values[EXPLAINED_SESSIONS] = value_limit(limits->sessions);
	values[EXPLAINED_INBOUND] = value_limit(limits->inbound);
	values[EXPLAINED_CLIENT_SESSIONS] = value_limit(limits->client_sessions);
}

static void explain_locally(struct explanation *explanation,
    const struct request_words *words, const struct generation *g,
    const struct address *address, uint16_t port) {
	const char *name = words->name;
	size_t length = name == NULL ? 0 : strlen(name);
	struct value values[EXPLAINED_VALUES];
	uint32_t rule;

	for (size_t i = 0; i < EXPLAINED_VALUES; i++)
		values[i] = value_unknown();
	values[EXPLAINED_SOURCE] = value_text("configuration");
	values[EXPLAINED_ADDRESS] = value_text(words->address);
	values[EXPLAINED_NAME] = value_text(name);
	values[EXPLAINED_PORT] = value_number(port);
	rule = generation_match_inbound(g, port, address, name, length);
	if (generation_is_exempt(g, address, name, length))
		set_reason(values, REASON_EXEMPT);
	else if (rule == CLASS_NO_RULE)
		set_reason(values, REASON_NO_CLASS);
	else
		set_rule(values, g, rule);
	explain_write(explanation, values);
}

static int ask(struct ctl *ctl, struct places *places,
    const struct request_words *words, const struct address *address,
    uint16_t port) {
	const struct control_field fields[] = {
		{ "command", "explain session" },
		{ "address", words->address },
		{ "port", words->port },
		{ "name", words->name },
	};
	struct explanation explanation = { .writer = &ctl->writer,
		.columns = columns, .column_count = COUNT_OF(columns) };
	int result = explain_ask(places, &explanation, fields,
	    words->name == NULL ? COUNT_OF(fields) - 1 : COUNT_OF(fields));

	if (result != EXPLAIN_AWAY)
		return result;
	explain_locally(&explanation, words, places->generation, address, port);
	return EX_UNAVAILABLE;
}

int command_EXPLAIN_SESSION(struct ctl *ctl) {
	struct request_words words = {
		.address = ctl->arguments[0],
		.name = ctl->argument_count > 1 ? ctl->arguments[1] : NULL,
		.port = ctl->port == NULL ? "25" : ctl->port,
	};
	char text[ADDRESS_TEXT_MAX];
	struct places places;
	struct address address;
	uint32_t port = PORT_DEFAULT;
	int result;

	if (!address_parse(words.address, strlen(words.address), &address))
		return ctl_usage(COMMAND_EXPLAIN_SESSION, "%s: not an IPv4 or IPv6 address",
		    words.address);
	if (!text_to_u32(words.port, strlen(words.port), UINT16_MAX, &port) || port == 0)
		return ctl_usage(COMMAND_EXPLAIN_SESSION, "--port %s: not a port number",
		    words.port);
	if (words.name != NULL && (words.name[0] == '\0' ||
		strlen(words.name) > MASK_NAME_MAX))
		return ctl_usage(COMMAND_EXPLAIN_SESSION,
		    "a host name must have 1 to %d characters", MASK_NAME_MAX);
	if (words.name != NULL && words.name[strcspn(words.name, " \t")] != '\0')
		return ctl_usage(COMMAND_EXPLAIN_SESSION, "a host name cannot contain spaces");
	address_format(&address, text);
	words.address = text;
	result = places_find(ctl, &places);
	if (result == EX_OK)
		result = ask(ctl, &places, &words, &address, (uint16_t)port);
	places_free(&places);
	return result;
}
