/* SPDX-License-Identifier: ISC */
/* What policy/ answers: a verdict and one reason out of defs/reasons.def. */
#ifndef POLICY_DECISION_H
#define POLICY_DECISION_H

#include <stdint.h>

enum verdict {
	VERDICT_ADMIT,
	VERDICT_REFUSE,		/* inbound: 421 */
	VERDICT_DEFER,		/* inbound: DEFER_IF_PERMIT at RCPT; outbound: stays queued */
	VERDICT_DISCARD,	/* outbound: taken out of the queue, as it was delivered already */
};

enum reason {
#define REASON(symbol, word, text) REASON_##symbol,
#include "defs/reasons.def"
#undef REASON
	REASON_COUNT
};

/* What a share went by. */
enum lease {
	LEASE_NONE,		/* the decision is of no share */
#define LEASE(symbol, word, text) LEASE_##symbol,
#include "defs/leases.def"
#undef LEASE
	LEASE_COUNT
};

struct decision {
	enum verdict verdict;
	enum reason reason;
	/* What was compared: the count before this session and its limit;
	 * both 0 where the reason has none. */
	uint32_t count;
	uint32_t limit;
	/* Of REASON_CLASS_SHARE: the limit of all machines together, that is in force. */
	uint32_t whole;
	enum lease lease;
};

#endif
