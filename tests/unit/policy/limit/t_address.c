/* SPDX-License-Identifier: ISC */
/* Addresses and prefixes: texts in, texts out, bits. */
#include <arpa/inet.h>

#include "tests/unit/test.h"
#include "policy/limit/address.h"
#include "tests/unit/random.h"

/* From a block of exactly its length, so that ASan sees a step outside. */
static bool parse(const char *text, struct address *out) {
	size_t length = strlen(text);
	char *copy = malloc(length ? length : 1);
	bool good;

	assert_non_null(copy);
	memcpy(copy, text, length);
	good = address_parse(copy, length, out);
	free(copy);
	return good;
}

TEST(good_texts) {
	static const struct {
		const char *text;
		const char *usual;
	} cases[] = {
		{ "192.0.2.1", "192.0.2.1" },
		{ "0.0.0.0", "0.0.0.0" },
		{ "255.255.255.255", "255.255.255.255" },
		{ "[192.0.2.1]", "192.0.2.1" },
		{ "::ffff:192.0.2.1", "192.0.2.1" },
		{ "::FFFF:c000:201", "192.0.2.1" },
		{ "0:0:0:0:0:ffff:192.0.2.1", "192.0.2.1" },
		{ "IPv6:::ffff:192.0.2.1", "192.0.2.1" },
		{ "::", "unknown" },
		{ "::1", "::1" },
		{ "1::", "1::" },
		{ "[::1]", "::1" },
		{ "[IPv6:::1]", "::1" },
		{ "ipv6:2001:DB8::A", "2001:db8::a" },
		{ "2001:0db8:0000:0000:0000:0000:0000:0001", "2001:db8::1" },
		{ "2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1" },
		{ "2001:0:0:1:0:0:0:1", "2001:0:0:1::1" },
		{ "2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1" },
		{ "1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0" },
		{ "::2:3:4:5:6:7:8", "0:2:3:4:5:6:7:8" },
		{ "1:2:3:4:5:6:77.7.7.7", "1:2:3:4:5:6:4d07:707" },
		{ "64:ff9b::192.0.2.33", "64:ff9b::c000:221" },
		{ "::fffe:192.0.2.1", "::fffe:c000:201" },
		{ "fe80::", "fe80::" },
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct address address;
		char text[ADDRESS_TEXT_MAX];

		print_message("%s\n", cases[i].text);
		assert_true(parse(cases[i].text, &address));
		assert_int_equal(address_format(&address, text), strlen(cases[i].usual));
		assert_string_equal(text, cases[i].usual);
	}
}

TEST(bad_texts) {
	static const char *const cases[] = {
		"", " ", "1", "1.2.3", "1.2.3.", ".1.2.3", "1.2.3.4.", "1.2.3.4.5", "1..3.4",
		"256.1.1.1", "1.1.1.1000", "01.2.3.4", "1.2.3.00", "1.2.3.4 ", " 1.2.3.4",
		"1.2.3.a", "0x1.2.3.4", "-1.2.3.4", "+1.2.3.4", "[1.2.3.4", "1.2.3.4]", "[]", "[",
		"]", "[[1.2.3.4]]", "IPv6:", "IPv6:1.2.3.4", "[IPv6:]", "IPv6:[::1]", ":", ":::",
		"::1::", "1::2::3", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "1:2:3:4:5:6:7:8::",
		"::1:2:3:4:5:6:7:8", ":1:2:3:4:5:6:7", "1:2:3:4:5:6:7:", "12345::", "g::", "::g",
		"fe80::1%eth0", "::1.2.3", "::1.2.3.4.5", "::1.2.3.4:5", "1:2:3:4:5:6:7:1.2.3.4",
		"1.2.3.4::", "::256.1.1.1", "1:::2", "unknown", "::/0", "::ffff:1.2.3.4/32",
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct address address, before;

		memset(&before, 0x5a, sizeof before);
		address = before;
		print_message("\"%s\"\n", cases[i]);
		assert_false(parse(cases[i], &address));
		assert_true(address_equal(&address, &before));
	}
	/* A NUL is a character like another. */
	assert_false(address_parse("1.2.3.4\0", 8, &(struct address){ { 0 } }));
	assert_false(address_parse("::1\0", 4, &(struct address){ { 0 } }));
}

/* Whatever is written is read back, and the C library reads and writes the same
 * (but for ::a.b.c.d, which it prints with dots). */
TEST(random_addresses_and_the_c_library) {
	struct random random = random_seeded("random_addresses_and_the_c_library");

	for (int i = 0; i < 200000; i++) {
		static const uint8_t bytes[] = { 0, 0, 0, 0, 0, 1, 0x10, 0xff };
		struct address address, again;
		char text[ADDRESS_TEXT_MAX], theirs[INET6_ADDRSTRLEN];
		uint8_t read[16];
		size_t length;

		for (int byte = 0; byte < 16; byte++)
			address.bytes[byte] = i % 2 == 0 ?
			    bytes[random_below(&random, 8)] :
			    (uint8_t)random_below(&random, 256);
		if (i % 7 == 0) {
			memset(address.bytes, 0, 10);
			address.bytes[10] = address.bytes[11] = 0xff;
		}
		if (address_is_unknown(&address))
			continue;
		length = address_format(&address, text);
		assert_int_equal(length, strlen(text));
		assert_true(length < ADDRESS_TEXT_MAX);
		assert_true(parse(text, &again));
		assert_true(address_equal(&address, &again));
		if (address_is_v4(&address)) {
			assert_int_equal(inet_pton(AF_INET, text, read), 1);
			assert_memory_equal(read, address.bytes + 12, 4);
			continue;
		}
		assert_int_equal(inet_pton(AF_INET6, text, read), 1);
		assert_memory_equal(read, address.bytes, 16);
		inet_ntop(AF_INET6, address.bytes, theirs, sizeof theirs);
		if (strchr(theirs, '.') == NULL)
			assert_string_equal(text, theirs);
	}
}

/* Texts of the characters that addresses are made of: we and the C library agree
 * on what is one (RFC 4291 leaves "::" for one group open: both take it). */
TEST(random_texts_and_the_c_library) {
	struct random random = random_seeded("random_texts_and_the_c_library");
	unsigned good = 0;

	for (int i = 0; i < 400000; i++) {
		static const char alphabet[] = "::::....0012aF";
		char text[32];
		size_t length = random_below(&random, 20);
		struct address address;
		uint8_t read[16];
		bool ours, theirs;

		for (size_t at = 0; at < length; at++)
			text[at] = alphabet[random_below(&random, sizeof alphabet - 1)];
		text[length] = '\0';
		ours = parse(text, &address);
		theirs = inet_pton(AF_INET6, text, read) == 1 ||
		    inet_pton(AF_INET, text, read) == 1;
		if (ours != theirs)
			print_message("\"%s\": ours %d, theirs %d\n", text, ours, theirs);
		assert_int_equal(ours, theirs);
		good += ours;
	}
	assert_true(good > 100);
}

TEST(equality_and_families) {
	static const char *const texts[] = {
		"::", "::1", "::fffe:ffff:ffff", "0.0.0.0", "0.0.0.1", "127.255.255.255",
		"128.0.0.0", "255.255.255.255", "::1:0:0:0", "2001:db8::", "ff00::",
	};
	size_t count = sizeof texts / sizeof texts[0];

	for (size_t i = 0; i < count; i++)
		for (size_t j = 0; j < count; j++) {
			struct address a, b;

			assert_true(parse(texts[i], &a));
			assert_true(parse(texts[j], &b));
			assert_int_equal(address_equal(&a, &b), i == j);
			assert_int_equal(address_is_v4(&a), i >= 3 && i <= 7);
			assert_int_equal(address_is_unknown(&a), i == 0);
		}
}

TEST(truncate_to_bits) {
	for (unsigned bits = 0; bits <= 128; bits++) {
		struct address address;

		memset(&address, 0xff, sizeof address);
		address_truncate(&address, bits);
		for (unsigned bit = 0; bit < 128; bit++)
			assert_int_equal(address.bytes[bit / 8] >> (7 - bit % 8) & 1, bit < bits);
	}
}

TEST(prefixes) {
	static const struct {
		const char *text;
		const char *usual;	/* NULL: an error */
		const char *inside;
		const char *outside;
	} cases[] = {
		{ "192.0.2.0/24", "192.0.2.0/24", "192.0.2.255", "192.0.3.0" },
		{ "192.0.2.7", "192.0.2.7/32", "::ffff:192.0.2.7", "192.0.2.6" },
		{ "192.0.2.7/32", "192.0.2.7/32", "192.0.2.7", "192.0.2.8" },
		{ "0.0.0.0/0", "0.0.0.0/0", "255.255.255.255", "2001:db8::1" },
		{ "128.0.0.0/1", "128.0.0.0/1", "128.0.0.0", "127.255.255.255" },
		{ "[10.0.0.0]/8", "10.0.0.0/8", "10.9.8.7", "11.0.0.0" },
		{ "::ffff:10.0.0.0/104", "10.0.0.0/8", "10.9.8.7", "11.0.0.0" },
		{ "::ffff:0:0/96", "0.0.0.0/0", "10.9.8.7", "::1" },
		{ "2001:db8::/32", "2001:db8::/32", "2001:db8:ffff::1", "2001:db9::" },
		{ "2001:db8::1", "2001:db8::1/128", "2001:db8::1", "2001:db8::2" },
		{ "[2001:db8::]/33", "2001:db8::/33", "2001:db8:7fff::", "2001:db8:8000::" },
		{ "IPv6:2001:db8::/32", "2001:db8::/32", "2001:db8::1", "2001:db9::1" },
		{ "::/0", "::/0", "2001:db8::1", "192.0.2.1" },
		{ "::/0", "::/0", "::1", "::" },
		{ "::/64", "::/64", "::1", "192.0.2.1" },
		{ "192.0.2.1/24", NULL, NULL, NULL },
		{ "192.0.2.128/24", NULL, NULL, NULL },
		{ "128.0.0.0/0", NULL, NULL, NULL },
		{ "2001:db8::1/127", NULL, NULL, NULL },
		{ "::1/0", NULL, NULL, NULL },
		{ "192.0.2.0/33", NULL, NULL, NULL },
		{ "192.0.2.0/-1", NULL, NULL, NULL },
		{ "192.0.2.0/", NULL, NULL, NULL },
		{ "192.0.2.0/08", NULL, NULL, NULL },
		{ "192.0.2.0/24/24", NULL, NULL, NULL },
		{ "/24", NULL, NULL, NULL },
		{ "", NULL, NULL, NULL },
		{ "192.0.2/24", NULL, NULL, NULL },
		{ "::/129", NULL, NULL, NULL },
		{ "::/1000", NULL, NULL, NULL },
		{ "::ffff:0:0/95", NULL, NULL, NULL },
		{ "::ffff:10.0.0.0/8", NULL, NULL, NULL },
		{ "192.0.2.0/255.255.255.0", NULL, NULL, NULL },
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct prefix prefix;
		struct address address;
		const char *why = NULL;
		char text[ADDRESS_TEXT_MAX];
		bool good = prefix_parse(cases[i].text, strlen(cases[i].text), &prefix, &why);

		print_message("%s%s%s\n", cases[i].text, good ? "" : ": ", good ? "" : why);
		assert_int_equal(good, cases[i].usual != NULL);
		if (!good) {
			assert_non_null(why);
			continue;
		}
		assert_int_equal(prefix_format(&prefix, text), strlen(cases[i].usual));
		assert_string_equal(text, cases[i].usual);
		assert_true(parse(cases[i].inside, &address));
		assert_true(prefix_contains(&prefix, &address));
		assert_true(parse(cases[i].outside, &address));
		assert_false(prefix_contains(&prefix, &address));
	}
}

TEST(the_longest_text_fits) {
	struct prefix prefix = { .bits = 128 };
	char text[ADDRESS_TEXT_MAX];

	memset(&prefix.base, 0xff, sizeof prefix.base);
	assert_int_equal(prefix_format(&prefix, text), 43);
	assert_string_equal(text, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128");
}
