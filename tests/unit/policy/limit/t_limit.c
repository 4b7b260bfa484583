/* SPDX-License-Identifier: ISC */
/*
 * The law of classes, row by row with numbers worked out by hand, and by
 * property.  The rows are those of the design's table; the examples are the two
 * of XLA's own README: customer.fr (*.customer.fr 8 8, * 3 3) and insa-lyon.fr
 * (*.insa-lyon.fr 8 3, *.univ-lyon1.fr 6 4, * 15 16), queue number first.
 */
#include "tests/unit/test.h"
#include "policy/limit/limit.h"
#include "tests/unit/random.h"

#define SECOND	INT64_C(1000000000)

static bool takes_slot(const struct decision *decision) {
	return decision->verdict == VERDICT_ADMIT &&
	    decision->reason == REASON_BELOW_LIMIT;
}

static struct limits xla(uint32_t queue, uint32_t reject) {
	return (struct limits){
		.sessions = queue, .inbound = reject, .client_sessions = LIMIT_NONE
	};
}

static struct decision inbound(const struct limits *limits, uint32_t open) {
	struct limit_state state = { .open = open };

	return limit_inbound(limits, &state, 0);
}

static struct decision outbound(const struct limits *limits, uint32_t open,
    bool held, bool same_host) {
	struct limit_state state = { .open = open };

	return limit_outbound(limits, &state, held, same_host);
}

static void assert_decision(struct decision got, enum verdict verdict,
    enum reason reason, uint32_t count, uint32_t limit) {
	assert_int_equal(got.verdict, verdict);
	assert_int_equal(got.reason, reason);
	assert_int_equal(got.count, count);
	assert_int_equal(got.limit, limit);
}

/* Rows 1 and 2: inbound, n < inbound admits; n >= inbound is 421. */
TEST(inbound_rows) {
	static const struct {
		uint32_t queue, reject, open;
		enum verdict verdict;
	} cases[] = {
		/* *.customer.fr 8 8 */
		{ 8, 8, 0, VERDICT_ADMIT }, { 8, 8, 7, VERDICT_ADMIT },
		{ 8, 8, 8, VERDICT_REFUSE }, { 8, 8, 9, VERDICT_REFUSE },
		/* * 3 3 */
		{ 3, 3, 2, VERDICT_ADMIT }, { 3, 3, 3, VERDICT_REFUSE },
		/* *.insa-lyon.fr 8 3: inbound is refused first */
		{ 8, 3, 0, VERDICT_ADMIT }, { 8, 3, 2, VERDICT_ADMIT },
		{ 8, 3, 3, VERDICT_REFUSE }, { 8, 3, 7, VERDICT_REFUSE },
		/* *.univ-lyon1.fr 6 4 */
		{ 6, 4, 3, VERDICT_ADMIT }, { 6, 4, 4, VERDICT_REFUSE },
		/* * 15 16: inbound goes on where outbound has ended */
		{ 15, 16, 14, VERDICT_ADMIT }, { 15, 16, 15, VERDICT_ADMIT },
		{ 15, 16, 16, VERDICT_REFUSE },
		/* nothing at all; and as good as no limit */
		{ 5, 0, 0, VERDICT_REFUSE }, { 0, 1, 0, VERDICT_ADMIT },
		{ 0, LIMIT_NONE, 4000000000u, VERDICT_ADMIT },
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct limits limits = xla(cases[i].queue, cases[i].reject);
		bool admit = cases[i].verdict == VERDICT_ADMIT;

		assert_decision(inbound(&limits, cases[i].open), cases[i].verdict,
		    admit ? REASON_BELOW_LIMIT : REASON_CLASS_INBOUND,
		    cases[i].open, cases[i].reject);
		assert_int_equal(limit_has_room(&limits, cases[i].open), admit);
	}
}

/* Rows 3 and 4: outbound, n < sessions admits and counts once a process; else
 * the mail stays queued, though one of n is the asking process's own. */
TEST(outbound_rows) {
	static const struct {
		uint32_t queue, reject, open;
		bool held;
		enum reason reason;
	} cases[] = {
		{ 8, 8, 0, false, REASON_BELOW_LIMIT },
		{ 8, 8, 7, false, REASON_BELOW_LIMIT },
		{ 8, 8, 8, false, REASON_CLASS_SESSIONS },
		{ 3, 3, 2, false, REASON_BELOW_LIMIT },
		{ 3, 3, 3, false, REASON_CLASS_SESSIONS },
		/* 8 3: outbound goes on where inbound has ended */
		{ 8, 3, 3, false, REASON_BELOW_LIMIT },
		{ 8, 3, 7, false, REASON_BELOW_LIMIT },
		{ 8, 3, 8, false, REASON_CLASS_SESSIONS },
		{ 6, 4, 5, false, REASON_BELOW_LIMIT },
		{ 6, 4, 6, false, REASON_CLASS_SESSIONS },
		/* 15 16: outbound yields first */
		{ 15, 16, 14, false, REASON_BELOW_LIMIT },
		{ 15, 16, 15, false, REASON_CLASS_SESSIONS },
		{ 15, 16, 16, false, REASON_CLASS_SESSIONS },
		/* a second connection of the process in the class: not counted,
		 * but only while there is a place */
		{ 8, 8, 1, true, REASON_SAME_PROCESS },
		{ 8, 8, 7, true, REASON_SAME_PROCESS },
		{ 8, 8, 8, true, REASON_CLASS_SESSIONS },
		{ 1, 1, 1, true, REASON_CLASS_SESSIONS },
		{ 0, 8, 0, false, REASON_CLASS_SESSIONS },
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct limits limits = xla(cases[i].queue, cases[i].reject);
		struct decision decision = outbound(&limits, cases[i].open,
		    cases[i].held, false);

		assert_decision(decision, cases[i].reason == REASON_CLASS_SESSIONS ?
		    VERDICT_DEFER : VERDICT_ADMIT, cases[i].reason,
		    cases[i].open, cases[i].queue);
		assert_int_equal(takes_slot(&decision),
		    cases[i].reason == REASON_BELOW_LIMIT);
	}
}

/* Row 5: the same process, the same host: no new connection, however full. */
TEST(same_host_row) {
	struct limits limits = xla(3, 3);

	for (uint32_t open = 0; open < 6; open++) {
		struct decision decision = outbound(&limits, open, true, true);

		assert_decision(decision, VERDICT_ADMIT, REASON_SAME_HOST, 0, 0);
		assert_false(takes_slot(&decision));
	}
}

/* Row 6: the gate is shut when every class has n >= its inbound, not before. */
static bool gate_is_shut(const struct limits *classes, const uint32_t *open,
    size_t count) {
	for (size_t i = 0; i < count; i++)
		if (limit_has_room(&classes[i], open[i]))
			return false;
	return true;
}

TEST(gate_row) {
	const struct limits customer[] = { xla(8, 8), xla(3, 3) };
	const struct limits lyon[] = { xla(8, 3), xla(6, 4), xla(15, 16) };

	assert_true(gate_is_shut(customer, (uint32_t[]){ 8, 3 }, 2));
	assert_false(gate_is_shut(customer, (uint32_t[]){ 7, 3 }, 2));
	assert_false(gate_is_shut(customer, (uint32_t[]){ 8, 2 }, 2));
	assert_true(gate_is_shut(lyon, (uint32_t[]){ 3, 4, 16 }, 3));
	assert_true(gate_is_shut(lyon, (uint32_t[]){ 8, 6, 16 }, 3));
	assert_false(gate_is_shut(lyon, (uint32_t[]){ 8, 6, 15 }, 3));
	assert_false(gate_is_shut(lyon, (uint32_t[]){ 2, 4, 16 }, 3));
}

/* customer.fr as the README tells it, one step after the other. */
TEST(customer_example) {
	struct limits customer = xla(8, 8), others = xla(3, 3);
	uint32_t n = 0, m = 0;

	/* "no more than 8 simultaneous sessions" with the customer, both ways */
	for (int i = 0; i < 5; i++, n++)
		assert_int_equal(inbound(&customer, n).verdict, VERDICT_ADMIT);
	for (int i = 0; i < 3; i++, n++)
		assert_int_equal(outbound(&customer, n, false, false).verdict, VERDICT_ADMIT);
	assert_int_equal(n, 8);
	assert_int_equal(inbound(&customer, n).verdict, VERDICT_REFUSE);
	assert_int_equal(outbound(&customer, n, false, false).verdict, VERDICT_DEFER);
	/* "3 sessions from and to the outside: mail is held until a slot is free" */
	for (int i = 0; i < 3; i++, m++)
		assert_int_equal(inbound(&others, m).verdict, VERDICT_ADMIT);
	assert_int_equal(outbound(&others, m, false, false).verdict, VERDICT_DEFER);
	m--;
	assert_int_equal(outbound(&others, m, false, false).verdict, VERDICT_ADMIT);
}

TEST(client_limits_come_after_the_class) {
	struct limits limits = xla(10, 5);
	struct limit_state open = { .open = 4, .client_open = 2 };

	limits.client_sessions = 3;
	assert_decision(limit_inbound(&limits, &open, 0), VERDICT_ADMIT,
	    REASON_BELOW_LIMIT, 4, 5);
	open.client_open = 3;
	assert_decision(limit_inbound(&limits, &open, 0), VERDICT_REFUSE,
	    REASON_CLIENT_SESSIONS, 3, 3);
	open.open = 5;
	assert_decision(limit_inbound(&limits, &open, 0), VERDICT_REFUSE,
	    REASON_CLASS_INBOUND, 5, 5);
	open.open = 4;
	limits.client_sessions = LIMIT_NONE;
	open.client_open = UINT32_MAX;
	assert_decision(limit_inbound(&limits, &open, 0), VERDICT_ADMIT,
	    REASON_BELOW_LIMIT, 4, 5);
	assert_false(limit_reason_is_client(REASON_CLASS_INBOUND));
	assert_false(limit_reason_is_client(REASON_CLASS_RATE));
	assert_true(limit_reason_is_client(REASON_CLIENT_SESSIONS));
	assert_true(limit_reason_is_client(REASON_CLIENT_RATE));
}

/* Class 2/10s: an event takes 5 s of the line, a burst of 2. Client 1/10s. */
TEST(rates_come_last) {
	struct limits limits = xla(10, 5);
	struct limit_state open = { .open = 1, .client_open = 1 };
	int64_t now = 100 * SECOND;

	limits.rate = (struct rate_limit){ .period_ns = 10 * SECOND, .count = 2 };
	limits.client_rate = (struct rate_limit){ .period_ns = 10 * SECOND, .count = 1 };
	assert_int_equal(limit_inbound(&limits, &open, now).verdict, VERDICT_ADMIT);
	open.rate_tat_ns = now + 10 * SECOND;		/* two at once before */
	open.client_rate_tat_ns = now + 10 * SECOND;	/* one before */
	assert_decision(limit_inbound(&limits, &open, now), VERDICT_REFUSE,
	    REASON_CLASS_RATE, 2, 2);
	assert_decision(limit_inbound(&limits, &open, now + 5 * SECOND), VERDICT_REFUSE,
	    REASON_CLIENT_RATE, 1, 1);
	assert_decision(limit_inbound(&limits, &open, now + 10 * SECOND), VERDICT_ADMIT,
	    REASON_BELOW_LIMIT, 1, 5);
	/* what a decision tells beside the count is the bucket */
	limits.rate.burst = 1;
	assert_decision(limit_inbound(&limits, &open, now + 7 * SECOND), VERDICT_REFUSE,
	    REASON_CLASS_RATE, 1, 1);
	limits.client_sessions = 1;
	assert_decision(limit_inbound(&limits, &open, now), VERDICT_REFUSE,
	    REASON_CLIENT_SESSIONS, 1, 1);
	open.open = 5;
	assert_decision(limit_inbound(&limits, &open, now), VERDICT_REFUSE,
	    REASON_CLASS_INBOUND, 5, 5);
}

/* Random opens and closes of both kinds, by several clients and processes, held
 * against counts kept apart: what a limit names is never exceeded, and nothing
 * that it would allow is turned away. */
#define CLIENTS		4
#define PROCESSES	5

struct world {
	uint32_t in[CLIENTS];		/* sessions of a client */
	uint32_t out[PROCESSES];	/* connections of a process; the first counts */
};

static uint32_t counted(const struct world *world) {
	uint32_t open = 0;

	for (int i = 0; i < CLIENTS; i++)
		open += world->in[i];
	for (int i = 0; i < PROCESSES; i++)
		open += world->out[i] > 0;
	return open;
}

static void step(struct random *random, const struct limits *limits,
    struct world *world, uint32_t *n) {
	uint32_t client = random_below(random, CLIENTS);
	uint32_t process = random_below(random, PROCESSES);
	struct limit_state state = { .open = *n, .client_open = world->in[client] };
	struct decision decision;
	bool held;

	switch (random_below(random, 5)) {
	case 0:
	case 1:
		decision = limit_inbound(limits, &state, 0);
		assert_int_equal(decision.verdict == VERDICT_ADMIT,
		    *n < limits->inbound && world->in[client] < limits->client_sessions);
		if (takes_slot(&decision)) {
			world->in[client]++;
			++*n;
			assert_true(*n <= limits->inbound);
			assert_true(world->in[client] <= limits->client_sessions);
		}
		break;
	case 2:
		held = world->out[process] > 0;
		decision = limit_outbound(limits, &state, held, false);
		assert_int_equal(decision.verdict == VERDICT_ADMIT, *n < limits->sessions);
		assert_int_equal(takes_slot(&decision), *n < limits->sessions && !held);
		if (decision.verdict == VERDICT_ADMIT)
			world->out[process]++;
		if (takes_slot(&decision))
			assert_true(++*n <= limits->sessions);
		break;
	case 3:
		if (world->in[client] > 0) {
			world->in[client]--;
			--*n;
		}
		break;
	default:
		if (world->out[process] > 0 && --world->out[process] == 0)
			--*n;
	}
	assert_int_equal(*n, counted(world));
	assert_true(*n <= (limits->sessions > limits->inbound ? limits->sessions :
	    limits->inbound));
}

TEST(never_above_the_limits) {
	struct random random = random_seeded("never_above_the_limits");

	for (int round = 0; round < 500; round++) {
		struct limits limits = xla(random_below(&random, 8), random_below(&random, 8));
		struct world world = { { 0 }, { 0 } };
		uint32_t n = 0;

		if (random_below(&random, 2) == 0)
			limits.client_sessions = random_below(&random, 5);
		for (int i = 0; i < 500; i++)
			step(&random, &limits, &world, &n);
	}
}
