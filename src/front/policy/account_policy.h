/* SPDX-License-Identifier: ISC */
/* Policy requests about accounts: those of logins, and of clients of a class that limits what
 * they send (engine/account/accounts.h). */
#ifndef FRONT_ACCOUNT_POLICY_H
#define FRONT_ACCOUNT_POLICY_H

#include "base/account_text.h"
#include "base/login.h"
#include "engine/engine.h"
#include "wire/ask/policy_request.h"

/* Is it about an account: RCPT or END-OF-MESSAGE, where there are any? */
bool account_policy_concerns(const struct generation *generation,
    const struct policy_request *request);

/* Answers it.  Returns the reply's length in `out` (POLICY_REPLY_MAX bytes), or 0: nothing
 * speaks against it.  *process: whose transaction it is, for
 * engine_account_process_over. */
size_t account_policy_answer(struct engine *engine, const struct generation *generation,
    uint8_t listener, const char *data, const struct policy_request *request, int64_t now_ns,
    uint64_t *process, char *out);

/* A client that has not logged in, as the mail server knows it. */
struct account_client {
	struct address address;
	uint16_t server_port;
	const char *name;	/* verified; length 0: not known */
	size_t name_length;
};

/* "class:NAME:ADDRESS", what it counts for where its class limits what it sends: its length,
 * or 0. */
size_t account_class_login(const struct generation *generation,
    const struct account_client *client, char out[LOGIN_MAX]);

/* What a client is answered that is refused. */
struct account_reply {
	const char *code, *enhanced;	/* "450", "4.7.1" */
	char text[REPLY_TEXT_SIZE];
};

/* Asks, and logs what is refused or would be.  False: *reply is to be given.  *process: as
 * below. */
struct account_question;
bool account_ask(struct engine *engine, const struct generation *generation,
    const struct account_question *question, int64_t now_ns, uint64_t *process,
    struct account_reply *reply);

#endif
