/* SPDX-License-Identifier: ISC */
/* A login of a site: its rules, and its counters and those of its entry's pool as they are. */
#ifndef TESTS_UNIT_SITE_ACCOUNT_H
#define TESTS_UNIT_SITE_ACCOUNT_H

#include <string.h>

#include "segment/account/accounts.h"
#include "segment/file/internal.h"
#include "tests/unit/site.h"

struct site_account {
	bool is_known;		/* it is in the table */
	struct account account;
	struct account_rules rules;
	struct quota_counter pool[GENERATION_QUOTA_COUNTERS];
};

/* False: no entry matches. */
static inline bool site_account(const struct site *of, const char *login,
    struct site_account *out) {
	size_t length = strlen(login);
	char folded[LOGIN_MAX];
	struct login_key key;

	memset(out, 0, sizeof(*out));
	if (!login_fold(login, length, folded))
		return false;
	key = login_key(folded, length);
	if (!generation_account_rules(of->generation, folded, length, &key, false, &out->rules))
		return false;
	out->is_known = accounts_find(of->segment, &key, &out->account);
	(void)accounts_pool(of->segment, generation_text(of->generation, out->rules.account->name),
	    out->pool);
	return true;
}

#endif
