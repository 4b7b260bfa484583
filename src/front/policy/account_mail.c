/* SPDX-License-Identifier: ISC */
/* Sessions whose steps are all told (account_mail.h). */
#include "front/policy/account_mail.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/account/accounts.h"

#define INSTANCE_SIZE	64

static _Atomic uint32_t sessions;

/* "PID-BEGAN-SESSION.TRANSACTION": before the point what stands for the process of a Postfix.  A
 * process that has the number of one that was killed is another one. */
static size_t instance_of(const struct account_mail_session *session, char out[INSTANCE_SIZE]) {
	static _Atomic int64_t began_ns;
	int64_t none = 0;

	if (atomic_load(&began_ns) == 0)
		(void)atomic_compare_exchange_strong(&began_ns, &none, clock_now_ns());
	return (size_t)snprintf(out, INSTANCE_SIZE, "%lx-%llx-%x.%x", (long)getpid(),
	    (unsigned long long)atomic_load(&began_ns), session->number, session->transaction);
}

/* "<user@example.com>" as it stands in a command. */
static const char *without_brackets(const char *address, size_t *length) {
	*length = strlen(address);
	if (*length >= 2 && address[0] == '<' && address[*length - 1] == '>') {
		*length -= 2;
		return address + 1;
	}
	return address;
}

static size_t class_login(const struct account_mail_session *session, struct engine *engine,
    char out[LOGIN_MAX]) {
	const struct account_client client = { .address = session->client,
		.server_port = session->server_port, .name = session->name,
		.name_length = session->name_length };
	const struct generation *generation = engine_pin(engine);
	size_t length = generation->accounts.class_entries == 0 ? 0 :
	    account_class_login(generation, &client, out);

	engine_unpin(engine, generation);
	return length;
}

void account_mail_from(struct account_mail_session *session, struct engine *engine,
    const char *login, const char *sender, int64_t now_ns) {
	size_t length = login == NULL ? 0 : strlen(login), sender_length;

	account_mail_over(session, engine, now_ns);
	(void)without_brackets(sender, &sender_length);
	if (session->number == 0)
		session->number = atomic_fetch_add(&sessions, 1) + 1;
	session->transaction++;
	session->recipients = 0;
	session->bytes = 0;
	session->has_sender = sender_length > 0;
	session->login_length = length > LOGIN_MAX ? 0 : length;
	if (session->login_length > 0)
		memcpy(session->login, login, length);
	else if (length == 0)
		session->login_length = class_login(session, engine, session->login);
}

static bool ask(struct account_mail_session *session, struct engine *engine,
    struct account_question *question, int64_t now_ns, struct account_reply *reply) {
	const struct generation *generation = engine_pin(engine);
	char instance[INSTANCE_SIZE];
	bool good = true;

	if (generation->accounts.count > 0) {
		question->login = session->login;
		question->login_length = session->login_length;
		question->sender = "-";
		question->sender_length = session->has_sender;
		question->instance = instance;
		question->instance_length = instance_of(session, instance);
		question->client = session->client;
		question->client_port = session->client_port;
		good = account_ask(engine, generation, question, now_ns, &session->process,
		    reply);
	}
	engine_unpin(engine, generation);
	return good;
}

bool account_mail_recipient(struct account_mail_session *session, struct engine *engine,
    uint8_t listener, const char *recipient, int64_t now_ns, struct account_reply *reply) {
	struct account_question question = { .listener = listener };

	question.recipient = without_brackets(recipient, &question.recipient_length);
	if (session->login_length > 0 && question.recipient_length > 0 &&
	    !ask(session, engine, &question, now_ns, reply))
		return false;
	session->recipients++;
	return true;
}

bool account_mail_end(struct account_mail_session *session, struct engine *engine,
    uint8_t listener, const char *queue_id, int64_t now_ns,
    struct account_reply *reply) {
	struct account_question question = { .listener = listener, .at_end = true,
		.size = session->bytes, .recipient_count = session->recipients,
		.queue_id = queue_id, .queue_id_length = queue_id == NULL ? 0 :
		    strlen(queue_id) };

	return session->login_length == 0 || ask(session, engine, &question, now_ns, reply);
}

void account_mail_over(struct account_mail_session *session, struct engine *engine,
    int64_t now_ns) {
	engine_account_process_over(engine, session->process, true, now_ns);
	session->process = 0;
	session->login_length = 0;
}
