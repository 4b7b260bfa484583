/* SPDX-License-Identifier: ISC */
/* Logins whose mail says that they are stolen (health.h).  Threads: no state. */
#include "policy/limit/health.h"

#define NS		1e9

/* 2^-x, to 4 places. */
static double half_to_the(double x) {
	double result = 1, part;
	unsigned whole = x < 64 ? (unsigned)x : 64;

	if (whole == 64)
		return 0;
	part = (x - whole) * 0.693147;
	for (double term = 1, n = 1; n <= 6; n++) {
		term *= -part / n;
		result += term;
	}
	return result / (double)(UINT64_C(1) << whole);
}

static double kept_part(const struct health *health, const struct health_limits *limits,
    int64_t now_ns) {
	double period_s = limits->unknown_period_s == 0 ? 3600 : limits->unknown_period_s;

	if (now_ns <= health->at_ns)
		return 1;
	return half_to_the((double)(now_ns - health->at_ns) / NS / period_s);
}

void health_note_result(struct health *health, const struct health_limits *limits,
    uint32_t recipients, bool is_failed, bool is_unknown, uint64_t recipient, int64_t now_ns) {
	double part = kept_part(health, limits, now_ns);

	health->results = health->results * part + recipients;
	health->failed = health->failed * part + (is_failed ? recipients : 0);
	if (now_ns > health->at_ns)
		health->at_ns = now_ns;
	if (is_unknown && limits->unknown > 0)
		distinct_add(&health->unknown, recipient, limits->unknown_period_s, now_ns);
}

void health_take_back(struct health *health, const struct health_limits *limits,
    uint32_t recipients, int64_t now_ns) {
	double accepted = health->results - health->failed;
	double part = kept_part(health, limits, now_ns);

	/* what had faded by now is too little to matter: both were told within minutes */
	accepted = accepted * part > recipients ? accepted * part - recipients : 0;
	health->failed *= part;
	health->results = health->failed + accepted;
	if (now_ns > health->at_ns)
		health->at_ns = now_ns;
}

void health_note_network(struct health *health, const struct health_limits *limits,
    uint64_t network, int64_t now_ns) {
	if (limits->networks > 0)
		distinct_add(&health->networks, network, limits->networks_period_s, now_ns);
}

struct health_counts health_count(const struct health *health,
    const struct health_limits *limits, int64_t now_ns) {
	double part = kept_part(health, limits, now_ns);

	return (struct health_counts){
		.unknown = distinct_count(&health->unknown, limits->unknown_period_s, now_ns),
		.networks = distinct_count(&health->networks, limits->networks_period_s, now_ns),
		.results = health->results * part, .failed = health->failed * part };
}

enum health_verdict health_judge(const struct health_counts *counts,
    const struct health_limits *limits) {
	if (limits->networks > 0 && counts->networks > limits->networks)
		return HEALTH_NETWORKS;
	/* the last result is whole, those before are a little less */
	if (limits->unknown > 0 && counts->unknown >= limits->unknown &&
	    counts->results + 0.5 >= limits->of &&
	    counts->failed * 100 >= counts->results * limits->failed_percent)
		return HEALTH_UNKNOWN;
	return HEALTH_GOOD;
}
