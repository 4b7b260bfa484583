/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Requests of the control protocol: who may ask, and the answers that
 *          are made here (explain session, ping) or in control_destination.c.
 * MODEL    Permissions come from defs/commands.def; a command that is answered
 *          from the state file or not at all by the daemon is unknown here.
 * ERRORS   All are answers.
 * THREADS  The keeper's one.
 */
#include "front/control/control_answer.h"

#include <string.h>
#include <sysexits.h>

#include "base/clock.h"
#include "base/text.h"
#include "engine/cluster/shares.h"
#include "front/control/control_row.h"
#include "front/decision/decision_log.h"
#include "segment/decision/decisions.h"

#ifndef PACKAGE_VERSION
#define PACKAGE_VERSION "unknown"
#endif

#define SERVICE_PORT	25

enum permission { ANYONE, OPERATOR };
enum place { LOCAL, STATE, CONTROL, QUEUE };

static const struct command {
	const char *words;
	enum permission permission;
	enum place place;
} commands[] = {
#define COMMAND(symbol, words, arguments, brief, permission, place, text) \
	{ words, permission, place },
#include "defs/commands.def"
#undef COMMAND
	{ "ping", ANYONE, CONTROL },
};

static const char *const verdict_words[] = {
	[VERDICT_ADMIT] = "admit", [VERDICT_REFUSE] = "refuse",
	[VERDICT_DEFER] = "defer", [VERDICT_DISCARD] = "discard",
};

size_t control_answer_hello(char *out, size_t size) {
	struct control_writer writer;

	control_writer_begin(&writer, out, size);
	control_writer_add(&writer, "protocol", "%d", CONTROL_PROTOCOL);
	control_writer_add(&writer, "build", "%s", PACKAGE_VERSION);
	return control_writer_finish(&writer);
}

size_t control_answer_end(char *out, size_t size, int exit_code,
    const char *error) {
	struct control_writer writer;

	control_writer_begin(&writer, out, size);
	control_writer_add(&writer, "end", "1");
	control_writer_add(&writer, "exit", "%d", exit_code);
	if (exit_code != EX_OK)
		control_writer_add(&writer, "error", "%s", error);
	return control_writer_finish(&writer);
}

void control_answer_begin(struct control_writer *writer, char *out) {
	control_writer_begin(writer, out, CONTROL_ANSWER_BYTES);
	control_writer_add(writer, "row", "1");
}

size_t control_answer_finish(struct control_writer *writer, char *out) {
	size_t length = control_writer_finish(writer);

	return length + control_answer_end(out + length, CONTROL_ANSWER_BYTES - length, EX_OK,
	    "");
}

static const struct command *find_command(const char *words) {
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (commands[i].place == CONTROL &&
		    strcmp(commands[i].words, words) == 0)
			return &commands[i];
	}
	return NULL;
}

/* NULL, or what is wrong with the request. */
static const char *read_question(const struct control_frame *request,
    struct question *question) {
	const char *address = control_frame_get(request, "address");
	const char *name = control_frame_get(request, "name");
	const char *port = control_frame_get(request, "port");
	uint32_t number = SERVICE_PORT;

	*question = (struct question){ .name = NULL };
	if (address == NULL ||
	    !address_parse(address, strlen(address), &question->client))
		return "address: not an IPv4 or IPv6 address";
	if (port != NULL && !text_to_u32(port, strlen(port), UINT16_MAX, &number))
		return "port: not a port number";
	question->server_port = (uint16_t)number;
	if (name != NULL && name[0] != '\0') {
		question->name = name;
		question->name_length = strlen(name);
		if (question->name_length > MASK_NAME_MAX)
			return "name: too long";
	}
	return NULL;
}

/* Unless there is none. */
static void add_limit(struct control_writer *writer, const char *key, uint32_t limit) {
	if (limit != LIMIT_NONE)
		control_writer_add(writer, key, "%u", limit);
}

void control_answer_class(struct control_writer *writer,
    const struct generation *generation, const struct answer *answer) {
	const struct generation_rule *rule =
	    generation_rule(generation, answer->rule);
	const struct generation_class *class =
	    generation_class(generation, answer->class_index);

	control_writer_add(writer, "class", "%s",
	    generation_text(generation, class->name));
	control_writer_add(writer, "rule", "%s",
	    generation_text(generation, rule->text));
	control_writer_add(writer, "file", "%s",
	    generation_text(generation, rule->file));
	control_writer_add(writer, "line", "%u", rule->line);
}

void control_answer_decision(struct control_writer *writer,
    const struct answer *answer) {
	control_writer_add(writer, "verdict", "%s",
	    verdict_words[answer->decision.verdict]);
	control_writer_add(writer, "reason", "%s",
	    decided_reason_word(answer->decision.reason));
	if (answer->decision.lease != LEASE_NONE)
		control_writer_add(writer, "lease", "%s",
		    lease_word(answer->decision.lease));
	control_writer_add(writer, "observed", "%d", answer->observed);
}

void control_answer_counts(struct control_writer *writer, const struct engine *engine,
    const struct generation *generation, const struct answer *answer, uint32_t open) {
	const struct generation_class *class =
	    generation_class(generation, answer->class_index);
	struct limits whole;

	control_writer_add(writer, "count", "%u", answer->decision.count);
	add_limit(writer, "limit", answer->decision.limit);
	control_writer_add(writer, "open", "%u", open);
	add_limit(writer, "hold_at", class->limits.sessions);
	add_limit(writer, "refuse_at", class->limits.inbound);
	if (!class->shared)
		return;
	shares_whole(engine, generation, answer->class_index, clock_now_ns(), &whole);
	add_limit(writer, "sessions_in_force", whole.sessions);
	add_limit(writer, "inbound_in_force", whole.inbound);
}

static void add_class(struct control_writer *writer, const struct engine *engine,
    const struct generation *generation, const struct answer *answer,
    uint32_t open, uint32_t client_open) {
	const struct generation_class *class =
	    generation_class(generation, answer->class_index);

	control_answer_class(writer, generation, answer);
	if (answer->decision.reason == REASON_EXEMPT)
		return;
	control_answer_counts(writer, engine, generation, answer, open);
	if (class->has_client_limit)
		control_writer_add(writer, "client_open", "%u", client_open);
	add_limit(writer, "client_sessions", class->limits.client_sessions);
}

/* Is there a mail server of this kind, as far as the configuration says? */
static bool serves(const struct generation *generation, enum mta_kind kind) {
	for (uint32_t i = 0; i < generation->mta_count; i++)
		if (generation->mtas[i].kind == kind)
			return true;
	return generation->mta_count == 0;
}

/* Postfix puts its words around ours where it asks by the policy protocol; by the milter
 * protocol at connect either mail server says its own, and ours stands in its log.  Sendmail
 * says ours where it asks by socket map. */
static void add_client_reads(struct control_writer *writer, const struct generation *generation,
    const struct question *question, const struct answer *answer, const char *text) {
	bool postfix = serves(generation, MTA_POSTFIX), sendmail = serves(generation, MTA_SENDMAIL);
	char address[ADDRESS_TEXT_MAX];

	address_format(&question->client, address);
	if (generation_has_listener(generation, LISTENER_POLICY) && answer->decision.verdict == VERDICT_REFUSE)
		control_writer_add(writer, "client_reads_policy",
		    "421 4.7.0 <%s[%s]>: Client host rejected: %s",
		    question->name == NULL ? "unknown" : question->name, address, text);
	else if (generation_has_listener(generation, LISTENER_POLICY))
		control_writer_add(writer, "client_reads_policy",
		    "450 4.7.0 <RECIPIENT>: Recipient address rejected: %s", text);
	if (generation_has_listener(generation, LISTENER_MILTER))
		control_writer_add(writer, "client_reads_milter", "%s%s%s",
		    postfix ? "421 HOST Service unavailable - try again later" : "",
		    postfix && sendmail ? " (Postfix); " : "",
		    sendmail ? postfix ? "421 4.7.0 HOST closing connection (Sendmail)" :
		    "421 4.7.0 HOST closing connection" : "");
	if (generation_has_listener(generation, LISTENER_SOCKETMAP) && sendmail)
		control_writer_add(writer, "client_reads_map", "421 4.7.0 %s", text);
}

static size_t explain(struct engine *engine, const struct generation *generation,
    const struct question *question, char *out) {
	char address[ADDRESS_TEXT_MAX], text[REPLY_TEXT_SIZE];
	struct control_writer writer;
	struct answer answer;
	uint32_t open, client_open;

	engine_explain(engine, generation, question, clock_now_ns(), &answer,
	    &open, &client_open);
	address_format(&question->client, address);
	control_answer_begin(&writer, out);
	control_writer_add(&writer, "address", "%s", address);
	if (question->name != NULL)
		control_writer_add(&writer, "name", "%s", question->name);
	control_writer_add(&writer, "port", "%u", question->server_port);
	if (answer.rule != CLASS_NO_RULE)
		add_class(&writer, engine, generation, &answer, open, client_open);
	control_answer_decision(&writer, &answer);
	if (answer.decision.verdict != VERDICT_ADMIT) {
		(void)decision_client_text(generation, question, &answer, text);
		control_writer_add(&writer, "answer", "%s %s",
		    answer.decision.verdict == VERDICT_REFUSE ?
		    "421 4.7.0" : "DEFER_IF_PERMIT 4.7.0", text);
		add_client_reads(&writer, generation, question, &answer, text);
	}
	return control_answer_finish(&writer, out);
}

static size_t answer_explain(struct engine *engine,
    const struct control_frame *request, char *out) {
	const struct generation *generation;
	struct question question;
	const char *wrong = read_question(request, &question);
	size_t length;

	if (wrong != NULL)
		return control_answer_end(out, CONTROL_ANSWER_BYTES, EX_USAGE,
		    wrong);
	generation = engine_pin(engine);
	length = explain(engine, generation, &question, out);
	engine_unpin(engine, generation);
	return length;
}

/* Where the rest is to be read. */
static size_t answer_ping(const struct engine *engine, char *out) {
	struct control_writer writer;

	control_answer_begin(&writer, out);
	control_writer_add(&writer, "state", "%s", engine_state_path(engine));
	return control_answer_finish(&writer, out);
}

enum control_request control_answer(struct engine *engine,
    const struct control_frame *request, const struct control_peer *peer, char *out,
    size_t *length) {
	char text[256];
	const char *words = control_frame_get(request, "command");
	const struct command *command = words == NULL ? NULL : find_command(words);

	if (command == NULL)
		*length = control_answer_end(out, CONTROL_ANSWER_BYTES, EX_USAGE,
		    "unknown command");
	else if (command->permission == OPERATOR && peer->permission != CONTROL_OPERATOR) {
		*length = control_answer_end(out, CONTROL_ANSWER_BYTES, EX_NOPERM,
		    control_refusal(peer, words, CONTROL_OPERATOR, text, sizeof(text)));
	} else if (strcmp(words, "explain session") == 0)
		*length = answer_explain(engine, request, out);
	else if (strcmp(words, "explain destination") == 0)
		*length = control_answer_destination(engine, request, out);
	else if (manual_find(words) != MANUAL_NONE)
		*length = control_answer_by_hand(engine, request, peer->uid, out);
	else if (strcmp(words, "cluster forget") == 0)
		*length = control_answer_cluster(engine, request, peer->uid, out);
	else if (strcmp(words, "forget account") == 0 || strcmp(words, "resume account") == 0)
		*length = control_answer_account(engine, request, *words == 'r', peer->uid, out);
	else if (strcmp(words, "reload") == 0)
		return CONTROL_REQUEST_RELOAD;
	else	/* ping */
		*length = answer_ping(engine, out);
	return CONTROL_REQUEST_ANSWERED;
}
