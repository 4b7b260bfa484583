/* SPDX-License-Identifier: ISC */
/* Lists of queues as postqueue -j prints them. */
#include "tests/unit/test.h"

#include "wire/mail/queue_list.h"

static char line[4096];
static struct queue_listed listed;

static bool scan(const char *text) {
	assert_true(strlen(text) < sizeof(line));
	memcpy(line, text, strlen(text) + 1);
	return queue_list_scan(line, strlen(text), &listed);
}

static void span_is(struct span span, const char *wanted) {
	if (span.length != strlen(wanted) || memcmp(span.text, wanted, span.length) != 0)
		fail_msg("\"%.*s\" is not \"%s\"", (int)span.length, span.text, wanted);
}

static void next_is(const char *address, const char *reason) {
	struct span got, why;

	assert_true(queue_list_recipient(&listed, &got, &why));
	span_is(got, address);
	span_is(why, reason);
}

static void no_more(void) {
	struct span address, reason;

	assert_false(queue_list_recipient(&listed, &address, &reason));
}

/* As Postfix 3.7 prints it. */
TEST(a_real_line) {
	assert_true(scan("{\"queue_name\": \"deferred\", \"queue_id\": \"3F9A21C04D\", "
	    "\"arrival_time\": 1700000000, \"message_size\": 306, \"forced_expire\": false, "
	    "\"sender\": \"a@example.com\", \"recipients\": [{\"address\": \"b@example.org\", "
	    "\"delay_reason\": \"connect to mx.example.org[192.0.2.1]:25: Connection refused\"}, "
	    "{\"address\": \"c@example.net\"}]}\n"));
	span_is(listed.queue_id, "3F9A21C04D");
	assert_int_equal(listed.arrival_s, 1700000000);
	next_is("b@example.org", "connect to mx.example.org[192.0.2.1]:25: Connection refused");
	next_is("c@example.net", "");
	no_more();
}

TEST(escapes) {
	assert_true(scan("{\"x\":[1,{\"recipients\":[\"]\"]}],\"queue_id\":\"A\\u0042\\/C\","
	    "\"recipients\":[{\"z\":null,\"address\":\"\\\"a\\\\b\\\"@c\","
	    "\"delay_reason\":\"\\n\\t\\u00e9\\u20ac\"}]}"));
	span_is(listed.queue_id, "AB/C");
	next_is("\"a\\b\"@c", "\n\t??");
	no_more();
}

/* What stands in a text is a text. */
TEST(forged) {
	assert_true(scan("{\"queue_id\": \"AAAAAA\", \"sender\": \"\\\"}, \\\"queue_id\\\": "
	    "\\\"BBBBBB\\\", \\\"recipients\\\": [{\\\"address\\\": \\\"v@w\\\"}]}\\\"@x\", "
	    "\"recipients\": [{\"address\": \"b@c\", \"delay_reason\": \"x\\\"}, "
	    "{\\\"address\\\": \\\"v@w\\\"\"}]}"));
	span_is(listed.queue_id, "AAAAAA");
	next_is("b@c", "x\"}, {\"address\": \"v@w\"");
	no_more();
}

TEST(what_is_no_line) {
	static const char *const lines[] = { "", "{", "}", "[]", "{}", "x",
		"postqueue: fatal: Queue report unavailable - mail system is down",
		"{\"queue_id\": \"A\"}", "{\"recipients\": []}", "{\"queue_id\": 12, \"recipients\": []}",
		"{\"queue_id\": \"A\", \"arrival_time\": -1, \"recipients\": []}",
		"{\"queue_id\": \"A\", \"arrival_time\": 1234567890123, \"recipients\": []}",
		"{\"queue_id\": \"A\", \"x\": [[[[[[[[[1]]]]]]]]], \"recipients\": []}",
		"{\"queue_id\": \"A\", \"recipients\": {}", "{\"queue_id\": \"\\q\", \"recipients\": []}",
		"{\"queue_id\": \"\\u00\", \"recipients\": []}", "{\"queue_id\" \"A\"}" };

	for (unsigned i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		if (scan(lines[i]))
			fail_msg("taken: %s", lines[i]);
}

/* Its age in nanoseconds overflowed. */
TEST(an_arrival_in_the_far_future) {
	assert_true(scan("{\"queue_id\": \"A\", \"arrival_time\": 9999999999, \"recipients\": []}"));
	assert_int_equal(listed.arrival_s, 9999999999);
	assert_false(scan("{\"queue_id\": \"A\", \"arrival_time\": 99999999999, \"recipients\": []}"));
}

TEST(cut_lines) {
	static const char whole[] = "{\"queue_id\": \"ABCDEF\", \"recipients\": "
	    "[{\"address\": \"a@b\", \"delay_reason\": \"r\"}, {\"address\": \"c@d\"}]}";

	for (size_t length = 0; length < sizeof(whole); length++) {
		struct span address, reason;
		unsigned count = 0;

		memcpy(line, whole, length);
		if (!queue_list_scan(line, length, &listed))
			continue;
		while (queue_list_recipient(&listed, &address, &reason))
			span_is(address, count++ == 0 ? "a@b" : "c@d");
		assert_true(count <= 2);
	}
}
