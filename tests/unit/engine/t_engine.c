/* SPDX-License-Identifier: ISC */
/* The law of classes through the engine: each row of DESIGN section 5, joining,
 * deferring, ending. */
#include "tests/unit/test.h"

#include "base/clock.h"
#include "base/log.h"
#include "engine/outbound/outbound.h"
#include "engine/session/witness.h"
#include "segment/file/internal.h"
#include "segment/session/sessions.h"
#include "tests/unit/own_site.h"

/* The two examples of the XLA readme, as import-xla writes them. */
#define CUSTOMER "classes = ( " \
	"{ name = \"customer\"; match = [ \"*.customer.fr\" ]; hold_at = 8; refuse_at = 8; }, " \
	"{ name = \"rest\"; match = [ \"*\" ]; hold_at = 3; refuse_at = 3; } );"
#define LYON "classes = ( " \
	"{ name = \"insa\"; match = [ \"*.insa-lyon.fr\" ]; hold_at = 8; refuse_at = 3; }, " \
	"{ name = \"univ\"; match = [ \"*.univ-lyon1.fr\" ]; hold_at = 6; refuse_at = 4; }, " \
	"{ name = \"rest\"; match = [ \"*\" ]; hold_at = 15; refuse_at = 16; } );"

static struct outbound_process *processes[16];

/* Process `pid` (1 ...) is about to connect to this host. */
static enum verdict outbound(int32_t pid, const char *name) {
	struct process_identity identity = { .pid = pid, .start_ticks = 7 };
	struct outbound_question question = { .destination = name,
		.destination_length = strlen(name), .mta = UINT8_MAX };
	struct outbound_answer answer;

	if (processes[pid] == NULL)
		processes[pid] = outbound_process_open(site.engine, &identity);
	assert_non_null(processes[pid]);
	outbound_process_ask(processes[pid], site.generation, &question,
	    clock_now_ns(), &answer);
	return answer.answer.decision.verdict;
}

static void outbound_ends(void) {
	for (size_t i = 0; i < sizeof(processes) / sizeof(processes[0]); i++)
		outbound_process_close(&processes[i], site.generation,
		    clock_now_ns());
}

static int open_customer(void **state) {
	site_open(&site, 1000, CUSTOMER);
	return 0;
}

TEST_IN(open_customer, site_end, inbound_is_admitted_below_and_refused_at_its_number) {
	site_admits(8, "192.0.2.1", 1000, "mail.customer.fr");
	assert_int_equal(site_verdict("192.0.2.1", 2000, "mail.customer.fr"), VERDICT_REFUSE);
	/* the domain itself, upper case, trailing dot: the same class */
	assert_int_equal(site_verdict("192.0.2.2", 2001, "CUSTOMER.FR."), VERDICT_REFUSE);
	assert_int_equal(open_of("customer"), 8);
	site_admits(3, "198.51.100.1", 1000, NULL);
	assert_int_equal(site_verdict("198.51.100.1", 2000, NULL), VERDICT_REFUSE);
	assert_int_equal(open_of("rest"), 3);
	assert_true(site_is_consistent(&site));
}

/* "When not present, Sendmail behaves the usual way." */
TEST_IN(NULL, site_end, without_classes_nothing_is_limited) {
	char name[32];

	site_open(&site, 1000, "classes = ();");
	site_admits(100, "192.0.2.1", 1000, "mail.customer.fr");
	for (int32_t pid = 1; pid < 16; pid++) {
		snprintf(name, sizeof(name), "mx%d.customer.fr", (int)pid);
		assert_int_equal(outbound(pid, name), VERDICT_ADMIT);
	}
	outbound_ends();
}

TEST_IN(NULL, site_end, outbound_may_go_on_where_inbound_is_refused) {
	site_open(&site, 1000, LYON);
	site_admits(3, "192.0.2.1", 1000, "grasp.insa-lyon.fr");
	assert_int_equal(site_verdict("192.0.2.1", 1100, "grasp.insa-lyon.fr"), VERDICT_REFUSE);
	/* 8 for both directions together: 5 more outbound, then deferred */
	for (int32_t pid = 1; pid <= 5; pid++)
		assert_int_equal(outbound(pid, "mx.insa-lyon.fr"),
		    VERDICT_ADMIT);
	assert_int_equal(open_of("insa"), 8);
	assert_int_equal(outbound(6, "mx.insa-lyon.fr"), VERDICT_DEFER);
	assert_int_equal(open_of("insa"), 8);
	assert_true(site_is_consistent(&site));
	outbound_ends();
	assert_int_equal(open_of("insa"), 3);
}

TEST_IN(NULL, site_end, queue_below_reject_blocks_outbound_first) {
	site_open(&site, 1000, LYON); /* rest: queue 15, reject 16 */
	site_admits(15, "203.0.113.1", 1000, "a.example");
	assert_int_equal(outbound(1, "b.example"), VERDICT_DEFER);
	assert_int_equal(site_verdict("203.0.113.1", 1015, "a.example"), VERDICT_ADMIT);
	assert_int_equal(site_verdict("203.0.113.1", 1016, "a.example"), VERDICT_REFUSE);
	outbound_ends();
}

TEST_IN(NULL, site_end, the_gate_is_shut_when_every_class_is_full) {
	struct question question;
	struct answer answer;

	site_open(&site, 1000, "classes = ( { name = \"a\"; match = [ \"*.a\" ]; "
	    "hold_at = 1; refuse_at = 1; }, { name = \"b\"; match = [ \"*.b\" ]; "
	    "hold_at = 1; refuse_at = 1; } );");
	assert_int_equal(site_verdict("192.0.2.1", 1, "x.a"), VERDICT_ADMIT);
	/* no class, and room in b: admitted, uncounted */
	question = site_question("192.0.2.9", 2, "nobody.example");
	answer = site_ask(&question, clock_now_ns());
	assert_int_equal(answer.decision.verdict, VERDICT_ADMIT);
	assert_int_equal(answer.decision.reason, REASON_NO_CLASS);
	assert_int_equal(site_verdict("192.0.2.1", 3, "x.b"), VERDICT_ADMIT);
	question.client_port = 4;
	answer = site_ask(&question, clock_now_ns());
	assert_int_equal(answer.decision.verdict, VERDICT_REFUSE);
	assert_int_equal(answer.decision.reason, REASON_GATE_SHUT);
}

TEST_IN(NULL, site_end, exempt_addresses_are_never_counted) {
	site_open(&site, 1000, CUSTOMER "exempt = [ \"127.0.0.0/8\" ];");
	for (uint16_t i = 1; i < 50; i++)
		assert_int_equal(site_verdict("127.0.0.9", i, NULL), VERDICT_ADMIT);
	assert_int_equal(open_of("rest"), 0);
}

TEST_IN(NULL, site_end, one_client_has_its_own_limit) {
	struct session_ref ref;

	site_open(&site, 1000, "classes = ( { name = \"all\"; match = [ \"*\" ]; "
	    "hold_at = 10; refuse_at = 10; client = { sessions = 2; ipv4 = 24; }; } );");
	assert_int_equal(site_inbound(&site, "192.0.2.1", 1, NULL, &ref),
	    VERDICT_ADMIT);
	assert_int_equal(site_verdict("192.0.2.2", 1, NULL), VERDICT_ADMIT);
	assert_int_equal(site_verdict("192.0.2.3", 1, NULL), VERDICT_REFUSE);
	assert_int_equal(site_verdict("192.0.3.1", 1, NULL), VERDICT_ADMIT);
	engine_session_close(site.engine, &ref, clock_now_ns());
	assert_int_equal(site_verdict("192.0.2.3", 2, NULL), VERDICT_ADMIT);
	assert_true(site_is_consistent(&site));
}

TEST_IN(NULL, site_end, observe_admits_counts_and_says_so) {
	struct question question = site_question("192.0.2.1", 2, NULL);
	struct answer answer;

	site_open(&site, 1000, "classes = ( { name = \"all\"; match = [ \"*\" ]; "
	    "hold_at = 1; refuse_at = 1; } ); observe = true;");
	(void)site_verdict("192.0.2.1", 1, NULL);
	answer = site_ask(&question, clock_now_ns());
	assert_int_equal(answer.decision.verdict, VERDICT_ADMIT);
	assert_true(answer.observed);
	assert_int_equal(answer.decision.reason, REASON_CLASS_INBOUND);
	assert_int_not_equal(answer.id, 0);
	assert_int_equal(open_of("all"), 2);
	assert_int_equal(atomic_load(&site_class(&site, "all")->observed), 1);
}

TEST_IN(open_customer, site_end, policy_and_milter_count_a_session_once) {
	struct question question;
	struct answer answer;
	struct session_ref ref;

	(void)site_inbound(&site, "192.0.2.1", 1000, NULL, &ref);
	question = site_question("192.0.2.1", 1000, NULL);
	question.owner = OWNER_MILTER;
	question.listener = site.milter_listener;
	memset(&question.server, 0, sizeof(question.server));
	question.server_port = 0;
	answer = site_ask(&question, clock_now_ns());
	assert_int_equal(answer.decision.reason, REASON_KNOWN_SESSION);
	assert_int_equal(open_of("rest"), 1);
	/* a policy connection's word does not end what the milter still holds */
	engine_session_ended(site.engine, site.generation, &ref, OWNER_POLICY, clock_now_ns());
	assert_int_equal(open_of("rest"), 1);
	engine_session_ended(site.engine, site.generation, &answer.session, OWNER_MILTER,
	    clock_now_ns());
	assert_int_equal(open_of("rest"), 0);
	/* and no late word ends another session in the same slot */
	(void)site_verdict("192.0.2.1", 1000, NULL);
	engine_session_ended(site.engine, site.generation, &answer.session, OWNER_MILTER,
	    clock_now_ns());
	assert_int_equal(open_of("rest"), 1);
}

/* smtpd may hang up after each question (request_limit): that ends no session
 * that the kernel may still show. */
TEST_IN(open_customer, site_end, a_policy_connection_that_ends_early_ends_no_session) {
	struct question question;
	struct session_ref ref;
	struct answer answer;

	question = site_question("192.0.2.1", 1000, NULL);
	question.listener = site.auto_listener;
	answer = site_ask(&question, clock_now_ns());
	ref = answer.session;
	engine_session_ended(site.engine, site.generation, &ref,
	    OWNER_POLICY_GONE, clock_now_ns());
	assert_int_equal(open_of("rest"), 1);
	/* the next session from this port is another one all the same */
	answer = site_ask(&question, clock_now_ns());
	assert_int_equal(open_of("rest"), 1);
	question.listener = site.lease_listener;
	question.client_port = 1001;
	answer = site_ask(&question, clock_now_ns());
	engine_session_ended(site.engine, site.generation, &answer.session,
	    OWNER_POLICY, clock_now_ns());
	assert_int_equal(open_of("rest"), 1);
}

/* The session that a question says is over makes room for the one it is about. */
TEST_IN(NULL, site_end, a_session_that_is_over_is_ended_before_the_next_is_decided) {
	struct question question;
	struct session_ref ref;
	struct answer answer;

	site_open(&site, 1000, CUSTOMER); /* rest: 3 */
	for (uint16_t i = 1; i <= 3; i++)
		(void)site_inbound(&site, "192.0.2.1", i, NULL, &ref);
	question = site_question("192.0.2.1", 4, NULL);
	answer = site_ask(&question, clock_now_ns());
	assert_int_equal(answer.decision.verdict, VERDICT_REFUSE);
	question.over = &ref;
	answer = site_ask(&question, clock_now_ns());
	assert_int_equal(answer.decision.verdict, VERDICT_ADMIT);
	assert_int_equal(open_of("rest"), 3);
	/* once: it names no session any more */
	question.client_port = 5;
	answer = site_ask(&question, clock_now_ns());
	assert_int_equal(answer.decision.verdict, VERDICT_REFUSE);
}

/* One connection holds one session, however fast they follow each other. */
TEST_IN(NULL, site_end, sessions_in_a_row_on_one_policy_connection_are_one) {
	struct answer answer = { .id = 0 };

	site_open(&site, 1000, CUSTOMER); /* rest: 3 */
	for (uint16_t i = 1; i <= 100; i++) {
		struct question question = site_question("192.0.2.1", i, NULL);

		question.listener = site.auto_listener;
		if (answer.session.slot != 0)
			engine_session_ended(site.engine, site.generation,
			    &answer.session, OWNER_POLICY, clock_now_ns());
		answer = site_ask(&question, clock_now_ns());
		assert_int_equal(answer.decision.verdict, VERDICT_ADMIT);
	}
	assert_int_equal(open_of("rest"), 1);
}

TEST_IN(open_customer, site_end, xclient_replaces_the_session_of_its_connect) {
	struct question question;
	struct answer answer;

	(void)site_verdict("192.0.2.1", 1000, NULL);
	question = site_question("198.51.100.7", 4711, "mx.customer.fr");
	question.carried = true;
	question.carrier_port = 1000;
	(void)address_parse("192.0.2.1", 9, &question.carrier_client);
	answer = site_ask(&question, clock_now_ns());
	assert_int_equal(answer.decision.verdict, VERDICT_ADMIT);
	assert_int_equal(open_of("rest"), 0);
	assert_int_equal(open_of("customer"), 1);
}

TEST_IN(NULL, site_end, deferred_sessions_are_decided_at_each_recipient) {
	struct question question;
	struct answer answer;
	struct session_ref first;

	site_open(&site, 1000, "classes = ( { name = \"all\"; match = [ \"*\" ]; "
	    "hold_at = 1; refuse_at = 1; action = \"defer\"; } );");
	(void)site_inbound(&site, "192.0.2.1", 1, NULL, &first);
	question = site_question("192.0.2.2", 2, NULL);
	answer = site_ask(&question, clock_now_ns());
	assert_int_equal(answer.decision.verdict, VERDICT_DEFER);
	assert_int_equal(open_of("all"), 1);
	engine_session_recipient(site.engine, site.generation, &question,
	    clock_now_ns(), &answer);
	assert_int_equal(answer.decision.verdict, VERDICT_DEFER);
	engine_session_close(site.engine, &first, clock_now_ns());
	engine_session_recipient(site.engine, site.generation, &question,
	    clock_now_ns(), &answer);
	assert_int_equal(answer.decision.verdict, VERDICT_ADMIT);
	assert_int_equal(open_of("all"), 1);
	/* from now on it is a session like any other */
	engine_session_recipient(site.engine, site.generation, &question,
	    clock_now_ns(), &answer);
	assert_int_equal(answer.decision.verdict, VERDICT_ADMIT);
	assert_false(answer.newly_decided);
	/* a hook that only sees the connect refuses */
	question = site_question("192.0.2.3", 3, NULL);
	question.connect_only = true;
	answer = site_ask(&question, clock_now_ns());
	assert_int_equal(answer.decision.verdict, VERDICT_REFUSE);
}

TEST_IN(NULL, site_end, a_full_table_admits_untracked) {
	unsigned untracked = 0, admitted = 0;

	site_open(&site, 64, "classes = ( { name = \"all\"; match = [ \"*\" ]; "
	    "hold_at = 100000; refuse_at = 100000; } );");
	for (unsigned i = 1; i <= 2000; i++) {
		struct question question = site_question("192.0.2.1",
		    (uint16_t)i, NULL);
		struct answer answer;

		answer = site_ask(&question, clock_now_ns());
		assert_int_equal(answer.decision.verdict, VERDICT_ADMIT);
		untracked += answer.decision.reason == REASON_UNTRACKED;
		admitted += answer.decision.reason == REASON_BELOW_LIMIT;
	}
	assert_true(admitted >= 64);
	assert_int_equal(admitted + untracked, 2000);
	assert_int_equal(open_of("all"), admitted);
	assert_int_equal(counted(COUNTER_UNTRACKED), untracked);
	assert_true(site_is_consistent(&site));
}

TEST_IN(NULL, site_end, rates_are_counted_by_class_and_client) {
	struct question question = site_question("192.0.2.1", 1, NULL);
	struct answer answer;
	int64_t now_ns = clock_now_ns();

	site_open(&site, 1000, "classes = ( { name = \"all\"; match = [ \"*\" ]; "
	    "hold_at = 100; refuse_at = 100; rate = \"5/1m\"; "
	    "client = { rate = \"2/1m\"; }; } );");
	for (unsigned i = 0; i < 2; i++, question.client_port++) {
		answer = site_ask(&question, now_ns);
		assert_int_equal(answer.decision.verdict, VERDICT_ADMIT);
	}
	answer = site_ask(&question, now_ns);
	assert_int_equal(answer.decision.reason, REASON_CLIENT_RATE);
	for (unsigned i = 2; i < 5; i++) {
		char client[32];

		snprintf(client, sizeof(client), "198.51.100.%u", i);
		question = site_question(client, 9, NULL);
		answer = site_ask(&question, now_ns);
		assert_int_equal(answer.decision.verdict, VERDICT_ADMIT);
	}
	question = site_question("198.51.100.77", 9, NULL);
	answer = site_ask(&question, now_ns);
	assert_int_equal(answer.decision.reason, REASON_CLASS_RATE);
	/* 60 s / 5: twelve seconds later there is one more */
	engine_session_open(site.engine, site.generation, &question,
	    now_ns + 12 * NS_PER_SECOND, &answer);
	assert_int_equal(answer.decision.verdict, VERDICT_ADMIT);
}

TEST_IN(NULL, site_end, adopted_sessions_are_decided_without_their_own_count) {
	struct connection connection = { .client_port = 7, .server_port = 25,
		.alive = true };
	struct question question;
	struct answer answer;

	site_open(&site, 1000, "classes = ( { name = \"all\"; match = [ \"*\" ]; "
	    "hold_at = 1; refuse_at = 1; } );");
	(void)address_parse("192.0.2.1", 9, &connection.client);
	(void)address_parse("192.0.2.25", 10, &connection.server);
	assert_true(engine_session_adopt(site.engine, site.generation,
	    &connection, site.auto_listener, clock_now_ns()));
	assert_false(engine_session_adopt(site.engine, site.generation,
	    &connection, site.auto_listener, clock_now_ns()));
	assert_int_equal(open_of("all"), 1);
	assert_int_equal(atomic_load(&site_class(&site, "all")->adopted), 1);
	assert_int_equal(site_verdict("192.0.2.9", 8, NULL), VERDICT_REFUSE);
	question = site_question("192.0.2.1", 7, NULL);
	answer = site_ask(&question, clock_now_ns());
	assert_int_equal(answer.decision.verdict, VERDICT_ADMIT);
	assert_int_equal(open_of("all"), 1);
}

TEST_IN(open_customer, site_end, explain_changes_nothing) {
	struct question question = site_question("192.0.2.1", 1, NULL);
	struct answer answer;
	uint32_t open, client_open;

	(void)site_verdict("192.0.2.1", 9, NULL);
	for (unsigned i = 0; i < 10; i++) {
		engine_explain(site.engine, site.generation, &question,
		    clock_now_ns(), &answer, &open, &client_open);
		assert_int_equal(answer.decision.verdict, VERDICT_ADMIT);
		assert_int_equal(open, 1);
	}
	assert_int_equal(open_of("rest"), 1);
}

static void count_line(void *context, const char *line) {
	assert_non_null(strstr(line, "this process keeps the old one"));
	(*(unsigned *)context)++;
}

/* By another role, say: each number is one that there is no file of. */
TEST_IN(open_customer, site_end, numbers_written_at_random_do_not_flood_the_log) {
	unsigned lines = 0;

	log_redirect(count_line, &lines);
	for (uint64_t number = 1000; number < 2000; number++) {
		atomic_store(&site.segment->header->generation, number);
		assert_ptr_equal(engine_pin(site.engine), site.generation);
		engine_unpin(site.engine, site.generation);
	}
	log_redirect(NULL, NULL);
	assert_int_equal(lines, 1);
}
