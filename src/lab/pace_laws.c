/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Our law of paces beside those that others use, for `postern-simulate pace'.
 * MODEL    snap-back: a second rate for a time after each refusal (KumoMTA's SetConfig).
 *          two-modes: a second rate until something is accepted (PowerMTA's backoff mode with
 *          backoff-to-normal-after-delivery).  suspend: nothing at all for a time.
 * ERRORS   None.
 * THREADS  No state.
 */
#include "lab/pace_laws.h"

const char *paced_law_word(enum paced_law law) {
	static const char *const words[PACED_LAW_COUNT] = { "slow", "snap-back", "two-modes",
		"suspend", "unpaced" };

	return words[law];
}

static int64_t take_rate(const struct rate_limit *limit, int64_t *state_ns, int64_t now_ns) {
	int64_t wait_ns = rate_wait_ns(limit, *state_ns, now_ns);

	if (wait_ns == 0)
		*state_ns = rate_after(limit, *state_ns, now_ns);
	return wait_ns;
}

int64_t paced_take(struct paced *paced, int64_t now_ns) {
	const struct paced_rules *rules = paced->rules;

	if (paced->law == PACED_SLOW)
		return pace_take(&paced->pace, &rules->pace, now_ns);
	if (paced->law == PACED_SUSPEND && now_ns < paced->until_ns)
		return paced->until_ns - now_ns;
	if (paced->law == PACED_SNAP_BACK)
		paced->is_low = now_ns < paced->until_ns;
	return paced->is_low ? take_rate(&rules->low, &paced->low_rate, now_ns) :
	    take_rate(&rules->pace.limit, &paced->full_rate, now_ns);
}

void paced_accepted(struct paced *paced, int64_t sent_ns, int64_t now_ns) {
	if (paced->law == PACED_SLOW)
		pace_accepted(&paced->pace, &paced->rules->pace, sent_ns, now_ns);
	else if (paced->law == PACED_TWO_MODES && sent_ns >= paced->until_ns)
		paced->is_low = false;
}

void paced_refused(struct paced *paced, int64_t sent_ns, int64_t now_ns) {
	const struct paced_rules *rules = paced->rules;

	switch (paced->law) {
	case PACED_SLOW:
		(void)pace_refused(&paced->pace, &rules->pace, sent_ns, now_ns);
		break;
	case PACED_SNAP_BACK:
		paced->until_ns = now_ns + rules->low_ns;
		break;
	case PACED_TWO_MODES:
		/* what was sent before does not end it */
		if (!paced->is_low)
			paced->until_ns = now_ns;
		paced->is_low = true;
		break;
	case PACED_SUSPEND:
		paced->until_ns = now_ns + rules->suspend_ns;
		break;
	case PACED_UNPACED:
	case PACED_LAW_COUNT:
		break;
	}
}
