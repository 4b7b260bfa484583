/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Accounts: what is asked, charged and given back.
 * MODEL    A transaction is known by the smtpd process that has it, which has one at a time,
 *          and by its instance.  It is looked at before its login and written after it, never
 *          under the login's lock.  A recipient that is asked about again at once (smtpd asks
 *          twice: two lists of restrictions, or a lost answer) is charged once.
 * ERRORS   What cannot be counted is let in, and counted as that.
 * THREADS  Any.
 */
#include "engine/account/accounts.h"

#include <string.h>

#include "base/clock.h"
#include "base/siphash.h"
#include "base/text.h"
#include "engine/account/account_health.h"
#include "engine/account/accounts_internal.h"
#include "engine/decision/decided.h"

#define INSTANCE_MAX	128
#define KIB		1024

/* One question while it is answered. */
struct asking {
	struct engine *engine;
	const struct generation *generation;
	const struct account_question *question;
	struct account_answer *answer;
	int64_t now_ns;
	char login[LOGIN_MAX];	/* folded */
	struct login_key key;
	uint64_t process, instance, recipient;	/* hashes; 0: none */
	struct account_rules rules;
};

static uint64_t hash_of(const struct engine *engine, const char *text, size_t length,
    uint8_t listener) {
	char bytes[INSTANCE_MAX + 1];

	if (length == 0)
		return 0;
	length = length < INSTANCE_MAX ? length : INSTANCE_MAX;
	memcpy(bytes, text, length);
	bytes[length] = (char)listener;
	return siphash13(&engine->segment->header->key, bytes, length + 1) | 1;
}

static void identify(struct asking *a) {
	const struct account_question *q = a->question;
	const char *point = q->instance_length == 0 ? NULL :
	    memchr(q->instance, '.', q->instance_length);

	a->process = hash_of(a->engine, q->instance, point == NULL ? q->instance_length :
	    (size_t)(point - q->instance), q->listener);
	a->instance = hash_of(a->engine, q->instance, q->instance_length, q->listener);
	a->recipient = q->recipient_length == 0 ? 0 :
	    siphash13(&a->engine->segment->header->key, q->recipient, q->recipient_length) | 1;
	a->answer->process = a->process;
}

/* --- the transaction -------------------------------------------------------------------- */

/* Of this question, as it is known; whatever the process had before is given back. */
static struct account_mail open_mail(struct asking *a) {
	struct account_mail old = { .key = 0 }, mail;
	struct account_mail_held held;

	memset(&mail, 0, sizeof(mail));
	if (a->process == 0 || account_mail_take(a->engine->segment, a->process, true, a->now_ns,
	    &held) != ACCOUNTS_HELD)
		return mail;
	if (held.mail.instance != a->instance) {
		old = held.mail;
		held.mail.instance = a->instance;
		held.mail.login[0] = a->key.words[0];
		held.mail.login[1] = a->key.words[1];
		held.mail.since_ns = 0;
		held.mail.recipients = held.mail.passed = held.mail.free = 0;
		held.mail.last = held.mail.pool = 0;
		held.mail.counters = held.mail.pool_counters = 0;
		held.mail.state = ACCOUNT_MAIL_OPEN;
		account_mail_put(a->engine->segment, &held, a->now_ns);
	}
	mail = held.mail;
	account_mail_release(&held);
	if (old.state == ACCOUNT_MAIL_OPEN)
		account_give_back(a->engine, &old, old.recipients, a->now_ns);
	return mail;
}

static bool is_local_part(const char *address, size_t length, const char *local) {
	size_t local_length = strlen(local);

	return length >= local_length && strncasecmp(address, local, local_length) == 0 &&
	    (length == local_length || address[local_length] == '@');
}

/* Its administrators can always be reached. */
static bool is_role_address(const struct asking *a) {
	const char *to = a->question->recipient;
	size_t length = a->question->recipient_length;

	return is_local_part(to, length, "postmaster") || is_local_part(to, length, "abuse");
}

static bool is_free(const struct asking *a) {
	return is_role_address(a) || generation_account_is_free(a->generation,
	    a->rules.account, a->question->recipient, a->question->recipient_length);
}

/* What was charged, and where. */
struct charged {
	uint64_t pool;		/* 0: none */
	uint32_t counters, pool_counters;
};

static void note_charged(struct account_mail *mail, const struct charged *charged,
    int64_t now_ns) {
	if (mail->recipients == 0) {
		mail->since_ns = now_ns;
		mail->counters = charged->counters;
		mail->pool_counters = charged->pool_counters;
		mail->pool = charged->pool;
		return;
	}
	if (mail->counters != charged->counters)
		mail->counters = 0;
	if (mail->pool_counters != charged->pool_counters || mail->pool != charged->pool)
		mail->pool_counters = 0;
}

/* Notes what this question changed: one recipient more, which was charged, or (NULL) passed; at its
 * end none.  False: the transaction is not there any more; what it was charged was given back. */
static bool note_mail(struct asking *a, const struct charged *charged,
    enum account_mail_state state) {
	struct account_mail_held held;
	bool is_there;

	if (a->process == 0 || account_mail_take(a->engine->segment, a->process, false,
	    a->now_ns, &held) != ACCOUNTS_HELD)
		return false;
	is_there = held.mail.instance == a->instance;
	if (is_there) {
		if (charged != NULL) {
			note_charged(&held.mail, charged, a->now_ns);
			held.mail.recipients++;
		} else if (state == ACCOUNT_MAIL_OPEN) {
			held.mail.passed++;
			held.mail.free += is_free(a);
		}
		held.mail.state = state;
		if (a->recipient != 0)
			held.mail.last = a->recipient;
		account_mail_put(a->engine->segment, &held, a->now_ns);
	}
	account_mail_release(&held);
	return is_there;
}

/* --- limits ------------------------------------------------------------------------------- */

static enum reason reason_of(enum quota_kind kind) {
	static const enum reason reasons[QUOTA_KINDS] = {
		[QUOTA_RECIPIENTS] = REASON_ACCOUNT_RECIPIENTS,
		[QUOTA_MESSAGES] = REASON_ACCOUNT_MESSAGES,
		[QUOTA_KIB] = REASON_ACCOUNT_BYTES,
	};

	return reasons[kind];
}

static void tell_limit(struct account_answer *answer, const struct quota_limit *limit,
    const struct quota_refusal *refusal) {
	answer->reason = reason_of((enum quota_kind)limit->kind);
	answer->what = (enum quota_kind)limit->kind;
	answer->used = refusal->used;
	answer->limit = limit->most;
	answer->window_s = limit->period_s;
	answer->wait_ns = refusal->wait_ns;
}

static const char *text_at(const struct asking *a, uint32_t offset) {
	return generation_text(a->generation, offset);
}

/* The login's own limits. */
static bool own_allows(struct asking *a, struct accounts_held *held,
    const struct quota_amounts *wanted) {
	struct quota_refusal refusal;

	(void)quota_prepare(held->account.counters, GENERATION_QUOTA_COUNTERS, a->rules.limits,
	    a->rules.count);
	if (quota_allows(held->account.counters, GENERATION_QUOTA_COUNTERS, a->rules.limits,
	    a->rules.count, wanted, a->now_ns, &refusal))
		return true;
	tell_limit(a->answer, &a->rules.limits[refusal.limit], &refusal);
	a->answer->line = a->rules.lines[refusal.limit];
	if (a->rules.is_override[refusal.limit])
		a->answer->file = text_at(a, a->generation->accounts.overrides_file);
	return false;
}

static bool pool_allows(struct asking *a, struct accounts_held *held,
    const struct quota_amounts *wanted) {
	const struct generation_account *entry = a->rules.account;
	struct quota_limit limits[GENERATION_QUOTAS_MAX];
	uint32_t lines[GENERATION_QUOTAS_MAX];
	unsigned count = generation_account_pool(a->generation, entry, limits, lines);
	struct quota_refusal refusal;

	if (count == 0)
		return true;
	if (!accounts_take_pool(a->engine->segment, accounts_pool_name(text_at(a, entry->name)),
	    quota_is_idle, a->now_ns, held)) {
		engine_count(a->engine, COUNTER_ACCOUNT_UNCOUNTED, 1);
		return true;
	}
	(void)quota_prepare(held->pool_counters, GENERATION_QUOTA_COUNTERS, limits, count);
	if (quota_allows(held->pool_counters, GENERATION_QUOTA_COUNTERS, limits, count, wanted,
	    a->now_ns, &refusal))
		return true;
	if (a->answer->reason == REASON_BELOW_LIMIT || refusal.wait_ns > a->answer->wait_ns) {
		tell_limit(a->answer, &limits[refusal.limit], &refusal);
		a->answer->reason = REASON_ACCOUNT_POOL;
		a->answer->file = text_at(a, entry->file);
		a->answer->line = lines[refusal.limit];
	}
	return false;
}

static bool is_held(struct asking *a, const struct account *account) {
	if (account->held_by == 0)
		return false;
	a->answer->reason = REASON_ACCOUNT_HELD;
	a->answer->wait_ns = INT64_MAX;
	a->answer->held_by = account->held_by;
	a->answer->line = a->rules.account->health_line != 0 ? a->rules.account->health_line :
	    a->rules.account->line;
	return true;
}

/* Whoever comes from another network than before is looked at. */
static bool networks_allow(struct asking *a) {
	const struct generation_account *entry = a->rules.account;
	uint32_t network = entry->health.networks == 0 ? 0 :
	    engine_account_network_of(a->engine, &a->question->client), count;
	struct account account;
	char name[ACCOUNT_NAME_MAX + 1];
	int64_t seen_ns;

	if (network == 0 || !accounts_find(a->engine->segment, &a->key, &account) ||
	    account.network == network)
		return true;
	text_copy(name, sizeof(name), account.name, strnlen(account.name, ACCOUNT_NAME_MAX));
	/* the one before counts from when it was used; rounded up to its tenth of a second */
	seen_ns = a->engine->segment->header->created_ns +
	    (SEEN_DS(account.seen) + 1) * (NS_PER_SECOND / 10);
	count = engine_account_network(a->engine, a->generation, entry, &a->key, name,
	    a->now_ns - seen_ns < entry->health.networks_period_s * NS_PER_SECOND ?
	    account.network : 0, seen_ns, network, a->now_ns);
	if (count <= entry->health.networks || entry->health_action != ACCOUNT_HEALTH_NONE)
		return true;	/* a hold answers for itself, below */
	a->answer->reason = REASON_ACCOUNT_NETWORKS;
	a->answer->used = count;
	a->answer->limit = entry->health.networks;
	a->answer->window_s = entry->health.networks_period_s;
	a->answer->wait_ns = entry->health.networks_period_s * NS_PER_SECOND;
	a->answer->line = entry->networks_line;
	return false;
}

/* All or nothing, under the login's lock and the pool's: is there room for what is `wanted`?
 * Then `charged` is.  ACCOUNTS_HELD: answer->is_charged says which. */
static enum accounts_taken charge(struct asking *a, const struct quota_amounts *wanted,
    const struct quota_amounts *charged, struct charged *where) {
	struct accounts_held held;
	enum accounts_taken taken = accounts_take(a->engine->segment, &a->key, a->login,
	    a->question->login_length, a->now_ns, &held);
	bool own, all;

	if (taken != ACCOUNTS_HELD)
		return taken;
	held.account.entry = generation_account_mark(text_at(a, a->rules.account->name));
	/* at the end of a message it was not looked at: nor was that of a bounce */
	if (a->rules.account->health.networks > 0 && !a->question->at_end)
		held.account.network = engine_account_network_of(a->engine,
		    &a->question->client);
	if (is_held(a, &held.account)) {
		held.account.refused++;
		accounts_put(a->engine->segment, &held, -1, a->now_ns);
		accounts_release(&held);
		return taken;
	}
	if (!account_login_is_new(a->engine->segment, &held.account, a->rules.account, a->now_ns))
		account_rules_leave_out_new(&a->rules);
	own = own_allows(a, &held, wanted);
	all = pool_allows(a, &held, wanted);
	a->answer->is_charged = own && all;
	if (a->answer->is_charged) {
		quota_charge(held.account.counters, GENERATION_QUOTA_COUNTERS, charged, a->now_ns);
		held.account.accepted += charged->of[QUOTA_RECIPIENTS];
		if (held.pool != NULL)
			quota_charge(held.pool_counters, GENERATION_QUOTA_COUNTERS, charged,
			    a->now_ns);
	} else {
		held.account.refused++;
	}
	where->counters = account_counters_of(&held.account);
	if (held.pool != NULL) {
		where->pool = atomic_load(&held.pool->name);
		where->pool_counters = quota_set_mark(held.pool_counters,
		    GENERATION_QUOTA_COUNTERS);
	}
	accounts_put(a->engine->segment, &held, quota_half_ns(held.account.counters,
	    GENERATION_QUOTA_COUNTERS, a->rules.limits, a->rules.count, a->now_ns), a->now_ns);
	accounts_release(&held);
	return taken;
}

/* --- answers -------------------------------------------------------------------------------- */

static void note_decision(struct asking *a) {
	const struct account_answer *answer = a->answer;
	const struct account_question *q = a->question;
	struct decided d;

	a->answer->id = decisions_claim(a->engine->segment, DECIDED_OF_SESSIONS);
	decided_begin(&d, answer->id, DECIDED_ACCOUNT, DECIDED_AT_RECIPIENT, a->now_ns);
	d.reason = (uint8_t)answer->reason;
	d.verdict = (uint8_t)answer->verdict;
	d.flags = answer->observed ? DECIDED_OBSERVED_ONLY : 0;
	d.count = answer->used > UINT32_MAX ? UINT32_MAX : (uint32_t)answer->used;
	d.limit = (uint32_t)answer->limit;
	d.before = (uint32_t)answer->limit;
	d.window = answer->window_s * 1000;
	d.until_ns = answer->wait_ns == INT64_MAX ? 0 : a->now_ns + answer->wait_ns;
	d.client = q->client;
	d.client_port = q->client_port;
	d.cause = answer->held_by;
	decided_put_string(&d, DECIDED_CLASS, text_at(a, answer->account->name));
	decided_put(&d, DECIDED_NAME, q->login, q->login_length);
	decided_put_file(&d, answer->file, answer->line);
	decided_put(&d, DECIDED_RECIPIENT, q->recipient, q->recipient_length);
	decisions_write(a->engine->segment, &d);
}

/* Over a limit: a refusal, or what would be one. */
static void refuse(struct asking *a) {
	const struct generation_account *entry = a->rules.account;

	a->answer->observed = entry->observe != 0;
	/* Recipients are asked about one by one: more than a limit has at once are those of a
	 * message whose RCPTs nobody saw. */
	a->answer->is_too_large = a->answer->what == QUOTA_KIB && a->answer->window_s > 0 &&
	    a->answer->wait_ns == INT64_MAX;
	a->answer->rejects = entry->action == ACCOUNT_ACTION_REJECT || a->answer->is_too_large;
	a->answer->verdict = entry->observe != 0 ? VERDICT_ADMIT :
	    a->answer->rejects ? VERDICT_REFUSE : VERDICT_DEFER;
	engine_count(a->engine, entry->observe != 0 ? COUNTER_ACCOUNT_OBSERVED :
	    COUNTER_ACCOUNT_REFUSED, 1);
	note_decision(a);
}

/* Without a lock: of a question that charges nothing. */
static bool is_held_now(struct asking *a) {
	struct account account;

	return accounts_find(a->engine->segment, &a->key, &account) && is_held(a, &account);
}

static uint32_t kib_of(uint64_t size) {
	uint64_t kib = size / KIB + (size % KIB != 0);

	return kib == 0 ? 1 : kib > QUOTA_MOST ? QUOTA_MOST : (uint32_t)kib;
}

static bool message_is_full(struct asking *a, const struct account_mail *mail) {
	uint64_t recipients = (uint64_t)mail->recipients + mail->passed;

	if (a->rules.per_message == 0 || recipients < a->rules.per_message)
		return false;
	a->answer->reason = REASON_ACCOUNT_PER_MESSAGE;
	a->answer->what = QUOTA_RECIPIENTS;
	a->answer->used = recipients;
	a->answer->limit = a->rules.per_message;
	a->answer->wait_ns = INT64_MAX;
	a->answer->line = a->rules.account->per_message_line;
	if (a->rules.per_message != a->rules.account->per_message) {
		a->answer->file = text_at(a, a->generation->accounts.overrides_file);
		a->answer->line = a->rules.override_line;
	}
	return true;
}

/* One recipient more that is let in, uncharged. */
static void pass(struct asking *a) {
	(void)note_mail(a, NULL, ACCOUNT_MAIL_OPEN);
}

static void refuse_recipient(struct asking *a) {
	refuse(a);
	if (a->answer->observed)
		pass(a);
}

static void ask_recipient(struct asking *a) {
	/* a message that could not be accepted at its end is not begun */
	const struct quota_amounts wanted = { { 1, 1, kib_of(a->question->size) } };
	const struct quota_amounts charged = { { 1, 0, 0 } };
	struct account_mail mail = open_mail(a);
	struct charged where = { .pool = 0 };

	if (is_role_address(a)) {	/* twice: in To and Cc, for all that is known */
		pass(a);
		return;
	}
	if (mail.last != 0 && mail.last == a->recipient)
		return;		/* asked again */
	if ((is_free(a) ? is_held_now(a) : !networks_allow(a)) || message_is_full(a, &mail)) {
		refuse_recipient(a);
	} else if (is_free(a)) {
		pass(a);
	} else if (charge(a, &wanted, &charged, &where) != ACCOUNTS_HELD) {
		engine_count(a->engine, COUNTER_ACCOUNT_UNCOUNTED, 1);
		pass(a);
	} else if (a->answer->is_charged) {
		(void)note_mail(a, &where, ACCOUNT_MAIL_OPEN);
	} else {
		refuse_recipient(a);
	}
}

/* Results of the message count for the login. */
static void note_queued(struct asking *a) {
	const char *mta = generation_asking_mta(a->generation, a->question->listener);

	if (a->rules.account->health_action != ACCOUNT_HEALTH_NONE && mta != NULL)
		(void)account_queued_note(a->engine->segment, account_queued_mta(mta),
		    a->question->queue_id, a->question->queue_id_length, &a->key,
		    a->question->recipient_count, a->now_ns);
}

/* With an empty sender: nothing is charged, but who is held sends none of it either. */
static void ask_bounce(struct asking *a) {
	const struct quota_amounts none = { { 0, 0, 0 } };
	struct charged where = { .pool = 0 };
	struct account account;

	if (a->question->at_end) {
		/* its results need a login that is known */
		if (!accounts_find(a->engine->segment, &a->key, &account))
			(void)charge(a, &none, &none, &where);
		note_queued(a);
	} else if (a->question->recipient_length > 0 && !is_role_address(a) && is_held_now(a))
		refuse(a);
}

static void ask_end(struct asking *a) {
	struct account_mail mail = open_mail(a);
	uint64_t counted = (uint64_t)mail.recipients + mail.passed;
	uint32_t count = a->question->recipient_count, missing = 0;
	const struct quota_amounts none = { { 0, 0, 0 } };
	struct charged where = { .pool = 0 };
	struct quota_amounts all;

	if (mail.state == ACCOUNT_MAIL_DONE)
		return;		/* asked again */
	/* recipients that nobody asked about, or whose charge was given back meanwhile */
	if (mail.instance != 0 && count > counted)
		missing = (uint32_t)(count - counted);
	all = (struct quota_amounts){ { missing, 1, kib_of(a->question->size) } };
	if ((mail.free > 0 && mail.free == counted && missing == 0) ||
	    (count == 1 && is_role_address(a))) {	/* of a bare "postmaster" nobody asked */
		/* all of them are free: so is the message */
	} else if (charge(a, &all, &all, &where) != ACCOUNTS_HELD) {
		engine_count(a->engine, COUNTER_ACCOUNT_UNCOUNTED, 1);
	} else if (!a->answer->is_charged) {
		refuse(a);
		if (!a->answer->observed) {
			engine_account_process_over(a->engine, a->process, false, a->now_ns);
			return;
		}
	}
	note_queued(a);
	if (!note_mail(a, NULL, ACCOUNT_MAIL_DONE) && mail.recipients > 0) {
		/* its process's old connection ended meanwhile: it counts all the same */
		all = (struct quota_amounts){ { mail.recipients < count ? mail.recipients : count,
			0, 0 } };
		(void)charge(a, &none, &all, &where);
	} else if (mail.recipients > count)	/* those that other restrictions turned away */
		account_give_back(a->engine, &mail, mail.recipients - count, a->now_ns);
}

void engine_account_ask(struct engine *engine, const struct generation *generation,
    const struct account_question *question, int64_t now_ns, struct account_answer *answer) {
	struct asking a;

	/* the rest is large, and filled where it is needed */
	a.engine = engine;
	a.generation = generation;
	a.question = question;
	a.answer = answer;
	a.now_ns = now_ns;
	*answer = (struct account_answer){ .verdict = VERDICT_ADMIT,
		.reason = REASON_BELOW_LIMIT, .file = "" };
	if (generation->accounts.count == 0)
		return;
	if (!login_fold(question->login, question->login_length, a.login)) {
		if (question->login_length > 0)
			engine_count(engine, COUNTER_ACCOUNT_UNCOUNTED, 1);
		return;
	}
	a.key = login_key(a.login, question->login_length);
	if (!generation_account_rules(generation, a.login, question->login_length, &a.key, true,
	    &a.rules))
		return;
	answer->account = a.rules.account;
	answer->file = generation_text(generation, a.rules.account->file);
	if (question->sender_length == 0 && !a.rules.account->counts_bounces) {
		ask_bounce(&a);
		return;
	}
	engine_count(engine, COUNTER_ACCOUNT_QUESTIONS, 1);
	identify(&a);
	if (question->at_end)
		ask_end(&a);
	else if (question->recipient_length > 0)
		ask_recipient(&a);
}
