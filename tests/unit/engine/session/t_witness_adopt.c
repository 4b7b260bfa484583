/* SPDX-License-Identifier: ISC */
/* Sessions that nobody announced, and when the witness wants to look. */
#include "tests/unit/test.h"
#include "tests/unit/engine/session/witness_world.h"

/* --- adoption ------------------------------------------------------------------ */

static void gap(int64_t begin_ms, int64_t end_ms) {
	atomic_store(&role()->gap_begin_ns, now_ns + begin_ms * MS);
	atomic_store(&role()->gap_end_ns, now_ns + end_ms * MS);
}

TEST_IN(set_up, tear_down, what_began_in_a_gap_is_adopted_by_address) {
	gap(-3000, -100);
	kernel_has("198.51.100.1", 1001);
	kernel_has("198.51.100.2", 1002);
	kernel_has("192.0.2.1", 1003);
	dump();
	pass(499);
	assert_int_equal(open_in_dump("net"), 0);
	pass(1);
	dump();
	/* above its limit of 1; the name's class is never guessed */
	assert_int_equal(open_of("net"), 2);
	assert_int_equal(open_of("all"), 1);
	assert_int_equal(atomic_load(&site_class(&site, "net")->adopted), 2);
	kernel_count = 0;
	assert_int_equal(open_in_dump("net"), 0);
	assert_int_equal(open_of("all"), 0);
}

TEST_IN(set_up, tear_down, an_adopted_session_is_decided_without_its_own_count) {
	struct session_ref ref;

	gap(-3000, -100);
	kernel_has("198.51.100.1", 1001);
	dumps(2);
	assert_int_equal(open_of("net"), 1);
	assert_int_equal(site_inbound(&site, "198.51.100.1", 1001, NULL, &ref),
	    VERDICT_ADMIT);
	assert_int_equal(open_of("net"), 1);
}

TEST_IN(set_up, tear_down, what_was_there_before_the_gap_is_not_adopted) {
	kernel_has("192.0.2.1", 1001);
	dump();
	pass(100);
	gap(-50, 200);
	pass(300);
	dump();
	pass(600);
	assert_int_equal(open_in_dump("all"), 0);
}

TEST_IN(set_up, tear_down, what_began_in_a_gap_is_adopted_though_its_port_was_another_s_just_before) {
	kernel_has("192.0.2.1", 1001);
	dump();
	/* which ends, and is told: one dump shows it, the next one its successor */
	kernel_count = 0;
	destroyed("192.0.2.1", 1001);
	pass(100);
	kernel_has("192.0.2.1", 1001);
	gap(-50, 200);
	pass(300);
	dumps(3);
	assert_int_equal(open_of("all"), 1);
}

TEST_IN(set_up, tear_down, what_begins_long_after_the_gap_is_not_adopted) {
	gap(-3000, -1001);
	kernel_has("192.0.2.1", 1001);
	dumps(4);
	assert_int_equal(open_of("all"), 0);
}

TEST_IN(set_up, tear_down, what_began_in_a_gap_is_adopted_though_the_keeper_stood_still_until_long_after) {
	dump();
	kernel_has("192.0.2.1", 1001);
	pass(5000);
	gap(-4000, -1500);
	dumps(2);
	assert_int_equal(open_of("all"), 1);
}

TEST_IN(set_up, tear_down, what_met_a_stuck_lock_is_adopted_though_the_keeper_stood_still_until_long_after) {
	struct listener_record *record = segment_listener(site.segment, site.auto_listener, 25);

	dump();
	kernel_has("192.0.2.1", 1001);
	pass(5000);
	atomic_store(&record->fault_begin_ns, now_ns - 4000 * MS);
	atomic_store(&record->fault_until_ns, now_ns - 3000 * MS);
	dumps(2);
	assert_int_equal(open_of("all"), 1);
}

TEST_IN(set_up, tear_down, what_began_in_a_gap_is_adopted_though_the_keeper_died_in_it) {
	struct role_record *keeper = &segment_header(site.segment)->roles[
	    segment_role_place(ROLE_KEEPER, 0)];

	gap(-4000, -1500);
	atomic_store(&keeper->gap_begin_ns, now_ns - 3000 * MS);
	kernel_has("192.0.2.1", 1001);
	dumps(2);
	assert_int_equal(open_of("all"), 1);
}

TEST_IN(set_up, tear_down, what_was_answered_is_not_adopted) {
	gap(-3000, 5000);
	for (uint16_t i = 0; i < 6; i++) {	/* two are refused */
		(void)open_one("192.0.2.1", (uint16_t)(1001 + i));
		kernel_has("192.0.2.1", (uint16_t)(1001 + i));
	}
	dumps(4);
	assert_int_equal(open_of("all"), 4);
	assert_int_equal(atomic_load(&site_class(&site, "all")->adopted), 0);
}

TEST_IN(set_up, tear_down, what_carries_an_xclient_session_is_not_adopted) {
	struct question question = site_question("203.0.113.9", 4444, NULL);

	gap(-3000, 5000);
	question.carried = true;
	question.carrier_client = tuple("192.0.2.1", 1001).client;
	question.carrier_port = 1001;
	question.listener = site.auto_listener;
	(void)site_ask(&question, now_ns);
	kernel_has("192.0.2.1", 1001);
	dumps(4);
	assert_int_equal(open_of("all"), 1);
}

TEST_IN(set_up, tear_down, a_backlog_is_not_adopted) {
	gap(-3000, 5000);
	kernel_has("192.0.2.1", 1001);
	kernel[0].alive = false;	/* inode 0: not accepted yet */
	dumps(4);
	assert_int_equal(open_of("all"), 0);
}

TEST_IN(set_up, tear_down, a_gap_of_a_role_that_serves_another_port_adopts_nothing) {
	struct session_ref one = open_as(OWNER_MILTER, site.milter_listener,
	    "192.0.2.1", 1001);

	/* port 25 is known to be the milter's; the gap is the policy role's */
	kernel_has("192.0.2.1", 1001);
	dump();
	gap(-100, 5000);
	kernel_has("192.0.2.2", 1002);
	dumps(4);
	assert_int_equal(open_of("all"), 1);
	assert_lives(&one);
}

/* The role that answers socket maps, which a session of the port came by. */
TEST_IN(set_up, tear_down, a_gap_of_the_socket_map_adopts) {
	struct session_ref one = open_as(OWNER_POLICY, site.map_listener, "192.0.2.1", 1001);

	kernel_has("192.0.2.1", 1001);
	dump();
	gap(-100, 5000);
	kernel_has("192.0.2.2", 1002);
	dumps(4);
	assert_int_equal(open_of("all"), 2);
	assert_lives(&one);
}

TEST_IN(set_up, tear_down, connections_of_a_proxy_are_not_adopted) {
	const struct listener_record *record = segment_listener(site.segment,
	    site.auto_listener, 25);
	struct session_ref one = open_one("192.0.2.1", 1001);

	pass(2500);
	dump();
	pass(2500);
	dump();
	assert_int_equal(atomic_load(&record->absent), 1);
	assert_lives(&one);
	gap(-100, 5000);
	kernel_has("203.0.113.1", 1002);	/* the proxy's */
	dumps(4);
	assert_int_equal(open_of("all"), 1);
}

TEST_IN(set_up, tear_down, a_lock_that_timed_out_is_a_gap_of_its_listener) {
	struct listener_record *record = segment_listener(site.segment,
	    site.auto_listener, 25);

	atomic_store(&record->fault_until_ns, now_ns + NS_PER_SECOND);
	kernel_has("192.0.2.1", 1001);
	dumps(2);
	assert_int_equal(open_of("all"), 1);
}

TEST_IN(set_up, tear_down, adopt_always_and_never) {
	kernel_has("192.0.2.1", 1001);
	site_reload(&site, "count_unannounced = \"never\"; " FOUR);
	gap(-3000, 100000);
	dumps(2);
	assert_int_equal(open_of("all"), 0);
	gap(-3000, -2000);
	site_reload(&site, "count_unannounced = \"always\"; " FOUR);
	assert_int_equal(open_in_dump("all"), 1);
}

TEST_IN(set_up, tear_down, too_many_unannounced_connections_are_left_alone) {
	site_reload(&site, "count_unannounced = \"always\"; " FOUR);
	for (uint16_t i = 0; i < 40; i++)	/* the memory holds 16 */
		kernel_has("192.0.2.1", (uint16_t)(1001 + i));
	dumps(2);
	assert_int_equal(open_of("all"), 16);
}

/* --- when to look ------------------------------------------------------------ */

TEST_IN(set_up, tear_down, without_adoption_there_is_no_dump_at_rest) {
	bool at_once;

	dump();
	assert_true(wants(&at_once));
	assert_false(at_once);
	site_reload(&site, "count_unannounced = \"never\"; " FOUR);
	assert_false(wants(&at_once));
	(void)open_one("192.0.2.1", 1001);
	assert_true(wants(&at_once));
	assert_false(at_once);
}

TEST_IN(set_up, tear_down, begin_and_end_of_a_gap_ask_for_a_dump_at_once) {
	dump();
	assert_false(wants_at_once());
	gap(-50, 0);
	atomic_store(&role()->gap_end_ns, INT64_MAX);
	assert_true(wants_at_once());
	dump();
	pass(1000);	/* its successor's heartbeat ends it */
	assert_true(wants_at_once());
	dump();
	pass(1000);
	assert_false(wants_at_once());
	gap(-1000, 0);
	assert_true(wants_at_once());
	dump();
	assert_false(wants_at_once());
}

TEST_IN(set_up, tear_down, ports_of_sessions_are_watched_too) {
	struct question question = site_question("192.0.2.1", 1001, NULL);
	struct answer answer;
	uint16_t ports[64];
	bool at_once;

	assert_int_equal(witness_ports(witness, site.generation, ports, 64), 1);
	assert_int_equal(ports[0], 25);
	question.server_port = 587;
	question.listener = site.auto_listener;
	answer = site_ask(&question, now_ns);
	dump();
	assert_lives(&answer.session);
	assert_true(wants(&at_once));
	assert_true(at_once);
	assert_int_equal(witness_ports(witness, site.generation, ports, 64), 2);
	assert_int_equal(ports[1], 587);
	dump();
	assert_true(wants(&at_once));
	assert_false(at_once);
}

TEST_IN(set_up, tear_down, sessions_taken_over_are_confirmed_by_the_first_dump) {
	bool at_once;

	atomic_store(&segment_header(site.segment)->unconfirmed, 1);
	assert_true(wants(&at_once));
	assert_true(at_once);
	dump();
	assert_int_equal(atomic_load(&segment_header(site.segment)->unconfirmed), 0);
	atomic_store(&segment_header(site.segment)->unconfirmed, 1);
	witness_dump_failed(witness, now_ns);
	assert_int_equal(atomic_load(&segment_header(site.segment)->unconfirmed), 0);
}

TEST_IN(set_up, tear_down, news_are_told_once) {
	struct witness_news news;

	gap(-3000, -100);
	kernel_has("192.0.2.1", 1001);
	dumps(2);
	witness_news(witness, &news);
	assert_int_equal(news.adopted, 1);
	witness_news(witness, &news);
	assert_int_equal(news.adopted, 0);
}
