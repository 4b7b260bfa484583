/* SPDX-License-Identifier: ISC */
/* Texts for clients: what may stand in them, and what comes out. */
#include <string.h>

#include "tests/unit/test.h"
#include "base/reply_text.h"

static char out[REPLY_TEXT_SIZE];

static const char *expand(const char *text, const char *class_name) {
	const struct reply_values values = { .retry_s = 90, .id = "5f3a-1c",
		.class_name = class_name, .client = "2001:db8::7" };

	return reply_text_expand(out, text, &values);
}

TEST(each_placeholder) {
	assert_string_equal(expand("{client} of {class}: {retry} s, {id}", "c"),
	    "2001:db8::7 of c: 90 s, 5f3a-1c");
	assert_string_equal(expand("{id}{id}", "c"), "5f3a-1c5f3a-1c");
	assert_string_equal(expand("nothing } here", "c"), "nothing } here");
	assert_string_equal(expand("{", "c"), "{");
	assert_string_equal(expand("{{id}", "c"), "{5f3a-1c");
	assert_string_equal(expand("a {idx} {id", "c"), "a {idx} {id");
	assert_string_equal(expand("{class}", NULL), "-");
	assert_string_equal(expand("{class}", ""), "-");
}

/* A value is no text: nothing in it is expanded again. */
TEST(values_are_taken_as_they_are) {
	assert_string_equal(expand("{class}", "{id}%s%n"), "{id}%s%n");
	assert_string_equal(expand("<{class}>", "a\r\nb\xc3\xa4\x7f"),
	    "<a?" "?b?" "?" "?>");
}

TEST(an_empty_text_is_replaced) {
	static const char usual[] =
	    "Too many sessions; try again in 90 seconds (id=5f3a-1c)";

	assert_string_equal(expand("", "c"), usual);
	assert_string_equal(expand(" \t ", "c"), usual);
}

TEST(what_does_not_fit_is_cut) {
	char name[81], text[201];

	memset(name, 'n', 80);
	name[80] = '\0';
	text[0] = '\0';
	for (unsigned i = 0; i < 28; i++)
		memcpy(text + 7 * i, "{class}", 8);
	assert_int_equal(reply_text_longest(text, 80), 28 * 80);
	assert_int_equal(strlen(expand(text, name)), REPLY_TEXT_SIZE - 1);
}

TEST(the_longest_is_never_shorter) {
	static const char text[] = "a{retry}b{id}c{class}d{client}{x";
	const struct reply_values values = { .retry_s = UINT32_MAX,
		.id = "fzzzzzzzzzzzzz", .class_name = "class",
		.client = "ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255" };

	reply_text_expand(out, text, &values);
	assert_true(strlen(out) <= reply_text_longest(text, 5));
	assert_int_equal(reply_text_longest(text, 5), 4 + 10 + 14 + 5 + 45 + 2);
}

TEST(what_a_text_has) {
	assert_int_equal(reply_text_has("x {client} {id}"),
	    REPLY_TEXT_HAS_CLIENT | REPLY_TEXT_HAS_ID);
	assert_int_equal(reply_text_has("{class} {retry} {cl"), 0);
	assert_int_equal(reply_text_has("{{id}"), REPLY_TEXT_HAS_ID);
	assert_int_equal(reply_text_has(" \t"), REPLY_TEXT_HAS_ID);
	assert_int_equal(reply_text_has("{ID} {clients} {idx} {"), 0);
}

TEST(what_is_checked) {
	static const struct {
		const char *text, *why;
	} bad[] = {
		{ "x {retries} y", "unknown placeholder {retries}; use {retry}, {id}, {class} "
				   "or {client}" },
		{ "{}", "unknown placeholder {}; " },
		{ "{retry", "unknown placeholder {retry; " },
		{ "{RETRY}", "unknown placeholder {RETRY}; " },
		{ "{{id}}", "unknown placeholder {{id}; " },
		{ "{id} { }", "unknown placeholder {\\x20}; " },
	};
	char why[256];

	assert_true(reply_text_check("", why, sizeof(why)));
	assert_true(reply_text_check("{retry}{id}{class}{client} }", why,
	    sizeof(why)));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_false(reply_text_check(bad[i].text, why, sizeof(why)));
		assert_memory_equal(why, bad[i].why, strlen(bad[i].why));
	}
}
