/* SPDX-License-Identifier: ISC */
/*
 * Policy requests about accounts.  What is over a limit is answered with 450 or 550,
 * which stand wherever the list of restrictions is: nothing that follows it lets the recipient
 * in.  A log line for each.  Any thread.
 */
#include "front/policy/account_policy.h"

#include <string.h>

#include "base/account_text.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "engine/account/accounts.h"
#include "front/decision/decision_log.h"
#include "segment/decision/decisions.h"

bool account_policy_concerns(const struct generation *generation,
    const struct policy_request *request) {
	return generation->accounts.count > 0 && (request->sasl_username.length > 0 ||
	    generation->accounts.class_entries > 0) &&
	    (request->state == POLICY_STATE_RCPT || request->state == POLICY_STATE_END);
}

size_t account_class_login(const struct generation *generation,
    const struct account_client *client, char out[LOGIN_MAX]) {
	uint32_t rule = address_is_unknown(&client->address) ||
	    generation_is_exempt(generation, &client->address, client->name,
		client->name_length) ? UINT32_MAX :
	    generation_match_inbound(generation, client->server_port, &client->address,
		client->name, client->name_length);
	const struct generation_class *class = rule >= generation->rule_count ? NULL :
	    generation_class(generation, generation_rule(generation, rule)->class_index);
	struct address network = client->address;
	char address[ADDRESS_TEXT_MAX];

	if (class == NULL || !class->has_quotas)
		return 0;
	address_truncate(&network, address_is_v4(&network) ? 96u + class->client_bits_v4 :
	    class->client_bits_v6);
	address_format(&network, address);
	return text_append(out, LOGIN_MAX, 0, GENERATION_CLASS_LOGIN "%s:%s",
	    generation_text(generation, class->name), address);
}

static const char *what_word(const struct account_answer *answer) {
	static const char *const words[QUOTA_KINDS] = {
		[QUOTA_RECIPIENTS] = "recipients", [QUOTA_MESSAGES] = "messages",
		[QUOTA_KIB] = "KiB",
	};

	return answer->reason == REASON_ACCOUNT_NETWORKS ? "networks" : words[answer->what];
}

/* Rounded up: after so many there is room. */
static uint64_t retry_s(const struct account_answer *answer) {
	if (answer->wait_ns == INT64_MAX)
		return UINT64_MAX;
	return (uint64_t)((answer->wait_ns + NS_PER_SECOND - 1) / NS_PER_SECOND);
}

static void log_answer(struct engine *engine, const struct generation *generation,
    const struct account_question *question, const struct account_answer *answer) {
	char id[DECISION_ID_MAX], client[ADDRESS_TEXT_MAX], login[DECISION_NAME_SHOWN];
	char entry[4 * GENERATION_CLASS_NAME_MAX + 4], window[ACCOUNT_WINDOW_TEXT];
	char file[DECISION_NAME_SHOWN], retry[24] = "-";
	const char *name = generation_text(generation, answer->account->name);

	if (!log_wants(EVENT_ACCOUNT))
		return;
	if (answer->wait_ns != INT64_MAX)
		text_append(retry, sizeof(retry), 0, "%llus",
		    (unsigned long long)retry_s(answer));
	address_format(&question->client, client);
	log_quote(login, sizeof(login), question->login, question->login_length);
	log_quote(entry, sizeof(entry), name, strlen(name));
	log_quote(file, sizeof(file), answer->file, strlen(answer->file));
	if (answer->reason == REASON_ACCOUNT_HELD) {
		char held_by[DECISION_ID_MAX];

		if (log_event(EVENT_ACCOUNT, "id=%s account=%s login=%s client=%s[%u] at=%s "
		    "reason=account-held held_by=%s rule=%s:%u observed=%s",
		    decision_id_text(answer->id, id), entry, login, client,
		    question->client_port, question->at_end ? "end" : "recipient",
		    decision_id_text(answer->held_by, held_by), file, answer->line,
		    answer->observed ? "yes" : "no"))
			engine_decision_logged(engine, answer->id);
		return;
	}
	if (log_event(EVENT_ACCOUNT, "id=%s account=%s login=%s client=%s[%u] at=%s what=%s "
	    "count=%llu limit=%llu window=%s retry=%s reason=%s rule=%s:%u action=%s "
	    "observed=%s", decision_id_text(answer->id, id), entry, login, client,
	    question->client_port, question->at_end ? "end" : "recipient", what_word(answer),
	    (unsigned long long)answer->used, (unsigned long long)answer->limit,
	    account_window_text(answer->window_s, window), retry,
	    decided_reason_word(answer->reason), file, answer->line,
	    answer->rejects ? "reject" : "defer",
	    answer->observed ? "yes" : "no"))
		engine_decision_logged(engine, answer->id);
}

static void find_code(const struct account_answer *answer, struct account_reply *reply) {
	bool rejects = answer->verdict == VERDICT_REFUSE;
	bool full = answer->reason == REASON_ACCOUNT_PER_MESSAGE;

	reply->code = answer->is_too_large ? "552" : rejects ? "550" : full ? "452" : "450";
	reply->enhanced = answer->is_too_large ? "5.3.4" : rejects ? full ? "5.5.3" : "5.7.1" :
	    full ? "4.5.3" : "4.7.1";
}

static const char *find_text(const struct generation *generation,
    const struct account_answer *answer) {
	if (answer->reason == REASON_ACCOUNT_HELD)
		return "This login is held because it may be stolen; contact your "
		    "administrator (id={id})";
	if (answer->is_too_large)
		return "More than the limit of {limit} {what} in {window}; trying again cannot "
		    "help (id={id})";
	if (answer->reason == REASON_ACCOUNT_PER_MESSAGE)
		return "Recipients of one message are limited to {limit}; send the others in "
		    "another message (id={id})";
	return generation_text(generation, answer->account->text);
}

static void write_reply(const struct generation *generation,
    const struct account_answer *answer, struct account_reply *reply) {
	char id[DECISION_ID_MAX];
	const struct account_values values = {
		.used = answer->used, .limit = answer->limit, .what = what_word(answer),
		.window_s = answer->window_s, .retry_s = retry_s(answer),
		.account = generation_text(generation, answer->account->name),
		.id = decision_id_text(answer->id, id),
	};

	find_code(answer, reply);
	(void)account_text_expand(reply->text, find_text(generation, answer), &values);
}

bool account_ask(struct engine *engine, const struct generation *generation,
    const struct account_question *question, int64_t now_ns, uint64_t *process,
    struct account_reply *reply) {
	struct account_answer answer;

	engine_account_ask(engine, generation, question, now_ns, &answer);
	if (answer.process != 0)
		*process = answer.process;
	if (answer.verdict == VERDICT_ADMIT && !answer.observed)
		return true;
	log_answer(engine, generation, question, &answer);
	if (answer.observed)
		return true;
	write_reply(generation, &answer, reply);
	return false;
}

size_t account_policy_answer(struct engine *engine, const struct generation *generation,
    uint8_t listener, const char *data, const struct policy_request *request, int64_t now_ns,
    uint64_t *process, char *out) {
	struct account_question question = {
		.login = policy_text(data, request->sasl_username),
		.login_length = request->sasl_username.length,
		.sender = policy_text(data, request->sender),
		.sender_length = request->sender.length,
		.recipient = policy_text(data, request->recipient),
		.recipient_length = request->recipient.length,
		.instance = policy_text(data, request->instance),
		.instance_length = request->instance.length,
		.queue_id = policy_text(data, request->queue_id),
		.queue_id_length = request->queue_id.length,
		.size = request->size, .recipient_count = request->recipient_count,
		.at_end = request->state == POLICY_STATE_END, .listener = listener,
		.client = request->client, .client_port = request->client_port,
	};
	struct account_reply reply;
	char code[16], of_class[LOGIN_MAX];

	if (question.login_length == 0) {
		const struct account_client client = { .address = request->client,
			.server_port = request->server_port,
			.name = policy_text(data, request->client_name),
			.name_length = request->client_name.length };

		question.login = of_class;
		question.login_length = account_class_login(generation, &client, of_class);
	}
	if (question.login_length == 0 ||
	    account_ask(engine, generation, &question, now_ns, process, &reply))
		return 0;
	code[0] = '\0';
	text_append(code, sizeof(code), 0, "%s %s", reply.code, reply.enhanced);
	return policy_reply_write(out, POLICY_REPLY_MAX, code, reply.text);
}
