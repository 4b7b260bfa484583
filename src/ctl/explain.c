/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  posternctl explain session.
 * MODEL    The daemon answers, as it alone knows the counts and takes the very
 *          path of a real question.  When it is away, the configuration file tells
 *          class and rule, and everything that hangs on counts is not known.
 * THREADS  One.
 */
#include <errno.h>
#include <string.h>
#include <sysexits.h>

#include "base/text.h"
#include "ctl/control_client.h"
#include "ctl/ctl.h"
#include "policy/decision.h"

#define COUNT_OF(array)	(sizeof(array) / sizeof((array)[0]))
#define TIMEOUT_MS	10000
#define PORT_DEFAULT	25

/* Order of the columns and values below. */
enum explained {
	EXPLAINED_SOURCE, EXPLAINED_ADDRESS, EXPLAINED_NAME, EXPLAINED_PORT,
	EXPLAINED_CLASS, EXPLAINED_RULE, EXPLAINED_FILE, EXPLAINED_LINE,
	EXPLAINED_VERDICT, EXPLAINED_REASON, EXPLAINED_COUNT, EXPLAINED_LIMIT,
	EXPLAINED_OPEN, EXPLAINED_SESSIONS, EXPLAINED_INBOUND,
	EXPLAINED_CLIENT_OPEN, EXPLAINED_CLIENT_SESSIONS,
	EXPLAINED_OBSERVED, EXPLAINED_ANSWER, EXPLAINED_TEXT,
	EXPLAINED_VALUES
};

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
	[EXPLAINED_SESSIONS] = { "sessions", COLUMN_NUMBER },
	[EXPLAINED_INBOUND] = { "inbound", COLUMN_NUMBER },
	[EXPLAINED_CLIENT_OPEN] = { "client_open", COLUMN_NUMBER },
	[EXPLAINED_CLIENT_SESSIONS] = { "client_sessions", COLUMN_NUMBER },
	[EXPLAINED_OBSERVED] = { "observed", COLUMN_TRUTH },
	[EXPLAINED_ANSWER] = { "answer", COLUMN_TEXT },
	[EXPLAINED_TEXT] = { "text", COLUMN_TEXT },
};

static const struct reason_words {
	const char *word, *text;
} reasons[] = {
#define REASON(symbol, word, text) [REASON_##symbol] = { word, text },
#include "defs/reasons.def"
#undef REASON
};

struct explanation {
	struct writer *writer;
	const char *address, *name, *port;
	bool answered;
};

static const char *reason_text(const char *word) {
	for (size_t i = 0; word != NULL && i < COUNT_OF(reasons); i++)
		if (strcmp(reasons[i].word, word) == 0)
			return reasons[i].text;
	return NULL;
}

static void write_values(struct writer *writer, const struct value *values) {
	writer_object_begin(writer, NULL);
	writer_members(writer, columns, values, EXPLAINED_VALUES);
	writer_object_end(writer);
}

static struct value field_value(const struct control_frame *frame,
    const struct column *column) {
	const char *text = control_frame_get(frame, column->name);
	uint32_t number;

	if (text == NULL)
		return value_unknown();
	if (column->kind == COLUMN_TEXT)
		return value_text(text);
	if (!text_to_u32(text, strlen(text), UINT32_MAX, &number))
		return value_unknown();
	return column->kind == COLUMN_TRUTH ? value_truth(number != 0) :
	    value_number(number);
}

static void explain_row(void *context, const struct control_frame *frame) {
	struct explanation *explanation = context;
	struct value values[EXPLAINED_VALUES];

	if (explanation->answered)
		return;
	for (size_t i = 0; i < EXPLAINED_VALUES; i++)
		values[i] = field_value(frame, &columns[i]);
	values[EXPLAINED_SOURCE] = value_text("daemon");
	values[EXPLAINED_TEXT] =
	    value_text(reason_text(control_frame_get(frame, "reason")));
	write_values(explanation->writer, values);
	explanation->answered = true;
}

static void set_reason(struct value *values, enum reason reason) {
	values[EXPLAINED_VERDICT] = value_text("admit");
	values[EXPLAINED_REASON] = value_text(reasons[reason].word);
	values[EXPLAINED_TEXT] = value_text(reasons[reason].text);
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

static void explain_locally(const struct explanation *explanation,
    const struct generation *g, const struct address *address, uint16_t port) {
	const char *name = explanation->name;
	size_t length = name == NULL ? 0 : strlen(name);
	struct value values[EXPLAINED_VALUES];
	uint32_t rule;

	for (size_t i = 0; i < EXPLAINED_VALUES; i++)
		values[i] = value_unknown();
	values[EXPLAINED_SOURCE] = value_text("configuration");
	values[EXPLAINED_ADDRESS] = value_text(explanation->address);
	values[EXPLAINED_NAME] = value_text(name);
	values[EXPLAINED_PORT] = value_number(port);
	rule = generation_match_inbound(g, port, address, name, length);
	if (generation_is_exempt(g, address, name, length))
		set_reason(values, REASON_EXEMPT);
	else if (rule == CLASS_NO_RULE)
		set_reason(values, REASON_NO_CLASS);
	else
		set_rule(values, g, rule);
	write_values(explanation->writer, values);
}

static bool is_away(const struct diag *diag) {
	return diag->error == ENOENT || diag->error == ECONNREFUSED ||
	    diag->error == ETIMEDOUT || diag->error == ECONNRESET;
}

static int ask(const struct places *places, struct explanation *explanation,
    const struct address *address, uint16_t port) {
	const struct control_field fields[] = {
		{ "command", "explain session" },
		{ "address", explanation->address },
		{ "port", explanation->port },
		{ "name", explanation->name },
	};
	struct control_reply reply;
	struct diag diag;

	if (control_ask(places->control, fields,
		explanation->name == NULL ? COUNT_OF(fields) - 1 : COUNT_OF(fields),
		TIMEOUT_MS, explain_row, explanation, &reply, &diag) == 0) {
		if (reply.exit != EX_OK || !explanation->answered)
			ctl_complain("%s", reply.error[0] == '\0' ?
			    "the daemon gave no answer" : reply.error);
		return reply.exit == EX_OK && !explanation->answered ?
		    EX_PROTOCOL : reply.exit;
	}
	if (explanation->answered || !is_away(&diag))
		return ctl_fail(&diag);
	ctl_complain("%s", diag.text);
	if (places->generation == NULL) {
		ctl_complain("the configuration has mistakes: posternctl check tells them");
		return EX_CONFIG;
	}
	ctl_complain("without the daemon: class and rule by the configuration file, no counts");
	explain_locally(explanation, places->generation, address, port);
	return EX_OK;
}

int command_EXPLAIN_SESSION(struct ctl *ctl) {
	struct explanation explanation = {
		.writer = &ctl->writer,
		.address = ctl->arguments[0],
		.name = ctl->argument_count > 1 ? ctl->arguments[1] : NULL,
		.port = ctl->port == NULL ? "25" : ctl->port,
	};
	char text[ADDRESS_TEXT_MAX];
	struct places places;
	struct address address;
	uint32_t port = PORT_DEFAULT;
	int result;

	if (!address_parse(explanation.address, strlen(explanation.address), &address))
		return ctl_usage(COMMAND_EXPLAIN_SESSION, "%s: not an IPv4 or IPv6 address",
		    explanation.address);
	if (!text_to_u32(explanation.port, strlen(explanation.port), UINT16_MAX, &port))
		return ctl_usage(COMMAND_EXPLAIN_SESSION, "--port %s: not a port",
		    explanation.port);
	if (explanation.name != NULL && (explanation.name[0] == '\0' ||
		strlen(explanation.name) > MASK_NAME_MAX))
		return ctl_usage(COMMAND_EXPLAIN_SESSION,
		    "a host name has 1 to %d characters", MASK_NAME_MAX);
	address_format(&address, text);
	explanation.address = text;
	result = places_find(ctl, &places);
	if (result == EX_OK)
		result = ask(&places, &explanation, &address, (uint16_t)port);
	places_free(&places);
	return result;
}
