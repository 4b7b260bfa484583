/* SPDX-License-Identifier: ISC */
/* Stolen logins: what the engine does (the law: policy/limit/t_health.c). */
#include <math.h>

#include "tests/unit/test.h"
#include "engine/account/account_health.h"
#include "engine/account/accounts.h"
#include "policy/reply/reply_unknown.h"
#include "segment/decision/decisions.h"
#include "segment/file/internal.h"
#include "tests/unit/random.h"

/* What the log reader does with each result besides. */
#define RESULTS_ALSO(delivery, outcome) \
	do { \
		if (outcome.judgement != NULL && !outcome.repeated) \
			engine_account_result(site.engine, site.generation, 1U << line->mta, delivery, \
			    outcome.judgement, now_ns); \
	} while (0)
#include "tests/unit/engine/feed/results.h"

#define MINUTE	(60 * NS_PER_SECOND)
#define HOUR	(60 * MINUTE)
#define SITE \
	"classes = ();\n" \
	"mta = ( { name = \"postfix\"; log = \"/var/log/mail.log\"; } );\n" \
	"accounts = ( { name = \"staff\"; match = \"*@example.org\";\n" \
	"  each = { recipients = \"1000/1h\"; networks = \"3/1h\"; };\n" \
	"  health = { unknown = \"15/1h\"; failed_percent = 20; of = 20; }; },\n" \
	"  { name = \"told\"; match = \"told*\"; each = { networks = \"3/1h\"; };\n" \
	"    health = { action = \"alert\"; }; },\n" \
	"  { name = \"watched\"; match = \"obs*\"; observe = true; health = {}; },\n" \
	"  { name = \"plain\"; match = \"*\"; each = { networks = \"2/1h\"; }; } );\n"

/* Who asks, and whose log tells. */
static uint8_t asking_listener;
static unsigned telling_mta;
static unsigned trips;
static struct account_trip last_trip;

static void note_trip(const struct generation *generation, const struct account_trip *trip) {
	trips++;
	last_trip = *trip;
}

/* A result, and time enough for those that are told of later: none are. */
static bool settled_line(const struct line *line) {
	bool known = feed_line(line);

	engine_account_suspects_turn(site.engine, site.generation, now_ns + 11 * NS_PER_SECOND);
	return known;
}

static int begin(void **state) {
	site_open(&site, 64, SITE);
	engine_account_listen(site.engine, note_trip);
	now_ns = clock_now_ns();
	trips = 0;
	asking_listener = 0;
	telling_mta = 0;
	return 0;
}

static int end(void **state) {
	site_close(&site);
	return 0;
}

/* --- replies -------------------------------------------------------------------------------- */

static bool is_unknown(const char *text, uint16_t a, uint16_t b, uint16_t c) {
	struct delivery d = { .source = DELIVERY_OF_POSTFIX, .agent = AGENT_SMTP,
		.status = DELIVERY_BOUNCED, .dsn = { a, b, c }, .text = span_of(text) };
	struct reply reply;

	reply_judge(&d, &reply);
	return reply_is_unknown_recipient(&d, &reply);
}

TEST(who_is_unknown) {
	assert_true(is_unknown("host mx.b[192.0.2.1] said: 550 5.1.1 <x@b>: no (in reply to "
	    "RCPT TO command)", 5, 1, 1));
	assert_true(is_unknown("host mx.b[192.0.2.1] said: 550 No such user here (in reply to "
	    "RCPT TO command)", 5, 0, 0));
	assert_true(is_unknown("Host or domain name not found. Name service error for name=b "
	    "type=A: Host not found", 5, 4, 4));
	assert_false(is_unknown("host mx.b[192.0.2.1] said: 554 5.7.1 Spam message rejected "
	    "(in reply to end of DATA command)", 5, 7, 1));
	assert_false(is_unknown("host mx.b[192.0.2.1] said: 552 5.2.2 Mailbox full (in reply to "
	    "RCPT TO command)", 5, 2, 2));
	assert_false(is_unknown("host mx.b[192.0.2.1] said: 550 5.7.1 user unknown to our "
	    "policy (in reply to RCPT TO command)", 5, 7, 1));
}

/* --- the engine ------------------------------------------------------------------------------ */

static struct account_answer ask(const char *login, const char *client, const char *recipient,
    const char *queue_id) {
	static unsigned serial;
	struct account_question q = { .login = login, .login_length = strlen(login),
		.sender = "a@b", .sender_length = 3, .recipient = recipient,
		.listener = asking_listener };
	struct account_answer answer;
	char instance[32];

	if (recipient != NULL)
		serial++;
	snprintf(instance, sizeof(instance), "%x.1.1.%u", serial, serial);
	q.instance = instance;
	q.instance_length = strlen(instance);
	assert_true(address_parse(client, strlen(client), &q.client));
	q.at_end = recipient == NULL;
	q.recipient_length = recipient == NULL ? 0 : strlen(recipient);
	q.recipient_count = recipient == NULL;
	q.size = 1000;
	q.queue_id = queue_id;
	q.queue_id_length = queue_id == NULL ? 0 : strlen(queue_id);
	engine_account_ask(site.engine, site.generation, &q, now_ns, &answer);
	return answer;
}

/* One message to one recipient: what its RCPT was answered. */
static struct account_answer mail(const char *login, const char *client, const char *queue_id) {
	struct account_answer answer = ask(login, client, "r@x.example", NULL);

	if (answer.verdict == VERDICT_ADMIT)
		(void)ask(login, client, NULL, queue_id);
	return answer;
}

static struct line line_of(const char *queue_id, unsigned number, bool unknown) {
	static char to[32];

	snprintf(to, sizeof(to), "u%u@x.example", number);
	return (struct line){ .domain = "x.example", .relay_name = "mx.x.example",
		.relay = "192.0.2.1", .queue_id = queue_id, .recipient = to, .mta = telling_mta,
		.status = unknown ? DELIVERY_BOUNCED : DELIVERY_SENT,
		.text = unknown ? "host mx.x.example[192.0.2.1] said: 550 5.1.1 User unknown "
		    "(in reply to RCPT TO command)" : accepted, .dsn = unknown ? 5 : 2 };
}

static void result(const char *queue_id, unsigned number, bool unknown) {
	struct line line = line_of(queue_id, number, unknown);

	(void)settled_line(&line);
}

/* Nobody is judged for it yet. */
static void refused_line(const char *queue_id, unsigned number) {
	struct line line = line_of(queue_id, number, true);

	(void)feed_line(&line);
}

TEST_IN(begin, end, a_stolen_login_is_held) {
	struct account_answer answer;
	struct account account;
	struct login_key key = login_key("eve@example.org", 15);
	struct decided decided;

	for (unsigned i = 0; i < 40 && trips == 0; i++) {
		char id[16];

		snprintf(id, sizeof(id), "4A%04X", i);
		assert_int_equal(mail("Eve@Example.org", "192.0.2.7", id).verdict, VERDICT_ADMIT);
		snprintf(id, sizeof(id), "4B%04X", i);
		assert_int_equal(mail("bob@example.org", "192.0.2.7", id).verdict, VERDICT_ADMIT);
		result(id, i, false);
		snprintf(id, sizeof(id), "4A%04X", i);
		result(id, i, i % 2 == 0);
	}
	assert_int_equal(trips, 1);
	assert_true(last_trip.is_held && last_trip.counts.unknown == 15);
	answer = mail("eve@example.org", "192.0.2.7", "4C0001");
	assert_int_equal(answer.verdict, VERDICT_DEFER);
	assert_int_equal(answer.reason, REASON_ACCOUNT_HELD);
	assert_true(answer.held_by == last_trip.id);
	assert_true(decisions_find(site.segment, answer.id, &decided));
	assert_true(decided.cause == last_trip.id);
	assert_int_equal(ask("eve@example.org", "192.0.2.7", "postmaster@x", NULL).verdict,
	    VERDICT_ADMIT);
	assert_int_equal(mail("bob@example.org", "192.0.2.7", "4C0002").verdict, VERDICT_ADMIT);
	/* it survives the death of all */
	site_restart(&site, 64, SITE);
	assert_int_equal(mail("eve@example.org", "192.0.2.7", "4C0003").verdict, VERDICT_DEFER);
	assert_true(accounts_find(site.segment, &key, &account));
	assert_true(account.held_by == last_trip.id);
	/* resumed, it begins anew */
	assert_true(engine_account_resume(site.engine, "EVE@example.org", 15, now_ns));
	assert_false(engine_account_resume(site.engine, "eve@example.org", 15, now_ns));
	assert_int_equal(mail("eve@example.org", "192.0.2.7", "4C0004").verdict, VERDICT_ADMIT);
	result("4C0004", 900, true);
	assert_int_equal(mail("eve@example.org", "192.0.2.7", "4C0005").verdict, VERDICT_ADMIT);
}

/* Lines about queue IDs that nobody asked about, or that another message had before, blame
 * nobody. */
TEST_IN(begin, end, forged_lines_blame_nobody) {
	(void)mail("eve@example.org", "192.0.2.7", "4D0001");
	for (unsigned i = 0; i < 100; i++) {
		char id[16];

		snprintf(id, sizeof(id), "4E%04X", i);
		result(id, i, true);
	}
	assert_int_equal(trips, 0);
	engine_account_removed(site.engine, site.generation, 0, "4D0001", 6, now_ns);
	for (unsigned i = 0; i < 100; i++)
		result("4D0001", i, true);
	assert_int_equal(trips, 0);
	/* nor what is no queue ID */
	(void)mail("eve@example.org", "192.0.2.7", "a queue ID that is much too long to be one");
	(void)mail("eve@example.org", "192.0.2.7", "4D\n001");
	assert_int_equal(mail("eve@example.org", "192.0.2.7", "4D0002").verdict, VERDICT_ADMIT);
}

TEST_IN(begin, end, told_once_and_observed) {
	for (unsigned i = 0; i < 60; i++) {
		char id[16];

		snprintf(id, sizeof(id), "4F%04X", i);
		assert_int_equal(mail("told", "192.0.2.7", id).verdict, VERDICT_ADMIT);
		result(id, i, true);
	}
	assert_int_equal(trips, 1);
	assert_false(last_trip.is_held);
	now_ns += 66 * MINUTE;
	for (unsigned i = 0; i < 60; i++) {
		char id[16];

		snprintf(id, sizeof(id), "50%04X", i);
		assert_int_equal(mail("obs", "192.0.2.7", id).verdict, VERDICT_ADMIT);
		result(id, i, true);
	}
	assert_int_equal(trips, 2);
	assert_true(last_trip.observed && !last_trip.is_held);
}

TEST_IN(begin, end, too_many_networks) {
	char client[32];

	for (unsigned i = 0; i < 3; i++) {
		snprintf(client, sizeof(client), "192.0.%u.7", i);
		for (unsigned j = 0; j < 2; j++)
			assert_int_equal(mail("eve@example.org", client, "510001").verdict,
			    VERDICT_ADMIT);
	}
	/* the same networks */
	assert_int_equal(mail("eve@example.org", "192.0.1.200", "510002").verdict, VERDICT_ADMIT);
	assert_int_equal(trips, 0);
	assert_int_equal(mail("eve@example.org", "2001:db8:1::1", "510003").verdict,
	    VERDICT_DEFER);
	assert_int_equal(trips, 1);
	assert_int_equal(last_trip.verdict, HEALTH_NETWORKS);
	/* where only a limit says so: that network alone */
	assert_int_equal(mail("zoe", "192.0.1.1", "520001").verdict, VERDICT_ADMIT);
	assert_int_equal(mail("zoe", "192.0.2.1", "520002").verdict, VERDICT_ADMIT);
	assert_int_equal(mail("zoe", "192.0.3.1", "520003").reason, REASON_ACCOUNT_NETWORKS);
	assert_int_equal(mail("zoe", "192.0.2.1", "520004").verdict, VERDICT_ADMIT);
	now_ns += 66 * MINUTE;
	assert_int_equal(mail("zoe", "192.0.3.1", "520005").verdict, VERDICT_ADMIT);
	assert_int_equal(trips, 1);
}

static bool find_queued(uint32_t mta, const char *id, struct login_key *key) {
	struct account_queued queued;

	if (!account_queued_find(site.segment, mta, id, strlen(id), &queued))
		return false;
	memcpy(key->words, queued.login, sizeof(key->words));
	return true;
}

static bool is_queued(const char *id, const char *mta, struct login_key *key) {
	return find_queued(account_queued_mta(mta), id, key);
}

/* Two Postfix: "postfix" asks at listener 0, "other" at listener 1, nobody knows who at 2. */
#define TWO_SERVERS \
	"classes = ();\n" \
	"mta = ( { name = \"other\"; log = \"/var/log/other.log\"; },\n" \
	"  { name = \"postfix\"; log = \"/var/log/mail.log\"; } );\n" \
	"accounts = ( { name = \"staff\"; match = \"*\"; each = { recipients = \"1000/1h\"; };\n" \
	"  health = { unknown = \"15/1h\"; failed_percent = 20; of = 20; }; } );\n"

enum { OTHER_MTA, POSTFIX_MTA };

static int begin_two(void **state) {
	int failed = begin(state);

	site_close(&site);
	site_policy_settings = "mta = \"postfix\";";
	site_lease_settings = "mta = \"other\";";
	site_open(&site, 64, TWO_SERVERS);
	site_policy_settings = site_lease_settings = "";
	engine_account_listen(site.engine, note_trip);
	return failed;
}

/* At `first` and then at `second` a login ends a message whose queue ID is the same. */
static void two_messages(uint8_t first, const char *its, uint8_t second, const char *other) {
	asking_listener = first;
	(void)mail(its, "192.0.2.7", "540001");
	asking_listener = second;
	(void)mail(other, "192.0.2.7", "540001");
}

static void many_refused(unsigned mta, const char *login) {
	trips = 0;
	telling_mta = mta;
	for (unsigned i = 0; i < 100 && trips == 0; i++)
		result("540001", i, true);
	assert_int_equal(trips, login != NULL);
	if (login != NULL)
		assert_string_equal(last_trip.login, login);
}

TEST_IN(begin_two, end, one_queue_id_in_two_mail_servers_blames_the_right_login) {
	two_messages(0, "eve", 1, "bob");
	many_refused(OTHER_MTA, "bob");
	many_refused(POSTFIX_MTA, "eve");
}

TEST_IN(begin_two, end, whichever_asks_or_tells_first) {
	struct login_key key;

	two_messages(1, "bob", 0, "eve");
	many_refused(POSTFIX_MTA, "eve");
	assert_true(is_queued("540001", "other", &key));
	engine_account_removed(site.engine, site.generation, POSTFIX_MTA, "540001", 6, now_ns);
	assert_false(is_queued("540001", "postfix", &key));
	assert_true(is_queued("540001", "other", &key));
	many_refused(POSTFIX_MTA, NULL);
	many_refused(OTHER_MTA, "bob");
}

/* Only eve's server asked: the same ID in the log of the other one is somebody else's. */
TEST_IN(begin_two, end, results_of_a_server_that_did_not_ask_blame_nobody) {
	asking_listener = 0;
	(void)mail("eve", "192.0.2.7", "540001");
	many_refused(OTHER_MTA, NULL);
	many_refused(POSTFIX_MTA, "eve");
}

TEST_IN(begin_two, end, a_listener_of_one_or_the_other_server_blames_nobody) {
	struct login_key key;

	asking_listener = 2;
	(void)mail("eve", "192.0.2.7", "540001");
	assert_false(is_queued("540001", "postfix", &key));
	assert_false(is_queued("540001", "other", &key));
	many_refused(OTHER_MTA, NULL);
	many_refused(POSTFIX_MTA, NULL);
}

static bool is_behind_filter(const char *id, struct login_key *key) {
	return find_queued(ACCOUNT_QUEUED_ANY, id, key);
}

/* What a filter on loopback queued again is the login's; what a remote says is not believed. */
TEST_IN(begin, end, filters_are_followed) {
	struct login_key key, eve = login_key("eve@example.org", 15);
	struct line line = { .domain = "x.example", .relay_name = "filter", .relay = "127.0.0.1",
		.port = 10024, .queue_id = "530001", .status = DELIVERY_SENT,
		.text = "250 2.0.0 from MTA(smtp:[127.0.0.1]:10025): 250 2.0.0 Ok: queued as "
		    "530002", .dsn = 2 };

	(void)mail("eve@example.org", "192.0.2.7", "530001");
	(void)settled_line(&line);
	assert_true(is_behind_filter("530002", &key));
	assert_memory_equal(&key, &eve, sizeof(key));
	line.relay = "192.0.2.1";
	line.port = 25;
	line.text = "250 2.0.0 Ok: queued as 530003";
	(void)settled_line(&line);
	assert_false(is_behind_filter("530003", &key));
	(void)settled_line(&(struct line){ .domain = "x.example", .relay_name = "mx.x.example",
		.relay = "192.0.2.1", .queue_id = "530002", .status = DELIVERY_SENT,
		.text = accepted, .dsn = 2 });
	assert_false(is_behind_filter("530002", &key));
	assert_true(is_queued("530002", "postfix", &key));
	assert_memory_equal(&key, &eve, sizeof(key));
	engine_account_removed(site.engine, site.generation, 0, "530001", 6, now_ns);
	assert_false(is_queued("530001", "postfix", &key));
}

/* One Postfix takes submissions, its filter hands them to another one, which delivers. */
TEST_IN(begin_two, end, a_filter_between_two_mail_servers_is_followed) {
	struct line line = { .domain = "x.example", .relay_name = "filter", .relay = "127.0.0.1",
		.port = 10024, .queue_id = "550001", .status = DELIVERY_SENT, .mta = POSTFIX_MTA,
		.text = "250 2.0.0 Ok: queued as 540001", .dsn = 2 };
	struct login_key key;

	asking_listener = 0;
	(void)mail("eve", "192.0.2.7", "550001");
	(void)settled_line(&line);
	assert_true(is_behind_filter("540001", &key));
	many_refused(OTHER_MTA, "eve");
	/* it is of that one from now on */
	assert_false(is_behind_filter("540001", &key));
	many_refused(POSTFIX_MTA, NULL);
}

TEST_IN(begin_two, end, a_message_behind_a_filter_that_leaves_untried_is_forgotten) {
	struct login_key eve = login_key("eve", 3), key;

	assert_true(account_queued_note(site.segment, ACCOUNT_QUEUED_ANY, "540001", 6, &eve, 0,
	    now_ns));
	engine_account_removed(site.engine, site.generation, OTHER_MTA, "540001", 6, now_ns);
	assert_false(is_behind_filter("540001", &key));
	many_refused(OTHER_MTA, NULL);
}

/* Postfix: six letters of seconds, four of microseconds, z, and up to twelve of the inode. */
TEST_IN(begin, end, the_longest_queue_id_is_followed) {
	static const char longest[] = "4ZQbcdFGHJzKLMNPQRSTVWX";
	struct login_key key;

	assert_int_equal(strlen(longest), 23);
	(void)mail("eve@example.org", "192.0.2.7", longest);
	assert_true(is_queued(longest, "postfix", &key));
}

static void event_refused(unsigned mtas) {
	static char to[32];
	struct judgement judgement = { .mta = OTHER_MTA,
		.reply = { .class = RESULT_PERMANENT } };
	struct delivery delivery = { .source = DELIVERY_OF_OTHER, .status = DELIVERY_BOUNCED,
		.queue_id = span_of("540001"), .text = span_of("550 5.1.1 User unknown"),
		.reply = span_of("550 5.1.1 User unknown"), .dsn = { 5, 1, 1 }, .recipients = 1 };

	trips = 0;
	for (unsigned i = 0; i < 100; i++) {
		snprintf(to, sizeof(to), "u%u@x.example", i);
		delivery.recipient = span_of(to);
		engine_account_result(site.engine, site.generation, mtas, &delivery, &judgement,
		    now_ns);
	}
	engine_account_suspects_turn(site.engine, site.generation, now_ns + 11 * NS_PER_SECOND);
}

/* Such an event is judged by the first mail server's settings; its queue ID could be anyone's. */
TEST_IN(begin_two, end, an_event_that_names_no_mail_server_blames_nobody) {
	struct login_key key;

	asking_listener = 1;
	(void)mail("bob", "192.0.2.7", "540001");
	assert_true(is_queued("540001", "other", &key));
	event_refused(UINT32_MAX);
	assert_int_equal(trips, 0);
	event_refused(1U << OTHER_MTA);
	assert_int_equal(trips, 1);
}

/* The filter hands it in with a login of its own: the message is the sender's all the same. */
TEST_IN(begin_two, end, a_filter_with_a_login_is_not_blamed) {
	struct login_key relay = login_key("relay", 5), eve = login_key("eve", 3), key;

	assert_true(account_queued_note(site.segment, account_queued_mta("other"), "540001", 6,
	    &relay, 1, now_ns));
	assert_true(account_queued_note(site.segment, ACCOUNT_QUEUED_ANY, "540001", 6, &eve, 0,
	    now_ns));
	telling_mta = OTHER_MTA;
	result("540001", 1, true);
	assert_true(is_queued("540001", "other", &key));
	assert_memory_equal(&key, &eve, sizeof(key));
	/* but a message that got the ID later is its own */
	assert_true(account_queued_note(site.segment, ACCOUNT_QUEUED_ANY, "540001", 6, &eve, 0,
	    now_ns));
	now_ns += NS_PER_SECOND;
	assert_true(account_queued_note(site.segment, account_queued_mta("other"), "540001", 6,
	    &relay, 1, now_ns));
	result("540001", 2, true);
	assert_true(is_queued("540001", "other", &key));
	assert_memory_equal(&key, &relay, sizeof(key));
}

/* Among so many names some have the bucket and the tag of others: the whole key decides. */
TEST_IN(begin, end, one_queue_id_of_many_mail_servers_is_never_another_ones) {
	enum { NOTED = 2000, ASKED = 60000 };
	struct login_key login = login_key("eve", 3), key;

	for (uint32_t mta = 1; mta <= NOTED; mta++)
		(void)account_queued_note(site.segment, mta, "540001", 6, &login, 1, now_ns);
	for (uint32_t mta = NOTED + 1; mta <= NOTED + ASKED; mta++)
		assert_false(find_queued(mta, "540001", &key));
}

/* 20 of 220 are 9 %, where 20 % is too much. */
TEST_IN(begin, end, a_login_is_not_held_for_the_first_failures_after_many_deliveries) {
	for (unsigned i = 0; i < 220; i++) {
		char id[16];

		snprintf(id, sizeof(id), "56%04X", i);
		(void)mail("eve@example.org", "192.0.2.7", id);
		result(id, i, i >= 200);
	}
	assert_int_equal(trips, 0);
	/* 50 of 250 are 20 % */
	for (unsigned i = 220; i < 275; i++) {
		char id[16];

		snprintf(id, sizeof(id), "56%04X", i);
		(void)mail("eve@example.org", "192.0.2.7", id);
		result(id, i, true);
	}
	assert_int_equal(trips, 1);
	assert_true(fabs(last_trip.counts.results - 250) < 1 &&
	    fabs(last_trip.counts.failed - 50) < 1);
}

#define TIGHT "classes = ();\naccounts = ( { name = \"all\"; match = \"*\"; " \
	"each = { recipients = \"2/1h\"; }; health = {}; } );\n"

/* All are at their limit, and the table has room for a tenth of them. */
TEST(a_held_login_is_carried_into_a_smaller_table) {
	struct login_key zoe = login_key("zoe", 3);
	struct accounts_held held;
	struct account account;

	site_accounts = "2k";
	site_open(&site, 64, TIGHT);
	now_ns = clock_now_ns();
	for (unsigned i = 0; i < 640; i++) {
		char name[16];

		snprintf(name, sizeof(name), "u%u", i);
		(void)mail(name, "192.0.2.7", "570001");
		(void)mail(name, "192.0.2.7", "570002");
	}
	(void)mail("zoe", "192.0.2.7", "570003");
	assert_int_equal(accounts_take(site.segment, &zoe, NULL, 0, now_ns, &held), ACCOUNTS_HELD);
	held.account.held_by = 42;
	accounts_put(site.segment, &held, -1, now_ns);
	accounts_release(&held);
	site_accounts = "64";
	site_restart(&site, 64, TIGHT);
	assert_true(accounts_find(site.segment, &zoe, &account));
	assert_int_equal(account.held_by, 42);
	site_close(&site);
}

static void hold_eve(void) {
	for (unsigned i = 0; i < 40 && trips == 0; i++) {
		char id[16];

		snprintf(id, sizeof(id), "58%04X", i);
		(void)mail("eve@example.org", "192.0.2.7", id);
		result(id, i, i % 2 == 0);
	}
	assert_int_equal(trips, 1);
}

static struct account_answer bounce(const char *recipient) {
	struct account_question q = { .login = "eve@example.org", .login_length = 15,
		.recipient = recipient, .recipient_length = strlen(recipient),
		.instance = "b.1.1.1", .instance_length = 7 };
	struct account_answer answer;

	engine_account_ask(site.engine, site.generation, &q, now_ns, &answer);
	return answer;
}

TEST_IN(begin, end, a_held_login_cannot_send_with_an_empty_sender) {
	assert_int_equal(bounce("r@x.example").verdict, VERDICT_ADMIT);
	hold_eve();
	assert_int_equal(bounce("r@x.example").reason, REASON_ACCOUNT_HELD);
	assert_int_equal(bounce("r@x.example").verdict, VERDICT_DEFER);
	assert_int_equal(bounce("postmaster@x.example").verdict, VERDICT_ADMIT);
}

TEST_IN(begin, end, a_held_login_reaches_its_postmaster_to_the_end_of_the_message) {
	hold_eve();
	assert_int_equal(ask("eve@example.org", "192.0.2.7", "postmaster@x.example", NULL).verdict,
	    VERDICT_ADMIT);
	assert_int_equal(ask("eve@example.org", "192.0.2.7", NULL, "590001").verdict,
	    VERDICT_ADMIT);
	/* not with others beside */
	assert_int_equal(mail("eve@example.org", "192.0.2.7", "590002").verdict, VERDICT_DEFER);
}

/* A list of which 3 of 10 are unknown, by a filter: each recipient counts once. */
TEST_IN(begin, end, a_thief_behind_a_filter_is_held) {
	for (unsigned i = 0; i < 100; i++) {
		char id[16], behind[16], text[64];
		struct line line = { .domain = "x.example", .relay_name = "filter",
			.relay = "127.0.0.1", .port = 10024, .queue_id = id, .text = text,
			.status = DELIVERY_SENT, .dsn = 2 };

		snprintf(id, sizeof(id), "5A%04X", i);
		snprintf(behind, sizeof(behind), "5B%04X", i);
		snprintf(text, sizeof(text), "250 2.0.0 Ok: queued as %s", behind);
		(void)mail("eve@example.org", "192.0.2.7", id);
		(void)settled_line(&line);
		result(behind, i, i % 10 < 3);
	}
	/* 30 of 100, where 30 of 200 would be less than a fifth */
	assert_int_equal(trips, 1);
	assert_true(last_trip.counts.failed / last_trip.counts.results > 0.25);
}

/* A relay on loopback of whose queue no log tells: what it took was sent. */
TEST_IN(begin, end, a_relay_on_loopback_that_is_not_read_counts) {
	struct login_key eve = login_key("eve@example.org", 15);
	struct account_health health;

	for (unsigned i = 0; i < 100; i++) {
		char id[16], text[64];

		snprintf(id, sizeof(id), "5C%04X", i);
		snprintf(text, sizeof(text), "250 2.0.0 Ok: queued as 5D%04X", i);
		(void)mail("eve@example.org", "192.0.2.7", id);
		(void)settled_line(&(struct line){ .domain = "x.example", .relay_name = "tunnel",
			.relay = "127.0.0.1", .port = 10024, .queue_id = id, .text = text,
			.status = DELIVERY_SENT, .dsn = 2 });
	}
	assert_true(account_health_find(site.segment, &eve, &health));
	assert_true(health.health.results > 99);
}

#define TOLD_THEN_HELD(action) "classes = ();\n" \
	"mta = ( { name = \"postfix\"; log = \"/var/log/mail.log\"; } );\n" \
	"accounts = ( { name = \"staff\"; match = \"*@example.org\"; " \
	"health = { unknown = \"15/1h\"; failed_percent = 20; of = 20; " action " }; } );\n"

TEST_IN(begin, end, after_an_alert_a_reload_to_hold_holds) {
	site_reload(&site, TOLD_THEN_HELD("action = \"alert\";"));
	hold_eve();
	assert_false(last_trip.is_held);
	site_reload(&site, TOLD_THEN_HELD(""));
	(void)mail("eve@example.org", "192.0.2.7", "5E0001");
	result("5E0001", 500, true);
	assert_int_equal(trips, 2);
	assert_true(last_trip.is_held);
}

/* Resuming it is the administrator's, whatever else changes. */
TEST_IN(begin, end, a_held_login_stays_held_when_the_action_becomes_alert) {
	hold_eve();
	site_reload(&site, "classes = ();\n"
	    "mta = ( { name = \"postfix\"; log = \"/var/log/mail.log\"; } );\n"
	    "accounts = ( { name = \"staff\"; match = \"*@example.org\"; free = \"own.example\";\n"
	    "  health = { action = \"alert\"; }; } );\n");
	assert_int_equal(mail("eve@example.org", "192.0.2.7", "5E1001").verdict, VERDICT_DEFER);
	assert_int_equal(ask("eve@example.org", "192.0.2.7", "u@own.example", NULL).verdict,
	    VERDICT_DEFER);
}

/* Its quota is something else. */
TEST_IN(begin, end, forgetting_the_counts_of_a_held_login_does_not_resume_it) {
	struct account_health health;
	struct login_key eve = login_key("eve@example.org", 15);

	hold_eve();
	assert_true(engine_account_forget(site.engine, "eve@example.org", 15, now_ns));
	assert_int_equal(mail("eve@example.org", "192.0.2.7", "5E2001").verdict, VERDICT_DEFER);
	assert_true(account_health_find(site.segment, &eve, &health));
}

static const char *const clients[] = { "192.0.2.7", "198.51.100.7", "203.0.113.7" };

/* Its end is asked about without a look at the network: that is not let in by it. */
TEST_IN(begin, end, a_bounce_does_not_let_its_network_in) {
	struct account_question question = { .login = "zoe", .login_length = 3, .queue_id = "5E6001",
		.queue_id_length = 6, .at_end = true, .recipient_count = 1 };
	struct account_answer answer;

	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(mail("zoe", clients[i], "5E6000").verdict, VERDICT_ADMIT);
	assert_true(address_parse(clients[2], strlen(clients[2]), &question.client));
	engine_account_ask(site.engine, site.generation, &question, now_ns, &answer);
	assert_int_equal(mail("zoe", clients[2], "5E6002").reason, REASON_ACCOUNT_NETWORKS);
}

/* Each login that sends has results; there is room for those of few. */
TEST_IN(begin, end, networks_outlive_the_results_of_logins_that_only_send) {
	site_accounts = "4k";
	site_restart(&site, 64, SITE);
	site_accounts = "64";
	engine_account_listen(site.engine, note_trip);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(mail("eve@example.org", clients[i], "5E4001").verdict, VERDICT_ADMIT);
	for (unsigned i = 0; i < 1000; i++) {
		char login[32], id[16];

		now_ns += NS_PER_SECOND / 10;
		snprintf(login, sizeof(login), "u%u@example.org", i);
		snprintf(id, sizeof(id), "5E5%03X", i);
		(void)mail(login, "192.0.2.7", id);
		result(id, i, false);
	}
	assert_true(atomic_load(&site.segment->header->counters[COUNTER_ACCOUNT_HEALTHS_EVICTED]) >
	    0);
	(void)mail("eve@example.org", "192.88.99.7", "5E4002");
	assert_int_equal(trips, 1);
}

/* Whoever asked last was refused: it is not the owner's. */
TEST_IN(begin, end, a_resumed_login_is_not_held_by_the_network_of_the_thief) {
	hold_eve();
	(void)mail("eve@example.org", "192.88.99.66", "5E3001");
	assert_true(engine_account_resume(site.engine, "eve@example.org", 15, now_ns));
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(mail("eve@example.org", clients[i], "5E3002").verdict, VERDICT_ADMIT);
}

/* Three are allowed; without health a fourth is refused, and only that one. */
TEST_IN(begin, end, a_network_that_is_refused_does_not_shut_out_those_before) {
	site_reload(&site, "classes = ();\naccounts = ( { name = \"a\"; match = \"*\";\n"
	    "  each = { networks = \"3/1h\"; }; } );\n");
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 3; i++)
			assert_int_equal(mail("zoe", clients[i], "5F1001").verdict, VERDICT_ADMIT);
		assert_int_equal(mail("zoe", "192.88.99.7", "5F1002").verdict, VERDICT_DEFER);
	}
}

TEST_IN(begin, end, one_mailbox_written_in_two_ways_is_one_unknown_recipient) {
	struct login_key eve = login_key("eve@example.org", 15);
	struct account_health health;
	struct line line = { .domain = "x.example", .relay_name = "mx.x.example",
		.relay = "192.0.2.1", .queue_id = "5F2001", .status = DELIVERY_BOUNCED,
		.text = "host mx.x.example[192.0.2.1] said: 550 5.1.1 User unknown "
		    "(in reply to RCPT TO command)", .dsn = 5 };

	(void)mail("eve@example.org", "192.0.2.7", "5F2001");
	line.recipient = "Bob@x.example";
	(void)settled_line(&line);
	line.recipient = "bob@X.example";
	(void)settled_line(&line);
	assert_true(account_health_find(site.segment, &eve, &health));
	assert_int_equal(distinct_count(&health.health.unknown, 3600, now_ns), 1);
}

/* Of a long one only a part is kept. */
TEST_IN(begin, end, a_login_longer_than_its_place_is_held) {
	static const char login[] = "averylongusernamethatsomebodyonceinventedforatestofgreatlength@"
	    "example.org";

	assert_true(strlen(login) > ACCOUNT_NAME_MAX);
	for (unsigned i = 0; i < 40 && trips == 0; i++) {
		char id[16];

		snprintf(id, sizeof(id), "5B%04X", i);
		(void)mail(login, "192.0.2.7", id);
		result(id, i, i % 2 == 0);
	}
	assert_int_equal(trips, 1);
	assert_string_equal(generation_text(site.generation, last_trip.account->name), "staff");
	assert_int_equal(mail(login, "192.0.2.7", "5B1001").verdict, VERDICT_DEFER);
	/* its entry is known by a name: after a reload without that by none */
	assert_true(engine_account_resume(site.engine, login, strlen(login), now_ns));
	assert_int_equal(mail(login, "192.0.2.7", "5B1002").verdict, VERDICT_ADMIT);
	site_reload(&site, "classes = ();\n"
	    "mta = ( { name = \"postfix\"; log = \"/var/log/mail.log\"; } );\n"
	    "accounts = ( { name = \"new\"; match = \"*\"; health = {}; } );\n");
	for (unsigned i = 0; i < 40; i++)
		result("5B1002", i, true);
	assert_int_equal(trips, 1);
	assert_int_equal(mail(login, "192.0.2.7", "5B1003").verdict, VERDICT_ADMIT);
}

/* Home a week ago, the office today. */
TEST_IN(begin, end, a_network_of_last_week_does_not_count) {
	for (unsigned i = 0; i < 3; i++) {
		char client[32];

		snprintf(client, sizeof(client), "192.0.%u.7", i);
		assert_int_equal(mail("zoe", client, "5F0001").verdict,
		    i < 2 ? VERDICT_ADMIT : VERDICT_DEFER);
	}
	assert_int_equal(mail("amy", "192.0.1.7", "5F0002").verdict, VERDICT_ADMIT);
	now_ns += 7 * 24 * HOUR;
	assert_int_equal(mail("amy", "192.0.2.7", "5F0003").verdict, VERDICT_ADMIT);
	assert_int_equal(mail("amy", "192.0.3.7", "5F0004").verdict, VERDICT_ADMIT);
	assert_int_equal(mail("amy", "192.0.4.7", "5F0005").verdict, VERDICT_DEFER);
}

/* Alerts are put off in the time of the state file, which another one counts from its own. */
TEST_IN(begin, end, an_alert_is_not_put_off_longer_by_a_new_state_file) {
	const uint64_t far_ds = 1000000;
	struct login_key told = login_key("told", 4);
	struct account_health_held held;
	struct account_health health;
	int64_t older_ns = site.segment->header->created_ns / 2;
	uint64_t older_ds = (uint64_t)older_ns / (NS_PER_SECOND / 10);

	(void)mail("told", "192.0.2.7", "600001");
	assert_true(account_health_take(site.segment, &told, true, now_ns, &held));
	held.health.alerted_ds = far_ds;
	account_health_put(site.segment, &held, now_ns);
	account_health_release(&held);
	site.segment->header->created_ns -= older_ns;
	site_accounts = "1k";
	site_restart(&site, 64, SITE);
	site_accounts = "64";
	assert_true(account_health_find(site.segment, &told, &health));
	assert_in_range(health.alerted_ds + older_ds, far_ds - 600, far_ds + 1);
}

/* Whose first look it is does not know what the one before had in mind. */
TEST_IN(begin, end, a_login_that_looked_stolen_before_a_restart_is_held_after_it) {
	for (unsigned i = 0; i < 40; i++) {
		char id[16];

		snprintf(id, sizeof(id), "58%04X", i);
		(void)mail("eve@example.org", "192.0.2.7", id);
		(void)mail("bob@example.org", "192.0.2.7", "590001");
		refused_line(id, i);
	}
	assert_int_equal(trips, 0);
	site_restart(&site, 64, SITE);
	engine_account_listen(site.engine, note_trip);
	engine_account_suspects_turn(site.engine, site.generation, now_ns);
	assert_int_equal(trips, 0);
	engine_account_suspects_turn(site.engine, site.generation, now_ns + 11 * NS_PER_SECOND);
	assert_int_equal(trips, 1);
	assert_string_equal(last_trip.login, "eve@example.org");
	assert_int_equal(mail("eve@example.org", "192.0.2.7", "580100").verdict, VERDICT_DEFER);
	/* who is held is not held again */
	site_restart(&site, 64, SITE);
	engine_account_listen(site.engine, note_trip);
	engine_account_suspects_turn(site.engine, site.generation, now_ns);
	engine_account_suspects_turn(site.engine, site.generation, now_ns + 11 * NS_PER_SECOND);
	assert_int_equal(trips, 1);
}

static int begin_large(void **state) {
	site_accounts = "64k";
	return begin(state);
}

static int end_large(void **state) {
	site_accounts = "64";
	return end(state);
}

/* More than there is room to remember are judged at once. */
TEST_IN(begin_large, end_large, each_of_many_that_looked_stolen_before_a_restart_is_held) {
	enum { MANY = 200 };

	for (unsigned i = 0; i < 20 * MANY; i++) {
		char id[16], login[32];

		snprintf(id, sizeof(id), "5A%04X", i);
		snprintf(login, sizeof(login), "eve%u@example.org", i % MANY);
		(void)mail(login, "192.0.2.7", id);
		refused_line(id, i);
	}
	trips = 0;
	site_restart(&site, 64, SITE);
	engine_account_listen(site.engine, note_trip);
	for (unsigned i = 0; i < MANY; i++) {
		char login[32];
		struct accounts_held held;
		struct login_key key;

		snprintf(login, sizeof(login), "eve%u@example.org", i);
		key = login_key(login, strlen(login));
		if (accounts_take(site.segment, &key, NULL, 0, now_ns, &held) != ACCOUNTS_HELD)
			continue;
		held.account.held_by = 0;
		accounts_put(site.segment, &held, -1, now_ns);
		accounts_release(&held);
	}
	engine_account_suspects_turn(site.engine, site.generation, now_ns);
	engine_account_suspects_turn(site.engine, site.generation, now_ns + 11 * NS_PER_SECOND);
	assert_int_equal(trips, MANY);
}
