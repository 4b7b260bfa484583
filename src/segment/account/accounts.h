/* SPDX-License-Identifier: ISC */
/*
 * Accounts in the segment: logins and their counters, what each smtpd's transaction was
 * charged, what all logins of an entry were (layout_accounts.h).  Tables of segment/destination/learned.h.
 *
 * Whoever changes a login takes its shard's lock, then (if the entry has limits for all) the
 * pool's; a transaction's lock is never held with another one.  Any thread of any process.
 * Without accounts in the configuration that the segment was made for there are no tables:
 * nothing is found and nothing kept.
 */
#ifndef SEGMENT_ACCOUNTS_H
#define SEGMENT_ACCOUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/login.h"
#include "segment/file/layout.h"
#include "segment/destination/learned.h"

struct segment;

enum accounts_taken {
	ACCOUNTS_HELD,
	ACCOUNTS_UNKNOWN,	/* nothing is held: there is none, */
	ACCOUNTS_FULL,		/* there is no room for one, */
	ACCOUNTS_BUSY,		/* the lock was not to be had */
};

/* An entry of one of the tables, whose lock is held. */
struct account_held {
	struct learned table;
	struct learned_key key;
	_Atomic uint64_t *slot;
};

/* A login whose lock is held: `account` is a copy, which accounts_put stores. */
struct accounts_held {
	struct account_held entry;
	struct account account, was;
	struct account_pool *pool;	/* whose lock is held, too; or NULL */
	struct quota_counter pool_counters[GENERATION_QUOTA_COUNTERS];
};

/* Finds the login, or makes it where `name` is not NULL. */
enum accounts_taken accounts_take(struct segment *segment, const struct login_key *login,
    const char *name, size_t length, int64_t now_ns, struct accounts_held *held);
/* quota_is_idle. */
typedef bool accounts_idle(const struct quota_counter counters[], unsigned count, int64_t now_ns);
/* And the pool of the entry of this name hash (never 0), found or made; where there is no place for
 * one, in that of a pool that is idle (NULL: of none).  False: not held. */
bool accounts_take_pool(struct segment *segment, uint64_t name, accounts_idle *is_idle,
    int64_t now_ns, struct accounts_held *held);
/* Stores what changed.  `guard_ns`: it is not to be evicted for so long; -1: as it
 * was. */
void accounts_put(struct segment *segment, struct accounts_held *held, int64_t guard_ns,
    int64_t now_ns);
/* The same of nothing but how long it is not to be evicted; it was not seen now. */
void accounts_guard(struct segment *segment, struct accounts_held *held, int64_t guard_ns,
    int64_t now_ns);
void accounts_release(struct accounts_held *held);
/* Its counts start from 0.  When it was first seen, and what holds it, stay. */
void accounts_forget(struct segment *segment, struct accounts_held *held, int64_t now_ns);

/* Seconds of the monotonic clock since when logins are known; before it began, too. */
int64_t accounts_since_s(const struct segment *segment);

/* --- transactions ------------------------------------------------------------------ */

struct account_mail_held {
	struct account_held entry;
	struct account_mail mail;
};

/* Finds what this process's transaction was charged, or begins one that was charged nothing
 * (`make`). */
enum accounts_taken account_mail_take(struct segment *segment, uint64_t process, bool make,
    int64_t now_ns, struct account_mail_held *held);
void account_mail_put(struct segment *segment, struct account_mail_held *held, int64_t now_ns);
void account_mail_release(struct account_mail_held *held);
void account_mail_forget(struct account_mail_held *held);

/* Processes whose transaction was not heard of since then, or is done since done_ns; returns how
 * many of at most `most`.  No lock. */
unsigned account_mails_before(const struct segment *segment, int64_t before_ns, int64_t done_ns,
    uint64_t processes[], unsigned most);

/* With a copy of an entry: struct account; of the other tables, theirs. */
typedef void accounts_call(void *context, const void *entry);
extern const struct learned_kind account_kind, account_health_kind, account_queued_kind;

/* --- the journal (accounts_keep.c) --------------------------------------------------- */

/* Calls `each` for logins that changed since they were last told here, about `most` at once, from
 * *at (zeros at the begin) on. */
void accounts_unkept(struct segment *segment, struct learned_follower *at, unsigned most,
    accounts_call *each, void *context);
void account_pools_unkept(struct segment *segment, void (*each)(void *context, uint64_t name,
    const struct quota_counter counters[]), void *context);
/* All pools are to be told again. */
void account_pools_unkeep(struct segment *segment);

/* Calls `each` for `most` logins from *at (zeros: the first) on; true: there are no more, and *at is
 * zeros again.  Of what changes meanwhile, accounts_unkept tells. */
bool accounts_walk(const struct segment *segment, struct learned_cursor *at, unsigned most,
    accounts_call *each, void *context);

/* As the journal has it, by this clock.  False: no room, or there are no tables. */
bool accounts_restore(struct segment *segment, const struct account *account,
    int64_t guard_ns, int64_t now_ns);
bool account_pool_restore(struct segment *segment, uint64_t name,
    const struct quota_counter counters[GENERATION_QUOTA_COUNTERS], accounts_idle *is_idle,
    int64_t now_ns);
void accounts_restore_since(struct segment *segment, int64_t since_ns);

/* --- reading: no lock --------------------------------------------------------------- */

/* Calls `each` with a copy of every entry of a table; returns how many changed all the time. */
unsigned accounts_each(const struct segment *segment, const struct learned_kind *kind,
    accounts_call *each, void *context);
/* False: not known. */
bool accounts_find(const struct segment *segment, const struct login_key *login,
    struct account *out);
uint64_t accounts_used(const struct segment *segment);
/* A copy of a pool's counters; false: the entry has none. */
bool accounts_pool(const struct segment *segment, const char *entry,
    struct quota_counter counters[GENERATION_QUOTA_COUNTERS]);
/* The same hash everywhere, never 0: of an entry's name. */
uint64_t accounts_pool_name(const char *name);

/* --- for segment/ only --------------------------------------------------------------- */

extern const struct learned_kind account_mail_kind;
/* What stands beside these tables, in a new file, an adopted one, or taken from another. */
void accounts_scrub(struct segment *segment, int64_t now_ns);
void accounts_carry(const struct segment *from, struct segment *to);

#endif
