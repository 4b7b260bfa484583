/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  posternctl explain session, explain destination.
 * MODEL    The daemon answers, as it alone knows the counts and the relays that were seen, and
 *          takes the very path of a real question.  When it is away, the configuration file
 *          has class and rule, and everything that hangs on counts is not known.
 * THREADS  One.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "base/pace_text.h"
#include "base/text.h"
#include "config/generation/enforcement.h"
#include "ctl/act/control_client.h"
#include "ctl/act/state.h"
#include "ctl/cli/ctl.h"
#include "policy/limit/decision.h"
#include "policy/window/window.h"
#include "segment/decision/decisions.h"
#include "view/status_mtas.h"
#include "view/view.h"

#define COUNT_OF(array)	(sizeof(array) / sizeof((array)[0]))
#define PORT_DEFAULT	25
#define EXPLAIN_AWAY	(-1)

enum explain_list { SESSION = 1, DESTINATION = 2, BOTH = SESSION | DESTINATION };

enum explained {
#define EXPLAIN(symbol, where, name, kind) EXPLAINED_##symbol,
#include "defs/explain.def"
#undef EXPLAIN
	EXPLAINED_VALUES
};

static const struct {
	enum explain_list where;
	struct column column;
} explained[EXPLAINED_VALUES] = {
#define EXPLAIN(symbol, where, name, kind) { where, { name, COLUMN_##kind } },
#include "defs/explain.def"
#undef EXPLAIN
};

/* One object, out of the one row that the daemon answers, or of the configuration. */
struct explanation {
	struct writer *writer;
	enum explain_list list;
	const char *note;		/* NULL: none */
	bool answered;
	struct generation *generation;	/* of the file, where there is no daemon */
};

static void explain_write(struct explanation *explanation, const struct value *values) {
	writer_object_begin(explanation->writer, NULL);
	for (size_t i = 0; i < EXPLAINED_VALUES; i++)
		if ((explained[i].where & explanation->list) != 0)
			writer_member(explanation->writer, explained[i].column.name,
			    explained[i].column.kind, values[i]);
	writer_object_end(explanation->writer);
}

/* --- the daemon's answer ---------------------------------------------------------------- */

static const char *reason_text(const char *word) {
	for (unsigned i = 0; word != NULL && i < REASON_COUNT; i++)
		if (strcmp(decided_reason_word(i), word) == 0)
			return decided_reason_text(i);
	return NULL;
}

/* Of a share: the reason, and what the share goes by. */
static const char *with_lease(const char *lease, const char *reason, char *out, size_t size) {
	const char *text = lease_text(lease);

	if (text == NULL || reason == NULL)
		return reason;
	(void)text_append(out, size, 0, "%s: %s", reason, text);
	return out;
}

/* People read what becomes of the mail. */
static struct value shown_value(const struct control_frame *frame, enum explained which,
    struct value value, char said[ENFORCEMENT_TEXT_MAX + 32]) {
	const char *enforced = control_frame_get(frame, "enforced");
	bool applied = enforced == NULL || strcmp(enforced, "1") == 0;

	if (enforced == NULL || !value.known)
		return value;
	if (which == EXPLAINED_STATE)
		return value_text(enforcement_effect(strcmp(value.text, "held") == 0 ?
		    WINDOW_HELD : WINDOW_DEAD, applied));
	if (applied)
		return value;
	if (which == EXPLAINED_WINDOW_ANSWER)
		return value_text("would suspend");
	if (which == EXPLAINED_TEXT) {
		said[0] = '\0';
		(void)text_append(said, ENFORCEMENT_TEXT_MAX + 32, 0, "its mail flows: %s",
		    control_frame_get(frame, "not_enforced"));
		return value_text(said);
	}
	return value;
}

static void explain_row(void *context, const struct control_frame *frame) {
	struct explanation *explanation = context;
	struct value values[EXPLAINED_VALUES];
	char shared[512], said[ENFORCEMENT_TEXT_MAX + 32];

	if (explanation->answered)
		return;
	for (size_t i = 0; i < EXPLAINED_VALUES; i++)
		values[i] = control_value(frame, explained[i].column.name,
		    explained[i].column.kind);
	values[EXPLAINED_SOURCE] = value_text("daemon");
	values[EXPLAINED_NOTE] = value_text(explanation->note);
	values[EXPLAINED_TEXT] = value_text(with_lease(control_frame_get(frame, "lease"),
	    reason_text(control_frame_get(frame, "reason")), shared, sizeof(shared)));
	for (size_t i = 0; !explanation->writer->json && i < EXPLAINED_VALUES; i++)
		values[i] = shown_value(frame, (enum explained)i, values[i], said);
	explain_write(explanation, values);
	explanation->answered = true;
}

static bool is_away(const struct diag *diag) {
	return diag->error == ENOENT || diag->error == ECONNREFUSED ||
	    diag->error == ETIMEDOUT || diag->error == ECONNRESET;
}

/* An exit code after a complaint, or EXPLAIN_AWAY: there is no daemon, which was complained
 * about, and explanation->generation is to answer. */
static int explain_ask(const struct places *places, struct explanation *explanation,
    const struct control_field *fields, size_t field_count) {
	struct control_reply reply;
	struct diag diag;

	if (control_ask(places->control, fields, field_count, CONTROL_TIMEOUT_MS,
		explain_row, explanation, &reply, &diag) == 0) {
		if (reply.exit != EX_OK || !explanation->answered)
			ctl_complain("%s", reply.error[0] == '\0' ?
			    "the daemon sent no answer" : reply.error);
		return reply.exit == EX_OK && !explanation->answered ?
		    EX_PROTOCOL : reply.exit;
	}
	if (explanation->answered || !is_away(&diag))
		return ctl_fail(&diag);
	ctl_complain("%s", diag.text);
	explanation->generation = places_compile(places);
	if (explanation->generation == NULL) {
		ctl_complain("the configuration has errors; run \"posternctl check\" to list "
		    "them");
		return EX_CONFIG;
	}
	ctl_complain("without the daemon: class and rule from the configuration file, no "
	    "counts");
	return EXPLAIN_AWAY;
}

/* --- without it --------------------------------------------------------------------------- */

/* The reason of who is not counted, or the rule that matched. */
static void explain_class(struct value *values, const struct generation *g, enum reason reason,
    uint32_t rule_index) {
	const struct generation_rule *rule;
	const struct generation_class *class;

	if (rule_index == CLASS_NO_RULE) {
		values[EXPLAINED_VERDICT] = value_text("admit");
		values[EXPLAINED_REASON] = value_text(decided_reason_word(reason));
		values[EXPLAINED_TEXT] = value_text(decided_reason_text(reason));
		return;
	}
	rule = generation_rule(g, rule_index);
	class = generation_class(g, rule->class_index);
	values[EXPLAINED_CLASS] = value_text(generation_text(g, class->name));
	values[EXPLAINED_RULE] = value_text(generation_text(g, rule->text));
	values[EXPLAINED_FILE] = value_text(generation_text(g, rule->file));
	values[EXPLAINED_LINE] = value_number(rule->line);
	values[EXPLAINED_HOLD_AT] = value_limit(class->limits.sessions);
	values[EXPLAINED_REFUSE_AT] = value_limit(class->limits.inbound);
	values[EXPLAINED_CLIENT_SESSIONS] = value_limit(class->limits.client_sessions);
}

/* --- a session -------------------------------------------------------------------------------- */

struct session_words {
	const char *address, *name, *port;
};

static void explain_session_locally(struct explanation *explanation,
    const struct session_words *words, const struct address *address, uint16_t port) {
	const struct generation *g = explanation->generation;
	size_t length = words->name == NULL ? 0 : strlen(words->name);
	bool exempt = generation_is_exempt(g, address, words->name, length);
	struct value values[EXPLAINED_VALUES] = {
		[EXPLAINED_SOURCE] = value_text("configuration"),
		[EXPLAINED_ADDRESS] = value_text(words->address),
		[EXPLAINED_NAME] = value_text(words->name),
		[EXPLAINED_PORT] = value_number(port) };

	explain_class(values, g, exempt ? REASON_EXEMPT : REASON_NO_CLASS, exempt ?
	    CLASS_NO_RULE : generation_match_inbound(g, port, address, words->name, length));
	explain_write(explanation, values);
}

static int explain_session(struct ctl *ctl, const struct places *places,
    const struct session_words *words, const struct address *address, uint16_t port) {
	const struct control_field fields[] = {
		{ "command", "explain session" },
		{ "address", words->address },
		{ "port", words->port },
		{ "name", words->name },
	};
	struct explanation explanation = { .writer = &ctl->writer, .list = SESSION };
	int result = explain_ask(places, &explanation, fields,
	    words->name == NULL ? COUNT_OF(fields) - 1 : COUNT_OF(fields));

	if (result != EXPLAIN_AWAY)
		return result;
	explain_session_locally(&explanation, words, address, port);
	free(explanation.generation);
	return EX_UNAVAILABLE;
}

int command_EXPLAIN_SESSION(struct ctl *ctl) {
	struct session_words words = {
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
		result = explain_session(ctl, &places, &words, &address, (uint16_t)port);
	return result;
}

/* --- a destination --------------------------------------------------------------------------- */

/* The parameters of a window of its own: which relays it has is not known. */
static void explain_settings(const struct generation *g, const char *destination,
    struct value *values, char *text, size_t size, char pace_out[PACE_TEXT_MAX]) {
	unsigned mta = generation_window_mta(g, destination, strlen(destination), 0);
	struct window_settings settings;
	struct pace_settings pace;
	bool is_paced;

	generation_window_sources_text(g, mta, destination, GENERATION_NO_PROVIDER, text, size);
	(void)generation_settings(g, mta, destination, strlen(destination),
	    GENERATION_NO_PROVIDER, &settings, &pace, &is_paced);
	if (pace.limit.count > 0)
		values[EXPLAINED_PACE_LIMIT] = value_text(pace_text(pace.limit.period_ns /
		    pace.limit.count, pace_out));
	values[EXPLAINED_LAW] = value_text(window_law_word(settings.law));
	values[EXPLAINED_SETTINGS] = value_text(text);
}

static void explain_destination_locally(struct explanation *explanation,
    const char *destination) {
	const struct generation *g = explanation->generation;
	char settings[2048], pace[PACE_TEXT_MAX];
	struct address literal;
	bool by_address = address_parse(destination, strlen(destination), &literal);
	uint32_t rule = generation_match_outbound(g, by_address ? &literal : NULL,
	    by_address ? NULL : destination, by_address ? 0 : strlen(destination));
	struct value values[EXPLAINED_VALUES] = {
		[EXPLAINED_SOURCE] = value_text("configuration"),
		[EXPLAINED_DESTINATION] = value_text(destination),
		[EXPLAINED_FOUND_BY] = value_text(rule == CLASS_NO_RULE ? "none" :
		    by_address ? "address" : "domain") };

	explain_class(values, g, REASON_NO_CLASS, rule);
	explain_settings(g, destination, values, settings, sizeof(settings), pace);
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
	struct explanation explanation = { .writer = &ctl->writer, .list = DESTINATION };
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
		explain_destination_locally(&explanation, destination);
		free(explanation.generation);
		result = EX_UNAVAILABLE;
	}
	return result;
}
