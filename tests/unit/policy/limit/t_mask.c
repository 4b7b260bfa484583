/* SPDX-License-Identifier: ISC */
/* Masks from text: every kind, and every mistake with its reason. */
#include "tests/unit/test.h"
#include "policy/limit/class.h"

TEST(masks_of_every_kind) {
	static const struct {
		const char *text;
		enum mask_kind kind;
		const char *rest;	/* the name, or the prefix as formatted */
	} cases[] = {
		{ "*", MASK_ALL, "" },
		{ "mx.Example.COM", MASK_NAME, "mx.Example.COM" },
		{ "mx.example.com.", MASK_NAME, "mx.example.com" },
		{ "localhost", MASK_NAME, "localhost" },
		{ "_srv.example-1.com", MASK_NAME, "_srv.example-1.com" },
		{ "1.example.com", MASK_NAME, "1.example.com" },
		{ "*.example.com", MASK_DOMAIN, "example.com" },
		{ "*.example.com.", MASK_DOMAIN, "example.com" },
		{ "*.com", MASK_DOMAIN, "com" },
		{ "mail.*", MASK_NAME_PREFIX, "mail" },
		{ "mail.example.*", MASK_NAME_PREFIX, "mail.example" },
		{ "10a.*", MASK_NAME_PREFIX, "10a" },
		{ "10.*", MASK_ADDRESS, "10.0.0.0/8" },
		{ "192.0.*", MASK_ADDRESS, "192.0.0.0/16" },
		{ "192.0.2.*", MASK_ADDRESS, "192.0.2.0/24" },
		{ "192.0.2.1", MASK_ADDRESS, "192.0.2.1/32" },
		{ "[192.0.2.1]", MASK_ADDRESS, "192.0.2.1/32" },
		{ "192.0.2.0/25", MASK_ADDRESS, "192.0.2.0/25" },
		{ "0.0.0.0/0", MASK_ADDRESS, "0.0.0.0/0" },
		{ "2001:db8::1", MASK_ADDRESS, "2001:db8::1/128" },
		{ "[2001:DB8::1]", MASK_ADDRESS, "2001:db8::1/128" },
		{ "[IPv6:2001:db8::1]", MASK_ADDRESS, "2001:db8::1/128" },
		{ "2001:db8::/32", MASK_ADDRESS, "2001:db8::/32" },
		{ "::/0", MASK_ADDRESS, "::/0" },
		{ "::ffff:192.0.2.0/120", MASK_ADDRESS, "192.0.2.0/24" },
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct mask mask;
		const char *why = NULL;
		char text[ADDRESS_TEXT_MAX];

		print_message("%s\n", cases[i].text);
		assert_true(mask_parse(cases[i].text, strlen(cases[i].text), &mask, &why));
		assert_int_equal(mask.kind, cases[i].kind);
		if (mask.kind == MASK_ADDRESS) {
			prefix_format(&mask.prefix, text);
			assert_string_equal(text, cases[i].rest);
		} else {
			assert_int_equal(mask.name_length, strlen(cases[i].rest));
			assert_memory_equal(mask.name != NULL ? mask.name : "",
			    cases[i].rest, mask.name_length);
		}
	}
}

TEST(bad_masks_say_why) {
	static const struct {
		const char *text;
		const char *why;	/* a word of the explanation */
	} cases[] = {
		{ "", "empty" },
		{ "*.", "empty label" },
		{ ".", "empty label" },
		{ ".customer.example", "*.domain" },
		{ "..example.com", "empty label" },
		/* no host has such a name */
		{ "10.0.0.0-10.0.0.255", "as prefixes" },
		{ "10.0.0.0-255", "as prefixes" },
		{ "!192.0.2.1", "negated" },
		{ "!*.example", "negated" },
		{ "a!b.example", "letters, digits" },
		{ "a=b", "letters, digits" },
		{ "$mydomain", "letters, digits" },
		{ "hash:/etc/postfix/customers", "lookup tables" },
		{ "/etc/postfix/customers", "lookup tables" },
		{ "a..b", "empty label" },
		{ "a.b..", "empty label" },
		{ "*..b", "empty label" },
		{ ".*", "empty label" },
		{ "a..*", "empty label" },
		{ "**", "'*'" },
		{ "*a", "'*'" },
		{ "pre*", "'*'" },
		{ "a.*.b", "'*'" },
		{ "*.*", "'*'" },
		{ "*.a.*", "'*'" },
		{ "mail.*.", "'*'" },
		{ "a b", "space" },
		{ " a", "space" },
		{ "a\n", "control" },
		{ "a\x7f", "control" },
		{ "a\tb", "control" },
		{ "m\xc3\xbcnchen.example", "xn--" },
		{ "a@example.com", "mail addresses" },
		{ "a.example,b.example", "comma" },
		{ "a/b.example", "address" },
		{ "a]b", "brackets" },
		{ "[a", "address" },
		{ "[192.0.2.*", "'*'" },
		{ "2001:db8:*", "2001:db8::/32" },
		{ "192.0.2", "whole IPv4 address" },
		{ "192.0.2.1.5", "whole IPv4 address" },
		{ "192.0.2.256", "whole IPv4 address" },
		{ "192.0.02.1", "whole IPv4 address" },
		{ "25", "whole IPv4 address" },
		{ "192.0.2.1/24", "beyond" },
		{ "192.0.2.0/33", "0 to 32" },
		{ "192.0.2.0/", "0 to 32" },
		{ "192.0.2.0/024", "0 to 32" },
		{ "2001:db8::/129", "0 to 128" },
		{ "2001:db8::1/64", "beyond" },
		{ "::ffff:192.0.2.0/24", "96 to 128" },
		{ "1.2.3.4.*", "one to three" },
		{ "300.*", "one to three" },
		{ "01.*", "one to three" },
		{ "10..*", "one to three" },
		{ "10000000000000000000000000000000000000000000000000000000000000.*",
		    "one to three" },
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct mask mask;
		const char *why = NULL;

		print_message("\"%s\"\n", cases[i].text);
		assert_false(mask_parse(cases[i].text, strlen(cases[i].text), &mask, &why));
		assert_non_null(why);
		print_message("\t%s\n", why);
		assert_non_null(strstr(why, cases[i].why));
	}
}

TEST(mask_lengths) {
	char text[300];
	struct mask mask;
	const char *why = NULL;

	memset(text, 'a', sizeof text);
	assert_true(mask_parse(text, 63, &mask, &why));
	assert_false(mask_parse(text, 64, &mask, &why));
	assert_non_null(strstr(why, "63"));
	for (size_t i = 50; i < sizeof text; i += 51)
		text[i] = '.';
	assert_true(mask_parse(text, 254, &mask, &why));
	assert_false(mask_parse(text, 257, &mask, &why));
	assert_non_null(strstr(why, "255"));
	/* A NUL is a control character, not an end. */
	assert_false(mask_parse("a\0b", 3, &mask, &why));
	assert_non_null(strstr(why, "control"));
}
