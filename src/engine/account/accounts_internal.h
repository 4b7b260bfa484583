/* SPDX-License-Identifier: ISC */
/* What the files share that charge accounts and give back.  For them only. */
#ifndef ENGINE_ACCOUNT_ACCOUNTS_INTERNAL_H
#define ENGINE_ACCOUNT_ACCOUNTS_INTERNAL_H

#include "engine/engine.h"
#include "segment/account/accounts.h"

/* Which counters it has: counts that began anew, or that a reload added, are others. */
uint32_t account_counters_of(const struct account *account);

/* Takes so many recipients off what the transaction charged. */
void account_give_back(struct engine *engine, const struct account_mail *mail,
    uint32_t recipients, int64_t now_ns);

bool account_login_is_new(const struct segment *segment, const struct account *account,
    const struct generation_account *entry, int64_t now_ns);

#endif
