/* SPDX-License-Identifier: ISC */
/* Accounts of the configuration, and the file of overrides: what becomes of them, and the
 * mistakes in them. */
#include "tests/unit/test.h"
#include "base/account_text.h"
#include "base/login.h"
#include "tests/unit/config/compiled.h"

#define MAIN "version = 1; classes = ();\n"
#define STAFF "accounts = ( { name = \"staff\"; match = [ \"*@example.org\", \"Alice\" ];\n" \
	"each = { recipients = [ \"100/1h\", \"500/1d\" ]; bytes = \"1G/1d\";\n" \
	"         recipients_per_message = 50; };\n" \
	"all = { recipients = [ \"5000/1h\" ]; };\n" \
	"new = { recipients = \"30/1h\"; for = \"2d\"; };\n" \
	"free = [ \"*.example.org\", \"local.example\" ]; },\n" \
	"{ name = \"rest\"; match = \"*\"; action = \"reject\"; observe = true;\n" \
	"  each = { messages = \"10/m\"; }; } );\n"

static struct generation *compile(const char *text, const char *overrides, size_t length) {
	return compiled(config_compile_accounts(text, "main", overrides, length, fresh_messages()));
}

static struct generation *compile_good(const char *text, const char *overrides) {
	return compiled_well(config_compile_accounts(text, "main", overrides,
	    overrides ? strlen(overrides) : 0, fresh_messages()));
}

/* The rules of a login; false: it has no entry. */
static bool rules_of(const struct generation *g, const char *login, bool is_new,
    struct account_rules *rules) {
	char folded[LOGIN_MAX];
	struct login_key key;
	size_t length = strlen(login);

	assert_true(login_fold(login, length, folded));
	key = login_key(folded, length);
	return generation_account_rules(g, folded, length, &key, is_new, rules);
}

static void is_limit(const struct account_rules *rules, unsigned i, enum quota_kind kind,
    uint32_t most, uint32_t period_s, uint32_t line) {
	assert_true(i < rules->count);
	assert_int_equal(rules->limits[i].kind, kind);
	assert_int_equal(rules->limits[i].most, most);
	assert_int_equal(rules->limits[i].period_s, period_s);
	assert_int_equal(rules->lines[i], line);
}

TEST(logins_are_of_the_first_entry_that_matches) {
	struct generation *g = compile_good(MAIN STAFF, NULL);
	struct account_rules rules;

	assert_int_equal(g->account_count, 65536);
	assert_true(rules_of(g, "bob@EXAMPLE.org", false, &rules));
	assert_string_equal(generation_text(g, rules.account->name), "staff");
	assert_int_equal(rules.count, 3);
	is_limit(&rules, 0, QUOTA_RECIPIENTS, 100, 3600, 3);
	is_limit(&rules, 1, QUOTA_RECIPIENTS, 500, 86400, 3);
	is_limit(&rules, 2, QUOTA_KIB, 1 << 20, 86400, 3);
	assert_int_equal(rules.per_message, 50);
	assert_int_equal(rules.account->action, ACCOUNT_ACTION_DEFER);
	assert_false(rules.account->observe);
	assert_int_equal(rules.account->new_for_s, 2 * 86400);
	assert_true(rules_of(g, "aLICE", true, &rules));
	assert_int_equal(rules.count, 4);
	is_limit(&rules, 3, QUOTA_RECIPIENTS, 30, 3600, 6);
	assert_true(rules.is_new[3]);
	assert_true(rules_of(g, "alice2", true, &rules));
	assert_string_equal(generation_text(g, rules.account->name), "rest");
	assert_int_equal(rules.count, 1);
	is_limit(&rules, 0, QUOTA_MESSAGES, 10, 60, 9);
	assert_true(rules.account->observe);
	assert_int_equal(rules.account->action, ACCOUNT_ACTION_REJECT);
	/* a whole login before the first '@' may be missing */
	assert_true(rules_of(g, "@example.org", false, &rules));
	assert_int_equal(rules.index, 0);
}

TEST(free_recipients) {
	struct generation *g = compile_good(MAIN STAFF, NULL);
	struct account_rules rules;

	assert_true(rules_of(g, "alice", false, &rules));
#define FREE(address) \
	generation_account_is_free(g, rules.account, address, sizeof(address) - 1)
	assert_true(FREE("a@example.org"));
	assert_true(FREE("a@sub.EXAMPLE.org"));
	assert_true(FREE("a.b+c@local.example"));
	/* the mail server may send these on */
	assert_false(FREE("a@b@local.example"));
	assert_false(FREE("a%b.example@local.example"));
	assert_false(FREE("b.example!a@local.example"));
	assert_false(FREE("\"a@b.example\"@local.example"));
	assert_false(FREE("a@anexample.org"));
	assert_false(FREE("a@sub.local.example"));
	assert_false(FREE("example.org"));
	assert_false(FREE(""));
}

TEST(without_accounts) {
	struct generation *g = compile_good(MAIN, NULL);
	struct account_rules rules;

	assert_int_equal(g->account_count, 0);
	assert_false(rules_of(g, "alice", false, &rules));
}

TEST(overrides_replace_what_they_name) {
	struct generation *g = compile_good(MAIN STAFF, "# who may more\n"
	    "alice\trecipients=1000/1d,200/1h\r\n"
	    "\n"
	    "BOB@example.org  recipients=none messages=7/1h recipients_per_message=none\n"
	    "carol@example.org recipients=1000/1d,200/1h");
	struct account_rules rules;

	assert_int_equal(g->accounts.override_count, 3);
	assert_int_equal(g->accounts.set_count, 2);
	assert_true(rules_of(g, "ALICE", true, &rules));
	assert_int_equal(rules.count, 3);
	is_limit(&rules, 0, QUOTA_RECIPIENTS, 1000, 86400, 2);
	is_limit(&rules, 1, QUOTA_RECIPIENTS, 200, 3600, 2);
	is_limit(&rules, 2, QUOTA_KIB, 1 << 20, 86400, 3);
	assert_true(rules.is_override[0]);
	assert_false(rules.is_override[2]);
	assert_int_equal(rules.per_message, 50);
	assert_true(rules_of(g, "bob@example.org", false, &rules));
	assert_int_equal(rules.count, 2);
	is_limit(&rules, 0, QUOTA_MESSAGES, 7, 3600, 4);
	assert_int_equal(rules.per_message, 0);
	assert_true(rules_of(g, "carol@example.org", false, &rules));
	is_limit(&rules, 1, QUOTA_RECIPIENTS, 200, 3600, 5);
	assert_true(rules_of(g, "dan@example.org", false, &rules));
	assert_int_equal(rules.override_line, 0);
}

static void has_message(const char *file, int line,
    const char *text) {
	for (size_t i = 0; i < messages.count; i++)
		if (strcmp(messages.list[i].file, file) == 0 &&
		    messages.list[i].line == line &&
		    strstr(messages.list[i].text, text) != NULL)
			return;
	print_messages();
	fail_msg("%s:%d has not: %s", file, line, text);
}

TEST(a_wrong_override_is_left_out) {
	static const char text[] = "alice recipients=lots\n"			/* 1 */
	    "bob@example.org\n"
	    " carol@example.org recipients=1/1h\n"
	    "dan@example.org recipients=1/1h bogus=3\n"
	    "eve@example.org recipients=1/1s\n"					/* 5 */
	    "fay@example.org recipients=5/1h\n"
	    "FAY@example.org recipients=6/1h\n"
	    "gus@example.org recipients=1/1h,1/2h,1/3h,1/4h\n"
	    "hal@example.org recipients_per_message=0\n"
	    "i\0a@example.org recipients=1/1h\n"				/* 10 */
	    "jan@example.org recipients=1/1h messages\n"
	    "kim@example.org recipients=,\n"
	    "lea@example.org recipients=1/1h,,2/2h\n"
	    "max@example.org recipients=1/1h recipients=none\n";
	struct generation *g = compile(MAIN STAFF, text, sizeof(text) - 1);
	struct account_rules rules;

	assert_non_null(g);
	has_message("overrides", 1, "\"lots\" is not a limit such as");
	has_message("overrides", 2, "a login without limits");
	has_message("overrides", 3, "begins with a login");
	has_message("overrides", 4, "unknown name \"bogus\"");
	has_message("overrides", 5, "within 1m..31d");
	has_message("overrides", 7, "already in line 6");
	has_message("overrides", 8, "more than 4 different windows");
	has_message("overrides", 9, "recipients_per_message");
	has_message("overrides", 10, "NUL");
	has_message("overrides", 11, "must be NAME=VALUE");
	has_message("overrides", 12, "missing beside a comma");
	has_message("overrides", 13, "missing beside a comma");
	has_message("overrides", 14, "stands twice");
	assert_int_equal(g->accounts.override_count, 1);
	assert_true(rules_of(g, "fay@example.org", false, &rules));
	is_limit(&rules, 0, QUOTA_RECIPIENTS, 6, 3600, 7);
}

/* It is one of that name, which nobody has. */
TEST(a_pattern_among_overrides_is_noted) {
	static const char text[] = "*@example.org recipients=1/1h\nbob@example.org recipients=2/1h\n";
	struct generation *g = compile(MAIN STAFF, text, sizeof(text) - 1);
	unsigned notes = 0;

	assert_non_null(g);
	has_message("overrides", 1, "patterns do not work");
	for (size_t i = 0; i < messages.count; i++)
		notes += strcmp(messages.list[i].file, "overrides") == 0;
	assert_int_equal(notes, 1);
}

TEST(overrides_of_nobody) {
	static const char text[] = "zoe recipients=1/1h\n";
	struct generation *g = compile(MAIN "accounts = ( { name = \"a\"; match = \"*@a\"; \n"
	    "each = { messages = \"1/1h\"; }; } );", text, sizeof(text) - 1);

	assert_non_null(g);
	has_message("overrides", 1, "no entry of accounts matches");
}

/* The text in line 2 of a configuration is refused with this message. */
static void refuses(const char *text, const char *message) {
	char whole[1024];

	snprintf(whole, sizeof(whole), "%s%s\n", MAIN, text);
	assert_null(compile(whole, NULL, 0));
	has_message("main", 2, message);
}

TEST(mistakes) {
#define ENTRY(more) "accounts = ( { name = \"a\"; match = \"*\"; " more " } );"
	refuses(ENTRY("each = { recipients = 5; };"), "must be limits in quotes");
	refuses(ENTRY("each = { recipients = \"5\"; };"), "is not a limit such as");
	refuses(ENTRY("each = { recipients = \"0/1h\"; };"), "is not within 1..1G");
	refuses(ENTRY("each = { recipients = \"5/32d\"; };"), "within 1m..31d");
	refuses(ENTRY("each = { recipients = \"5/1500ms\"; };"), "within 1m..31d");
	refuses(ENTRY("each = { bytes = \"5/1h\"; };"), "is not within 1k..1024G");
	refuses(ENTRY("each = { reciepients = \"5/1h\"; };"), "did you mean");
	refuses(ENTRY("each = { recipients = [ \"1/1h\", \"1/2h\", \"1/3h\", \"1/4h\", \"1/5h\" ];"
	    " };"), "more than 4 different windows");
	refuses(ENTRY("text = \"{used} {user}\";"), "unknown placeholder {user}");
	refuses(ENTRY("action = \"drop\";"), "is not one of");
	refuses(ENTRY("free = \"a@b\";"), "must be a domain");
	refuses("accounts = ( { match = \"*\"; } );", "has no name");
	refuses("accounts = ( { name = \"a\"; } );", "has no logins; set match");
	refuses("accounts = ( { name = \"a\"; match = \"*a*\"; } );", "more than one *");
	refuses("accounts = ( { name = \"a\"; match = \"x\"; }, { name = \"a\"; match = \"*\"; } );",
	    "account name a is already used at ");
}

TEST(texts_for_clients) {
	struct account_values values = { .used = 100, .limit = 100, .what = "recipients",
		.window_s = 3600, .retry_s = 42, .account = "staff", .id = "abc" };
	char out[REPLY_TEXT_SIZE], why[128];
	char window[ACCOUNT_WINDOW_TEXT];

	assert_string_equal(account_text_expand(out, "{used} of {limit} {what} in {window}; "
	    "{retry} s, {account} ({id})", &values),
	    "100 of 100 recipients in 1h; 42 s, staff (abc)");
	assert_string_equal(account_text_expand(out, "no { {x}", &values), "no { {x} (id=abc)");
	values.retry_s = UINT64_MAX;
	values.window_s = 0;
	assert_string_equal(account_text_expand(out, "{window} {retry} {id}\n", &values),
	    "message - abc?");
	assert_true(account_text_check("{id} }", why, sizeof(why)));
	assert_false(account_text_check("{id} { ", why, sizeof(why)));
	assert_string_equal(account_window_text(90, window), "90s");
	assert_string_equal(account_window_text(120, window), "2m");
	assert_string_equal(account_window_text(7 * 86400, window), "7d");
}
