/* SPDX-License-Identifier: ISC */
/* The laws of `postern-simulate pace': who may send, and what a result changes. */
#ifndef LAB_PACE_LAWS_H
#define LAB_PACE_LAWS_H

#include <stdbool.h>
#include <stdint.h>

#include "policy/limit/rate.h"
#include "policy/window/pace.h"

enum paced_law {
	PACED_SLOW,		/* ours */
	PACED_SNAP_BACK,	/* after a refusal `low` for a time, then at once as before */
	PACED_TWO_MODES,	/* after a refusal `low`, until a message is accepted */
	PACED_SUSPEND,		/* after a refusal nothing for a time */
	PACED_UNPACED,
	PACED_LAW_COUNT
};
/* "slow", "snap-back", "two-modes", "suspend", "unpaced" */
const char *paced_law_word(enum paced_law law);

struct paced_rules {
	struct pace_settings pace;	/* limit: of all laws, when they are not lowered */
	struct rate_limit low;
	int64_t low_ns, suspend_ns;
};

struct paced {
	const struct paced_rules *rules;
	enum paced_law law;
	struct pace pace;	/* SLOW */
	int64_t full_rate, low_rate;	/* the others: states of their rates */
	bool is_low;
	int64_t until_ns;	/* low, or suspended */
};

/* 0: a token was taken; else ask again after so many ns. */
int64_t paced_take(struct paced *paced, int64_t now_ns);
void paced_accepted(struct paced *paced, int64_t sent_ns, int64_t now_ns);
void paced_refused(struct paced *paced, int64_t sent_ns, int64_t now_ns);

#endif
