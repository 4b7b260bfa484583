/* SPDX-License-Identifier: ISC */
/*
 * What lies in the segment of accounts: logins with their counters, what one smtpd's
 * transaction was charged, and what all logins of an entry were.  Part of segment/file/layout.h.
 * There is none of it where no accounts are configured.
 */
#ifndef SEGMENT_LAYOUT_ACCOUNTS_H
#define SEGMENT_LAYOUT_ACCOUNTS_H

#include <stdatomic.h>
#include <stdint.h>

#include "config/generation/generation.h"
#include "policy/limit/health.h"
#include "segment/file/layout_destinations.h"
#include "segment/file/lock.h"

#define ACCOUNT_NAME_MAX	60	/* bytes of a login that are shown */
#define ACCOUNT_POOLS		128	/* a power of two; twice as many as entries there may be */

/* A login.  384 bytes.  Words behind the key change one by one: whoever dies between has
 * charged what it did not answer for, at most. */
struct account {
	struct learned_control control;
	uint64_t seen;
	uint64_t key[2];		/* base/login.h */
	uint32_t guard_ds;		/* above half of a limit until then (as SEEN_DS) */
	int32_t first_s;		/* first seen: seconds of the monotonic clock; before it began,
					 * too */
	uint32_t accepted;		/* recipients that were charged since then */
	uint32_t epoch;			/* another one whenever its counts begin anew */
	uint32_t refused;		/* answers over a limit, or that would have been */
	uint32_t network;		/* hash of the one that was counted last; 0: none */
	uint64_t held_by;		/* id of the decision that holds it; 0: it is not held */
	char name[ACCOUNT_NAME_MAX];	/* printable ASCII; NULs behind it; a longer one ends in "..." */
	uint32_t entry;			/* generation_account_mark of its entry when it last sent */
	struct quota_counter counters[GENERATION_QUOTA_COUNTERS];
};
_Static_assert(sizeof(struct account) == 384, "six cache lines");

enum account_mail_state { ACCOUNT_MAIL_NONE, ACCOUNT_MAIL_OPEN, ACCOUNT_MAIL_DONE };

/* What the transaction of one smtpd process was charged.  96 bytes. */
struct account_mail {
	struct learned_control control;
	uint64_t seen;
	uint64_t key;			/* of the process: a hash */
	uint64_t instance;		/* of the transaction: a hash */
	uint64_t login[2];
	int64_t since_ns;		/* the first charge */
	uint32_t recipients;		/* charged */
	uint32_t passed;		/* not to be charged: free, let in by observe or unknown */
	uint64_t last;			/* hash of the last recipient that was charged */
	uint32_t state;			/* enum account_mail_state */
	uint32_t free;			/* of `passed`: postmaster, abuse and free domains */
	uint64_t pool;			/* that was charged, too: its name; 0: none */
	/* which counters were charged; of others nothing is given back.  0: not all the same */
	uint32_t counters, pool_counters;
};
_Static_assert(sizeof(struct account_mail) == 96, "whole words");

/* What the mail of a login does.  Of those who sent lately, and of whom something failed above all.
 * 1,120 bytes. */
struct account_health {
	struct learned_control control;
	uint64_t seen;
	uint64_t key[2];		/* the login's */
	uint64_t alerted_ds;		/* an alert was given: not again before */
	struct health health;
};
_Static_assert(sizeof(struct account_health) == 1120, "whole words");

#define ACCOUNT_QUEUE_ID	28	/* bytes; a longer id is not followed */

/* A message of a login that is in the queue.  72 bytes. */
struct account_queued {
	struct learned_control control;
	uint64_t seen;
	/* the key: the id, with NULs behind it, and whose it is */
	char queue_id[ACCOUNT_QUEUE_ID];
	uint32_t mta;			/* account_queued_mta; ACCOUNT_QUEUED_ANY */
	uint64_t login[2];
	uint64_t recipients;		/* that are left; 0: not known */
};
_Static_assert(sizeof(struct account_queued) == 72, "whole words");
#define ACCOUNT_QUEUED_ANY	0	/* behind a filter: not known yet */
/* A mail server by its name, over reloads; never 0. */
uint32_t account_queued_mta(const char *name);

/* All logins of one entry of accounts together. */
struct account_pool {
	_Alignas(64) struct lock lock;
	_Atomic uint64_t name;		/* hash of the entry's; 0: free */
	_Atomic uint64_t unkept;	/* 1: the journal does not have it as it is */
	uint64_t reserved[2];
	_Atomic uint64_t counters[GENERATION_QUOTA_COUNTERS * sizeof(struct quota_counter) / 8];
};
_Static_assert(sizeof(struct account_pool) == 64 + 256, "five cache lines");

#endif
