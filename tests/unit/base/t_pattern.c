/* SPDX-License-Identifier: ISC */
/* Patterns: what they match, what is wrong with some, and that none can hang. */
#include <time.h>
#include "tests/unit/test.h"
#include "base/pattern.h"

static enum pattern_result match(const char *pattern, const char *text, size_t length, bool fast) {
	struct pattern_room *room = pattern_room_open();
	struct pattern *compiled;
	enum pattern_result result;
	char why[160] = "";
	size_t at;

	assert_non_null(room);
	if (pattern_compile(&compiled, pattern, fast, why, sizeof(why), &at) != 0)
		fail_msg("%s: %s at %zu", pattern, why, at);
	result = pattern_match(compiled, room, text, length);
	pattern_free(&compiled);
	assert_null(compiled);
	pattern_room_close(&room);
	assert_null(room);
	return result;
}

TEST(a_pattern_is_found_anywhere) {
	static const struct {
		const char *pattern, *text;
		enum pattern_result result;
	} cases[] = {
		{ "slow down", "421 Too many connections, SLOW DOWN.", PATTERN_MATCH },
		{ "^421", "421 no", PATTERN_MATCH },
		{ "^421", "1421 no", PATTERN_NO_MATCH },
		{ "^4..[ -]4\\.7\\.28 ", "421-4.7.28 [192.0.2.1] rate", PATTERN_MATCH },
		{ "^4..[ -]4\\.7\\.28 ", "421-4.7.280 [192.0.2.1] rate", PATTERN_NO_MATCH },
		{ "\\bRL\\d{6}\\b", "421 RL000003 no", PATTERN_MATCH },
		{ "a", "", PATTERN_NO_MATCH },
		{ "^$", "", PATTERN_MATCH },
		{ "\xc3\xa9", "caf\xc3\xa9", PATTERN_MATCH },	/* bytes, whatever they mean */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (int fast = 0; fast < 2; fast++)
			assert_int_equal(match(cases[i].pattern, cases[i].text,
			    strlen(cases[i].text), fast != 0), cases[i].result);
	assert_int_equal(match("b", "a\0b", 3, true), PATTERN_MATCH);
}

TEST(the_rest_of_a_long_text_is_not_looked_at) {
	char text[PATTERN_SUBJECT_MAX + 1];

	memset(text, 'x', sizeof(text));
	text[PATTERN_SUBJECT_MAX - 1] = 'y';
	text[PATTERN_SUBJECT_MAX] = 'z';
	assert_int_equal(match("y", text, sizeof(text), true), PATTERN_MATCH);
	assert_int_equal(match("z", text, sizeof(text), true), PATTERN_NO_MATCH);
}

TEST(a_mistake_has_a_place_and_a_reason) {
	static const struct {
		const char *pattern, *why;
		size_t at;
	} cases[] = {
		{ "a(b", "missing closing parenthesis", 3 },
		{ "a[b", "missing terminating ] for character class", 3 },
		{ "*", "quantifier does not follow a repeatable item", 0 },
		{ "(a)\\1", "reference to non-existent subpattern", 5 },
		{ "(*UTF)a", "using UTF is disabled by the application", 6 },
		{ "a\\C", "using \\C is disabled", 3 },
		{ "((a{1000}){1000}){1000}", "regular expression is too large", 18 },
		{ "", "it is empty", 0 },
	};
	struct pattern *pattern;
	char why[160], big[PATTERN_TEXT_MAX + 2];
	size_t at;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(pattern_compile(&pattern, cases[i].pattern, false, why,
		    sizeof(why), &at), -1);
		assert_null(pattern);
		if (strstr(why, cases[i].why) == NULL)
			fail_msg("%s: %s", cases[i].pattern, why);
		assert_in_range(at, 0, strlen(cases[i].pattern));
	}
	memset(big, 'a', sizeof(big));
	big[PATTERN_TEXT_MAX + 1] = '\0';
	assert_int_equal(pattern_compile(&pattern, big, false, why, sizeof(why), &at), -1);
	assert_string_equal(why, "it is too long");
	big[PATTERN_TEXT_MAX] = '\0';
	assert_int_equal(pattern_compile(&pattern, big, false, why, sizeof(why), &at), 0);
	pattern_free(&pattern);
}

static double seconds(void) {
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Without limits each of these takes years, or all of the stack. */
TEST(no_pattern_hangs) {
	static const char *const patterns[] = {
		"(a+)+$", "(a|aa)+$", "(a|a?)+$", "^(([a-z])+.)+[A-Z]([a-z])+$",
		"(?:(?:(?:a?){30}){30})+b", "(.*a){20}$x", "(.|.|.|.|.)*y9",
		"(?:a(?R)?)*c", "(.*?){100}\\d", "((a*)*)*\\d", "(?=(a+)+\\d)a",
		"(?<!b)(?:[a-z]*)*\\d{3}",
	};
	char text[PATTERN_SUBJECT_MAX];

	for (int mark = 0; mark < 2; mark++) {
		memset(text, 'a', sizeof(text));
		text[sizeof(text) - 1] = mark ? '!' : 'a';
		for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++)
			for (int fast = 0; fast < 2; fast++) {
				double before = seconds();

				(void)match(patterns[i], text, sizeof(text), fast != 0);
				if (seconds() - before > 0.5)
					fail_msg("%s took %.1f s", patterns[i],
					    seconds() - before);
			}
	}
	text[sizeof(text) - 1] = '!';
	for (int fast = 0; fast < 2; fast++)
		assert_int_equal(match("(a|aa)+$", text, sizeof(text), fast != 0),
		    PATTERN_GAVE_UP);
}
