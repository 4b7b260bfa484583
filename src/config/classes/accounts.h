/* SPDX-License-Identifier: ISC */
/* What the two files that compile accounts share. */
#ifndef CONFIG_ACCOUNTS_H
#define CONFIG_ACCOUNTS_H

#include "config/read/compilation.h"

/* "recipients" ... */
extern const char *const account_kind_names[QUOTA_KINDS];
/* The setting of limits of that kind in a group, as "accounts[].each". */
const struct setting *account_limit_setting(const char *group, enum quota_kind kind);
/* A parsed value as a limit. */
struct quota_limit account_limit(enum quota_kind kind, const struct setting_value *value);

/* How many counters the limits need: those of one kind and period share one. */
unsigned account_counters(const struct quota_limit limits[], unsigned count);

/* Puts them into the block. */
struct generation_quotas account_store(struct compilation *c,
    const struct generation_quota quotas[], uint32_t count);

/* account_overrides.c: the file that account_overrides names, one login a line.  A line that is
 * wrong is left out, with a note; the rest stands. */
void compile_account_overrides(struct compilation *c);

#endif
