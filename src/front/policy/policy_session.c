/* SPDX-License-Identifier: ISC */
/*
 * The meaning of policy requests.
 *
 * MODEL: CONNECT opens a session and is the sign that the one before it on this
 * connection is over; nothing else says so, but the end of the connection.
 * XCLIENT puts another client in its place: the kernel still shows the tuple of
 * the CONNECT, which is remembered for that.  RCPT matters to sessions that were
 * let in though their class was full; it comes by a connection of its own where
 * the two lists of the MTA differ, so each is looked up.  RCPT and END-OF-MESSAGE of
 * clients that logged in matter to their accounts.  All else is none of our business:
 * DUNNO.
 * ERRORS: an address or port that is none is counted and logged, and DUNNO.
 * THREADS: one for each policy_session.
 */
#include "front/policy/policy_session.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "engine/account/accounts.h"
#include "engine/destination/windows.h"
#include "front/policy/account_policy.h"
#include "front/decision/decision_log.h"

static size_t dunno(char *out) {
	static const char reply[] = "action=DUNNO\n\n";	/* nearly all */

	memcpy(out, reply, sizeof(reply) - 1);
	return sizeof(reply) - 1;
}

static size_t reply_with_text(const struct generation *generation,
    const struct question *question, const struct answer *answer, const char *action,
    char *out) {
	size_t length = policy_reply_begin(out, action);

	length += decision_client_text(generation, question, answer, out + length);
	return policy_reply_end(out, length);
}

static bool same_tuple(const struct address *client, uint16_t port,
    const struct address *other, uint16_t other_port) {
	return port == other_port && address_equal(client, other);
}

static void report_bad_value(struct engine *engine,
    const struct policy_request *request) {
	engine_count(engine, COUNTER_BAD_POLICY_REQUESTS, 1);
	log_event(EVENT_BAD_REQUEST, "from=policy attribute=%s text=\"not a valid address or "
	    "port\" action=dunno",
	    request->bad_value);
}

static void ask_about(struct question *question, const char *data,
    const struct policy_request *request, uint8_t listener) {
	*question = (struct question){
		.client = request->client,
		.client_port = request->client_port,
		.server = request->server,
		.server_port = request->server_port,
		.listener = listener,
		.owner = OWNER_POLICY,
	};
	if (request->client_name.length > 0) {
		question->name = policy_text(data, request->client_name);
		question->name_length = request->client_name.length;
	}
}

static void end_session(struct policy_session *session, struct engine *engine,
    const struct generation *generation, enum session_owner word, int64_t now_ns) {
	if (session->ref.slot != 0)
		engine_session_ended(engine, generation, &session->ref, word,
		    now_ns);
	memset(&session->ref, 0, sizeof(session->ref));
}

void policy_session_over(struct policy_session *session, struct engine *engine,
    const struct generation *generation, int64_t now_ns) {
	end_session(session, engine, generation, OWNER_POLICY_GONE, now_ns);
#ifdef WITH_ACCOUNTS
	engine_account_process_over(engine, session->account_process, false, now_ns);
	session->account_process = 0;
#endif
}

/* The connection stays. */
static void forget_session(struct policy_session *session) {
	*session = (struct policy_session){ .socket = session->socket,
		.is_known = session->is_known,
		.account_process = session->account_process };
}

static size_t open_session(struct policy_session *session,
    struct engine *engine, const struct generation *generation,
    const struct question *question, int64_t now_ns, char *out) {
	struct answer answer;

	session->client = question->client;
	session->client_port = question->client_port;
	engine_session_open(engine, generation, question, now_ns, &answer);
	session->ref = answer.session;
	decision_log(engine, generation, question, &answer, DECISION_AT_CONNECT);
	if (answer.decision.verdict != VERDICT_REFUSE)
		return dunno(out);
	/* without a text Postfix would take 421 for OK */
	return reply_with_text(generation, question, &answer, "421 4.7.0 ", out);
}

static size_t on_connect(struct policy_session *session, struct engine *engine,
    const struct generation *generation, struct question *question,
    int64_t now_ns, char *out) {
	if (!same_tuple(&question->client, question->client_port,
	    &session->client, session->client_port))
		question->over = &session->ref;
	session->connected = question->client;
	session->connected_port = question->client_port;
	return open_session(session, engine, generation, question, now_ns, out);
}

static size_t on_xclient(struct policy_session *session, struct engine *engine,
    const struct generation *generation, struct question *question,
    int64_t now_ns, char *out) {
	/* told without a port: the carrier's keeps two such sessions apart */
	if (question->client_port == 0)
		question->client_port = session->connected_port;
	if (!same_tuple(&question->client, question->client_port,
	    &session->client, session->client_port)) {
		/* not ended but replaced, though its connection lives on */
		if (session->ref.slot != 0)
			engine_session_close(engine, &session->ref, now_ns);
		memset(&session->ref, 0, sizeof(session->ref));
	}
	question->carried = !same_tuple(&question->client,
	    question->client_port, &session->connected, session->connected_port);
	question->carrier_client = session->connected;
	question->carrier_port = session->connected_port;
	return open_session(session, engine, generation, question, now_ns, out);
}

static bool has_local_part(const char *address, size_t length,
    const char *local, size_t local_length) {
	return length > local_length && address[local_length] == '@' &&
	    strncasecmp(address, local, local_length) == 0;
}

/* Mail that must come through whatever the limits: people reach the postmaster,
 * and bounces and authenticated senders are not turned away in the middle. */
static bool is_spared(const char *data, const struct policy_request *request) {
	const char *to = policy_text(data, request->recipient);
	size_t length = request->recipient.length;

	return request->sender.length == 0 ||
	    request->sasl_username.length > 0 ||
	    (length == 10 && strncasecmp(to, "postmaster", 10) == 0) ||
	    has_local_part(to, length, "postmaster", 10) ||
	    has_local_part(to, length, "abuse", 5);
}

/* Mail that can wait is not taken in while its destination takes none.  0: it may come. */
static size_t press_back(struct engine *engine, const struct generation *generation,
    const struct question *question, uint32_t class_index, const char *recipient,
    size_t length, int64_t now_ns, char *out) {
	char client[ADDRESS_TEXT_MAX], shown[DECISION_NAME_SHOWN], text[DECISION_NAME_SHOWN + 100];
	char class[4 * GENERATION_CLASS_NAME_MAX + 4], id[DECISION_ID_MAX];
	struct window_pressure pressure;
	const char *name;
	long long for_s;

	if (!windows_press_back(engine, generation, question, class_index, recipient, length,
	    now_ns, &pressure))
		return 0;
	name = generation_text(generation, generation_class(generation, class_index)->name);
	log_quote(class, sizeof(class), name, strlen(name));
	address_format(&question->client, client);
	log_quote(shown, sizeof(shown), pressure.owner.name, strlen(pressure.owner.name));
	for_s = (pressure.for_ns + NS_PER_SECOND - 1) / NS_PER_SECOND;
	if (log_event(EVENT_BACK_PRESSURE, "id=%s class=%s client=%s[%u] destination=%s "
	    "for=%llds observed=%s", decision_id_text(pressure.id, id), class, client,
	    question->client_port, shown, for_s, pressure.observed ? "yes" : "no"))
		engine_decision_logged(engine, pressure.id);
	if (pressure.observed)
		return 0;
	text[0] = '\0';
	text_append(text, sizeof(text), 0, "Delivery to %s is suspended; try again later "
	    "(id=%s)", shown, id);
	return policy_reply_write(out, POLICY_REPLY_MAX, "DEFER_IF_PERMIT 4.4.1", text);
}

static size_t on_recipient(struct policy_session *session,
    struct engine *engine, const struct generation *generation,
    struct question *question, struct span recipient, int64_t now_ns, char *out) {
	size_t pressed;
	bool ours;
	struct answer answer;

	if (question->client_port == 0 &&
	    address_equal(&question->client, &session->client))
		question->client_port = session->client_port;
	ours = same_tuple(&question->client, question->client_port,
	    &session->client, session->client_port);
	engine_session_recipient(engine, generation, question, now_ns, &answer);
	decision_log(engine, generation, question, &answer,
	    DECISION_AT_RECIPIENT);
	/* only the connection that opened the session is to end it */
	if (ours && session->ref.slot != 0 && answer.session.slot != 0)
		session->ref = answer.session;
	if (answer.decision.verdict != VERDICT_DEFER) {
		pressed = press_back(engine, generation, question, answer.class_index,
		    recipient.text, recipient.length, now_ns, out);
		return pressed > 0 ? pressed : dunno(out);
	}
	return reply_with_text(generation, question, &answer, "DEFER_IF_PERMIT 4.7.0 ", out);
}

/* The role that the session's own connection led to is gone: this may be its next one. */
static void keep_session(struct policy_session *session, struct engine *engine,
    const struct question *question, int64_t now_ns) {
	struct session_ref kept;

	if (session->ref.slot != 0 || address_is_unknown(&question->client))
		return;
	engine_session_kept(engine, question, now_ns, &kept);
	if (kept.slot == 0)
		return;
	session->ref = kept;
	session->client = question->client;
	session->client_port = question->client_port;
}

size_t policy_session_answer(struct policy_session *session,
    struct engine *engine, const struct generation *generation,
    uint8_t listener, const char *data, const struct policy_request *request,
    int64_t now_ns, char *out) {
	bool opens = request->state == POLICY_STATE_CONNECT ||
	    request->state == POLICY_STATE_XCLIENT;
	struct question question;

	if (request->bad_value != NULL)
		report_bad_value(engine, request);
	ask_about(&question, data, request, listener);
	question.owner_socket = session->socket;
	if (!opens)
		keep_session(session, engine, &question, now_ns);
#ifdef WITH_ACCOUNTS
	if (!opens && account_policy_concerns(generation, request)) {
		size_t length = account_policy_answer(engine, generation, listener, data, request,
		    now_ns, &session->account_process, out);

		if (length > 0)
			return length;
	}
#endif
	if (!opens && (request->state != POLICY_STATE_RCPT ||
	    is_spared(data, request)))
		return dunno(out);
	if (address_is_unknown(&question.client)) {
		/* somebody without an address; whoever was here before is gone */
		if (opens) {
			end_session(session, engine, generation, OWNER_POLICY,
			    now_ns);
			forget_session(session);
			engine_count(engine, COUNTER_UNTRACKED, 1);
		}
		return dunno(out);
	}
	switch (request->state) {
	case POLICY_STATE_CONNECT:
		return on_connect(session, engine, generation, &question,
		    now_ns, out);
	case POLICY_STATE_XCLIENT:
		return on_xclient(session, engine, generation, &question,
		    now_ns, out);
	default:
		return on_recipient(session, engine, generation, &question,
		    (struct span){ policy_text(data, request->recipient),
			request->recipient.length }, now_ns, out);
	}
}
