/* SPDX-License-Identifier: ISC */
/* First match and cover against a matcher without index: random rules over few
 * labels and bits, so that much collides; and 100,000 rules once. */
#include "tests/unit/test.h"
#include "tests/unit/policy/limit/class_set.h"
#include "tests/unit/policy/limit/naive_class.h"
#include "tests/unit/random.h"

static const char *const labels[] = {
	"a", "b", "A", "ab", "xn--1", "10", "192", "_x", "nineteen-bytes-here",
	"a-label-of-more-than-19-bytes-1", "a-label-of-more-than-19-bytes-2",
	"a-label-of-more", "eightbyt", "sevenby",
};
#define LABELS (sizeof labels / sizeof labels[0])

static size_t random_name(struct random *random, char *out) {
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

static void random_address(struct random *random, struct address *address) {
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

static void random_mask(struct random *random, char *out) {
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

static void compare_once(struct random *random, const struct set *set) {
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

TEST(random_sets_agree_with_naive) {
	struct random random = random_seeded("random_sets_agree_with_naive");

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

TEST(equal_rules_give_equal_indexes) {
	struct random random = random_seeded("equal_rules_give_equal_indexes");
	struct set one = set_new(500), other = set_new(500);

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
TEST(hundred_thousand_rules) {
	struct random random = random_seeded("hundred_thousand_rules");
	const uint32_t wanted = 100000;
	struct set set = set_new(wanted);
	char text[300];

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
