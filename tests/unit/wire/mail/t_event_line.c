/* SPDX-License-Identifier: ISC */
/* What a line of the event socket says, and what is wrong with it. */
#include "tests/unit/test.h"
#include "tests/unit/address_is.h"
#include "policy/reply/reply.h"
#include "wire/mail/event_line.h"

static char text[EVENT_WHOLE_MAX + 1];
static struct event_error error;

static bool read_line(const char *line, struct event_line *out) {
	size_t length = strlen(line);

	memcpy(text, line, length);
	return event_line_read(text, length, out, &error);
}

static struct event_line good(const char *line) {
	struct event_line out;

	if (!read_line(line, &out))
		fail_msg("%s: %zu %s", line, error.offset, error.reason);
	return out;
}

static void check(struct span span, const char *expected) {
	if (span.length != strlen(expected) ||
	    (span.length > 0 && memcmp(span.text, expected, span.length) != 0))
		fail_msg("\"%.*s\" is not \"%s\"", (int)span.length, span.text, expected);
}

TEST(a_delivery) {
	struct event_line line = good("delivery mta=out status=deferred id=4bX7Y1 "
	    "recipient=a%20b@Example.com relay=mx.example.com. address=192.0.2.7 port=2525 "
	    "dsn=4.7.0 reply=421%204.7.0%20Try%20later%21 delay=12.5 connect=0.25 send=1.0049 "
	    "recipients=3 ended=1790000000.5");
	const struct delivery *d = &line.delivery;

	assert_int_equal(line.kind, EVENT_LINE_DELIVERY);
	check(line.mta, "out");
	assert_int_equal(d->source, DELIVERY_OF_OTHER);
	assert_int_equal(d->agent, AGENT_SMTP);
	assert_int_equal(d->status, DELIVERY_DEFERRED);
	check(d->queue_id, "4bX7Y1");
	check(d->recipient, "a b@Example.com");
	check(d->domain, "Example.com");
	check(d->relay, "mx.example.com.");
	check(d->relay_name, "mx.example.com");
	address_is(&d->relay_address, "192.0.2.7");
	assert_int_equal(d->relay_port, 2525);
	assert_int_equal(d->dsn[0], 4);
	assert_int_equal(d->dsn[1], 7);
	check(d->text, "421 4.7.0 Try later!");
	assert_int_equal(d->delay_ms, 12500);
	assert_int_equal(d->delays_ms[0], DELIVERY_MS_UNKNOWN);
	assert_int_equal(d->delays_ms[2], 250);
	assert_int_equal(d->delays_ms[3], 1004);
	assert_int_equal(d->recipients, 3);
	assert_true(line.ended_ms == INT64_C(1790000000500));
}

TEST(each_phase) {
	for (unsigned phase = PHASE_NONE; phase < PHASE_COUNT; phase++) {
		char line[80];

		snprintf(line, sizeof(line), "delivery status=deferred domain=x phase=%s",
		    delivery_phase_word(phase));
		assert_int_equal(good(line).delivery.phase, phase);
	}
}

TEST(the_least_of_one) {
	struct event_line line = good("delivery status=sent domain=example.org");

	check(line.mta, "");
	check(line.delivery.recipient, "");
	check(line.delivery.domain, "example.org");
	assert_int_equal(line.delivery.status, DELIVERY_SENT);
	assert_true(address_is_unknown(&line.delivery.relay_address));
	assert_int_equal(line.delivery.delay_ms, DELIVERY_MS_UNKNOWN);
	assert_int_equal(line.delivery.recipients, 1);
	assert_int_equal(line.ended_ms, 0);
	assert_int_equal(line.delivery.relay_port, 0);
	assert_int_equal(line.delivery.phase, PHASE_UNKNOWN);
	line = good("delivery status=deferred domain=x phase=connect relay=mx");
	assert_int_equal(line.delivery.relay_port, 25);
	assert_int_equal(line.delivery.phase, PHASE_CONNECT);
	assert_int_equal(good("delivery agent=local status=bounced domain=x").delivery.agent,
	    AGENT_LOCAL);
	assert_int_equal(good("delivery status=expired domain=x agent=none").delivery.status,
	    DELIVERY_EXPIRED);
	check(good("delivery status=sent recipient=x@y domain=z reply=").delivery.domain, "z");
}

TEST(a_start) {
	struct event_line line = good("start id=7 recipient=a@example.com relay=mx address=::1");

	assert_int_equal(line.kind, EVENT_LINE_START);
	check(line.delivery.domain, "example.com");
	address_is(&line.delivery.relay_address, "::1");
}

TEST(a_session) {
	struct event_line line = good("open client=198.51.100.9 client_port=41234 server=192.0.2.1 "
	    "server_port=25 name=mail.example.net");

	assert_int_equal(line.kind, EVENT_LINE_OPEN);
	address_is(&line.client, "198.51.100.9");
	assert_int_equal(line.client_port, 41234);
	address_is(&line.server, "192.0.2.1");
	assert_int_equal(line.server_port, 25);
	check(line.name, "mail.example.net");
	line = good("close client=2001:db8::1 client_port=1");
	assert_int_equal(line.kind, EVENT_LINE_CLOSE);
	assert_int_equal(line.server_port, 0);
	assert_true(address_is_unknown(&line.server));
}

TEST(other_lines) {
	struct event_line line = good("log out Nov 21 05:48:22 mx postfix/smtp[1]: x=%41");

	assert_int_equal(line.kind, EVENT_LINE_LOG);
	check(line.mta, "out");
	check(line.text, "Nov 21 05:48:22 mx postfix/smtp[1]: x=%41");
	line = good("log * ");
	check(line.mta, "");
	check(line.text, "");
	assert_int_equal(good("").kind, EVENT_LINE_NOTHING);
	assert_int_equal(good("# what I think").kind, EVENT_LINE_NOTHING);
	assert_int_equal(good("sync").kind, EVENT_LINE_SYNC);
	line = good("source a.1");
	assert_int_equal(line.kind, EVENT_LINE_SOURCE);
	check(line.text, "a.1");
	assert_int_equal(line.number, 0);
	assert_int_equal(good("source a 1234567").number, 1234567);
}

TEST(mistakes) {
	static const struct {
		const char *line;
		size_t offset;
		const char *reason;
	} rows[] = {
		{ "deliver status=sent", 0, "unknown kind of line" },
		{ " ", 0, "unknown kind of line" },
		{ "delivery", 0, "a delivery needs a status" },
		{ "delivery status=sent", 0,
		    "a recipient with a domain, or a domain, is required" },
		{ "delivery status=sent recipient=postmaster", 0,
		    "a recipient with a domain, or a domain, is required" },
		{ "delivery status=gone domain=x", 16,
		    "is not sent, deferred, bounced or expired" },
		{ "delivery status=sent domain=", 28, "the value is empty" },
		{ "delivery status", 9, "not KEY=VALUE" },
		{ "delivery  status=sent", 9, "not KEY=VALUE" },
		{ "delivery status=sent domain=x ", 29, "the line ends with a blank" },
		{ "delivery colour=red", 9, "unknown key" },
		{ "delivery client=::1", 9, "this key is not allowed in such a line" },
		{ "start status=sent", 6, "this key is not allowed in such a line" },
		{ "delivery domain=x domain=y", 18, "duplicate key" },
		{ "delivery domain=%4", 16, "a % must be followed by two hexadecimal digits "
		    "other than 00" },
		{ "delivery domain=%zz", 16, "a % must be followed by two hexadecimal digits "
		    "other than 00" },
		{ "delivery domain=a%00", 17,
		    "a % must be followed by two hexadecimal digits other than 00" },
		{ "delivery address=mx", 17, "is not an IP address" },
		{ "delivery port=0", 14, "is not a port" },
		{ "delivery port=65536", 14, "is not a port" },
		{ "delivery dsn=4.7", 13, "is not a status code such as 4.7.0" },
		{ "delivery delay=-1", 15, "is not a time in seconds" },
		{ "delivery delay=1.", 15, "is not a time in seconds" },
		{ "delivery delay=99999999", 15, "is not a time in seconds" },
		{ "delivery recipients=0", 20, "is not a number from 1 to 1000000" },
		{ "delivery agent=me", 15, "is not remote, local or none" },
		{ "delivery phase=late", 15, "is not a phase of a delivery" },
		{ "delivery status=se\tnt", 18, "the line has a control character" },
		{ "open client=::1", 0, "a session needs client and client_port" },
		{ "close client_port=7", 0, "a session needs client and client_port" },
		{ "close client=::1 client_port=7 name=x", 31,
		    "this key is not allowed in such a line" },
		{ "log", 3, "a log line must follow a mail server's name, or *" },
		{ "log out", 4, "a log line must follow a mail server's name, or *" },
		{ "log  x", 4, "a log line must follow a mail server's name, or *" },
		{ "sync now", 4, "nothing may follow sync" },
		{ "source", 6, "a source needs a name of at most 64 bytes" },
		{ "source a ", 8, "the line ends with a blank" },
		{ "source a b", 9, "a number must follow a source's name" },
		{ "source a 99999999999999999999", 27, "a number must follow a source's name" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct event_line line;

		if (read_line(rows[i].line, &line))
			fail_msg("%s", rows[i].line);
		if (strcmp(error.reason, rows[i].reason) != 0 ||
		    error.offset != rows[i].offset)
			fail_msg("%s: %zu %s", rows[i].line, error.offset, error.reason);
	}
}

TEST(long_ones) {
	struct event_line out;
	char *line = malloc(EVENT_LOG_LINE_MAX);

	assert_non_null(line);
	memset(line, 'a', EVENT_LOG_LINE_MAX);
	memcpy(line, "delivery status=sent domain=", 28);
	assert_true(event_line_read(line, EVENT_LINE_MAX, &out, &error));
	memcpy(line, "delivery status=sent domain=", 28);
	assert_false(event_line_read(line, EVENT_LINE_MAX + 1, &out, &error));
	assert_string_equal(error.reason, "the line is too long");
	memcpy(line, "log * ", 6);
	assert_true(event_line_read(line, EVENT_LOG_LINE_MAX, &out, &error));
	assert_int_equal(out.text.length, EVENT_LOG_LINE_MAX - 6);
	memset(text, 'x', sizeof(text));
	assert_false(event_line_read(text, EVENT_WHOLE_MAX + 1, &out, &error));
	assert_string_equal(error.reason, "the line is too long");
	free(line);
}
