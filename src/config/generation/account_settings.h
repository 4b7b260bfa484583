/* SPDX-License-Identifier: ISC */
/*
 * Accounts in a configuration generation: quotas per login.  Part of config/generation/generation.h.
 * Offsets are bytes from the start of the block.
 */
#ifndef CONFIG_ACCOUNT_SETTINGS_H
#define CONFIG_ACCOUNT_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/limit/health.h"
#include "policy/limit/quota.h"

struct generation;
struct login_key;

#define GENERATION_ACCOUNTS_MAX	64
#define GENERATION_QUOTA_COUNTERS 4	/* of one login, or of one entry's pool */
#define GENERATION_QUOTAS_MAX	16	/* that count for one login */
#define GENERATION_NO_ACCOUNT	UINT32_MAX

enum account_action { ACCOUNT_ACTION_DEFER, ACCOUNT_ACTION_REJECT };
/* NONE: only networks limits, as another limit. */
enum account_health_action { ACCOUNT_HEALTH_NONE, ACCOUNT_HEALTH_HOLD, ACCOUNT_HEALTH_ALERT };

/* One limit, as written. */
struct generation_quota {
	struct quota_limit limit;
	uint32_t line;		/* in the file of the entry, or of the overrides */
};

struct generation_quotas {
	uint32_t at;		/* struct generation_quota[count] */
	uint32_t count;
};

/* One entry of accounts. */
struct generation_account {
	uint32_t name;
	uint32_t text;		/* base/account_text.h */
	uint32_t file;
	uint32_t line;
	uint8_t action;		/* enum account_action */
	uint8_t observe;
	uint8_t health_action;	/* enum account_health_action */
	uint8_t counts_bounces;	/* recipients of bounces count as others do */
	uint32_t new_for_s;
	struct generation_quotas each;	/* of each login */
	struct generation_quotas all;	/* of all its logins together */
	struct generation_quotas fresh;	/* besides, of each that is new */
	uint32_t per_message;	/* recipients; 0: any number */
	uint32_t per_message_line;
	uint32_t free;		/* uint32_t[free_count]: domains whose recipients do not count */
	uint32_t free_count;
	struct health_limits health;
	uint32_t health_line, networks_line;
};

/* One pattern of one entry, in file order: what stands before its '*', and behind it. */
struct generation_login_pattern {
	uint32_t account;
	uint32_t text;
	uint32_t before;	/* bytes before the '*' */
	uint32_t behind;
	uint32_t exact;		/* 1: it has none; `before` is all of it */
};

/* Limits of a line of account_overrides; equal ones stand once. */
struct generation_override_set {
	struct generation_quotas quotas;
	uint32_t kinds;		/* a bit for each enum quota_kind that it has a word for */
	uint32_t per_message;	/* UINT32_MAX: as the entry has it; 0: any number */
};

struct generation_override {
	uint64_t key;		/* first word of the login's key; 0: free */
	uint32_t set;
	uint32_t line;
};

/* Entries for classes stand behind those of accounts: of each class with has_quotas, in order.
 * Their clients are logins, "class:NAME:ADDRESS", whose patterns come first. */
#define GENERATION_CLASS_LOGIN	"class:"
struct generation_accounts {
	uint32_t count;
	uint32_t class_entries;	/* of them, the last ones */
	uint32_t accounts;	/* struct generation_account[] */
	uint32_t pattern_count;
	uint32_t patterns;	/* struct generation_login_pattern[] */
	uint32_t overrides_file;	/* path, or "" */
	uint32_t override_count;
	uint32_t override_places;	/* a power of two; 0: there are none */
	uint32_t overrides;	/* struct generation_override[override_places], by hash */
	uint32_t set_count;
	uint32_t sets;		/* struct generation_override_set[] */
};

/* What counts for one login. */
struct account_rules {
	const struct generation_account *account;
	uint32_t index;		/* of the entry */
	uint32_t pattern;	/* that matched: number in patterns[] */
	uint32_t override_line;	/* 0: none */
	uint32_t per_message;
	unsigned count;
	struct quota_limit limits[GENERATION_QUOTAS_MAX];
	uint32_t lines[GENERATION_QUOTAS_MAX];	/* of each: where it is written */
	bool is_override[GENERATION_QUOTAS_MAX];	/* in overrides_file */
	bool is_new[GENERATION_QUOTAS_MAX];
};

/* The entry of a folded login, or GENERATION_NO_ACCOUNT. */
uint32_t generation_account_of(const struct generation *g, const char *folded, size_t length,
    uint32_t *pattern);

/* Entry number `index`, which is below accounts.count. */
const struct generation_account *generation_account(const struct generation *g, uint32_t index);

/* Name of the only mail server.  "": none is configured.  NULL: there are several. */
const char *generation_only_mta(const struct generation *g);
/* Name of the mail server that asks at this listener about its messages: the one that the listener
 * names, else the only one of its kind, or the only one.  "", NULL: as above. */
const char *generation_asking_mta(const struct generation *g, unsigned listener);

/* Fills the rules; `is_new`: the login is.  False: no entry matches. */
bool generation_account_rules(const struct generation *g, const char *folded, size_t length,
    const struct login_key *key, bool is_new, struct account_rules *rules);

/* As above, of a login of which only its key and `name` are kept (segment/account/accounts.h).  Where
 * that is not all of the login, the entry is the one of this mark; its pattern is not known. */
bool generation_account_rules_kept(const struct generation *g, const char *name,
    const struct login_key *key, uint32_t mark, bool is_new, struct account_rules *rules);

/* Of an entry's name, over reloads; never 0. */
uint32_t generation_account_mark(const char *name);

/* Is a login new that was first seen then?  All in seconds of the monotonic clock; since_s: the
 * table is so old that nobody was seen before. */
bool generation_account_is_new(const struct generation_account *account, int64_t first_s,
    int64_t since_s, int64_t now_s);

/* Takes the limits off that are for new logins alone. */
void account_rules_leave_out_new(struct account_rules *rules);

/* Limits of all logins of the entry together, and their lines in its file (NULL: not wanted);
 * returns how many. */
unsigned generation_account_pool(const struct generation *g,
    const struct generation_account *account, struct quota_limit limits[GENERATION_QUOTAS_MAX],
    uint32_t lines[GENERATION_QUOTAS_MAX]);

/* Number `pattern` of patterns[], as written but for the case of letters. */
const char *generation_login_pattern_text(const struct generation *g, uint32_t pattern);

/* Is the recipient of a domain that does not count? */
bool generation_account_is_free(const struct generation *g,
    const struct generation_account *account, const char *recipient, size_t length);

/* For generation.c: does all of it lie inside the block, and within bounds? */
bool generation_accounts_fit(const struct generation *g);

#endif
