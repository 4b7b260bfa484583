/* SPDX-License-Identifier: ISC */
/* Texts for clients: what may stand in them, and what comes out. */
#include "tests/unit/test.h"
#include "base/reply_text.h"

static char out[REPLY_TEXT_SIZE];

static const char *expand(const char *text, const char *class_name) {
	const struct reply_values values = { .retry_s = 90, .id = "5f3a-1c",
		.class_name = class_name, .client = "2001:db8::7" };

	size_t length = reply_text_expand(out, text, &values);

	assert_int_equal(length, strlen(out));
	return out;
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

static const char *expand_with_id(const char *text) {
	const struct reply_values values = { .id = "5f3a-1c", .needs_id = true };

	(void)reply_text_expand(out, text, &values);
	return out;
}

TEST(an_id_that_is_not_there_is_put_behind) {
	char text[REPLY_TEXT_SIZE];

	assert_string_equal(expand_with_id("no"), "no (id=5f3a-1c)");
	assert_string_equal(expand_with_id("no: {id}"), "no: 5f3a-1c");
	assert_string_equal(expand_with_id("no {ID} {idx} {"), "no {ID} {idx} { (id=5f3a-1c)");
	/* whole, or not at all: 13 characters */
	memset(text, 'x', sizeof(text));
	text[REPLY_TEXT_SIZE - 1 - 13] = '\0';
	assert_int_equal(strlen(expand_with_id(text)), REPLY_TEXT_SIZE - 1);
	assert_memory_equal(out + REPLY_TEXT_SIZE - 1 - 13, " (id=5f3a-1c)", 14);
	text[REPLY_TEXT_SIZE - 1 - 13] = 'x';
	text[REPLY_TEXT_SIZE - 13] = '\0';
	assert_string_equal(expand_with_id(text), text);
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
