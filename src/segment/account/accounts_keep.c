/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Accounts on their way to the journal and back, and into another segment.
 * MODEL    Who changes a login marks it afterwards; who writes the journal takes the mark away
 *          before it copies: what changes meanwhile is marked again.
 * THREADS  Marks: any.  The rest: who writes the journal, or prepares the segment.
 */
#include <string.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "segment/account/accounts_internal.h"

#define DS_NS		INT64_C(100000000)

/* --- what the journal has not ------------------------------------------------------------ */

static _Atomic uint64_t *unkept_word(const struct segment_header *header, uint32_t shard,
    uint32_t number) {
	return (_Atomic uint64_t *)(uintptr_t)((const char *)header +
	    header->accounts_unkept_offset) + shard * header->account_words + number / 64;
}

/* As a full barrier it is what keeps the change before it. */
void accounts_mark_unkept(const struct learned *table, uint32_t shard, uint32_t number) {
	atomic_fetch_or_explicit(unkept_word(table->header, shard, number),
	    UINT64_C(1) << number % 64, memory_order_seq_cst);
	FAILPOINT();
}

static unsigned follow(const struct learned *table, uint32_t shard, uint32_t first,
    uint64_t bits, void (*each)(void *context, const struct account *account),
    void *context) {
	uint64_t copy[LEARNED_WORDS_MAX];
	struct account account;
	unsigned told = 0;

	for (; bits != 0; bits &= bits - 1) {
		uint32_t number = first + (uint32_t)__builtin_ctzll(bits);
		enum learned_copied copied = number >= table->place->per_shard ?
		    LEARNED_NOTHING : learned_copy(table, shard, number, copy);

		if (copied == LEARNED_TORN)
			accounts_mark_unkept(table, shard, number);
		if (copied != LEARNED_COPIED)
			continue;
		memcpy(&account, copy, sizeof(account));
		each(context, &account);
		told++;
	}
	return told;
}

bool accounts_unkept(struct segment *segment, uint64_t *at, unsigned most,
    void (*each)(void *context, const struct account *account), void *context) {
	const struct segment_header *header = segment->header;
	uint64_t words = header->accounts.shards * header->account_words;
	struct learned table;
	unsigned told = 0;

	if (!accounts_bind(header, header, &table))
		return true;
	for (uint64_t seen = 0; seen < words; seen++) {
		uint32_t shard = (uint32_t)(*at / header->account_words);
		uint32_t first = (uint32_t)(*at % header->account_words) * 64;
		_Atomic uint64_t *word = unkept_word(header, shard, first);

		if (told >= most)
			return false;
		if (RELAXED(*word) != 0)
			told += follow(&table, shard, first, atomic_exchange_explicit(word, 0,
			    memory_order_seq_cst), each, context);
		*at = (*at + 1) % words;
	}
	return true;
}

bool accounts_walk(const struct segment *segment, uint64_t *at, unsigned most,
    void (*each)(void *context, const struct account *account), void *context) {
	const struct segment_header *header = segment->header;
	uint32_t shard = (uint32_t)(*at >> 32), number = (uint32_t)*at;
	uint64_t copy[LEARNED_WORDS_MAX];
	struct account account;
	struct learned table;

	if (!accounts_bind(header, header, &table))
		return true;
	for (unsigned told = 0; shard < table.place->shards; number++) {
		number = learned_next(&table, shard, number);
		if (number == SEGMENT_NO_SLOT) {
			shard++;
			continue;	/* from number 0 on */
		}
		if (told == most) {
			*at = (uint64_t)shard << 32 | number;
			return false;
		}
		/* whoever changes it right now marks it, too */
		if (learned_copy(&table, shard, number, copy) != LEARNED_COPIED)
			continue;
		memcpy(&account, copy, sizeof(account));
		each(context, &account);
		told++;
	}
	*at = 0;
	return true;
}

void account_pools_unkeep(struct segment *segment) {
	const struct segment_header *header = segment->header;

	for (unsigned i = 0; header->accounts.shards != 0 && i < ACCOUNT_POOLS; i++)
		atomic_store(&account_pools(header, header)[i].unkept, 1);
}

void account_pools_unkept(struct segment *segment, void (*each)(void *context, uint64_t name,
    const struct quota_counter counters[]), void *context) {
	const struct segment_header *header = segment->header;
	struct account_pool *pools = account_pools(header, header);
	struct quota_counter counters[GENERATION_QUOTA_COUNTERS];

	for (unsigned i = 0; header->accounts.shards != 0 && i < ACCOUNT_POOLS; i++) {
		uint64_t name = RELAXED(pools[i].name);

		if (RELAXED(pools[i].unkept) == 0 || name == 0)
			continue;
		atomic_store(&pools[i].unkept, 0);
		accounts_load(pools[i].counters, counters, sizeof(counters) / 8);
		each(context, name, counters);
	}
}

/* --- restoring --------------------------------------------------------------------------- */

bool accounts_restore(struct segment *segment, const struct account *account,
    int64_t guard_ns, int64_t now_ns) {
	const struct login_key key = { { account->key[0], account->key[1] } };
	struct accounts_held held;

	if (accounts_take(segment, &key, account->name,
	    strnlen(account->name, sizeof(account->name)), now_ns, &held) != ACCOUNTS_HELD)
		return false;
	held.account.first_s = account->first_s;
	held.account.accepted = account->accepted;
	held.account.refused = account->refused;
	held.account.held_by = account->held_by;
	held.account.entry = account->entry;
	memcpy(held.account.counters, account->counters, sizeof(account->counters));
	held.account.seen = SEEN_WORD(0, segment_ds(segment, now_ns));
	held.account.guard_ds = guard_ns > now_ns ? segment_ds(segment, guard_ns) + 1 : 0;
	/* no mark: the journal has it, and its first checkpoint takes all */
	accounts_store_changed(held.slot, &held.account, &held.was, 1, ACCOUNT_WORDS);
	accounts_release(&held);
	return true;
}

bool account_pool_restore(struct segment *segment, uint64_t name,
    const struct quota_counter counters[GENERATION_QUOTA_COUNTERS], accounts_idle *is_idle,
    int64_t now_ns) {
	struct accounts_held held = { .slot = NULL };

	if (name == 0 || !accounts_take_pool(segment, name, is_idle, now_ns, &held))
		return false;
	for (size_t i = 0; i < sizeof(held.pool->counters) / 8; i++) {
		uint64_t word;

		memcpy(&word, (const char *)counters + 8 * i, sizeof(word));
		atomic_store(&held.pool->counters[i], word);
	}
	atomic_store(&held.pool->unkept, 1);
	lock_release(&held.pool->lock);
	return true;
}

void accounts_restore_since(struct segment *segment, int64_t since_ns) {
	if (segment->header->accounts.shards != 0 && since_ns != 0)
		atomic_store(&segment->header->accounts_since_ns, since_ns);
}

/* --- another segment ---------------------------------------------------------------------- */

void accounts_scrub(struct segment *segment, int64_t now_ns) {
	struct segment_header *header = segment->header;
	struct account_pool *pools = account_pools(header, header);
	int64_t since_ns = segment_accounts_since_ns(header);
	struct learned table;

	if (!accounts_bind(header, header, &table))
		return;
	learned_scrub(&table, segment_ds(segment, now_ns));
	if (account_mails_bind(header, header, &table))
		learned_scrub(&table, segment_ds(segment, now_ns));
	if (account_healths_bind(header, header, &table))
		learned_scrub(&table, segment_ds(segment, now_ns));
	if (account_queued_bind(header, header, &table))
		learned_scrub(&table, segment_ds(segment, now_ns));
	for (unsigned i = 0; i < ACCOUNT_POOLS; i++)
		lock_reset(&pools[i].lock);
	if (since_ns == 0 || since_ns > now_ns)
		atomic_store(&header->accounts_since_ns, now_ns);
}

struct carrying {
	int64_t later_ds;	/* that the new segment was made */
	bool held;		/* these, or all others? */
};

/* Tenths of seconds since the new segment was made, which are fewer. */
static bool carry_account(void *context, uint64_t *words) {
	const struct carrying *carrying = context;
	struct account account;

	memcpy(&account, words, sizeof(account));
	account.guard_ds = account.guard_ds > carrying->later_ds ?
	    account.guard_ds - (uint32_t)carrying->later_ds : 0;
	memcpy(words, &account, sizeof(account));
	return (account.held_by != 0) == carrying->held;
}

static bool carry_health(void *context, uint64_t *words) {
	const struct carrying *carrying = context;
	uint64_t *alerted_ds = &words[offsetof(struct account_health, alerted_ds) / 8];

	*alerted_ds = *alerted_ds > (uint64_t)carrying->later_ds ?
	    *alerted_ds - (uint64_t)carrying->later_ds : 0;
	return true;
}

void accounts_carry(const struct segment *from, struct segment *to) {
	struct carrying carrying = {
		.later_ds = (to->header->created_ns - from->header->created_ns) / DS_NS,
		.held = true };
	struct learned old, new;

	if (!accounts_bind(from->header, from->header, &old) ||
	    !accounts_bind(to->header, to->header, &new))
		return;
	/* a smaller table may have no room for all */
	learned_carry(&old, &new, carry_account, &carrying);
	carrying.held = false;
	learned_carry(&old, &new, carry_account, &carrying);
	atomic_store(&to->header->accounts_since_ns,
	    atomic_load(&from->header->accounts_since_ns));
	if (account_mails_bind(from->header, from->header, &old) &&
	    account_mails_bind(to->header, to->header, &new))
		learned_carry(&old, &new, NULL, NULL);
	if (account_healths_bind(from->header, from->header, &old) &&
	    account_healths_bind(to->header, to->header, &new))
		learned_carry(&old, &new, carry_health, &carrying);
	if (account_queued_bind(from->header, from->header, &old) &&
	    account_queued_bind(to->header, to->header, &new))
		learned_carry(&old, &new, NULL, NULL);
	for (unsigned i = 0; i < ACCOUNT_POOLS; i++) {
		struct account_pool *source = &account_pools(from->header, from->header)[i];
		struct account_pool *target = &account_pools(to->header, to->header)[i];

		atomic_store(&target->name, RELAXED(source->name));
		for (size_t word = 0; word < sizeof(source->counters) / 8; word++)
			atomic_store(&target->counters[word], RELAXED(source->counters[word]));
	}
}
