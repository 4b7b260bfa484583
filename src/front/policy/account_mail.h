/* SPDX-License-Identifier: ISC */
/*
 * A session as a mail server that tells each step of a transaction sees it (milter): accounts
 * (engine/account/accounts.h).  One thread at a time for a session.
 */
#ifndef FRONT_ACCOUNT_MAIL_H
#define FRONT_ACCOUNT_MAIL_H

#include <stdint.h>

#include "base/login.h"
#include "engine/engine.h"
#include "front/policy/account_policy.h"

#define ACCOUNT_MAIL_NAME	256

/* All zero at its connect, but for the client. */
struct account_mail_session {
	struct address client;
	uint16_t client_port, server_port;
	size_t name_length;	/* 0: it has no verified name */
	char name[ACCOUNT_MAIL_NAME];
	uint32_t number;	/* of the session in this process */
	uint32_t transaction;
	uint32_t recipients;	/* that were let in */
	uint64_t bytes;		/* of its body so far: the caller's to add to */
	uint64_t process;	/* as the engine knows it; 0: nothing was asked */
	bool has_sender;	/* else it is a bounce */
	size_t login_length;	/* 0: this transaction counts for nobody */
	char login[LOGIN_MAX];
};

/* MAIL FROM: `login` may be NULL; then it counts for the client's class, if that has limits. */
void account_mail_from(struct account_mail_session *session, struct engine *engine,
    const char *login, const char *sender, int64_t now_ns);

/* RCPT TO, and the end of the message.  False: *reply is to be given. */
bool account_mail_recipient(struct account_mail_session *session, struct engine *engine,
    uint8_t listener, const char *recipient, int64_t now_ns, struct account_reply *reply);
bool account_mail_end(struct account_mail_session *session, struct engine *engine,
    uint8_t listener, const char *queue_id, int64_t now_ns,
    struct account_reply *reply);

/* The transaction was given up, or the session ended. */
void account_mail_over(struct account_mail_session *session, struct engine *engine,
    int64_t now_ns);

#endif
