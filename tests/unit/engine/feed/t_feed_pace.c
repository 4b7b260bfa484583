/* SPDX-License-Identifier: ISC */
/* What results teach of the pace of messages: replies that mean "slower", and acceptances. */
#include "tests/unit/test.h"
#include "engine/feed/feed_internal.h"
#include "segment/decision/decisions.h"
#include "tests/unit/engine/feed/results.h"

#define CLASSES "classes = ( { name = \"c\"; match = \"*\"; } );\n" \
    "mta = ( { name = \"p\"; log = \"/a\"; } );\n"
#define PACED CLASSES \
    "destinations = ( { match = [ \"d.example\", \"provider:big\" ]; pace = \"60/1m\"; } );\n"

static const char providers[] = "version = 1;\n"
    "providers = ( { name = \"big\"; relays = [ \"*.big.example\" ];\n"
    "  replies = (\n"
    "    { name = \"rate\"; match = \"^421 4\\\\.7\\\\.28\"; action = \"slow\";\n"
    "      by = \"75%\"; floor = \"2/1m\"; up = \"20%/5m\"; note = \"too fast\"; },\n"
    "    { name = \"third\"; match = \"^421 4\\\\.7\\\\.29\"; action = \"slow\"; by = \"50%\";\n"
    "      threshold = \"3/1h\"; },\n"
    "    { match = \"^421 4\\\\.7\\\\.30\"; action = \"slow\"; class = \"site-failure\"; } ); } );\n"
    "replies = ( { match = \"^421 4\\\\.7\\\\.28\"; action = \"slow\"; } );\n";

#define REFUSED(host, code) "host " host "[192.0.2.1] refused to talk to me: 421 " code " too fast"

static struct {
	unsigned count;
	int64_t before_ns, now_ns;
	uint64_t id;
	char name[100], reason[256];
} told;

static bool listen(void *context, const struct window_report *report) {
	(void)context;
	if (report->what != WINDOW_RULE_SLOWED)
		return false;
	told.count++;
	told.before_ns = report->pace_before_ns;
	told.now_ns = report->pace_ns;
	told.id = report->id;
	snprintf(told.name, sizeof(told.name), "%.*s", (int)report->name_length, report->name);
	snprintf(told.reason, sizeof(told.reason), "%s", report->reason);
	return false;
}

static void begin(const char *text) {
	memset(&told, 0, sizeof(told));
	site_providers = providers;
	site_open(&site, 64, text);
	now_ns = clock_now_ns() / NS_PER_SECOND * NS_PER_SECOND;
	windows_listen(site.engine, listen, NULL);
}

static int close_site(void **state) {
	(void)state;
	site_close(&site);
	site_providers = NULL;
	return 0;
}

static int64_t interval(const char *name) {
	return view_of(name).pace.interval_ns;
}

static void refuse(const char *domain, const char *text, int64_t took_ms) {
	(void)feed_line(&(struct line){ .domain = domain, .relay_name = "mx.example.net",
		.relay = "192.0.2.1", .status = DELIVERY_DEFERRED, .text = text,
		.took_ms = took_ms });
}

static void refuse_big(const char *code) {
	char text[128];

	snprintf(text, sizeof(text), REFUSED("mx.big.example", "%s"), code);
	(void)feed_line(&(struct line){ .domain = "b.example", .relay_name = "mx.big.example",
		.relay = "192.0.2.1", .status = DELIVERY_DEFERRED, .text = text, .took_ms = 50 });
}

static void accept_big(void) {
	(void)feed_line(&(struct line){ .domain = "b.example", .relay_name = "mx.big.example",
		.relay = "192.0.2.1", .status = DELIVERY_SENT, .text = accepted, .took_ms = 50 });
}

static uint64_t counter(enum counter which) {
	return atomic_load(&segment_header(site.segment)->counters[which]);
}

static const char slow[] = REFUSED("mx.example.net", "4.7.28");

/* Half, by the rule of all; the other messages of the flight were sent before. */
TEST_IN(NULL, close_site, a_flight_lowers_it_once) {
	begin(PACED);
	assert_true(interval("d.example") == NS_PER_SECOND);
	refuse("d.example", slow, 50);
	assert_true(interval("d.example") == 2 * NS_PER_SECOND);
	now_ns += NS_PER_SECOND;
	refuse("d.example", slow, 1500);
	assert_true(interval("d.example") == 2 * NS_PER_SECOND);
	assert_int_equal(told.count, 1);
	/* one that was sent after it, and nothing was accepted: for the moment alone */
	refuse("d.example", slow, 50);
	assert_true(interval("d.example") == 4 * NS_PER_SECOND);
	assert_true(view_of("d.example").pace.is_refused);
	assert_int_equal(told.count, 1);
	now_ns += 4 * NS_PER_SECOND;
	sent("d.example", 50);
	assert_false(view_of("d.example").pace.is_refused);
	assert_int_equal(counter(COUNTER_PACES_LOWERED), 1);
}

/* 10 a second for 20 seconds: that is where it begins, and the provider's rule leaves a
 * quarter; then to its floor of 2 a minute. */
TEST_IN(NULL, close_site, it_begins_with_what_was_accepted) {
	begin(CLASSES);
	for (int i = 0; i < 200; i++) {
		accept_big();
		now_ns += 100 * NS_PER_MS;
	}
	assert_true(interval("provider:big") == 0);
	refuse_big("4.7.28");
	assert_in_range(interval("provider:big"), 390 * NS_PER_MS, 410 * NS_PER_MS);
	assert_int_equal(told.count, 1);
	assert_in_range(told.before_ns, 0, 0);
	for (int i = 0; i < 8; i++) {
		now_ns += 600 * NS_PER_SECOND;
		accept_big();
		refuse_big("4.7.28");
	}
	/* what is stored is rounded */
	assert_in_range(interval("provider:big"), 30 * NS_PER_SECOND, 30060 * NS_PER_MS);
	refuse("other.example", slow, 50);
	assert_true(view_of("other.example").pace.is_learned);
}

/* No window learns of it, or mail would wait for no reason. */
TEST_IN(NULL, close_site, slow_shuts_no_window) {
	begin(CLASSES);
	for (int i = 0; i < 100; i++) {
		refuse_big("4.7.28");
		now_ns += NS_PER_SECOND;
	}
	assert_int_equal(view_of("provider:big").state, WINDOW_OPEN);
	assert_int_equal(view_of("provider:big").window, 5);
	assert_int_equal(view_of("provider:big").failed, 100);
	assert_string_equal(view_of("provider:big").reason, "421 4.7.28 too fast");
	assert_true(view_of("provider:big").pace.is_refused);
}

TEST_IN(NULL, close_site, with_a_class_the_window_learns_as_well) {
	begin(CLASSES);
	for (int i = 0; i < 20; i++) {
		refuse_big("4.7.30");
		now_ns += NS_PER_SECOND;
	}
	assert_int_equal(view_of("provider:big").state, WINDOW_DEAD);
	assert_true(view_of("provider:big").pace.is_learned);
}

TEST_IN(NULL, close_site, the_third_of_an_hour) {
	begin(PACED);
	for (int i = 0; i < 2; i++) {
		refuse_big("4.7.29");
		now_ns += NS_PER_SECOND;
	}
	assert_true(interval("provider:big") == NS_PER_SECOND);
	refuse_big("4.7.29");
	assert_true(interval("provider:big") == 2 * NS_PER_SECOND);
}

/* 600 lines of ten minutes that are read in one go are no 600 of this second. */
TEST_IN(NULL, close_site, a_log_that_is_read_late_was_not_accepted_at_once) {
	struct line line = { .domain = "b.example", .relay_name = "mx.big.example",
		.relay = "192.0.2.1", .status = DELIVERY_SENT, .text = accepted, .took_ms = 50 };

	begin(CLASSES);
	for (int i = 0; i < 600; i++) {
		line.origin.ended_ns = now_ns - (600 - i) * NS_PER_SECOND - 10 * NS_PER_SECOND;
		(void)feed_line(&line);
	}
	refuse_big("4.7.28");
	/* as if nothing had been: a quarter of 10 a second */
	assert_in_range(interval("provider:big"), 400 * NS_PER_MS, 401 * NS_PER_MS);
}

/* What is past gives back no token that was taken since. */
TEST_IN(NULL, close_site, a_log_that_is_read_late_fills_no_bucket) {
	struct line line = { .domain = "d.example", .relay_name = "mx.example.net",
		.relay = "192.0.2.1", .status = DELIVERY_SENT, .text = accepted, .took_ms = 50 };
	struct window_owner owner;
	struct window_tokens tokens;

	begin(PACED);
	owner = owner_of("d.example");
	windows_pace_take(site.engine, site.generation, &owner, 2, now_ns, &tokens);
	assert_int_equal(tokens.taken, 1);
	line.origin.ended_ns = now_ns - 100 * NS_PER_SECOND;
	(void)feed_line(&line);
	windows_pace_take(site.engine, site.generation, &owner, 1, now_ns, &tokens);
	assert_int_equal(tokens.taken, 0);
}

/* The same result twice, as after a restart. */
TEST_IN(NULL, close_site, a_line_that_is_read_again_does_nothing) {
	struct line line = { .domain = "d.example", .relay_name = "mx.example.net",
		.relay = "192.0.2.1", .status = DELIVERY_DEFERRED, .text = slow, .took_ms = 50,
		.origin = { .log = 7, .offset = 100 } };

	begin(PACED);
	(void)feed_line(&line);
	now_ns += 10 * NS_PER_SECOND;
	(void)feed_line(&line);
	assert_true(interval("d.example") == 2 * NS_PER_SECOND);
	assert_false(view_of("d.example").pace.is_refused);
}

/* Mail waits and is accepted: after 10 minutes a tenth more. */
TEST_IN(NULL, close_site, it_rises_while_mail_waits) {
	struct window_owner owner;
	struct window_tokens tokens;
	int64_t raise_ns;

	begin(PACED);
	refuse("d.example", slow, 50);
	owner = owner_of("d.example");
	raise_ns = view_of("d.example").pace.raise_ns;
	assert_in_range(raise_ns - now_ns, 600 * NS_PER_SECOND, 601 * NS_PER_SECOND);
	for (; now_ns < raise_ns; now_ns += 2 * NS_PER_SECOND) {
		windows_pace_take(site.engine, site.generation, &owner, 5, now_ns, &tokens);
		sent("d.example", 50);
		assert_in_range(interval("d.example"), 1999 * NS_PER_MS, 2 * NS_PER_SECOND);
	}
	now_ns += 10 * NS_PER_SECOND;
	windows_pace_take(site.engine, site.generation, &owner, 5, now_ns, &tokens);
	/* 33 a minute, as it is stored */
	assert_in_range(interval("d.example"), 1818 * NS_PER_MS, 1823 * NS_PER_MS);
}

TEST_IN(NULL, close_site, why_tells_the_reply_and_both_paces) {
	struct decided decided;

	begin(PACED);
	refuse_big("4.7.28");
	assert_int_equal(told.count, 1);
	assert_string_equal(told.name, "provider:big");
	assert_string_equal(told.reason, "421 4.7.28 too fast");
	assert_true(told.before_ns == NS_PER_SECOND && told.now_ns == 4 * NS_PER_SECOND);
	assert_true(decisions_find(site.segment, told.id, &decided));
	assert_int_equal(decided.kind, DECIDED_PACE);
	assert_string_equal(decided_text(&decided, DECIDED_RULE), "rate");
	assert_string_equal(decided_text(&decided, DECIDED_REASON), "421 4.7.28 too fast");
	assert_string_equal(decided_text(&decided, DECIDED_NOTE), "too fast");
	assert_int_equal(decided.before, NS_PER_SECOND / DECIDED_PACE_NS);
	assert_int_equal(decided.window, 4 * NS_PER_SECOND / DECIDED_PACE_NS);
}
