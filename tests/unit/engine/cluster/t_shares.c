/* SPDX-License-Identifier: ISC */
/* Limits that hold for all nodes of a cluster: what this node may use of them, in both
 * directions; what becomes of a lease. */
#include <pthread.h>
#include "tests/unit/test.h"
#include "base/clock.h"
#include "engine/session/gate.h"
#include "engine/hints/hints.h"
#include "engine/outbound/outbound.h"
#include "engine/cluster/shares.h"
#include "segment/decision/decisions.h"
#include "segment/file/internal.h"
#include "segment/session/sessions.h"
#include "segment/destination/shared.h"
#include "tests/unit/own_site.h"

/* 10 % of 30 by 3: 1 is fixed, 27 are to be leased. */
#define CLUSTER_OF(node, nodes, more) "cluster = { redis = \"unix:/nowhere\"; node = \"" node \
	"\"; nodes = " nodes "; " more "};\n"
#define CLUSTER CLUSTER_OF("a", "3", "")
#define SHARED(sessions, inbound, more) "{ name = \"c\"; match = [ \"192.0.2.0/24\", " \
	"\"d.example\" ]; hold_at = " #sessions "; refuse_at = " #inbound "; " \
	"scope = \"cluster\"; " more "}"
/* with another class, so that the gate is open */
#define CLASS(sessions, inbound, more) "classes = ( " SHARED(sessions, inbound, more) \
	", { name = \"room\"; match = [ \"*\" ]; hold_at = 9; } );\n"
#define ALL	((struct share_pools){ UINT32_MAX, UINT32_MAX })
#define HOUR	(3600 * NS_PER_SECOND)

static int64_t now_ns;		/* not before the real time */
static uint16_t port;

static void with(const char *configuration) {
	site_open(&site, 1000, configuration);
	now_ns = clock_now_ns() + NS_PER_SECOND;
	port = 0;
}

static int tear_down(void **state) {
	bool consistent = site_is_consistent(&site);

	site_close(&site);
	return consistent ? 0 : -1;
}

static void lease(uint32_t base, uint32_t extra, struct share_pools most, int64_t for_ns) {
	assert_true(shares_grant(site.engine, site.generation, 0,
	    (struct share_pools){ base, extra }, most, now_ns + for_ns, now_ns));
}

static struct answer ask(void) {
	struct question question = site_question("192.0.2.1", ++port, NULL);
	struct answer answer;

	answer = site_ask(&question, now_ns);
	return answer;
}

/* As many are let in now, and the next one is not: of `limit`, for the reason. */
static void takes(unsigned sessions, enum reason reason, uint32_t count, uint32_t limit) {
	struct answer answer;

	for (unsigned i = 0; i < sessions; i++)
		assert_int_equal(ask().decision.verdict, VERDICT_ADMIT);
	answer = ask();
	assert_int_equal(answer.decision.verdict, VERDICT_REFUSE);
	assert_int_equal(answer.decision.reason, reason);
	assert_int_equal(answer.decision.count, count);
	assert_int_equal(answer.decision.limit, limit);
}

static struct share_class look(void) {
	struct share_class class;

	assert_true(shares_look(site.engine, site.generation, 0, now_ns, &class));
	return class;
}

static struct share_pools lower(uint32_t base, uint32_t extra) {
	struct share_pools held;

	assert_true(shares_lower(site.engine, site.generation, 0,
	    (struct share_pools){ base, extra }, now_ns, &held));
	return held;
}

#define assert_pools(given, base_, extra_) do { \
	struct share_pools pools_ = (given); \
	assert_int_equal(pools_.base, base_); \
	assert_int_equal(pools_.extra, extra_); \
} while (0)

/* --- inbound ------------------------------------------------------------------------- */

TEST_IN(NULL, tear_down, without_a_lease_the_fixed_part_counts) {
	struct share_class class;

	with(CLUSTER CLASS(30, 30, ""));
	takes(1, REASON_CLASS_SHARE, 1, 1);
	class = look();
	assert_string_equal(class.name, "c");
	assert_int_equal(class.state, SHARE_ENDED);
	assert_pools(class.whole, 30, 0);
	assert_pools(class.fixed, 1, 0);
	assert_pools(class.leased, 0, 0);
	assert_int_equal(class.until_ns, 0);
	assert_int_equal(class.open, 1);
	assert_int_equal(class.refused_small, 1);
	assert_int_equal(class.refused_other, 0);
	assert_int_equal(class.overhang, 0);
}

TEST_IN(NULL, tear_down, what_is_leased_counts_until_its_end) {
	struct share_class class;

	with(CLUSTER CLASS(30, 30, ""));
	lease(4, 0, ALL, 10 * NS_PER_SECOND);
	takes(5, REASON_CLASS_SHARE, 5, 5);
	class = look();
	assert_int_equal(class.state, SHARE_LEASED);
	assert_pools(class.leased, 4, 0);
	assert_int_equal(class.overhang, 0);
	now_ns += 10 * NS_PER_SECOND;
	takes(0, REASON_CLASS_SHARE, 5, 1);
	class = look();
	assert_int_equal(class.state, SHARE_ENDED);
	assert_int_equal(class.overhang, 4);
	/* and again: 5 are open, 3 leased, so that nobody comes in before two have gone */
	lease(3, 0, ALL, 10 * NS_PER_SECOND);
	assert_int_equal(look().overhang, 1);
	takes(0, REASON_CLASS_SHARE, 5, 4);
}

TEST_IN(NULL, tear_down, the_last_instant_of_a_lease_admits_and_the_next_does_not) {
	with(CLUSTER CLASS(30, 30, ""));
	lease(4, 0, ALL, 10 * NS_PER_SECOND);
	now_ns += 10 * NS_PER_SECOND - 1;
	assert_int_equal(ask().decision.verdict, VERDICT_ADMIT);
	assert_int_equal(ask().decision.verdict, VERDICT_ADMIT);
	now_ns += 1;
	takes(0, REASON_CLASS_SHARE, 2, 1);
}

TEST_IN(NULL, tear_down, a_late_question_does_not_bring_back_an_old_lease) {
	with(CLUSTER CLASS(30, 30, ""));
	now_ns = clock_now_ns() - HOUR;
	lease(20, 0, ALL, HOUR);	/* it ends as it is granted */
	takes(1, REASON_CLASS_SHARE, 1, 1);
}

TEST_IN(NULL, tear_down, nothing_new_comes_in_above_what_is_fair) {
	with(CLUSTER CLASS(30, 30, ""));
	lease(9, 0, (struct share_pools){ 2, 0 }, 10 * NS_PER_SECOND);
	takes(3, REASON_CLASS_SHARE, 3, 3);
	assert_pools(look().leased, 9, 0);
	assert_pools(look().most, 2, 0);
	assert_int_equal(look().overhang, 0);
}

TEST_IN(NULL, tear_down, the_limit_itself_says_so) {
	with(CLUSTER CLASS(3, 3, ""));
	/* more than there is, from a server that is not to be trusted */
	lease(300, 300, ALL, 10 * NS_PER_SECOND);
	assert_pools(look().leased, 3, 0);
	takes(3, REASON_CLASS_INBOUND, 3, 3);
	assert_int_equal(look().refused_small, 0);
}

TEST_IN(NULL, tear_down, other_limits_hold_as_ever) {
	struct answer answer;

	with(CLUSTER CLASS(30, 30, "client = { sessions = 2; }; "));
	lease(9, 0, ALL, 10 * NS_PER_SECOND);
	ask();
	ask();
	answer = ask();
	assert_int_equal(answer.decision.reason, REASON_CLIENT_SESSIONS);
	assert_int_equal(answer.decision.limit, 2);
	assert_int_equal(look().refused_small, 0);
}

TEST_IN(NULL, tear_down, what_is_observed_is_counted_as_wanted) {
	struct answer answer;

	with(CLUSTER CLASS(30, 30, "observe = true; "));
	ask();
	answer = ask();
	assert_int_equal(answer.decision.verdict, VERDICT_ADMIT);
	assert_int_equal(answer.decision.reason, REASON_CLASS_SHARE);
	assert_true(answer.observed);
	assert_int_equal(look().refused_small, 1);
	assert_int_equal(look().overhang, 1);
}

TEST_IN(NULL, tear_down, it_is_explained_as_it_would_be_answered) {
	struct question question = site_question("192.0.2.9", 1, NULL);
	uint32_t open, client_open;
	struct answer answer;

	with(CLUSTER CLASS(30, 30, ""));
	engine_explain(site.engine, site.generation, &question, now_ns, &answer, &open,
	    &client_open);
	assert_int_equal(answer.decision.verdict, VERDICT_ADMIT);
	assert_int_equal(answer.decision.limit, 1);
	ask();
	engine_explain(site.engine, site.generation, &question, now_ns, &answer, &open,
	    &client_open);
	assert_int_equal(answer.decision.verdict, VERDICT_REFUSE);
	assert_int_equal(answer.decision.reason, REASON_CLASS_SHARE);
	assert_int_equal(answer.decision.count, 1);
	assert_int_equal(answer.decision.limit, 1);
	assert_int_equal(look().refused_small, 0);	/* nobody was refused */
}

/* --- both directions ----------------------------------------------------------------- */

static struct outbound_process *held[16];

static bool goes_out(unsigned pid, enum reason *reason) {
	struct process_identity identity = { .pid = (int32_t)pid, .start_ticks = 7 };
	struct outbound_question question = { .stage = OUTBOUND_BEFORE_CONNECT,
		.destination = "d.example", .destination_length = 9, .mta = UINT8_MAX };
	struct outbound_answer answer;

	if (held[pid] == NULL)
		held[pid] = outbound_process_open(site.engine, &identity);
	assert_non_null(held[pid]);
	outbound_process_ask(held[pid], site.generation, &question, now_ns, &answer);
	*reason = answer.answer.decision.reason;
	return answer.answer.decision.verdict == VERDICT_ADMIT;
}

static void end_all(void) {
	for (unsigned pid = 0; pid < 16; pid++)
		outbound_process_close(&held[pid], site.generation, now_ns);
}

TEST_IN(NULL, tear_down, the_smaller_limit_is_of_outbound_connections) {
	enum reason reason;

	/* base 10, extra 10; of each 1 is fixed, as 10 is 2 for each of 3 and more */
	with(CLUSTER CLASS(10, 20, ""));
	lease(2, 3, ALL, 10 * NS_PER_SECOND);
	for (unsigned pid = 1; pid <= 3; pid++)
		assert_true(goes_out(pid, &reason));
	assert_false(goes_out(4, &reason));
	assert_int_equal(reason, REASON_CLASS_SHARE);
	takes(4, REASON_CLASS_SHARE, 7, 7);
	assert_int_equal(look().open_small, 3);
	assert_int_equal(look().refused_small, 1);
	assert_int_equal(look().refused_other, 1);
	assert_pools(look().fixed, 1, 1);
	/* 3 outbound keep 1 fixed and 2 of base, 4 inbound 1 fixed and 3 of extra */
	assert_pools(lower(0, 0), 2, 3);
	end_all();
	/* 4 inbound are left, with 2 fixed: any two of them will do, extra first */
	assert_pools(lower(0, 0), 0, 2);
	end_all();
}

TEST_IN(NULL, tear_down, the_smaller_limit_is_of_inbound_sessions) {
	enum reason reason;

	with(CLUSTER CLASS(20, 10, ""));
	lease(2, 3, ALL, 10 * NS_PER_SECOND);
	takes(3, REASON_CLASS_SHARE, 3, 3);
	for (unsigned pid = 1; pid <= 4; pid++)
		assert_true(goes_out(pid, &reason));
	assert_false(goes_out(5, &reason));
	assert_int_equal(reason, REASON_CLASS_SHARE);
	assert_int_equal(look().open_small, 3);
	assert_int_equal(look().refused_small, 1);
	assert_int_equal(look().refused_other, 1);
	end_all();
}

TEST_IN(NULL, tear_down, a_connection_that_lives_is_not_asked_for_its_share) {
	enum reason reason;

	with(CLUSTER CLASS(30, 30, ""));
	assert_true(goes_out(1, &reason));
	assert_true(goes_out(1, &reason));
	assert_int_equal(reason, REASON_SAME_HOST);
	end_all();
}

/* --- lowering -------------------------------------------------------------------------- */

TEST_IN(NULL, tear_down, it_is_lowered_to_what_is_open) {
	with(CLUSTER CLASS(30, 30, ""));
	lease(9, 0, ALL, 10 * NS_PER_SECOND);
	for (unsigned i = 0; i < 5; i++)
		ask();
	assert_pools(lower(20, 0), 9, 0);	/* never raised */
	assert_pools(lower(6, 0), 6, 0);
	assert_pools(lower(0, 0), 4, 0);	/* the fifth is the fixed one's */
	assert_pools(look().leased, 4, 0);
	takes(0, REASON_CLASS_SHARE, 5, 5);
	now_ns += 10 * NS_PER_SECOND;
	assert_pools(lower(20, 0), 0, 0);	/* nothing is held after the end */
	lease(0, 0, ALL, 10 * NS_PER_SECOND);
	assert_int_equal(look().overhang, 4);
}

/* --- alone ----------------------------------------------------------------------------- */

TEST_IN(NULL, tear_down, alone_is_only_who_heard_nothing_for_a_lease) {
	with(CLUSTER_OF("a", "3", "when_unreachable = \"alone\"; lease = \"15s\"; ") CLASS(3, 3, ""));
	/* 3 are fewer than 2 for each of 3: nothing is fixed */
	takes(0, REASON_CLASS_SHARE, 0, 0);
	assert_int_equal(look().state, SHARE_ENDED);
	now_ns += 15 * NS_PER_SECOND;
	assert_int_equal(look().state, SHARE_ALONE);
	takes(3, REASON_CLASS_INBOUND, 3, 3);
	assert_int_equal(look().overhang, 0);
	lease(1, 0, ALL, 10 * NS_PER_SECOND);
	assert_int_equal(look().state, SHARE_LEASED);
	assert_int_equal(look().overhang, 2);
	takes(0, REASON_CLASS_INBOUND, 3, 3);
}

TEST_IN(NULL, tear_down, who_is_turned_away_by_others_is_not_alone) {
	const char *configuration = CLUSTER_OF("a", "3", "when_unreachable = \"alone\"; lease = \"15s\"; ")
	    CLASS(30, 30, "");

	with(configuration);
	for (unsigned i = 0; i < 60; i++, now_ns += NS_PER_SECOND) {
		shares_not_alone(site.engine, site.generation, now_ns);
		assert_int_equal(look().state, SHARE_ENDED);
	}
	takes(1, REASON_CLASS_SHARE, 1, 1);
	/* 1 s after the last time: 14 more */
	now_ns += 13 * NS_PER_SECOND;
	assert_int_equal(look().state, SHARE_ENDED);
	now_ns += NS_PER_SECOND;
	assert_int_equal(look().state, SHARE_ALONE);
	/* a daemon that was away for longer than a lease has not asked yet */
	site_class(&site, "c")->share_since_ns = 1;
	site_restart(&site, 1000, configuration);
	now_ns = clock_now_ns() + NS_PER_SECOND;
	assert_int_equal(look().state, SHARE_ENDED);
}

/* --- the gate -------------------------------------------------------------------------- */

TEST_IN(NULL, tear_down, the_gate_follows_the_share) {
	static const char with_command[] = "gate = { command = [ \"/bin/true\" ]; };\n" CLUSTER
	    "classes = ( " SHARED(30, 30, "") " );";
	struct gate_watch watch = { .told = false };
	struct question stranger = site_question("203.0.113.1", 1, NULL);
	struct answer answer;

	with(CLUSTER "classes = ( " SHARED(30, 30, "") " );");
	assert_int_equal(gate_watch_look(&watch, site.engine, site.generation, now_ns),
	    GATE_NO_NEWS);
	ask();
	assert_int_equal(gate_watch_look(&watch, site.engine, site.generation, now_ns),
	    GATE_SHUTS);
	/* whoever is refused by it would come in with more of a share */
	assert_int_equal(look().refused_small, 0);
	engine_session_open(site.engine, site.generation, &stranger, now_ns, &answer);
	assert_int_equal(answer.decision.reason, REASON_GATE_SHUT);
	assert_int_equal(look().refused_small, 1);
	/* and of those that the kernel refuses nobody hears */
	site_reload(&site, with_command);
	(void)gate_watch_look(&watch, site.engine, site.generation, now_ns);
	assert_int_equal(look().refused_small, 2);
	/* none of these was refused by the share: that is what is shown */
	assert_int_equal(atomic_load(&site_class(&site, "c")->share_refused[0]), 0);
	lease(1, 0, ALL, HOUR);
	now_ns += 2 * NS_PER_SECOND;
	assert_int_equal(gate_watch_look(&watch, site.engine, site.generation, now_ns),
	    GATE_OPENS);
}

/* --- mail that is held ------------------------------------------------------------------ */

TEST_IN(NULL, tear_down, a_queue_that_is_told_to_hold_asks_for_more) {
	char text[HINT_TEXT_MAX + 1];
	struct hint_full full = { .id = 0 };

	with(CLUSTER CLASS(30, 30, ""));
	assert_false(hint_class_holds(site.engine, site.generation, 0, now_ns, &full, text));
	ask();
	assert_true(hint_class_holds(site.engine, site.generation, 0, now_ns, &full, text));
	assert_ptr_equal(strstr(text, "Postern: class c has 1 of 1 sessions, its share of 30"),
	    text);
	assert_int_equal(look().refused_other, 1);
	lease(1, 0, ALL, HOUR);
	assert_false(hint_class_holds(site.engine, site.generation, 0, now_ns, &full, text));
}

/* 36 a minute stood in the list of a site whose Postfix has no hints: no mail waited. */
TEST_IN(NULL, tear_down, no_decision_where_no_postfix_has_hints) {
	struct decisions_cursor cursor = { .begun = false };
	char text[HINT_TEXT_MAX + 1];
	struct hint_full full = { .id = 0 };
	unsigned deferred = 0;
	uint64_t lost = 0;
	struct decided next;

	with(CLUSTER CLASS(30, 30, ""));
	ask();
	assert_true(hint_class_holds(site.engine, site.generation, 0, now_ns, &full, text));
	assert_int_equal(full.id, 0);
	while (decisions_next(site.segment, DECIDED_OF_SESSIONS, &cursor, now_ns, &next, NULL,
	    &lost))
		deferred += next.kind == DECIDED_DEFERRED;
	assert_int_equal(deferred, 0);
}

/* --- what a lease outlives ------------------------------------------------------------- */

TEST_IN(NULL, tear_down, a_restarted_daemon_keeps_what_is_leased) {
	char before[SHARES_INSTANCE_MAX], after[SHARES_INSTANCE_MAX];

	with(CLUSTER CLASS(30, 30, ""));
	lease(4, 0, (struct share_pools){ 3, 0 }, HOUR / 10);
	ask();
	shares_instance(site.engine, before);
	site_restart(&site, 1000, CLUSTER CLASS(30, 30, ""));
	assert_int_equal(site.report.origin, SEGMENT_ADOPTED);
	assert_pools(look().leased, 4, 0);
	assert_pools(look().most, 3, 0);
	assert_true(shares_are_leased(site.engine, now_ns));
	assert_false(shares_are_leased(site.engine, now_ns + HOUR / 10));
	assert_string_equal(shares_instance(site.engine, after), before);
	assert_int_not_equal(strtoull(after, NULL, 16), 0);
	takes(3, REASON_CLASS_SHARE, 4, 4);
}

TEST_IN(NULL, tear_down, a_rebuilt_state_leases_anew) {
	char before[SHARES_INSTANCE_MAX], after[SHARES_INSTANCE_MAX];

	with(CLUSTER CLASS(30, 30, ""));
	lease(4, 0, ALL, HOUR / 10);
	for (unsigned i = 0; i < 3; i++)
		ask();
	shares_instance(site.engine, before);
	site_restart(&site, 2000, CLUSTER CLASS(30, 30, ""));
	assert_int_equal(site.report.origin, SEGMENT_REBUILT);
	assert_int_equal(look().open, 3);
	assert_pools(look().leased, 0, 0);
	assert_false(shares_are_leased(site.engine, now_ns));
	shared_set_until(site.segment, now_ns + 1);
	assert_true(shares_are_leased(site.engine, now_ns));
	assert_int_equal(look().overhang, 2);
	/* it is itself still, which is to be heard on other nodes */
	assert_string_equal(shares_instance(site.engine, after), before);
	takes(0, REASON_CLASS_SHARE, 3, 1);
}

TEST_IN(NULL, tear_down, a_lease_without_end_is_not_believed) {
	with(CLUSTER CLASS(30, 30, ""));
	lease(4, 0, ALL, HOUR);
	site_restart(&site, 1000, CLUSTER CLASS(30, 30, ""));
	assert_int_equal(site.report.origin, SEGMENT_ADOPTED);
	assert_int_equal(look().state, SHARE_ENDED);
}

static void ends_with(const char *configuration) {
	lease(4, 0, ALL, HOUR / 10);
	assert_int_equal(look().state, SHARE_LEASED);
	site_reload(&site, configuration);
}

TEST_IN(NULL, tear_down, it_ends_with_another_name_or_size_of_the_cluster) {
	with(CLUSTER CLASS(30, 30, ""));
	ends_with(CLUSTER CLASS(30, 30, "observe = true; "));
	assert_pools(look().leased, 4, 0);	/* what is not of the lease */
	ends_with(CLUSTER_OF("b", "3", "") CLASS(30, 30, ""));
	assert_int_equal(look().state, SHARE_ENDED);
	ends_with(CLUSTER_OF("b", "2", "") CLASS(30, 30, ""));
	assert_int_equal(look().state, SHARE_ENDED);
	ends_with(CLUSTER_OF("b", "2", "prefix = \"q:\"; ") CLASS(30, 30, ""));
	assert_int_equal(look().state, SHARE_ENDED);
}

/* The server would reckon with the shorter one as soon as it hears of it. */
TEST_IN(NULL, tear_down, a_shorter_lease_leaves_nothing_in_use_of_a_longer_one) {
	with(CLUSTER CLASS(30, 30, ""));
	shared_set_until(site.segment, now_ns + HOUR / 10);
	ends_with(CLUSTER_OF("a", "3", "lease = \"2s\"; ") CLASS(30, 30, ""));
	assert_int_equal(look().state, SHARE_ENDED);
	takes(1, REASON_CLASS_SHARE, 1, 1);
	assert_int_equal(shared_until(site.segment), 0);
}

TEST_IN(NULL, tear_down, a_class_may_come_into_scope_and_leave_it) {
	static const char local[] = CLUSTER
	    "classes = ( { name = \"c\"; match = [ \"192.0.2.0/24\" ]; hold_at = 5; }, "
	    "{ name = \"room\"; match = [ \"*\" ]; hold_at = 9; } );";
	struct share_class class;
	struct share_pools pools;

	with(local);
	assert_false(shares_look(site.engine, site.generation, 0, now_ns, &class));
	assert_false(shares_lower(site.engine, site.generation, 0, ALL, now_ns, &pools));
	assert_false(shares_grant(site.engine, site.generation, 0, ALL, ALL, INT64_MAX, now_ns));
	site_reload(&site, CLUSTER CLASS(30, 30, ""));
	takes(1, REASON_CLASS_SHARE, 1, 1);
	ends_with(local);
	takes(4, REASON_CLASS_INBOUND, 5, 5);
	site_reload(&site, CLUSTER CLASS(30, 30, ""));
	assert_pools(look().leased, 0, 0);
	takes(0, REASON_CLASS_SHARE, 5, 1);
}

/* --- while it ends --------------------------------------------------------------------- */

#define ASKERS	3
#define GRANTS	150
#define GRANTS_MOST	1500	/* the last of them for 10 ms */

static _Atomic int64_t latest_end_ns;	/* of what was granted so far */
static _Atomic bool over;
static _Atomic unsigned by_lease;	/* admissions above the fixed part */

/* Opens and closes; whoever was let in above what is fixed was let in before an end. */
static void *asks(void *context) {
	uint16_t my_port = (uint16_t)(uintptr_t)context;
	struct session_ref mine[4] = { { .slot = 0 } };
	const char *wrong = NULL;

	for (unsigned i = 0; !atomic_load(&over); i++) {
		struct question question = site_question("192.0.2.1",
		    (uint16_t)(my_port + i % 4), NULL);
		int64_t begun_ns = clock_now_ns();
		struct answer answer;

		if (mine[i % 4].slot != 0)
			engine_session_close(site.engine, &mine[i % 4], begun_ns);
		engine_session_open(site.engine, site.generation, &question, begun_ns,
		    &answer);
		mine[i % 4] = answer.session;
		if (answer.decision.verdict != VERDICT_ADMIT) {
			memset(&mine[i % 4], 0, sizeof(mine[0]));
			continue;
		}
		/* a loaded machine: a lock was not to be had in time.  Nothing was decided, or it
		 * is counted still, as its end was kept for later */
		if (answer.decision.reason == REASON_UNUSABLE ||
		    answer.decision.reason == REASON_KNOWN_SESSION)
			continue;
		if (answer.decision.count >= answer.decision.limit)
			wrong = "above the limit";
		if (answer.decision.limit > 1) {
			atomic_fetch_add(&by_lease, 1);
			if (begun_ns >= atomic_load(&latest_end_ns))
				wrong = "by a lease that had ended";
		}
	}
	for (unsigned i = 0; i < 4; i++)
		if (mine[i].slot != 0)
			engine_session_close(site.engine, &mine[i], clock_now_ns());
	return (void *)(uintptr_t)wrong;
}

/* Leases of some hundred microseconds, so that most questions are near an end; longer ones
 * where nobody had the time to use one. */
static void grants_and_ends(void) {
	for (unsigned i = 0; i < GRANTS || (i < GRANTS_MOST && atomic_load(&by_lease) == 0); i++) {
		int64_t at_ns = clock_now_ns();
		int64_t end_ns = at_ns + (200 + 7 * (int64_t)i) * 1000;
		struct share_pools kept;

		atomic_store(&latest_end_ns, end_ns);
		(void)shares_grant(site.engine, site.generation, 0,
		    (struct share_pools){ 2 + i % 9, 0 }, ALL, end_ns, at_ns);
		if (i % 3 == 0)
			(void)shares_lower(site.engine, site.generation, 0,
			    (struct share_pools){ 1, 0 }, at_ns, &kept);
		while (clock_now_ns() < end_ns + 100 * 1000)
			;
	}
}

TEST_IN(NULL, tear_down, nobody_is_let_in_by_a_lease_that_has_ended) {
	pthread_t askers[ASKERS];
	void *wrong;

	with(CLUSTER CLASS(30, 30, ""));
	atomic_store(&over, false);
	atomic_store(&latest_end_ns, 0);
	for (uintptr_t i = 0; i < ASKERS; i++)
		assert_int_equal(pthread_create(&askers[i], NULL, asks,
		    (void *)(1000 * (i + 1))), 0);
	grants_and_ends();
	atomic_store(&over, true);
	for (unsigned i = 0; i < ASKERS; i++) {
		assert_int_equal(pthread_join(askers[i], &wrong), 0);
		if (wrong != NULL)
			fail_msg("let in %s", (const char *)wrong);
	}
	assert_true(atomic_load(&by_lease) > 0);
	engine_heartbeat(site.engine, clock_now_ns());	/* what was kept for later */
	assert_int_equal(look().open, 0);
}

/* --- several classes ------------------------------------------------------------------- */

static void count_name(void *context, const struct share_class *class) {
	(void)snprintf((char *)context + strlen(context), 16, "%s ", class->name);
}

TEST_IN(NULL, tear_down, those_in_scope_are_listed_in_order) {
	char names[64] = "";

	with(CLUSTER "classes = ( { name = \"z\"; match = [ \"192.0.2.0/24\" ]; hold_at = 9; "
	    "scope = \"cluster\"; }, { name = \"n\"; match = [ \"10.0.0.0/8\" ]; hold_at = 9; "
	    "scope = \"node\"; }, { name = \"b\"; match = [ \"*\" ]; refuse_at = 9; "
	    "scope = \"cluster\"; } );");
	assert_int_equal(shares_each(site.engine, site.generation, now_ns, count_name, names), 2);
	assert_string_equal(names, "z b ");
}
