/* SPDX-License-Identifier: ISC */
/* Accounts: logins with what they used of their limits, by the settings in force. */
#ifndef VIEW_ACCOUNTS_H
#define VIEW_ACCOUNTS_H

#include "view/view.h"

struct view_accounts_choice {
	const char *pattern;	/* part of the login, or NULL */
	bool over;		/* those alone that are at a limit */
};

/* The table of posternctl accounts, those who used most of a limit first.  -1: no memory
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
