/* SPDX-License-Identifier: ISC */
/*
 * What the mail of logins does, and which of their messages are in the queue
 * (layout_accounts.h).  Tables of segment/learned.h; their locks are never held with another
 * one.  Any thread of any process.  Without tables nothing is found and nothing kept.
 */
#ifndef SEGMENT_ACCOUNT_HEALTH_H
#define SEGMENT_ACCOUNT_HEALTH_H

#include "segment/account/accounts.h"

struct account_health_held {
	struct account_held entry;
	struct account_health health, was;
};

/* Finds it, or makes one (`make`).  False: nothing is held. */
bool account_health_take(struct segment *segment, const struct login_key *login, bool make,
    int64_t now_ns, struct account_health_held *held);
void account_health_put(struct segment *segment, struct account_health_held *held,
    int64_t now_ns);
void account_health_release(struct account_health_held *held);
/* Gives it up. */
void account_health_forget(struct segment *segment, const struct login_key *login,
    int64_t now_ns);

/* The message that the mail server (account_queued_mta, ACCOUNT_QUEUED_ANY) has under this queue id
 * is the login's, whatever was known; an id that is too long is not followed.  recipients: that it
 * has; 0: not known.  False: there is no room, or no lock in time. */
bool account_queued_note(struct segment *segment, uint32_t mta, const char *queue_id,
    size_t length, const struct login_key *login, uint32_t recipients, int64_t now_ns);
/* Whose is it?  False: not known. */
bool account_queued_find(const struct segment *segment, uint32_t mta, const char *queue_id,
    size_t length, struct account_queued *out);
/* So many of its recipients are done; UINT32_MAX: it has left the queue. */
void account_queued_done(struct segment *segment, uint32_t mta, const char *queue_id,
    size_t length, uint32_t recipients, int64_t now_ns);

/* --- reading: no lock --------------------------------------------------------------- */

/* False: nothing is known. */
bool account_health_find(const struct segment *segment, const struct login_key *login,
    struct account_health *out);

#endif
