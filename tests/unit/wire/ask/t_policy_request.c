/* SPDX-License-Identifier: ISC */
#include "tests/unit/test.h"
#include "tests/unit/address_is.h"

#include "base/clock.h"
#include "wire/ask/policy_request.h"

/* As Postfix 3.7 sends it. */
static const char connect_request[] =
    "request=smtpd_access_policy\nprotocol_state=CONNECT\nprotocol_name=SMTP\n"
    "client_address=192.0.2.7\nclient_name=mx.customer.example\nclient_port=46407\n"
    "reverse_client_name=mx.customer.example\nserver_address=198.51.100.1\nserver_port=25\n"
    "helo_name=\nsender=\nrecipient=\nrecipient_count=0\nqueue_id=\ninstance=\nsize=0\n"
    "etrn_domain=\nstress=\nsasl_method=\nsasl_username=\nsasl_sender=\nccert_subject=\n"
    "ccert_issuer=\nccert_fingerprint=\nccert_pubkey_fingerprint=\nencryption_protocol=\n"
    "encryption_cipher=\nencryption_keysize=0\npolicy_context=client\n\n";

#define HEAD "request=smtpd_access_policy\n"

/* The whole text at once, in a block of exactly its size. */
static long parse(const char *text, size_t length, struct policy_parser *parser,
    struct policy_error *error) {
	char *copy = malloc(length ? length : 1);
	long used;

	assert_non_null(copy);
	memcpy(copy, text, length);
	policy_parser_reset(parser);
	error->reason = "";
	error->offset = 0;
	used = policy_parser_feed(parser, copy, length, error);
	free(copy);
	return used;
}

static bool span_is(const char *data, struct policy_span span, const char *wanted) {
	return span.length == strlen(wanted) &&
	    memcmp(policy_text(data, span), wanted, span.length) == 0;
}

TEST(a_real_connect) {
	struct policy_parser parser;
	struct policy_error error;
	const struct policy_request *r = &parser.request;
	size_t length = sizeof(connect_request) - 1;

	assert_int_equal(parse(connect_request, length, &parser, &error), length);
	assert_int_equal(r->state, POLICY_STATE_CONNECT);
	address_is(&r->client, "192.0.2.7");
	assert_int_equal(r->client_port, 46407);
	address_is(&r->server, "198.51.100.1");
	assert_int_equal(r->server_port, 25);
	assert_true(span_is(connect_request, r->client_name, "mx.customer.example"));
	assert_int_equal(r->sender.length, 0);
	assert_int_equal(r->sasl_username.length, 0);
	assert_null(r->bad_value);
}

TEST(every_cut_gives_the_same) {
	size_t length = sizeof(connect_request) - 1;
	struct policy_parser whole, parser;
	struct policy_error error;

	parse(connect_request, length, &whole, &error);
	for (size_t cut = 0; cut < length; cut++) {
		policy_parser_reset(&parser);
		assert_int_equal(policy_parser_feed(&parser, connect_request, cut, &error), 0);
		assert_int_equal(policy_parser_feed(&parser, connect_request, length, &error),
		    length);
		assert_memory_equal(&parser.request, &whole.request, sizeof(whole.request));
	}
	policy_parser_reset(&parser);
	for (size_t n = 0; n < length; n++)
		assert_int_equal(policy_parser_feed(&parser, connect_request, n, &error), 0);
	assert_int_equal(policy_parser_feed(&parser, connect_request, length, &error), length);
	assert_memory_equal(&parser.request, &whole.request, sizeof(whole.request));
}

TEST(pipelined_requests_come_one_by_one) {
	static const char text[] = HEAD "protocol_state=RCPT\nsender=a@b\n\n"
	    HEAD "protocol_state=DATA\n\n" HEAD "proto";
	struct policy_parser parser;
	struct policy_error error;
	long first, second;

	first = parse(text, sizeof(text) - 1, &parser, &error);
	assert_int_equal(first, sizeof(HEAD "protocol_state=RCPT\nsender=a@b\n\n") - 1);
	assert_int_equal(parser.request.state, POLICY_STATE_RCPT);
	assert_true(span_is(text, parser.request.sender, "a@b"));
	second = parse(text + first, sizeof(text) - 1 - (size_t)first, &parser, &error);
	assert_int_equal(second, sizeof(HEAD "protocol_state=DATA\n\n") - 1);
	assert_int_equal(parser.request.state, POLICY_STATE_DATA);
	assert_int_equal(parser.request.sender.length, 0);
	assert_int_equal(parse(text + first + second, sizeof(text) - 1 -
	    (size_t)(first + second), &parser, &error), 0);
}

TEST(states_by_name) {
	static const struct { const char *name; enum policy_state state; } rows[] = {
		{ "CONNECT", POLICY_STATE_CONNECT }, { "XCLIENT", POLICY_STATE_XCLIENT },
		{ "EHLO", POLICY_STATE_EHLO }, { "HELO", POLICY_STATE_EHLO },
		{ "MAIL", POLICY_STATE_MAIL }, { "RCPT", POLICY_STATE_RCPT },
		{ "DATA", POLICY_STATE_DATA }, { "END-OF-MESSAGE", POLICY_STATE_END },
		{ "VRFY", POLICY_STATE_VRFY }, { "ETRN", POLICY_STATE_ETRN },
		{ "", POLICY_STATE_OTHER }, { "BDAT", POLICY_STATE_OTHER },
		{ "connect", POLICY_STATE_OTHER }, { "CONNECT ", POLICY_STATE_OTHER },
	};
	struct policy_parser parser;
	struct policy_error error;
	char text[200];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int n = snprintf(text, sizeof(text), HEAD "protocol_state=%s\n\n", rows[i].name);

		assert_int_equal(parse(text, (size_t)n, &parser, &error), n);
		assert_int_equal(parser.request.state, rows[i].state);
	}
}

TEST(unknown_attributes_and_order_do_not_matter) {
	static const char text[] = "zzz=1\nclient_port=5\nclient_nam=x\nclient_names=y\n"
	    "sender_x=z\nserver_name=q\nrequests=no\npol=a=b==c\nsender==?\n"
	    "client_address=IPv6:2001:db8::1\nprotocol_state=RCPT\n" HEAD "\n";
	struct policy_parser parser;
	struct policy_error error;

	assert_int_equal(parse(text, sizeof(text) - 1, &parser, &error), sizeof(text) - 1);
	assert_int_equal(parser.request.client_port, 5);
	assert_int_equal(parser.request.client_name.length, 0);
	assert_true(span_is(text, parser.request.sender, "=?"));
	address_is(&parser.request.client, "2001:db8::1");
	assert_null(parser.request.bad_value);
}

TEST(the_last_of_two_counts) {
	static const char text[] = HEAD "client_name=a\nclient_address=192.0.2.1\n"
	    "client_name=b\nclient_address=unknown\nclient_name=unknown\n\n";
	struct policy_parser parser;
	struct policy_error error;

	assert_int_equal(parse(text, sizeof(text) - 1, &parser, &error), sizeof(text) - 1);
	assert_int_equal(parser.request.client_name.length, 0);
	assert_true(address_is_unknown(&parser.request.client));
}

TEST(unknown_and_empty_values_are_not_known) {
	static const char text[] = HEAD "client_name=unknown\n"
	    "client_address=unknown\nclient_port=unknown\nserver_address=\nserver_port=\n\n";
	struct policy_parser parser;
	struct policy_error error;

	assert_int_equal(parse(text, sizeof(text) - 1, &parser, &error), sizeof(text) - 1);
	assert_int_equal(parser.request.client_name.length, 0);
	assert_true(address_is_unknown(&parser.request.client));
	assert_int_equal(parser.request.client_port, 0);
	assert_null(parser.request.bad_value);
}

TEST(bad_values_are_reported) {
	static const struct { const char *line, *name; } rows[] = {
		{ "client_address=1.2.3", "client_address" },
		{ "client_address=nonsense", "client_address" },
		{ "client_address=::g", "client_address" },
		{ "client_port=65536", "client_port" },
		{ "client_port=-1", "client_port" },
		{ "client_port=1x", "client_port" },
		{ "server_address=x", "server_address" },
		{ "server_port=99999999999999999999", "server_port" },
	};
	struct policy_parser parser;
	struct policy_error error;
	char text[200];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int n = snprintf(text, sizeof(text), HEAD "%s\n\n", rows[i].line);

		assert_int_equal(parse(text, (size_t)n, &parser, &error), n);
		assert_string_equal(parser.request.bad_value, rows[i].name);
		assert_true(address_is_unknown(&parser.request.client));
		assert_int_equal(parser.request.client_port, 0);
	}
}

TEST(malformed_requests_say_where_and_why) {
	static const struct { const char *text; size_t length; const char *reason; size_t at; }
	rows[] = {
#define ROW(text, reason, at) { text, sizeof(text) - 1, reason, at }
		ROW("\n", "no request=smtpd_access_policy", 0),
		ROW("a=b\n\n", "no request=smtpd_access_policy", 0),
		ROW("request=other\n\n", "no request=smtpd_access_policy", 0),
		ROW("request=smtpd_access_policyx\n\n", "no request=smtpd_access_policy", 0),
		ROW(HEAD "request=\n\n", "no request=smtpd_access_policy", 0),
		ROW("GET / HTTP/1.0\r\n", "line without name=value", 0),
		ROW("a=b\nx\n", "line without name=value", 4),
		ROW("a=b\n=x\n", "line without name=value", 4),
		ROW(HEAD "\r\n", "line without name=value", sizeof(HEAD) - 1),
		ROW("a=b\0c\n\n", "NUL character", 3),
		ROW(HEAD "sender=\0\n\n", "NUL character", sizeof(HEAD) - 1 + 7),
		ROW("a\0", "NUL character", 1),
#undef ROW
	};
	struct policy_parser parser;
	struct policy_error error;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(parse(rows[i].text, rows[i].length, &parser, &error), -1);
		assert_string_equal(error.reason, rows[i].reason);
		assert_int_equal(error.offset, rows[i].at);
	}
}

TEST(a_nul_behind_the_request_is_the_next_ones) {
	static const char text[] = HEAD "\n\0";
	struct policy_parser parser;
	struct policy_error error;

	assert_int_equal(parse(text, sizeof(text) - 1, &parser, &error), sizeof(HEAD));
}

/* Fills with lines of `width` characters; ends the request when it fits. */
static size_t fill(char *text, size_t total, size_t width) {
	size_t at = sizeof(HEAD) - 1;

	memcpy(text, HEAD, at);
	while (at + width + 2 <= total) {
		memset(text + at, 'a', width);
		text[at + 1] = '=';
		text[at + width] = '\n';
		at += width + 1;
	}
	text[at++] = '\n';
	return at;
}

TEST(bounds) {
	static char text[2 * POLICY_REQUEST_MAX];
	struct policy_parser parser;
	struct policy_error error;
	size_t length = fill(text, POLICY_LINE_MAX + sizeof(HEAD) + 10, POLICY_LINE_MAX);

	assert_int_equal(parse(text, length, &parser, &error), length);
	length = fill(text, POLICY_LINE_MAX + sizeof(HEAD) + 10, POLICY_LINE_MAX + 1);
	assert_int_equal(parse(text, length, &parser, &error), -1);
	assert_string_equal(error.reason, "line too long");
	assert_int_equal(error.offset, sizeof(HEAD) - 1);
	/* and before its end has come */
	assert_int_equal(parse(text, sizeof(HEAD) - 1 + POLICY_LINE_MAX + 1, &parser, &error), -1);
	assert_string_equal(error.reason, "line too long");

	/* a request of exactly the limit */
	length = fill(text, POLICY_REQUEST_MAX, 61);
	memset(text + length - 1, 'b', POLICY_REQUEST_MAX - length + 1);
	text[length] = '=';
	text[POLICY_REQUEST_MAX - 2] = text[POLICY_REQUEST_MAX - 1] = '\n';
	assert_int_equal(parse(text, POLICY_REQUEST_MAX, &parser, &error), POLICY_REQUEST_MAX);
	/* one more byte in the last line */
	memmove(text + 40, text + 39, POLICY_REQUEST_MAX - 39);
	assert_int_equal(parse(text, POLICY_REQUEST_MAX + 1, &parser, &error), -1);
	assert_string_equal(error.reason, "request too long");
	assert_int_equal(parse(text, POLICY_REQUEST_MAX, &parser, &error), -1);
	assert_int_equal(parse(text, POLICY_REQUEST_MAX - 1, &parser, &error), 0);
}

TEST(replies) {
	char out[64], longer[200];
	size_t n;

	n = policy_reply_write(out, sizeof(out), "DUNNO", NULL);
	assert_int_equal(n, 14);
	assert_memory_equal(out, "action=DUNNO\n\n", n);
	n = policy_reply_write(out, sizeof(out), "DUNNO", "");
	assert_int_equal(n, 14);
	n = policy_reply_write(out, sizeof(out), "421 4.7.0", "too many\nsessions\t");
	assert_memory_equal(out, "action=421 4.7.0 too many sessions \n\n", n);
	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	n = policy_reply_write(out, sizeof(out), "421 4.7.0", longer);
	assert_in_range(n, 40, sizeof(out));
	assert_memory_equal(out + n - 3, "x\n\n", 3);
}

/* Not a test of time; it prints what a request costs. */
TEST(cost) {
	enum { ROUNDS = 20000 };
	struct policy_parser parser;
	struct policy_error error;
	int64_t begin = clock_now_ns();

	for (int i = 0; i < ROUNDS; i++) {
		policy_parser_reset(&parser);
		assert_true(policy_parser_feed(&parser, connect_request,
		    sizeof(connect_request) - 1, &error) > 0);
	}
	printf("%lld ns a CONNECT request\n", (long long)((clock_now_ns() - begin) / ROUNDS));
}
