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
	return account.control.used == 1 && account.key[0] != 0 &&
	    text_is_harmless(account.name, sizeof(account.name));
}

static bool mail_is_sound(const uint64_t *words) {
	return (words[0] & 0xff) == 1 && words[WORD_OF(account_mail, key)] != 0;
}

/* The one that was seen longest ago, of those that are below half of their limits and not held. */
static uint64_t account_worth(const _Atomic uint64_t *slot, uint32_t now_ds) {
	uint32_t guard_ds = (uint32_t)RELAXED(slot[WORD_OF(account, guard_ds)]);

	return guard_ds > now_ds || RELAXED(slot[WORD_OF(account, held_by)]) != 0 ?
	    LEARNED_NEVER : SEEN_DS(RELAXED(slot[1]));
}

const struct learned_kind account_kind = {
	.slot_words = ACCOUNT_WORDS,
	.key_at = WORD_OF(account, key),
	.key_words = 2,
	.text_at = 2,
	.copied_words = ACCOUNT_WORDS,
	.evicted = COUNTER_ACCOUNTS_EVICTED,
	.worth = account_worth,
	.is_sound = account_is_sound,
};

const struct learned_kind account_mail_kind = {
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

static uint32_t now_ds_of(const struct segment *segment, int64_t now_ns) {
	return segment_ds(segment, now_ns);
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

/* A free slot, written whole. */
static bool make_account(struct accounts_held *held, uint32_t now_ds) {
	uint64_t words[ACCOUNT_WORDS];

	held->slot = learned_take(&held->table, &held->key, now_ds);
	if (held->slot == NULL)
		return false;
	held->account.seen = SEEN_WORD(0, now_ds);
	memcpy(words, &held->account, sizeof(words));
	learned_store(held->slot, words, 1, ACCOUNT_WORDS);
	learned_store_control(held->slot, held->account.control);
	return true;
}

enum accounts_taken accounts_take(struct segment *segment, const struct login_key *login,
    const char *name, size_t length, int64_t now_ns, struct accounts_held *held) {
	held->pool = NULL;
	if (!accounts_bind(segment->header, segment->header, &held->table))
		return name == NULL ? ACCOUNTS_UNKNOWN : ACCOUNTS_FULL;
	memcpy(held->key.words, login->words, sizeof(login->words));
	learned_aim(&held->table, account_kind.key_words, &held->key);
	if (!learned_lock(&held->table, &held->key, now_ns))
		return ACCOUNTS_BUSY;
	held->slot = learned_find(&held->table, &held->key);
	if (held->slot == NULL && name != NULL) {
		begin_account(held, login, name, length, now_ns);
		if (!make_account(held, now_ds_of(segment, now_ns))) {
			learned_unlock(&held->table, &held->key);
			atomic_store(&segment->header->accounts_full_ns, now_ns);
			return ACCOUNTS_FULL;
		}
	}
	if (held->slot == NULL) {
		learned_unlock(&held->table, &held->key);
		return ACCOUNTS_UNKNOWN;
	}
	accounts_load(held->slot, &held->account, ACCOUNT_WORDS);
	held->was = held->account;
	return ACCOUNTS_HELD;
}

struct account_pool *account_pools(const struct segment_header *sizes, const void *mapping) {
	return (struct account_pool *)(uintptr_t)((const char *)mapping + sizes->pools_offset);
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
	struct account_pool *pools = account_pools(segment->header, segment->header), *pool;

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
	return guard_ns == 0 ? 0 : now_ds_of(segment, now_ns + guard_ns) + 1;
}

static void store_account(struct accounts_held *held) {
	accounts_store_changed(held->slot, &held->account, &held->was, 1, ACCOUNT_WORDS);
	accounts_mark_unkept(&held->table, held->key.shard,
	    (uint32_t)((size_t)(held->slot - learned_slot(&held->table, held->key.shard, 0)) /
		ACCOUNT_WORDS));
}

void accounts_put(struct segment *segment, struct accounts_held *held, int64_t guard_ns,
    int64_t now_ns) {
	held->account.seen = SEEN_WORD(0, now_ds_of(segment, now_ns));
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
	learned_unlock(&held->table, &held->key);
}

void accounts_forget(struct segment *segment, struct accounts_held *held, int64_t now_ns) {
	/* first: who dies in between has counts that nothing is given back to */
	held->account.epoch = epoch_of(now_ns);
	accounts_store_changed(held->slot, &held->account, &held->was, 1, ACCOUNT_WORDS);
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
	if (!account_mails_bind(segment->header, segment->header, &held->table))
		return ACCOUNTS_UNKNOWN;
	held->key.words[0] = process;
	learned_aim(&held->table, account_mail_kind.key_words, &held->key);
	if (!learned_lock(&held->table, &held->key, now_ns))
		return ACCOUNTS_BUSY;
	held->slot = learned_find(&held->table, &held->key);
	memset(&held->mail, 0, sizeof(held->mail));
	if (held->slot != NULL) {
		accounts_load(held->slot, &held->mail, MAIL_WORDS);
		return ACCOUNTS_HELD;
	}
	held->mail.control.used = 1;
	held->mail.key = process;
	if (make) {
		uint64_t words[MAIL_WORDS];

		held->slot = learned_take(&held->table, &held->key, now_ds_of(segment, now_ns));
		if (held->slot != NULL) {
			held->mail.seen = SEEN_WORD(0, now_ds_of(segment, now_ns));
			memcpy(words, &held->mail, sizeof(words));
			learned_store(held->slot, words, 1, MAIL_WORDS);
			learned_store_control(held->slot, held->mail.control);
			return ACCOUNTS_HELD;
		}
	}
	learned_unlock(&held->table, &held->key);
	return make ? ACCOUNTS_FULL : ACCOUNTS_UNKNOWN;
}

/* What was charged is stored last, and taken away first. */
void account_mail_put(struct segment *segment, struct account_mail_held *held, int64_t now_ns) {
	const size_t charged = WORD_OF(account_mail, recipients);
	struct account_mail was;
	_Atomic uint64_t *word = &held->slot[charged];

	accounts_load(held->slot, &was, MAIL_WORDS);
	held->mail.seen = SEEN_WORD(0, now_ds_of(segment, now_ns));
	if (was.instance != held->mail.instance || was.login[0] != held->mail.login[0])
		atomic_store_explicit(word, 0, memory_order_release);
	accounts_store_changed(held->slot, &held->mail, &was, 1, charged);
	accounts_store_changed(held->slot, &held->mail, &was, charged + 1, MAIL_WORDS);
	FAILPOINT();
	atomic_store_explicit(word, (uint64_t)held->mail.passed << 32 | held->mail.recipients,
	    memory_order_release);
}

void account_mail_release(struct account_mail_held *held) {
	learned_unlock(&held->table, &held->key);
}

void account_mail_forget(struct account_mail_held *held) {
	learned_forget(&held->table, &held->key, held->slot);
}

struct old_mails {
	uint32_t before_ds, done_ds;
	uint64_t *processes;
	unsigned count, most;
};

static void note_old(void *context, uint32_t shard, uint32_t number, const uint64_t *copy) {
	struct old_mails *old = context;
	struct account_mail mail;

	(void)shard;
	(void)number;
	memcpy(&mail, copy, sizeof(mail));
	if (SEEN_DS(mail.seen) < (mail.state == ACCOUNT_MAIL_DONE ? old->done_ds :
	    old->before_ds) && old->count < old->most)
		old->processes[old->count++] = copy[WORD_OF(account_mail, key)];
}

unsigned account_mails_before(const struct segment *segment, int64_t before_ns, int64_t done_ns,
    uint64_t processes[], unsigned most) {
	struct old_mails old = { segment_ds(segment, before_ns), segment_ds(segment, done_ns),
		processes, 0, most };
	struct learned table;

	if (!account_mails_bind(segment->header, segment->header, &table) || learned_used(&table) == 0)
		return 0;
	(void)learned_each(&table, note_old, &old);
	return old.count;
}

/* --- reading ---------------------------------------------------------------------------- */

struct visit {
	void (*each)(void *context, const struct account *account);
	void *context;
};

static void visit_one(void *context, uint32_t shard, uint32_t number, const uint64_t *copy) {
	const struct visit *visit = context;
	struct account account;

	(void)shard;
	(void)number;
	memcpy(&account, copy, sizeof(account));
	visit->each(visit->context, &account);
}

unsigned accounts_each_in(const struct segment_header *sizes, const void *mapping,
    void (*each)(void *context, const struct account *account), void *context) {
	struct visit visit = { each, context };
	struct learned table;

	if (!accounts_bind(sizes, mapping, &table))
		return 0;
	return learned_each(&table, visit_one, &visit);
}

bool accounts_find_in(const struct segment_header *sizes, const void *mapping,
    const struct login_key *login, struct account *out) {
	uint64_t copy[LEARNED_WORDS_MAX];
	struct learned_key key;
	struct learned table;
	uint32_t number;

	if (!accounts_bind(sizes, mapping, &table))
		return false;
	memcpy(key.words, login->words, sizeof(login->words));
	learned_aim(&table, account_kind.key_words, &key);
	if (learned_look(&table, &key, copy, &number) != LEARNED_COPIED)
		return false;
	memcpy(out, copy, sizeof(*out));
	return true;
}

uint64_t accounts_used_in(const struct segment_header *sizes, const void *mapping) {
	struct learned table;

	return accounts_bind(sizes, mapping, &table) ? learned_used(&table) : 0;
}

bool accounts_pool_in(const struct segment_header *sizes, const void *mapping, uint64_t name,
    struct quota_counter counters[GENERATION_QUOTA_COUNTERS]) {
	const struct account_pool *pools = account_pools(sizes, mapping);

	for (unsigned i = 0; sizes->accounts.shards != 0 && i < ACCOUNT_POOLS; i++) {
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
