/* SPDX-License-Identifier: ISC */
/* Outbound connections that are asked about: the rows of the XLA table, one
 * process and several hosts, a class that turns out wrong, a lost role, a
 * reload. */
#include "tests/unit/test.h"

#include "base/clock.h"
#include "engine/outbound/outbound.h"
#include "engine/session/witness.h"
#include "segment/destination/destinations.h"
#include "segment/file/internal.h"
#include "segment/session/sessions.h"
#include "tests/unit/own_site.h"

#define CLASS(name, mask, sessions, more) "{ name = \"" name "\"; match = [ " \
	mask " ]; hold_at = " #sessions "; refuse_at = 9; " more "}"
#define TWO(slow, rest) "classes = ( " \
	CLASS("slow", "\"*.slow.example\", \"198.51.100.0/24\"", slow, "") ", " \
	CLASS("rest", "\"*\"", rest, "") " );"

static struct outbound_process *processes[8];
static int64_t now_ns;

static struct outbound_process *process_of(int pid) {
	struct process_identity identity = { .pid = pid, .start_ticks = 77 };

	if (processes[pid] == NULL)
		processes[pid] = outbound_process_open(site.engine, &identity);
	assert_non_null(processes[pid]);
	return processes[pid];
}

static struct outbound_answer ask(int pid, const char *destination) {
	struct outbound_question question = {
		.stage = OUTBOUND_BEFORE_CONNECT, .destination = destination,
		.destination_length = strlen(destination), .mta = UINT8_MAX };
	struct outbound_answer answer;

	outbound_process_ask(process_of(pid), site.generation, &question,
	    now_ns, &answer);
	return answer;
}

static struct outbound_answer connected(int pid, const char *destination,
    const char *name, const char *address) {
	struct outbound_question question = { .stage = OUTBOUND_CONNECTED,
		.destination = destination,
		.destination_length = strlen(destination),
		.server_name = name, .server_name_length = strlen(name),
		.mta = UINT8_MAX };
	struct outbound_answer answer;

	assert_true(address_parse(address, strlen(address), &question.server));
	outbound_process_ask(process_of(pid), site.generation, &question,
	    now_ns, &answer);
	return answer;
}

static void ends(int pid) {
	outbound_process_close(&processes[pid], site.generation, now_ns);
}

#define assert_answer(given, verdict_, reason_) do { \
	struct outbound_answer answer_ = (given); \
	assert_int_equal(answer_.answer.decision.verdict, verdict_); \
	assert_int_equal(answer_.answer.decision.reason, reason_); \
} while (0)
#define assert_admitted(given, why) \
	assert_answer(given, VERDICT_ADMIT, REASON_##why)
#define assert_deferred(given) \
	assert_answer(given, VERDICT_DEFER, REASON_CLASS_SESSIONS)

static void with(const char *classes) {
	site_open(&site, 1000, classes);
	now_ns = clock_now_ns();
	engine_heartbeat(site.engine, now_ns);
}

static int tear_down(void **state) {
	bool consistent = site_is_consistent(&site);

	for (int pid = 0; pid < 8; pid++)
		ends(pid);
	for (uint32_t r = 0; r < site.segment->header->record_count; r++)
		consistent &= atomic_load(&site.segment->records[r].open) ==
		    atomic_load(&site.segment->records[r].open_inbound);
	consistent &= site_is_consistent(&site);
	site_close(&site);
	return consistent ? 0 : -1;
}

/* --- the table ------------------------------------------------------------ */

TEST_IN(NULL, tear_down, one_session_is_one_process) {
	struct outbound_answer answer;

	with(TWO(1, 9));
	answer = ask(1, "a.slow.example.");
	assert_admitted(answer, BELOW_LIMIT);
	assert_true(answer.answer.newly_decided);
	assert_int_equal(open_of("slow"), 1);
	answer = ask(2, "a.slow.example.");
	assert_deferred(answer);
	assert_int_equal(answer.answer.decision.count, 1);
	assert_int_equal(answer.answer.decision.limit, 1);
	assert_int_not_equal(answer.answer.id, 0);
	assert_int_equal(answer.found.source, CLASS_SOURCE_DOMAIN);
	ends(1);
	assert_int_equal(open_of("slow"), 0);
	assert_admitted(ask(2, "a.slow.example."), BELOW_LIMIT);
	assert_int_equal(atomic_load(&site_class(&site, "slow")->admitted), 2);
	assert_int_equal(atomic_load(&site_class(&site, "slow")->deferred), 1);
	assert_int_equal(
	    counted(COUNTER_DEFERRED), 1);
}

/* "for a given sendmail process, only the first connection in a given class is
 * counted"; but C < Q is asked before, its own counted. */
TEST_IN(NULL, tear_down, two_cached_connections_count_once) {
	with(TWO(2, 9));
	assert_admitted(ask(1, "a.slow.example"), BELOW_LIMIT);
	assert_admitted(ask(1, "b.slow.example"), SAME_PROCESS);
	assert_int_equal(open_of("slow"), 1);
	assert_admitted(ask(2, "a.slow.example"), BELOW_LIMIT);
	assert_int_equal(open_of("slow"), 2);
	assert_deferred(ask(1, "c.slow.example"));
	assert_deferred(ask(3, "a.slow.example"));
	/* what each has, it keeps */
	assert_admitted(ask(1, "B.slow.example."), SAME_HOST);
	assert_admitted(ask(2, "a.slow.example"), SAME_HOST);
	/* another class has its own count */
	assert_admitted(ask(1, "a.example"), BELOW_LIMIT);
	assert_int_equal(open_of("rest"), 1);
	ends(1);
	assert_int_equal(open_of("slow"), 1);
	assert_int_equal(open_of("rest"), 0);
}

/* The first connection of process 1 is its client's. */
static struct session_ref client_of(uint32_t pid, uint16_t port) {
	struct question question = site_question("198.51.100.9", port, NULL);
	struct answer answer;

	question.process = pid;
	answer = site_ask(&question, now_ns);
	assert_int_equal(answer.decision.verdict, VERDICT_ADMIT);
	return answer.session;
}

static struct outbound_answer ask_for_client(int pid, const char *destination, uint16_t port) {
	struct question session = site_question("198.51.100.9", port, NULL);
	struct outbound_question question = {
		.stage = OUTBOUND_BEFORE_CONNECT, .destination = destination,
		.destination_length = strlen(destination), .mta = UINT8_MAX,
		.client = session.client, .client_port = port,
		.client_server = session.server, .client_server_port = session.server_port };
	struct outbound_answer answer;

	outbound_process_ask(process_of(pid), site.generation, &question, now_ns, &answer);
	return answer;
}

TEST_IN(NULL, tear_down, a_session_and_its_own_delivery_count_once) {
	struct session_ref session;

	with(TWO(2, 9));
	session = client_of(1, 40001);
	assert_admitted(ask_for_client(1, "a.slow.example", 40001), SAME_PROCESS);
	assert_int_equal(open_of("slow"), 1);
	assert_admitted(ask_for_client(1, "a.slow.example", 40001), SAME_HOST);
	/* another class has its own count */
	assert_admitted(ask_for_client(1, "a.example", 40001), BELOW_LIMIT);
	assert_int_equal(open_of("rest"), 1);
	/* who delivers later, or in a process of his own, counts */
	assert_admitted(ask_for_client(2, "a.slow.example", 40001), BELOW_LIMIT);
	assert_int_equal(open_of("slow"), 2);
	assert_deferred(ask_for_client(1, "b.slow.example", 40001));
	ends(2);
	/* and whose client has gone */
	engine_session_ended(site.engine, site.generation, &session, OWNER_POLICY, now_ns);
	assert_int_equal(open_of("slow"), 0);
	assert_admitted(ask_for_client(1, "b.slow.example", 40001), BELOW_LIMIT);
	assert_int_equal(open_of("slow"), 1);
	ends(1);
	assert_int_equal(open_of("slow"), 0);
	assert_int_equal(open_of("rest"), 0);
}

TEST_IN(NULL, tear_down, twenty_recipients_of_one_host_go_in_one_run) {
	with(TWO(1, 9));
	for (int i = 0; i < 20; i++) {
		struct outbound_answer answer = ask(1, "a.slow.example");

		assert_int_equal(answer.answer.decision.verdict, VERDICT_ADMIT);
		assert_int_equal(answer.answer.newly_decided, i == 0);
	}
	assert_admitted(connected(1, "a.slow.example", "a.slow.example.",
	    "192.0.2.1"), SAME_HOST);
	assert_int_equal(open_of("slow"), 1);
	/* a second host of the class in the same process: XLA refuses it, too */
	assert_deferred(ask(1, "b.slow.example"));
}

TEST_IN(NULL, tear_down, inbound_sessions_take_part) {
	with(TWO(2, 9));
	assert_int_equal(site_verdict("198.51.100.9", 1, NULL), VERDICT_ADMIT);
	assert_int_equal(site_verdict("192.0.2.9", 1, "x.slow.example"), VERDICT_ADMIT);
	assert_deferred(ask(1, "a.slow.example"));
	assert_admitted(ask(1, "a.example"), BELOW_LIMIT);
	assert_int_equal(open_of("slow"), 2);
	assert_int_equal(atomic_load(&site_class(&site, "slow")->open_inbound), 2);
	assert_int_equal(site_verdict("192.0.2.9", 2, "x.slow.example"), VERDICT_ADMIT);	/* refuse_at = 9 */
}

TEST_IN(NULL, tear_down, observed_classes_hold_nothing) {
	struct outbound_answer answer;

	with(TWO(1, 9) " outbound = { observe = true; };");
	assert_admitted(ask(1, "a.slow.example"), BELOW_LIMIT);
	answer = ask(2, "a.slow.example");
	assert_admitted(answer, CLASS_SESSIONS);
	assert_true(answer.answer.observed);
	assert_int_not_equal(answer.answer.id, 0);
	assert_int_equal(open_of("slow"), 2);
	assert_admitted(ask(2, "b.slow.example"), CLASS_SESSIONS);
	assert_int_equal(open_of("slow"), 2);
	assert_int_equal(atomic_load(&site_class(&site, "slow")->observed), 2);
	assert_int_equal(atomic_load(&site_class(&site, "slow")->deferred), 0);
}

TEST_IN(NULL, tear_down, what_matches_no_class_is_admitted) {
	with("classes = ( " CLASS("slow", "\"*.slow.example\"", 1, "") " );");
	assert_admitted(ask(1, "a.example"), NO_CLASS);
	assert_admitted(ask(1, "a.example"), NO_CLASS);
	assert_int_equal(
	    counted(COUNTER_UNCOUNTED), 1);
	assert_admitted(ask(1, "a.slow.example"), BELOW_LIMIT);
}

TEST_IN(NULL, tear_down, a_full_table_admits) {
	unsigned untracked = 0;

	site_open(&site, 64, "classes = ( { name = \"all\"; match = [ \"*\" ]; "
	    "hold_at = 4000; refuse_at = 4000; } );");
	now_ns = clock_now_ns();
	for (uint16_t i = 1; i < 2000; i++)
		(void)site_verdict("192.0.2.1", i, NULL);
	for (int pid = 1; pid < 8; pid++)
		untracked += ask(pid, "a.example").answer.decision.reason ==
		    REASON_UNTRACKED;
	assert_in_range(untracked, 1, 7);
}

/* --- by what the class is found --------------------------------------------- */

TEST_IN(NULL, tear_down, an_address_literal_is_classed_by_its_address) {
	struct outbound_answer answer;

	with(TWO(1, 9));
	answer = ask(1, "[198.51.100.7]");
	assert_admitted(answer, BELOW_LIMIT);
	assert_int_equal(answer.found.source, CLASS_SOURCE_ADDRESS);
	assert_int_equal(open_of("slow"), 1);
	assert_deferred(ask(2, "[198.51.100.8]."));
	/* a relay in brackets is a name as any other */
	assert_deferred(ask(2, "[mx.slow.example]"));
}

TEST_IN(NULL, tear_down, the_relay_last_seen_tells_the_class) {
	struct outbound_answer answer;
	struct session session;

	with(TWO(1, 9));
	/* the MX lies outside of the domain, by name and by address */
	assert_admitted(ask(1, "far.example"), BELOW_LIMIT);
	answer = connected(1, "far.example", "mx.slow.example.", "192.0.2.1");
	assert_admitted(answer, BELOW_LIMIT);
	assert_int_equal(answer.found.source, CLASS_SOURCE_CONNECTION);
	assert_string_equal(class_source_word(answer.found.source), "connection");
	assert_int_equal(open_of("slow"), 1);
	assert_int_equal(open_of("rest"), 0);	/* it was taken for this host only */
	session_load(site.segment, answer.answer.session.slot - 1, &session);
	assert_true(address_equal(&session.server, &answer.found.relay));
	answer = ask(2, "FAR.example.");
	assert_deferred(answer);
	assert_int_equal(answer.found.source, CLASS_SOURCE_RELAY);
	assert_string_equal(answer.found.relay_name, "mx.slow.example");
	ends(1);
	assert_admitted(ask(2, "far.example"), BELOW_LIMIT);
	assert_admitted(connected(2, "far.example", "mx.slow.example.",
	    "192.0.2.1"), SAME_HOST);
	ends(2);
	assert_admitted(ask(3, "other.example"), BELOW_LIMIT);
	assert_admitted(connected(3, "other.example", "[198.51.100.1]",
	    "198.51.100.1"), BELOW_LIMIT);
	assert_int_equal(open_of("slow"), 1);
}

TEST_IN(NULL, tear_down, a_wrong_class_that_is_full_defers_at_the_last_moment) {
	with(TWO(1, 9));
	assert_admitted(ask(1, "a.slow.example"), BELOW_LIMIT);
	assert_admitted(ask(2, "far.example"), BELOW_LIMIT);
	assert_admitted(ask(2, "near.example"), SAME_PROCESS);
	assert_deferred(connected(2, "far.example", "mx.slow.example",
	    "192.0.2.1"));
	assert_int_equal(open_of("slow"), 1);
	assert_int_equal(open_of("rest"), 1);	/* near.example needs it */
	assert_deferred(connected(2, "near.example", "mx.slow.example",
	    "192.0.2.1"));
	assert_int_equal(open_of("rest"), 0);
	/* it has learned: no connect is tried again */
	assert_deferred(ask(2, "far.example"));
	ends(1);
	assert_admitted(ask(2, "far.example"), BELOW_LIMIT);
}

TEST_IN(NULL, tear_down, a_connection_may_lead_out_of_every_class) {
	with("classes = ( " CLASS("slow", "\"*.slow.example\"", 1, "") " );");
	assert_admitted(ask(1, "a.slow.example"), BELOW_LIMIT);
	assert_admitted(connected(1, "a.slow.example", "mx.example",
	    "192.0.2.1"), NO_CLASS);
	assert_int_equal(open_of("slow"), 0);
	assert_admitted(ask(1, "a.slow.example"), NO_CLASS);
}

/* --- what happens meanwhile -------------------------------------------------- */

TEST_IN(NULL, tear_down, a_reload_moves_what_is_connected) {
	with(TWO(1, 9));
	assert_admitted(ask(1, "a.slow.example"), BELOW_LIMIT);
	assert_admitted(ask(2, "b.example"), BELOW_LIMIT);
	/* in another order, one more, one renamed */
	site_reload(&site, "classes = ( "
	    CLASS("new", "\"b.example\"", 1, "") ", "
	    CLASS("slow", "\"*.slower.example\"", 1, "") ", "
	    CLASS("everyone", "\"*\"", 9, "") " );");
	assert_admitted(ask(2, "b.example"), SAME_HOST);
	assert_int_equal(open_of("new"), 1);
	assert_int_equal(open_of("rest"), 0);
	assert_deferred(ask(3, "b.example"));
	assert_admitted(ask(1, "a.slow.example"), SAME_HOST);
	assert_int_equal(open_of("slow"), 0);
	assert_int_equal(open_of("everyone"), 1);
	site_reload(&site, "classes = ( "
	    CLASS("slow", "\"*.slow.example\"", 1, "") " );");
	assert_admitted(ask(2, "b.example"), NO_CLASS);
	assert_admitted(ask(1, "a.slow.example"), SAME_HOST);
	assert_int_equal(open_of("slow"), 1);
}

/* The role dies, and another takes its place; the handles of the dead one stay
 * where they are until the end, as nobody closes them. */
static struct outbound_process *lost[8];
static struct engine *lost_engine;

static void role_restarts(void) {
	struct diag diag;

	memcpy(lost, processes, sizeof(lost));
	memset(processes, 0, sizeof(processes));
	lost_engine = site.engine;
	segment_role_died(site.segment, site.place, getpid());
	segment_role_starting(site.segment, ROLE_POLICY, 0, now_ns);
	assert_int_equal(engine_open(&site.engine, site.segment, site.place,
	    &diag), 0);
	engine_unpin(lost_engine, site.generation);
	site.generation = engine_pin(site.engine);
}

static void lost_ones_are_freed(void) {
	for (int pid = 0; pid < 8; pid++)
		outbound_process_close(&lost[pid], site.generation, now_ns);
	engine_close(&lost_engine);
}

TEST_IN(NULL, tear_down, a_process_goes_on_with_its_slot_after_a_role_died) {
	with(TWO(1, 9));
	assert_admitted(ask(1, "a.slow.example"), BELOW_LIMIT);
	assert_admitted(ask(1, "a.example"), BELOW_LIMIT);
	role_restarts();
	/* the rest of the recipients of the host that it is connected to */
	assert_admitted(ask(1, "a.slow.example"), SAME_HOST);
	assert_admitted(ask(1, "a.slow.example"), SAME_HOST);
	assert_deferred(ask(1, "b.slow.example"));
	assert_deferred(ask(2, "a.slow.example"));
	/* the slot may stand for hosts that nobody remembers: it is kept */
	assert_admitted(connected(1, "a.slow.example", "mx.example",
	    "192.0.2.1"), SAME_PROCESS);
	assert_int_equal(open_of("slow"), 1);
	ends(1);
	assert_int_equal(open_of("slow"), 0);
	assert_int_equal(open_of("rest"), 0);
	lost_ones_are_freed();
}

/* The process asks on another connection, of the same role or of another one, before
 * the role of the first one hears that it ended. */
TEST_IN(NULL, tear_down, an_older_connection_that_ends_takes_nothing_away) {
	struct outbound_answer answer;

	with(TWO(1, 9));
	assert_admitted(ask(1, "a.slow.example"), BELOW_LIMIT);
	lost[1] = processes[1];
	processes[1] = NULL;
	assert_admitted(ask(1, "a.slow.example"), SAME_HOST);
	outbound_process_close(&lost[1], site.generation, now_ns);
	assert_int_equal(open_of("slow"), 1);
	assert_deferred(ask(2, "a.slow.example"));
	role_restarts();
	assert_admitted(ask(1, "a.slow.example"), SAME_HOST);
	lost_ones_are_freed();
	assert_int_equal(open_of("slow"), 1);
	/* nor when the slot was free meanwhile */
	lost[1] = processes[1];
	processes[1] = NULL;
	answer = ask(1, "a.slow.example");
	engine_session_close(site.engine, &answer.answer.session, now_ns);
	lost[2] = processes[1];
	processes[1] = NULL;
	assert_admitted(ask(1, "a.slow.example"), BELOW_LIMIT);
	outbound_process_close(&lost[1], site.generation, now_ns);
	outbound_process_close(&lost[2], site.generation, now_ns);
	assert_int_equal(open_of("slow"), 1);
	ends(1);
	assert_int_equal(open_of("slow"), 0);
}

static enum lookup_result nothing(void *context, const struct connection *which,
    struct connection *found) {
	return LOOKUP_GONE;
}

static int32_t living;

static bool lives(void *context, const struct process_identity *process) {
	return process->pid == living && process->start_ticks == 77;
}

TEST_IN(NULL, tear_down, slots_of_a_dead_role_last_as_long_as_the_process) {
	const struct witness_calls calls = { .lookup = nothing,
		.process_lives = lives };
	struct witness *witness;
	struct diag diag;

	with(TWO(3, 9));
	assert_int_equal(witness_open(&witness, site.engine, &calls, 16, &diag), 0);
	assert_admitted(ask(1, "a.slow.example"), BELOW_LIMIT);
	assert_admitted(ask(2, "a.slow.example"), BELOW_LIMIT);
	living = 2;
	/* the map connection is the proof while there is one */
	witness_expire(witness, site.generation, now_ns);
	assert_int_equal(open_of("slow"), 2);
	role_restarts();
	witness_expire(witness, site.generation, now_ns);
	assert_int_equal(open_of("slow"), 1);
	now_ns += 2 * site.generation->lease_owner_ns;
	witness_expire(witness, site.generation, now_ns);
	assert_int_equal(open_of("slow"), 1);
	assert_admitted(ask(2, "b.slow.example"), SAME_PROCESS);
	living = 0;
	witness_expire(witness, site.generation, now_ns);
	assert_int_equal(open_of("slow"), 1);	/* held once more */
	ends(2);
	assert_int_equal(open_of("slow"), 0);
	assert_int_equal(
	    counted(COUNTER_EXPIRED), 0);
	witness_close(&witness);
	lost_ones_are_freed();
}

TEST_IN(NULL, tear_down, another_process_of_the_same_number_is_another_one) {
	struct process_identity identity = { .pid = 1,
		.start_ticks = 77 + (UINT64_C(1) << 32) };

	with(TWO(1, 9));
	assert_admitted(ask(1, "a.slow.example"), BELOW_LIMIT);
	/* even where the keys are alike, the slot is not its own */
	processes[2] = outbound_process_open(site.engine, &identity);
	assert_admitted(ask(2, "b.slow.example"), BELOW_LIMIT);
	assert_int_equal(open_of("slow"), 1);
}

TEST_IN(NULL, tear_down, many_hosts_are_forgotten_but_not_their_slot) {
	char name[32];

	with(TWO(2, 1000));
	assert_admitted(ask(1, "a.slow.example"), BELOW_LIMIT);
	for (int i = 0; i < 600; i++) {
		snprintf(name, sizeof(name), "host%d.example", i);
		assert_int_equal(ask(1, name).answer.decision.verdict,
		    VERDICT_ADMIT);
	}
	assert_int_equal(open_of("slow"), 1);
	assert_admitted(ask(1, "a.slow.example"), SAME_PROCESS);
	assert_admitted(connected(1, "a.slow.example", "mx.example",
	    "192.0.2.1"), SAME_PROCESS);
	assert_int_equal(open_of("slow"), 1);
	ends(1);
}

TEST_IN(NULL, tear_down, an_unusable_state_holds_no_mail) {
	struct outbound_answer answer;

	with(TWO(1, 1));
	/* the record has another use by now, as for a role far behind */
	atomic_fetch_add(&site_class(&site, "slow")->uses, 1);
	answer = ask(1, "a.slow.example");
	assert_admitted(answer, UNUSABLE);
	assert_int_not_equal(answer.answer.id, 0);
	site_reload(&site, TWO(1, 1) " fail_mode = \"closed\";");
	atomic_fetch_add(&site_class(&site, "slow")->uses, 1);
	assert_answer(ask(1, "a.slow.example"), VERDICT_DEFER, REASON_UNUSABLE);
	assert_int_equal(
	    counted(COUNTER_FAULTS), 2);
}

TEST_IN(NULL, tear_down, explaining_changes_nothing) {
	struct outbound_answer answer;
	uint32_t open;

	with(TWO(1, 9));
	outbound_explain(site.engine, site.generation, "a.slow.example", 14,
	    &answer, &open);
	assert_admitted(answer, BELOW_LIMIT);
	assert_int_equal(open, 0);
	assert_int_equal(open_of("slow"), 0);
	assert_admitted(ask(1, "a.slow.example"), BELOW_LIMIT);
	outbound_explain(site.engine, site.generation, "[198.51.100.7]", 14,
	    &answer, &open);
	assert_deferred(answer);
	assert_int_equal(open, 1);
	assert_int_equal(atomic_load(&site_class(&site, "slow")->deferred), 0);
	site_reload(&site, TWO(1, 9) " outbound = { observe = true; };");
	outbound_explain(site.engine, site.generation, "a.slow.example", 14,
	    &answer, &open);
	assert_admitted(answer, CLASS_SESSIONS);
	assert_true(answer.answer.observed);
}
