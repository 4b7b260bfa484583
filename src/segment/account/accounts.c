/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Accounts in the segment.
 * MODEL    Two tables of segment/destination/learned.h, and a few pools.  A login's counters change in
 *          place, word by word: what a process that is killed in between has not stored it has
 *          not answered for.  A charge is stored before a transaction notes it, and a
 *          transaction's note is taken away before what it names is given back: so whatever
 *          a death leaves counts too much, never too little.
 * ERRORS   A table that is full of logins above half of a limit takes no other one.
 * THREADS  Any, of any process.
 */
#include "segment/account/accounts.h"

#include <string.h>

#include "base/failpoint.h"
#include "segment/account/accounts_internal.h"
#include "segment/file/name.h"

#define MAIL_WORDS	(sizeof(struct account_mail) / 8)

static bool account_is_sound(const uint64_t *words) {
	struct account account;

	memcpy(&account, words, sizeof(account));
	return account.key[0] != 0 &&
	    text_is_harmless(account.name, sizeof(account.name));
}

static bool mail_is_sound(const uint64_t *words) {
	return words[WORD_OF(account_mail, key)] != 0;
}

/* The one that was seen longest ago, of those that are below half of their limits and not held. */
static uint64_t account_worth(const _Atomic uint64_t *slot, uint32_t now_ds) {
	uint32_t guard_ds = (uint32_t)RELAXED(slot[WORD_OF(account, guard_ds)]);

	return guard_ds > now_ds || RELAXED(slot[WORD_OF(account, held_by)]) != 0 ?
	    LEARNED_NEVER : SEEN_DS(RELAXED(slot[1]));
}

static bool account_is_first(const uint64_t *words) {
	return words[WORD_OF(account, held_by)] != 0;
}

static void account_move(const struct segment *from, const struct segment *to, uint64_t *words) {
	struct account account;

	memcpy(&account, words, sizeof(account));
	account.guard_ds = (uint32_t)accounts_moved_ds(from, to, account.guard_ds);
	memcpy(words, &account, sizeof(account));
}

const struct learned_kind account_kind = {
	.place_at = offsetof(struct segment_header, accounts),
	.slot_words = ACCOUNT_WORDS,
	.key_at = WORD_OF(account, key),
	.key_words = 2,
	.text_at = 2,
	.copied_words = ACCOUNT_WORDS,
	.evicted = COUNTER_ACCOUNTS_EVICTED,
	.worth = account_worth,
	.is_sound = account_is_sound,
	.move = account_move,
	.is_first = account_is_first,
};

const struct learned_kind account_mail_kind = {
	.place_at = offsetof(struct segment_header, account_mails),
	.slot_words = MAIL_WORDS,
	.key_at = WORD_OF(account_mail, key),
	.key_words = 1,
	.text_at = 1,
	.copied_words = MAIL_WORDS,
	.evicted = COUNTER_ACCOUNT_MAILS_EVICTED,
	.is_sound = mail_is_sound,
};

void accounts_load(const _Atomic uint64_t *slot, void *out, size_t words) {
	unsigned char *bytes = out;

	for (size_t i = 0; i < words; i++) {
		uint64_t word = RELAXED(slot[i]);

		memcpy(bytes + 8 * i, &word, sizeof(word));
	}
}

/* A counter's buckets before the number of its newest: or what is over would count again. */
void accounts_store_changed(_Atomic uint64_t *slot, const void *now, const void *was,
    size_t from, size_t to) {
	for (size_t i = to; i-- > from;) {
		uint64_t word, old;

		memcpy(&word, (const unsigned char *)now + 8 * i, sizeof(word));
		memcpy(&old, (const unsigned char *)was + 8 * i, sizeof(old));
		if (word == old)
			continue;
		FAILPOINT();
		atomic_store_explicit(&slot[i], word, memory_order_release);
	}
}

enum accounts_taken accounts_lock(struct segment *segment, const struct learned_kind *kind,
    const void *key, int64_t now_ns, struct account_held *held, void *entry) {
	held->table = learned_table(segment, kind);
	if (!learned_is_there(&held->table))
		return ACCOUNTS_UNKNOWN;
	memcpy(held->key.words, key, kind->key_words * sizeof(held->key.words[0]));
	learned_aim(&held->table, kind->key_words, &held->key);
	if (!learned_lock(&held->table, &held->key, now_ns))
		return ACCOUNTS_BUSY;
	held->slot = learned_find(&held->table, &held->key);
	if (held->slot != NULL)
		accounts_load(held->slot, entry, kind->slot_words);
	return ACCOUNTS_HELD;
}

static void accounts_unlock(struct account_held *held) {
	learned_unlock(&held->table, &held->key);
}

/* --- logins ------------------------------------------------------------------------- */

static uint32_t epoch_of(int64_t now_ns) {
	return (uint32_t)(now_ns >> 10);
}

static void begin_account(struct accounts_held *held, const struct login_key *login,
    const char *name, size_t length, int64_t now_ns) {
	char shown[ACCOUNT_NAME_MAX + 1] = "";

	memset(&held->account, 0, sizeof(held->account));
	held->account.control.used = 1;
	memcpy(held->account.key, login->words, sizeof(held->account.key));
	held->account.first_s = (int32_t)(now_ns / NS_PER_SECOND);
	held->account.epoch = epoch_of(now_ns);
	if (length > ACCOUNT_NAME_MAX)
		memcpy(mempcpy(shown, name, ACCOUNT_NAME_MAX - 3), "...", 3);
	else
		memcpy(shown, name, length);
	text_harmless(shown, held->account.name, sizeof(held->account.name));
}

enum accounts_taken accounts_take(struct segment *segment, const struct login_key *login,
    const char *name, size_t length, int64_t now_ns, struct accounts_held *held) {
	struct account_held *entry = &held->entry;
	uint32_t now_ds = segment_ds(segment, now_ns);
	enum accounts_taken taken = accounts_lock(segment, &account_kind, login->words, now_ns,
	    entry, &held->account);

	held->pool = NULL;
	if (taken == ACCOUNTS_UNKNOWN && name != NULL)
		return ACCOUNTS_FULL;
	if (taken != ACCOUNTS_HELD)
		return taken;
	if (entry->slot == NULL && name != NULL) {
		begin_account(held, login, name, length, now_ns);
		held->account.seen = SEEN_WORD(0, now_ds);
		entry->slot = learned_add(&entry->table, &entry->key, now_ds, &held->account);
	}
	if (entry->slot != NULL) {
		held->was = held->account;
		return ACCOUNTS_HELD;
	}
	accounts_unlock(entry);
	if (name == NULL)
		return ACCOUNTS_UNKNOWN;
	atomic_store(&segment->header->accounts_full_ns, now_ns);
	return ACCOUNTS_FULL;
}

struct account_pool *account_pools(const struct segment *segment) {
	return (void *)((char *)segment->header + segment->header->pools_offset);
}

static bool pool_is_idle(const struct account_pool *pool, accounts_idle *is_idle,
    int64_t now_ns) {
	struct quota_counter counters[GENERATION_QUOTA_COUNTERS];

	accounts_load(pool->counters, counters, sizeof(counters) / 8);
	return is_idle(counters, GENERATION_QUOTA_COUNTERS, now_ns);
}

/* The place of a name, taken where it is free; NULL: all have others. */
static struct account_pool *find_pool(struct account_pool *pools, uint64_t name) {
	for (unsigned i = 0; i < ACCOUNT_POOLS; i++) {
		struct account_pool *pool = &pools[(name + i) % ACCOUNT_POOLS];
		uint64_t found = 0;

		if (atomic_compare_exchange_strong(&pool->name, &found, name) || found == name)
			return pool;
	}
	return NULL;
}

/* Gives the name the place of one that counts nothing any more, as of an entry that is gone.  Places
 * are never freed: whoever looks for a name looks at all, or finds a free one. */
static void replace_pool(struct account_pool *pools, uint64_t name, accounts_idle *is_idle,
    int64_t now_ns) {
	for (unsigned i = 0; i < ACCOUNT_POOLS; i++) {
		struct account_pool *pool = &pools[(name + i) % ACCOUNT_POOLS];

		if (!pool_is_idle(pool, is_idle, now_ns) ||
		    lock_acquire(&pool->lock, now_ns) == LOCK_TIMED_OUT)
			continue;
		if (find_pool(pools, name) != NULL) {	/* another process was faster */
			lock_release(&pool->lock);
			return;
		}
		if (pool_is_idle(pool, is_idle, now_ns)) {
			for (size_t word = 0; word < sizeof(pool->counters) / 8; word++)
				atomic_store(&pool->counters[word], 0);
			atomic_store(&pool->name, name);
			lock_release(&pool->lock);
			return;
		}
		lock_release(&pool->lock);
	}
}

bool accounts_take_pool(struct segment *segment, uint64_t name, accounts_idle *is_idle,
    int64_t now_ns, struct accounts_held *held) {
	struct account_pool *pools = account_pools(segment), *pool;

	if (segment->header->accounts.shards == 0)
		return false;
	pool = find_pool(pools, name);
	if (pool == NULL && is_idle != NULL) {
		replace_pool(pools, name, is_idle, now_ns);
		pool = find_pool(pools, name);
	}
	if (pool == NULL || lock_acquire(&pool->lock, now_ns) == LOCK_TIMED_OUT)
		return false;
	if (RELAXED(pool->name) != name) {	/* replaced meanwhile */
		lock_release(&pool->lock);
		return false;
	}
	held->pool = pool;
	accounts_load(pool->counters, held->pool_counters, sizeof(held->pool_counters) / 8);
	return true;
}

static void put_pool(struct accounts_held *held) {
	struct quota_counter was[GENERATION_QUOTA_COUNTERS];

	accounts_load(held->pool->counters, was, sizeof(was) / 8);
	accounts_store_changed(held->pool->counters, held->pool_counters, was, 0, sizeof(was) / 8);
	atomic_store(&held->pool->unkept, 1);
}

static uint32_t guard_ds_of(const struct segment *segment, int64_t guard_ns, int64_t now_ns) {
	return guard_ns == 0 ? 0 : segment_ds(segment, now_ns + guard_ns) + 1;
}

static void store_account(struct accounts_held *held) {
	const struct account_held *entry = &held->entry;

	accounts_store_changed(entry->slot, &held->account, &held->was, 1, ACCOUNT_WORDS);
	accounts_mark_unkept(&entry->table, entry->key.shard,
	    learned_number(&entry->table, &entry->key, entry->slot));
}

void accounts_put(struct segment *segment, struct accounts_held *held, int64_t guard_ns,
    int64_t now_ns) {
	held->account.seen = SEEN_WORD(0, segment_ds(segment, now_ns));
	if (guard_ns >= 0)
		held->account.guard_ds = guard_ds_of(segment, guard_ns, now_ns);
	store_account(held);
	if (held->pool != NULL)
		put_pool(held);
}

void accounts_guard(struct segment *segment, struct accounts_held *held, int64_t guard_ns,
    int64_t now_ns) {
	held->account.guard_ds = guard_ds_of(segment, guard_ns, now_ns);
	store_account(held);
}

void accounts_release(struct accounts_held *held) {
	if (held->pool != NULL)
		lock_release(&held->pool->lock);
	accounts_unlock(&held->entry);
}

void accounts_forget(struct segment *segment, struct accounts_held *held, int64_t now_ns) {
	/* first: who dies in between has counts that nothing is given back to */
	held->account.epoch = epoch_of(now_ns);
	accounts_store_changed(held->entry.slot, &held->account, &held->was, 1, ACCOUNT_WORDS);
	held->was = held->account;
	memset(held->account.counters, 0, sizeof(held->account.counters));
	held->account.accepted = held->account.refused = held->account.network = 0;
	accounts_put(segment, held, 0, now_ns);
}

int64_t accounts_since_s(const struct segment *segment) {
	return segment_accounts_since_ns(segment->header) / NS_PER_SECOND;
}

/* --- transactions --------------------------------------------------------------------- */

enum accounts_taken account_mail_take(struct segment *segment, uint64_t process, bool make,
    int64_t now_ns, struct account_mail_held *held) {
	struct account_held *entry = &held->entry;
	uint32_t now_ds = segment_ds(segment, now_ns);
	enum accounts_taken taken;

	held->mail = (struct account_mail){ .control = { .used = 1 }, .key = process,
		.seen = SEEN_WORD(0, now_ds) };
	taken = accounts_lock(segment, &account_mail_kind, &process, now_ns, entry, &held->mail);
	if (taken != ACCOUNTS_HELD)
		return taken;
	if (entry->slot == NULL && make)
		entry->slot = learned_add(&entry->table, &entry->key, now_ds, &held->mail);
	if (entry->slot != NULL)
		return ACCOUNTS_HELD;
	accounts_unlock(entry);
	return make ? ACCOUNTS_FULL : ACCOUNTS_UNKNOWN;
}

/* What was charged is stored last, and taken away first. */
void account_mail_put(struct segment *segment, struct account_mail_held *held, int64_t now_ns) {
	const size_t charged = WORD_OF(account_mail, recipients);
	struct account_mail was;
	_Atomic uint64_t *slot = held->entry.slot, *word = &slot[charged];

	accounts_load(slot, &was, MAIL_WORDS);
	held->mail.seen = SEEN_WORD(0, segment_ds(segment, now_ns));
	if (was.instance != held->mail.instance || was.login[0] != held->mail.login[0])
		atomic_store_explicit(word, 0, memory_order_release);
	accounts_store_changed(slot, &held->mail, &was, 1, charged);
	accounts_store_changed(slot, &held->mail, &was, charged + 1, MAIL_WORDS);
	FAILPOINT();
	atomic_store_explicit(word, (uint64_t)held->mail.passed << 32 | held->mail.recipients,
	    memory_order_release);
}

void account_mail_release(struct account_mail_held *held) {
	accounts_unlock(&held->entry);
}

void account_mail_forget(struct account_mail_held *held) {
	learned_forget(&held->entry.table, &held->entry.key, held->entry.slot);
}

unsigned account_mails_before(const struct segment *segment, int64_t before_ns, int64_t done_ns,
    uint64_t processes[], unsigned most) {
	uint32_t before_ds = segment_ds(segment, before_ns), done_ds = segment_ds(segment, done_ns);
	struct learned table = learned_table(segment, &account_mail_kind);
	struct learned_cursor at = { .torn = 0 };
	uint64_t copy[LEARNED_WORDS_MAX];
	unsigned count = 0;

	while (count < most && learned_each(&table, &at, copy)) {
		struct account_mail mail;

		memcpy(&mail, copy, sizeof(mail));
		if (SEEN_DS(mail.seen) < (mail.state == ACCOUNT_MAIL_DONE ? done_ds : before_ds))
			processes[count++] = mail.key;
	}
	return count;
}

/* --- reading ---------------------------------------------------------------------------- */

void accounts_say(const struct learned_kind *kind, const uint64_t *copy, accounts_call *each,
    void *context) {
	union {
		struct account account;
		struct account_health health;
		struct account_queued queued;
	} entry;

	memcpy(&entry, copy, kind->slot_words * sizeof(copy[0]));
	each(context, &entry);
}

unsigned accounts_each(const struct segment *segment, const struct learned_kind *kind,
    accounts_call *each, void *context) {
	struct learned table = learned_table(segment, kind);
	struct learned_cursor at = { .torn = 0 };
	uint64_t copy[LEARNED_WORDS_MAX];

	while (learned_each(&table, &at, copy))
		accounts_say(kind, copy, each, context);
	return at.torn;
}

bool accounts_find(const struct segment *segment, const struct login_key *login,
    struct account *out) {
	struct learned table = learned_table(segment, &account_kind);

	return learned_is_there(&table) && learned_get(&table, login->words, out);
}

uint64_t accounts_used(const struct segment *segment) {
	struct learned table = learned_table(segment, &account_kind);

	return learned_used(&table);
}

bool accounts_pool(const struct segment *segment, const char *entry,
    struct quota_counter counters[GENERATION_QUOTA_COUNTERS]) {
	const struct account_pool *pools = account_pools(segment);
	uint64_t name = accounts_pool_name(entry);

	for (unsigned i = 0; segment->header->accounts.shards != 0 && i < ACCOUNT_POOLS; i++) {
		const struct account_pool *pool = &pools[(name + i) % ACCOUNT_POOLS];

		if (RELAXED(pool->name) != name)
			continue;
		accounts_load(pool->counters, counters, sizeof(pool->counters) / 8);
		return true;
	}
	return false;
}

uint64_t accounts_pool_name(const char *name) {
	return login_key(name, strlen(name)).words[0];
}
