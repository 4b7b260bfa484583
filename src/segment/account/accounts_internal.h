/* SPDX-License-Identifier: ISC */
/* What the files that keep accounts in the segment share: its tables.  For them only. */
#ifndef SEGMENT_ACCOUNT_ACCOUNTS_INTERNAL_H
#define SEGMENT_ACCOUNT_ACCOUNTS_INTERNAL_H

#include "segment/account/accounts.h"
#include "segment/file/internal.h"

#define RELAXED(word)	atomic_load_explicit(&(word), memory_order_relaxed)
#define WORD_OF(type, member)	(offsetof(struct type, member) / 8)
#define ACCOUNT_WORDS	(sizeof(struct account) / 8)
_Static_assert(ACCOUNT_WORDS <= LEARNED_WORDS_MAX, "it fits a copy");

extern const struct learned_kind account_kind, account_mail_kind, account_health_kind,
    account_queued_kind;

/* The table of a mapping whose sizes were checked; false: there is none. */
static inline bool accounts_bind_place(const struct segment_header *sizes, const void *mapping,
    const struct table_place *place, const struct learned_kind *kind, struct learned *table) {
	if (place->shards == 0)
		return false;
	learned_bind(table, (struct segment_header *)(uintptr_t)sizes,
	    (void *)(uintptr_t)mapping, place, kind);
	return true;
}
static inline bool accounts_bind(const struct segment_header *sizes, const void *mapping,
    struct learned *table) {
	return accounts_bind_place(sizes, mapping, &sizes->accounts, &account_kind, table);
}
static inline bool account_mails_bind(const struct segment_header *sizes, const void *mapping,
    struct learned *table) {
	return accounts_bind_place(sizes, mapping, &sizes->account_mails, &account_mail_kind,
	    table);
}
static inline bool account_healths_bind(const struct segment_header *sizes,
    const void *mapping, struct learned *table) {
	return accounts_bind_place(sizes, mapping, &sizes->account_healths,
	    &account_health_kind, table);
}
static inline bool account_queued_bind(const struct segment_header *sizes,
    const void *mapping, struct learned *table) {
	return accounts_bind_place(sizes, mapping, &sizes->account_queued,
	    &account_queued_kind, table);
}

struct account_pool *account_pools(const struct segment_header *sizes, const void *mapping);

void accounts_load(const _Atomic uint64_t *slot, void *out, size_t words);
/* Stores words from `from` on that differ, one by one, the last one first. */
void accounts_store_changed(_Atomic uint64_t *slot, const void *now, const void *was,
    size_t from, size_t to);

/* The journal does not have this login as it is. */
void accounts_mark_unkept(const struct learned *table, uint32_t shard, uint32_t number);

#endif
