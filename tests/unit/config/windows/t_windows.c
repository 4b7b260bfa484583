/* SPDX-License-Identifier: ISC */
/* What windows learn from results, whose they are, and what is told of it. */
#include "tests/unit/test.h"
#include "engine/decision/decided.h"
#include "engine/feed/feed_internal.h"
#include "tests/unit/engine/feed/results.h"

#define CONFIGURATION "classes = ( { name = \"c\"; match = \"*\"; } );\n" \
    "mta = ( { name = \"a\"; log = \"/a\"; } );\n"

static const char configuration[] = CONFIGURATION;

static const char providers[] = "version = 1;\n"
    "providers = ( { name = \"big\"; relays = [ \"*.big.example\" ];\n"
    "  replies = (\n"
    "    { name = \"slow\"; match = \"^451 4\\\\.7\\\\.1\"; class = \"remote-throttle\";\n"
    "      action = \"suspend\"; for = \"2m\"; threshold = \"3/1m\"; },\n"
    "    { name = \"few\"; match = \"^421 4\\\\.7\\\\.9\"; action = \"ceiling\"; ceiling = 4; },\n"
    "    { name = \"one\"; match = \"^450 4\\\\.2\\\\.1\"; action = \"hold-recipient\";\n"
    "      for = \"10m\"; },\n"
    "    { name = \"list\"; match = \"blocklist\"; action = \"alert\"; note = \"see why\"; } ); } );\n";

/* --- what was told ------------------------------------------------------------------ */

static struct {
	unsigned count[WINDOW_BY_HAND + 1];
	char name[256], reason[256];
	int64_t for_ns;
	bool observed;
} told;

static bool listen(void *context, const struct window_report *report) {
	told.count[report->what]++;
	snprintf(told.name, sizeof(told.name), "%.*s", (int)report->name_length, report->name);
	snprintf(told.reason, sizeof(told.reason), "%s", report->reason);
	told.for_ns = report->for_ns;
	told.observed = report->observed;
	return false;
}

static void begin(const char *text) {
	memset(&told, 0, sizeof(told));
	site_open(&site, 64, text);
	now_ns = clock_now_ns();
	windows_listen(site.engine, listen, NULL);
}

static void end(void) {
	site_close(&site);
}

static uint64_t counter(enum counter which) {
	return atomic_load(&segment_header(site.segment)->counters[which]);
}

/* --- the tests ------------------------------------------------------------------------ */

static int close_site(void **state) {
	end();
	return 0;
}

TEST_IN(NULL, close_site, cohorts_suspend_and_time_brings_back) {
	struct window_view view;

	begin(configuration);
	assert_false(view_of("d.example").known);
	assert_int_equal(view_of("d.example").window, 5);
	for (int i = 0; i < 4; i++)
		failed("d.example", down);
	view = view_of("d.example");
	assert_int_equal(view.state, WINDOW_OPEN);
	assert_int_equal(view.failed, 4);
	assert_true(view.fail_cohorts > 0.5);
	failed("d.example", down);
	failed("d.example", down);
	failed("d.example", down);
	view = view_of("D.Example.");
	assert_int_equal(view.state, WINDOW_DEAD);
	assert_int_equal(view.window, 0);
	assert_int_equal(view.by, DECIDED_BY_COHORTS);
	assert_string_equal(view.reason, down);
	assert_int_equal(told.count[WINDOW_DIED], 1);
	assert_string_equal(told.name, "d.example");
	assert_string_equal(told.reason, down);
	assert_int_equal(told.for_ns, 300 * NS_PER_SECOND);
	assert_int_equal(counter(COUNTER_SUSPENSIONS), 1);
	assert_int_equal(view_of("other.example").window, 5);
	/* a look at them is due when it comes back, and now and then */
	assert_int_equal(windows_turn(site.engine, site.generation, now_ns),
	    now_ns + 10 * NS_PER_SECOND);
	pass(299);
	assert_int_equal(windows_turn(site.engine, site.generation, now_ns),
	    now_ns + NS_PER_SECOND);
	assert_int_equal(view_of("d.example").window, 0);
	assert_int_equal(told.count[WINDOW_BACK], 0);
	pass(2);
	assert_int_equal(view_of("d.example").window, 5);
	assert_int_equal(told.count[WINDOW_BACK], 1);
}

TEST_IN(NULL, close_site, who_is_held_is_told_why) {
	struct window_owner owner;
	struct window_view view;
	char text[WINDOW_TEXT_MAX + 1], wanted[WINDOW_TEXT_MAX + 1], id[DECISION_ID_MAX];

	begin(configuration);
	for (int i = 0; i < 8; i++)
		failed("d.example", "connect to a[192.0.2.1]:25: no\n\x1b[2Jroute \xff%s");
	view = view_of("d.example");
	owner = owner_of("d.example");
	now_ns += 10 * NS_PER_SECOND;
	snprintf(wanted, sizeof(wanted), "Postern: d.example is suspended for 290 s (id=%s): "
	    "connect to a[192.0.2.1]:25: no [2Jroute %%s", decision_id_text(view.event, id));
	assert_true(view.event != 0);
	assert_string_equal(windows_text(&owner, &view, now_ns, text), wanted);
}

TEST_IN(NULL, close_site, a_line_counts_once) {
	struct line line = { .domain = "d.example", .status = DELIVERY_DEFERRED, .text = down,
		.origin = { .log = 77, .offset = 1000 } };

	begin(configuration);
	assert_true(feed_line(&line));
	assert_int_equal(view_of("d.example").failed, 1);
	assert_false(feed_line(&line));
	line.origin.offset = 900;
	assert_false(feed_line(&line));
	assert_int_equal(view_of("d.example").failed, 1);
	assert_int_equal(counter(COUNTER_RESULTS_REPEATED), 2);
	line.origin.offset = 1100;
	assert_true(feed_line(&line));
	/* another log */
	line.origin = (struct feed_origin){ .log = 78, .offset = 5 };
	assert_true(feed_line(&line));
	assert_int_equal(view_of("d.example").failed, 3);
}

TEST_IN(NULL, close_site, many_recipients_are_one_delivery) {
	struct line line = { .domain = "d.example", .relay_name = "mx.example.net",
		.relay = "192.0.2.1", .status = DELIVERY_SENT, .text = accepted,
		.queue_id = "4ABC", .took_ms = 800 };
	struct window_view view;

	begin(configuration);
	for (int i = 0; i < 50; i++)
		(void)feed_line(&line);
	assert_int_equal(view_of("d.example").ok, 1);
	/* the session broke before the rest was told */
	line.status = DELIVERY_DEFERRED;
	line.text = refused;
	for (int i = 0; i < 50; i++)
		(void)feed_line(&line);
	view = view_of("d.example");
	assert_int_equal(view.failed, 1);
	assert_int_equal(view.state, WINDOW_OPEN);
	/* tried again later */
	now_ns += 600 * NS_PER_SECOND;
	(void)feed_line(&line);
	assert_int_equal(view_of("d.example").failed, 2);
}

TEST(domains_share_a_provider) {
	struct line line = { .domain = "one.example", .relay_name = "mx.big.example",
		.relay = "198.51.100.1", .status = DELIVERY_SENT, .text = accepted };

	site_providers = providers;
	begin(configuration);
	(void)feed_line(&line);
	line.domain = "two.example";
	(void)feed_line(&line);
	assert_string_equal(owner_of("one.example").name, "provider:big");
	assert_int_equal(view_of("two.example").ok, 2);
	assert_string_equal(owner_of("provider:big").name, "provider:big");
	assert_string_equal(owner_of("else.example").name, "else.example");
	/* nobody was reached, and no relay is told: whoever the domain is reached by */
	for (int i = 0; i < 8; i++)
		failed("one.example", "Cannot start TLS: handshake failure");
	assert_int_equal(view_of("one.example").failed, 8);
	assert_int_equal(view_of("provider:big").state, WINDOW_DEAD);
	assert_int_equal(view_of("two.example").window, 0);
	end();
	site_providers = NULL;
}

/* The feed died behind the result, before the place in the log had moved on. */
TEST_IN(NULL, close_site, a_result_of_no_destination_counts_once) {
	struct line line = { .domain = "d.example", .relay_name = "local",
		.status = DELIVERY_SENT, .text = "delivered to mailbox",
		.program = "postfix/local", .origin = { .log = 7, .offset = 1000 } };
	uint64_t counted;

	begin(configuration);
	(void)feed_line(&line);
	counted = counter(COUNTER_RESULTS_OK) + counter(COUNTER_RESULTS_LOCAL);
	assert_int_equal(counted, 1);
	(void)feed_line(&line);
	assert_int_equal(counter(COUNTER_RESULTS_OK) + counter(COUNTER_RESULTS_LOCAL), 1);
	assert_int_equal(counter(COUNTER_RESULTS_REPEATED), 1);
	line.origin.offset = 1100;
	(void)feed_line(&line);
	assert_int_equal(counter(COUNTER_RESULTS_OK) + counter(COUNTER_RESULTS_LOCAL), 2);
}

TEST_IN(NULL, close_site, a_relay_is_its_own) {
	struct line line = { .domain = "d.example", .relay_name = "127.0.0.1",
		.relay = "127.0.0.1", .port = 10024, .status = DELIVERY_DEFERRED,
		.text = "connect to 127.0.0.1[127.0.0.1]:10024: Connection refused" };

	begin(configuration);
	for (int i = 0; i < 10; i++)
		(void)feed_line(&line);
	assert_false(view_of("d.example").known);
	assert_int_equal(view_of("[127.0.0.1]:10024").state, WINDOW_DEAD);
}

TEST(rules_act) {
	struct line line = { .domain = "d.example", .relay_name = "mx.big.example",
		.relay = "198.51.100.1", .status = DELIVERY_DEFERRED,
		.text = "host mx.big.example[198.51.100.1] said: 451 4.7.1 slow down "
		    "(in reply to MAIL FROM command)", .took_ms = 50 };
	struct window_held held;

	site_providers = providers;
	begin(configuration);
	(void)feed_line(&line);
	now_ns += 61 * NS_PER_SECOND;
	(void)feed_line(&line);
	(void)feed_line(&line);
	assert_int_equal(view_of("d.example").state, WINDOW_OPEN);
	assert_int_equal(told.count[WINDOW_RULE_SUSPENDED], 0);
	(void)feed_line(&line);
	assert_int_equal(view_of("d.example").state, WINDOW_DEAD);
	assert_int_equal(view_of("d.example").by, DECIDED_BY_RULE);
	assert_int_equal(told.count[WINDOW_RULE_SUSPENDED], 1);
	assert_string_equal(told.name, "provider:big");
	assert_int_equal(told.for_ns, 120 * NS_PER_SECOND);
	pass(121);
	assert_true(view_of("d.example").window > 0);

	line.text = "host mx.big.example[198.51.100.1] said: 421 4.7.9 too many "
	    "(in reply to MAIL FROM command)";
	(void)feed_line(&line);
	assert_int_equal(view_of("d.example").ceiling, 4);
	assert_int_equal(view_of("d.example").state, WINDOW_LIMITED);
	assert_int_equal(told.count[WINDOW_RULE_CEILING], 1);
	(void)feed_line(&line);
	assert_int_equal(told.count[WINDOW_RULE_CEILING], 1);

	line.text = "host mx.big.example[198.51.100.1] said: 450 4.2.1 one at a time "
	    "(in reply to RCPT TO command)";
	line.recipient = "busy@d.example";
	(void)feed_line(&line);
	assert_int_equal(told.count[WINDOW_RULE_HELD], 1);
	assert_string_equal(told.name, "busy@d.example");
	assert_true(windows_recipient_held(site.engine, site.generation, "Busy@d.example", 14,
	    now_ns, &held));
	assert_int_equal(held.until_ns, now_ns + 600 * NS_PER_SECOND);
	assert_false(windows_recipient_held(site.engine, site.generation, "user@d.example", 14,
	    now_ns, &held));
	pass(601);
	assert_false(windows_recipient_held(site.engine, site.generation, "busy@d.example", 14,
	    now_ns, &held));
	end();
	site_providers = NULL;
}

TEST(an_alert_throttles_nobody) {
	struct line line = { .domain = "d.example", .relay_name = "mx.big.example",
		.relay = "198.51.100.1", .status = DELIVERY_DEFERRED,
		.text = "host mx.big.example[198.51.100.1] refused to talk to me: "
		    "421 4.7.0 on a blocklist" };

	site_providers = providers;
	begin(configuration);
	for (int i = 0; i < 30; i++)
		(void)feed_line(&line);
	assert_int_equal(view_of("d.example").window, 5);
	assert_int_equal(told.count[WINDOW_RULE_ALERT], 1);
	assert_int_equal(counter(COUNTER_RULE_ALERTS), 30);
	now_ns += 3601 * NS_PER_SECOND;
	(void)feed_line(&line);
	assert_int_equal(told.count[WINDOW_RULE_ALERT], 2);
	end();
	site_providers = NULL;
}

TEST_IN(NULL, close_site, our_own_holds_teach_nothing) {
	struct line line = { .domain = "d.example", .status = DELIVERY_DEFERRED,
		.text = "Postern: d.example is suspended for 290 s: 421 4.7.0 too many",
		.program = "postfix/retry" };

	begin(configuration);
	sent("d.example", 100);
	for (int i = 0; i < 100; i++)
		(void)feed_line(&line);
	assert_int_equal(view_of("d.example").state, WINDOW_OPEN);
	assert_int_equal(view_of("d.example").failed, 0);
	assert_string_equal(view_of("d.example").reason, "");
}

/* Postfix with a window of 10 at a server that takes 4: the log tells each delivery when
 * it has ended, and of a refusal at once. */
TEST_IN(NULL, close_site, a_ceiling_is_found_in_a_log) {
	int64_t ends[4] = { 0 };
	struct window_view view;

	begin(configuration);
	for (int step = 0; step < 4000; step++) {
		now_ns += 10 * NS_PER_MS;
		for (int i = 0; i < 4; i++) {
			if (ends[i] == 0 || ends[i] > now_ns)
				continue;
			sent("d.example", 2000);
			ends[i] = 0;
		}
		for (int i = 0; i < 4; i++) {
			if (ends[i] != 0)
				continue;
			ends[i] = now_ns + 2000 * NS_PER_MS;
			break;
		}
		if (step % 100 == 99)	/* all four run: a fifth is one too many */
			(void)feed_line(&(struct line){ .domain = "d.example",
				.status = DELIVERY_DEFERRED, .text = refused });
		engine_feed_turn(site.engine, site.generation, now_ns);
	}
	view = view_of("d.example");
	assert_int_equal(view.ceiling, 4);
	assert_int_equal(view.in_flight, 4);
	assert_true(view.window <= 4 && view.window >= 1);
	assert_int_equal(view.state, WINDOW_LIMITED);
	pass(60);
	assert_int_equal(view_of("d.example").in_flight, 0);
}

/* A limit fell from 12 to 7, and somebody told.  Postfix has suspended the lane that carried
 * ten of them; its connections idle in the cache for 2 s, so that all else is refused
 * though nothing runs. */
TEST_IN(NULL, close_site, a_site_full_of_kept_connections_is_not_dead) {
	const struct by_hand set = { .verb = MANUAL_LIMIT, .name = "d.example", .name_length = 9,
		.window = BY_HAND_UNSET, .ceiling = 7 };
	const struct line kept = { .domain = "d.example", .status = DELIVERY_SENT,
		.text = accepted, .took_ms = 1000, .conn_use = 60 };
	const struct line refusal = { .domain = "d.example", .status = DELIVERY_DEFERRED,
		.text = refused };
	struct window_owner owner;
	int i;

	begin(configuration);
	for (int round = 0; round < 20; round++) {
		now_ns += 900 * NS_PER_MS;
		for (i = 0; i < 10; i++) {
			now_ns += 10 * NS_PER_MS;
			(void)feed_line(&kept);
			engine_feed_turn(site.engine, site.generation, now_ns);
		}
	}
	assert_int_equal(windows_by_hand(site.engine, site.generation, &set, now_ns, &owner),
	    BY_HAND_DONE);
	for (i = 0; i < 100; i++) {
		now_ns += 20 * NS_PER_MS;
		(void)feed_line(&refusal);
		engine_feed_turn(site.engine, site.generation, now_ns);
	}
	assert_int_equal(view_of("d.example").state, WINDOW_LIMITED);
	assert_int_equal(view_of("d.example").window, 7);
	/* a burst that is refused says so once */
	pass(5);
	for (i = 0; i < 7; i++)
		(void)feed_line(&refusal);
	assert_int_equal(view_of("d.example").state, WINDOW_LIMITED);
	/* and goes on refusing all: then it is */
	for (i = 0; i < 6; i++) {
		pass(1);
		(void)feed_line(&refusal);
	}
	assert_int_equal(view_of("d.example").state, WINDOW_DEAD);
}

/* A server that took mail over kept connections is stopped: it was tried for seconds. */
TEST_IN(NULL, close_site, a_stopped_server_is_dead_at_once) {
	const struct line kept = { .domain = "d.example", .status = DELIVERY_SENT,
		.text = accepted, .took_ms = 10, .conn_use = 2 };
	const struct line nobody = { .domain = "d.example", .status = DELIVERY_DEFERRED,
		.text = down };

	begin(configuration);
	for (int i = 0; i < 12; i++) {
		now_ns += 100 * NS_PER_MS;
		(void)feed_line(&kept);
		engine_feed_turn(site.engine, site.generation, now_ns);
	}
	for (int i = 0; i < 12; i++) {
		now_ns += 100 * NS_PER_MS;
		(void)feed_line(&nobody);
		engine_feed_turn(site.engine, site.generation, now_ns);
	}
	assert_int_equal(view_of("d.example").state, WINDOW_DEAD);
}

/* All is decided and told, and whoever asks may go. */
TEST_IN(NULL, close_site, observed_means_let_go) {
	begin(CONFIGURATION "outbound = { observe = true; };\n");
	for (int i = 0; i < 8; i++)
		failed("d.example", down);
	assert_int_equal(view_of("d.example").window, 0);
	assert_true(view_of("d.example").observed);
	assert_true(told.observed);
	assert_int_equal(told.count[WINDOW_DIED], 1);
	for (int i = 0; i < 3; i++)
		failed("d.example", down);
	assert_int_equal(told.count[WINDOW_DIED], 1);
	assert_true(counter(COUNTER_WINDOW_HOLDS_OBSERVED) >= 3);
}

TEST_IN(NULL, close_site, what_is_read_late_is_long_past) {
	struct line line = { .domain = "d.example", .status = DELIVERY_DEFERRED, .text = down };

	begin(configuration);
	now_ns += 7200 * NS_PER_SECOND;
	line.origin.ended_ns = now_ns - 3600 * NS_PER_SECOND;
	for (int i = 0; i < 8; i++)
		(void)feed_line(&line);
	assert_int_equal(told.count[WINDOW_DIED], 1);
	assert_int_equal(view_of("d.example").state, WINDOW_OPEN);
	assert_true(view_of("d.example").window > 0);
}

TEST_IN(NULL, close_site, starts_that_are_told_give_exact_levels) {
	char id[16];
	struct delivery d = { .source = DELIVERY_OF_OTHER, .agent = AGENT_SMTP,
		.domain = span_of("d.example"), .recipient = span_of("u@d.example"),
		.relay = span_of("mx.example.net[192.0.2.1]:25"),
		.relay_name = span_of("mx.example.net"), .relay_port = 25,
		.delays_ms = { -1, -1, -1, -1 }, .recipients = 1 };
	const struct feed_origin origin = { .log = 0 };

	begin(configuration);
	assert_true(address_parse("192.0.2.1", 9, &d.relay_address));
	for (int i = 0; i < 6; i++) {
		snprintf(id, sizeof(id), "m%d", i);
		d.queue_id = span_of(id);
		engine_feed_start(site.engine, site.generation, 1, &d, now_ns);
	}
	for (int i = 0; i < 6; i++) {
		now_ns += NS_PER_SECOND;
		snprintf(id, sizeof(id), "m%d", 5 - i);
		d.queue_id = span_of(id);
		d.status = i == 0 ? DELIVERY_DEFERRED : DELIVERY_SENT;
		d.dsn[0] = i == 0 ? 4 : 2;
		d.text = span_of(i == 0 ? refused : accepted);
		(void)engine_feed_delivery(site.engine, site.generation, 1, &d, &origin,
		    now_ns);
	}
	/* the sixth was refused while five ran */
	assert_int_equal(view_of("d.example").ceiling, 5);
}

TEST_IN(NULL, close_site, settings_may_change) {
	begin(configuration);
	for (int i = 0; i < 30; i++)
		sent("d.example", 100);
	site_reload(&site, CONFIGURATION
	    "window = { destination_concurrency_limit = 2; };\n");
	assert_int_equal(view_of("d.example").window, 2);
	sent("d.example", 100);
	assert_int_equal(view_of("d.example").window, 2);
	assert_int_equal(view_of("d.example").ok, 31);
	site_reload(&site, CONFIGURATION "window = { law = \"postfix\"; };\n");
	sent("d.example", 100);
	assert_int_equal(view_of("d.example").law, WINDOW_LAW_POSTFIX);
}

/* Each change is logged where it is asked for, and otherwise none. */
TEST(feedback_debug_reports_each_change) {
	for (unsigned debug = 0; debug <= 1; debug++) {
		begin(debug == 0 ? CONFIGURATION "window = { law = \"postfix\"; };\n" :
		    CONFIGURATION "window = { law = \"postfix\"; "
		    "destination_concurrency_feedback_debug = true; };\n");
		for (int i = 0; i < 3; i++)
			sent("a.example", 100);
		assert_int_equal(view_of("a.example").window, 5 + 1);
		assert_int_equal(told.count[WINDOW_CHANGED], debug);
		end();
	}
}

TEST_IN(NULL, close_site, a_reason_comes_back_after_a_resume) {
	const struct by_hand request = { .verb = MANUAL_RESUME, .name = "a.example",
		.name_length = 9, .window = BY_HAND_UNSET, .ceiling = BY_HAND_UNSET };
	struct window_owner owner;

	begin(configuration);
	for (int i = 0; i < 5; i++)
		failed("a.example", down);
	assert_string_equal(view_of("a.example").reason, down);
	assert_int_equal(windows_by_hand(site.engine, site.generation, &request, now_ns,
	    &owner), BY_HAND_DONE);
	assert_string_equal(view_of("a.example").reason, "");
	pass(10);
	for (int i = 0; i < 5; i++)
		failed("a.example", down);
	assert_int_equal(view_of("a.example").state, WINDOW_DEAD);
	assert_string_equal(view_of("a.example").reason, down);
}

TEST_IN(NULL, close_site, what_ran_by_a_feed_that_died_is_forgotten) {
	begin(configuration);
	for (int i = 0; i < 200; i++) {
		now_ns += 100 * NS_PER_MS;
		sent("a.example", 3000);
		engine_feed_turn(site.engine, site.generation, now_ns);
	}
	assert_true(view_of("a.example").in_flight > 10);
	/* and nothing comes in the log any more */
	engine_feed_close(site.engine);
	pass(1);
	assert_int_equal(view_of("a.example").in_flight, 0);
}
