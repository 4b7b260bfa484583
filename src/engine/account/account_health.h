/* SPDX-License-Identifier: ISC */
/*
 * Accounts whose mail says that they are stolen (policy/limit/health.h).
 *
 * A message is a login's because a mail server that asked said so, with its queue ID, when the
 * message ended (engine/accounts.h): no line of a log ever says whose a message is, as anybody
 * who may write one would blame whom he likes.  Lines tell results of queue IDs alone.  A
 * content filter on loopback that queues the message again under another ID is followed.
 *
 * Any thread, but for the feed's where it says so.
 */
#ifndef ENGINE_ACCOUNT_HEALTH_H
#define ENGINE_ACCOUNT_HEALTH_H

#include "engine/engine.h"
#include "engine/judge/judge.h"
#include "policy/reply/delivery.h"
#include "segment/account/account_health.h"

/* What was found wrong, and done: for the log. */
struct account_trip {
	uint64_t id;		/* of the decision; 0: nothing */
	bool is_held;		/* false: observe mode, or only an alert */
	bool observed;
	enum health_verdict verdict;
	struct health_counts counts;
	const char *reason;	/* "account-unknown" ...: static */
	const struct generation_account *account;
	const char *login;	/* of the caller's */
};
/* Who hears of it, in this process. */
void engine_account_listen(struct engine *engine, void (*tell)(
    const struct generation *generation, const struct account_trip *trip));

/* The login is used from another network than `before`, where it was until before_ns (0: from
 * none).  `name`: as account.name has it.  Returns how many networks count, with this one; where
 * the entry has no health and they are too many, this one is refused and counts no more. */
uint32_t engine_account_network(struct engine *engine, const struct generation *generation,
    const struct generation_account *entry, const struct login_key *login, const char *name,
    uint32_t before, int64_t before_ns, uint32_t network, int64_t now_ns);
/* The hash of an address's network, never 0; 0: there is no address. */
uint32_t engine_account_network_of(const struct engine *engine, const struct address *client);

/* A result that was read for the first time: the feed's thread.  `mtas`: as judge_delivery had
 * them. */
void engine_account_result(struct engine *engine, const struct generation *generation,
    unsigned mtas, const struct delivery *delivery, const struct judgement *judgement,
    int64_t now_ns);
/* Judges those again who looked stolen ten seconds ago: the feed, each second. */
void engine_account_suspects_turn(struct engine *engine, const struct generation *generation,
    int64_t now_ns);
/* A message has left the queue. */
void engine_account_removed(struct engine *engine, const struct generation *generation,
    unsigned mta, const char *queue_id, size_t length, int64_t now_ns);

/* False: it is not known, or not held. */
bool engine_account_resume(struct engine *engine, const char *login, size_t length,
    int64_t now_ns);

#endif
