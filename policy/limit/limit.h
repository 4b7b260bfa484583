/* SPDX-License-Identifier: ISC */
/*
 * Admission: the law of classes (DESIGN section 5; contrib/documents.md,
 * XLA), one pure function a question.  The caller holds whatever makes
 * the counts stand still, and does the counting.
 */
#ifndef POLICY_LIMIT_H
#define POLICY_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "policy/limit/decision.h"
#include "policy/limit/rate.h"

#define LIMIT_NONE	UINT32_MAX	/* a limit that is not set */

/* What one class allows.  Sessions are counts of open sessions. */
struct limits {
	uint32_t sessions;		/* XLA's queue number */
	uint32_t inbound;		/* XLA's reject number */
	uint32_t client_sessions;	/* of one client, or LIMIT_NONE */
	struct rate_limit rate;		/* session opens of the class */
	struct rate_limit client_rate;	/* session opens of one client */
};

/* What is open now.  Times are of one monotonic clock. */
struct limit_state {
	uint32_t open;			/* of the class, both directions */
	uint32_t client_open;		/* inbound, of this client in this class */
	int64_t rate_tat_ns;		/* rate.h */
	int64_t client_rate_tat_ns;
};

/* An inbound session.  Checks inbound, the client's sessions, the class's rate,
 * the client's rate, in this order; the first that is exceeded is the reason.
 * VERDICT_ADMIT or VERDICT_REFUSE. */
struct decision limit_inbound(const struct limits *limits,
    const struct limit_state *state, int64_t now_ns);

/* Does the reason come from a limit of one client rather than of the class?
 * (they have observe switches of their own) */
bool limit_reason_is_client(enum reason reason);

/* An outbound connection.  `held` says that the delivering process already
 * holds a counted connection of this class: it is admitted only while
 * n < sessions, its own counted, and is not counted again.  `same_host`: it was
 * already admitted to this very host: no new connection.
 * VERDICT_ADMIT (REASON_BELOW_LIMIT: to be counted) or VERDICT_DEFER. */
struct decision limit_outbound(const struct limits *limits,
    const struct limit_state *state, bool held, bool same_host);

/* Has this class room for an inbound session?  When no class has, the gate is
 * shut (first row of the table). */
bool limit_has_room(const struct limits *limits, uint32_t open);

#endif
