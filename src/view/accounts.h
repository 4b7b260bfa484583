/* SPDX-License-Identifier: ISC */
/* Accounts: logins with what they used of their limits, by the settings in force. */
#ifndef VIEW_ACCOUNTS_H
#define VIEW_ACCOUNTS_H

#include "view/view.h"

enum view_accounts_order { ACCOUNTS_BY_USE, ACCOUNTS_BY_REFUSED, ACCOUNTS_BY_ACCEPTED,
	ACCOUNTS_BY_SEEN, ACCOUNTS_BY_LOGIN };
/* By its word; false: there is none. */
bool view_accounts_order(const char *word, enum view_accounts_order *out);

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
struct login_key;
void view_account_health_write(const struct view *view, struct writer *writer,
    const struct generation_account *entry, const struct login_key *login);

#endif
