/* SPDX-License-Identifier: ISC */
#include "tests/unit/test.h"
#include "base/clock.h"
#include "base/diag.h"
#include "base/text.h"

TEST(append_cuts_and_stays_terminated) {
	char buffer[8] = "";
	size_t length = text_append(buffer, sizeof(buffer), 0, "%s", "abc");

	assert_int_equal(length, 3);
	length = text_append(buffer, sizeof(buffer), length, "%d", 12345678);
	assert_int_equal(length, 7);
	assert_string_equal(buffer, "abc1234");
	length = text_append(buffer, sizeof(buffer), length, "x");
	assert_int_equal(length, 7);
	assert_string_equal(buffer, "abc1234");
	assert_int_equal(text_append(buffer, 0, 0, "x"), 0);
}

TEST(copy_tells_when_it_cut) {
	char out[4];

	assert_true(text_copy(out, sizeof(out), "abc", 3));
	assert_string_equal(out, "abc");
	assert_false(text_copy(out, sizeof(out), "abcd", 4));
	assert_string_equal(out, "abc");
	assert_true(text_copy(out, sizeof(out), NULL, 0));
	assert_string_equal(out, "");
}

static bool u32(const char *text, uint32_t max, uint32_t *out) {
	return text_to_u32(text, strlen(text), max, out);
}

TEST(numbers) {
	uint32_t value = 7;

	assert_true(u32("0", 10, &value));
	assert_int_equal(value, 0);
	assert_true(u32("4294967295", UINT32_MAX, &value));
	assert_true(value == UINT32_MAX);
	value = 7;
	assert_false(u32("4294967296", UINT32_MAX, &value));
	assert_false(u32("99999999999999999999999", UINT32_MAX, &value));
	assert_false(u32("11", 10, &value));
	assert_false(u32("11", 5, &value));
	assert_false(u32("9", 5, &value));
	assert_false(u32("", 10, &value));
	assert_false(u32("-1", 10, &value));
	assert_false(u32("+1", 10, &value));
	assert_false(u32(" 1", 10, &value));
	assert_false(u32("1 ", 10, &value));
	assert_false(u32("0x1", 10, &value));
	assert_int_equal(value, 7);
}

TEST(numbers_of_64_bits) {
	static const char *const bad[] = { "", "18446744073709551616", "99999999999999999999",
	    "-1", "+1", " 1", "1 ", "0x1", "1k" };
	uint64_t value = 7;

	assert_true(text_to_u64("0", &value));
	assert_true(value == 0);
	assert_true(text_to_u64("007", &value));
	assert_true(value == 7);
	assert_true(text_to_u64("18446744073709551615", &value));
	assert_true(value == UINT64_MAX);
	value = 7;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(text_to_u64(bad[i], &value));
	assert_true(value == 7);
}

TEST(sizes) {
	static const char *const bad[] = { "", "k", "1kb", "1t", "-1", "1.5k", " 1", "1 k",
	    "18446744073709551616", "18014398509481984k" };
	uint64_t value = 3;

	assert_true(text_to_size("300", &value));
	assert_true(value == 300);
	assert_true(text_to_size("64k", &value));
	assert_true(value == 65536);
	assert_true(text_to_size("1M", &value));
	assert_true(value == 1 << 20);
	assert_true(text_to_size("5G", &value));
	assert_true(value == UINT64_C(5) << 30);
	assert_true(text_to_size("18446744073709551615", &value));
	assert_true(value == UINT64_MAX);
	value = 3;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(text_to_size(bad[i], &value));
	assert_true(value == 3);
}

TEST(durations_and_rates) {
	static const char *const bad[] = { "", "s", "90", "1.5s", "1w", "-1s", "90 s",
	    "9223372036854775807s", "99999999999999999999ms" };
	static const char *const bad_rates[] = { "", "60", "60/", "/1m", "0/1m", "60/0s",
	    "4294967296/s", "60/1", "60/x", "60//s" };
	int64_t ns = 5;
	uint32_t count = 6;

	assert_true(text_to_duration_ns("500ms", &ns));
	assert_true(ns == 500 * NS_PER_MS);
	assert_true(text_to_duration_ns("90s", &ns));
	assert_true(ns == 90 * NS_PER_SECOND);
	assert_true(text_to_duration_ns("5m", &ns));
	assert_true(ns == 300 * NS_PER_SECOND);
	assert_true(text_to_duration_ns("1h", &ns));
	assert_true(ns == 3600 * NS_PER_SECOND);
	assert_true(text_to_duration_ns("2d", &ns));
	assert_true(ns == 2 * 86400 * NS_PER_SECOND);
	assert_true(text_to_duration_ns("0s", &ns));
	assert_true(ns == 0);
	ns = 5;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(text_to_duration_ns(bad[i], &ns));
	for (size_t i = 0; i < sizeof(bad_rates) / sizeof(bad_rates[0]); i++)
		assert_false(text_to_rate(bad_rates[i], &count, &ns));
	assert_true(ns == 5 && count == 6);
	assert_true(text_to_rate("60/1m", &count, &ns));
	assert_true(count == 60 && ns == 60 * NS_PER_SECOND);
	assert_true(text_to_rate("5/s", &count, &ns));
	assert_true(count == 5 && ns == NS_PER_SECOND);
}

TEST(diag_keeps_the_error_and_says_it) {
	struct diag diag;
	char longer[600];

	assert_int_equal(diag_set(&diag, 0, "no %s", "luck"), -1);
	assert_int_equal(diag.error, 0);
	assert_string_equal(diag.text, "no luck");
	diag_set(&diag, 2, "/x");
	assert_int_equal(diag.error, 2);
	assert_string_equal(diag.text, "/x: No such file or directory");
	memset(longer, 'a', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	diag_set(&diag, 2, "%s", longer);
	assert_int_equal(strlen(diag.text), sizeof(diag.text) - 1);
}

TEST(distances_count_edits) {
	static const struct {
		const char *a, *b;
		unsigned distance;
	} rows[] = {
		{ "", "", 0 }, { "", "abc", 3 }, { "abc", "", 3 }, { "sesions", "sessions", 1 },
		{ "stauts", "status", 1 }, { "kitten", "sitting", 3 }, { "ab", "ba", 1 },
		{ "12345678901234567890123456789012", "12345678901234567890123456789012", 0 },
		{ "123456789012345678901234567890123", "1", UINT32_MAX },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(text_distance(rows[i].a, rows[i].b), rows[i].distance);
}

TEST(hosts_are_bared) {
	static const char *const rows[][2] = {
		{ "a.example", "a.example" }, { "a.example.", "a.example" },
		{ "[192.0.2.1]", "192.0.2.1" }, { "[mx.example].", "mx.example" },
		{ "", "" }, { ".", "" }, { "[]", "[]" }, { "[a", "[a" }, { "a..", "a." },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *text = rows[i][0];
		size_t length = text_bare_host(&text, strlen(text));

		assert_int_equal(length, strlen(rows[i][1]));
		assert_memory_equal(text, rows[i][1], length);
	}
}

/* Each value at each of eight places, beside each other place's least and highest. */
TEST(eight_bytes_are_printable_when_each_is) {
	static const char others[] = " ~a";

	for (unsigned other = 0; other < 3; other++)
		for (unsigned place = 0; place < 8; place++)
			for (unsigned value = 0; value < 256; value++) {
				char eight[8];

				memset(eight, others[other], sizeof(eight));
				eight[place] = (char)value;
				assert_int_equal(text_eight_printable(eight),
				    value >= ' ' && value <= '~');
			}
	assert_false(text_eight_printable("a\x1f bcde\xff"));
}

TEST(the_clock_goes_on) {
	int64_t before = clock_now_ns();

	assert_true(before > 0);
	assert_true(clock_now_ns() >= before);
	assert_true(clock_wall_s() > 1600000000);
}
