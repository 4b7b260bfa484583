/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Health of logins: what is noted, judged and done (account_health.h).
 * MODEL    Health stands in a slot of its own, made at the first result or second network.  What
 *          holds a login stands beside its counters, where each question looks.  No two locks
 *          are held at once.
 * ERRORS   What cannot be noted is not: nobody is held for it.
 * THREADS  Any.
 */
#include "engine/account/account_health.h"

#include <string.h>

#include "base/clock.h"
#include "base/siphash.h"
#include "base/text.h"
#include "engine/decision/decided.h"
#include "engine/internal.h"
#include "policy/reply/reply_unknown.h"

#define NETWORK_BYTES_4	15	/* of the mapped address: /24 */
#define NETWORK_BYTES_6	6	/* /48 */
#define SETTLED_NS	(10 * NS_PER_SECOND)

void engine_account_listen(struct engine *engine, void (*tell)(
    const struct generation *generation, const struct account_trip *trip)) {
	engine->account_listener = tell;
}

uint32_t engine_account_network_of(const struct engine *engine, const struct address *client) {
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	size_t length = memcmp(client->bytes, mapped, sizeof(mapped)) == 0 ? NETWORK_BYTES_4 :
	    NETWORK_BYTES_6;

	if (address_is_unknown(client))
		return 0;
	return (uint32_t)siphash13(&engine->segment->header->key, client->bytes, length) | 1;
}

/* --- what is done -------------------------------------------------------------------------- */

static void note_trip(struct engine *engine, const struct generation *generation,
    struct account_trip *trip, int64_t now_ns) {
	const struct generation_account *entry = trip->account;
	const struct health_limits *limits = &entry->health;
	bool networks = trip->verdict == HEALTH_NETWORKS;
	struct decided d;

	decided_begin(&d, trip->id, DECIDED_ACCOUNT_HELD, networks ? DECIDED_AT_RECIPIENT :
	    DECIDED_BY_RESULT, now_ns);
	d.until_ns = trip->is_held ? INT64_MAX : 0;
	d.reason = networks ? REASON_ACCOUNT_NETWORKS : REASON_ACCOUNT_UNKNOWN;
	trip->reason = decided_reason_word(d.reason);
	d.flags = (trip->observed ? DECIDED_OBSERVED_ONLY : 0) |
	    (trip->is_held ? DECIDED_HELD : 0);
	d.count = networks ? trip->counts.networks : trip->counts.unknown;
	d.limit = networks ? limits->networks : limits->unknown;
	d.window = 1000 * (networks ? limits->networks_period_s : limits->unknown_period_s);
	d.success = (float)(trip->counts.results - trip->counts.failed);
	d.failure = (float)trip->counts.failed;
	decided_put_string(&d, DECIDED_NAME, trip->login);
	decided_put_string(&d, DECIDED_CLASS, generation_text(generation, entry->name));
	decided_put_file(&d, generation_text(generation, entry->file), networks ?
	    entry->networks_line : entry->health_line);
	decisions_write(engine->segment, &d);
	if (engine->account_listener != NULL)
		engine->account_listener(generation, trip);
}

/* Once: what is held already, or was told of a short time ago, is not held again. */
static void trip(struct engine *engine, const struct generation *generation,
    struct account_trip *t, const struct login_key *login, int64_t now_ns) {
	struct accounts_held held;

	if (accounts_take(engine->segment, login, NULL, 0, now_ns, &held) != ACCOUNTS_HELD)
		return;
	if (held.account.held_by == 0)
		t->id = decided_claim_event(engine);
	if (t->id != 0 && t->is_held) {
		held.account.held_by = t->id;
		accounts_put(engine->segment, &held, -1, now_ns);
	}
	accounts_release(&held);
	if (t->id == 0)
		return;
	engine_count(engine, COUNTER_ACCOUNTS_HELD, t->is_held);
	note_trip(engine, generation, t, now_ns);
}

/* Is it time to act?  Under the health's lock.  A hold is due until it is there: who is held is not
 * held again.  What only tells does so once in the time of its limit. */
static bool is_due(struct engine *engine, struct account_health *health,
    const struct generation_account *entry, struct account_trip *t, int64_t now_ns) {
	uint32_t period_s;

	t->counts = health_count(&health->health, &entry->health, now_ns);
	t->verdict = health_judge(&t->counts, &entry->health);
	t->account = entry;
	t->observed = entry->observe != 0;
	t->is_held = !t->observed && entry->health_action == ACCOUNT_HEALTH_HOLD;
	if (t->verdict == HEALTH_GOOD || entry->health_action == ACCOUNT_HEALTH_NONE)
		return false;
	if (t->is_held)
		return true;
	if (health->alerted_ds > segment_ds(engine->segment, now_ns))
		return false;
	period_s = t->verdict == HEALTH_NETWORKS ? entry->health.networks_period_s :
	    entry->health.unknown_period_s;
	health->alerted_ds = segment_ds(engine->segment, now_ns +
	    period_s * NS_PER_SECOND);
	return true;
}

/* --- networks ------------------------------------------------------------------------------ */

uint32_t engine_account_network(struct engine *engine, const struct generation *generation,
    const struct generation_account *entry, const struct login_key *login, const char *name,
    uint32_t before, int64_t before_ns, uint32_t network, int64_t now_ns) {
	struct account_trip t = { .login = name };
	struct account_health_held held;
	struct distinct known;
	bool due;

	if (!account_health_take(engine->segment, login, true, now_ns, &held))
		return 0;
	if (before != 0)
		health_note_network(&held.health.health, &entry->health, before, before_ns);
	known = held.health.health.networks;
	health_note_network(&held.health.health, &entry->health, network, now_ns);
	due = is_due(engine, &held.health, entry, &t, now_ns);
	/* one that is refused does not shut out those that are known */
	if (t.counts.networks > entry->health.networks &&
	    entry->health_action == ACCOUNT_HEALTH_NONE)
		held.health.health.networks = known;
	account_health_put(engine->segment, &held, now_ns);
	account_health_release(&held);
	if (due)
		trip(engine, generation, &t, login, now_ns);
	return t.counts.networks;
}

/* --- results ------------------------------------------------------------------------------- */

/* A filter beside the mail server has put it into the queue again, maybe into that of another: the
 * first one whose log tells of it has it.  Until then this result is the last one that is known, and
 * counts; how many did stands in `recipients`. */
static void follow_filter(struct engine *engine, const struct delivery *delivery,
    const struct judgement *judgement, const struct login_key *login, int64_t now_ns) {
	static const char words[] = "queued as ";
	const struct span text = delivery->source == DELIVERY_OF_SENDMAIL ?
	    delivery->reply : delivery->text;
	const char *found = memmem(text.text, text.length, words, sizeof(words) - 1);
	uint32_t counted = delivery->recipients;
	struct account_queued behind;
	size_t length = 0, left;

	if (found == NULL || !address_is_loopback(&judgement->tried.address))
		return;
	found += sizeof(words) - 1;
	left = text.length - (size_t)(found - text.text);
	while (length < left && ((found[length] >= '0' && found[length] <= '9') ||
	    (found[length] >= 'A' && found[length] <= 'Z') ||
	    (found[length] >= 'a' && found[length] <= 'z')))
		length++;
	if (account_queued_find(engine->segment, ACCOUNT_QUEUED_ANY, found, length, &behind) &&
	    memcmp(behind.login, login->words, sizeof(behind.login)) == 0)
		counted += (uint32_t)behind.recipients;
	(void)account_queued_note(engine->segment, ACCOUNT_QUEUED_ANY, found, length, login,
	    counted, now_ns);
}

/* The entry of a login that is known; the login and its name, too. */
static const struct generation_account *entry_of(struct engine *engine,
    const struct generation *generation, const struct login_key *login,
    struct account *account, char name[ACCOUNT_NAME_MAX + 1]) {
	struct account_rules rules;

	if (!accounts_find(engine->segment, login, account))
		return NULL;
	text_copy(name, ACCOUNT_NAME_MAX + 1, account->name, strnlen(account->name,
	    ACCOUNT_NAME_MAX));
	return generation_account_rules_kept(generation, name, login, account->entry, false,
	    &rules) ? rules.account : NULL;
}

/* Who looks stolen is judged some seconds later: of one message the recipients that are refused
 * are told of before those that take it, which may be nearly all. */
static bool add_suspect(struct account_suspects *suspects, const struct login_key *login,
    int64_t now_ns) {
	for (unsigned i = 0; i < suspects->count; i++)
		if (memcmp(&suspects->logins[i], login, sizeof(*login)) == 0)
			return true;
	if (suspects->count == ACCOUNT_SUSPECTS_MAX)
		return false;
	suspects->logins[suspects->count] = *login;
	suspects->due_ns[suspects->count++] = now_ns + SETTLED_NS;
	return true;
}

static void judge_again(struct engine *engine, const struct generation *generation,
    const struct login_key *login, int64_t now_ns) {
	char name[ACCOUNT_NAME_MAX + 1];
	struct account account;
	const struct generation_account *entry = entry_of(engine, generation, login, &account,
	    name);
	struct account_trip t = { .login = name };
	struct account_health_held held;
	bool due;

	if (entry == NULL || !account_health_take(engine->segment, login, false, now_ns, &held))
		return;
	due = is_due(engine, &held.health, entry, &t, now_ns);
	account_health_put(engine->segment, &held, now_ns);
	account_health_release(&held);
	if (due)
		trip(engine, generation, &t, login, now_ns);
}

static void suspect(struct engine *engine, const struct generation *generation,
    const struct login_key *login, int64_t now_ns) {
	if (!add_suspect(&engine->account_suspects, login, now_ns))
		judge_again(engine, generation, login, now_ns);
}

static void note_result(struct engine *engine, const struct generation *generation,
    const struct generation_account *entry, const struct login_key *login,
    const struct delivery *delivery, const struct judgement *judgement, int64_t now_ns) {
	bool is_failed = judgement->reply.class == RESULT_PERMANENT;
	struct account_health_held held;
	struct health_counts counts;
	const struct span *to = &delivery->recipient;
	char folded[LOGIN_MAX];
	/* "Bob@x" and "bob@x" are one mailbox nearly everywhere */
	uint64_t recipient = siphash13(&engine->segment->header->key,
	    login_fold(to->text, to->length, folded) ? folded : to->text, to->length);
	bool looks_stolen;

	/* what was accepted counts from the first message on: the share is of all results */
	if (!account_health_take(engine->segment, login, true, now_ns, &held))
		return;
	health_note_result(&held.health.health, &entry->health, delivery->recipients, is_failed,
	    reply_is_unknown_recipient(delivery, &judgement->reply), recipient, now_ns);
	counts = health_count(&held.health.health, &entry->health, now_ns);
	looks_stolen = is_failed && health_judge(&counts, &entry->health) == HEALTH_UNKNOWN;
	account_health_put(engine->segment, &held, now_ns);
	account_health_release(&held);
	if (looks_stolen)
		suspect(engine, generation, login, now_ns);
}

struct suspecting {
	struct engine *engine;
	const struct generation *generation;
	int64_t now_ns;
};

static void suspect_earlier(void *context, const void *found) {
	const struct account_health *health = found;
	const struct suspecting *s = context;
	const struct login_key login = { { health->key[0], health->key[1] } };
	char name[ACCOUNT_NAME_MAX + 1];
	struct account account;
	const struct generation_account *entry = entry_of(s->engine, s->generation, &login,
	    &account, name);
	struct health_counts counts;

	if (entry == NULL || account.held_by != 0)
		return;
	counts = health_count(&health->health, &entry->health, s->now_ns);
	if (health_judge(&counts, &entry->health) == HEALTH_UNKNOWN)
		suspect(s->engine, s->generation, &login, s->now_ns);
}

void engine_account_suspects_turn(struct engine *engine, const struct generation *generation,
    int64_t now_ns) {
	struct suspecting suspecting = { engine, generation, now_ns };
	struct account_suspects *suspects = &engine->account_suspects;

	/* those that a process had in mind that is gone */
	if (!suspects->knows_earlier)
		(void)accounts_each(engine->segment, &account_health_kind, suspect_earlier,
		    &suspecting);
	suspects->knows_earlier = true;
	for (unsigned i = suspects->count; i-- > 0;) {
		struct login_key login = suspects->logins[i];

		if (suspects->due_ns[i] > now_ns)
			continue;
		suspects->logins[i] = suspects->logins[--suspects->count];
		suspects->due_ns[i] = suspects->due_ns[suspects->count];
		judge_again(engine, generation, &login, now_ns);
	}
}

/* The filter's were not the last results of these. */
static void take_back(struct engine *engine, const struct generation_account *entry,
    const struct login_key *login, uint32_t recipients, int64_t now_ns) {
	struct account_health_held held;

	if (!account_health_take(engine->segment, login, false, now_ns, &held))
		return;
	health_take_back(&held.health.health, &entry->health, recipients, now_ns);
	account_health_put(engine->segment, &held, now_ns);
	account_health_release(&held);
}

static const char *mta_name(const struct generation *generation, unsigned mta) {
	return mta >= generation->mta_count ? "" : generation_text(generation,
	    generation->mtas[generation_parent(generation, mta)].name);
}

/* Whose message is it?  One that came by a filter becomes this mail server's, unless that has told
 * of the ID later than the filter; *counted: recipients of it that the filter took, and whose
 * results come now. */
static bool find_login(struct engine *engine, uint32_t mta, const struct span *queue_id,
    struct login_key *login, uint32_t *counted, int64_t now_ns) {
	struct segment *segment = engine->segment;
	struct account_queued own, behind;
	bool is_own = account_queued_find(segment, mta, queue_id->text, queue_id->length, &own);
	bool is_behind = account_queued_find(segment, ACCOUNT_QUEUED_ANY, queue_id->text,
	    queue_id->length, &behind);

	*counted = 0;
	if (is_behind && (!is_own || SEEN_DS(behind.seen) >= SEEN_DS(own.seen))) {
		*counted = (uint32_t)behind.recipients;
		memcpy(login->words, behind.login, sizeof(login->words));
		if (account_queued_note(segment, mta, queue_id->text, queue_id->length, login, 0,
			now_ns))
			account_queued_done(segment, ACCOUNT_QUEUED_ANY, queue_id->text,
			    queue_id->length, UINT32_MAX, now_ns);
		return true;
	}
	if (is_own)
		memcpy(login->words, own.login, sizeof(login->words));
	return is_own;
}

void engine_account_result(struct engine *engine, const struct generation *generation,
    unsigned mtas, const struct delivery *delivery, const struct judgement *judgement,
    int64_t now_ns) {
	/* an event need not say whose it is */
	const char *name_of_mta = delivery->source == DELIVERY_OF_OTHER && mtas == UINT32_MAX ?
	    generation_only_mta(generation) : mta_name(generation, judgement->mta);
	const struct generation_account *entry;
	enum result_class class = judgement->reply.class;
	bool probe = delivery->status == DELIVERY_DELIVERABLE ||
	    delivery->status == DELIVERY_UNDELIVERABLE;
	char name[ACCOUNT_NAME_MAX + 1];
	struct account account;
	struct login_key login;
	uint32_t mta, counted;

	if (probe || name_of_mta == NULL)
		return;
	mta = account_queued_mta(name_of_mta);
	/* what was put off tells, too, whose queue the message is in */
	if (!find_login(engine, mta, &delivery->queue_id, &login, &counted, now_ns))
		return;
	entry = entry_of(engine, generation, &login, &account, name);
	if (counted > 0 && entry != NULL)
		take_back(engine, entry, &login, counted, now_ns);
	if (class != RESULT_OK && class != RESULT_PERMANENT)
		return;
	engine_count(engine, COUNTER_ACCOUNT_RESULTS, delivery->recipients);
	if (class == RESULT_OK)
		follow_filter(engine, delivery, judgement, &login, now_ns);
	if (entry != NULL && entry->health.unknown > 0)
		note_result(engine, generation, entry, &login, delivery, judgement, now_ns);
	/* Postfix says when a message has left, Sendmail does not */
	if (delivery->source == DELIVERY_OF_SENDMAIL)
		account_queued_done(engine->segment, mta, delivery->queue_id.text,
		    delivery->queue_id.length, delivery->recipients, now_ns);
}

void engine_account_removed(struct engine *engine, const struct generation *generation,
    unsigned mta, const char *queue_id, size_t length, int64_t now_ns) {
	account_queued_done(engine->segment, account_queued_mta(mta_name(generation, mta)),
	    queue_id, length, UINT32_MAX, now_ns);
	account_queued_done(engine->segment, ACCOUNT_QUEUED_ANY, queue_id, length, UINT32_MAX,
	    now_ns);
}

/* --- resuming ------------------------------------------------------------------------------ */

bool engine_account_resume(struct engine *engine, const char *login, size_t length,
    int64_t now_ns) {
	char folded[LOGIN_MAX];
	struct accounts_held held;
	struct login_key key;
	bool was_held;

	if (!login_fold(login, length, folded))
		return false;
	key = login_key(folded, length);
	/* what led to it is over, or the next result would hold it again */
	account_health_forget(engine->segment, &key, now_ns);
	if (accounts_take(engine->segment, &key, NULL, 0, now_ns, &held) != ACCOUNTS_HELD)
		return false;
	was_held = held.account.held_by != 0;
	held.account.held_by = 0;
	held.account.network = 0;	/* of whoever asked last, while it was held */
	accounts_put(engine->segment, &held, -1, now_ns);
	accounts_release(&held);
	return was_held;
}
