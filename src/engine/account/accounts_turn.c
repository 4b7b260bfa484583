/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What time does to accounts: transactions that were given up, limits that a reload
 *          changed, and word of logins that were evicted.
 * MODEL    A login above half of a limit is not evicted.  Each question says until when; a reload
 *          changes that for those who do not ask, so all of them are looked at once after it, some
 *          at a time.
 * ERRORS   A login whose lock is not to be had is left until its next question.
 * THREADS  The keeper's alone.
 */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/account/accounts.h"
#include "engine/internal.h"

#define A_TURN		(1 << 17)
#define EVICTED_NS	(600 * NS_PER_SECOND)

struct guarding {
	struct engine *engine;
	const struct generation *generation;
	int64_t now_ns;
};

static void guard_account(void *context, const struct account *seen) {
	const struct guarding *g = context;
	const struct login_key key = { { seen->key[0], seen->key[1] } };
	const struct segment_header *header = g->engine->segment->header;
	char name[ACCOUNT_NAME_MAX + 1] = "";
	struct account_rules rules;
	struct accounts_held held;
	int64_t guarded_ns = header->created_ns + seen->guard_ds * (NS_PER_SECOND / 10), half_ns;

	memcpy(name, seen->name, ACCOUNT_NAME_MAX);
	if (!generation_account_rules_kept(g->generation, name, &key, seen->entry, true, &rules))
		return;
	held.account = *seen;
	half_ns = quota_half_ns(held.account.counters, GENERATION_QUOTA_COUNTERS, rules.limits,
	    rules.count, g->now_ns);
	if (half_ns == 0 || g->now_ns + half_ns <= guarded_ns || accounts_take(g->engine->segment,
	    &key, NULL, 0, g->now_ns, &held) != ACCOUNTS_HELD)
		return;
	half_ns = quota_half_ns(held.account.counters, GENERATION_QUOTA_COUNTERS, rules.limits,
	    rules.count, g->now_ns);
	accounts_guard(g->engine->segment, &held, half_ns, g->now_ns);
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
		time->at = 0;
		time->walks = true;
	}
	if (time->walks)
		time->walks = !accounts_walk(engine->segment, &time->at, A_TURN, guard_account,
		    &guarding);
}
