/* SPDX-License-Identifier: ISC */
/* What is learned of a delivery, and of which mail server it is. */
#include "tests/unit/test.h"
#include "base/clock.h"
#include "engine/feed/feed.h"
#include "segment/destination/destinations.h"
#include "tests/unit/own_site.h"


static const char configuration[] = "classes = ( { name = \"c\"; match = \"*\"; hold_at = 1; } );\n"
    "mta = ( { name = \"a\"; log = \"/a\"; ports = [ 25, 2525 ]; },\n"
    "{ name = \"b\"; log = \"/a\"; syslog_name = \"postfix/b\"; },\n"
    "{ name = \"c\"; log = \"/c\"; syslog_name = \"postfix-c\"; },\n"
    "{ name = \"s\"; kind = \"sendmail\"; log = \"/a\"; } );\n";

static struct span span_of(const char *text) {
	return (struct span){ text, strlen(text) };
}

static bool is_client(const char *program) {
	size_t length = strlen(program);

	return length > 5 && (strcmp(program + length - 5, "/smtp") == 0 ||
	    strcmp(program + length - 5, "/lmtp") == 0);
}

/* True: a relay of the domain is known then. */
static bool note(unsigned mtas, const char *program, const char *domain, const char *relay,
    uint16_t port) {
	const struct feed_origin origin = { .log = 0 };
	struct destination_seen seen;
	struct delivery d = {
		.source = DELIVERY_OF_POSTFIX, .status = DELIVERY_SENT,
		.agent = is_client(program) ? AGENT_SMTP : AGENT_ERROR,
		.program = span_of(program), .domain = span_of(domain),
		.recipient = span_of("user@example.com"), .queue_id = span_of("4ZQ"),
		.relay = span_of("mx.example.net"), .relay_name = span_of("mx.example.net"),
		.relay_port = port, .text = span_of("250 2.0.0 Ok"), .dsn = { 2, 0, 0 },
		.delays_ms = { 0, 0, 10, 10 }, .recipients = 1,
	};

	if (*relay != '\0')
		assert_true(address_parse(relay, strlen(relay), &d.relay_address));
	(void)engine_feed_delivery(site.engine, site.generation, mtas, &d, &origin,
	    clock_now_ns());
	return destinations_find(site.segment, domain, strlen(domain), &seen) &&
	    seen.relay_count > 0;
}

static struct destination_seen find(const char *domain) {
	struct destination_seen seen;

	assert_true(destinations_find(site.segment, domain, strlen(domain), &seen));
	return seen;
}

TEST(whose_delivery_it_is) {
	char name[SEGMENT_NAME_MAX + 1];
	struct destination_seen seen;

	site_open(&site, 64, configuration);
	assert_true(note(0xf, "postfix/smtp", "A.example", "192.0.2.1", 25));
	seen = find("a.example");
	assert_int_equal(seen.cloned_by, 1);
	assert_int_equal(seen.other_by, 0);
	assert_int_equal(seen.relay_count, 1);
	assert_true(relays_find(site.segment, &seen.relays[0], name));
	assert_string_equal(name, "mx.example.net");
	assert_true(note(0xf, "postfix/lane20/smtp", "lane.example", "192.0.2.1", 2525));
	assert_int_equal(find("lane.example").cloned_by, 1);
	assert_true(note(0xf, "postfix/relay/smtp", "relay.example", "192.0.2.1", 25));
	assert_int_equal(find("relay.example").cloned_by, 0);
	assert_int_equal(find("relay.example").other_by, 1);
	assert_true(note(0xf, "postfix/lmtp", "lmtp.example", "192.0.2.1", 25));
	assert_int_equal(find("lmtp.example").other_by, 1);
	/* the longest name wins */
	assert_true(note(0xf, "postfix/b/smtp", "b.example", "192.0.2.1", 25));
	assert_int_equal(find("b.example").cloned_by, 2);
	assert_true(note(0xf, "postfix/b/lane1/smtp", "b1.example", "192.0.2.1", 25));
	assert_int_equal(find("b1.example").cloned_by, 2);
	assert_true(note(0xf, "postfix-c/smtp", "c.example", "192.0.2.1", 25));
	assert_int_equal(find("c.example").cloned_by, 4);
	/* of another log */
	assert_false(note(0x3, "postfix-c/smtp", "no.example", "192.0.2.1", 25));
	site_close(&site);
}

TEST(what_teaches_nothing) {
	site_open(&site, 64, configuration);
	assert_false(note(0xf, "postfix/smtp", "x.example", "", 0));
	assert_false(note(0xf, "postfix/smtp", "x.example", "", 25));
	assert_false(note(0xf, "postfix/smtp", "x.example", "127.0.0.1", 10025));
	assert_false(note(0xf, "postfix/smtp", "", "192.0.2.1", 25));
	assert_false(note(0xf, "postfix/b/smtp", "x.example", "192.0.2.1", 2525));
	assert_false(note(0xf, "postfix/error", "x.example", "192.0.2.1", 25));
	assert_false(note(0xf, "postfix", "x.example", "192.0.2.1", 25));
	assert_false(note(0xf, "smtp", "x.example", "192.0.2.1", 25));
	assert_false(note(0xf, "postfixes/smtp", "x.example", "192.0.2.1", 25));
	assert_false(note(0x8, "postfix/smtp", "x.example", "192.0.2.1", 25));
	assert_true(note(0xf, "postfix/lane/smtp", "y.example", "192.0.2.1", 25));
	assert_true(note(0xf, "postfix/lane1x/smtp", "y.example", "192.0.2.1", 25));
	assert_int_equal(find("y.example").cloned_by, 0);
	site_close(&site);
}

/* A Sendmail that only queues says so of each recipient: nobody was held. */
TEST(what_sendmail_queues_is_no_result) {
	const struct feed_origin origin = { .log = 0 };
	struct delivery d = { .source = DELIVERY_OF_SENDMAIL, .status = DELIVERY_DEFERRED,
		.agent = AGENT_SMTP, .program = span_of("sm-mta"),
		.domain = span_of("a.example"), .recipient = span_of("u@a.example"),
		.queue_id = span_of("6AL5rqXz012345"), .mailer = span_of("esmtp"),
		.relay = span_of(""), .relay_name = span_of(""), .text = span_of("queued"),
		.reply = span_of(""), .recipients = 1, .conn_use = 1 };
	const _Atomic uint64_t *suspended;

	site_open(&site, 1000, configuration);
	suspended = &segment_header(site.segment)->counters[COUNTER_RESULTS_SUSPENDED];
	assert_null(engine_feed_delivery(site.engine, site.generation, 8, &d, &origin,
	    clock_now_ns()).judgement);
	assert_int_equal(*suspended, 0);
	/* a name server did not answer: that is one */
	d.dsn[0] = d.dsn[1] = 4;
	assert_non_null(engine_feed_delivery(site.engine, site.generation, 8, &d, &origin,
	    clock_now_ns()).judgement);
	site_close(&site);
}
