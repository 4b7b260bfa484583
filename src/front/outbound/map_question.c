/* SPDX-License-Identifier: ISC */
/*
 * The meaning of socketmap requests.
 *
 * MODEL: the key says which host and recipient mail is for and, once connected, who
 * answered; the engine says whether this process may.  Without a host (local delivery), or
 * connected to what has no address (a pipe), there is nothing to ask.  Clients have a map of
 * their own, so that their connections are told apart from those of delivering processes.
 * Mail that is accepted has one, too, which names queue groups.
 * ERRORS: a map or key that is not ours is "not found", counted and logged.
 * THREADS: one for each map_client.
 */
#include "front/outbound/map_question.h"

#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/pace_text.h"
#include "base/text.h"
#include "engine/decision/decided.h"
#include "engine/outbound/outbound.h"
#include "front/decision/decision_log.h"
#include "segment/decision/decisions.h"
#include "wire/ask/outbound_key.h"

/* The second one fails open in Sendmail's own way (sendmail-queue.mc). */
static const char *const outbound_maps[] = { "postern", "posternturn" };
static const char connect_map[] = "posternconnect";
static const char group_map[] = "posterngroup";

#define WHY_SHOWN	120

static size_t not_ours(struct engine *engine, const struct map_client *client,
    const char *what, const char *text, size_t length, char *out) {
	char shown[100];

	engine_count(engine, COUNTER_BAD_MAP_REQUESTS, 1);
	log_quote(shown, sizeof(shown), text, length < sizeof(shown) ? length : sizeof(shown));
	log_event(EVENT_BAD_REQUEST, "from=socketmap pid=%d text=\"%s\" bytes=%s "
	    "action=notfound", (int)client->pid, what, shown);
	return socketmap_reply(out, SOCKETMAP_NOTFOUND, "");
}

/* The first Sendmail of the configuration: its sockets do not tell which. */
static uint8_t mta_number(const struct generation *generation) {
	for (uint32_t i = 0; i < generation->mta_count; i++)
		if (generation->mtas[i].kind == MTA_SENDMAIL)
			return (uint8_t)i;
	return UINT8_MAX;
}

static void write_event(struct engine *engine,
    const struct generation *generation, const struct map_client *client,
    const struct outbound_key *key, const struct outbound_answer *answer) {
	char id[DECISION_ID_MAX], cause[DECISION_ID_MAX], relay[ADDRESS_TEXT_MAX] = "-";
	char host[DECISION_NAME_SHOWN], name[DECISION_NAME_SHOWN], queue_id[80];
	char window[DECISION_NAME_SHOWN], share[DECISION_SHARE_SHOWN];
	const char *relay_name = answer->found.relay_name;
	struct decision_rule rule;

	decision_rule_words(generation, &answer->answer, &rule);
	log_quote(host, sizeof(host), key->host.text, key->host.length);
	log_quote(queue_id, sizeof(queue_id), key->queue_id.text, key->queue_id.length);
	log_quote(name, sizeof(name), relay_name, strlen(relay_name));
	if (!address_is_unknown(&answer->found.relay))
		address_format(&answer->found.relay, relay);
	log_quote(window, sizeof(window), answer->owner, strlen(answer->owner));
	if (log_event(decision_event(&answer->answer),
	    "id=%s cause=%s class=%s destination=%s found_by=%s window=%s relay=%s name=%s queue_id=%s "
	    "pid=%d stage=%s count=%u limit=%u%s reason=%s rule=%s mask=%s action=%s",
	    decision_id_text(answer->answer.id, id), decision_id_text(answer->cause, cause),
	    rule.class, host,
	    class_source_word(answer->found.source), window, relay, name, queue_id,
	    (int)client->pid,
	    key->kind == OUTBOUND_KEY_COMPAT ? "before-connect" : "connected",
	    answer->answer.decision.count, answer->answer.decision.limit,
	    decision_share_words(&answer->answer, share),
	    decided_reason_word(answer->answer.decision.reason), rule.place, rule.mask,
	    answer->answer.decision.reason == REASON_DELIVERED ? "discard" :
	    answer->answer.decision.verdict == VERDICT_ADMIT && !answer->answer.observed ?
	    "admit" : "defer"))
		engine_decision_logged(engine, answer->answer.id);
}

/* Sendmail takes the text to pieces and puts it together again: only what it leaves as
 * it is goes into it, and it must leave room for the rest of the reply. */
static void append_plain(char *out, size_t size, const char *text) {
	static const char others[] = "-_.:/@[]";
	size_t at = strlen(out);

	for (; *text != '\0' && at + 1 < size; text++) {
		bool plain = (*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') ||
		    (*text >= '0' && *text <= '9') || strchr(others, *text) != NULL;
		char c = plain ? *text : *text == ' ' ? ' ' : '_';

		if (c != ' ' || (at > 0 && out[at - 1] != ' '))
			out[at++] = c;
	}
	out[at] = '\0';
}

/* The text stays with the message until the next queue run: no "for so long".  UTC,
 * the minute after it; a date where that is a day away. */
static void append_time(char *out, size_t size, int64_t until_ns, int64_t now_ns) {
	time_t now = (time_t)clock_wall_s(), until;
	struct tm then;
	char text[32];

	if (until_ns == INT64_MAX)
		text_append(out, size, strlen(out), " until it is resumed");
	if (until_ns == INT64_MAX || until_ns <= now_ns)
		return;
	until = now + (time_t)((until_ns - now_ns) / NS_PER_SECOND) + 60;
	if (gmtime_r(&until, &then) == NULL ||
	    strftime(text, sizeof(text), until - now < 24 * 3600 ? "%H:%MZ" : "%Y-%m-%d",
		&then) == 0)
		return;
	text_append(out, size, strlen(out), " until %s", text);
}

/* For posternctl why: of the suspension or hold, which lasts, rather than of this question. */
static void append_id(char *out, size_t size, const struct outbound_answer *answer) {
	uint64_t decided = answer->cause != 0 ? answer->cause : answer->answer.id;
	char id[DECISION_ID_MAX];

	if (decided != 0)
		text_append(out, size, strlen(out), " id %s", decision_id_text(decided, id));
}

/* What is held, by which decision, with what somebody said about it.  mailq shows the first
 * 60 characters, "deferred by Postern: " before these, so until when stands early. */
static void tell_held(const char *what, const char *name, const struct outbound_answer *answer,
    int64_t now_ns, char *text, size_t size) {
	text_append(text, size, strlen(text), "%s", what);
	append_plain(text, size, name);
	text_append(text, size, strlen(text), " is %s", answer->answer.decision.reason ==
	    REASON_SUSPENDED ? "suspended" : "held");
	append_time(text, size, answer->until_ns, now_ns);
	append_id(text, size, answer);
	if (answer->why[0] != '\0') {
		text_append(text, size, strlen(text), " - ");
		append_plain(text, size < strlen(text) + WHY_SHOWN ? size :
		    strlen(text) + WHY_SHOWN, answer->why);
	}
}

/* Without a comma, which Sendmail would not leave as it is. */
static void tell_sessions(const struct answer *answer, char *text, size_t size) {
	const struct decision *decision = &answer->decision;

	text_append(text, size, strlen(text), " has %u of %s%u ", decision->count,
	    decision->reason == REASON_CLASS_SHARE ? "its " : "", decision->limit);
	if (decision->reason == REASON_CLASS_SHARE)
		text_append(text, size, strlen(text), "of %u ", decision->whole);
	text_append(text, size, strlen(text), "sessions%s",
	    decision->lease == LEASE_ENDED ? " and no lease" : "");
}

static size_t deferral(const struct generation *generation,
    const struct outbound_answer *out_answer, int64_t now_ns, char *out) {
	const struct answer *answer = &out_answer->answer;
	const char *class = answer->class_index == CLASS_NO_RULE ? "" :
	    generation_text(generation, generation_class(generation, answer->class_index)->name);
	char text[512] = "DEFER ", pace[PACE_TEXT_MAX];

	switch (answer->decision.reason) {
	case REASON_WINDOW_FULL:
		append_plain(text, sizeof(text), out_answer->owner);
		text_append(text, sizeof(text), strlen(text), " has %u of %u deliveries",
		    answer->decision.count, answer->decision.limit);
		break;
	case REASON_PACE:
		text_append(text, sizeof(text), strlen(text), "pace of ");
		append_plain(text, sizeof(text), out_answer->owner);
		text_append(text, sizeof(text), strlen(text), " is %s",
		    pace_text(out_answer->interval_ns, pace));
		break;
	case REASON_SUSPENDED:
		tell_held("", out_answer->owner, out_answer, now_ns, text, sizeof(text));
		return socketmap_reply(out, SOCKETMAP_OK, text);
	case REASON_RECIPIENT_HELD:
		tell_held("this ", "recipient", out_answer, now_ns, text, sizeof(text));
		return socketmap_reply(out, SOCKETMAP_OK, text);
	case REASON_CLASS_HELD:
		tell_held("class ", class, out_answer, now_ns, text, sizeof(text));
		return socketmap_reply(out, SOCKETMAP_OK, text);
	case REASON_NOT_ITS_TURN:
		text_append(text, sizeof(text), strlen(text), "waits for its turn");
		return socketmap_reply(out, SOCKETMAP_OK, text);
	case REASON_UNUSABLE:
		text_append(text, sizeof(text), strlen(text), "the shared state is not "
		    "available");
		break;
	default:
		text_append(text, sizeof(text), strlen(text), "class ");
		append_plain(text, sizeof(text), class);
		tell_sessions(answer, text, sizeof(text));
	}
	append_id(text, sizeof(text), out_answer);
	return socketmap_reply(out, SOCKETMAP_OK, text);
}

static size_t discard(const struct answer *answer, char *out) {
	char id[DECISION_ID_MAX], text[64] = "DISCARD ";

	text_append(text, sizeof(text), strlen(text), "%s", decision_id_text(answer->id, id));
	return socketmap_reply(out, SOCKETMAP_OK, text);
}

static size_t answer_turn(struct engine *engine, const struct generation *generation,
    const struct outbound_key *key, int64_t now_ns, char *out) {
	struct outbound_answer why;
	char text[512] = "WAIT ";

	if (outbound_is_its_turn(engine, generation, key->queue_id.text, key->queue_id.length,
	    key->host.text, key->host.length, now_ns))
		return socketmap_reply(out, SOCKETMAP_OK, "OK");
	outbound_turn_why(engine, generation, key->host.text, key->host.length,
	    mta_number(generation), now_ns, &why);
	if (why.answer.decision.reason == REASON_SUSPENDED)
		tell_held("", why.owner, &why, now_ns, text, sizeof(text));
	else
		text_append(text, sizeof(text), strlen(text), "waits for its turn");
	return socketmap_reply(out, SOCKETMAP_OK, text);
}

static size_t question_ask(const struct map_client *client, struct engine *engine,
    const struct generation *generation, const struct outbound_key *key,
    int64_t now_ns, char *out) {
	const struct outbound_question question = {
		.stage = key->kind == OUTBOUND_KEY_COMPAT ? OUTBOUND_BEFORE_CONNECT :
		    OUTBOUND_CONNECTED,
		.destination = key->host.text,
		.destination_length = key->host.length,
		.server_name = key->server_name.text,
		.server_name_length = key->server_name.length,
		.server = key->server,
		.mta = mta_number(generation),
		.client = key->session.client,
		.client_port = key->session.client_port,
		.client_server = key->session.server,
		.client_server_port = key->session.server_port,
		.recipient = key->recipient.text,
		.recipient_length = key->recipient.length,
		.queue_id = key->queue_id.text,
		.queue_id_length = key->queue_id.length,
	};
	struct outbound_answer answer;

	outbound_process_ask(client->process, generation, &question, now_ns, &answer);
	if (decided_is_worth_it(&answer.answer))
		write_event(engine, generation, client, key, &answer);
	if (answer.answer.decision.verdict == VERDICT_ADMIT)
		return socketmap_reply(out, SOCKETMAP_OK, "OK");
	if (answer.answer.decision.verdict == VERDICT_DISCARD)
		return discard(&answer.answer, out);
	return deferral(generation, &answer, now_ns, out);
}

static bool is_map(const struct socketmap_request *request, const char *name) {
	return request->map_length == strlen(name) &&
	    memcmp(request->map, name, request->map_length) == 0;
}

bool map_question_is_outbound(const struct socketmap_request *request) {
	for (size_t i = 0; i < sizeof(outbound_maps) / sizeof(outbound_maps[0]); i++)
		if (is_map(request, outbound_maps[i]))
			return true;
	return false;
}

static size_t answer_outbound(const struct map_client *client, struct engine *engine,
    const struct generation *generation, const struct outbound_key *key,
    int64_t now_ns, char *out) {
	if (key->kind == OUTBOUND_KEY_TURN)
		return answer_turn(engine, generation, key, now_ns, out);
	if (key->host.length == 0 ||
	    (key->kind == OUTBOUND_KEY_TLSSRV && address_is_unknown(&key->server)))
		return socketmap_reply(out, SOCKETMAP_OK, "OK");
	if (client->process == NULL) {
		engine_count(engine, COUNTER_UNTRACKED, 1);
		return socketmap_reply(out, SOCKETMAP_OK, "OK");
	}
	return question_ask(client, engine, generation, key, now_ns, out);
}

size_t map_question_answer(struct map_client *client, struct engine *engine,
    const struct generation *generation, const struct socketmap_request *request,
    int64_t now_ns, char out[SOCKETMAP_REPLY_MAX]) {
	bool inbound = is_map(request, connect_map), groups = is_map(request, group_map);
	struct outbound_key outbound_key;
	struct inbound_key inbound_key;
	size_t length = !groups ? 0 : map_group_answer(&client->group, engine, generation,
	    mta_number(generation), request, out);

	if (length != 0)
		return length;
	if (!inbound && !groups && !map_question_is_outbound(request))
		return not_ours(engine, client, "unknown map", request->map,
		    request->map_length, out);
	if (inbound && inbound_key_parse(request->key, request->key_length, &inbound_key))
		return map_session_answer(&client->session, engine, generation,
		    client->listener, client->fd, client->pid, &inbound_key, now_ns, out);
	if (!inbound && !groups && outbound_key_parse(request->key, request->key_length, &outbound_key))
		return answer_outbound(client, engine, generation, &outbound_key, now_ns, out);
	return not_ours(engine, client, "the key is not a question", request->key,
	    request->key_length, out);
}
