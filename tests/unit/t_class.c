/* SPDX-License-Identifier: ISC */
/* Masks and first match: by table, against a matcher without index, and large. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "policy/class.h"
#include "tests/unit/naive_class.h"
#include "tests/unit/random.h"

/* A set of rules with the texts they point into, and its index. */
struct set {
	struct class_rule *rules;
	char (*texts)[300];
	uint32_t count;
	void *index;
	size_t bytes;
};

static struct set set_new(uint32_t room)
{
	struct set set = { 0 };

	set.rules = calloc(room ? room : 1, sizeof *set.rules);
	set.texts = calloc(room ? room : 1, sizeof *set.texts);
	assert_non_null(set.rules);
	assert_non_null(set.texts);
	return set;
}

static bool set_add(struct set *set, const char *text)
{
	const char *why = NULL;
	size_t length = strlen(text);

	assert_true(length < sizeof set->texts[0]);
	memcpy(set->texts[set->count], text, length + 1);
	if (!mask_parse(set->texts[set->count], length,
	    &set->rules[set->count].mask, &why)) {
		assert_non_null(why);
		return false;
	}
	set->count++;
	return true;
}

/* The index in a block of exactly its size, so that ASan sees a step outside. */
static void set_build(struct set *set)
{
	size_t most, scratch_bytes;
	void *block, *scratch;

	class_index_measure(set->rules, set->count, &most, &scratch_bytes);
	block = malloc(most);
	scratch = malloc(scratch_bytes ? scratch_bytes : 1);
	assert_non_null(block);
	assert_non_null(scratch);
	memset(block, 0xa5, most);
	set->bytes = class_index_build(set->rules, set->count, block, most,
	    scratch, scratch_bytes);
	assert_true(set->bytes > 0 && set->bytes <= most);
	set->index = malloc(set->bytes);
	assert_non_null(set->index);
	memcpy(set->index, block, set->bytes);
	memset(block, 0x5a, most);
	free(block);
	free(scratch);
}

static void set_free(struct set *set)
{
	free(set->rules);
	free(set->texts);
	free(set->index);
}

static struct address parse(const char *text)
{
	struct address address = { { 0 } };

	if (text != NULL)
		assert_true(address_parse(text, strlen(text), &address));
	return address;
}

static uint32_t match(const struct set *set, const char *address, const char *name)
{
	struct address parsed = parse(address);

	return class_index_match(set->index, &parsed, name,
	    name != NULL ? strlen(name) : 0);
}

/* Masks */

static void masks_of_every_kind(void **state)
{
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

	(void)state;
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

static void bad_masks_say_why(void **state)
{
	static const struct {
		const char *text;
		const char *why;	/* a word of the explanation */
	} cases[] = {
		{ "", "empty" },
		{ "*.", "empty label" },
		{ ".", "empty label" },
		{ ".example.com", "empty label" },
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

	(void)state;
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

static void mask_lengths(void **state)
{
	char text[300];
	struct mask mask;
	const char *why = NULL;

	(void)state;
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

/* First match */

static void first_match_whatever_the_kind(void **state)
{
	struct set set = set_new(16);

	(void)state;
	assert_true(set_add(&set, "mx.example.com"));		/* 0 */
	assert_true(set_add(&set, "198.51.100.7"));		/* 1 */
	assert_true(set_add(&set, "*.example.com"));		/* 2 */
	assert_true(set_add(&set, "198.51.100.0/24"));		/* 3 */
	assert_true(set_add(&set, "2001:db8::/32"));		/* 4 */
	assert_true(set_add(&set, "dialup.*"));			/* 5 */
	assert_true(set_add(&set, "10.*"));			/* 6 */
	assert_true(set_add(&set, "host.example.net"));		/* 7 */
	assert_true(set_add(&set, "mx.example.com"));		/* 8 */
	set_build(&set);

	assert_int_equal(match(&set, "192.0.2.1", "mx.example.com"), 0);
	assert_int_equal(match(&set, "192.0.2.1", "MX.EXAMPLE.com."), 0);
	assert_int_equal(match(&set, "198.51.100.7", "mx.example.com"), 0);
	assert_int_equal(match(&set, "198.51.100.7", "other.example.com"), 1);
	assert_int_equal(match(&set, "198.51.100.8", "other.example.com"), 2);
	assert_int_equal(match(&set, "198.51.100.8", "example.com"), 2);
	assert_int_equal(match(&set, "198.51.100.8", "badexample.com"), 3);
	assert_int_equal(match(&set, "198.51.100.8", "com"), 3);
	assert_int_equal(match(&set, "198.51.100.8", NULL), 3);
	assert_int_equal(match(&set, "::ffff:198.51.100.8", NULL), 3);
	assert_int_equal(match(&set, "198.51.101.0", NULL), CLASS_NO_RULE);
	assert_int_equal(match(&set, "198.51.99.255", NULL), CLASS_NO_RULE);
	assert_int_equal(match(&set, "2001:db8:ffff::", "a.b"), 4);
	assert_int_equal(match(&set, "2001:db9::", "dialup.b"), 5);
	assert_int_equal(match(&set, "2001:db9::", "dialup"), CLASS_NO_RULE);
	assert_int_equal(match(&set, "2001:db9::", "dialup."), CLASS_NO_RULE);
	assert_int_equal(match(&set, "2001:db9::", "dialup1.b"), CLASS_NO_RULE);
	assert_int_equal(match(&set, "10.255.255.255", NULL), 6);
	assert_int_equal(match(&set, NULL, NULL), CLASS_NO_RULE);
	set_free(&set);
}

static void a_name_never_enters_an_address_class(void **state)
{
	struct set set = set_new(4);

	(void)state;
	assert_true(set_add(&set, "192.0.2.*"));
	assert_true(set_add(&set, "203.0.113.9"));
	assert_true(set_add(&set, "::/0"));
	set_build(&set);
	assert_int_equal(match(&set, "198.51.100.1", "192.0.2.evil.example"), CLASS_NO_RULE);
	assert_int_equal(match(&set, "198.51.100.1", "192.0.2.1"), CLASS_NO_RULE);
	assert_int_equal(match(&set, "198.51.100.1", "203.0.113.9"), CLASS_NO_RULE);
	assert_int_equal(match(&set, "192.0.2.77", "a.example"), 0);
	/* ::/0 is all of IPv6 and nothing of IPv4, and not what is unknown. */
	assert_int_equal(match(&set, "2001:db8::1", NULL), 2);
	assert_int_equal(match(&set, NULL, NULL), CLASS_NO_RULE);
	set_free(&set);
}

static void star_takes_even_the_unknown(void **state)
{
	struct set set = set_new(4);

	(void)state;
	assert_true(set_add(&set, "a.example"));
	assert_true(set_add(&set, "*"));
	assert_true(set_add(&set, "b.example"));
	assert_true(set_add(&set, "*"));
	set_build(&set);
	assert_int_equal(match(&set, NULL, NULL), 1);
	assert_int_equal(match(&set, NULL, ""), 1);
	assert_int_equal(match(&set, NULL, "."), 1);
	assert_int_equal(match(&set, NULL, "a.example"), 0);
	assert_int_equal(match(&set, "192.0.2.1", "b.example"), 1);
	assert_int_equal(class_index_match(set.index, NULL, NULL, 0), 1);
	set_free(&set);
}

static void long_and_odd_names(void **state)
{
	struct set set = set_new(8);
	char name[600];

	(void)state;
	assert_true(set_add(&set, "*.a-label-of-more-than-19-bytes-1.example"));
	assert_true(set_add(&set, "*.a-label-of-more-than-19-bytes-2.example"));
	assert_true(set_add(&set, "*.example"));
	assert_true(set_add(&set, "nineteen-bytes-here.test"));
	set_build(&set);
	assert_int_equal(match(&set, NULL, "x.A-label-of-more-than-19-bytes-1.example"), 0);
	assert_int_equal(match(&set, NULL, "a-label-of-more-than-19-bytes-2.Example"), 1);
	assert_int_equal(match(&set, NULL, "a-label-of-more-than-19-bytes-3.example"), 2);
	assert_int_equal(match(&set, NULL, "a-label-of-more-than-19-bytes-.example"), 2);
	assert_int_equal(match(&set, NULL, "nineteen-bytes-here.test"), 3);
	assert_int_equal(match(&set, NULL, "nineteen-bytes-heree.test"), CLASS_NO_RULE);
	assert_int_equal(match(&set, NULL, ".example"), 2);
	assert_int_equal(match(&set, NULL, "..example"), 2);
	assert_int_equal(match(&set, NULL, "example.."), CLASS_NO_RULE);
	memset(name, '.', sizeof name);
	memcpy(name + 248, "example", 7);
	assert_int_equal(class_index_match(set.index, NULL, name, 255), 2);
	assert_int_equal(class_index_match(set.index, NULL, name, 256), 2);	/* a dot more */
	assert_int_equal(class_index_match(set.index, NULL, name, 257), CLASS_NO_RULE);
	assert_int_equal(class_index_match(set.index, NULL, name, 600), CLASS_NO_RULE);
	memcpy(name + 249, "example", 7);
	assert_int_equal(class_index_match(set.index, NULL, name, 256), CLASS_NO_RULE);
	set_free(&set);
}

static void edges_of_the_address_space(void **state)
{
	struct set set = set_new(16);

	(void)state;
	assert_true(set_add(&set, "255.255.255.255"));
	assert_true(set_add(&set, "255.255.255.0/24"));
	assert_true(set_add(&set, "0.0.0.0"));
	assert_true(set_add(&set, "0.0.0.0/1"));
	assert_true(set_add(&set, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"));
	assert_true(set_add(&set, "ffff:ffff:ffff:ffff::/64"));
	assert_true(set_add(&set, "2001:db8:0:1:ffff:ffff:ffff:ffff"));
	assert_true(set_add(&set, "::1"));
	assert_true(set_add(&set, "8000::/1"));
	set_build(&set);
	assert_int_equal(match(&set, "255.255.255.255", NULL), 0);
	assert_int_equal(match(&set, "255.255.255.254", NULL), 1);
	assert_int_equal(match(&set, "255.255.254.255", NULL), CLASS_NO_RULE);
	assert_int_equal(match(&set, "0.0.0.0", NULL), 2);
	assert_int_equal(match(&set, "0.0.0.1", NULL), 3);
	assert_int_equal(match(&set, "127.255.255.255", NULL), 3);
	assert_int_equal(match(&set, "128.0.0.0", NULL), CLASS_NO_RULE);
	assert_int_equal(match(&set, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", NULL), 4);
	assert_int_equal(match(&set, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe", NULL), 5);
	assert_int_equal(match(&set, "ffff:ffff:ffff:fffe:ffff:ffff:ffff:ffff", NULL), 8);
	assert_int_equal(match(&set, "2001:db8:0:1:ffff:ffff:ffff:ffff", NULL), 6);
	assert_int_equal(match(&set, "2001:db8:0:1:ffff:ffff:ffff:fffe", NULL), CLASS_NO_RULE);
	assert_int_equal(match(&set, "2001:db8:0:2::", NULL), CLASS_NO_RULE);
	assert_int_equal(match(&set, "::1", NULL), 7);
	assert_int_equal(match(&set, "::2", NULL), CLASS_NO_RULE);
	set_free(&set);
}

static void rules_left_out(void **state)
{
	struct set set = set_new(4);

	(void)state;
	assert_true(set_add(&set, "*"));
	assert_true(set_add(&set, "a.example"));
	assert_true(set_add(&set, "192.0.2.0/24"));
	assert_true(set_add(&set, "*.example"));
	set.rules[0].left_out = set.rules[1].left_out = set.rules[2].left_out = true;
	set_build(&set);
	assert_int_equal(match(&set, "192.0.2.1", "a.example"), 3);
	assert_int_equal(match(&set, "192.0.2.1", NULL), CLASS_NO_RULE);
	set_free(&set);
}

static void no_rules(void **state)
{
	struct set set = set_new(0);
	struct mask mask;
	const char *why;

	(void)state;
	set_build(&set);
	assert_int_equal(match(&set, "192.0.2.1", "a.example"), CLASS_NO_RULE);
	assert_int_equal(match(&set, "2001:db8::1", NULL), CLASS_NO_RULE);
	assert_true(mask_parse("a.example", 9, &mask, &why));
	assert_int_equal(class_index_cover(set.index, &mask), CLASS_NO_RULE);
	assert_true(mask_parse("10.*", 4, &mask, &why));
	assert_int_equal(class_index_cover(set.index, &mask), CLASS_NO_RULE);
	assert_true(mask_parse("*", 1, &mask, &why));
	assert_int_equal(class_index_cover(set.index, &mask), CLASS_NO_RULE);
	set_free(&set);
}

static void too_small_a_block_is_refused(void **state)
{
	struct set set = set_new(4);
	size_t most, scratch_bytes;
	uint64_t *block, scratch[64];

	(void)state;
	assert_true(set_add(&set, "*.example"));
	assert_true(set_add(&set, "10.*"));
	class_index_measure(set.rules, set.count, &most, &scratch_bytes);
	assert_true(scratch_bytes <= sizeof scratch);
	block = calloc(1, most);
	assert_non_null(block);
	assert_int_equal(class_index_build(set.rules, set.count, block, most - 1,
	    scratch, scratch_bytes), 0);
	assert_int_equal(class_index_build(set.rules, set.count, block, most,
	    scratch, scratch_bytes - 1), 0);
	assert_int_equal(class_index_build(set.rules, set.count, block, 0,
	    scratch, scratch_bytes), 0);
	assert_true(class_index_build(set.rules, set.count, block, most,
	    scratch, scratch_bytes) > 0);
	free(block);
	set_free(&set);
}

static void covers(void **state)
{
	static const struct {
		const char *mask;
		uint32_t rule;
	} cases[] = {
		{ "*", 12 },
		{ "a.example.com", 0 }, { "b.example.com", 1 }, { "example.com", 1 },
		{ "*.example.com", 1 }, { "*.x.example.com", 1 },
		{ "*.a.example.com", 1 },		/* the host alone is no domain */
		{ "*.com", 12 }, { "xexample.com", 12 },
		{ "mail.*", 3 }, { "mail.a.*", 3 }, { "mail.foo", 3 },
		{ "mail", 12 }, { "mail1.*", 12 },
		{ "mail.example.com", 1 },		/* by *.example.com, before mail.* */
		{ "10.0.0.0/8", 6 }, { "10.1.0.0/16", 5 }, { "10.1.2.0/24", 5 },
		{ "10.1.2.3", 4 }, { "10.1.2.4", 5 }, { "10.2.0.0/16", 6 },
		{ "10.0.0.0/7", 12 }, { "0.0.0.0/0", 12 },
		/* Two halves take it together, neither alone. */
		{ "192.0.2.0/24", 12 }, { "192.0.2.0/26", 7 }, { "192.0.2.128/26", 8 },
		{ "2001:db8::/32", 9 }, { "2001:db8::1", 9 }, { "2001:db9::/33", 10 },
		{ "::/0", 12 }, { "::ffff:0:0/96", 12 },
	};
	static const char *const rules[] = {
		"a.example.com", "*.example.com", "*.a.example.com", "mail.*",
		"10.1.2.3", "10.1.0.0/16", "10.*", "192.0.2.0/25", "192.0.2.128/25",
		"2001:db8::/32", "2001:db8::/31", "2001:db8:1::/48", "*",
	};
	struct set set = set_new(16);

	(void)state;
	for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
		assert_true(set_add(&set, rules[i]));
	set_build(&set);
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct mask mask;
		const char *why;

		print_message("%s\n", cases[i].mask);
		assert_true(mask_parse(cases[i].mask, strlen(cases[i].mask), &mask, &why));
		assert_int_equal(class_index_cover(set.index, &mask), cases[i].rule);
		assert_int_equal(naive_cover(set.rules, set.count, &mask), cases[i].rule);
	}
	set_free(&set);
}

/* Random rules over few labels and bits, so that much collides. */

static const char *const labels[] = {
	"a", "b", "A", "ab", "xn--1", "10", "192", "_x", "nineteen-bytes-here",
	"a-label-of-more-than-19-bytes-1", "a-label-of-more-than-19-bytes-2",
	"a-label-of-more", "eightbyt", "sevenby",
};
#define LABELS (sizeof labels / sizeof labels[0])

static size_t random_name(struct random *random, char *out)
{
	uint32_t count = 1 + random_below(random, 4);
	uint32_t alphabet = random_below(random, 3) == 0 ? LABELS : 3;
	size_t length = 0;

	for (uint32_t i = 0; i < count; i++) {
		const char *label = labels[random_below(random, alphabet)];

		if (i > 0)
			out[length++] = '.';
		memcpy(out + length, label, strlen(label));
		length += strlen(label);
	}
	out[length] = '\0';
	return length;
}

static void random_address(struct random *random, struct address *address)
{
	static const uint8_t bytes[] = { 0, 0, 0, 0xff, 0xff, 1, 0x80, 0x20 };

	memset(address, 0, sizeof *address);
	if (random_below(random, 2) == 0)
		address->bytes[10] = address->bytes[11] = 0xff;
	else
		for (int i = 0; i < 12; i++)
			address->bytes[i] = bytes[random_below(random, 8)];
	for (int i = 12; i < 16; i++)
		address->bytes[i] = bytes[random_below(random, 8)];
}

static void random_mask(struct random *random, char *out)
{
	struct prefix prefix;

	switch (random_below(random, 12)) {
	case 0:
		if (random_below(random, 8) == 0) {
			memcpy(out, "*", 2);
			return;
		}
		/* fall through */
	case 1:
	case 2:
		random_name(random, out);
		return;
	case 3:
	case 4:
		memcpy(out, "*.", 2);
		random_name(random, out + 2);
		return;
	case 5:
	case 6:
		memcpy(out + random_name(random, out), ".*", 3);
		return;
	default:
		random_address(random, &prefix.base);
		prefix.bits = (uint8_t)(address_is_v4(&prefix.base) ?
		    96 + random_below(random, 33) : random_below(random, 129));
		address_truncate(&prefix.base, prefix.bits);
		prefix_format(&prefix, out);
	}
}

static void compare_once(struct random *random, const struct set *set)
{
	struct address address;
	char name[300];
	size_t length = random_name(random, name);
	uint32_t expected;
	const char *asked = random_below(random, 8) == 0 ? NULL : name;

	random_address(random, &address);
	if (random_below(random, 16) == 0)
		memset(&address, 0, sizeof address);
	if (random_below(random, 4) == 0)
		name[length++] = '.';
	/* Also the borders of the rules themselves. */
	if (set->count > 0 && random_below(random, 2) == 0) {
		const struct mask *mask =
		    &set->rules[random_below(random, set->count)].mask;

		if (mask->kind == MASK_ADDRESS) {
			address = mask->prefix.base;
			if (random_below(random, 2) == 0)
				for (unsigned bit = mask->prefix.bits; bit < 128; bit++)
					address.bytes[bit / 8] |= (uint8_t)(0x80 >> bit % 8);
			if (random_below(random, 4) == 0)
				address.bytes[15] ^= 1;
		}
	}
	expected = naive_match(set->rules, set->count, &address, asked,
	    asked != NULL ? length : 0);
	assert_int_equal(class_index_match(set->index, &address, asked,
	    asked != NULL ? length : 0), expected);
}

static void random_sets_agree_with_naive(void **state)
{
	struct random random = random_seeded("random_sets_agree_with_naive");

	(void)state;
	for (int round = 0; round < 3000; round++) {
		uint32_t room = random_below(&random, 10) == 0 ? 300 : 30;
		uint32_t wanted = random_below(&random, room);
		struct set set = set_new(room);

		while (set.count < wanted) {
			char text[300];

			random_mask(&random, text);
			if (set_add(&set, text))
				set.rules[set.count - 1].left_out =
				    random_below(&random, 10) == 0;
		}
		set_build(&set);
		for (int i = 0; i < 100; i++)
			compare_once(&random, &set);
		for (uint32_t i = 0; i < set.count; i++) {
			uint32_t cover = class_index_cover(set.index, &set.rules[i].mask);

			assert_int_equal(cover,
			    naive_cover(set.rules, set.count, &set.rules[i].mask));
			if (!set.rules[i].left_out)
				assert_true(cover <= i);
		}
		set_free(&set);
	}
}

static void equal_rules_give_equal_indexes(void **state)
{
	struct random random = random_seeded("equal_rules_give_equal_indexes");
	struct set one = set_new(500), other = set_new(500);

	(void)state;
	while (one.count < 500) {
		char text[300];

		random_mask(&random, text);
		if (set_add(&one, text))
			assert_true(set_add(&other, text));
	}
	set_build(&one);
	set_build(&other);
	assert_int_equal(one.bytes, other.bytes);
	assert_memory_equal(one.index, other.index, one.bytes);
	set_free(&one);
	set_free(&other);
}

/* 100,000 rules: each is asked by what it names, a sample against the naive. */
static void hundred_thousand_rules(void **state)
{
	struct random random = random_seeded("hundred_thousand_rules");
	const uint32_t wanted = 100000;
	struct set set = set_new(wanted);
	char text[300];

	(void)state;
	while (set.count < wanted) {
		uint32_t n = set.count, a = random_below(&random, 1u << 24);

		switch (n % 5) {
		case 0:
			snprintf(text, sizeof text, "mx%u.dom%u.example", n, a % 20000);
			break;
		case 1:
			snprintf(text, sizeof text, "*.dom%u.test", a % 60000);
			break;
		case 2:
			snprintf(text, sizeof text, "%u.%u.%u.0/24", a >> 16, a >> 8 & 255,
			    a & 255);
			break;
		case 3:
			snprintf(text, sizeof text, "2001:%x:%x::/48", a >> 16, a & 0xffff);
			break;
		default:
			snprintf(text, sizeof text, "pool%u.*", a % 50000);
		}
		assert_true(set_add(&set, text));
	}
	set_build(&set);
	print_message("%zu bytes\n", set.bytes);
	for (uint32_t i = 0; i < wanted; i++) {
		const struct mask *mask = &set.rules[i].mask;
		uint32_t found;

		if (mask->kind == MASK_ADDRESS) {
			found = class_index_match(set.index, &mask->prefix.base, NULL, 0);
		} else {
			snprintf(text, sizeof text, "%.*s%s", (int)mask->name_length,
			    mask->name, mask->kind == MASK_NAME_PREFIX ? ".net" : "");
			found = class_index_match(set.index, NULL, text, strlen(text));
		}
		assert_true(found <= i);
		assert_int_equal(found, class_index_cover(set.index, mask));
		if (i % 100 == 0)
			assert_int_equal(found, naive_cover(set.rules, set.count, mask));
	}
	set_free(&set);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(masks_of_every_kind),
		cmocka_unit_test(bad_masks_say_why),
		cmocka_unit_test(mask_lengths),
		cmocka_unit_test(first_match_whatever_the_kind),
		cmocka_unit_test(a_name_never_enters_an_address_class),
		cmocka_unit_test(star_takes_even_the_unknown),
		cmocka_unit_test(long_and_odd_names),
		cmocka_unit_test(edges_of_the_address_space),
		cmocka_unit_test(rules_left_out),
		cmocka_unit_test(no_rules),
		cmocka_unit_test(too_small_a_block_is_refused),
		cmocka_unit_test(covers),
		cmocka_unit_test(random_sets_agree_with_naive),
		cmocka_unit_test(equal_rules_give_equal_indexes),
		cmocka_unit_test(hundred_thousand_rules),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
