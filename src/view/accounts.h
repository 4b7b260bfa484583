/* SPDX-License-Identifier: ISC */
/* Accounts: logins with what they used of their limits, by the settings in force. */
#ifndef VIEW_ACCOUNTS_H
#define VIEW_ACCOUNTS_H

#include <string.h>

#include "view/view.h"

/* Is this, of a login that was kept, not all of it? */
static inline bool view_login_is_cut(const char *login) {
	size_t length = strlen(login);

	return length >= ACCOUNT_NAME_MAX && strcmp(login + length - strlen("..."), "...") == 0;
}

/* Has a login found no room in the table lately?  It has no limits. */
bool view_accounts_are_full(const struct view *view);

enum view_accounts_order { ACCOUNTS_BY_USE, ACCOUNTS_BY_REFUSED, ACCOUNTS_BY_ACCEPTED,
	ACCOUNTS_BY_SEEN, ACCOUNTS_BY_LOGIN };
/* By its word; false: there is none. */
bool view_accounts_order(const char *word, enum view_accounts_order *out);

/* A login and the limit of which it used the largest part. */
struct view_account_row {
	char login[ACCOUNT_NAME_MAX + 1];
	uint32_t entry;			/* name, in the generation; 0: no entry matches it */
	struct quota_limit limit;	/* most 0: there is none */
	uint64_t used, free_s, accepted, refused, seen_s;
	bool is_held;
};

/* Those that are held, and those above half of a limit. */
struct view_accounts_top {
	int64_t made_ns, took_ns;
	uint64_t held, full;		/* of all; full: at a limit, not held */
	unsigned count;
	struct view_account_row rows[100];	/* held ones first; then the fullest */
};
/* As of now, or a little earlier where there are many: making it takes a tenth of the time at
 * most.  NULL: no accounts, or no memory. */
const struct view_accounts_top *view_accounts_top(struct view *view);
/* The first `most` rows, as a table of posternctl accounts. */
void view_accounts_top_write(const struct view *view, const struct view_accounts_top *top,
    unsigned most, struct writer *writer);

struct view_accounts_choice {
	enum view_accounts_order order;
	const char *pattern;	/* part of the login, or NULL */
	bool over;		/* those alone that are at a limit, or held */
};

/* The table of posternctl accounts, in that order, largest first.  -1: no memory
 * (errno).  *torn: so many changed all the time. */
int view_accounts_write(const struct view *view, struct writer *writer,
    const struct view_accounts_choice *choice, unsigned *torn);

/* One login: an object, with its limits (`explain`: what its next recipient would be answered
 * instead).  False: no entry of accounts matches it. */
bool view_account_write(const struct view *view, struct writer *writer, const char *login,
    bool explain);

/* What its mail does, and its messages in the queue, with the commands that hold and remove them:
 * members of the open object. */
void view_account_health_write(const struct view *view, struct writer *writer,
    const struct generation_account *entry, const struct account *account);

#endif
