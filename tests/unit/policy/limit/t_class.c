/* SPDX-License-Identifier: ISC */
/* First match and cover, by example. */
#include "tests/unit/test.h"
#include "policy/limit/class.h"
#include "policy/limit/class_internal.h"
#include "tests/unit/policy/limit/class_set.h"
#include "tests/unit/policy/limit/naive_class.h"
#include "tests/unit/random.h"

static struct address parse(const char *text) {
	struct address address = { { 0 } };

	if (text != NULL)
		assert_true(address_parse(text, strlen(text), &address));
	return address;
}

static struct set set;		/* of the test that runs */

static int end_set(void **state) {
	set_free(&set);
	set = (struct set){ 0 };
	return 0;
}

/* Masks of rules 0, 1 and so on; behind the last: NULL. */
static void use_masks(const char *const *masks) {
	uint32_t count = 0;

	while (masks[count] != NULL)
		count++;
	set = set_new(count);
	for (uint32_t i = 0; i < count; i++)
		assert_true(set_add(&set, masks[i]));
	set_build(&set);
}

static uint32_t match(const char *address, const char *name) {
	struct address parsed = parse(address);

	return class_index_match(set.index, &parsed, name,
	    name != NULL ? strlen(name) : 0);
}

TEST_IN(NULL, end_set, first_match_whatever_the_kind) {
	use_masks((const char *const[]){ "mx.example.com", "198.51.100.7", "*.example.com",
	    "198.51.100.0/24", "2001:db8::/32", "dialup.*", "10.*", "host.example.net",
	    "mx.example.com", NULL });

	assert_int_equal(match("192.0.2.1", "mx.example.com"), 0);
	assert_int_equal(match("192.0.2.1", "MX.EXAMPLE.com."), 0);
	assert_int_equal(match("198.51.100.7", "mx.example.com"), 0);
	assert_int_equal(match("198.51.100.7", "other.example.com"), 1);
	assert_int_equal(match("198.51.100.8", "other.example.com"), 2);
	assert_int_equal(match("198.51.100.8", "example.com"), 2);
	assert_int_equal(match("198.51.100.8", "badexample.com"), 3);
	assert_int_equal(match("198.51.100.8", "com"), 3);
	assert_int_equal(match("198.51.100.8", NULL), 3);
	assert_int_equal(match("::ffff:198.51.100.8", NULL), 3);
	assert_int_equal(match("198.51.101.0", NULL), CLASS_NO_RULE);
	assert_int_equal(match("198.51.99.255", NULL), CLASS_NO_RULE);
	assert_int_equal(match("2001:db8:ffff::", "a.b"), 4);
	assert_int_equal(match("2001:db9::", "dialup.b"), 5);
	assert_int_equal(match("2001:db9::", "dialup"), CLASS_NO_RULE);
	assert_int_equal(match("2001:db9::", "dialup."), CLASS_NO_RULE);
	assert_int_equal(match("2001:db9::", "dialup1.b"), CLASS_NO_RULE);
	assert_int_equal(match("10.255.255.255", NULL), 6);
	assert_int_equal(match(NULL, NULL), CLASS_NO_RULE);
}

TEST_IN(NULL, end_set, a_name_never_enters_an_address_class) {
	use_masks((const char *const[]){ "192.0.2.*", "203.0.113.9", "::/0", NULL });
	assert_int_equal(match("198.51.100.1", "192.0.2.evil.example"), CLASS_NO_RULE);
	assert_int_equal(match("198.51.100.1", "192.0.2.1"), CLASS_NO_RULE);
	assert_int_equal(match("198.51.100.1", "203.0.113.9"), CLASS_NO_RULE);
	assert_int_equal(match("192.0.2.77", "a.example"), 0);
	/* ::/0 is all of IPv6 and nothing of IPv4, and not what is unknown. */
	assert_int_equal(match("2001:db8::1", NULL), 2);
	assert_int_equal(match(NULL, NULL), CLASS_NO_RULE);
}

TEST_IN(NULL, end_set, star_takes_even_the_unknown) {
	use_masks((const char *const[]){ "a.example", "*", "b.example", "*", NULL });
	assert_int_equal(match(NULL, NULL), 1);
	assert_int_equal(match(NULL, ""), 1);
	assert_int_equal(match(NULL, "."), 1);
	assert_int_equal(match(NULL, "a.example"), 0);
	assert_int_equal(match("192.0.2.1", "b.example"), 1);
	assert_int_equal(class_index_match(set.index, NULL, NULL, 0), 1);
}

TEST_IN(NULL, end_set, long_and_odd_names) {
	char name[600];

	use_masks((const char *const[]){ "*.a-label-of-more-than-19-bytes-1.example",
	    "*.a-label-of-more-than-19-bytes-2.example", "*.example",
	    "nineteen-bytes-here.test", NULL });
	assert_int_equal(match(NULL, "x.A-label-of-more-than-19-bytes-1.example"), 0);
	assert_int_equal(match(NULL, "a-label-of-more-than-19-bytes-2.Example"), 1);
	assert_int_equal(match(NULL, "a-label-of-more-than-19-bytes-3.example"), 2);
	assert_int_equal(match(NULL, "a-label-of-more-than-19-bytes-.example"), 2);
	assert_int_equal(match(NULL, "nineteen-bytes-here.test"), 3);
	assert_int_equal(match(NULL, "nineteen-bytes-heree.test"), CLASS_NO_RULE);
	assert_int_equal(match(NULL, ".example"), 2);
	assert_int_equal(match(NULL, "..example"), 2);
	assert_int_equal(match(NULL, "example.."), CLASS_NO_RULE);
	memset(name, '.', sizeof name);
	memcpy(name + 248, "example", 7);
	assert_int_equal(class_index_match(set.index, NULL, name, 255), 2);
	assert_int_equal(class_index_match(set.index, NULL, name, 256), 2);	/* a dot more */
	assert_int_equal(class_index_match(set.index, NULL, name, 257), CLASS_NO_RULE);
	assert_int_equal(class_index_match(set.index, NULL, name, 600), CLASS_NO_RULE);
	memcpy(name + 249, "example", 7);
	assert_int_equal(class_index_match(set.index, NULL, name, 256), CLASS_NO_RULE);
}

TEST_IN(NULL, end_set, edges_of_the_address_space) {
	use_masks((const char *const[]){ "255.255.255.255", "255.255.255.0/24", "0.0.0.0",
	    "0.0.0.0/1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
	    "ffff:ffff:ffff:ffff::/64", "2001:db8:0:1:ffff:ffff:ffff:ffff", "::1",
	    "8000::/1", NULL });
	assert_int_equal(match("255.255.255.255", NULL), 0);
	assert_int_equal(match("255.255.255.254", NULL), 1);
	assert_int_equal(match("255.255.254.255", NULL), CLASS_NO_RULE);
	assert_int_equal(match("0.0.0.0", NULL), 2);
	assert_int_equal(match("0.0.0.1", NULL), 3);
	assert_int_equal(match("127.255.255.255", NULL), 3);
	assert_int_equal(match("128.0.0.0", NULL), CLASS_NO_RULE);
	assert_int_equal(match("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", NULL), 4);
	assert_int_equal(match("ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe", NULL), 5);
	assert_int_equal(match("ffff:ffff:ffff:fffe:ffff:ffff:ffff:ffff", NULL), 8);
	assert_int_equal(match("2001:db8:0:1:ffff:ffff:ffff:ffff", NULL), 6);
	assert_int_equal(match("2001:db8:0:1:ffff:ffff:ffff:fffe", NULL), CLASS_NO_RULE);
	assert_int_equal(match("2001:db8:0:2::", NULL), CLASS_NO_RULE);
	assert_int_equal(match("::1", NULL), 7);
	assert_int_equal(match("::2", NULL), CLASS_NO_RULE);
}

TEST_IN(NULL, end_set, rules_left_out) {
	set = set_new(4);
	assert_true(set_add(&set, "*"));
	assert_true(set_add(&set, "a.example"));
	assert_true(set_add(&set, "192.0.2.0/24"));
	assert_true(set_add(&set, "*.example"));
	set.rules[0].left_out = set.rules[1].left_out = set.rules[2].left_out = true;
	set_build(&set);
	assert_int_equal(match("192.0.2.1", "a.example"), 3);
	assert_int_equal(match("192.0.2.1", NULL), CLASS_NO_RULE);
}

TEST_IN(NULL, end_set, no_rules) {
	struct mask mask;
	const char *why;

	set = set_new(0);
	set_build(&set);
	assert_int_equal(match("192.0.2.1", "a.example"), CLASS_NO_RULE);
	assert_int_equal(match("2001:db8::1", NULL), CLASS_NO_RULE);
	assert_true(mask_parse("a.example", 9, &mask, &why));
	assert_int_equal(class_index_cover(set.index, &mask), CLASS_NO_RULE);
	assert_true(mask_parse("10.*", 4, &mask, &why));
	assert_int_equal(class_index_cover(set.index, &mask), CLASS_NO_RULE);
	assert_true(mask_parse("*", 1, &mask, &why));
	assert_int_equal(class_index_cover(set.index, &mask), CLASS_NO_RULE);
}

TEST_IN(NULL, end_set, too_small_a_block_is_refused) {
	size_t most, scratch_bytes;
	uint64_t *block, scratch[64];

	set = set_new(4);
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
}

/* --- indexes that others wrote -------------------------------------------------- */

#define MASKS	3000

/* Of names and networks, wide ones too, as many as three levels of a tree have. */
static int use_many_masks(void **state) {
	char text[128];

	set = set_new(3 * MASKS);
	for (unsigned i = 0; i < MASKS; i++) {
		snprintf(text, sizeof text, "%s%u.a-label-of-more-than-19-bytes-%u.example",
		    i % 3 == 0 ? "*." : "", i, i % 100);
		assert_true(set_add(&set, text));
		snprintf(text, sizeof text, "10.%u.%u.0/24", i / 250, i % 250);
		assert_true(set_add(&set, text));
		snprintf(text, sizeof text, "2001:db8::%x:0:0/112", i);
		assert_true(set_add(&set, text));
	}
	set_build(&set);
	return 0;
}

static void look_everywhere(void) {
	static const char *const names[] = { "example", "7.a-label-of-more-than-19-bytes-7.example",
		"x.9.a-label-of-more-than-19-bytes-9.example", "mail.7", "." };
	static const char *const addresses[] = { "10.1.2.3", "0.0.0.0", "255.255.255.255",
		"2001:db8::5:0:1", "::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff" };
	struct mask mask;
	const char *why;

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		(void)class_index_match(set.index, NULL, names[i], strlen(names[i]));
		if (mask_parse(names[i], strlen(names[i]), &mask, &why))
			(void)class_index_cover(set.index, &mask);
	}
	for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++) {
		struct address address;

		assert_true(address_parse(addresses[i], strlen(addresses[i]), &address));
		(void)class_index_match(set.index, &address, NULL, 0);
		assert_true(mask_parse(addresses[i], strlen(addresses[i]), &mask, &why));
		(void)class_index_cover(set.index, &mask);
	}
}

/* Without a free slot a name that is not there would be sought for ever. */
TEST_IN(use_many_masks, end_set, a_full_table_of_names_is_not_sound) {
	const struct name_table *table = (const struct name_table *)(const void *)
	    ((const char *)set.index + 16);
	struct name_slot *slots = (struct name_slot *)(void *)
	    ((char *)set.index + table->slots);

	assert_true(table->slot_count > MASKS && table->slots < set.bytes);
	look_everywhere();
	for (uint32_t i = 0; i < table->slot_count; i++)
		if (slots[i].length == 0)
			slots[i].length = 1;
	assert_false(class_index_is_sound(set.index, set.bytes));
	/* one is free: sound, but for how long one looks for it */
	slots[0].length = 0;
	assert_int_equal(class_index_is_sound(set.index, set.bytes),
	    table->slot_count <= 4096);
}

TEST_IN(use_many_masks, end_set, an_index_that_is_cut_is_not_sound) {
	assert_false(class_index_is_sound(set.index, 0));
	assert_false(class_index_is_sound(set.index, set.bytes / 2));
	assert_false(class_index_is_sound(set.index, set.bytes - 64));
}

/* Whatever stands in an index that is sound: all lookups end, and stay within it (ASan). */
TEST_IN(use_many_masks, end_set, lookups_in_a_spoiled_index_that_is_sound_end) {
	static const uint32_t edges[] = { 0, 1, 2, 0x7fffffff, 0x80000000, UINT32_MAX,
		UINT32_MAX - 1, 64 };
	struct random random = { random_seed() };
	unsigned char *pristine = malloc(set.bytes);
	unsigned sound = 0;

	assert_non_null(pristine);
	memcpy(pristine, set.index, set.bytes);
	for (unsigned round = 0; round < 4000; round++) {
		uint32_t words = (uint32_t)(set.bytes / 4), changes = 1 + random_below(&random, 3);

		memcpy(set.index, pristine, set.bytes);
		while (changes-- > 0) {
			/* mostly the header, which is small */
			uint32_t at = random_below(&random, round % 4 == 0 ? words : 64);
			uint32_t value = edges[random_below(&random, 8)];

			memcpy((char *)set.index + (size_t)at * 4, &value, 4);
		}
		if (!class_index_is_sound(set.index, set.bytes))
			continue;
		sound++;
		look_everywhere();
	}
	assert_true(sound > 100 && sound < 3900);
	free(pristine);
}

TEST_IN(NULL, end_set, covers) {
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

	set = set_new(16);
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
}
