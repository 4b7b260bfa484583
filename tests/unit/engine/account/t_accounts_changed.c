/* SPDX-License-Identifier: ISC */
/* Accounts while something else changes: counts that are forgotten, limits of a reload, logins that
 * are evicted; what is given back then, and what is free. */
#include "tests/unit/test.h"
#include "segment/file/internal.h"

#define ENTRY(more) \
	"classes = ();\n" \
	"accounts = ( { name = \"staff\"; match = \"*\"; free = \"own.example\"; " more " } );\n"
#define STAFF	ENTRY("each = { recipients = \"20/1h\"; messages = \"40/1h\"; };")

#include "tests/unit/engine/account/accounts_asked.h"

static uint64_t yes_of(const char *login, const char *instance, unsigned count) {
	uint64_t yes = 0;

	for (unsigned i = 0; i < count; i++) {
		char to[64];

		snprintf(to, sizeof(to), "%s.%u@x", instance, i);
		yes += rcpt(login, instance, to).verdict == VERDICT_ADMIT;
	}
	return yes;
}

/* --- what a transaction gives back ------------------------------------------------------- */

TEST_IN(begin, site_end, nothing_is_given_back_to_counts_that_were_forgotten) {
	assert_int_equal(yes_of("ann", "a1.1.1.0", 15), 15);
	assert_true(engine_account_forget(site.engine, "ann", 3, now_ns += NS_PER_SECOND));
	assert_int_equal(yes_of("ann", "a2.1.1.0", 15), 15);
	/* the first one is given up */
	is_yes(rcpt("ann", "a1.1.1.1", "x@x"));
	assert_int_equal(used("ann"), 16);
	assert_int_equal(yes_of("ann", "a3.1.1.0", 20), 4);
}

TEST_IN(begin, site_end, nothing_is_given_back_to_a_limit_that_a_reload_added) {
	static const struct quota_limit day = { 86400, 1, QUOTA_RECIPIENTS };
	struct site_account view;

	assert_int_equal(yes_of("ann", "b1.1.1.0", 15), 15);
	site_reload(&site, ENTRY("each = { recipients = [ \"40/1h\", \"40/1d\" ]; };"));
	assert_int_equal(yes_of("ann", "b2.1.1.0", 15), 15);
	is_yes(rcpt("ann", "b1.1.1.1", "x@x"));
	assert_true(site_account(&site, "ann", &view));
	assert_int_equal(quota_used(quota_find(view.account.counters, GENERATION_QUOTA_COUNTERS,
	    &day), now_ns), 16);
}

TEST_IN(begin, site_end, nothing_is_given_back_to_a_login_that_was_evicted) {
	unsigned evicted = 0;

	assert_int_equal(yes_of("ann", "c1.1.1.0", 10), 10);
	for (unsigned i = 0; i < 4000 && evicted == 0; i++) {
		struct site_account view;
		char login[32], instance[32];

		now_ns += NS_PER_SECOND / 10;
		snprintf(login, sizeof(login), "guest%u", i);
		snprintf(instance, sizeof(instance), "%x.1.1.0", 0x10000 + i);
		is_yes(rcpt(login, instance, "x@x"));
		assert_true(site_account(&site, "ann", &view));
		evicted = !view.is_known;
	}
	assert_int_equal(evicted, 1);
	assert_int_equal(yes_of("ann", "c2.1.1.0", 20), 20);
	engine_account_process_over(site.engine, rcpt("ann", "c1.1.1.0", "z@x").process, false, now_ns);
	assert_int_equal(used("ann"), 20);
}

/* As before: what is of the same counters is. */
TEST_IN(begin, site_end, a_transaction_that_is_given_up_gives_back) {
	assert_int_equal(yes_of("ann", "d1.1.1.0", 15), 15);
	is_yes(rcpt("ann", "d1.1.1.1", "x@x"));
	assert_int_equal(used("ann"), 1);
}

/* --- forgetting ---------------------------------------------------------------------------- */

TEST_IN(begin, site_end, a_login_that_was_forgotten_is_not_new) {
	site_reload(&site, ENTRY("each = { recipients = \"20/1h\"; };\n"
	    "new = { recipients = \"3/1h\"; for = \"1m\"; };"));
	is_yes(rcpt("ann", "e1.1.1.0", "x@x"));
	now_ns += 5 * HOUR;
	assert_true(engine_account_forget(site.engine, "ann", 3, now_ns));
	assert_int_equal(yes_of("ann", "e2.1.1.0", 25), 20);
	/* a login of today is */
	assert_int_equal(yes_of("new", "e3.1.1.0", 25), 3);
}

/* --- reloads ---------------------------------------------------------------------------------- */

/* 45 of 100 are not half; of 45 they are all. */
TEST_IN(begin, site_end, a_login_above_half_of_a_limit_that_a_reload_lowered_is_not_evicted) {
	site_reload(&site, ENTRY("each = { recipients = \"100/1h\"; };"));
	assert_int_equal(yes_of("ann", "f1.1.1.0", 45), 45);
	site_reload(&site, ENTRY("each = { recipients = \"45/1h\"; };"));
	engine_accounts_turn(site.engine, site.generation, now_ns);
	for (unsigned i = 0; i < 1000; i++) {
		char login[32], instance[32];

		now_ns += NS_PER_SECOND / 100;
		snprintf(login, sizeof(login), "guest%u", i);
		snprintf(instance, sizeof(instance), "%x.1.1.0", 0x20000 + i);
		is_yes(rcpt(login, instance, "x@x"));
	}
	assert_int_equal(used("ann"), 45);
}

/* --- a full table ---------------------------------------------------------------------------- */

enum { CROWD = 500 };

/* More logins than there is room for have used most of their limit. */
static void fill(void) {
	for (unsigned i = 0; i < CROWD; i++) {
		char login[32], instance[32];

		snprintf(login, sizeof(login), "crowd%u", i);
		snprintf(instance, sizeof(instance), "%x.1.1.0", 0x40000 + i);
		(void)yes_of(login, instance, 15);
	}
}

static unsigned known_of_newcomers(const char *name) {
	static unsigned process = 0x50000;
	unsigned known = 0;

	now_ns += NS_PER_SECOND;
	engine_accounts_turn(site.engine, site.generation, now_ns);
	for (unsigned i = 0; i < 100; i++) {
		struct site_account view;
		char login[32], instance[32];

		snprintf(login, sizeof(login), "%s%u", name, i);
		snprintf(instance, sizeof(instance), "%x.1.1.1", process++);
		is_yes(rcpt(login, instance, "x@x"));
		assert_true(site_account(&site, login, &view));
		known += view.is_known;
	}
	return known;
}

TEST_IN(begin, site_end, logins_whose_mail_was_given_up_make_room_in_a_full_table) {
	unsigned charged = 0;

	fill();
	assert_true(known_of_newcomers("none") < 100);
	for (unsigned i = 0; i < CROWD; i++) {
		struct account_answer answer;
		char login[32], instance[32];

		snprintf(login, sizeof(login), "crowd%u", i);
		snprintf(instance, sizeof(instance), "%x.1.1.0", 0x40000 + i);
		answer = rcpt(login, instance, "last@x");
		engine_account_process_over(site.engine, answer.process, false, now_ns);
	}
	for (unsigned i = 0; i < CROWD; i++) {
		char login[32];

		snprintf(login, sizeof(login), "crowd%u", i);
		charged += used(login) > 0;
	}
	/* the note of a transaction may have been evicted */
	assert_true(charged < CROWD / 10);
	now_ns += MINUTE;
	assert_true(known_of_newcomers("late") > 90);
}

TEST_IN(begin, site_end, logins_make_room_in_a_full_table_when_a_reload_raises_their_limit) {
	fill();
	assert_true(known_of_newcomers("none") < 100);
	site_reload(&site, ENTRY("each = { recipients = \"100/1h\"; messages = \"40/1h\"; };"));
	assert_int_equal(known_of_newcomers("late"), 100);
}

/* All are above half as before: they stay. */
TEST_IN(begin, site_end, a_full_table_evicts_nobody_above_half_of_a_limit) {
	unsigned known = 0;

	fill();
	for (unsigned round = 0; round < 3; round++) {
		now_ns += MINUTE;
		(void)known_of_newcomers("none");
	}
	for (unsigned i = 0; i < CROWD; i++) {
		struct site_account view;
		char login[32];

		snprintf(login, sizeof(login), "crowd%u", i);
		assert_true(site_account(&site, login, &view));
		known += view.is_known;
		assert_true(!view.is_known || used(login) == 15);
	}
	assert_true(known > 50);
}

TEST_IN(begin, site_end, however_often_entries_are_renamed_their_pools_limit) {
	for (unsigned i = 0; i < 300; i++) {
		char text[256], login[32], instance[32];

		now_ns += 2 * HOUR;
		snprintf(text, sizeof(text), "classes = ();\naccounts = ( { name = \"group%u\"; "
		    "match = \"*\"; all = { recipients = \"3/1h\"; }; } );\n", i);
		site_reload(&site, text);
		snprintf(login, sizeof(login), "u%u", i % 30);
		snprintf(instance, sizeof(instance), "%x.1.1.0", 0x30000 + i);
		assert_int_equal(yes_of(login, instance, 5), 3);
	}
}

/* --- free ------------------------------------------------------------------------------------- */

TEST_IN(begin, site_end, a_message_to_free_recipients_alone_is_free) {
	site_reload(&site, ENTRY("each = { messages = \"1/1h\"; bytes = \"64k/1h\"; };"));
	is_yes(rcpt("ann", "g1.1.1.0", "x@x"));
	is_yes(eom("ann", "g1.1.1.0", 1, 10));
	is_yes(rcpt("ann", "g1.1.1.1", "boss@own.example"));
	is_yes(rcpt("ann", "g1.1.1.1", "postmaster@x"));
	is_yes(eom("ann", "g1.1.1.1", 2, 1 << 20));
	/* with another one it is not */
	is_yes(rcpt("ann", "g1.1.1.2", "boss@own.example"));
	is_no(rcpt("ann", "g1.1.1.2", "x@x"), REASON_ACCOUNT_MESSAGES, 1, 1);
}

/* Mail servers take one dot off. */
TEST_IN(begin, site_end, an_own_domain_with_a_dot_behind_it_is_free) {
	is_yes(rcpt("ann", "m2.1.1.0", "boss@own.example."));
	assert_int_equal(used("ann"), 0);
	is_yes(rcpt("ann", "m2.1.1.0", "boss@own.example.."));
	is_yes(rcpt("ann", "m2.1.1.0", "boss@."));
	assert_int_equal(used("ann"), 2);
}

/* Postfix sends these on by its defaults: the last domain is not where they go. */
TEST_IN(begin, site_end, an_address_with_a_route_in_its_local_part_is_not_free) {
	static const char *const routed[] = { "them%gmail.example@own.example",
		"\"them@gmail.example\"@own.example", "gmail.example!them@own.example",
		"them@gmail.example@own.example" };

	for (unsigned i = 0; i < 4; i++) {
		is_yes(rcpt("ann", "m1.1.1.0", routed[i]));
		assert_int_equal(used("ann"), i + 1);
	}
	is_yes(rcpt("ann", "m1.1.1.0", "boss@own.example"));
	assert_int_equal(used("ann"), 4);
}

/* In To and in Cc. */
TEST_IN(begin, site_end, postmaster_given_twice_is_not_charged) {
	is_yes(rcpt("ann", "n1.1.1.0", "postmaster@x"));
	is_yes(rcpt("ann", "n1.1.1.0", "postmaster@x"));
	is_yes(eom("ann", "n1.1.1.0", 2, 10));
	assert_int_equal(used("ann"), 0);
}

/* Postfix does not ask at "RCPT TO:<postmaster>"; at the end it says who the only recipient is. */
TEST_IN(begin, site_end, a_message_to_postmaster_alone_that_was_not_asked_about_is_free) {
	struct account_question end_of = { .login = "ann", .instance = "n2.1.1.0", .at_end = true,
		.recipient_count = 1, .recipient = "Postmaster", .size = 100 };

	is_yes(ask(end_of));
	assert_int_equal(used("ann"), 0);
	assert_int_equal(yes_of("ann", "n3.1.1.0", 30), 20);
	is_yes(ask(end_of));
	end_of.instance = "n2.1.1.1";
	is_yes(ask(end_of));
	/* any other one counts */
	end_of.instance = "n2.1.1.2";
	end_of.recipient = "x@x";
	is_no(ask(end_of), REASON_ACCOUNT_RECIPIENTS, 20, 20);
}

/* A milter's session is over for good. */
TEST_IN(begin, site_end, a_session_that_is_over_leaves_no_note) {
	struct account_answer answer;
	uint64_t processes[4];

	is_yes(rcpt("ann", "o1.1.1.0", "x@x"));
	answer = eom("ann", "o1.1.1.0", 1, 10);
	engine_account_process_over(site.engine, answer.process, true, now_ns);
	assert_int_equal(account_mails_before(site.segment, now_ns + HOUR, now_ns + HOUR, processes, 4),
	    0);
	assert_int_equal(used("ann"), 1);
}

static struct account_answer bounce(const char *instance, const char *to) {
	struct account_question question = { .login = "ann", .login_length = 3,
		.recipient = to, .recipient_length = strlen(to), .instance = instance,
		.instance_length = strlen(instance) };
	struct account_answer answer;

	engine_account_ask(site.engine, site.generation, &question, now_ns, &answer);
	return answer;
}

TEST_IN(begin, site_end, bounces_count_where_that_is_configured) {
	unsigned yes = 0;
	char to[32];

	for (unsigned i = 0; i < 30; i++) {
		snprintf(to, sizeof(to), "r%u@x", i);
		yes += bounce("h1.1.1.0", to).verdict == VERDICT_ADMIT;
	}
	assert_int_equal(yes, 30);
	site_reload(&site, ENTRY("bounces = \"count\"; each = { recipients = \"20/1h\"; };"));
	yes = 0;
	for (unsigned i = 0; i < 30; i++) {
		snprintf(to, sizeof(to), "r%u@x", i);
		yes += bounce("h1.1.1.1", to).verdict == VERDICT_ADMIT;
	}
	assert_int_equal(yes, 20);
}

/* --- an end that is asked about by another connection --------------------------------------- */

static struct account_answer end_of(const char *instance, uint32_t count) {
	return eom("ann", instance, count, 10);
}

/* smtpd waits a second for the answer, hangs up and asks again. */
TEST_IN(begin, site_end, an_end_that_is_asked_again_after_a_hangup_counts_once) {
	struct account_answer answer;

	site_reload(&site, ENTRY("each = { recipients = \"5/1h\"; messages = \"1/1h\"; };"));
	assert_int_equal(yes_of("ann", "j1.1.1.0", 3), 3);
	answer = end_of("j1.1.1.0", 3);
	is_yes(answer);
	engine_account_process_over(site.engine, answer.process, false, now_ns);
	is_yes(end_of("j1.1.1.0", 3));
	assert_int_equal(used("ann"), 3);
	/* after some minutes nobody asks any more */
	now_ns += 3 * MINUTE;
	engine_account_mails_turn(site.engine, now_ns);
	assert_int_equal(used("ann"), 3);
}

/* Postern was away at its recipients: the client may come again, when they are asked about. */
TEST_IN(begin, site_end, a_message_whose_recipients_nobody_asked_about_is_put_off_not_bounced) {
	is_no(end_of("k1.1.1.0", 150), REASON_ACCOUNT_RECIPIENTS, 0, 20);
	assert_int_equal(yes_of("ann", "k1.1.1.1", 20), 20);
}

TEST_IN(begin, site_end, forgetting_a_login_forgets_its_networks) {
	struct account_question question = { .login = "ann", .recipient = "x@x", .instance = "l1.1.1.0" };

	site_reload(&site, ENTRY("each = { networks = \"1/1h\"; };"));
	assert_true(address_parse("192.0.2.1", 9, &question.client));
	is_yes(ask(question));
	assert_true(address_parse("198.51.100.1", 12, &question.client));
	question.instance = "l1.1.1.1";
	assert_int_equal(ask(question).reason, REASON_ACCOUNT_NETWORKS);
	assert_true(engine_account_forget(site.engine, "ann", 3, now_ns));
	question.instance = "l1.1.1.2";
	is_yes(ask(question));
}
