/* SPDX-License-Identifier: ISC */
/* The logins that matter most, as the page, the metrics and the verdict have them. */
#include "tests/unit/test.h"

#include "engine/account/accounts.h"
#include "segment/account/accounts.h"
#include "tests/unit/view/metrics_site.h"
#include "view/accounts.h"
#include "view/verdict.h"

#define ACCOUNTS \
	"classes = ();\n" \
	"accounts = ( { name = \"staff\"; match = [ \"*\" ]; each = { recipients = \"10/1h\"; };\n" \
	"  health = {}; } );\n"

static int begin(void **state) {
	return open_viewed(64, ACCOUNTS);
}

static void charge(const char *login, unsigned count) {
	struct account_answer answer;

	for (unsigned i = 0; i < count; i++) {
		static unsigned process;
		char recipient[32], instance[32];
		struct account_question question = { .login = login, .login_length = strlen(login),
			.sender = "a@b", .sender_length = 3, .recipient = recipient,
			.instance = instance };

		question.recipient_length = (size_t)snprintf(recipient, sizeof(recipient),
		    "r%u@x.example", i);
		question.instance_length = (size_t)snprintf(instance, sizeof(instance), "%x.1.1.1",
		    ++process);
		engine_account_ask(site.engine, site.generation, &question, clock_now_ns(),
		    &answer);
	}
}

static void hold(const char *login) {
	struct login_key key = login_key(login, strlen(login));
	struct accounts_held held;

	assert_int_equal(accounts_take(site.segment, &key, NULL, 0, clock_now_ns(), &held),
	    ACCOUNTS_HELD);
	held.account.held_by = 7;
	accounts_put(site.segment, &held, -1, clock_now_ns());
	accounts_release(&held);
}

TEST_IN(begin, close_site, held_ones_first_then_the_fullest) {
	const struct view_accounts_top *top;

	charge("idle", 5);		/* not above half */
	charge("busy", 8);
	charge("full", 12);
	charge("held", 1);
	hold("held");
	scrape();
	top = view_accounts_top(&view);
	assert_non_null(top);
	assert_int_equal(top->count, 3);
	assert_string_equal(top->rows[0].login, "held");
	assert_string_equal(top->rows[1].login, "full");
	assert_int_equal(top->rows[1].used, 10);
	assert_string_equal(top->rows[2].login, "busy");
	assert_int_equal(top->held, 1);
	assert_int_equal(top->full, 1);
	assert_non_null(strstr(text, "\npostern_accounts_held 1\n"));
	assert_non_null(strstr(text, "\npostern_account_held{login=\"held\"} 1\n"));
	assert_non_null(strstr(text, "\npostern_account_used_ratio{login=\"busy\","
	    "what=\"recipients\",window=\"1h\"} 0.800\n"));
	assert_null(strstr(text, "idle"));
}

/* However many there are, accounts_named are named, and all are counted. */
TEST_IN(begin, close_site, a_bounded_number_is_named) {
	const struct view_accounts_top *top;
	unsigned named = 0;
	char login[16];

	for (unsigned i = 0; i < 12; i++) {
		snprintf(login, sizeof(login), "u%03u", i);
		charge(login, 6 + i % 5);
	}
	scrape();
	top = view_accounts_top(&view);
	assert_int_equal(top->count, 12);
	assert_int_equal(top->full, 2);
	for (unsigned i = 1; i < top->count; i++)
		assert_true(top->rows[i - 1].used >= top->rows[i].used);
	for (const char *at = text; (at = strstr(at, "\npostern_account_used_ratio{")) != NULL; at++)
		named++;
	assert_int_equal(named, 10);
}

TEST_IN(begin, close_site, the_verdict_names_who_is_held) {
	struct view_verdict verdict;
	char line[VERDICT_LINE_MAX];

	charge("eve@example.org", 12);
	hold("eve@example.org");
	scrape();
	view_verdict(&view, &verdict);
	assert_non_null(strstr(view_verdict_line(&verdict, " | ", line),
	    "login eve@example.org is held"));
}

/* Of bytes the last ones are never used. */
TEST_IN(begin, close_site, a_login_of_whose_bytes_hardly_any_are_left_is_at_a_limit) {
	struct login_key key = login_key("big", 3);
	const struct quota_limit limit = { 3600, 1000, QUOTA_KIB };
	struct accounts_held held;

	site_reload(&site, "classes = ();\naccounts = ( { name = \"staff\"; match = \"*\";\n"
	    "  each = { bytes = \"1000k/1h\"; }; } );\n");
	charge("big", 1);
	assert_int_equal(accounts_take(site.segment, &key, NULL, 0, clock_now_ns(), &held),
	    ACCOUNTS_HELD);
	(void)quota_prepare(held.account.counters, GENERATION_QUOTA_COUNTERS, &limit, 1);
	quota_add(quota_find(held.account.counters, GENERATION_QUOTA_COUNTERS, &limit), 999,
	    clock_now_ns());
	accounts_put(site.segment, &held, NS_PER_SECOND * 3600, clock_now_ns());
	accounts_release(&held);
	scrape();
	assert_int_equal(view_accounts_top(&view)->full, 1);
}

/* Every login is above half of its limit, and held ones stay, too: another one has no place. */
TEST_IN(begin, close_site, the_verdict_says_that_logins_are_not_limited) {
	struct view_verdict verdict;
	char line[VERDICT_LINE_MAX], login[16];

	for (unsigned i = 0; i < 1000; i++) {
		snprintf(login, sizeof(login), "u%06u", i);
		charge(login, 6);
	}
	scrape();
	view_verdict(&view, &verdict);
	assert_non_null(strstr(view_verdict_line(&verdict, " | ", line), "table of logins full: "));
	/* who fills it */
	assert_string_equal(verdict.parts[0].command, "posternctl accounts");
}

/* So many seconds from now. */
static void show_later(const char *login, bool explain, int64_t seconds) {
	struct writer writer;
	size_t length;
	FILE *out;

	scrape();
	free(text);
	view.status.now_ns += seconds * NS_PER_SECOND;
	out = open_memstream(&text, &length);
	assert_non_null(out);
	writer_init(&writer, out, true);
	assert_true(view_account_write(&view, &writer, login, explain));
	assert_int_equal(fclose(out), 0);
}

static void show(const char *login, bool explain) {
	show_later(login, explain, 0);
}

TEST_IN(begin, close_site, a_login_that_found_no_room_is_shown_as_uncounted) {
	char login[16];

	charge("early", 6);
	show("early", true);
	assert_non_null(strstr(text, "\"uncounted\": false"));
	for (unsigned i = 0; i < 1000; i++) {
		snprintf(login, sizeof(login), "u%06u", i);
		charge(login, 6);
	}
	show("late", false);
	assert_non_null(strstr(text, "\"uncounted\": true"));
	show("late", true);
	assert_non_null(strstr(text, "\"verdict\": \"accept (uncounted)\""));
	/* who is in the table is counted */
	show("early", true);
	assert_non_null(strstr(text, "\"uncounted\": false"));
	assert_non_null(strstr(text, "\"verdict\": \"accept\""));
}

TEST_IN(begin, close_site, a_login_that_is_used_from_one_network_has_one) {
	struct account_question question = { .login = "ann", .login_length = 3, .sender = "a@b",
		.sender_length = 3, .recipient = "r@x", .recipient_length = 3,
		.instance_length = 7 };
	struct account_answer answer;

	site_reload(&site, "classes = ();\naccounts = ( { name = \"staff\"; match = \"*\";\n"
	    "  each = { networks = \"3/1h\"; }; } );\n");
	show("ann", false);
	assert_non_null(strstr(text, "\"networks\": 0,"));
	for (unsigned i = 1; i <= 3; i++) {
		char client[32], wanted[32], instance[32];

		snprintf(instance, sizeof(instance), "1.1.1.%u", i);
		question.instance = instance;
		snprintf(client, sizeof(client), "192.0.%u.1", i);
		snprintf(wanted, sizeof(wanted), "\"networks\": %u,", i);
		assert_true(address_parse(client, strlen(client), &question.client));
		engine_account_ask(site.engine, site.generation, &question, clock_now_ns(), &answer);
		show("ann", false);
		assert_non_null(strstr(text, wanted));
	}
	show_later("ann", false, 7 * 86400);
	assert_non_null(strstr(text, "\"networks\": 0,"));
}

static int begin_observing(void **state) {
	return open_viewed(64, "classes = ();\nobserve = true;\n"
	    "accounts = ( { name = \"staff\"; match = \"*\"; observe = false; } );\n");
}

TEST_IN(begin_observing, close_site, observe_mode_does_not_say_nothing_is_refused_while_accounts_are) {
	struct view_verdict verdict;
	char line[VERDICT_LINE_MAX];

	scrape();
	view_verdict(&view, &verdict);
	assert_string_equal(view_verdict_line(&verdict, " | ", line),
	    "observe mode: sessions and destinations are not limited");
}
