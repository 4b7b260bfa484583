/* SPDX-License-Identifier: ISC */
/*
 * The law of classes (limit.h).
 *
 * Model: one comparison a row, in the order of the header; the first limit that
 * is reached names the reason.  Errors: none.  Threads: no state.
 */
#include "policy/limit/limit.h"

static struct decision decide(enum verdict verdict, enum reason reason,
    uint32_t count, uint32_t limit) {
	return (struct decision){
		.verdict = verdict, .reason = reason, .count = count, .limit = limit
	};
}

static struct decision refuse_rate(enum reason reason,
    const struct rate_limit *rate, int64_t tat_ns, int64_t now_ns) {
	return decide(VERDICT_REFUSE, reason, rate_count(rate, tat_ns, now_ns),
	    rate_burst(rate));
}

struct decision limit_inbound(const struct limits *limits,
    const struct limit_state *state, int64_t now_ns) {
	if (state->open >= limits->inbound)
		return decide(VERDICT_REFUSE, REASON_CLASS_INBOUND, state->open,
		    limits->inbound);
	if (limits->client_sessions != LIMIT_NONE &&
	    state->client_open >= limits->client_sessions)
		return decide(VERDICT_REFUSE, REASON_CLIENT_SESSIONS,
		    state->client_open, limits->client_sessions);
	if (!rate_allows(&limits->rate, state->rate_tat_ns, now_ns))
		return refuse_rate(REASON_CLASS_RATE, &limits->rate,
		    state->rate_tat_ns, now_ns);
	if (!rate_allows(&limits->client_rate, state->client_rate_tat_ns, now_ns))
		return refuse_rate(REASON_CLIENT_RATE, &limits->client_rate,
		    state->client_rate_tat_ns, now_ns);
	return decide(VERDICT_ADMIT, REASON_BELOW_LIMIT, state->open,
	    limits->inbound);
}

bool limit_reason_is_client(enum reason reason) {
	return reason == REASON_CLIENT_SESSIONS || reason == REASON_CLIENT_RATE;
}

struct decision limit_outbound(const struct limits *limits,
    const struct limit_state *state, bool held, bool same_host) {
	if (same_host)
		return decide(VERDICT_ADMIT, REASON_SAME_HOST, 0, 0);
	if (state->open >= limits->sessions)
		return decide(VERDICT_DEFER, REASON_CLASS_SESSIONS, state->open,
		    limits->sessions);
	return decide(VERDICT_ADMIT,
	    held ? REASON_SAME_PROCESS : REASON_BELOW_LIMIT, state->open,
	    limits->sessions);
}

bool limit_has_room(const struct limits *limits, uint32_t open) {
	return open < limits->inbound;
}
