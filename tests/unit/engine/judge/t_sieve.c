/* SPDX-License-Identifier: ISC */
/* The sieve of patterns: it spares much, and never one that matches. */
#include "tests/unit/test.h"
#include "base/pattern.h"
#include "base/text.h"
#include "engine/judge/sieve.h"
#include "tests/unit/random.h"

static bool may_match(const char *pattern, const char *text) {
	struct sieve *sieve = sieve_open(&pattern, 1);
	bool result;

	assert_non_null(sieve);
	sieve_shake(sieve, text, strlen(text));
	result = sieve_next(sieve, 0, 1) == 0;
	sieve_close(&sieve);
	assert_null(sieve);
	return result;
}

TEST(what_a_pattern_needs_is_found) {
	static const struct {
		const char *pattern, *text;
		bool may;
	} cases[] = {
		{ "slow down", "450 mailbox full", false },
		{ "slow down", "421 SLOW DOWN", true },
		{ "abc|def", "xx def", true }, { "abc|def", "xx dex", false },
		{ "^4.*(greylist|postgrey)", "450 no", false },
		{ "^4.*(greylist|postgrey)", "450 Greylisted", true },
		{ "x(abc)+y", "abc", true }, { "x(abc)+y", "ab", false },
		{ "4\\.7\\.28 ", "4.7.28 x", true }, { "4\\.7\\.28 ", "4-7-28 x", false },
		/* nothing can be said: always tried */
		{ "x(abc)?y", "-", true }, { "abc|d", "-", true }, { "a.b.c", "-", true },
		{ "[abc][def]", "-", true }, { "\\d\\d\\d", "-", true }, { "(abc)*", "-", true },
		{ "abc{0,2}", "-", true }, { "(?=abc)", "-", true }, { "(?i)abc", "-", true },
		{ "\\Qabc\\E", "-", true }, { "a(?#b)bc", "-", true }, { "\\x41bcd", "-", true },
		{ "(?:abc|)", "-", true }, { "|abc", "-", true }, { "", "-", true },
		{ "ab", "-", true }, { "((((((((((abc))))))))))", "-", true },
		/* half of a word may be left out */
		{ "abcd?", "abc", true }, { "abcd*e", "abce", true }, { "abc+d", "abccd", true },
		{ "colou?r", "color", true }, { "colou?r", "co", false },
		{ "abcd{2}", "abcdd", true }, { "[x]abc", "abc", true },
		{ "abc{", "-", true }, { "abc{,2}", "-", true },
		{ "[]abc]def", "def", true }, { "[^]abc]def", "d-f", false },
		{ "[[:alpha:]]def", "-", true }, { "[\\]abc]def", "-", false },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (may_match(cases[i].pattern, cases[i].text) != cases[i].may)
			fail_msg("%s: %s", cases[i].pattern, cases[i].text);
}

TEST(the_next_of_many_is_told) {
	const char *patterns[200];
	struct sieve *sieve;

	for (size_t i = 0; i < 200; i++)
		patterns[i] = i % 70 == 5 ? "needle" : i == 199 ? "." : "other";
	sieve = sieve_open(patterns, 200);
	assert_non_null(sieve);
	sieve_shake(sieve, "a needle", 8);
	assert_int_equal(sieve_next(sieve, 0, 200), 5);
	assert_int_equal(sieve_next(sieve, 5, 200), 5);
	assert_int_equal(sieve_next(sieve, 6, 200), 75);
	assert_int_equal(sieve_next(sieve, 76, 145), 145);
	assert_int_equal(sieve_next(sieve, 76, 200), 145);
	assert_int_equal(sieve_next(sieve, 146, 200), 199);
	assert_int_equal(sieve_next(sieve, 200, 200), 200);
	sieve_shake(sieve, "", 0);
	assert_int_equal(sieve_next(sieve, 0, 200), 199);
	sieve_close(&sieve);
	sieve = sieve_open(patterns, 0);
	assert_non_null(sieve);
	sieve_shake(sieve, "x", 1);
	assert_int_equal(sieve_next(sieve, 0, 0), 0);
	sieve_close(&sieve);
}

/* Patterns and texts by chance, out of the same few pieces, so that many match. */
TEST(no_match_is_lost) {
	static const char *const pieces[] = { "abc", "bcd", "cda", "a", "b", "d", "(", ")", "(?:", "|",
		"?", "*", "+", "{2}", "{0,1}", "{1,}", "+?", "?+", ".", "[ab]", "[^c]", "[]d]", "^", "$",
		"\\.", "\\b", "\\w", "\\d", "abcd", "4.7", "-", "(?i)", "{", "}" };
	struct random random = random_seeded("t_sieve");
	struct pattern_room *room = pattern_room_open();
	unsigned compiled = 0, matched = 0, spared = 0;

	assert_non_null(room);
	for (int round = 0; round < 60000; round++) {
		struct pattern *pattern;
		char text[160] = "", why[160];
		size_t at, length = 0;

		for (uint32_t n = 1 + random_below(&random, 7); n > 0; n--)
			length = text_append(text, sizeof(text), length, "%s", pieces[random_below(&random,
			    sizeof(pieces) / sizeof(pieces[0]))]);
		if (pattern_compile(&pattern, text, false, why, sizeof(why), &at) != 0)
			continue;
		compiled++;
		for (int i = 0; i < 4; i++) {
			char subject[24];
			uint32_t letters = random_below(&random, sizeof(subject));
			bool may;

			for (uint32_t k = 0; k < letters; k++)
				subject[k] = "abcdABC.-47"[random_below(&random, 11)];
			subject[letters] = '\0';
			may = may_match(text, subject);
			spared += !may;
			if (pattern_match(pattern, room, subject, letters) != PATTERN_MATCH)
				continue;
			matched++;
			if (!may)
				fail_msg("%s matches %s", text, subject);
		}
		pattern_free(&pattern);
	}
	pattern_room_close(&room);
	assert_true(compiled > 1000 && matched > 1000 && spared > 1000);
}
