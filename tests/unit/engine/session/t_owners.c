/* SPDX-License-Identifier: ISC */
/* Sessions of clients behind a proxy, and roles that are lost: what the mail server's end
 * of their connection proves, and what a proxy's own connections are. */
#include "tests/unit/test.h"
#include <sys/socket.h>

#include "tests/unit/engine/session/witness_world.h"

static struct session_ref hidden(enum session_owner owner, const char *client, uint16_t port,
    uint32_t socket) {
	struct question question = site_question(client, port, NULL);
	struct answer answer;

	question.owner = owner;
	question.owner_socket = socket;
	question.listener = owner == OWNER_MILTER ? site.milter_listener
						  : site.auto_listener;
	answer = site_ask(&question, now_ns);
	return answer.session;
}

static void lose_the_role(void) {
	/* what beats on is another's engine */
	site.segment->begun[role() - site.segment->header->roles].kind = ROLE_NONE;
	atomic_store(&role()->incarnation, 0);
}

static void look(void) {
	pass(500);
	dump();
	witness_expire(witness, site.generation, now_ns);
}

TEST_IN(set_up, tear_down, a_session_of_a_lost_milter_ends_with_the_servers_end) {
	struct session_ref one = hidden(OWNER_MILTER, "192.0.2.1", 1001, 71);

	sockets[0] = 71;
	socket_count = 1;
	lose_the_role();
	for (unsigned i = 0; i < 4 * 3600; i++)
		look();
	assert_lives(&one);
	assert_int_equal(proof_of(&one), SESSION_PROOF_OWNER);
	socket_count = 0;
	look();
	assert_over(&one);
}

TEST_IN(set_up, tear_down, a_session_of_a_lost_policy_role_ends_at_the_second_look) {
	struct session_ref one = hidden(OWNER_POLICY, "192.0.2.1", 1001, 71);
	bool at_once;

	sockets[0] = 71;
	socket_count = 1;
	lose_the_role();
	look();
	socket_count = 0;
	look();
	assert_lives(&one);
	(void)wants(&at_once);
	assert_false(at_once);
	pass(250);
	(void)wants(&at_once);
	assert_true(at_once);
	dump();
	assert_over(&one);
}

TEST_IN(set_up, tear_down, an_end_that_is_there_again_ends_nothing) {
	struct session_ref one = hidden(OWNER_POLICY, "192.0.2.1", 1001, 71);

	sockets[0] = 71;
	lose_the_role();
	for (unsigned i = 0; i < 10; i++) {
		socket_count = i % 2;
		look();
	}
	assert_lives(&one);
}

TEST_IN(set_up, tear_down, a_process_that_asks_again_takes_its_session_over) {
	struct session_ref one = hidden(OWNER_POLICY, "192.0.2.1", 1001, 71), kept;
	struct question question = site_question("192.0.2.1", 1001, NULL);

	question.owner_socket = 72;
	engine_session_kept(site.engine, &question, now_ns, &kept);
	assert_int_equal(kept.slot, 0);		/* its role lives */
	lose_the_role();
	sockets[0] = 71;
	socket_count = 1;
	engine_session_kept(site.engine, &question, now_ns, &kept);
	assert_int_equal(kept.slot, 0);		/* its connection is there */
	sockets[0] = 72;
	look();					/* gone once */
	engine_session_kept(site.engine, &question, now_ns, &kept);
	assert_int_equal(kept.slot, one.slot);
	look();
	look();
	assert_lives(&one);
	socket_count = 0;
	look();
	look();
	assert_over(&one);
}

TEST_IN(set_up, tear_down, sockets_that_cannot_be_read_leave_the_lease) {
	struct session_ref one = hidden(OWNER_MILTER, "192.0.2.1", 1001, 71);

	kernel_is_silent = true;
	lose_the_role();
	for (unsigned i = 0; i < 100; i++)
		look();
	assert_lives(&one);
	assert_int_equal(proof_of(&one), SESSION_PROOF_LEASE);
	for (unsigned i = 0; i < 30; i++)
		look();
	assert_over(&one);
}

static void shown_session_outlives(enum session_owner owner, bool is_proven) {
	struct session_ref one = hidden(owner, "192.0.2.1", 1001, 71);

	kernel_has("192.0.2.1", 1001);
	if (is_proven)
		look();
	lose_the_role();
	for (unsigned i = 0; i < 10; i++)
		look();
	assert_lives(&one);
	kernel_count = 0;
	look();
	assert_over(&one);
}

TEST_IN(set_up, tear_down, a_session_the_kernel_shows_outlives_a_policy_connection) {
	shown_session_outlives(OWNER_POLICY, true);
}

/* Its role could not see it at its begin, and took the server's end of its connection. */
TEST_IN(set_up, tear_down, a_session_that_dumps_missed_outlives_its_role_and_policy_connection) {
	struct session_ref one = hidden(OWNER_POLICY, "192.0.2.1", 1001, 71);

	kernel_has("192.0.2.1", 1001);
	lose_the_role();
	for (unsigned i = 0; i < 4; i++) {
		pass(500);
		dump_without(1001);
	}
	assert_lives(&one);
	kernel_count = 0;
	look();
	assert_over(&one);
}

TEST_IN(set_up, tear_down, a_session_the_kernel_shows_outlives_its_milter) {
	shown_session_outlives(OWNER_MILTER, true);
}

TEST_IN(set_up, tear_down, a_session_first_shown_without_its_milter_outlives_it) {
	shown_session_outlives(OWNER_MILTER, false);
}

/* XCLIENT on a port whose other sessions the kernel shows. */
TEST_IN(set_up, tear_down, a_hidden_session_outlives_its_milter_role_among_visible_ones) {
	struct session_ref shown = hidden(OWNER_MILTER, "192.0.2.2", 1002, 0), one;

	kernel_has("192.0.2.2", 1002);
	look();
	assert_int_equal(proof_of(&shown), SESSION_PROOF_WITNESS);
	one = hidden(OWNER_MILTER, "192.0.2.1", 1001, 71);
	sockets[0] = 71;
	socket_count = 1;
	lose_the_role();
	for (unsigned i = 0; i < 10; i++)
		look();
	assert_lives(&one);
	socket_count = 0;
	look();
	assert_over(&one);
}

/* Its milter's role lives and says nothing. */
TEST_IN(set_up, tear_down, a_session_too_short_for_any_dump_is_not_counted_for_ever) {
	struct question question = site_question("192.0.2.1", 1001, NULL);
	struct session_ref hidden_one;
	struct answer answer;
	int ends[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	question.owner = OWNER_MILTER;
	question.listener = site.milter_listener;
	kernel_has("192.0.2.1", 1001);
	engine_owner_proof(site.engine, site.generation, &question, ends[0]);
	assert_int_equal(question.owner_socket, 0);
	answer = site_ask(&question, now_ns);
	hidden_one = hidden(OWNER_MILTER, "192.0.2.2", 1002, 71);
	kernel_count = 0;
	for (unsigned i = 0; i < 4; i++)
		look();
	assert_over(&answer.session);
	assert_lives(&hidden_one);	/* nobody has seen it: the milter's word counts */
	assert_int_equal(open_of("all"), 1);
	close(ends[0]);
	close(ends[1]);
}

TEST_IN(set_up, tear_down, a_session_that_a_look_has_shown_lives_while_the_kernel_shows_it) {
	struct question question = site_question("192.0.2.1", 1001, NULL);
	struct session_ref policys = open_one("192.0.2.1", 1001);
	struct answer answer;
	uint32_t sequence;

	question.owner = OWNER_MILTER;
	question.listener = site.milter_listener;
	question.shown = true;
	sequence = witness_dump_begin(witness);		/* before the milter asked: not in it */
	answer = site_ask(&question, now_ns);
	assert_int_equal(answer.session.slot, policys.slot);
	assert_int_equal(proof_of(&policys), SESSION_PROOF_WITNESS);
	witness_dump_end(witness, site.generation, sequence, NULL, 0, now_ns);
	assert_lives(&policys);
	kernel_has("192.0.2.1", 1001);
	for (unsigned i = 0; i < 10; i++)
		look();
	assert_lives(&policys);
	kernel_count = 0;
	look();
	assert_over(&policys);
}

/* --- a proxy's own connections ------------------------------------------------- */

static void gap_from_now(void) {
	atomic_store(&role()->gap_begin_ns, now_ns);
	atomic_store(&role()->gap_end_ns, now_ns + 2 * NS_PER_SECOND);
}

TEST_IN(set_up, tear_down, new_connections_of_a_proxy_are_not_adopted) {
	kernel_has("192.0.2.1", 1001);
	for (unsigned i = 0; i < 6; i++)
		look();
	gap_from_now();
	kernel_has("192.0.2.1", 1002);
	kernel_has("192.0.2.2", 1003);
	for (unsigned i = 0; i < 3; i++)
		look();
	assert_int_equal(open_of("all"), 1);
}

TEST_IN(set_up, tear_down, an_adopted_connection_of_a_proxy_is_given_up) {
	gap_from_now();
	kernel_has("192.0.2.1", 1001);
	for (unsigned i = 0; i < 8; i++)
		look();
	assert_int_equal(open_of("all"), 1);
	kernel_has("192.0.2.1", 1002);		/* long after: nobody announces it */
	for (unsigned i = 0; i < 6; i++)
		look();
	assert_int_equal(open_of("all"), 0);
}

TEST_IN(set_up, tear_down, who_is_announced_late_is_no_proxy) {
	struct session_ref late;

	kernel_has("192.0.2.1", 1001);
	for (unsigned i = 0; i < 6; i++)
		look();
	late = open_one("192.0.2.1", 1001);
	look();
	assert_lives(&late);
	gap_from_now();
	kernel_has("192.0.2.1", 1002);
	for (unsigned i = 0; i < 3; i++)
		look();
	assert_int_equal(open_of("all"), 2);
}
