/* SPDX-License-Identifier: ISC */
/* Requests of HTTP: what they ask for, and what is none. */
#include "tests/unit/test.h"

#include "wire/ask/http_request.h"

#define HOST "Host: localhost\r\n"

static struct http_request request;
static struct http_error error;

/* In a block of exactly its size, which is lost: nothing is kept. */
static long parse(const char *text, size_t length) {
	static char *copy;

	free(copy);
	copy = malloc(length ? length : 1);
	assert_non_null(copy);
	memcpy(copy, text, length);
	return http_request_parse(copy, length, &request, &error);
}

static void whole(const char *text) {
	long used = parse(text, strlen(text));

	if (used < 0)
		fail_msg("%s: %s", text, error.reason);
	assert_int_equal(used, strlen(text));
	/* and not before */
	for (size_t length = 0; length < strlen(text); length++)
		assert_int_equal(parse(text, length), 0);
	assert_int_equal(parse(text, strlen(text)), strlen(text));
}

static void is_span(struct span span, const char *text) {
	assert_int_equal(span.length, strlen(text));
	assert_true(span_is(span, text));
}

TEST(what_is_asked_for) {
	whole("GET /api/status?limit=5&x HTTP/1.1\r\n" HOST "\r\n");
	assert_int_equal(request.method, HTTP_GET);
	is_span(request.path, "/api/status");
	is_span(request.host, "localhost");
	assert_true(request.keep_alive);
	assert_false(request.has_body);
	whole("\r\nHEAD / HTTP/1.0\r\n\r\n");
	assert_int_equal(request.method, HTTP_HEAD);
	assert_false(request.has_host);
	assert_false(request.keep_alive);
	whole("OPTIONS * HTTP/1.1\r\n" HOST "\r\n");
	assert_int_equal(request.method, HTTP_OTHER);
}

TEST(whether_the_connection_goes_on) {
	whole("GET / HTTP/1.1\r\n" HOST "Connection: x, Close\r\n\r\n");
	assert_false(request.keep_alive);
	whole("GET / HTTP/1.0\r\nconnection:\tKeep-Alive \r\n\r\n");
	assert_true(request.keep_alive);
	whole("GET / HTTP/1.1\r\n" HOST "Connection: closed\r\n\r\n");
	assert_true(request.keep_alive);
	whole("POST / HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\n");
	assert_true(request.has_body);
	assert_false(request.keep_alive);
	whole("GET / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n");
	assert_false(request.keep_alive);
	whole("GET / HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n");
	assert_true(request.keep_alive);
}

TEST(for_which_host) {
	static const struct {
		const char *sent, *host;
		bool local;
	} cases[] = {
		{ "localhost", "localhost", true },
		{ "LocalHost:9471", "LocalHost", true },
		{ "127.0.0.1:80", "127.0.0.1", true },
		{ "127.1.2.3", "127.1.2.3", true },
		{ "[::1]:9471", "[::1]", true },
		{ "evil.example:9471", "evil.example", false },
		{ "127.0.0.1.evil.example", "127.0.0.1.evil.example", false },
		{ "127.0.0", "127.0.0", false },
		{ "127.0.0.256", "127.0.0.256", false },
		{ "128.0.0.1", "128.0.0.1", false },
		{ "localhost.evil.example", "localhost.evil.example", false },
		{ "[::2]", "[::2]", false },
		{ "", "", false },
	};
	char text[200];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", cases[i].sent);
		whole(text);
		is_span(request.host, cases[i].host);
		assert_true(request.has_host);
		assert_int_equal(http_host_is_local(request.host), cases[i].local);
	}
	/* what the target names counts, whatever Host says */
	whole("GET http://evil.example:80/x?y HTTP/1.1\r\n" HOST "\r\n");
	is_span(request.host, "evil.example");
	is_span(request.path, "/x");
}

static void none(const char *text, size_t length, unsigned status, const char *reason) {
	assert_int_equal(parse(text, length), -1);
	assert_string_equal(error.reason, reason);
	assert_int_equal(error.status, status);
	assert_true(error.offset < length);
}

#define NONE(text, status, reason) none(text, sizeof(text) - 1, status, reason)

TEST(what_is_none) {
	NONE("GET / HTTP/1.1\nHost: a\n\n", 400, "a line that does not end with CR LF");
	NONE("GET / HTTP/1.1\r\nHost: a\r\r\n\r\n", 400, "a CR within a line");
	NONE("GET / HTTP/1.1\r\n\0", 400, "a NUL");
	NONE("GET / HTTP/1.1\r\n\r\n", 400, "no Host");
	NONE("GET / HTTP/1.1\r\n" HOST HOST "\r\n", 400, "a second Host");
	NONE("GET / HTTP/1.1\r\nHost: a:b\r\n\r\n", 400, "invalid Host");
	NONE("GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", 400, "invalid Host");
	NONE("GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400, "invalid header name");
	NONE("GET / HTTP/1.1\r\n" HOST " folded: x\r\n\r\n", 400, "invalid header name");
	NONE("GET / HTTP/1.1\r\n" HOST "nothing\r\n\r\n", 400, "a line is not a header");
	NONE("GET / HTTP/1.1\r\n" HOST "x: \x1b[2J\r\n\r\n", 400,
	    "a control character in a header");
	NONE("GET  / HTTP/1.1\r\n" HOST "\r\n", 400, "not a request line");
	NONE("GET /\x7f HTTP/1.1\r\n" HOST "\r\n", 400, "invalid byte in the target");
	NONE("GET x HTTP/1.1\r\n" HOST "\r\n", 400, "not a target");
	NONE("GET http:///x HTTP/1.1\r\n" HOST "\r\n", 400, "not a target");
	NONE("G\"T / HTTP/1.1\r\n" HOST "\r\n", 400, "invalid method");
	NONE("GET / HTTP/1.1 \r\n" HOST "\r\n", 400, "not a request line");
	NONE("GET /\r\n\r\n", 400, "not a request line");
	NONE("GET / HTTP/2.0\r\n" HOST "\r\n", 505, "only HTTP/1 is supported");
	NONE("\x16\x03\x01\x02\x00\x01\x00\x01\xfc", 400, "a NUL");	/* TLS */
}

TEST(what_is_too_long) {
	char text[HTTP_REQUEST_MAX];
	size_t length;

	memset(text, 'a', sizeof(text));
	memcpy(text, "GET /", 5);
	assert_int_equal(parse(text, sizeof(text) - 1), 0);
	none(text, sizeof(text), 414, "the request line is too long");
	length = (size_t)snprintf(text, sizeof(text), "GET / HTTP/1.1\r\n" HOST "x: ");
	text[length] = 'a';
	none(text, sizeof(text), 431, "the request is too long");
	length = (size_t)snprintf(text, sizeof(text), "GET / HTTP/1.1\r\n" HOST);
	for (unsigned i = 0; i < HTTP_HEADERS_MAX; i++)
		length += (size_t)snprintf(text + length, sizeof(text) - length, "a: b\r\n");
	length += (size_t)snprintf(text + length, sizeof(text) - length, "\r\n");
	none(text, length, 431, "too many headers");
}

static void value_is(const char *query, const char *key, const char *wanted) {
	char out[16] = "before";
	bool there = http_query_get((struct span){ query, strlen(query) }, key, out,
	    sizeof(out));

	assert_int_equal(there, wanted != NULL);
	if (there)
		assert_string_equal(out, wanted);
}

TEST(parameters_of_a_question) {
	const char *text = "GET /api/x?find=a%20b&limit=10 HTTP/1.1\r\n" HOST "\r\n";

	assert_true(http_request_parse(text, strlen(text), &request, &error) > 0);
	assert_true(span_is(request.path, "/api/x"));
	assert_true(span_is(request.query, "find=a%20b&limit=10"));
	value_is("find=a%20b&limit=10", "find", "a b");
	value_is("find=a%20b&limit=10", "limit", "10");
	value_is("find=a+b%2B", "find", "a b+");
	value_is("find=", "find", "");
	value_is("&&a=b", "a", "b");
	value_is("a=1&a=2", "a", "1");
	value_is("xfind=1", "find", NULL);
	value_is("find", "find", NULL);
	value_is("", "find", NULL);
	/* halves of escapes, a NUL, and what does not fit */
	value_is("a=%", "a", NULL);
	value_is("a=%2", "a", NULL);
	value_is("a=%zz", "a", NULL);
	value_is("a=%00", "a", NULL);
	value_is("a=123456789012345", "a", "123456789012345");
	value_is("a=1234567890123456", "a", NULL);
}
