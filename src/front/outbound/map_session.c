/* SPDX-License-Identifier: ISC */
/*
 * Questions about clients of Sendmail.
 *
 * MODEL: as a policy CONNECT, but that action "defer" means 421: nobody asks again at its
 * recipients.  Each client has a process of its own.  Sendmail refuses with what it is given,
 * and then asks no milter.
 * ERRORS: a client without address and port, as "sendmail -bs" has none, is let in uncounted.
 * THREADS: one for each map_session.
 */
#include "front/outbound/map_session.h"

#include <string.h>

#include "base/text.h"
#include "front/decision/decision_log.h"

/* Sendmail takes no token of 255 bytes, and would let the client in. */
#define TOKEN_MAX	250
#define TOKEN_START	"421 4.7.0 "

/* Sendmail takes a backslash off, and reads the text as a format, twice. */
static const char *written(const char *at, char plain[2]) {
	switch (*at) {
	case '"':
		return "\\\"";
	case '\\':
		return "\\\\";
	case '%':
		return "%%%%";
	default:
		plain[0] = *at;
		plain[1] = '\0';
		return plain;
	}
}

/* The text as far as its token stays below `most` bytes; returns how much of it that is. */
static size_t append_written(char *token, size_t most, const char *text) {
	size_t at = strlen(token), i;

	for (i = 0; text[i] != '\0'; i++) {
		char plain[2];
		const char *more = written(text + i, plain);
		size_t length = strlen(more);

		if (at + length > most)
			break;
		memcpy(token + at, more, length + 1);
		at += length;
	}
	return i;
}

/* One token.  Of a text that is too long the end is left out, but never the ID. */
static void write_token(char token[TOKEN_MAX + 1], const char *text, uint64_t decision) {
	char id[DECISION_ID_MAX], behind[DECISION_ID_MAX + sizeof(" (id=)")];

	text_copy(token, TOKEN_MAX + 1, TOKEN_START, sizeof(TOKEN_START) - 1);
	if (append_written(token, TOKEN_MAX, text) == strlen(text))
		return;
	behind[0] = '\0';
	if (decision != 0)
		text_append(behind, sizeof(behind), 0, " (id=%s)", decision_id_text(decision, id));
	token[sizeof(TOKEN_START) - 1] = '\0';
	(void)append_written(token, TOKEN_MAX - strlen(behind), text);
	if (decision != 0 && strstr(token, id) == NULL)
		text_append(token, TOKEN_MAX + 1, strlen(token), "%s", behind);
}

static size_t map_refuse(const struct generation *generation, const struct question *question,
    const struct answer *answer, char *out) {
	char client_text[REPLY_TEXT_SIZE], token[TOKEN_MAX + 1], text[TOKEN_MAX + 16];

	(void)decision_client_text(generation, question, answer, client_text);
	write_token(token, client_text, answer->id);
	text[0] = '\0';
	text_append(text, sizeof(text), 0, "REFUSE \"%s\"", token);
	return socketmap_reply(out, SOCKETMAP_OK, text);
}

static bool is_another(const struct map_session *session, const struct question *question) {
	return question->client_port != session->client_port ||
	    !address_equal(&question->client, &session->client);
}

static void end_session(struct map_session *session, struct engine *engine,
    const struct generation *generation, enum session_owner word, int64_t now_ns) {
	if (session->ref.slot != 0)
		engine_session_ended(engine, generation, &session->ref, word, now_ns);
	memset(session, 0, sizeof(*session));
}

size_t map_session_answer(struct map_session *session, struct engine *engine,
    const struct generation *generation, uint8_t listener, int fd, pid_t pid,
    const struct inbound_key *key, int64_t now_ns, char out[SOCKETMAP_REPLY_MAX]) {
	struct question question = {
		.client = key->session.client,
		.client_port = key->session.client_port,
		.server = key->session.server,
		.server_port = key->session.server_port,
		.name = key->name.length > 0 ? key->name.text : NULL,
		.name_length = key->name.length,
		.listener = listener,
		.owner = OWNER_POLICY,
		.process = pid > 0 ? (uint32_t)pid : 0,
		.connect_only = true,
	};
	struct answer answer;

	if (address_is_unknown(&key->session.client) || key->session.client_port == 0)
		return socketmap_reply(out, SOCKETMAP_OK, "OK");
	if (is_another(session, &question))
		end_session(session, engine, generation, OWNER_POLICY, now_ns);
	engine_owner_proof(engine, generation, &question, fd);
	engine_session_open(engine, generation, &question, now_ns, &answer);
	*session = (struct map_session){ answer.session, key->session.client, key->session.client_port };
	decision_log(engine, generation, &question, &answer, DECISION_AT_CONNECT);
	if (answer.decision.verdict == VERDICT_ADMIT)
		return socketmap_reply(out, SOCKETMAP_OK, "OK");
	return map_refuse(generation, &question, &answer, out);
}

void map_session_over(struct map_session *session, struct engine *engine,
    const struct generation *generation, int64_t now_ns) {
	end_session(session, engine, generation, OWNER_POLICY_GONE, now_ns);
}
