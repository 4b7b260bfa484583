/* SPDX-License-Identifier: ISC */
/*
 * Accounts: quotas per login.  A recipient is charged at its RCPT, the message and its bytes at
 * its end; what a transaction was charged is given back when it ends otherwise: another one of
 * the same smtpd process begins, its connection ends, or nothing is heard of it for an hour.
 *
 * Any thread; nothing blocks longer than 50 ms a lock.  Where the shared state is unusable, or
 * the table is full, the answer is yes, uncounted.
 */
#ifndef ENGINE_ACCOUNTS_H
#define ENGINE_ACCOUNTS_H

#include "engine/engine.h"
#include "segment/account/accounts.h"

struct account_question {
	const char *login;
	size_t login_length;
	const char *sender;		/* length 0: a bounce, which is free */
	size_t sender_length;
	const char *recipient;		/* at the end: the only one; length 0: not known */
	size_t recipient_length;
	const char *instance;		/* of the transaction, "PID.TIME.TIME.NUMBER"; length 0: not
					 * known, then nothing is given back */
	size_t instance_length;
	uint64_t size;			/* at the end: of the message; before: as announced, or 0 */
	uint32_t recipient_count;	/* at the end: that were accepted */
	const char *queue_id;		/* at the end: whose results count for the login (health);
					 * length 0: not known */
	size_t queue_id_length;
	bool at_end;
	uint8_t listener;
	struct address client;		/* for the record */
	uint16_t client_port;
};

struct account_answer {
	enum verdict verdict;		/* ADMIT, DEFER (450) or REFUSE (550) */
	bool observed;			/* would have been refused: ADMIT, and all below is told */
	bool rejects;			/* ... for good: REFUSE, or observed */
	bool is_too_large;		/* the message is above all of a limit: so whatever the action */
	bool is_charged;		/* it counts */
	enum reason reason;
	uint64_t used, limit;
	uint32_t window_s;		/* 0: of one message */
	enum quota_kind what;
	int64_t wait_ns;		/* until there is room; INT64_MAX: never, for this one */
	const struct generation_account *account;	/* NULL: no entry matches */
	const char *file;		/* where the limit is written */
	uint32_t line;
	uint64_t id;			/* of the decision; 0: none */
	uint64_t held_by;		/* id of what holds the login; 0: nothing does */
	uint64_t process;		/* whose transaction it is; 0: not known */
};

void engine_account_ask(struct engine *engine, const struct generation *generation,
    const struct account_question *question, int64_t now_ns, struct account_answer *answer);

/* The connection of a process ended (account_answer.process): its transaction is over.  One that is
 * done is remembered for a while, as smtpd may ask again, but where this was the whole session. */
void engine_account_process_over(struct engine *engine, uint64_t process, bool is_session,
    int64_t now_ns);

/* Gives back what transactions were charged that nothing was heard of for an hour. */
void engine_account_mails_turn(struct engine *engine, int64_t now_ns);

/* That, and what else time does (accounts_turn.c); the keeper, now and then. */
void engine_accounts_turn(struct engine *engine, const struct generation *generation,
    int64_t now_ns);

/* Its counts start from 0.  False: not known, or not to be had. */
bool engine_account_forget(struct engine *engine, const char *login, size_t length,
    int64_t now_ns);

#endif
