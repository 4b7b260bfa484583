/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What a transaction was charged is given back; and logins are forgotten.
 * MODEL    A transaction's note goes first: whoever dies in between has counted too much.  Of
 *          counters that began anew, or were added, nothing is taken.
 * ERRORS   A lock that is not to be had: what was charged stays charged.
 * THREADS  Any.
 */
#include <string.h>

#include "base/clock.h"
#include "engine/account/account_health.h"
#include "engine/account/accounts.h"
#include "engine/account/accounts_internal.h"
#include "engine/internal.h"

#define LEASE_NS	(3600 * NS_PER_SECOND)
#define DONE_NS		(120 * NS_PER_SECOND)	/* longer than smtpd asks again */
#define OLD_MOST	1024

/* --- giving back ---------------------------------------------------------------------- */

uint32_t account_counters_of(const struct account *account) {
	return (quota_set_mark(account->counters, GENERATION_QUOTA_COUNTERS) ^ account->epoch) | 1;
}

void account_give_back(struct engine *engine, const struct account_mail *mail,
    uint32_t recipients, int64_t now_ns) {
	const struct quota_amounts amounts = { { recipients, 0, 0 } };
	struct login_key key = { { mail->login[0], mail->login[1] } };
	struct accounts_held held;

	if (recipients == 0 || accounts_take(engine->segment, &key, NULL, 0, now_ns, &held) !=
	    ACCOUNTS_HELD)
		return;
	if (mail->counters == account_counters_of(&held.account)) {
		quota_give_back(held.account.counters, GENERATION_QUOTA_COUNTERS, &amounts,
		    mail->since_ns, now_ns);
		held.account.accepted -= recipients < held.account.accepted ? recipients :
		    held.account.accepted;
		engine_count(engine, COUNTER_ACCOUNT_GIVEN_BACK, recipients);
	}
	if (mail->pool != 0 && accounts_take_pool(engine->segment, mail->pool, NULL, now_ns, &held) &&
	    mail->pool_counters == quota_set_mark(held.pool_counters, GENERATION_QUOTA_COUNTERS))
		quota_give_back(held.pool_counters, GENERATION_QUOTA_COUNTERS, &amounts,
		    mail->since_ns, now_ns);
	accounts_put(engine->segment, &held, -1, now_ns);
	accounts_release(&held);
}

/* Gives back what the process's transaction was charged; not one that was heard of since before_ns
 * (0: any, but of those that are done only with `is_session`). */
static void end_transaction(struct engine *engine, uint64_t process, bool is_session,
    int64_t before_ns, int64_t now_ns) {
	struct account_mail_held held;
	struct account_mail mail;

	if (process == 0 || account_mail_take(engine->segment, process, false, now_ns,
	    &held) != ACCOUNTS_HELD)
		return;
	mail = held.mail;
	/* smtpd that got no answer at the end of its message asks again by another connection */
	if (before_ns == 0 && !is_session && mail.state == ACCOUNT_MAIL_DONE) {
		account_mail_release(&held);
		return;
	}
	if (before_ns != 0 && SEEN_DS(mail.seen) >= segment_ds(engine->segment, before_ns)) {
		account_mail_release(&held);
		return;
	}
	account_mail_forget(&held);
	account_mail_release(&held);
	if (mail.state == ACCOUNT_MAIL_OPEN)
		account_give_back(engine, &mail, mail.recipients, now_ns);
}

void engine_account_process_over(struct engine *engine, uint64_t process, bool is_session,
    int64_t now_ns) {
	end_transaction(engine, process, is_session, 0, now_ns);
}

void engine_account_mails_turn(struct engine *engine, int64_t now_ns) {
	uint64_t processes[OLD_MOST];
	unsigned count = account_mails_before(engine->segment, now_ns - LEASE_NS, now_ns - DONE_NS,
	    processes, OLD_MOST);

	for (unsigned i = 0; i < count; i++)
		end_transaction(engine, processes[i], false, now_ns - DONE_NS, now_ns);
}

bool account_login_is_new(const struct segment *segment, const struct account *account,
    const struct generation_account *entry, int64_t now_ns) {
	return generation_account_is_new(entry, account->first_s, accounts_since_s(segment),
	    now_ns / NS_PER_SECOND);
}

/* --- forgetting -------------------------------------------------------------------------- */

bool engine_account_forget(struct engine *engine, const char *login, size_t length,
    int64_t now_ns) {
	char folded[LOGIN_MAX];
	struct accounts_held held;
	struct login_key key;
	bool is_held;

	if (!login_fold(login, length, folded))
		return false;
	key = login_key(folded, length);
	if (accounts_take(engine->segment, &key, NULL, 0, now_ns, &held) != ACCOUNTS_HELD)
		return false;
	is_held = held.account.held_by != 0;
	accounts_forget(engine->segment, &held, now_ns);
	accounts_release(&held);
	/* what holds it goes on to be shown */
	if (!is_held)
		account_health_forget(engine->segment, &key, now_ns);
	return true;
}
