/* SPDX-License-Identifier: ISC */
/* The witness against a real segment and a kernel of our own: what closes a session, and
 * what leaves it alone. */
#include "tests/unit/test.h"
#include "tests/unit/engine/session/witness_world.h"

#include <sys/wait.h>
#include <unistd.h>

/* --- dumps ------------------------------------------------------------- */

TEST_IN(set_up, tear_down, a_shown_session_ends_when_its_connection_is_gone) {
	struct session_ref one = open_shown("192.0.2.1", 1001);

	assert_int_equal(proof_of(&one), SESSION_PROOF_WITNESS);
	kernel_count = 0;
	dump();
	assert_over(&one);
	assert_int_equal(open_of("all"), 0);
}

TEST_IN(set_up, tear_down, a_connection_that_no_process_holds_is_no_session) {
	struct session_ref one = open_shown("192.0.2.1", 1001);

	kernel[0].alive = false;
	dump();
	assert_over(&one);
}

TEST_IN(set_up, tear_down, a_session_never_shown_is_left_on_an_unknown_listener) {
	struct session_ref one = open_one("192.0.2.1", 1001);

	dump();
	pass(600);
	dump();
	assert_lives(&one);
	assert_int_equal(proof_of(&one), SESSION_PROOF_OWNER);
	/* the end of its policy connection is final with the next dump */
	engine_session_ended(site.engine, site.generation, &one,
	    OWNER_POLICY_GONE, now_ns);
	assert_lives(&one);
	dump();
	assert_over(&one);
}

TEST_IN(set_up, tear_down, a_listener_whose_sessions_were_visible_closes_unseen_ones) {
	struct session_ref one = open_shown("192.0.2.1", 1001), two;

	two = open_one("192.0.2.2", 1002);
	dump();
	assert_lives(&one);
	assert_over(&two);
}

TEST_IN(set_up, tear_down, a_dump_ends_only_what_was_opened_before_it) {
	struct session_ref one = open_shown("192.0.2.1", 1001), two;
	uint32_t sequence;

	sequence = witness_dump_begin(witness);
	two = open_one("192.0.2.2", 1002);
	witness_dump_end(witness, site.generation, sequence, kernel, 1, now_ns);
	assert_lives(&two);
	dump();
	assert_over(&two);
	assert_lives(&one);
}

TEST_IN(set_up, tear_down, a_session_ends_though_a_writer_died_in_its_shard_and_nobody_asks) {
	struct session_ref one = open_shown("192.0.2.1", 1001);
	const struct session_key key = { one.client, one.client_port, one.direction };
	struct session_lock lock;
	pid_t writer = fork();

	if (writer == 0) {
		sessions_aim(site.segment, &key, now_ns, &lock);
		if (sessions_lock(&lock))
			sessions_change_begin(&lock);
		_exit(0);
	}
	assert_int_equal(waitpid(writer, NULL, 0), writer);
	kernel_count = 0;
	dump();
	assert_over(&one);
}

TEST_IN(set_up, tear_down, a_class_is_counted_anew_though_nobody_asks_after_a_writer_died) {
	struct class_record *record = site_class(&site, "all");
	pid_t writer = fork();

	if (writer == 0) {
		if (class_lock(site.segment, (uint16_t)(record - site.segment->records), now_ns))
			class_add(site.segment, (uint16_t)(record - site.segment->records),
			    SESSION_INBOUND, 1);
		_exit(0);
	}
	assert_int_equal(waitpid(writer, NULL, 0), writer);
	assert_int_equal(open_of("all"), 1);
	dump();
	assert_int_equal(open_of("all"), 0);
}

TEST_IN(set_up, tear_down, one_lookup_before_closing_can_save_a_session) {
	struct session_ref one = open_shown("192.0.2.1", 1001);

	lookups = 0;
	dump_without(1001);
	assert_lives(&one);
	assert_int_equal(lookups, 1);
	kernel_is_silent = true;
	kernel_count = 0;
	dump();
	assert_lives(&one);
	kernel_is_silent = false;
	dump();
	assert_over(&one);
}

TEST_IN(set_up, tear_down, a_hint_of_an_end_is_believed_when_the_kernel_agrees) {
	struct session_ref one = open_shown("192.0.2.1", 1001);

	engine_session_ended(site.engine, site.generation, &one, OWNER_POLICY, now_ns);
	assert_lives(&one);
	dump();
	assert_lives(&one);
	kernel_count = 0;
	dump();
	assert_over(&one);
}

TEST_IN(set_up, tear_down, sessions_in_no_count_end_likewise) {
	struct session_ref refused, kept[4];
	struct session session;

	for (uint16_t i = 0; i < 4; i++) {
		kept[i] = open_one("192.0.2.1", (uint16_t)(1001 + i));
		kernel_has("192.0.2.1", (uint16_t)(1001 + i));
	}
	refused = open_one("192.0.2.1", 1005);
	kernel_has("192.0.2.1", 1005);
	dump();
	assert_true(lives(&refused, &session));
	assert_int_equal(session.control.state, SESSION_REFUSED);
	kernel_count = 4;
	dump();
	assert_over(&refused);
	assert_lives(&kept[0]);
	assert_int_equal(open_of("all"), 4);
}

TEST_IN(set_up, tear_down, an_unknown_server_half_is_found_and_filled_in) {
	struct question question = site_question("192.0.2.1", 1001, NULL);
	struct answer answer;
	struct session session;

	memset(&question.server, 0, sizeof(question.server));
	question.server_port = 0;
	question.listener = site.auto_listener;
	answer = site_ask(&question, now_ns);
	kernel_has("192.0.2.1", 1001);
	kernel[0].server_port = 2525; /* no dump asks for it */
	dump_without(1001);
	assert_true(lives(&answer.session, &session));
	assert_int_equal(session.control.proof, SESSION_PROOF_WITNESS);
	assert_int_equal(session.server_port, 2525);
	kernel_count = 0;
	dump();
	assert_over(&answer.session);
}

/* --- what the listeners teach -------------------------------------------- */

TEST_IN(set_up, tear_down, a_session_of_a_proxy_is_held_by_its_milter) {
	struct session_ref held = open_as(OWNER_MILTER, site.milter_listener,
	    "192.0.2.1", 1001), direct;
	const struct listener_record *record = segment_listener(site.segment,
	    site.milter_listener, 25);

	dump();
	assert_int_equal(atomic_load(&record->unseen), 0);
	pass(2500);
	dump();
	assert_int_equal(atomic_load(&record->unseen), 0);
	pass(2500);
	dump();
	assert_int_equal(atomic_load(&record->unseen), 1);
	/* sessions that are shown are witnessed there all the same, but others
	 * are not closed */
	direct = open_as(OWNER_MILTER, site.milter_listener, "192.0.2.2", 1002);
	kernel_has("192.0.2.2", 1002);
	pass(600);
	dump();
	assert_int_equal(proof_of(&direct), SESSION_PROOF_WITNESS);
	assert_lives(&held);
	engine_session_ended(site.engine, site.generation, &held, OWNER_MILTER, now_ns);
	assert_over(&held);
}

/* A keeper that was away did not see it; its milter was just about to tell its end. */
TEST_IN(set_up, tear_down, a_session_that_ends_as_it_is_missed_teaches_nothing) {
	struct session_ref ending = open_as(OWNER_MILTER, site.milter_listener,
	    "192.0.2.1", 1001), next;
	const struct listener_record *record = segment_listener(site.segment,
	    site.milter_listener, 25);

	pass(2500);
	dump();
	engine_session_ended(site.engine, site.generation, &ending, OWNER_MILTER, now_ns);
	assert_over(&ending);
	for (unsigned i = 0; i < 5; i++) {
		next = open_as(OWNER_MILTER, site.milter_listener, "192.0.2.1", 1002);
		pass(2100);
		dump();
		engine_session_ended(site.engine, site.generation, &next, OWNER_MILTER,
		    now_ns);
	}
	assert_int_equal(atomic_load(&record->unseen), 0);
}

TEST_IN(set_up, tear_down, a_stopped_milter_teaches_nothing) {
	const struct listener_record *record = segment_listener(site.segment,
	    site.milter_listener, 25);

	(void)open_as(OWNER_MILTER, site.milter_listener, "192.0.2.1", 1001);
	now_ns += 2500 * MS;	/* no heartbeat */
	dump();
	assert_int_equal(atomic_load(&record->unseen), 0);
}

TEST_IN(set_up, tear_down, an_announced_end_teaches_that_the_listener_is_visible) {
	struct session_ref one = open_one("192.0.2.1", 1001), two;

	destroyed("192.0.2.1", 1001);
	assert_over(&one);
	two = open_one("192.0.2.2", 1002);
	dump();
	assert_over(&two);
}

/* --- announcements --------------------------------------------------------- */

TEST_IN(set_up, tear_down, an_announced_end_closes_at_once) {
	struct session_ref one = open_one("192.0.2.1", 1001);
	struct session_ref two = open_one("192.0.2.1", 1002);

	kernel_has("192.0.2.1", 1001);
	kernel_has("192.0.2.1", 1002);
	dump();
	kernel_count = 1;
	destroyed("192.0.2.1", 1002);
	assert_lives(&one);
	assert_over(&two);
	assert_int_equal(open_of("all"), 1);
}

/* The client's port is used again between the look at the kernel and the end. */
static void comes_again(void) {
	after_lookup = NULL;
	kernel_has("192.0.2.1", 1001);
	(void)open_one("192.0.2.1", 1001);
}

TEST_IN(set_up, tear_down, a_client_that_comes_again_as_its_last_session_is_closed_is_counted) {
	dump();
	(void)open_one("192.0.2.1", 1001);
	after_lookup = comes_again;
	destroyed("192.0.2.1", 1001);
	assert_int_equal(kernel_count, 1);
	assert_int_equal(open_of("all"), 1);
}

TEST_IN(set_up, tear_down, an_announced_end_of_a_live_tuple_closes_nothing) {
	struct session_ref one = open_one("192.0.2.1", 1001);
	bool at_once;

	kernel_has("192.0.2.1", 1001);
	dump();
	assert_true(wants(&at_once));
	assert_false(at_once);
	destroyed("192.0.2.1", 1001);
	assert_lives(&one);
	assert_true(wants(&at_once));
	assert_true(at_once);
}

TEST_IN(set_up, tear_down, an_announcement_without_the_remote_half_asks_for_a_dump) {
	struct session_ref one = open_one("192.0.2.1", 1001);
	struct connection which = tuple("192.0.2.1", 0);
	bool at_once;

	kernel_has("192.0.2.1", 1001);
	dump();
	memset(&which.client, 0, sizeof(which.client));
	witness_destroyed(witness, site.generation, &which, now_ns);
	assert_lives(&one);
	assert_true(wants(&at_once));
	assert_true(at_once);
	/* not for a port that nobody watches */
	dump();
	which.server_port = 12345;
	witness_destroyed(witness, site.generation, &which, now_ns);
	assert_true(wants(&at_once));
	assert_false(at_once);
}

TEST_IN(set_up, tear_down, xclient_lives_by_the_tuple_of_the_connect_before) {
	struct question question = site_question("203.0.113.9", 4444, NULL);
	struct connection carrier = tuple("192.0.2.1", 1001);
	struct answer answer;

	question.listener = site.auto_listener;
	question.carried = true;
	question.carrier_client = carrier.client;
	question.carrier_port = 1001;
	(void)open_one("192.0.2.1", 1001);
	answer = site_ask(&question, now_ns);
	kernel_has("192.0.2.1", 1001);
	dump();
	assert_int_equal(proof_of(&answer.session), SESSION_PROOF_WITNESS);
	dump();
	/* an end of the told tuple is somebody else's */
	destroyed("203.0.113.9", 4444);
	assert_lives(&answer.session);
	kernel_count = 0;
	destroyed("192.0.2.1", 1001);
	assert_over(&answer.session);
	assert_int_equal(open_of("all"), 0);
}

/* The kernel gives one port to connections to several servers.  HAProxy's, from the port of a
 * client that came by XCLIENT, ended that client's session: "some: 7 of 6" in a storm. */
TEST_IN(set_up, tear_down, another_connection_from_the_port_of_an_xclient_ends_nothing) {
	struct question question = site_question("203.0.113.9", 4444, NULL);
	struct connection other = tuple("127.0.0.1", 1001);
	struct answer answer;

	question.listener = site.auto_listener;
	question.carried = true;
	question.carrier_client = other.client;
	question.carrier_port = 1001;
	other.server_port = 2041;
	answer = site_ask(&question, now_ns);
	kernel_has("127.0.0.1", 1001);
	dump();
	witness_destroyed(witness, site.generation, &other, now_ns);
	assert_lives(&answer.session);
	/* its own, whose server half XCLIENT has renamed */
	kernel_count = 0;
	witness_destroyed(witness, site.generation, &other, now_ns);
	assert_over(&answer.session);
}

/* --- leases ------------------------------------------------------------------ */

TEST_IN(set_up, tear_down, a_lease_listener_is_not_witnessed) {
	struct session_ref one = open_as(OWNER_POLICY, site.lease_listener,
	    "192.0.2.1", 1001);

	kernel_has("192.0.2.1", 1001);
	dump();
	assert_int_equal(proof_of(&one), SESSION_PROOF_LEASE);
	kernel_count = 0;
	dump();
	destroyed("192.0.2.1", 1001);
	assert_lives(&one);
	pass(3590 * 1000);
	witness_expire(witness, site.generation, now_ns);
	assert_lives(&one);
	pass(20 * 1000);
	witness_expire(witness, site.generation, now_ns);
	assert_over(&one);
	assert_int_equal(open_of("all"), 0);
}

TEST_IN(set_up, tear_down, an_owner_that_lives_renews_its_lease) {
	struct session_ref one = open_one("192.0.2.1", 1001);

	for (unsigned hour = 0; hour < 30; hour++) {
		pass(1000 * 1000);
		witness_expire(witness, site.generation, now_ns);
		assert_lives(&one);
	}
	/* its role dies, and nothing else proves it: a minute is left */
	atomic_store(&role()->incarnation, 0);
	witness_expire(witness, site.generation, now_ns);
	assert_int_equal(proof_of(&one), SESSION_PROOF_LEASE);
	now_ns += 50 * NS_PER_SECOND;
	witness_expire(witness, site.generation, now_ns);
	assert_lives(&one);
	now_ns += 20 * NS_PER_SECOND;
	witness_expire(witness, site.generation, now_ns);
	assert_over(&one);
}

TEST_IN(set_up, tear_down, a_witnessed_session_has_no_lease) {
	struct session_ref one = open_shown("192.0.2.1", 1001);

	atomic_store(&role()->incarnation, 0);
	now_ns += 7200 * NS_PER_SECOND;
	witness_expire(witness, site.generation, now_ns);
	assert_lives(&one);
	kernel_count = 0;
	dump();
	assert_over(&one);
}

TEST_IN(set_up, tear_down, a_refused_session_that_cannot_be_seen_is_forgotten) {
	struct session_ref refused;

	for (uint16_t i = 0; i < 4; i++)
		(void)open_one("192.0.2.1", (uint16_t)(1001 + i));
	refused = open_one("192.0.2.1", 1005);
	pass(50 * 1000);
	witness_expire(witness, site.generation, now_ns);
	assert_lives(&refused);
	pass(15 * 1000);
	witness_expire(witness, site.generation, now_ns);
	assert_over(&refused);
	assert_int_equal(open_of("all"), 4);
}

TEST_IN(set_up, tear_down, without_a_readable_table_owners_decide) {
	struct session_ref one = open_one("192.0.2.1", 1001);
	struct session_ref two = open_one("192.0.2.2", 1002);

	kernel_has("192.0.2.1", 1001);
	kernel_has("192.0.2.2", 1002);
	dump();
	engine_session_ended(site.engine, site.generation, &one, OWNER_POLICY, now_ns);
	witness_dump_failed(witness, now_ns);
	witness_expire(witness, site.generation, now_ns);
	assert_lives(&one);
	pass(11 * 1000);
	witness_dump_failed(witness, now_ns);
	witness_expire(witness, site.generation, now_ns);
	assert_over(&one);
	assert_lives(&two);
	dump();
	assert_int_equal(proof_of(&two), SESSION_PROOF_WITNESS);
}
