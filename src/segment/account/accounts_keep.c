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

/* --- what the journal has not ------------------------------------------------------------ */

void accounts_mark_unkept(const struct learned *table, uint32_t shard, uint32_t number) {
	learned_mark(table, table->header->accounts_unkept_offset, shard, number);
	FAILPOINT();
}

void accounts_unkept(struct segment *segment, struct learned_follower *at, unsigned most,
    accounts_call *each, void *context) {
	struct learned table = learned_table(segment, &account_kind);
	bool is_pass = at->word == 0;
	uint64_t copy[LEARNED_WORDS_MAX];
	uint32_t shard, number;

	for (unsigned told = 0; told < most; told++) {
		while (!learned_next_marked(&table, segment->header->accounts_unkept_offset,
		    LEARNED_TAKE, at, &shard, &number, copy)) {
			if (is_pass)
				return;
			is_pass = true;
		}
		accounts_say(&account_kind, copy, each, context);
	}
}

bool accounts_walk(const struct segment *segment, struct learned_cursor *at, unsigned most,
    accounts_call *each, void *context) {
	struct learned table = learned_table(segment, &account_kind);
	uint64_t copy[LEARNED_WORDS_MAX];

	/* whoever changes one right now marks it, too */
	for (unsigned told = 0; told < most; told++) {
		if (!learned_each(&table, at, copy)) {
			*at = (struct learned_cursor){ .torn = 0 };
			return true;
		}
		accounts_say(&account_kind, copy, each, context);
	}
	return false;
}

void account_pools_unkeep(struct segment *segment) {
	for (unsigned i = 0; segment->header->accounts.shards != 0 && i < ACCOUNT_POOLS; i++)
		atomic_store(&account_pools(segment)[i].unkept, 1);
}

void account_pools_unkept(struct segment *segment, void (*each)(void *context, uint64_t name,
    const struct quota_counter counters[]), void *context) {
	struct account_pool *pools = account_pools(segment);
	struct quota_counter counters[GENERATION_QUOTA_COUNTERS];

	for (unsigned i = 0; segment->header->accounts.shards != 0 && i < ACCOUNT_POOLS; i++) {
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
	accounts_store_changed(held.entry.slot, &held.account, &held.was, 1, ACCOUNT_WORDS);
	accounts_release(&held);
	return true;
}

bool account_pool_restore(struct segment *segment, uint64_t name,
    const struct quota_counter counters[GENERATION_QUOTA_COUNTERS], accounts_idle *is_idle,
    int64_t now_ns) {
	struct accounts_held held;

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
	int64_t since_ns = segment_accounts_since_ns(header);

	if (header->accounts.shards == 0)
		return;
	for (unsigned i = 0; i < ACCOUNT_POOLS; i++)
		lock_reset(&account_pools(segment)[i].lock);
	if (since_ns == 0 || since_ns > now_ns)
		atomic_store(&header->accounts_since_ns, now_ns);
}

void accounts_carry(const struct segment *from, struct segment *to) {
	if (from->header->accounts.shards == 0 || to->header->accounts.shards == 0)
		return;
	atomic_store(&to->header->accounts_since_ns,
	    atomic_load(&from->header->accounts_since_ns));
	for (unsigned i = 0; i < ACCOUNT_POOLS; i++) {
		struct account_pool *source = &account_pools(from)[i];
		struct account_pool *target = &account_pools(to)[i];

		atomic_store(&target->name, RELAXED(source->name));
		for (size_t word = 0; word < sizeof(source->counters) / 8; word++)
			atomic_store(&target->counters[word], RELAXED(source->counters[word]));
	}
}
