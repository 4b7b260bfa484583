/* SPDX-License-Identifier: ISC */
/* What the files that keep accounts in the segment share: its tables.  For them only. */
#ifndef SEGMENT_ACCOUNT_ACCOUNTS_INTERNAL_H
#define SEGMENT_ACCOUNT_ACCOUNTS_INTERNAL_H

#include "segment/account/accounts.h"
#include "segment/file/internal.h"

#define ACCOUNT_WORDS	(sizeof(struct account) / 8)
_Static_assert(ACCOUNT_WORDS <= LEARNED_WORDS_MAX, "it fits a copy");

/* Takes the lock of the entry with this key, which is in *entry then where there is one: held->slot
 * says so.  Not HELD: UNKNOWN, there are no tables; BUSY. */
enum accounts_taken accounts_lock(struct segment *segment, const struct learned_kind *kind,
    const void *key, int64_t now_ns, struct account_held *held, void *entry);

/* Tenths of seconds since `to` was made, in place of those since `from` was. */
static inline uint64_t accounts_moved_ds(const struct segment *from, const struct segment *to,
    uint64_t ds) {
	uint32_t later_ds = segment_ds(from, to->header->created_ns);

	return ds > later_ds ? ds - later_ds : 0;
}

/* With a copy of an entry's words. */
void accounts_say(const struct learned_kind *kind, const uint64_t *copy, accounts_call *each,
    void *context);

struct account_pool *account_pools(const struct segment *segment);

void accounts_load(const _Atomic uint64_t *slot, void *out, size_t words);
/* Stores words from `from` on that differ, one by one, the last one first. */
void accounts_store_changed(_Atomic uint64_t *slot, const void *now, const void *was,
    size_t from, size_t to);

/* The journal does not have this login as it is. */
void accounts_mark_unkept(const struct learned *table, uint32_t shard, uint32_t number);

#endif
