/* SPDX-License-Identifier: ISC */
/* Policy requests of clients that logged in: accounts (engine/account/accounts.h). */
#ifndef FRONT_ACCOUNT_POLICY_H
#define FRONT_ACCOUNT_POLICY_H

#include "base/account_text.h"
#include "engine/engine.h"
#include "wire/ask/policy_request.h"

/* Is it about an account: RCPT or END-OF-MESSAGE, where there are any? */
bool account_policy_concerns(const struct generation *generation,
    const struct policy_request *request);

/* Answers it.  Returns the reply's length in `out` (POLICY_REPLY_MAX bytes), or 0: nothing
 * speaks against it.  *process: whose transaction it is, for account_policy_over. */
size_t account_policy_answer(struct engine *engine, const struct generation *generation,
    uint8_t listener, const char *data, const struct policy_request *request, int64_t now_ns,
    uint64_t *process, char *out);

/* What a client is answered that is refused. */
struct account_reply {
	const char *code, *enhanced;	/* "450", "4.7.1" */
	char text[ACCOUNT_TEXT_SIZE];
};

/* Asks, and logs what is refused or would be.  False: *reply is to be given.  *process: as
 * below. */
struct account_question;
bool account_ask(struct engine *engine, const struct generation *generation,
    const struct account_question *question, int64_t now_ns, uint64_t *process,
    struct account_reply *reply);

/* The policy connection of this process ended. */
void account_policy_over(struct engine *engine, uint64_t process, int64_t now_ns);

#endif
