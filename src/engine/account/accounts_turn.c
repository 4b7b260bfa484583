/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What time does to accounts: transactions that were given up, limits that a reload
 *          changed, and word of logins that were evicted.
 * MODEL    A login above half of a limit is not evicted.  Each question says until when.  A reload
 *          changes that for those who do not ask, and what is given back does; so all of them are
 *          looked at, some at a time: after a reload, and when one found no room.
 * ERRORS   A login whose lock is not to be had is left until its next question.
 * THREADS  The keeper's alone.
 */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/account/accounts.h"
#include "engine/account/accounts_internal.h"
#include "engine/internal.h"

#define A_TURN		(1 << 17)
#define SEEN_NS		(NS_PER_SECOND / 10)	/* what times are rounded up to */
#define EVICTED_NS	(600 * NS_PER_SECOND)

struct guarding {
	struct engine *engine;
	const struct generation *generation;
	int64_t now_ns;
};

/* Until when is it above half of a limit?  0: it is not. */
static int64_t half_ns_of(const struct guarding *g, struct account *account) {
	const struct login_key key = { { account->key[0], account->key[1] } };
	char name[ACCOUNT_NAME_MAX + 1] = "";
	struct account_rules rules;

	memcpy(name, account->name, ACCOUNT_NAME_MAX);
	if (!generation_account_rules_kept(g->generation, name, &key, account->entry, true, &rules))
		return 0;
	if (!account_login_is_new(g->engine->segment, account, rules.account, g->now_ns))
		account_rules_leave_out_new(&rules);
	return quota_half_ns(account->counters, GENERATION_QUOTA_COUNTERS, rules.limits,
	    rules.count, g->now_ns);
}

static void guard_account(void *context, const void *entry) {
	const struct account *seen = entry;
	const struct guarding *g = context;
	struct segment *segment = g->engine->segment;
	const struct login_key key = { { seen->key[0], seen->key[1] } };
	struct account account = *seen;
	struct accounts_held held;
	int64_t half_ns = half_ns_of(g, &account);
	int64_t more_ns = segment->header->created_ns + seen->guard_ds * SEEN_NS - g->now_ns - half_ns;

	/* it is as it should be */
	if (more_ns <= SEEN_NS && (half_ns == 0 || more_ns >= 0))
		return;
	if (accounts_take(segment, &key, NULL, 0, g->now_ns, &held) != ACCOUNTS_HELD)
		return;
	accounts_guard(segment, &held, half_ns_of(g, &held.account), g->now_ns);
	accounts_release(&held);
}

static void tell_evicted(struct engine *engine, int64_t now_ns) {
	struct accounts_time *time = &engine->accounts_time;
	uint64_t evicted = atomic_load(
	    &engine->segment->header->counters[COUNTER_ACCOUNTS_EVICTED]);

	if (!time->knows_evicted) {	/* those before were another keeper's to tell */
		time->knows_evicted = true;
		time->evicted = evicted;
	}
	if (evicted == time->evicted ||
	    (time->told_ns != 0 && now_ns - time->told_ns < EVICTED_NS))
		return;
	log_event(EVENT_ACCOUNTS_EVICTED, "count=%" PRIu64 " text=\"table of logins full: raise "
	    "state.accounts\"", evicted - time->evicted);
	time->told_ns = now_ns;
	time->evicted = evicted;
}

void engine_accounts_turn(struct engine *engine, const struct generation *generation,
    int64_t now_ns) {
	struct accounts_time *time = &engine->accounts_time;
	struct guarding guarding = { engine, generation, now_ns };

	engine_account_mails_turn(engine, now_ns);
	tell_evicted(engine, now_ns);
	if (time->generation != generation->number) {
		time->generation = generation->number;
		time->at = (struct learned_cursor){ .torn = 0 };
		time->walks = false;
		time->walk_ns = 0;
	}
	if (!time->walks && atomic_load(&engine->segment->header->accounts_full_ns) >= time->walk_ns) {
		time->walks = true;
		time->walk_ns = now_ns;
	}
	if (time->walks)
		time->walks = !accounts_walk(engine->segment, &time->at, A_TURN, guard_account,
		    &guarding);
}
